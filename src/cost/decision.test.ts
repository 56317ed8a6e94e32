import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { captureUnindexedBatches } from "../batch-capture.js";
import { DEFAULT_CONFIG } from "../config.js";
import {
  type CondensingSituation,
  decideCondensing,
  lifetimeOf,
  NO_PROGRESS,
  progressOf,
  summariesPay,
} from "./decision.js";

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

describe("how long the provider keeps a prompt", () => {
  const MINUTE = 60_000;
  const reply = (minute: number, cacheRead: number) => {
    const usage = { ...USAGE, input: 10, cacheRead, cacheWrite: 1_000 - cacheRead };
    const message = { role: "assistant", ...FROM, usage, stopReason: "stop", content: [], timestamp: minute * MINUTE };
    return { type: "message", message, timestamp: new Date(minute * MINUTE).toISOString() };
  };
  /** As the newer host records that it has sent the prompt once more to keep it. */
  const warming = (minute: number) => ({
    ...{ type: "usage", kind: "cache_warm" },
    timestamp: new Date(minute * MINUTE).toISOString(),
  });
  const progress = (...entries: object[]) => progressOf(entries as SessionEntry[], 5 * MINUTE);

  test("is assumed until the session has shown it", () => {
    expect(lifetimeOf(NO_PROGRESS, 5 * MINUTE)).toBe(5 * MINUTE);
    expect(lifetimeOf(progress(reply(0, 0), reply(8, 900)), 5 * MINUTE)).toBe(8 * MINUTE);
    expect(lifetimeOf(progress(reply(0, 0), reply(3, 0)), 5 * MINUTE)).toBe(3 * MINUTE);
  });

  test("counts from the last time that the host has kept it warm", () => {
    expect(progress(reply(0, 0), reply(6, 0)).coldRequests).toBe(1);
    const warmed = progress(reply(0, 0), warming(4.5), reply(6, 900));
    expect(warmed.coldRequests).toBe(0);
    expect(warmed.warmedAt).toBe(4.5 * MINUTE);
    expect(lifetimeOf(warmed, 5 * MINUTE)).toBe(5 * MINUTE);
  });
});

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
