import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { captureUnindexedBatches } from "../batch-capture.ts";
import { DEFAULT_CONFIG } from "../config.ts";
import {
  type CondensingSituation,
  decideCondensing,
  isUnderPressure,
  lifetimeOf,
  progressOf,
  summariesPay,
} from "./decision.ts";

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

describe("how long the provider keeps a prompt", () => {
  const ASSUMED = 300_000;
  /** A reply that came at a time (ms), and the tokens of its prompt that the cache gave and took. */
  const reply = (at: number, cacheRead: number, cacheWrite: number, model = "m"): SessionEntry => ({
    ...{ type: "message", id: `e${at}`, parentId: null, timestamp: new Date(at).toISOString() },
    message: {
      ...{ role: "assistant", ...FROM, model, stopReason: "stop", timestamp: at, content: [] },
      usage: { ...USAGE, input: 10, cacheRead, cacheWrite },
    },
  });
  const lifetime = (...entries: SessionEntry[]) => lifetimeOf(progressOf(entries, ASSUMED), ASSUMED);
  const first = reply(0, 0, 8_000);

  test("is assumed until the session has shown it", () => {
    expect(lifetime()).toBe(ASSUMED);
    expect(lifetime(first, reply(60_000, 8_000, 100))).toBe(ASSUMED);
  });

  test("is longer than a pause after which most of the prompt was read", () => {
    expect(lifetime(first, reply(900_000, 8_000, 100))).toBe(900_000);
    expect(lifetime(first, reply(900_000, 3_000, 5_000))).toBe(ASSUMED);
  });

  test("is shorter than a pause after which nothing was read of what had been written", () => {
    expect(lifetime(first, reply(120_000, 0, 8_000))).toBe(120_000);
    // Nothing had been cached.
    expect(lifetime(reply(0, 0, 0), reply(120_000, 0, 8_000))).toBe(ASSUMED);
  });

  test("is learned anew with another model, and not from its first reply", () => {
    expect(lifetime(first, reply(900_000, 8_000, 100), reply(960_000, 0, 8_000, "other"))).toBe(ASSUMED);
  });

  test("counts from the last time that the host has kept the cache warm", () => {
    const warmed = { type: "usage", kind: "cache_warm", timestamp: new Date(800_000).toISOString() };
    const entries = [first, warmed as unknown as SessionEntry];
    expect(progressOf(entries, ASSUMED).warmedAt).toBe(800_000);
    // A pause of 100 seconds, and no cold request.
    const { keptFor, coldRequests } = progressOf([...entries, reply(900_000, 8_000, 100)], ASSUMED);
    expect({ keptFor, coldRequests }).toEqual({ keptFor: 100_000, coldRequests: 0 });
  });
});

test("pressure is judged by the tokens in use, and unknown ones are none", () => {
  const usage = (tokens: number | null, contextWindow = 100_000) => ({ tokens, contextWindow, percent: null });
  expect([79_999, 80_000].map((tokens) => isUnderPressure(usage(tokens)))).toEqual([false, true]);
  expect([undefined, usage(null), usage(5, 0)].map(isUnderPressure)).toEqual([false, false, false]);
});
