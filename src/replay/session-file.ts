/** Reads a session file without a host: every version of the format, from the linear one without ids on. */
import { readFileSync } from "node:fs";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { isRecord } from "../text/json.ts";
import { reasonOf } from "../text/text.ts";

/** Something that the user gave cannot be replayed. The message is a sentence for the user. */
export class ReplayInputError extends Error {
  override readonly name = "ReplayInputError";
}

/** A session as its file holds it, brought to the newest format. */
export interface RecordedSession {
  id: string;
  /** Folder that the session worked in; empty where the file does not say. */
  cwd: string;
  /** Entries in the order of the file; the last one is the leaf. */
  entries: SessionEntry[];
}

const FIRST_VERSION_WITH_IDS = 2;
const FIRST_VERSION_WITH_CUSTOM = 3;

/**
 * Reads and migrates a session file; the file is not changed.
 * @throws ReplayInputError where the file is missing, unreadable, empty, no session, or damaged; it names the line
 */
export function readSessionFile(path: string): RecordedSession {
  return parseSession(readText(path), path);
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const code = isRecord(error) ? error.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") throw new ReplayInputError(`${path}: there is no such file.`);
    if (code === "EISDIR") throw new ReplayInputError(`${path}: this is a folder, not a session file.`);
    throw new ReplayInputError(`${path}: it cannot be read (${reasonOf(error)}).`);
  }
}

/** As `readSessionFile`, for a text that came from `source`. */
export function parseSession(text: string, source: string): RecordedSession {
  const lines = text.replace(/^\uFEFF/, "").split("\n");
  const rows = lines.flatMap((line, i) => (line.trim() === "" ? [] : [{ number: i + 1, line }]));
  const [first, ...rest] = rows;
  if (!first) throw new ReplayInputError(`${source}: the file is empty.`);
  const header = parseHeader(first.line, source);
  const version = typeof header.version === "number" ? header.version : 1;
  const isLast = (number: number) => number === lines.length;
  const entries = rest.map(({ number, line }) => parseEntry(line, `${source}, line ${number}`, isLast(number)));
  const raw = version < FIRST_VERSION_WITH_IDS ? withIds(entries) : entries;
  const renamed = version < FIRST_VERSION_WITH_CUSTOM ? raw.map(renameHookMessage) : raw;
  const checked = renamed.map((entry, i) => {
    const problem = problemOf(entry);
    if (problem) throw new ReplayInputError(`${source}, line ${rest[i]?.number ?? 0}: ${problem}.`);
    return withNumericUsage(withMessageTime(entry));
  });
  return {
    id: typeof header.id === "string" ? header.id : "",
    cwd: typeof header.cwd === "string" ? header.cwd : "",
    // `problemOf` has seen to what is read of an entry.
    entries: checked as unknown as SessionEntry[],
  };
}

type RawEntry = Record<string, unknown>;

function parseHeader(line: string, source: string): RawEntry {
  const header = tryParse(line);
  if (!isRecord(header) || header.type !== "session") {
    throw new ReplayInputError(`${source}: this is no pi session: its first line is not a session header.`);
  }
  return header;
}

function parseEntry(line: string, where: string, unterminated: boolean): RawEntry {
  const entry = tryParse(line);
  if (isRecord(entry) && typeof entry.type === "string") return entry;
  const problem = isRecord(entry) ? "an entry without a type" : "not valid JSON";
  const hint = unterminated
    ? " It is the last line and has no end: the session was being written, or its writer died. Remove it to replay the rest."
    : " Remove or repair it to replay the rest.";
  throw new ReplayInputError(`${where}: ${problem}.${hint}`);
}

function tryParse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** The first format was a list: each entry follows the one before it, and a compaction names its first kept by place. */
function withIds(entries: readonly RawEntry[]): RawEntry[] {
  const idOf = (index: number) => `v1-${index + 1}`;
  return entries.map((entry, i) => {
    const linked = { ...entry, id: idOf(i), parentId: i === 0 ? null : idOf(i - 1) };
    // The place is counted from the header on.
    if (entry.type !== "compaction" || typeof entry.firstKeptEntryIndex !== "number") return linked;
    return { ...linked, firstKeptEntryId: idOf(entry.firstKeptEntryIndex - 1) };
  });
}

function renameHookMessage(entry: RawEntry): RawEntry {
  if (entry.type !== "message" || !isRecord(entry.message) || entry.message.role !== "hookMessage") return entry;
  return { ...entry, message: { ...entry.message, role: "custom" } };
}

/** What is missing of what the replay reads of an entry; anything else may be as it likes. */
function problemOf(entry: RawEntry): string | undefined {
  if (typeof entry.id !== "string") return "an entry without an id";
  if (entry.parentId !== null && typeof entry.parentId !== "string") return "an entry without a parent";
  if (entry.type === "compaction" && typeof entry.summary !== "string") return "a compaction without a summary";
  if (entry.type !== "message") return undefined;
  const { message } = entry;
  if (!isRecord(message) || typeof message.role !== "string") return "a message without a role";
  const { role, content } = message;
  const hasBlocks = role === "assistant" || role === "toolResult";
  if (hasBlocks && !Array.isArray(content)) return `a message of role ${role} without content`;
  if ((role === "user" || role === "custom") && !Array.isArray(content) && typeof content !== "string")
    return `a message of role ${role} without content`;
  if (Array.isArray(content) && !content.every((block) => isRecord(block) && typeof block.type === "string"))
    return `a message of role ${role} with something in it that is no block`;
  if (isDeep(content)) return `a message that is nested more than ${MAX_DEPTH} deep`;
  return message.role === "toolResult" && typeof message.toolCallId !== "string"
    ? "a result without a call"
    : undefined;
}

const TOKEN_KINDS = ["input", "output", "cacheRead", "cacheWrite", "totalTokens", "total"];

/** Tokens and costs that are no numbers count as none. */
function withNumericUsage(entry: RawEntry): RawEntry {
  if (entry.type !== "message" || !isRecord(entry.message) || !isRecord(entry.message.usage)) return entry;
  const { usage } = entry.message;
  const cost = isRecord(usage.cost) ? { cost: numeric(usage.cost) } : {};
  return { ...entry, message: { ...entry.message, usage: { ...numeric(usage), ...cost } } };
}

function numeric(amounts: RawEntry): RawEntry {
  const isAmount = (value: unknown) => typeof value === "number" && Number.isFinite(value) && value >= 0;
  const wrong = TOKEN_KINDS.filter((kind) => kind in amounts && !isAmount(amounts[kind]));
  return { ...amounts, ...Object.fromEntries(wrong.map((kind) => [kind, 0])) };
}

/** Beyond it, no tool takes arguments, and what serialises them ends on a full stack. */
const MAX_DEPTH = 500;

function isDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return true;
    level = level.flatMap((item) => (typeof item === "object" && item !== null ? Object.values(item) : []));
  }
  return false;
}

/** A message without a time of its own takes that of its entry. */
function withMessageTime(entry: RawEntry): RawEntry {
  if (entry.type !== "message" || !isRecord(entry.message) || typeof entry.message.timestamp === "number") return entry;
  const time = typeof entry.timestamp === "string" ? Date.parse(entry.timestamp) : Number.NaN;
  return { ...entry, message: { ...entry.message, timestamp: Number.isFinite(time) ? time : 0 } };
}
