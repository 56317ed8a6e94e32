/**
 * What the extension adds before a request, in each host's own Node and command line: its `context` and `turn_end`
 * handlers as the host calls them, as ratios to `structuredClone` of the same messages, which the host does anyway. The
 * session is taken up from its file with output pending. Arguments: hosts, values of pruneOn and numbers of messages to
 * keep to, for example `old cache-aware 10000`.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { createFolders, HOSTS, type Host, type PiFolders, runPi } from "../test/support/print-mode.ts";
import { generateConversation, repeat } from "./conversation.ts";
import type { HandlerTime } from "./timed-product.ts";

const MODES = ["every-turn", "agent-message", "on-context-tag", "on-demand", "cache-aware"];
const SIZES = [1_000, 3_000, 10_000];
/** Tool turns of the run that is measured. */
const TURNS = 24;
/** Messages at the end of the file that no flush has seen. */
const PENDING = 17;

const MODEL = {
  id: "main",
  contextWindow: 100_000_000,
  maxTokens: 8_000,
  cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
};

interface Figures {
  host: Host;
  pruneOn: string;
  messages: number;
  cloneMs: number;
  /** Ratios to `cloneMs`: the first request, the median and the slowest of those after it, those with a flush. */
  first: number;
  request: number;
  slowest: number;
  flushing: number;
  turnEnd: number;
}

const wanted = process.argv.slice(2);
const keep = (name: string, others: readonly string[]) =>
  wanted.includes(name) || !others.some((other) => wanted.includes(other));
process.stdout.write("host pruneOn         messages  clone ms    first  request  slowest  flushing  turn_end\n");
for (const host of HOSTS.filter((name) => keep(name, HOSTS)))
  for (const size of SIZES.filter((number) => keep(String(number), SIZES.map(String))))
    for (const pruneOn of MODES.filter((mode) => keep(mode, MODES))) {
      const figures = await measure(host, pruneOn, size);
      process.stdout.write(`${lineOf(figures)}\n`);
    }

async function measure(host: Host, pruneOn: string, size: number): Promise<Figures> {
  const folders = createFolders({ "notes.md": "A line of the notes that are read.\n".repeat(120) });
  try {
    const messages = repeat(generateConversation(3_000), size);
    const file = join(folders.sessionDir, "2026-01-01T00-00-00-000Z_bench.jsonl");
    const settled = messages.slice(0, -PENDING);
    writeFileSync(file, linesOf(settled, folders, undefined));
    const options = { folders, session: file, product: join(import.meta.dir, "timed-product.ts"), timeoutMs: 300_000 };
    const settings = { contextPrune: { summarizerModel: "none", pruneOn } };
    const times = join(folders.root, "times.jsonl");
    const env = { HANDLER_TIMES: times };
    await runPi(host, { ...options, env, settings, prompts: ["/pruner compact"], script: { models: [MODEL] } });
    writeFileSync(file, linesOf(messages.slice(-PENDING), folders, readFileSync(file, "utf8")));
    rmSync(times, { force: true });
    const calls = Array.from({ length: TURNS }, (_, i) => ({
      calls: [{ id: `n${i}`, name: "read", arguments: { path: "notes.md", offset: 1 + i } }],
    }));
    const script = { models: [MODEL], replies: [...calls, { text: "Read." }] };
    const { code, stderr } = await runPi(host, { ...options, env, settings, prompts: ["read the notes"], script });
    if (code !== 0) throw new Error(stderr);
    return figuresOf(host, pruneOn, size, readTimes(times));
  } finally {
    folders.remove();
  }
}

/** The lines of a session file, behind those that it has already. */
function linesOf(messages: readonly AgentMessage[], folders: PiFolders, before: string | undefined): string {
  const header = { type: "session", version: 3, id: "bench", timestamp: new Date(0).toISOString(), cwd: folders.cwd };
  const known = before === undefined ? [JSON.stringify(header)] : before.trimEnd().split("\n");
  const last: { id?: string; type: string } = JSON.parse(known.at(-1) ?? "{}");
  let parentId = last.type === "session" ? null : (last.id ?? null);
  const added = messages.map((message, i) => {
    const id = `m${known.length + i}`;
    const entry = { type: "message", id, parentId, timestamp: new Date(message.timestamp).toISOString(), message };
    parentId = id;
    return JSON.stringify(entry);
  });
  return `${[...known, ...added].join("\n")}\n`;
}

function readTimes(file: string): HandlerTime[] {
  return readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

function figuresOf(host: Host, pruneOn: string, messages: number, times: readonly HandlerTime[]): Figures {
  const requests = times.filter(({ event }) => event === "context");
  const ratios = (calls: readonly HandlerTime[]) => calls.map(({ ms }) => ms / cloneMs);
  const cloneMs = median(requests.map((request) => request.cloneMs));
  const [first, ...later] = requests;
  return {
    host,
    pruneOn,
    messages,
    cloneMs,
    first: (first?.ms ?? 0) / cloneMs,
    request: median(ratios(later)),
    slowest: Math.max(0, ...ratios(later)),
    flushing: median(ratios(later.filter(({ appended }) => appended > 0))),
    turnEnd: median(ratios(times.filter(({ event }) => event === "turn_end"))),
  };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

function lineOf({ host, pruneOn, messages, cloneMs, ...ratios }: Figures): string {
  const { first, request, slowest, flushing, turnEnd } = ratios;
  const numbers = [first, request, slowest, flushing, turnEnd].map((ratio) => ratio.toFixed(3).padStart(9));
  return `${host.padEnd(4)} ${pruneOn.padEnd(15)} ${String(messages).padStart(8)} ${cloneMs.toFixed(1).padStart(9)}${numbers.join("")}`;
}
