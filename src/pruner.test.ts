import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolResultMessage } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { deepFreeze, sessionArbitrary } from "../test/support/generate.ts";
import { PROPERTY_RUNS } from "../test/support/property-runs.ts";
import { agentDirWith, EntryTree, SimulatedSession } from "../test/support/simulated-session.ts";
import { DEFAULT_CONFIG } from "./config.ts";
import { ToolCallIndexer } from "./indexer.ts";
import { applyRender, pruneMessages } from "./pruner.ts";
import { buildRenderPlan, type PlanOptions, type RenderPlan } from "./render/plan.ts";
import {
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_FRONTIER,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_SUMMARY,
  type FrontierEntryData,
  type ToolCallRecord,
} from "./types.ts";

const LONG = "x".repeat(3000);

const PLAN_OPTIONS: PlanOptions = {
  ...DEFAULT_CONFIG,
  locateBlob: () => undefined,
  findOriginal: () => undefined,
  stripFinalAssistantThinking: true,
};

function user(timestamp: number): AgentMessage {
  return { role: "user", content: [{ type: "text", text: "go" }], timestamp };
}

function assistant(
  timestamp: number,
  ids: readonly string[],
  stopReason: AssistantMessage["stopReason"] = ids.length > 0 ? "toolUse" : "stop",
): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const content: AssistantMessage["content"] = [
    { type: "text", text: "Well." },
    ...ids.map((id) => ({ type: "toolCall" as const, id, name: "read", arguments: { path: "a.ts" } })),
  ];
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp };
}

function result(toolCallId: string, timestamp: number, text = LONG): ToolResultMessage {
  const content = [{ type: "text" as const, text }];
  return { role: "toolResult", toolCallId, toolName: "read", content, isError: false, timestamp };
}

/** A record for the result of the same id and time; without a time as releases before occurrence keys wrote it. */
function record(toolCallId: string, resultTimestamp?: number, resultText = LONG): ToolCallRecord {
  const base = { toolCallId, toolName: "read", args: { path: "a.ts" }, isError: false, turnIndex: 0, timestamp: 1 };
  return { ...base, resultText, resultTimestamp };
}

interface LegacyMessage {
  text: string;
  refs: { shortId: string; toolCallId: string; resultTimestamp?: number }[];
}

/** The plan of a session in which these records are condensed; refs count up from t1. */
function planOf(
  records: readonly ToolCallRecord[],
  aliases: readonly object[] = [],
  legacy?: LegacyMessage,
  said: Partial<FrontierEntryData> = {},
) {
  const tree = new EntryTree();
  const refs = records.map(({ toolCallId, resultTimestamp }, i) => ({
    shortId: `t${i + 1}`,
    toolCallId,
    resultTimestamp,
  }));
  tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: records, refs });
  for (const alias of aliases) tree.appendCustom(CUSTOM_TYPE_DEDUP_ALIAS, alias);
  const counts = { attemptedBatchCount: 1, attemptedToolCallCount: 1, rawCharCount: 0, summaryCharCount: 0 };
  const frontier = { lastAttemptedToolCallId: "c1", ...counts, outcome: "summarized", ...said };
  tree.appendCustom(CUSTOM_TYPE_FRONTIER, frontier);
  const entries = tree.getEntries();
  if (legacy) {
    const details = { toolCallRefs: legacy.refs };
    const message = { type: "custom_message", customType: CUSTOM_TYPE_SUMMARY, content: legacy.text, display: false };
    const base = { id: "legacy", parentId: null, timestamp: "2026-01-01T00:00:00.000Z" };
    entries.splice(1, 0, JSON.parse(JSON.stringify({ ...message, ...base, details })));
  }
  const indexer = new ToolCallIndexer();
  indexer.reconstructFromSession(entries, entries);
  return buildRenderPlan(indexer.committed(), PLAN_OPTIONS);
}

function textsOf(messages: readonly AgentMessage[]): unknown[] {
  return messages.flatMap((message) => (message.role === "toolResult" ? message.content : []));
}

