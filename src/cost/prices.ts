/**
 * What tokens cost, and when a rewrite of the cached prompt pays. Pure; prices are in USD per million tokens, and any
 * other unit does as well as long as one comparison keeps to it.
 */
import { RESERVE_TOKENS } from "../transcript/tokens.ts";

/** Prices of one million tokens. */
export interface Rates {
  input: number;
  output: number;
  cacheRead: number;
  /** 0 where a provider charges writing into its cache like plain input. */
  cacheWrite: number;
}

/** A model's cost table as the hosts have it; on the newer one a long prompt may have other prices. */
export interface ModelCost extends Rates {
  tiers?: readonly (Rates & { inputTokensAbove: number })[];
}

/** How a provider keeps prompts. */
export interface CachePolicy {
  /** Milliseconds that a prompt is kept after its last use. */
  lifetimeMs: number;
  /** A shorter prompt is neither written nor found. */
  minTokens: number;
  /**
   * Content blocks before the end of a prompt among which an earlier end is looked for; missing where any common
   * beginning is found.
   */
  lookbackBlocks?: number;
}

/** Prices as multiples of the input price, and the cache that goes with them. */
export interface PriceProfile extends CachePolicy {
  name: string;
  rates: Rates;
}

/** Tokens of one request by what is charged for them. */
export interface TokenCounts {
  read: number;
  write: number;
  /** Input that is neither read from the cache nor written to it. */
  input: number;
  output: number;
}

const MINUTE = 60_000;
const DEFAULT_CACHE: CachePolicy = { lifetimeMs: 5 * MINUTE, minTokens: 1_024 };
/** Prices are for so many tokens. */
const MILLION = 1_000_000;

/** Profiles by name. Output is taken as five times input, as most vendors have it. */
export const PRICE_PROFILES: ReadonlyMap<string, PriceProfile> = new Map(
  [
    profile("anthropic-5m", 0.1, 1.25),
    profile("anthropic-1h", 0.1, 2, { lifetimeMs: 60 * MINUTE }),
    // One mark at the end of the prompt, as the hosts set it: an earlier end is found only where it is close.
    profile("anthropic-5m-marks", 0.1, 1.25, { lookbackBlocks: 20 }),
    profile("openai", 0.1, 0),
    profile("google", 0.25, 0, { minTokens: 2_048 }),
    profile("read-0.05", 0.05, 0),
    profile("read-0.025", 0.025, 0),
    profile("read-0.5", 0.5, 0),
    profile("no-cache", 1, 0, { lifetimeMs: 0 }),
  ].map((entry) => [entry.name, entry]),
);

/** What is reckoned with where nothing is known. */
export const DEFAULT_PROFILE = profile("anthropic-5m", 0.1, 1.25);

function profile(name: string, cacheRead: number, cacheWrite: number, cache: Partial<CachePolicy> = {}): PriceProfile {
  return { name, rates: { input: 1, output: 5, cacheRead, cacheWrite }, ...DEFAULT_CACHE, ...cache };
}

/** `rates` with every price multiplied by `factor`. */
export function scaleRates({ input, output, cacheRead, cacheWrite }: Rates, factor: number): Rates {
  return {
    input: input * factor,
    output: output * factor,
    cacheRead: cacheRead * factor,
    cacheWrite: cacheWrite * factor,
  };
}

/** The rates for a prompt of `promptTokens`: those of the highest tier that it exceeds, as the host itself charges. */
export function ratesFor(cost: ModelCost, promptTokens: number): Rates {
  let rates: Rates = cost;
  let threshold = -1;
  for (const tier of cost.tiers ?? []) {
    if (promptTokens <= tier.inputTokensAbove || tier.inputTokensAbove <= threshold) continue;
    rates = tier;
    threshold = tier.inputTokensAbove;
  }
  return rates;
}

/** Price of a token that a prompt adds to the cache: where writing has no price of its own, that of plain input. */
export function writePrice({ cacheWrite, input }: Rates): number {
  return cacheWrite > 0 ? cacheWrite : input;
}

/** Price of a token that the cache gives. A table that knows no cache at all charges it as input. */
export function readPrice({ cacheRead, cacheWrite, input }: Rates): number {
  return cacheRead > 0 || cacheWrite > 0 ? cacheRead : input;
}

