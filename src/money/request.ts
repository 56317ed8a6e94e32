/** One request beside the one that a raw session would have sent: which form went out, and what each of them costs. */
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { costOf, type ModelCost, ratesFor, readPrice, type TokenCounts, writePrice } from "../cost/prices.ts";

/** Tokens of a reply's request as its provider counted them. */
export function countsOf({ usage }: AssistantMessage): TokenCounts {
  return {
    read: amountOf(usage?.cacheRead),
    write: amountOf(usage?.cacheWrite),
    input: amountOf(usage?.input),
    output: amountOf(usage?.output),
  };
}

/** USD that a reply's request has cost, as recorded. */
export function recordedCost({ usage }: AssistantMessage): number {
  return amountOf(usage?.cost?.total);
}

/** What is no number counts as none. */
function amountOf(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0;
}

export function promptOf({ read, write, input }: TokenCounts): number {
  return read + write + input;
}

/** What is known of a request and of the one before it on the branch. Tokens by the provider's scale. */
export interface RequestFacts {
  counts: TokenCounts;
  /** What the raw prompt has more than the one that was sent; less than 0 where recovered text outweighs it. */
  saved: number;
  /** Of the prompt that was sent: what had been sent before, in whatever form. */
  old: number;
  /** The raw prompt of the request before; `undefined` where the cache held none of it. */
  cachedRaw: number | undefined;
  /** Something else is kept out of the prompt than before, so that a part of it had to be written again. */
  rewritten: boolean;
  /** The raw prompt was longer by other text than the one that was sent. */
  diverged: boolean;
}

/** The request that a raw session would have sent instead, and the tokens that were written into the cache again. */
export function rawCounterpart(facts: RequestFacts): { counts: TokenCounts; rewrittenTokens: number } {
  const { counts, saved, old, cachedRaw, rewritten, diverged } = facts;
  const prompt = promptOf(counts);
  const tokens = Math.max(0, prompt + saved);
  const isCached = cachedRaw !== undefined;
  const read = Math.min(tokens, readOfRaw());
  const fresh = counts.write + counts.input;
  const writtenShare = fresh > 0 ? counts.write / fresh : 0;
  const rest = tokens - read;
  const rewrittenTokens = isCached && rewritten ? Math.max(0, Math.min(old, cachedRaw) - counts.read) : 0;
  return {
    counts: { read, write: rest * writtenShare, input: rest * (1 - writtenShare), output: counts.output },
    rewrittenTokens,
  };

  function readOfRaw(): number {
    if (!isCached) return counts.read;
    if (rewritten || diverged) return cachedRaw;
    // What was kept out stands in the part that was read, where anything was.
    return counts.read > 0 ? counts.read + Math.max(0, saved) : 0;
  }
}

/** USD that tokens written again cost more than they would have, had they been read. */
export function rewriteCost(tokens: number, counts: TokenCounts, cost: ModelCost): number {
  const rates = ratesFor(cost, promptOf(counts));
  const written = counts.write > 0 ? writePrice(rates) : rates.input;
  return (tokens * Math.max(0, written - readPrice(rates))) / 1_000_000;
}

/** USD of a request as recorded, plus what `other` costs more than it by the same prices. */
export function costOfOther(recorded: number, counts: TokenCounts, other: TokenCounts, cost: ModelCost): number {
  return Math.max(0, recorded + costOf(other, cost) - costOf(counts, cost));
}

/** The nearest of several amounts. */
export function nearestOf(value: number, candidates: readonly number[]): number {
  return candidates.reduce(
    (best, next) => (Math.abs(next - value) < Math.abs(best - value) ? next : best),
    candidates[0] ?? 0,
  );
}
