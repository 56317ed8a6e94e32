/** Messages as files and servers hold them against their types: ids that are numbers, times that are none. */
import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import fc from "fast-check";
import { recover, sourcesOf } from "../src/recovery/originals.ts";
import { findOriginals } from "../src/session/originals.ts";
import { extractToolResultText, isToolResult } from "../src/transcript/messages.ts";
import { contextShares } from "../src/ui/context-model.ts";
import { PROPERTY_RUNS } from "./support/property-runs.ts";
import { agentDirWith, SimulatedSession } from "./support/simulated-session.ts";

const AGENT_DIR = agentDirWith({
  pruneOn: "agent-message",
  summarizerModel: "none",
  chainCompression: { rollingWindow: 0, batchSize: 0 },
});

/** Values that stand where a type says something else. */
interface Odd {
  id: unknown;
  at: unknown;
  userAt: unknown;
  replyAt: unknown;
  toolName?: unknown;
  args?: unknown;
  isError?: unknown;
  /** The output stands as a text in place of a list of blocks. */
  isBare?: boolean;
}

/** A run of one call, of the shape that `odd` gives it. */
function run(number: number, odd: Odd): AgentMessage[] {
  const zero = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const usage = { ...zero, totalTokens: 0, cost: { ...zero, total: 0 } };
  const source = { api: "a", provider: "p", model: "m", usage };
  const output = `${number}: a line of output that says something\n`.repeat(80);
  const toolCall = { type: "toolCall", id: odd.id, name: "read", arguments: odd.args ?? { path: `f${number}` } };
  const messages: unknown[] = [
    { role: "user", content: `task ${number}`, timestamp: odd.userAt },
    { role: "assistant", content: [toolCall], ...source, stopReason: "toolUse", timestamp: odd.replyAt },
    {
      role: "toolResult",
      toolCallId: odd.id,
      toolName: "toolName" in odd ? odd.toolName : "read",
      content: odd.isBare ? output : [{ type: "text", text: output }],
      isError: odd.isError ?? false,
      timestamp: odd.at,
    },
    {
      role: "assistant",
      content: [{ type: "text", text: "done" }],
      ...source,
      stopReason: "stop",
      timestamp: odd.replyAt,
    },
  ];
  // As a file gives it back: what is undefined is not there.
  return JSON.parse(JSON.stringify(messages)) as AgentMessage[];
}

/** Plays the runs, and lets the flushes come to their end. */
async function play(odds: readonly Odd[]) {
  const session = new SimulatedSession(AGENT_DIR);
  const turn = async (messages: readonly AgentMessage[]) => {
    for (const message of messages) {
      if (message.role === "assistant") await session.request();
      session.add(message);
      await session.pruner.turnEnded(session.host);
    }
  };
  for (const [i, odd] of odds.entries()) await turn(run(i, odd));
  const more = async (number: number) => {
    await turn([{ role: "user", content: "more", timestamp: number }]);
    await session.request();
    await session.pruner.flushNow(session.host);
  };
  for (const number of [901, 902]) await more(number);
  const own = () => session.tree.getEntries().filter((entry) => entry.type === "custom").length;
  const before = own();
  for (const number of [903, 904, 905]) await more(number);
  return { session, appended: own() - before };
}

/** Everything that was written is read, nothing is written anew, and each output is in the request or recoverable. */
async function check(odds: readonly Odd[]) {
  const { session, appended } = await play(odds);
  expect(appended).toBe(0);
  expect(session.state().indexer.takeInvalid()).toEqual([]);
  const again = session.restart();
  expect(again.state().indexer.takeInvalid()).toEqual([]);
  const [here, there] = [await session.request(), await again.request()];
  expect(there.sent).toEqual(here.sent);
  const flat = JSON.stringify(here.sent);
  const sources = sourcesOf(session.state());
  for (const message of here.raw.filter(isToolResult)) {
    const text = extractToolResultText(message);
    if (flat.includes(JSON.stringify(text).slice(1, -1))) continue;
    const refs = [...new Set(flat.match(/\bt\d+\b/g))];
    const outputs = refs.flatMap((ref) => {
      const found = recover(ref, sources);
      return found.kind === "found" ? found.outputs : [];
    });
    expect(outputs.map((output) => output.text)).toContain(text);
  }
  return { session, flat };
}

const T = 1_700_000_000_000;
const USUAL: Odd = { id: "c", at: T + 2, userAt: T, replyAt: T + 1 };

