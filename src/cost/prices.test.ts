import { describe, expect, test } from "bun:test";
import {
  costOf,
  decideFlush,
  expectedReads,
  expectedRequests,
  type FlushForecast,
  flushBalance,
  isCacheCold,
  type ModelCost,
  PRICE_PROFILES,
  pressureLimit,
  priceOfAsking,
  ratesFor,
  readPrice,
  scaleRates,
  writePrice,
} from "./prices.ts";

/** A model at 5 USD for a million input tokens, with a cache as Anthropic charges it. */
const MODEL: ModelCost = { input: 5, output: 25, cacheRead: 0.5, cacheWrite: 6.25 };
/** As vendors without a price for writing have it. */
const PLAIN: ModelCost = { input: 2, output: 8, cacheRead: 0.5, cacheWrite: 0 };

function flushPays(forecast: FlushForecast): boolean {
  const { savings, price } = flushBalance(forecast);
  return savings > price;
}

describe("the cost of a request", () => {
  test("is that of the tier which the whole prompt reaches, be it read, written or neither", () => {
    const dear = { input: 10, output: 50, cacheRead: 1, cacheWrite: 12.5, inputTokensAbove: 200_000 };
    const tiered: ModelCost = { ...MODEL, tiers: [dear] };
    // 100,000 × 1 + 80,000 × 12.5 + 30,000 × 10 = 1,400,000, by a million
    expect(costOf({ read: 100_000, write: 80_000, input: 30_000, output: 0 }, tiered)).toBeCloseTo(1.4, 10);
    // 100,000 × 0.5 + 80,000 × 6.25 + 20,000 × 5 = 650,000
    expect(costOf({ read: 100_000, write: 80_000, input: 20_000, output: 0 }, tiered)).toBeCloseTo(0.65, 10);
  });

  test("grows with every price", () => {
    expect(scaleRates(MODEL, 2)).toEqual({ input: 10, output: 50, cacheRead: 1, cacheWrite: 12.5 });
  });

  test("adds up its four parts", () => {
    // 100,000 × 0.5 + 2,000 × 6.25 + 10 × 5 + 400 × 25 = 72,550, by a million
    expect(costOf({ read: 100_000, write: 2_000, input: 10, output: 400 }, MODEL)).toBeCloseTo(0.07255, 10);
  });

  test("charges writing like input where it has no price of its own", () => {
    // 1,000 × 0.5 + 3,000 × 2 = 6,500
    expect(costOf({ read: 1_000, write: 3_000, input: 0, output: 0 }, PLAIN)).toBeCloseTo(0.0065, 10);
    expect(writePrice(PLAIN)).toBe(2);
    expect(writePrice(MODEL)).toBe(6.25);
  });

  test("charges reading like input where a table knows no cache", () => {
    expect(readPrice({ input: 3, output: 9, cacheRead: 0, cacheWrite: 0 })).toBe(3);
    expect(readPrice({ input: 3, output: 9, cacheRead: 0, cacheWrite: 3.75 })).toBe(0);
  });

  test("takes the highest tier that the whole prompt exceeds", () => {
    const tier = (inputTokensAbove: number, input: number) => ({ ...MODEL, input, inputTokensAbove });
    const tiered = { ...MODEL, tiers: [tier(200_000, 10), tier(500_000, 20)] };
    expect(ratesFor(tiered, 200_000).input).toBe(5);
    expect(ratesFor(tiered, 200_001).input).toBe(10);
    expect(ratesFor(tiered, 600_000).input).toBe(20);
    // 1,000 × 10 and not × 5: the tokens that are read count for the tier.
    expect(costOf({ read: 200_000, write: 0, input: 1_000, output: 0 }, tiered)).toBeCloseTo(0.11, 10);
  });

  test("is the same for every profile where nothing is cached", () => {
    for (const { rates } of PRICE_PROFILES.values()) {
      expect(costOf({ read: 0, write: 0, input: 1_000_000, output: 0 }, rates)).toBe(1);
    }
  });
});

