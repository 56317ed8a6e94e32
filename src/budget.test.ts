import { describe, expect, test } from "bun:test";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import fc from "fast-check";
import { shouldBudgetFlush, shouldDeltaFlush, shouldTokenFlush, usageFraction } from "./budget.ts";

function usage(tokens: number | null, contextWindow = 100_000): ContextUsage {
  return { tokens, contextWindow, percent: tokens === null ? null : (tokens / contextWindow) * 100 };
}

const UNKNOWN: [string, ContextUsage | undefined][] = [
  ["no usage", undefined],
  ["tokens null, as after a compaction", usage(null)],
  ["tokens undefined", { contextWindow: 100_000, percent: null } as unknown as ContextUsage],
  ["window 0", usage(90_000, 0)],
  ["window negative", usage(90_000, -1)],
  ["window NaN", usage(90_000, Number.NaN)],
  ["tokens NaN", usage(Number.NaN)],
  ["tokens infinite", usage(Number.POSITIVE_INFINITY)],
];

describe("usageFraction", () => {
  test.each(UNKNOWN)("%s: unknown", (_name, value) => expect(usageFraction(value)).toBeNull());

  test("is a fraction, computed from tokens and window", () => {
    expect(usageFraction(usage(80_000))).toBe(0.8);
    expect(usageFraction(usage(0))).toBe(0);
    expect(usageFraction({ tokens: 50, contextWindow: 100, percent: null })).toBe(0.5);
    expect(usageFraction({ tokens: 50, contextWindow: 100, percent: 99 })).toBe(0.5);
  });
});

describe("shouldBudgetFlush", () => {
  test.each(UNKNOWN)("%s: false", (_name, value) => expect(shouldBudgetFlush(value, 0.5)).toBe(false));

  test.each([
    ["null", null],
    ["undefined", undefined as unknown as null],
    ["0", 0],
    ["negative", -0.5],
    ["a percentage", 80],
    ["just above 1", 1.0001],
    ["NaN", Number.NaN],
    ["infinite", Number.POSITIVE_INFINITY],
  ])("threshold %s: off", (_name, threshold) => {
    expect(shouldBudgetFlush(usage(99_999), threshold)).toBe(false);
    expect(shouldBudgetFlush(usage(9_000_000), threshold)).toBe(false);
  });

  test.each([
    ["under", 79_999, 0.8, false],
    ["exactly at", 80_000, 0.8, true],
    ["over", 80_001, 0.8, true],
    ["over the window", 120_000, 0.8, true],
    ["just under a threshold of 1", 99_999, 1, false],
    ["a threshold of 1 reached", 100_000, 1, true],
    ["nothing used", 0, 0.8, false],
  ])("%s", (_name, tokens, threshold, expected) => {
    expect(shouldBudgetFlush(usage(tokens), threshold)).toBe(expected);
  });
});

describe("shouldDeltaFlush", () => {
  test.each(UNKNOWN)("%s: false", (_name, value) => expect(shouldDeltaFlush(value, 0.1, 0.15)).toBe(false));

  test.each([
    ["null", null],
    ["undefined", undefined as unknown as null],
    ["0", 0],
    ["negative", -0.5],
    ["a percentage", 15],
    ["NaN", Number.NaN],
  ])("delta %s: off", (_name, delta) => {
    expect(shouldDeltaFlush(usage(90_000), 0.1, delta)).toBe(false);
    expect(shouldDeltaFlush(usage(10_000), 0.1, delta)).toBe(false);
  });

  test("no previous fraction, as after a restart: false", () => {
    expect(shouldDeltaFlush(usage(90_000), null, 0.15)).toBe(false);
    expect(shouldDeltaFlush(usage(90_000), undefined as unknown as null, 0.15)).toBe(false);
    expect(shouldDeltaFlush(usage(90_000), Number.NaN, 0.15)).toBe(false);
  });

  test.each([
    ["below", 0.5, 64_999, false],
    ["at", 0.5, 65_000, true],
    ["above", 0.5, 65_001, true],
    ["at, where floating point falls short", 0.2, 35_000, true],
    ["just below, there", 0.2, 34_999, false],
    ["from an empty context", 0, 15_000, true],
    ["unchanged", 0.5, 50_000, false],
    ["shrunk", 0.9, 10_000, false],
  ])("%s", (_name, previous, tokens, expected) => {
    expect(shouldDeltaFlush(usage(tokens), previous, 0.15)).toBe(expected);
  });

  test("agrees with the same sum in whole tokens", () => {
    const window = 1_000_000;
    const tokens = fc.integer({ min: 0, max: window });
    fc.assert(
      fc.property(tokens, tokens, fc.integer({ min: 1, max: 1000 }), (before, now, permille) => {
        const fired = shouldDeltaFlush(usage(now, window), usageFraction(usage(before, window)), permille / 1000);
        expect(fired).toBe(now - before >= permille * (window / 1000));
      }),
    );
  });
});

describe("shouldTokenFlush", () => {
  test.each(UNKNOWN)("%s: false", (_name, value) => expect(shouldTokenFlush(value, 1)).toBe(false));

  test.each([
    ["null", null],
    ["undefined", undefined as unknown as null],
    ["0", 0],
    ["negative", -1],
    ["NaN", Number.NaN],
  ])("%s tokens: off", (_name, tokens) => expect(shouldTokenFlush(usage(90_000), tokens)).toBe(false));

  test.each([
    ["under", 199_999, false],
    ["exactly at", 200_000, true],
    ["over", 200_001, true],
  ])("%s", (_name, tokens, expected) => {
    expect(shouldTokenFlush(usage(tokens, 1_000_000), 200_000)).toBe(expected);
  });
});