/** Results that stand as stubs, by id. */
function stubbed(messages: AgentMessage[], plan: RenderPlan): string[] {
  const rendered = pruneMessages(deepFreeze(messages), plan);
  return rendered.flatMap((message, i) =>
    message.role === "toolResult" && message !== messages[i] ? [message.toolCallId] : [],
  );
}

describe("a no-op", () => {
  const messages = [user(1), assistant(2, ["c1"]), result("c1", 3), assistant(4, [])];

  test.each<[string, RenderPlan]>([
    ["nothing is condensed", planOf([])],
    ["nothing that is condensed stands here", planOf([record("c9", 9)])],
    ["only another occurrence of the id is condensed", planOf([record("c1", 99)])],
  ])("gives back the same array where %s", (_why, plan) => {
    expect(pruneMessages(messages, plan)).toBe(messages);
  });

  test("serialises nothing", () => {
    const trap = (): never => {
      throw new Error("serialised");
    };
    const watched = messages.map((message) => Object.defineProperty({ ...message }, "toJSON", { get: trap }));
    expect(pruneMessages(watched, planOf([record("c9", 9)]))).toBe(watched);
  });
});

describe("a condensed result", () => {
  const messages = [user(1), assistant(2, ["c1"]), result("c1", 3), assistant(4, [])];

  test("takes its stub, and everything else is the same object", () => {
    const rendered = pruneMessages(deepFreeze(messages), planOf([record("c1", 3)]));
    expect(textsOf(rendered)).toEqual([{ type: "text", text: expect.stringContaining("[t1 condensed: read a.ts, ") }]);
    for (const i of [0, 1, 3]) expect(rendered[i]).toBe(messages[i]);
  });

  test("keeps its role, id, tool, time, error flag, and fields that nobody knows", () => {
    const extra = { details: { lines: 3 }, isError: true, durationMs: 5, vendor: { deep: [1] } };
    const source = { ...result("c1", 3), ...extra };
    const [, , rendered] = pruneMessages(
      deepFreeze([user(1), assistant(2, ["c1"]), source, assistant(4, [])]),
      planOf([record("c1", 3)]),
    );
    expect({ ...rendered, content: [] }).toEqual({ ...source, content: [] });
  });

  test("with images becomes one text", () => {
    const image = { type: "image" as const, data: "AAAA", mimeType: "image/png" };
    const source = { ...result("c1", 3), content: [image] };
    const plan = planOf([{ ...record("c1", 3, ""), resultImages: 1 }]);
    const rendered = pruneMessages(deepFreeze([user(1), assistant(2, ["c1"]), source, assistant(4, [])]), plan);
    expect(textsOf(rendered)).toEqual([{ type: "text", text: expect.stringContaining("1 image") }]);
  });

  test("stays where what stands here is already shorter, as another extension may have made it", () => {
    const cut = [user(1), assistant(2, ["c1"]), result("c1", 3, "cut by someone else"), assistant(4, [])];
    expect(pruneMessages(cut, planOf([record("c1", 3)]))).toBe(cut);
  });

  test("that was spilled keeps its images, and stays where its text is shorter than the stub", () => {
    const image = { type: "image" as const, data: "AAAA", mimeType: "image/png" };
    const spill = { spillPath: "/blobs/c1.txt", spillBytes: 70_000, spillLines: 3, resultPreview: "head" };
    const plan = planOf([{ ...record("c1", 3, ""), ...spill, resultChars: 70_000, resultImages: 1 }]);
    const withText = (text: string) => [
      ...[user(1), assistant(2, ["c1"])],
      { ...result("c1", 3), content: [{ type: "text" as const, text }, image] },
    ];
    const stub = { type: "text", text: expect.stringContaining("t1") };
    expect(textsOf(pruneMessages(withText("x".repeat(70_000)), plan))).toEqual([stub, image]);
    const cut = withText("cut by someone else");
    expect(pruneMessages(cut, plan)).toBe(cut);
  });

  test("that nobody has answered yet stays, also behind an errored reply", () => {
    const open = [user(1), assistant(2, ["c1"]), result("c1", 3)];
    const plan = planOf([record("c1", 3)]);
    expect(stubbed(open, plan)).toEqual([]);
    expect(stubbed([...open, assistant(4, [], "error")], plan)).toEqual([]);
    expect(stubbed([...open, user(4)], plan)).toEqual([]);
    expect(stubbed([...open, assistant(4, [])], plan)).toEqual(["c1"]);
  });

  test("is not the live result that a later turn gives under the same id", () => {
    const reused = [...messages, user(5), assistant(6, ["c1"]), result("c1", 7, `${LONG}!`), assistant(8, [])];
    const rendered = pruneMessages(deepFreeze(reused), planOf([record("c1", 3)]));
    expect(textsOf(rendered)).toMatchObject([{ text: expect.stringContaining("t1 condensed") }, { text: `${LONG}!` }]);
  });

  test("is not a second one under the very same key", () => {
    const twice = [user(1), assistant(2, ["c1", "c1"]), result("c1", 3), result("c1", 3, `${LONG}!`), assistant(4, [])];
    expect(textsOf(pruneMessages(deepFreeze(twice), planOf([record("c1", 3)])))).toMatchObject([
      { text: expect.stringContaining("t1 condensed") },
      { text: `${LONG}!` },
    ]);
  });

  test("that repeats another points to it", () => {
    const alias = { newToolCallId: "c2", newResultTimestamp: 5, originalToolCallId: "c1", originalResultTimestamp: 3 };
    const plan = planOf([record("c1", 3)], [{ ...alias, shortId: "t2" }]);
    const both = [...messages.slice(0, 3), assistant(4, ["c2"]), result("c2", 5), assistant(6, [])];
    expect(textsOf(pruneMessages(deepFreeze(both), plan))[1]).toEqual({
      type: "text",
      text: expect.stringContaining("[t2 condensed: identical to t1 ("),
    });
  });
});

