/**
 * Time and memory of the hot paths, each as a ratio to the host's own work on the same messages in the same run, since
 * machines differ and are shared: a render against `structuredClone`, which the host does before every request, and a
 * rebuild against `JSON.parse` of the session file. `--json` prints the figures alone.
 */
import { setImmediate } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { RenderMemo } from "../src/engine/render-memo.ts";
import { SessionState } from "../src/engine/session-state.ts";
import { pruneMessages } from "../src/pruner.ts";
import type { RenderPlan } from "../src/render/plan.ts";
import { contentChars, isToolResult } from "../src/transcript/messages.ts";
import { agentDirWith, EntryTree, SimulatedSession } from "../test/support/simulated-session.ts";
import { generateConversation, repeat } from "./conversation.ts";
import { loadRecording } from "./recording.ts";

const SIZES = [1_000, 3_000, 10_000];
const ROUNDS = 31;
const HEAP_ROUNDS = 9;

interface Figures {
  messages: number;
  /** Milliseconds of the host's own work. */
  cloneMs: number;
  parseMs: number;
  /** Ratios to `cloneMs`: the first render of an epoch, the later ones, those with nothing to do, and a whole flush. */
  firstRender: number;
  render: number;
  noop: number;
  flush: number;
  /** Ratio to `parseMs`. */
  rebuild: number;
  /** Live heap of the product beyond the entries, which the host holds, as a share of the raw results' characters. */
  heap: number;
}

const { values, positionals } = parseArgs({ options: { json: { type: "boolean" } }, allowPositionals: true });
const file = positionals[0] ?? process.env.PI_CONDENSE_SESSION;
const source = file ? loadRecording(file) : generateConversation(3_000);
const figures: Figures[] = [];
for (const size of SIZES) figures.push(await measure(repeat(source, size)));
process.stdout.write(values.json ? `${JSON.stringify(figures)}\n` : table(figures));

async function measure(messages: AgentMessage[]): Promise<Figures> {
  const settings = { summarizerModel: "none" };
  const session = new SimulatedSession(agentDirWith(settings));
  for (const message of messages) session.tree.appendMessage(message);
  const flushMs = await timeOnce(() => session.pruner.flushNow(session.host, { compactAll: true }));
  const { tree } = session;
  const state = session.state();
  const plan = state.plan(session.pruner.settings);
  const raw = session.messages();
  const bare = new SessionState(new EntryTree()).plan(session.pruner.settings);
  const lines = tree
    .getEntries()
    .map((entry) => JSON.stringify(entry))
    .join("\n");

  const reloaded = tree.reload();
  const takeUp = () => {
    const taken = new SessionState(reloaded);
    taken.plan(session.pruner.settings);
    return taken;
  };
  const cloneMs = median(() => structuredClone(raw));
  const parseMs = median(() => lines.split("\n").map((line) => JSON.parse(line)));
  return {
    messages: raw.length,
    cloneMs,
    parseMs,
    firstRender: median(() => pruneMessages(raw, plan)) / cloneMs,
    render: rendering(raw, plan) / cloneMs,
    noop: rendering(raw, bare) / cloneMs,
    flush: flushMs / cloneMs,
    rebuild: median(takeUp) / parseMs,
    heap: (await heapOf(takeUp)) / resultBytes(raw),
  };
}

/** A render as the requests within an epoch have it, each on messages of its own. */
function rendering(raw: readonly AgentMessage[], plan: RenderPlan): number {
  const memo = new RenderMemo();
  memo.render(structuredClone([...raw]), plan);
  const copies = Array.from({ length: 3 }, () => structuredClone([...raw]));
  let turn = 0;
  return median(() => memo.render(copies[turn++ % copies.length] ?? [], plan));
}

function median(action: () => unknown): number {
  const times = Array.from({ length: ROUNDS }, () => {
    const start = performance.now();
    action();
    return performance.now() - start;
  });
  return middle(times);
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

async function timeOnce(action: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await action();
  return performance.now() - start;
}

/**
 * Bytes that stay alive with what `make` gives. Several are made and all are kept, and the median of the growths counts:
 * a single growth would lack what is only now collected of the rounds before, more than the product holds at times, and
 * would have code on top that is compiled meanwhile. What is shared with the entries does not grow, so it counts nothing.
 */
async function heapOf(make: () => unknown): Promise<number> {
  const kept: unknown[] = [];
  const sizes = [await liveBytes()];
  for (let round = 0; round < HEAP_ROUNDS; round++) {
    kept.push(make());
    sizes.push(await liveBytes());
  }
  const growths = sizes.slice(1).map((size, i) => size - (sizes[i] ?? size));
  return kept.length === HEAP_ROUNDS ? Math.max(0, middle(growths)) : 0;
}

/** The heap once nothing more can be collected from it. */
async function liveBytes(): Promise<number> {
  // The collector takes what it finds on the stack for references, so the stack has to be left first.
  for (let turn = 0; turn < 3; turn++) {
    await setImmediate();
    Bun.gc(true);
  }
  return process.memoryUsage().heapUsed;
}

function resultBytes(messages: readonly AgentMessage[]): number {
  return messages.reduce((sum, message) => sum + (isToolResult(message) ? contentChars(message.content) : 0), 0);
}

function table(rows: readonly Figures[]): string {
  const head = "messages  clone ms  parse ms    first   render    no-op    flush  rebuild     heap\n";
  const line = (row: Figures) =>
    [
      String(row.messages).padStart(8),
      row.cloneMs.toFixed(1).padStart(10),
      row.parseMs.toFixed(1).padStart(10),
      ...[row.firstRender, row.render, row.noop, row.flush, row.rebuild, row.heap].map((ratio) =>
        ratio.toFixed(3).padStart(9),
      ),
    ].join("");
  return `${head}${rows.map(line).join("\n")}\n`;
}
