import { beforeEach, describe, expect, test } from "bun:test";
import type { ContextUsage, SessionEntry } from "@mariozechner/pi-coding-agent";
import { CUSTOM_TYPE_FRONTIER } from "../types.ts";
import { type BudgetConfig, BudgetWatch, tokensToFree } from "./budget-watch.ts";

const WINDOW = 100_000;
const OFF: BudgetConfig = { autoBudgetThreshold: null, budgetTurnDelta: null, autoBudgetTokens: null };
const THRESHOLD: BudgetConfig = { ...OFF, autoBudgetThreshold: 0.8 };
const DELTA: BudgetConfig = { ...OFF, budgetTurnDelta: 0.15 };
const TOKENS: BudgetConfig = { ...OFF, autoBudgetTokens: 50_000 };

function usage(tokens: number | null, contextWindow = WINDOW): ContextUsage {
  return { tokens, contextWindow, percent: tokens === null ? null : (tokens / contextWindow) * 100 };
}

let watch: BudgetWatch;
let reply: number;
beforeEach(() => {
  watch = new BudgetWatch();
  reply = 1_000;
});

/** The figure of a new reply is judged. */
function next(tokens: number | null, config: BudgetConfig, contextWindow = WINDOW): boolean {
  reply += 10;
  return watch.isDue(usage(tokens, contextWindow), reply, config);
}

/** A flush is committed, and the request that follows it leaves. */
function flush(): void {
  watch.flushCommitted();
  watch.requestLeaves(reply);
}

describe("each trigger", () => {
  test("alone", () => {
    expect([79_999, 80_000, 120_000].map((tokens) => next(tokens, THRESHOLD))).toEqual([false, true, true]);
    expect([49_999, 50_000].map((tokens) => next(tokens, TOKENS))).toEqual([false, true]);
    watch.takeUp();
    expect([10_000, 24_999, 39_999].map((tokens) => next(tokens, DELTA))).toEqual([false, false, true]);
  });

  test("none, where all are off", () => {
    expect([10_000, 99_000, 250_000].map((tokens) => next(tokens, OFF))).toEqual([false, false, false]);
  });

  test("any of several", () => {
    const all: BudgetConfig = { autoBudgetThreshold: 0.8, budgetTurnDelta: 0.3, autoBudgetTokens: 70_000 };
    expect([10_000, 30_000, 60_000, 65_000, 70_000, 80_000].map((tokens) => next(tokens, all))).toEqual([
      false,
      false,
      true,
      false,
      true,
      true,
    ]);
  });

  test("a threshold fires on the very first figure, a jump needs two", () => {
    expect(next(95_000, DELTA)).toBe(false);
    watch.takeUp();
    expect(next(95_000, THRESHOLD)).toBe(true);
  });

  test("a jump is measured from the turn before, also while the trigger is off or another has fired", () => {
    next(20_000, OFF);
    expect(next(34_000, DELTA)).toBe(false);
    expect(next(81_000, THRESHOLD)).toBe(true);
    expect(next(90_000, DELTA)).toBe(false);
    expect(next(60_000, DELTA)).toBe(false);
    expect(next(75_000, DELTA)).toBe(true);
  });
});

describe("a figure is judged once", () => {
  test("whichever event comes first", () => {
    expect(next(90_000, THRESHOLD)).toBe(true);
    expect(watch.isDue(usage(90_000), reply, THRESHOLD)).toBe(false);
    expect(watch.isDue(usage(95_000), reply, THRESHOLD)).toBe(false);
    expect(next(90_000, THRESHOLD)).toBe(true);
  });

  test("also where the event of an earlier reply comes late", () => {
    next(10_000, THRESHOLD);
    const late = reply;
    expect(next(90_000, THRESHOLD)).toBe(true);
    expect(watch.isDue(usage(90_000), late, THRESHOLD)).toBe(false);
    expect(watch.isDue(usage(90_000), reply, THRESHOLD)).toBe(false);
  });

  test("and a late event does not move what a jump is measured from", () => {
    next(10_000, DELTA);
    const late = reply;
    next(20_000, DELTA);
    watch.isDue(usage(80_000), late, DELTA);
    watch.isDue(usage(80_000), reply, DELTA);
    expect(next(36_000, DELTA)).toBe(true);
  });

  test("but again against a smaller window", () => {
    expect(next(90_000, THRESHOLD, 1_000_000)).toBe(false);
    expect(watch.isDue(usage(90_000), reply, THRESHOLD)).toBe(true);
    expect(watch.isDue(usage(90_000), reply, THRESHOLD)).toBe(false);
  });

  test("and another window is no jump", () => {
    next(90_000, DELTA, 1_000_000);
    expect(watch.isDue(usage(90_000), reply, DELTA)).toBe(false);
    expect(next(104_000, DELTA)).toBe(false);
    expect(next(119_000, DELTA)).toBe(true);
  });

  test("a session without a reply has none", () => {
    expect(watch.isDue(usage(90_000), undefined, THRESHOLD)).toBe(false);
  });
});