describe("a record from before occurrence keys", () => {
  const turn = (at: number) => [assistant(at, ["c1"]), result("c1", at + 1)];

  test("names the only result of its id", () => {
    expect(stubbed([user(1), ...turn(2), assistant(4, [])], planOf([record("c1")]))).toEqual(["c1"]);
  });

  test("names neither of two results of its id", () => {
    const messages = [user(1), ...turn(2), ...turn(4), assistant(6, [])];
    expect(pruneMessages(messages, planOf([record("c1")]))).toBe(messages);
  });

  test("gives way to one that names the occurrence", () => {
    const messages = [user(1), ...turn(2), ...turn(4), assistant(6, [])];
    const rendered = pruneMessages(deepFreeze(messages), planOf([record("c1"), record("c1", 5)]));
    expect(textsOf(rendered)).toMatchObject([{ text: LONG }, { text: expect.stringContaining("t2 condensed") }]);
  });
});

describe("the arguments of a condensed call", () => {
  const content = "line of a file\n".repeat(100);
  const args = { path: "a.ts", content, mode: 420, tags: ["a", "b"], owner: null };

  function writing(timestamp: number, id: string): AssistantMessage {
    const message = assistant(timestamp, []);
    const made = { type: "toolCall" as const, id, name: "write", arguments: args, thoughtSignature: "c2ln" };
    return { ...message, content: [...message.content, made], stopReason: "toolUse" };
  }

  function argumentsIn(messages: readonly AgentMessage[]): unknown[] {
    return messages.flatMap((message) =>
      message.role === "assistant"
        ? message.content.flatMap((block) => (block.type === "toolCall" ? [block] : []))
        : [],
    );
  }

  const turn = [user(1), writing(2, "c1"), result("c1", 3, "written"), assistant(4, [])];
  const condensed = { ...args, content: '<condensed-args chars="1500" ref="t1"/>' };

  test("lose their long texts and nothing else; fields that nobody knows stay", () => {
    const rendered = pruneMessages(deepFreeze(turn), planOf([{ ...record("c1", 3, "written"), args }]));
    expect(argumentsIn(rendered)).toEqual([
      { type: "toolCall", id: "c1", name: "write", arguments: condensed, thoughtSignature: "c2ln" },
    ]);
    for (const i of [0, 3]) expect(rendered[i]).toBe(turn[i]);
  });

  test("stand with a reply that says what was changed, since neither of the two would any longer", () => {
    const plan = planOf([{ ...record("c1", 3, "written"), args }]);
    const rendered = pruneMessages(deepFreeze(turn), plan);
    const [reply] = rendered.filter((message) => message.role === "toolResult");
    expect(reply?.content).toEqual([
      { type: "text", text: "[t1 condensed: read a.ts, wrote 100 lines, ok. Full output: context_tree_query t1]" },
    ]);
    expect(pruneMessages(rendered, plan)).toBe(rendered);
  });

  test("stay until the model has answered the result", () => {
    const open = turn.slice(0, 3);
    expect(pruneMessages(open, planOf([{ ...record("c1", 3, "written"), args }]))).toBe(open);
  });

  test("of a failed call stay until a frontier says that they have had their time", () => {
    const failed = [{ ...record("c1", 3, "written"), args, isError: true }];
    expect(pruneMessages(turn, planOf(failed))).toBe(turn);
    const purged = planOf(failed, [], undefined, { purgedOccurrenceKeys: ["c1@3"] });
    expect(argumentsIn(pruneMessages(deepFreeze(turn), purged))).toMatchObject([{ arguments: condensed }]);
  });

  test("of a call that a later turn makes under the same id stay", () => {
    const reused = [...turn, user(5), writing(6, "c1"), result("c1", 7, "written"), assistant(8, [])];
    const rendered = pruneMessages(deepFreeze(reused), planOf([{ ...record("c1", 3, "written"), args }]));
    expect(argumentsIn(rendered)).toMatchObject([{ arguments: condensed }, { arguments: args }]);
  });
});

