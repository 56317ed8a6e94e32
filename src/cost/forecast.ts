/** What a flush would clear and what it would rewrite, told from the messages before any summary is made. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { callArgumentSavings } from "../render/arguments.ts";
import { MAX_STUB_SHARE, MIN_RESULT_CHARS } from "../render/stub.ts";
import {
  blocksOf,
  contentChars,
  isAssistant,
  isToolResult,
  lastAnswerIndex,
  resultFinder,
  resultKeysIn,
  resultOf,
} from "../transcript/messages.ts";
import { contentTokens, estimateMessageTokens, estimateTextTokens } from "../transcript/tokens.ts";
import type { CapturedBatch, CapturedToolCall, ChainRange, ContextPruneConfig } from "../types.ts";

/** Share of an output that its digest has, and a model's summary. */
export const DIGEST_SHARE = 0.12;
export const SUMMARY_SHARE = 0.08;

/** Tokens of a stub's header. */
const STUB_TOKENS = 45;
/** Tokens of a call's line in a compressed chain, of its frame, and of all summaries in it at most. */
const CHAIN_LINE_TOKENS = 30;
const CHAIN_FRAME_TOKENS = 40;
const CHAIN_SUMMARY_TOKENS = 650;

/** Tokens that a rewrite clears and keeps. */
export interface RewriteForecast {
  clearedTokens: number;
  /** What stands behind the first change, was part of the last request, and stays. */
  keptTokens: number;
  /** Index of the first message that changes; -1 where none does. */
  firstChanged: number;
  /** For a rewrite that costs the same however much it clears; see `FlushForecast.carriedTokens`. */
  carriedTokens?: number;
  /** Requests have carried what it clears; see `FlushForecast.isLate`. */
  isLate?: boolean;
  /** How much of it is expected to be asked back; nothing where this is missing. */
  recovery?: Recovery;
  /** What is cleared of each message, by its index. */
  clearedAt?: ReadonlyMap<number, number>;
}

/** What a model is expected to ask back of what is cleared. */
export interface Recovery {
  /** Requests that it takes more. */
  requests: number;
  /** Tokens that come back. */
  tokens: number;
}

/** What decides how large the texts will be that come in place of results and arguments. */
export interface ForecastConfig
  extends Pick<ContextPruneConfig, "minBatchChars" | "condenseArgs" | "purgeErrors" | "chainCompression"> {
  /** Share of an output's tokens that its summary has. */
  summaryShare: number;
  /** Chance (0 to 1) that a call is quoted again. */
  chanceOfUse?(key: string): number;
  /** Tokens of the message at an index of the prompt; estimated anew where this is missing. */
  tokensAt?(rendered: readonly AgentMessage[], index: number): number;
  /** Missing where any common beginning of two prompts is found. */
  lookback?: Lookback;
}

/** How a provider finds an earlier prompt that looks only for ends of them. */
export interface Lookback {
  /** As `CachePolicy.lookbackBlocks`. */
  blocks: number;
  /** Numbers of messages after which an earlier prompt ended that the next one begins with, unless it is changed now. */
  ends: ReadonlySet<number>;
}

/**
 * Forecast of condensing `pending`.
 * @param rendered what the next request would carry if nothing were condensed now; its last finished reply answered
 *   the last request, so that only what stands before it is cached
 */
