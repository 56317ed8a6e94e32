import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { EntryTree } from "../../test/support/simulated-session.ts";
import type { ProtectableCall } from "../capture/protection.ts";
import { DEFAULT_CONFIG } from "../config.ts";
import { chainName, ToolCallIndexer } from "../indexer.ts";
import { CUSTOM_TYPE_DIAGNOSTIC, CUSTOM_TYPE_FRONTIER, CUSTOM_TYPE_INDEX, REFUSED_ENTRY } from "../types.ts";
import { type ChainChoice, eligibleRanges } from "./chains.ts";

const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: COST };

function user(timestamp: number): AgentMessage {
  return { role: "user", content: "go on", timestamp };
}

function turn(timestamp: number, id: string): AgentMessage[] {
  const content = [{ type: "text" as const, text: "x".repeat(2_000) }];
  return [
    assistant(timestamp, [{ type: "toolCall", id, name: "read", arguments: { path: id } }], "toolUse"),
    { role: "toolResult", toolCallId: id, toolName: "read", content, isError: false, timestamp: timestamp + 1 },
  ];
}

function assistant(
  timestamp: number,
  content: AssistantMessage["content"],
  stopReason: AssistantMessage["stopReason"],
): AgentMessage {
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage: USAGE, stopReason, timestamp };
}

const COMPRESSED_AT_ONCE = { ...DEFAULT_CONFIG.chainCompression, rollingWindow: 0, batchSize: 0 };

/** The index of a session file with an entry for each pair. */
function indexerOf(...entries: [string, unknown][]): ToolCallIndexer {
  const tree = new EntryTree();
  for (const [customType, data] of entries) tree.appendCustom(customType, data);
  const indexer = new ToolCallIndexer();
  indexer.reconstructFromSession(tree.getEntries(), tree.branch());
  return indexer;
}

/** Ends of the chains that are compressed at once. */
function ends(messages: readonly AgentMessage[], choice: Partial<ChainChoice> = {}): number[] {
  const ranges = eligibleRanges({
    messages,
    isProtected: () => false,
    config: COMPRESSED_AT_ONCE,
    indexer: new ToolCallIndexer(),
    isPending: () => false,
    ...choice,
  });
  return ranges.map((range) => range.finalAssistantTimestamp);
}

describe("an interrupted chain", () => {
  const interrupted = [user(1), ...turn(2, "a"), user(4)];

  test("waits until the model has answered its last results", () => {
    expect(ends(interrupted)).toEqual([]);
    expect(ends([...interrupted, assistant(5, [], "aborted"), user(6)])).toEqual([]);
    expect(ends([...interrupted, assistant(5, [{ type: "text", text: "Done." }], "stop"), user(6)])).toEqual([2]);
  });

  test("keeps the chains before it from nothing", () => {
    const closed = [user(-9), ...turn(-8, "z"), assistant(-6, [{ type: "text", text: "Done." }], "stop")];
    expect(ends([...closed, ...interrupted])).toEqual([-6]);
  });
});

describe("a closed chain", () => {
  const closed = (at: number, id: string) => [
    ...[user(at), ...turn(at + 1, id)],
    assistant(at + 3, [{ type: "text", text: "Done." }], "stop"),
  ];
  const messages = [...closed(1, "a"), ...closed(11, "b"), user(21)];

  test.each<[number, number[]]>([
    [0, [4, 14]],
    [1, [4, 14]],
    [2, [4]],
    [3, []],
    [9, []],
  ])(
    "stays where it stands in the last turns of the user, of which are protected: %p",
    (protectedTurns, compressed) => {
      expect(ends(messages, { protectedTurns })).toEqual(compressed);
    },
  );

  test("stays in the last run, whose replies have to keep their thinking", () => {
    expect(ends(closed(1, "a"))).toEqual([]);
    expect(ends(messages.slice(0, -1))).toEqual([4]);
  });

  test("stays where the same run went on behind it", () => {
    expect(ends([...closed(1, "a"), ...turn(5, "b"), assistant(7, [{ type: "text", text: "Done." }], "stop")])).toEqual(
      [],
    );
  });

  test("keeps what is protected, but not the stub of what had been condensed before", () => {
    const record = {
      ...{
        toolCallId: "a",
        toolName: "read",
        args: {},
        resultText: "x".repeat(2_000),
        isError: false,
        resultTimestamp: 3,
      },
      ...{ turnIndex: 0, timestamp: 2 },
    };
    const refs = [{ shortId: "t1", toolCallId: "a", resultTimestamp: 3 }];
    const counts = { attemptedBatchCount: 1, attemptedToolCallCount: 1, rawCharCount: 0, summaryCharCount: 0 };
    const indexer = indexerOf(
      [CUSTOM_TYPE_INDEX, { toolCalls: [record], refs }],
      [CUSTOM_TYPE_FRONTIER, { lastAttemptedToolCallId: "a", ...counts, outcome: "summarized" }],
    );
    const shared = [...messages.slice(0, 3), ...turn(4, "c").map((m) => ({ ...m, timestamp: m.timestamp + 0.5 }))];
    const keptOf = (protectedIds: readonly string[]) =>
      eligibleRanges({
        ...{ messages: [...shared, ...messages.slice(3)], indexer, isPending: () => false },
        ...{ isProtected: ({ args }: ProtectableCall) => protectedIds.includes(String(args.path)) },
        config: COMPRESSED_AT_ONCE,
      }).map(({ protectedOccurrenceKeys, protectedToolCallIds }) => [protectedOccurrenceKeys, protectedToolCallIds]);
    expect(keptOf(["a"])).toEqual([
      [[], []],
      [[], []],
    ]);
    expect(keptOf(["c"])).toEqual([
      [["c@5.5"], ["c"]],
      [[], []],
    ]);
    expect(keptOf(["a", "c"])).toEqual([
      [["c@5.5"], ["c"]],
      [[], []],
    ]);
  });

  test("stays where its entry has been refused", () => {
    const detail = chainName({ startUserTimestamp: 1, finalAssistantTimestamp: 4 });
    const indexer = indexerOf([CUSTOM_TYPE_DIAGNOSTIC, { kind: REFUSED_ENTRY, detail }]);
    expect(ends(messages, { indexer })).toEqual([14]);
  });

  test("stays where its ends have no time", () => {
    expect(ends([...closed(1, "a"), user(Number.NaN), ...messages.slice(5)])).toEqual([4]);
  });

  test("stays where a result of it is pending", () => {
    expect(ends(messages, { isPending: (key) => key === "a@3" })).toEqual([14]);
  });
});
