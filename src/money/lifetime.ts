/** The bill over all sessions of this machine, from their files: one at a time, so that memory is that of the largest. */
import { createReadStream, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { readSessionFile } from "../replay/session-file.ts";
import { MemorySession } from "../session/memory-session.ts";
import { isRecord } from "../text/json.ts";
import { addBills, type Bill, emptyBill } from "./bill.ts";
import { Reckoner, type ReckonerOptions } from "./reckoner.ts";

/** Every entry of the extension names its type by this. */
const OWN_MARK = '"context-prune-';
/** Bytes of a file that is not read whole any more. */
const MAX_BYTES = 400_000_000;

/** What all sessions were billed. */
export interface Lifetime {
  sessions: number;
  /** Sessions that the extension has condensed something in, and their bill. */
  condensedSessions: number;
  bill: Bill;
  /** USD and prompt tokens that the other sessions' replies have recorded. */
  otherCost: number;
  otherTokens: number;
  /** Files that could not be read or are too large. */
  unread: string[];
}

/** The session files of these folders and of the folders in them, oldest name first, each once. */
export function sessionFiles(folders: readonly string[]): string[] {
  const files = folders.flatMap((folder) => {
    const inside = list(folder);
    const below = inside.filter(({ isFolder }) => isFolder).flatMap(({ path }) => list(path));
    return [...inside, ...below].filter(({ path, isFolder }) => !isFolder && path.endsWith(".jsonl"));
  });
  return [...new Set(files.map(({ path }) => path))].sort();
}

function list(folder: string): { path: string; isFolder: boolean }[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.map((entry) => ({ path: join(folder, entry.name), isFolder: entry.isDirectory() }));
  } catch {
    // A folder that is not there, or is not to be read, holds no sessions for us.
    return [];
  }
}

/** Adds up the sessions of these files. @param onProgress told how many are done */
export async function lifetimeOf(
  files: readonly string[],
  options: Pick<ReckonerOptions, "config" | "costOfModel" | "windowOf" | "lifetimeMs">,
  onProgress: (done: number) => void,
): Promise<Lifetime> {
  const all: Lifetime = {
    sessions: 0,
    condensedSessions: 0,
    bill: emptyBill(),
    otherCost: 0,
    otherTokens: 0,
    unread: [],
  };
  for (const [i, file] of files.entries()) {
    try {
      const found = await scan(file);
      if (found?.hasOwn) {
        all.bill = addBills(all.bill, reckonFile(file, found, options));
        all.condensedSessions += 1;
      } else if (found) {
        all.otherCost += found.cost;
        all.otherTokens += found.tokens;
      }
      if (found) all.sessions += 1;
    } catch {
      all.unread.push(file);
    }
    onProgress(i + 1);
  }
  return all;
}

/** What a look at each line tells. */
interface Scan {
  /** Of a fork, when it was made (ms): what is older is its parent's. */
  since: number | undefined;
  parentSession: string | undefined;
  hasOwn: boolean;
  cost: number;
  tokens: number;
}

/** `undefined` for a file that is no session. */
async function scan(file: string): Promise<Scan | undefined> {
  const found: Scan = { since: undefined, parentSession: undefined, hasOwn: false, cost: 0, tokens: 0 };
  const lines = createInterface({ input: createReadStream(file, "utf8"), crlfDelay: Number.POSITIVE_INFINITY });
  let isFirst = true;
  for await (const line of lines) {
    if (isFirst) {
      const header = parse(line);
      if (header?.type !== "session") return undefined;
      if (typeof header.parentSession === "string") {
        found.parentSession = header.parentSession;
        found.since = Date.parse(String(header.timestamp)) || undefined;
      }
      isFirst = false;
    } else if (!found.hasOwn && line.includes(OWN_MARK)) found.hasOwn = true;
    else if (!found.hasOwn && line.includes('"usage"')) addUsage(found, parse(line));
  }
  return isFirst ? undefined : found;
}

function addUsage(found: Scan, entry: Record<string, unknown> | undefined): void {
  const message = isRecord(entry?.message) ? entry.message : undefined;
  const usage = message?.role === "assistant" && isRecord(message.usage) ? message.usage : undefined;
  if (!usage || Date.parse(String(entry?.timestamp)) < (found.since ?? 0)) return;
  const amount = (value: unknown) => (typeof value === "number" && Number.isFinite(value) ? value : 0);
  found.tokens += amount(usage.input) + amount(usage.cacheRead) + amount(usage.cacheWrite);
  if (isRecord(usage.cost)) found.cost += amount(usage.cost.total);
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : undefined;
  } catch {
    // The line that was being written when its process died.
    return undefined;
  }
}

function reckonFile(file: string, { since, parentSession }: Scan, options: Omit<ReckonerOptions, "reader">): Bill {
  if (statSync(file).size > MAX_BYTES) throw new Error(`${file} is too large`);
  const { id, cwd, entries } = readSessionFile(file);
  const reader = new MemorySession({ cwd, sessionDir: dirname(file), name: id });
  reader.getHeader = () => (parentSession === undefined ? {} : { parentSession });
  return { ...new Reckoner({ ...options, reader, since }).follow(entries) };
}