describe("odd messages", () => {
  test.each<[string, Partial<Odd>]>([
    ["ids that are numbers", { id: 7 }],
    ["a time that is null", { at: null }],
    ["no time", { at: undefined }],
    ["a time as text", { at: "2026-01-02T03:04:05.006Z" }],
    [
      "times as text throughout",
      { at: "2026-01-02T03:04:05Z", userAt: "2026-01-02T03:04:03Z", replyAt: "2026-01-02T03:04:04Z" },
    ],
    ["a user message without a time", { userAt: undefined }],
    ["replies without a time", { replyAt: null }],
    ["no times at all", { at: undefined, userAt: undefined, replyAt: undefined }],
    ["a tool name that is a number", { toolName: 3 }],
    ["arguments that are a text", { args: "path" }],
    ["no error flag", { isError: null }],
    ["an output without blocks", { isBare: true }],
  ])("%s: condensed once, and read back", async (_, odd) => {
    const ids = typeof odd.id === "number" ? [7, 8] : ["c1", "c2"];
    const later = (time: number, by: number) => time + by * 10;
    const usual = (i: number): Odd => ({ id: "c", at: later(T + 2, i), userAt: later(T, i), replyAt: later(T + 1, i) });
    const { session, flat } = await check(ids.map((id, i) => ({ ...usual(i), ...odd, id })));
    expect(flat).toContain("t1");
    expect(session.state().indexer.refs().length).toBeGreaterThanOrEqual(2);
  });

  test("of results of one turn with one id and one time each is condensed and recovered", async () => {
    const session = new SimulatedSession(AGENT_DIR);
    const [user, made, result, reply] = run(0, { ...USUAL, id: "" });
    const [, , other] = run(1, { ...USUAL, id: "" });
    if (!user || made?.role !== "assistant" || !result || !other || !reply) throw new Error("no run");
    const both = { ...made, content: [...made.content, ...made.content] };
    await session.play([user, both, result, other, reply]);
    const { sent, raw } = await session.request();
    expect(JSON.stringify(sent)).not.toContain("a line of output that says something\\n1:");
    const texts = raw.filter(isToolResult).map(extractToolResultText);
    const outputs = ["t1", "t2"].flatMap((ref) => {
      const found = recover(ref, sourcesOf(session.state()));
      return found.kind === "found" ? found.outputs.map((output) => output.text) : [];
    });
    expect(outputs).toEqual(texts);
    expect(findOriginals(session.tree.getEntries(), `#2@${T + 2}`)).toHaveLength(1);
  });

  test("with one time for all of them chains are compressed all the same", async () => {
    const times = { at: T, userAt: T, replyAt: T };
    const { session, flat } = await check([1, 2, 3].map((id) => ({ ...times, id: `c${id}` })));
    expect(session.state().indexer.chains().size).toBe(flat.split("<compressed-chain ").length - 1);
    expect(session.state().indexer.chains().size).toBeGreaterThan(0);
  });

  test.each<[string, unknown]>([
    ["null", null],
    ["a text", "text"],
    ["missing", undefined],
    ["a list with null in it", [null]],
  ])("content that is %s stands as it is, and what stands around it is condensed", async (_, content) => {
    for (const place of [0, 1, 2, 3]) {
      const runs = [0, 1, 2].map((i) =>
        run(i, { ...USUAL, id: `c${i}`, at: T + 10 * i + 2, userAt: T + 10 * i, replyAt: T + 10 * i + 1 }),
      );
      // A call that is not there leaves its result without one: the host leaves both out.
      if (place !== 1) Object.assign(runs[1]?.[place] ?? {}, { content });
      else Object.assign(runs[1]?.[place] ?? {}, { content, stopReason: "stop" });
      const session = new SimulatedSession(AGENT_DIR);
      await session.play(runs.flat());
      await session.pruner.flushNow(session.host);
      const { sent } = await session.request();
      expect(JSON.stringify(sent)).not.toContain("0: a line of output that says something\\n0:");
      expect(JSON.stringify(sent)).not.toContain("2: a line of output that says something\\n2:");
      const again = session.restart();
      expect((await again.request()).sent).toEqual(sent);
      const view = session.pruner.contextView(session.host);
      if (!view) throw new Error("no session");
      const { shares } = contextShares(view, "");
      expect(shares.every(({ before, after }) => before >= 0 && after >= 0)).toBe(true);
      expect(session.pruner.callSizes([...session.state().indexer.chains().values()])).toBeDefined();
      expect(session.pruner.bill()).toBeDefined();
      expect(session.notices.filter((notice) => /as it is/.test(notice))).toEqual([]);
    }
  });

  test("whatever stands there, nothing is paid for twice and nothing is lost", async () => {
    const time = fc.oneof(
      fc.integer({ min: T, max: T + 9 }),
      fc.constantFrom(null, undefined, "", "2026-01-02", true, {}),
    );
    const id = fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constantFrom("c1", "c2", "", null, "1"));
    const odd = fc.record<Odd>({ id, at: time, userAt: time, replyAt: time });
    await fc.assert(
      fc.asyncProperty(fc.array(odd, { minLength: 1, maxLength: 4 }), async (odds) => void (await check(odds))),
      { numRuns: Math.min(PROPERTY_RUNS, 200) },
    );
  });
});