export function forecastStubs(
  rendered: readonly AgentMessage[],
  pending: readonly CapturedBatch[],
  config: ForecastConfig,
): RewriteForecast {
  const calls = new Map(
    pending
      .filter((batch) => isLargeEnough(batch, config))
      .flatMap(({ toolCalls }) => toolCalls.map((call) => [call.occurrenceKey, call] as const)),
  );
  if (calls.size === 0) return { clearedTokens: 0, keptTokens: 0, firstChanged: -1 };
  let repliesBehind = rendered.filter(isAssistant).length;
  let clearedTokens = 0;
  let carriedTokens = 0;
  let firstChanged = -1;
  let replyIndex = 0;
  const chanceOf = (key: string) => config.chanceOfUse?.(key) ?? 0;
  const recovery: Recovery = { requests: 0, tokens: 0 };
  const clearedAt = new Map<number, number>();
  const clear = (tokens: number, index: number, key: string) => {
    clearedTokens += tokens;
    clearedAt.set(index, (clearedAt.get(index) ?? 0) + tokens);
    recovery.tokens += tokens * chanceOf(key);
    // The first reply behind it is the one that had to see it.
    carriedTokens += tokens * Math.max(0, repliesBehind - 1);
    if (firstChanged < 0 || index < firstChanged) firstChanged = index;
  };
  const keyAt = resultFinder(rendered, calls.keys());
  for (const [i, message] of rendered.entries()) {
    if (isAssistant(message)) {
      replyIndex = i;
      repliesBehind -= 1;
    }
    const result = resultOf(message);
    const key = (result && keyAt(i)) ?? "";
    const call = calls.get(key);
    if (!result || !call) continue;
    const clearedBefore = clearedTokens;
    const ofArguments = savedArgumentTokens(call, config);
    if (ofArguments > 0) clear(ofArguments, replyIndex, key);
    const before = contentTokens(result.content);
    const after = STUB_TOKENS + before * config.summaryShare;
    if (!isSmall(call, config) && after <= before * MAX_STUB_SHARE) clear(before - after, i, key);
    if (clearedTokens > clearedBefore) recovery.requests += chanceOf(key);
  }
  const start = rewriteStart(rendered, firstChanged, config.lookback);
  return {
    clearedTokens,
    keptTokens: keptBehind(rendered, start, clearedTokens, config),
    firstChanged,
    clearedAt,
    ...(start === 0 ? { carriedTokens } : {}),
    ...(carriedTokens > 0 ? { isLate: true } : {}),
    ...(recovery.requests > 0 ? { recovery } : {}),
  };
}

/** As a flush judges: what a batch has and could be spared, arguments included. */
function isLargeEnough({ held, toolCalls }: CapturedBatch, config: ForecastConfig): boolean {
  return !held && toolCalls.reduce((sum, call) => sum + charsOf(call, config), 0) >= config.minBatchChars;
}

/** As the render judges: the result stays as it is. */
function isSmall(call: CapturedToolCall, config: ForecastConfig): boolean {
  return charsOf(call, config) < MIN_RESULT_CHARS;
}

/** Characters of a result, and of its call's arguments as far as they can be spared. */
function charsOf(call: CapturedToolCall, config: ForecastConfig): number {
  return contentChars(call.content) + callArgumentSavings(call, config);
}

function savedArgumentTokens(call: CapturedToolCall, config: ForecastConfig): number {
  // The arguments of a failed call wait for their cooldown.
  return call.isError ? 0 : callArgumentSavings(call, config) * estimateTextTokens("a");
}

/**
 * Forecast of compressing `ranges`, oldest first, whose results stand as stubs already or will with the same flush.
 * @param clearedAt what that flush clears of each message besides, which chains cannot clear again
 */
export function forecastChains(
  rendered: readonly AgentMessage[],
  ranges: readonly ChainRange[],
  config: ForecastConfig,
  clearedAt: RewriteForecast["clearedAt"] = new Map(),
): RewriteForecast {
  const { lookback, chainCompression } = config;
  const tokensLeft = (index: number) => tokensAt(rendered, index, config) - (clearedAt.get(index) ?? 0);
  const openings = rendered.flatMap((message, i) => (message.role === "user" ? [i] : []));
  const replies = rendered.flatMap((message, i) => (isAssistant(message) ? [i] : []));
  let clearedTokens = 0;
  let carriedTokens = 0;
  let firstChanged = -1;
  const places = placesIn(rendered);
  for (const range of ranges) {
    const start = places.first.get(range.startUserTimestamp);
    const end = places.replies.get(range.finalAssistantTimestamp)?.find((i) => i > (start ?? i));
    if (start === undefined || end === undefined) continue;
    const cleared = clearedByChain(rendered, { start: start + 1, end, tokensLeft }, range, config);
    if (cleared <= 0) continue;
    clearedTokens += cleared;
    const ready = openings[firstAbove(openings, end) + chainCompression.rollingWindow] ?? rendered.length;
    carriedTokens += cleared * (replies.length - firstAbove(replies, ready));
    if (firstChanged < 0 || start < firstChanged) firstChanged = start + 1;
  }
  const start = rewriteStart(rendered, firstChanged, lookback);
  const keptTokens = keptBehind(rendered, start, clearedTokens, config);
  return { clearedTokens, keptTokens, firstChanged, carriedTokens };
}

/** Indexes of messages by their timestamps: the first of each, and all assistant messages. */
function placesIn(rendered: readonly AgentMessage[]) {
  const first = new Map<number, number>();
  const replies = new Map<number, number[]>();
  for (const [i, message] of rendered.entries()) {
    if (!first.has(message.timestamp)) first.set(message.timestamp, i);
    if (!isAssistant(message)) continue;
    const known = replies.get(message.timestamp);
    if (known) known.push(i);
    else replies.set(message.timestamp, [i]);
  }
  return { first, replies };
}

