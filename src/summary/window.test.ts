import { describe, expect, test } from "bun:test";
import { cpuMs } from "../../test/support/cpu-time.ts";
import { mostTokens } from "../transcript/tokens.ts";
import { fitText } from "./window.ts";

const NOTE = /\n\[… ([\d,]+) characters not shown …\]\n/;

/** What is left of a text, and what the note says was left out. */
function parts(shown: string): { head: string; elided: number; tail: string } {
  const [, digits = ""] = NOTE.exec(shown) ?? [];
  const [head = "", tail = ""] = shown.split(NOTE.exec(shown)?.[0] ?? "\0");
  return { head, elided: Number(digits.replaceAll(",", "")), tail };
}

describe("tokensOf", () => {
  test.each<[string, string, number]>([
    ["prose", "a fox jumps\n", 0.39],
    ["digits, which some models read one by one", "0123456789", 1],
    ["base64 and hashes", "aB3+", 0.6],
    ["Chinese", "漢字", 1],
    ["Cyrillic", "да", 1],
    ["emoji, in UTF-16 code units", "😀", 1],
  ])("takes %s for %p of %d tokens a character at least", (_what, text, least) => {
    expect(mostTokens(text.repeat(100)) / (text.length * 100)).toBeGreaterThanOrEqual(least);
  });

  test("counts no further than it has to", () => {
    const used = cpuMs(() => {
      for (let i = 0; i < 1_000; i++) expect(mostTokens("x".repeat(1_000_000), 50)).toBeLessThan(51);
    });
    expect(used).toBeLessThan(3_000);
  });
});

describe("fitText", () => {
  test("leaves a text that fits", () => {
    expect(fitText("12345", 5)).toBe("12345");
    expect(fitText("", 0)).toBe("");
  });

  test.each<[string, string]>([
    ["words", "the quick brown fox "],
    ["digits", "314159 "],
    ["Chinese", "漢字漢字"],
    ["emoji", "👩‍👩‍👧‍👦"],
    ["lines", "a\n"],
  ])("shows both ends of %s, no more than fits, and tells exactly what is missing", (_what, unit) => {
    const text = unit.repeat(5_000);
    for (const max of [100, 333, 2_000]) {
      const shown = fitText(text, max);
      const { head, elided, tail } = parts(shown);
      expect(mostTokens(shown)).toBeLessThanOrEqual(max);
      expect(mostTokens(shown)).toBeGreaterThan(max * 0.75);
      expect(text).toStartWith(head);
      expect(text).toEndWith(tail);
      expect(head.length + elided + tail.length).toBe(text.length);
      expect(Math.abs(mostTokens(head) - mostTokens(tail))).toBeLessThan(5);
      expect(shown).not.toMatch(/\p{Surrogate}/u);
    }
  });

  test("is not deceived by ends in another script than the middle", () => {
    const text = `${"plain ".repeat(600)}${"漢".repeat(40_000)}${"plain ".repeat(600)}`;
    expect(mostTokens(fitText(text, 8_000))).toBeLessThanOrEqual(8_000);
    const inside = `${"plain ".repeat(100)}${"漢".repeat(4_000)}${"plain ".repeat(100)}`;
    expect(mostTokens(fitText(inside, 4_000))).toBeLessThanOrEqual(4_000);
  });

  test("splits no surrogate pair, at no size", () => {
    const text = "😀".repeat(60);
    for (let max = 0; max < 120; max++) {
      const shown = fitText(text, max);
      expect(shown).not.toMatch(/\p{Surrogate}/u);
      const { head, elided, tail } = parts(shown);
      expect(head.length + elided + tail.length).toBe(text.length);
    }
  });
});