describe("a flush", () => {
  /** Clears 10,000 tokens and keeps 20,000 behind them, at MODEL's prices. */
  const forecast = (changes: Partial<FlushForecast> = {}): FlushForecast => ({
    clearedTokens: 10_000,
    keptTokens: 20_000,
    expectedRequests: 24,
    prices: MODEL,
    summarizerCost: 0,
    cacheIsCold: false,
    ...changes,
  });

  test("saves by each request and costs once", () => {
    // 10,000 × 24 × 0.5 = 0.12; 20,000 × (6.25 − 0.5) = 0.115
    const { savings, price } = flushBalance(forecast());
    expect(savings).toBeCloseTo(0.12, 10);
    expect(price).toBeCloseTo(0.115, 10);
  });

  test("pays from the 24th request on", () => {
    expect(flushPays(forecast({ expectedRequests: 23 }))).toBe(false);
    expect(flushPays(forecast({ expectedRequests: 24 }))).toBe(true);
  });

  test("has to make up for its summaries too", () => {
    expect(flushPays(forecast({ summarizerCost: 0.004 }))).toBe(true);
    expect(flushPays(forecast({ summarizerCost: 0.006 }))).toBe(false);
  });

  test("saves nothing on what is asked back", () => {
    const { savings, price } = flushBalance(forecast({ returnedTokens: 2_500, recoveryCost: 0.01 }));
    expect(savings).toBeCloseTo(0.09, 10);
    expect(price).toBeCloseTo(0.125, 10);
    expect(flushBalance(forecast({ returnedTokens: 10_001 })).savings).toBe(0);
  });

  test("is free on a cold cache but for its summaries", () => {
    expect(flushPays(forecast({ expectedRequests: 1, cacheIsCold: true }))).toBe(true);
    // 10,000 × 0.5 = 0.005
    expect(flushPays(forecast({ expectedRequests: 1, cacheIsCold: true, summarizerCost: 0.006 }))).toBe(false);
  });

  test("does not pay where it clears nothing, however cheap it is", () => {
    expect(flushPays(forecast({ clearedTokens: 0, keptTokens: 0 }))).toBe(false);
  });

  test("takes far longer to pay where reading is nearly free", () => {
    const prices = { input: 1, output: 5, cacheRead: 0.025, cacheWrite: 0 };
    // 20,000 × 0.975 = 19,500; 10,000 × 0.025 = 250 a request, so 78 requests are even
    expect(flushPays(forecast({ prices, expectedRequests: 78 }))).toBe(false);
    expect(flushPays(forecast({ prices, expectedRequests: 79 }))).toBe(true);
  });
});

describe("the decision on a flush", () => {
  /** Clears 10,000 tokens and keeps 20,000 behind them: 0.12 saved for 0.115. */
  const forecast = (changes: Partial<FlushForecast> = {}): FlushForecast => ({
    clearedTokens: 10_000,
    keptTokens: 20_000,
    expectedRequests: 24,
    prices: MODEL,
    summarizerCost: 0,
    cacheIsCold: false,
    ...changes,
  });

  test("is decided on with its reason", () => {
    const reason = (changes: Partial<FlushForecast>, isUnderPressure?: boolean) =>
      decideFlush(forecast(changes), isUnderPressure).reason;
    expect(reason({})).toBe("pays");
    expect(reason({ expectedRequests: 2 })).toBe("does-not-pay");
    expect(reason({ expectedRequests: 2, cacheIsCold: true })).toBe("cold-cache");
    expect(reason({ expectedRequests: 2 }, true)).toBe("window-pressure");
    expect(reason({ clearedTokens: 0 }, true)).toBe("nothing-to-clear");
  });

  test("comes whatever it costs from four fifths of a small window on, in a large one nearer to the host's compaction", () => {
    expect(pressureLimit(100_000)).toBe(80_000);
    // The host compacts at 255,616 of these.
    expect(pressureLimit(272_000)).toBe(242_816);
  });

  test("that comes late has to pay seven times over", () => {
    // 0.005 a request, and a price of 0.115
    expect(decideFlush(forecast({ isLate: true, expectedRequests: 160 })).flush).toBe(false);
    expect(decideFlush(forecast({ isLate: true, expectedRequests: 162 })).flush).toBe(true);
    expect(decideFlush(forecast({ isLate: true, cacheIsCold: true })).flush).toBe(true);
  });

  test("that needs summaries has to bring in more than they cost, and late far more", () => {
    // 0.005 a request: 0.115 for the rewrite and 0.04 for summaries, of which 0.06 is wanted, late 0.805 and 0.12
    const after = (expectedRequests: number, isLate: boolean) =>
      decideFlush(forecast({ summarizerCost: 0.04, expectedRequests, isLate })).flush;
    expect([after(35, false), after(36, false)]).toEqual([false, true]);
    expect([after(184, true), after(186, true)]).toEqual([false, true]);
    const waitsFor = (isLate: boolean) =>
      decideFlush(forecast({ summarizerCost: 0.04, expectedRequests: 10, isLate })).waitsFor;
    expect(waitsFor(false)).toEqual({
      amount: "savings",
      now: expect.closeTo(0.05, 9),
      needed: expect.closeTo(0.175, 9),
    });
    expect(waitsFor(true)).toMatchObject({ needed: expect.closeTo(0.925, 9) });
  });

  test("that recurs waits until enough has been carried along", () => {
    // 0.6 of its price of 0.115 is 0.069: 138,000 tokens at 0.5
    expect(decideFlush(forecast({ carriedTokens: 137_000 }))).toMatchObject({
      flush: false,
      reason: "gathers-more",
    });
    expect(decideFlush(forecast({ carriedTokens: 137_000 })).waitsFor).toEqual({
      amount: "carried",
      now: expect.closeTo(0.0685, 9),
      needed: expect.closeTo(0.069, 9),
    });
    expect(decideFlush(forecast({ carriedTokens: 139_000 })).flush).toBe(true);
    expect(decideFlush(forecast({ carriedTokens: 0, cacheIsCold: true })).flush).toBe(true);
  });
});

