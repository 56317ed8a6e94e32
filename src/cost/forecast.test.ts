import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { captureUnindexedBatches } from "../batch-capture.ts";
import { DEFAULT_CONFIG } from "../config.ts";
import { estimateTokens } from "../transcript/tokens.ts";
import type { ChainRange } from "../types.ts";
import { type ForecastConfig, forecastChains, forecastStubs, forecastSummarizer, joinForecasts } from "./forecast.ts";

const USAGE = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};
const CONFIG: ForecastConfig = { ...DEFAULT_CONFIG, summaryShare: 0.1 };
const K_TOKENS = "word ".repeat(740);

/** A conversation whose messages have the times 1, 2, 3 and so on. */
class Talk {
  readonly messages: AgentMessage[] = [];

  user(): this {
    this.messages.push({ role: "user", content: "go on", timestamp: this.messages.length + 1 });
    return this;
  }

  call(id: string, args: Record<string, string> = {}): this {
    return this.reply([{ type: "toolCall", id, name: "tool", arguments: args }], "toolUse");
  }

  result(id: string, text: string): this {
    const content = [{ type: "text" as const, text }];
    const timestamp = this.messages.length + 1;
    this.messages.push({ role: "toolResult", toolCallId: id, toolName: "tool", content, isError: false, timestamp });
    return this;
  }

  say(text: string): this {
    return this.reply([{ type: "text", text }], "stop");
  }

  pending() {
    return captureUnindexedBatches(this.messages, {
      frontierKey: undefined,
      isDealtWith: () => false,
      isExempt: () => false,
      isHeld: () => false,
      batchingMode: "turn",
    });
  }

  forecast(config: ForecastConfig = CONFIG) {
    return forecastStubs(this.messages, this.pending(), config);
  }

  private reply(
    content: Extract<AgentMessage, { role: "assistant" }>["content"],
    stopReason: "stop" | "toolUse",
  ): this {
    const from = { api: "anthropic-messages" as const, provider: "p", model: "m" };
    const timestamp = this.messages.length + 1;
    this.messages.push({ role: "assistant", content, ...from, usage: USAGE, stopReason, timestamp });
    return this;
  }
}