describe("unknown usage", () => {
  test.each<[string, ContextUsage | undefined]>([
    ["no figure", undefined],
    ["null, as after a compaction", usage(null)],
    ["a window of 0", usage(90_000, 0)],
    ["NaN", usage(Number.NaN)],
  ])("%s: does not fire", (_name, unknown) => {
    const all: BudgetConfig = { autoBudgetThreshold: 0.1, budgetTurnDelta: 0.1, autoBudgetTokens: 1 };
    next(0, OFF);
    reply += 10;
    expect(watch.isDue(unknown, reply, all)).toBe(false);
  });

  test("does not stand for zero", () => {
    next(50_000, DELTA);
    expect(next(null, DELTA)).toBe(false);
    expect(next(60_000, DELTA)).toBe(false);
  });

  test("does not make the last figure forgotten", () => {
    next(50_000, DELTA);
    expect(next(null, DELTA)).toBe(false);
    expect(next(65_000, DELTA)).toBe(true);
  });

  test("leaves the reply to be judged when its figure is known", () => {
    expect(next(null, THRESHOLD)).toBe(false);
    expect(watch.isDue(usage(90_000), reply, THRESHOLD)).toBe(true);
  });

  test("does not make stale figures fresh", () => {
    next(90_000, THRESHOLD);
    flush();
    expect(watch.isDue(undefined, reply, THRESHOLD)).toBe(false);
    expect(watch.isDue(usage(90_000), reply, THRESHOLD)).toBe(false);
  });
});

describe("after a flush", () => {
  test("nothing fires before a reply to a request that left after it", () => {
    next(90_000, THRESHOLD);
    watch.flushCommitted();
    // The flush ran beside a request: its reply was paid for at the old size.
    expect(next(95_000, THRESHOLD)).toBe(false);
    watch.requestLeaves(reply);
    expect(watch.isDue(usage(95_000), reply, THRESHOLD)).toBe(false);
    expect(next(85_000, THRESHOLD)).toBe(true);
  });

  test("only the first request counts: its reply is fresh although others follow", () => {
    next(90_000, THRESHOLD);
    flush();
    reply += 10;
    watch.requestLeaves(reply);
    expect(watch.isDue(usage(85_000), reply, THRESHOLD)).toBe(true);
  });

  test("every reply is fresh where the session had none before", () => {
    watch.flushCommitted();
    watch.requestLeaves(undefined);
    expect(next(90_000, THRESHOLD)).toBe(true);
  });

  test("a jump is measured from the last figure that was judged", () => {
    next(60_000, DELTA);
    watch.flushCommitted();
    expect(next(90_000, DELTA)).toBe(false);
    watch.requestLeaves(reply);
    expect(next(20_000, DELTA)).toBe(false);
    expect(next(35_000, DELTA)).toBe(true);
  });

  test("a second flush makes figures stale again", () => {
    next(90_000, THRESHOLD);
    flush();
    expect(next(85_000, THRESHOLD)).toBe(true);
    flush();
    expect(watch.isDue(usage(85_000), reply, THRESHOLD)).toBe(false);
    expect(next(85_000, THRESHOLD)).toBe(true);
  });
});

test("a move to another place begins anew", () => {
  next(90_000, THRESHOLD);
  flush();
  watch.takeUp();
  expect(watch.isDue(usage(90_000), 1_001, THRESHOLD)).toBe(true);
  watch.takeUp();
  // No figure from before is left to measure a jump from.
  expect(watch.isDue(usage(30_000), 1_002, DELTA)).toBe(false);
  expect(watch.isDue(usage(45_000), 1_003, DELTA)).toBe(true);
});

/** Entries of a branch: replies by their times, and what extensions have written. */
function branchOf(...parts: (number | string)[]): SessionEntry[] {
  const entries: unknown[] = parts.map((part, i) => ({
    ...{ id: `e${i}`, parentId: null, timestamp: "" },
    ...(typeof part === "string"
      ? { type: "custom", customType: part, data: {} }
      : { type: "message", message: { role: "assistant", content: [], stopReason: "stop", timestamp: part } }),
  }));
  return entries as SessionEntry[];
}

test.each<[string, (number | string)[], boolean]>([
  ["no flush", [10, 20], true],
  ["a flush behind the last reply", [10, 20, CUSTOM_TYPE_FRONTIER], false],
  ["a flush behind the last reply, and another entry between them", [10, 20, "other", CUSTOM_TYPE_FRONTIER], false],
  ["a flush and another extension's entry behind it", [10, 20, CUSTOM_TYPE_FRONTIER, "other"], false],
  ["another extension's entry", [10, 20, "other"], true],
  ["a flush before the last reply", [10, CUSTOM_TYPE_FRONTIER, 20], true],
  ["a flush, a reply, and a flush", [10, CUSTOM_TYPE_FRONTIER, 20, CUSTOM_TYPE_FRONTIER], false],
])("after a resume the last reply's figure is judged unless a flush has made it stale: %s", (_, parts, isJudged) => {
  watch.takeUp(branchOf(...parts));
  expect(watch.isDue(usage(90_000), 20, THRESHOLD)).toBe(isJudged);
  expect(watch.isDue(usage(90_000), 30, THRESHOLD)).toBe(true);
});

test.each<[string, number | null, Partial<BudgetConfig>, number]>([
  ["nothing below the window's own limit", 79_999, {}, 0],
  ["to three quarters of the window's own limit", 80_000, {}, 20_000],
  ["to three quarters of a lower threshold", 50_000, { autoBudgetThreshold: 0.5 }, 12_500],
  ["nothing more for a threshold above the window's own limit", 80_000, { autoBudgetThreshold: 0.9 }, 20_000],
  ["to three quarters of so many tokens", 40_000, { autoBudgetTokens: 40_000 }, 10_000],
  ["as much as a jump", 10_000, { budgetTurnDelta: 0.15 }, 15_000],
  ["nothing where the size is unknown", null, { budgetTurnDelta: 0.15 }, 0],
])("what a budget frees: %s", (_, tokens, config, freed) => {
  expect(tokensToFree(usage(tokens), { ...OFF, ...config })).toBeCloseTo(freed, 5);
});
