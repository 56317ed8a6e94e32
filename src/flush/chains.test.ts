import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { DEFAULT_CONFIG } from "../config.js";
import { ToolCallIndexer } from "../indexer.js";
import { eligibleRanges } from "./chains.js";

const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: COST };

function user(timestamp: number): AgentMessage {
  return { role: "user", content: "go on", timestamp };
}

function turn(timestamp: number, id: string): AgentMessage[] {
  const content = [{ type: "text" as const, text: "x".repeat(2_000) }];
  return [
    assistant(timestamp, [{ type: "toolCall", id, name: "read", arguments: {} }], "toolUse"),
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

/** Ends of the chains that are compressed at once. */
function ends(messages: readonly AgentMessage[], isProtected = () => false): number[] {
  const config = { ...DEFAULT_CONFIG.chainCompression, rollingWindow: 0, batchSize: 0 };
  const ranges = eligibleRanges({
    messages,
    isProtected,
    config,
    indexer: new ToolCallIndexer(),
    isPending: () => false,
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