describe("forecast of stubs", () => {
  test("clears what a summary and its header leave of each output", () => {
    const talk = new Talk().user().call("a").result("a", K_TOKENS).say("done");
    // 1,000 tokens become 100 and a header of 45.
    const { clearedTokens, keptTokens, firstChanged } = talk.forecast();
    expect(clearedTokens).toBeCloseTo(1_000 - 145, 5);
    expect(keptTokens).toBeCloseTo(145 + 4, 5);
    expect(firstChanged).toBe(2);
  });

  test("keeps what the last request carried behind the first change, and no more", () => {
    const talk = new Talk().user().call("a").result("a", K_TOKENS).call("b").result("b", "ok").say(K_TOKENS).user();
    const { keptTokens } = talk.forecast();
    // The stub, the second call and its short result; the closing reply has never been sent.
    expect(keptTokens).toBeGreaterThan(149);
    expect(keptTokens).toBeLessThan(200);
  });

  test("is late once a request has carried what it clears for nothing", () => {
    const talk = new Talk().user().call("a").result("a", K_TOKENS).call("b").result("b", "ok");
    expect(talk.forecast().isLate).toBeUndefined();
    expect(talk.say("done").user().forecast().isLate).toBe(true);
  });

  test("counts long arguments, and changes the prompt from their call on", () => {
    const talk = new Talk().user().call("a", { path: "a.ts", content: K_TOKENS }).result("a", "written").say("done");
    const forecast = talk.forecast();
    expect(forecast.firstChanged).toBe(1);
    // 1,000 tokens become a marker.
    expect(forecast.clearedTokens).toBeGreaterThan(950);
    expect(forecast.clearedTokens).toBeLessThan(1_000);
    const off = { ...CONFIG, condenseArgs: { ...CONFIG.condenseArgs, enabled: false } };
    expect(talk.forecast(off)).toEqual({ clearedTokens: 0, keptTokens: 0, firstChanged: -1 });
  });

  test("passes over a result whose stub would be hardly shorter, beside long arguments", () => {
    const cleared = (text: string) =>
      new Talk().user().call("a", { content: K_TOKENS }).result("a", text).say("done").forecast().clearedTokens;
    // 60 tokens against a header of 45 and a summary of 6.
    expect(cleared("x".repeat(222))).toBe(cleared("written"));
  });

  test("passes over batches that are still at work", () => {
    const talk = new Talk().user().call("a").result("a", K_TOKENS).say("done");
    const held = talk.pending().map((batch) => ({ ...batch, held: true as const }));
    expect(forecastStubs(talk.messages, held, CONFIG).clearedTokens).toBe(0);
    expect(forecastSummarizer(held, CONFIG).inputTokens).toBe(0);
  });

  test("expects of what is cleared, and of nothing else, that some comes back", () => {
    const talk = new Talk().user().call("a").result("a", K_TOKENS).call("b").result("b", "ok").say("done");
    const chances: Record<string, number> = { "a@3": 0.25, "b@5": 0.5 };
    const { clearedTokens, recovery } = talk.forecast({
      ...CONFIG,
      minBatchChars: 0,
      chanceOfUse: (key) => chances[key] ?? 1,
    });
    expect(recovery).toEqual({ requests: 0.25, tokens: clearedTokens * 0.25 });
    expect(talk.forecast().recovery).toBeUndefined();
    expect(talk.forecast({ ...CONFIG, chanceOfUse: () => 0 }).recovery).toBeUndefined();
  });

  test("changes the prompt from the first message on where that is the call", () => {
    const talk = new Talk().call("a", { content: K_TOKENS }).result("a", K_TOKENS).say("done");
    expect(talk.forecast().firstChanged).toBe(0);
  });

  test("passes over batches that a flush leaves as they are", () => {
    const talk = new Talk().user().call("a").result("a", "short").say("done");
    expect(talk.forecast().clearedTokens).toBe(0);
    expect(forecastSummarizer(talk.pending(), CONFIG).inputTokens).toBe(0);
  });

  test("passes over results that are too short for a stub", () => {
    const config = { ...CONFIG, minBatchChars: 0 };
    const forecastOf = (chars: number) =>
      new Talk().user().call("a").result("a", "x".repeat(chars)).say("done").forecast(config);
    expect(forecastOf(799).clearedTokens).toBe(0);
    expect(forecastOf(800).clearedTokens).toBeGreaterThan(0);
  });

  test("rewrites from the last end that is near where only those are found", () => {
    const talk = new Talk().user();
    for (let i = 0; i < 12; i++) talk.call(`c${i}`).result(`c${i}`, K_TOKENS);
    talk.say("done");
    // A prompt ended before each reply.
    const ends = new Set(talk.messages.flatMap(({ role }, i) => (role === "assistant" ? [i] : [])));
    const config = { ...CONFIG, lookback: { blocks: 20, ends } };
    const near = forecastStubs(talk.messages, talk.pending().slice(-1), config);
    const far = forecastStubs(talk.messages, talk.pending().slice(0, 1), config);
    const any = forecastStubs(talk.messages, talk.pending().slice(0, 1), CONFIG);
    // One output has to be written anew that had been found before its own call; else the whole conversation.
    expect(near.keptTokens).toBeLessThan(200);
    expect(near.carriedTokens).toBeUndefined();
    const gone = { ...CONFIG, lookback: { blocks: 20, ends: new Set<number>() } };
    expect(forecastStubs(talk.messages, talk.pending().slice(-1), gone).carriedTokens).toBe(0);
    expect(far.keptTokens).toBeGreaterThan(any.keptTokens);
    expect(any).toMatchObject({ isLate: true });
    expect(any.carriedTokens).toBeUndefined();
    // Eleven requests have carried it since the one that had to.
    expect(far.carriedTokens).toBeCloseTo(far.clearedTokens * 11, 5);
    expect(far.isLate).toBe(true);
  });

  test.each([
    [3, true],
    [4, false],
  ])(
    "looks back over so many blocks for an earlier end, three behind it: %p, all written anew: %p",
    (blocks, isAll) => {
      const talk = new Talk().user().call("a").result("a", K_TOKENS).call("b").result("b", K_TOKENS).say("done");
      const config = { ...CONFIG, lookback: { blocks, ends: new Set([3]) } };
      const { carriedTokens } = forecastStubs(talk.messages, talk.pending().slice(-1), config);
      expect(carriedTokens !== undefined).toBe(isAll);
    },
  );

  test("asks the summariser for all that is condensed", () => {
    const talk = new Talk().user().call("a").result("a", K_TOKENS).say("done");
    const { inputTokens, outputTokens } = forecastSummarizer(talk.pending(), CONFIG);
    expect(inputTokens).toBeCloseTo(1_000, 5);
    expect(outputTokens).toBeCloseTo(100, 5);
  });
});