/** Index of the first of the rising `numbers` that is above `limit`; their count where none is. */
function firstAbove(numbers: readonly number[], limit: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] ?? 0) > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Both rewrites at once: what the deeper one has to write anew, the other need not pay for. */
export function joinForecasts(first: RewriteForecast, second: RewriteForecast): RewriteForecast {
  const deeper = second.firstChanged >= 0 && (first.firstChanged < 0 || second.firstChanged < first.firstChanged);
  const [deep, shallow] = deeper ? [second, first] : [first, second];
  const carried = [first.carriedTokens, second.carriedTokens].filter((tokens) => tokens !== undefined);
  return {
    clearedTokens: first.clearedTokens + second.clearedTokens,
    keptTokens: Math.max(0, deep.keptTokens - shallow.clearedTokens),
    firstChanged: deep.firstChanged,
    ...(carried.length > 0 ? { carriedTokens: carried.reduce((sum, tokens) => sum + tokens, 0) } : {}),
    ...(first.isLate || second.isLate ? { isLate: true } : {}),
    // What stands as stubs already has been reckoned with.
    ...(first.recovery ? { recovery: first.recovery } : {}),
  };
}

function clearedByChain(
  rendered: readonly AgentMessage[],
  { start, end, tokensLeft }: { start: number; end: number; tokensLeft(index: number): number },
  range: ChainRange,
  config: ForecastConfig,
): number {
  const kept = new Set(range.protectedOccurrenceKeys);
  let before = 0;
  let summaries = 0;
  let relocated = 0;
  const keyOf = kept.size > 0 ? resultKeysIn(rendered.slice(start, end)) : () => "";
  for (let i = start; i < end; i++) {
    const message = rendered[i];
    const tokens = tokensLeft(i);
    before += tokens;
    if (!message || !isToolResult(message)) continue;
    if (kept.size > 0 && kept.has(keyOf(message))) relocated += tokens;
    else summaries += Math.max(0, Math.min(tokens - STUB_TOKENS, STUB_TOKENS + tokens * config.summaryShare));
  }
  const lines = range.occurrenceKeys.length * CHAIN_LINE_TOKENS;
  return before - relocated - lines - CHAIN_FRAME_TOKENS - Math.min(CHAIN_SUMMARY_TOKENS, summaries);
}

/** Tokens from `start` on, as far as the last request carried them, less what is cleared of them. */
function keptBehind(
  rendered: readonly AgentMessage[],
  start: number,
  clearedTokens: number,
  config: ForecastConfig,
): number {
  if (start < 0) return 0;
  const end = Math.max(start, lastAnswerIndex(rendered));
  let tokens = 0;
  for (let i = start; i < end; i++) tokens += tokensAt(rendered, i, config);
  return Math.max(0, tokens - clearedTokens);
}

function tokensAt(rendered: readonly AgentMessage[], index: number, config: ForecastConfig): number {
  const message = rendered[index];
  return config.tokensAt ? config.tokensAt(rendered, index) : message ? estimateMessageTokens(message) : 0;
}

/**
 * From where the cache has to be written anew if `firstChanged` is the first message that changes: from there, or, where
 * only ends of earlier prompts are found, from the last one before it that is near enough; else from the beginning.
 */
function rewriteStart(rendered: readonly AgentMessage[], firstChanged: number, lookback: Lookback | undefined): number {
  if (firstChanged < 0 || !lookback) return firstChanged;
  let blocks = 0;
  for (let end = rendered.length; end > 0 && blocks < lookback.blocks; end--) {
    if (end <= firstChanged && lookback.ends.has(end)) return end;
    blocks += blocksOf(rendered[end - 1]);
  }
  return 0;
}

/** Tokens that a model would take to summarise `pending`. */
export function forecastSummarizer(
  pending: readonly CapturedBatch[],
  config: ForecastConfig,
): { inputTokens: number; outputTokens: number } {
  let inputTokens = 0;
  for (const { held, toolCalls } of pending) {
    const chars = toolCalls.reduce((sum, call) => sum + contentChars(call.content), 0);
    if (held || chars < config.minBatchChars) continue;
    for (const call of toolCalls) inputTokens += estimateTextTokens(call.resultText);
  }
  return { inputTokens, outputTokens: inputTokens * config.summaryShare };
}
