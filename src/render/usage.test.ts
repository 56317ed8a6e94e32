import { expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { Replacement } from "./plan.ts";
import { usageAsSent } from "./usage.ts";

function result(toolCallId: string, chars: number): AgentMessage {
  const content = [{ type: "text" as const, text: "x".repeat(chars) }];
  return { role: "toolResult", toolCallId, toolName: "fetch", content, isError: false, timestamp: 7 };
}

const stub = (id: string, eager: boolean): [string, Replacement] => [
  `${id}@7`,
  { occurrenceKey: `${id}@7`, text: "y".repeat(1_000), eager, savedArguments: 0 },
];
const plan = { replacements: new Map([stub("spilled", true), stub("condensed", false)]) };
const USAGE = { tokens: 50_000, contextWindow: 200_000, percent: 25 };

test("what leaves as a stub from the first request on is taken off the host's count, four characters a token", () => {
  expect(usageAsSent(USAGE, [result("spilled", 81_000)], plan)?.tokens).toBe(50_000 - 20_000);
});

test("what stands whole in the next request counts as the host has it, and so does what the provider has counted", () => {
  expect(usageAsSent(USAGE, [result("condensed", 81_000), result("other", 9_000)], plan)?.tokens).toBe(50_000);
  const answer = { role: "assistant", content: [], stopReason: "stop", timestamp: 8 } as unknown as AgentMessage;
  expect(usageAsSent(USAGE, [result("spilled", 81_000), answer], plan)?.tokens).toBe(50_000);
});

test("an unknown count stays unknown, and none falls below zero", () => {
  expect(usageAsSent(undefined, [], plan)).toBeUndefined();
  expect(usageAsSent({ ...USAGE, tokens: null }, [result("spilled", 81_000)], plan)?.tokens).toBeNull();
  expect(usageAsSent({ ...USAGE, tokens: 10 }, [result("spilled", 81_000)], plan)?.tokens).toBe(0);
});