describe("a recovered output that has had its grace", () => {
  test("stands as a pointer", () => {
    const pointers = [{ toolCallId: "c1", occurrenceKey: "c1@3", text: "[was shown here]" }];
    const messages = [user(1), assistant(2, ["c1"]), result("c1", 3), assistant(4, [])];
    const rendered = pruneMessages(deepFreeze(messages), planOf([], [], undefined, { pointers }));
    expect(textsOf(rendered)).toEqual([{ type: "text", text: "[was shown here]" }]);
  });
});

describe("a summary message of an earlier release", () => {
  const text = "- `t1` first\n- `t2` second\n\n---\nfooter";
  const refs = [
    { shortId: "t1", toolCallId: "c1", resultTimestamp: 3 },
    { shortId: "t2", toolCallId: "c2", resultTimestamp: 3 },
  ];
  const records = [record("c1", 3), record("c2", 3)];
  const message: AgentMessage = {
    role: "custom",
    customType: CUSTOM_TYPE_SUMMARY,
    content: text,
    display: false,
    timestamp: 5,
  };
  const turn = [user(1), assistant(2, ["c1", "c2"]), result("c1", 3), result("c2", 3), assistant(4, [])];

  test("goes where all that it speaks of stands as stubs with its text", () => {
    const rendered = pruneMessages(deepFreeze([...turn, message]), planOf(records, [], { text, refs }));
    expect(rendered).toHaveLength(5);
    expect(textsOf(rendered)).toMatchObject([
      { text: expect.stringMatching(/^\[t1 .*\nfirst$/) },
      { text: expect.stringMatching(/^\[t2 .*\nsecond$/) },
    ]);
  });

  test("goes also where its refs name calls by their bare ids", () => {
    const bare = refs.map(({ shortId, toolCallId }) => ({ shortId, toolCallId }));
    const plan = planOf([record("c1"), record("c2")], [], { text, refs: bare });
    expect(pruneMessages(deepFreeze([...turn, message]), plan)).toHaveLength(5);
  });

  test("stays where one of the results is gone", () => {
    const [first, ...rest] = [assistant(2, ["c2"]), result("c2", 3), assistant(4, []), message];
    const rendered = pruneMessages(deepFreeze([first, ...rest]), planOf(records, [], { text, refs }));
    expect(rendered.at(-1)).toBe(message);
  });

  test("stays where one of its calls has no stub", () => {
    const rendered = pruneMessages(deepFreeze([...turn, message]), planOf(records.slice(0, 1), [], { text, refs }));
    expect(rendered.at(-1)).toBe(message);
  });

  test("another text is another message, and another extension's message is not touched", () => {
    const other: AgentMessage = { ...message, content: `${text}!` };
    const foreign: AgentMessage = { ...message, customType: "other" };
    const rendered = pruneMessages(deepFreeze([...turn, other, foreign]), planOf(records, [], { text, refs }));
    expect(rendered.slice(-2)).toEqual([other, foreign]);
  });
});

test("a transcript that providers refuse is repaired also where nothing is condensed", () => {
  const messages = [user(1), assistant(2, ["c1"]), user(3), result("c1", 4), assistant(5, [])];
  const rendered = pruneMessages(deepFreeze(messages), planOf([]));
  expect(rendered.map((message) => message.timestamp)).toEqual([1, 2, 4, 3, 5]);
});

test("rendering what has been rendered changes nothing more", async () => {
  const agentDir = agentDirWith({ summarizerModel: "none", minBatchChars: 200 });
  let condensed = 0;
  await fc.assert(
    fc.asyncProperty(sessionArbitrary({ maxPrompts: 3 }), async (messages) => {
      const session = new SimulatedSession(agentDir);
      await session.play(messages);
      const plan = session.state().plan(session.pruner.settings);
      const before = deepFreeze(session.messages());
      const once = pruneMessages(before, plan);
      expect(pruneMessages(deepFreeze(once), plan)).toBe(once);
      condensed += once.filter((message, i) => message !== before[i]).length;
    }),
  );
  expect(condensed).toBeGreaterThan(PROPERTY_RUNS / 4);
});

describe("applyRender", () => {
  const turn = () => [user(1), assistant(2, ["c1"]), result("c1", 3), assistant(4, [])];
  const stub = [{ type: "text" as const, text: "stub" }];

  test("of the same array changes nothing and gives nothing", () => {
    const messages = turn();
    const before = structuredClone(messages);
    expect(applyRender(messages, messages)).toBeUndefined();
    expect(messages).toEqual(before);
  });

  test("sets contents on the host's own messages, so that its array stays the one it made", () => {
    const messages = turn();
    const [, , hostResult] = messages;
    const rendered = messages.map((message) =>
      message.role === "toolResult" ? { ...message, content: stub } : message,
    );
    expect(applyRender(messages, rendered)).toBeUndefined();
    expect(messages[2]).toBe(hostResult);
    expect(hostResult).toMatchObject({ role: "toolResult", toolCallId: "c1", timestamp: 3, content: stub });
  });

  test("gives the other array where a message goes, and leaves the host's alone", () => {
    const messages = turn();
    const before = structuredClone(messages);
    const rendered = [...messages.slice(0, 1), ...messages.slice(3)];
    expect(applyRender(messages, rendered)).toBe(rendered);
    expect(messages).toEqual(before);
  });

  test("gives the other array where the last message goes", () => {
    const messages = turn();
    const rendered = messages.slice(0, -1);
    expect(applyRender(messages, rendered)).toBe(rendered);
  });

  test("gives the other array where a message comes behind the others", () => {
    const messages = turn();
    const rendered = [...messages, user(5)];
    expect(applyRender(messages, rendered)).toBe(rendered);
  });

  test("changes nothing where contents change and a message behind them goes", () => {
    const messages = turn();
    const before = structuredClone(messages);
    const [prompt, made, out] = messages;
    if (prompt === undefined || made === undefined || out?.role !== "toolResult") throw new Error("no such turn");
    const rendered: AgentMessage[] = [prompt, made, { ...out, content: stub }];
    expect(applyRender(messages, rendered)).toBe(rendered);
    expect(messages).toEqual(before);
  });

  test("gives the other array where messages change places, though as many stand there", () => {
    const messages = [assistant(1, ["c1", "c2"]), result("c1", 2), result("c2", 2), assistant(3, [])];
    const before = structuredClone(messages);
    const rendered = [messages[0], messages[2], messages[1], messages[3]].flatMap((message) => message ?? []);
    expect(applyRender(messages, rendered)).toBe(rendered);
    expect(messages).toEqual(before);
  });
});