test("asking back reads the prompt once more for each request, and writes what comes back", () => {
  // 2 × (10,000 × 0.5 + 100 × 25) + 1,000 × 6.25 = 21,250, by a million
  expect(priceOfAsking({ requests: 2, tokens: 1_000 }, 10_000, MODEL)).toBeCloseTo(0.02125, 10);
  // A prompt that is smaller than what is cleared of it reads nothing.
  expect(priceOfAsking({ requests: 2, tokens: 1_000 }, -500, MODEL)).toBeCloseTo(0.01125, 10);
});

test("a flush waits for its rewrite, its summaries with a margin, and what is asked back", () => {
  const forecast = {
    clearedTokens: 10_000,
    keptTokens: 20_000,
    expectedRequests: 10,
    prices: MODEL,
    cacheIsCold: false,
  };
  const { waitsFor } = decideFlush({ ...forecast, summarizerCost: 0.04, recoveryCost: 0.01 }, undefined);
  // 0.115 + 1.5 × 0.04 + 0.01
  expect(waitsFor?.needed).toBeCloseTo(0.185, 10);
});

test("the profiles of Anthropic keep a prompt for five minutes and for an hour", () => {
  const lifetimes = ["anthropic-5m", "anthropic-1h"].map((name) => PRICE_PROFILES.get(name)?.lifetimeMs);
  expect(lifetimes).toEqual([300_000, 3_600_000]);
});

describe("requests to come", () => {
  const progress = { userTurns: 4, requests: 40, coldRequests: 0, requestsThisTurn: 10 };

  test("are as many as there were, what is left of the turn, and a few more", () => {
    expect(expectedRequests(progress)).toBe(44);
    expect(expectedRequests({ ...progress, requestsThisTurn: 4 })).toBe(50);
    expect(expectedRequests({ ...progress, requestsThisTurn: 30 })).toBe(44);
  });

  test("are a handful where nothing is known yet", () => {
    expect(expectedRequests({ userTurns: 0, requests: 0, coldRequests: 0, requestsThisTurn: 0 })).toBe(6);
  });

  test("count more where the session's pauses outlast the cache", () => {
    // 44 × (1 + 0.1 × (6.25 / 0.5 − 1)) = 44 × 2.15
    expect(expectedReads({ ...progress, coldRequests: 4 }, MODEL)).toBeCloseTo(94.6, 10);
    expect(expectedReads(progress, MODEL)).toBe(44);
  });

  test("count once each where there were none yet, and where reading is free", () => {
    expect(expectedReads({ userTurns: 0, requests: 0, coldRequests: 0, requestsThisTurn: 0 }, MODEL)).toBe(6);
    expect(expectedReads({ ...progress, coldRequests: 4 }, { ...MODEL, cacheRead: 0 })).toBe(44);
    expect(expectedReads(progress, { ...MODEL, cacheRead: 0 })).toBe(44);
  });
});

describe("a cache", () => {
  const warm = { now: 400_000, lastRequestAt: 100_000, lifetimeMs: 300_000, modelChanged: false, compacted: false };

  test("is warm for its lifetime", () => {
    expect(isCacheCold(warm)).toBe(false);
    expect(isCacheCold({ ...warm, now: 400_001 })).toBe(true);
  });

  test("is cold after another model, a compaction and a start", () => {
    expect(isCacheCold({ ...warm, modelChanged: true })).toBe(true);
    expect(isCacheCold({ ...warm, compacted: true })).toBe(true);
    expect(isCacheCold({ ...warm, lastRequestAt: undefined })).toBe(true);
  });
});
