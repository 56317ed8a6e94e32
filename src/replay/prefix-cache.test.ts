import { describe, expect, test } from "bun:test";
import type { CachePolicy } from "../cost/prices.ts";
import { PrefixCache, type PromptPart } from "./prefix-cache.ts";

const POLICY: CachePolicy = { lifetimeMs: 300_000, minTokens: 1_000 };

/** Parts of 1,000 tokens and two blocks each, named by the letters. */
function prompt(letters: string): PromptPart[] {
  return [...letters].map((fingerprint) => ({ fingerprint, tokens: 1_000, blocks: 2 }));
}

describe("a prompt cache", () => {
  test("finds the common beginning and writes the rest", () => {
    const cache = new PrefixCache(POLICY);
    expect(cache.use(prompt("abc"), 0)).toEqual({ read: 0, write: 3_000, input: 0 });
    expect(cache.use(prompt("abcde"), 1_000)).toEqual({ read: 3_000, write: 2_000, input: 0 });
    // A change in the middle costs all that stands behind it.
    expect(cache.use(prompt("abXde"), 2_000)).toEqual({ read: 2_000, write: 3_000, input: 0 });
    // The old way is still there.
    expect(cache.use(prompt("abcdef"), 3_000)).toEqual({ read: 5_000, write: 1_000, input: 0 });
  });

  test("keeps a prompt for its lifetime after each use", () => {
    const cache = new PrefixCache(POLICY);
    cache.use(prompt("abc"), 0);
    expect(cache.use(prompt("ab"), 300_000).read).toBe(2_000);
    // The third part was last used at 0.
    expect(cache.use(prompt("abc"), 400_000)).toEqual({ read: 2_000, write: 1_000, input: 0 });
    expect(cache.use(prompt("abc"), 700_001)).toEqual({ read: 0, write: 3_000, input: 0 });
  });

  test("does not take what is too short", () => {
    const cache = new PrefixCache({ ...POLICY, minTokens: 2_500 });
    expect(cache.use(prompt("ab"), 0)).toEqual({ read: 0, write: 0, input: 2_000 });
    expect(cache.use(prompt("abc"), 1)).toEqual({ read: 0, write: 3_000, input: 0 });
    expect(cache.use(prompt("abXY"), 2)).toEqual({ read: 0, write: 4_000, input: 0 });
  });

  test("with marks finds only ends of earlier prompts that are near", () => {
    const cache = new PrefixCache({ ...POLICY, lookbackBlocks: 6 });
    cache.use(prompt("sabc"), 0);
    expect(cache.use(prompt("sabcde"), 1).read).toBe(4_000);
    // "sab" is a common beginning, but no prompt has ended there: only the system part is left.
    expect(cache.use(prompt("sabXYZ"), 2)).toEqual({ read: 1_000, write: 5_000, input: 0 });
    // "sabc" has been an end, but stands more than six blocks before this one.
    expect(cache.use(prompt("sabcPQRS"), 3).read).toBe(1_000);
  });
});