/** What `counts` cost by a table in USD per million: one request, its tier chosen by the size of its prompt. */
export function costOf(counts: TokenCounts, cost: ModelCost): number {
  const rates = ratesFor(cost, counts.read + counts.write + counts.input);
  const sum =
    counts.read * readPrice(rates) +
    counts.write * writePrice(rates) +
    counts.input * rates.input +
    counts.output * rates.output;
  return sum / MILLION;
}

/** What is known of a flush before it is made. */
export interface FlushForecast {
  /** Tokens that every later request is spared. */
  clearedTokens: number;
  /** Cached tokens behind the first change: they are kept, and have to be written anew. */
  keptTokens: number;
  /** Requests still to come. */
  expectedRequests: number;
  /** Per million tokens. */
  prices: Rates;
  /** In the currency of `prices`; 0 for summaries that are paid for already. */
  summarizerCost: number;
  /** The same for what is expected to be asked back. */
  recoveryCost?: number;
  /** Tokens of `clearedTokens` that are expected to be asked back: later requests carry them all the same. */
  returnedTokens?: number;
  /** Nothing of the prompt is cached any more, so that a rewrite costs nothing. */
  cacheIsCold: boolean;
  /**
   * For a rewrite that costs about the same however much it clears: tokens that could have been cleared, times the
   * requests that have carried them so far. `decideFlush` waits until that has cost about as much as the rewrite.
   */
  carriedTokens?: number;
  /**
   * The flush could have been made before, for less: more stands behind the first change by now. It is then made only
   * where it pays several times over, since a session that ends soon would not make up for it.
   */
  isLate?: boolean;
}

/**
 * What a flush is expected to save on later requests, `(cleared − asked back) × requests still to come × read price`, and to cost at once,
 * `kept × (write price − read price) + summariser cost + price of asking back`, in the currency of its prices. On a cold cache the rewrite is free.
 */
export function flushBalance(forecast: FlushForecast): { savings: number; price: number } {
  const { clearedTokens, keptTokens, expectedRequests, prices, summarizerCost, cacheIsCold } = forecast;
  const { recoveryCost = 0, returnedTokens = 0 } = forecast;
  const read = readPrice(prices);
  const rewrite = cacheIsCold ? 0 : keptTokens * Math.max(0, writePrice(prices) - read);
  return {
    savings: (Math.max(0, clearedTokens - returnedTokens) * expectedRequests * read) / MILLION,
    price: rewrite / MILLION + summarizerCost + recoveryCost,
  };
}

/** Tokens of a reply that asks for an output. */
const ASKING_TOKENS = 100;

/** What it costs to ask back: the prompt is read once more for each request, what comes back is written. */
export function priceOfAsking(
  { requests, tokens }: { requests: number; tokens: number },
  promptTokens: number,
  prices: Rates,
): number {
  const reading = requests * (Math.max(0, promptTokens) * readPrice(prices) + ASKING_TOKENS * prices.output);
  return (reading + tokens * writePrice(prices)) / MILLION;
}

/**
 * If rewrites were all alike, their sum with what is carried meanwhile would be smallest at 1. A little less is better,
 * as each of them also makes the next one smaller.
 */
const CARRIED_SHARE = 0.6;

/**
 * What a flush has to bring in for each unit of its price, by what the price is for. A summary is paid for now and may
 * not come to be used. Late, when few requests may be left, both have to be made up for several times over: at less,
 * short sessions came to cost more than they would have raw.
 */
const MARGINS = { rewrite: 1, summary: 1.5 };
const LATE_MARGINS = { rewrite: 7, summary: 3 };

/** How far a session has come. */
export interface SessionProgress {
  /** Messages of the user so far, the current one included. */
  userTurns: number;
  /** Requests so far, and those of them that found nothing in the cache; the first of all does not count as one. */
  requests: number;
  coldRequests: number;
  /** Requests since the last message of the user. */
  requestsThisTurn: number;
}

/** Requests that any session is expected to go on for. With more of them, short sessions came to cost more than raw. */
const SURE_REQUESTS = 4;

/**
 * Requests that a session is expected to make from here on. Sessions have no typical length, so that one of which
 * nothing but its age is known is expected to go on for as long again: as many turns as so far, each with as many
 * requests as the mean, and what is left of the current turn. `SURE_REQUESTS` are added, since one that has just begun
 * says little.
 */
