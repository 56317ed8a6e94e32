import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { captureUnindexedBatches } from "../batch-capture.js";
import { DEFAULT_CONFIG } from "../config.js";
import { type CondensingSituation, decideCondensing, summariesPay } from "./decision.js";

const USAGE = {
  ...{ input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 },
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};
const FROM = { api: "anthropic-messages", provider: "p", model: "m", usage: USAGE } as const;

/** One large result and its answer: little but the stub has to be written anew. */
const MESSAGES: AgentMessage[] = [
  { role: "user", content: "go on", timestamp: 1 },
  {
    ...{ role: "assistant", ...FROM, stopReason: "toolUse", timestamp: 2 },
    content: [{ type: "toolCall", id: "a", name: "tool", arguments: {} }],
  },
  {
    ...{ role: "toolResult", toolCallId: "a", toolName: "tool", isError: false, timestamp: 3 },
    content: [{ type: "text", text: "word ".repeat(7_400) }],
  },
  { ...{ role: "assistant", ...FROM, stopReason: "stop", timestamp: 4 }, content: [{ type: "text", text: "Done." }] },
];
const PENDING = captureUnindexedBatches(MESSAGES, {
  frontierKey: undefined,
  isDealtWith: () => false,
  isExempt: () => false,
  isHeld: () => false,
  batchingMode: "turn",
});
const SITUATION: CondensingSituation = {
  progress: { userTurns: 4, requests: 40, coldRequests: 0, requestsThisTurn: 4 },
  prices: { input: 5, output: 25, cacheRead: 0.5, cacheWrite: 6.25 },
  summarizerCost: 0,
  cacheIsCold: false,
  usage: undefined,
};
const CHOICE = {
  rendered: MESSAGES,
  pending: PENDING,
  ranges: [],
  config: { ...DEFAULT_CONFIG, summaryShare: 0.1 },
};

describe.each([false, true])("with a cache that is cold: %p", (cacheIsCold) => {
  const at = (summarizerCost: number) => ({ ...SITUATION, cacheIsCold, summarizerCost });

  test("the price of the summaries is part of what a flush costs, to the cent", () => {
    const free = decideCondensing(CHOICE, at(0));
    const paid = decideCondensing(CHOICE, at(0.05));
    expect(paid.price - free.price).toBeCloseTo(0.05, 10);
    expect(paid.savings).toBe(free.savings);
  });

  test("summaries that cost more than they save are neither made nor asked for ahead", () => {
    const { savings, price } = decideCondensing(CHOICE, at(0));
    // A summary is wanted to bring in half as much again as it costs.
    const most = (savings - price) / 1.5;
    for (const [cost, pays] of [
      [0, true],
      [most * 0.99, true],
      [most * 1.01, false],
    ] as const) {
      expect([cost, decideCondensing(CHOICE, at(cost)).flush]).toEqual([cost, pays]);
      expect([cost, summariesPay(CHOICE, at(cost))]).toEqual([cost, pays]);
    }
  });
});
