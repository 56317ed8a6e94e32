import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolResultMessage } from "@mariozechner/pi-ai";
import { deepFreeze } from "../../test/support/generate.ts";
import { type LocatableChain, locateChains } from "./locate.ts";

function user(timestamp: number): AgentMessage {
  return { role: "user", content: "go", timestamp };
}

function assistant(timestamp: number, ids: readonly string[]): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const calls = ids.map((id) => ({ type: "toolCall" as const, id, name: "read", arguments: { path: `${id}.ts` } }));
  const content: AssistantMessage["content"] = ids.length > 0 ? calls : [{ type: "text", text: "done" }];
  const source = { api: "a", provider: "p", model: "m", usage };
  return { role: "assistant", content, ...source, stopReason: ids.length > 0 ? "toolUse" : "stop", timestamp };
}

function result(timestamp: number, toolCallId: string, text = "x".repeat(100)): ToolResultMessage {
  const content = [{ type: "text" as const, text }];
  return { role: "toolResult", toolCallId, toolName: "read", content, isError: false, timestamp };
}

function chain(extra: Partial<LocatableChain["entry"]> = {}): LocatableChain {
  return {
    entry: {
      blockId: "b1",
      startUserTimestamp: 1,
      finalAssistantTimestamp: 9,
      droppedToolCallIds: ["a", "b"],
      droppedOccurrenceKeys: ["a@3", "b@4"],
      toolRefs: [],
      compressedAt: 0,
      ...extra,
    },
  };
}

function locate(messages: AgentMessage[], ...chains: LocatableChain[]) {
  const unresolved: string[] = [];
  const located = locateChains(deepFreeze(messages), chains, (id, reason) => unresolved.push(`${id} ${reason}`));
  return { located, unresolved };
}

const SIMPLE = [user(1), assistant(2, ["a", "b"]), result(3, "a"), result(4, "b"), assistant(9, [])];

describe("locateChains", () => {
  test("tells what goes, the closing reply, and the results to be kept with their calls", () => {
    const wanted = chain({ protectedOccurrenceKeys: ["b@4"] });
    const { located, unresolved } = locate(SIMPLE, wanted);
    expect(unresolved).toEqual([]);
    expect(located).toHaveLength(1);
    expect(located[0]?.chain).toBe(wanted);
    expect(located[0]?.place).toMatchObject({ dropped: [1, 2, 3], closing: 4 });
    expect(located[0]?.place.kept.map(({ result, call }) => [result.timestamp, call.arguments])).toEqual([
      [4, { path: "b.ts" }],
    ]);
    expect(located[0]?.place.droppedChars).toBeGreaterThan(200);
  });

  test("an interrupted chain has no closing reply and goes to the last result of its last turn", () => {
    const messages = [...SIMPLE.slice(0, 4), user(5), assistant(6, [])];
    const { located } = locate(messages, chain({ interrupted: true, finalAssistantTimestamp: 2 }));
    expect(located[0]?.place).toMatchObject({ dropped: [1, 2, 3], closing: undefined });
  });

  test("the first of two chains over the same messages has them", () => {
    const { located, unresolved } = locate(SIMPLE, chain(), chain({ blockId: "b2" }));
    expect(located.map(({ chain: { entry } }) => entry.blockId)).toEqual(["b1"]);
    expect(unresolved).toEqual(["b2 overlap"]);
  });

  test.each([
    ["end-not-found", SIMPLE.slice(0, 4), {}],
    ["end-not-closing", SIMPLE, { finalAssistantTimestamp: 2 }],
    ["start-not-found", SIMPLE.slice(1), {}],
    ["unknown-result", SIMPLE, { droppedOccurrenceKeys: ["a@3"] }],
  ])("%s", (reason, messages, extra) => {
    expect(locate(messages, chain(extra))).toEqual({ located: [], unresolved: [`b1 ${reason}`] });
  });

  test("of several messages with the time of its ends, those next to its results are meant", () => {
    const next = [user(9), assistant(9, ["c"]), result(9, "c"), assistant(9, [])];
    const before = [user(1), assistant(1, [])];
    const messages = [...before, ...SIMPLE, ...next];
    const second = chain({
      blockId: "b2",
      startUserTimestamp: 9,
      droppedToolCallIds: ["c"],
      droppedOccurrenceKeys: ["c@9"],
    });
    const { located, unresolved } = locate(messages, chain(), second);
    expect(unresolved).toEqual([]);
    expect(located.map(({ place: { dropped, closing } }) => [...dropped, closing])).toEqual([
      [3, 4, 5, 6],
      [8, 9, 10],
    ]);
    const interrupted = { interrupted: true, finalAssistantTimestamp: 9 } as const;
    const open = [user(1), assistant(9, ["a"]), result(3, "a"), assistant(9, ["b"]), result(4, "b"), user(10)];
    expect(locate(open, chain(interrupted)).located[0]?.place.dropped).toEqual([1, 2, 3, 4]);
  });

  test("where it cannot be told which of several is meant, the chain stays", () => {
    const twice = [...SIMPLE, ...SIMPLE];
    expect(locate(twice, chain())).toEqual({ located: [], unresolved: ["b1 end-not-found"] });
  });

  test("a chain of which nothing is here is passed over in silence", () => {
    expect(locate([user(1), assistant(9, [])], chain())).toEqual({ located: [], unresolved: [] });
  });
});