export function expectedRequests({ userTurns, requests, requestsThisTurn }: SessionProgress): number {
  const turns = Math.max(1, userTurns);
  const perTurn = Math.max(1, requests / turns);
  const restOfTurn = Math.max(0, perTurn - requestsThisTurn);
  return SURE_REQUESTS + turns * perTurn + restOfTurn;
}

/**
 * The same counted in reads of the cache: a request that finds it cold pays the write price, and as many of those are
 * expected as there have been.
 */
export function expectedReads(progress: SessionProgress, prices: Rates): number {
  const expected = expectedRequests(progress);
  const coldShare = progress.requests > 0 ? Math.min(1, progress.coldRequests / progress.requests) : 0;
  const read = readPrice(prices);
  return read > 0 ? expected * (1 + coldShare * (writePrice(prices) / read - 1)) : expected;
}

/** What is known of the prompt cache before a request leaves. Times in ms. */
export interface CacheSituation {
  now: number;
  /** When the last request left; `undefined` where this process has sent none, as after a resume. */
  lastRequestAt: number | undefined;
  lifetimeMs: number;
  /** Since the last request: another model, whose cache is another one, or a compaction. */
  modelChanged: boolean;
  compacted: boolean;
}

/** Nothing of the prompt that is worth keeping is in the provider's cache. */
export function isCacheCold({ now, lastRequestAt, lifetimeMs, modelChanged, compacted }: CacheSituation): boolean {
  return modelChanged || compacted || lastRequestAt === undefined || now - lastRequestAt > lifetimeMs;
}

/** Tokens of a result as long as the host's tools return at most: 50 KB. */
const RESULT_TOKENS = 12_800;
const PRESSURE_SHARE = 0.8;

/**
 * Tokens from which on a flush is made whatever it costs: what comes next is the host's compaction. In a large window,
 * one more result fits before it.
 */
export function pressureLimit(contextWindow: number): number {
  return Math.max(PRESSURE_SHARE * contextWindow, contextWindow - RESERVE_TOKENS - RESULT_TOKENS);
}

/** Why a flush is made or not. */
export interface FlushDecision {
  flush: boolean;
  reason: "nothing-to-clear" | "window-pressure" | "cold-cache" | "pays" | "does-not-pay" | "gathers-more";
  /** Expected on later requests, and due at once; in the currency of the forecast. */
  savings: number;
  price: number;
  /**
   * What the flush waits for where it does not come: an amount, its size by now, and the size that it has to exceed. Of
   * `savings` that is the price with its margins.
   */
  waitsFor?: { amount: "savings" | "carried"; now: number; needed: number };
}

/**
 * Decides on a flush whose figures are known.
 * @param isUnderPressure the context has reached `pressureLimit`
 */
export function decideFlush(forecast: FlushForecast, isUnderPressure = false): FlushDecision {
  const { savings, price } = flushBalance(forecast);
  const decide = (flush: boolean, reason: FlushDecision["reason"]) => ({ flush, reason, savings, price });
  const waitUntilWorth = (needed: number): FlushDecision => ({
    ...decide(false, "does-not-pay"),
    waitsFor: { amount: "savings", now: savings, needed },
  });
  if (forecast.clearedTokens <= 0) return decide(false, "nothing-to-clear");
  if (isUnderPressure) return decide(true, "window-pressure");
  const { carriedTokens, prices, summarizerCost, recoveryCost = 0 } = forecast;
  const atLeast = ({ rewrite, summary }: typeof MARGINS) =>
    (price - summarizerCost - recoveryCost) * rewrite + summarizerCost * summary + recoveryCost;
  if (savings <= atLeast(MARGINS))
    return waitUntilWorth(atLeast(forecast.isLate && !forecast.cacheIsCold ? LATE_MARGINS : MARGINS));
  if (forecast.cacheIsCold) return decide(true, "cold-cache");
  if (forecast.isLate && savings <= atLeast(LATE_MARGINS)) return waitUntilWorth(atLeast(LATE_MARGINS));
  if (carriedTokens === undefined) return decide(true, "pays");
  const carried = (carriedTokens * readPrice(prices)) / MILLION;
  const needed = price * CARRIED_SHARE;
  if (carried >= needed) return decide(true, "pays");
  return { ...decide(false, "gathers-more"), waitsFor: { amount: "carried", now: carried, needed } };
}