describe("forecast of chains", () => {
  const talk = new Talk().user();
  for (let i = 0; i < 10; i++) talk.call(`c${i}`, { note: "x".repeat(300) }).result(`c${i}`, "y".repeat(400));
  talk.say("done").user();
  const range: ChainRange = {
    startUserTimestamp: 1,
    finalAssistantTimestamp: 22,
    middleToolCallIds: [],
    protectedToolCallIds: [],
    occurrenceKeys: Array.from({ length: 10 }, (_, i) => `c${i}@${i * 2 + 3}`),
    protectedOccurrenceKeys: [],
    interrupted: false,
  };

  test("clears the turns but for a line each", () => {
    const { clearedTokens, firstChanged, carriedTokens } = forecastChains(talk.messages, [range], CONFIG);
    expect(firstChanged).toBe(1);
    expect(clearedTokens).toBeGreaterThan(500);
    expect(carriedTokens).toBe(0);
  });

  test("clears nothing again that its stubs clear in the same flush", () => {
    const large = new Talk().user();
    for (let i = 0; i < 3; i++) large.call(`c${i}`, { content: K_TOKENS }).result(`c${i}`, K_TOKENS);
    large.say("done").user();
    const whole = { ...range, finalAssistantTimestamp: 8, occurrenceKeys: ["c0@3", "c1@5", "c2@7"] };
    const stubs = large.forecast();
    const chains = forecastChains(large.messages, [whole], CONFIG, stubs.clearedAt);
    const { clearedTokens } = joinForecasts(stubs, chains);
    expect(chains.clearedTokens).toBeGreaterThan(0);
    expect(clearedTokens).toBeGreaterThan(5_000);
    // Three results and three arguments of 1,000 tokens each, and what names them.
    expect(clearedTokens).toBeLessThan(6_200);
  });

  test("says nothing of a chain that is not there", () => {
    const gone = { ...range, startUserTimestamp: 999 };
    expect(forecastChains(talk.messages, [gone], CONFIG)).toMatchObject({ clearedTokens: 0, firstChanged: -1 });
  });

  /** A turn of one call for each text, and its chain. */
  function turnOf(texts: readonly string[], change: Partial<ChainRange> = {}, note = K_TOKENS) {
    const turn = new Talk().user();
    for (const [i, text] of texts.entries()) turn.call(`c${i}`, { note }).result(`c${i}`, text);
    turn.say("done");
    const keys = texts.map((_, i) => `c${i}@${i * 2 + 3}`);
    return {
      turn,
      chain: { ...range, finalAssistantTimestamp: 2 * texts.length + 2, occurrenceKeys: keys, ...change },
    };
  }

  // A result of 1,004 tokens has a summary of 45 + 100.4, one of 54 keeps 9 below its header, one of 24 nothing.
  test.each<[string, string[], Partial<ChainRange>, number]>([
    ["a large result has a summary", [K_TOKENS], {}, 145.4],
    ["a stub keeps what stands below its header", ["x".repeat(185)], {}, 9],
    ["a short result has its line alone", ["x".repeat(74)], {}, 0],
    ["summaries add up", [K_TOKENS, "x".repeat(185), "x".repeat(74)], {}, 154.4],
    ["all summaries together have a limit", Array.from({ length: 5 }, () => K_TOKENS), {}, 650],
    ["a protected result stays", [K_TOKENS, "x".repeat(185)], { protectedOccurrenceKeys: ["c0@3"] }, 1_004 + 9],
  ])("leaves a frame, a line for each call, and texts: %s", (_, texts, change, left) => {
    const { turn, chain } = turnOf(texts, change);
    const { clearedTokens } = forecastChains(turn.messages, [chain], CONFIG);
    expect(clearedTokens).toBeCloseTo(estimateTokens(turn.messages.slice(1, -1)) - 40 - 30 * texts.length - left, 5);
  });

  test("passes over a chain that would grow", () => {
    const { turn, chain } = turnOf(["ok"], {}, "short");
    expect(forecastChains(turn.messages, [chain], CONFIG)).toMatchObject({ clearedTokens: 0, firstChanged: -1 });
  });

  test("changes the prompt from the first call of the oldest chain on", () => {
    const { turn, chain } = turnOf([K_TOKENS]);
    turn.user().call("z").result("z", K_TOKENS).say("done").user();
    const second = { ...chain, startUserTimestamp: 5, finalAssistantTimestamp: 8, occurrenceKeys: ["z@7"] };
    const forecast = (...chains: ChainRange[]) => forecastChains(turn.messages, chains, CONFIG);
    expect([forecast(chain, second), forecast(second)].map(({ firstChanged }) => firstChanged)).toEqual([1, 5]);
    const { clearedTokens } = forecast(chain, second);
    expect(clearedTokens).toBeCloseTo(forecast(chain).clearedTokens + forecast(second).clearedTokens, 5);
  });

  test("counts the requests that have carried a chain since it left the window", () => {
    const { turn, chain } = turnOf([K_TOKENS]);
    for (let i = 0; i < 6; i++) turn.user().say("well");
    const carriedBy = (rollingWindow: number) => {
      const config = { ...CONFIG, chainCompression: { ...CONFIG.chainCompression, rollingWindow } };
      const { clearedTokens, carriedTokens = 0 } = forecastChains(turn.messages, [chain], config);
      return carriedTokens / clearedTokens;
    };
    // The first of the six turns finds no newer chain, the second one, and so on.
    expect([0, 1, 3, 6].map(carriedBy)).toEqual([6, 5, 3, 0]);
  });

  test("ends a chain at the first reply of its time, whatever comes later at the same time", () => {
    const { turn, chain } = turnOf([K_TOKENS]);
    const { clearedTokens } = forecastChains(turn.messages, [chain], CONFIG);
    const closing = turn.messages.slice(-1);
    turn.user().call("z").result("z", K_TOKENS);
    expect(forecastChains([...turn.messages, ...closing], [chain], CONFIG)).toMatchObject({ clearedTokens });
  });

  test("joined with stubs costs the deeper rewrite once", () => {
    const deep = { clearedTokens: 500, keptTokens: 9_000, firstChanged: 3, carriedTokens: 70 };
    const shallow = { clearedTokens: 2_000, keptTokens: 400, firstChanged: 40 };
    const joined = { clearedTokens: 2_500, keptTokens: 7_000, firstChanged: 3, carriedTokens: 70 };
    expect(joinForecasts(shallow, deep)).toEqual(joined);
    expect(joinForecasts(deep, shallow)).toEqual(joined);
    const none = { clearedTokens: 0, keptTokens: 0, firstChanged: -1 };
    expect(joinForecasts(shallow, none)).toEqual(shallow);
    const late = { ...deep, isLate: true };
    for (const joinedLate of [joinForecasts(shallow, late), joinForecasts(late, shallow)]) {
      expect(joinedLate).toEqual({ ...joined, isLate: true });
    }
  });
});
