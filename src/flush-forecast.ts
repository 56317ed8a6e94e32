/** What a flush would clear and what it would rewrite, told from the messages before any summary is made. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { contentTokens, estimateMessageTokens, estimateTextTokens, estimateTokens } from "./context-metrics.js";
import { contentChars, isAssistant, isToolResult, lastAnswerIndex, occurrenceKey } from "./messages.js";
import type { CapturedBatch, ChainRange } from "./types.js";

/** Tokens of a stub's header. */
const STUB_TOKENS = 45;
/** A stub that would save less than a quarter is not used. */
const MAX_STUB_SHARE = 0.75;
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
}

/** How large the texts will be that come in place of results. */
export interface SummarySizes {
  /** Share of an output's tokens that its summary has. */
  summaryShare: number;
  /** Characters below which a batch is left as it is. */
  minBatchChars: number;
}

/**
 * Forecast of condensing `pending`.
 * @param rendered what the next request would carry if nothing were condensed now; its last finished reply answered
 *   the last request, so that only what stands before it is cached
 */
export function forecastStubs(
  rendered: readonly AgentMessage[],
  pending: readonly CapturedBatch[],
  { summaryShare, minBatchChars }: SummarySizes,
): RewriteForecast {
  const keys = new Set<string>();
  for (const { toolCalls } of pending) {
    const chars = toolCalls.reduce((sum, call) => sum + contentChars(call.content), 0);
    if (chars >= minBatchChars) for (const call of toolCalls) keys.add(call.occurrenceKey);
  }
  let clearedTokens = 0;
  let firstChanged = -1;
  if (keys.size > 0) {
    for (const [i, message] of rendered.entries()) {
      if (!isToolResult(message) || !keys.has(occurrenceKey(message.toolCallId, message.timestamp))) continue;
      const before = contentTokens(message.content);
      const after = STUB_TOKENS + before * summaryShare;
      if (after > before * MAX_STUB_SHARE) continue;
      clearedTokens += before - after;
      if (firstChanged < 0) firstChanged = i;
    }
  }
  return { clearedTokens, keptTokens: keptBehind(rendered, firstChanged, clearedTokens), firstChanged };
}

/** Forecast of compressing `ranges`, whose results stand as stubs already or will with the same flush. */
export function forecastChains(
  rendered: readonly AgentMessage[],
  ranges: readonly ChainRange[],
  summaryShare: number,
): RewriteForecast {
  let clearedTokens = 0;
  let firstChanged = -1;
  for (const range of ranges) {
    const start = rendered.findIndex((message) => message.timestamp === range.startUserTimestamp);
    const end = rendered.findIndex(
      (m, i) => i > start && isAssistant(m) && m.timestamp === range.finalAssistantTimestamp,
    );
    if (start < 0 || end < 0) continue;
    const cleared = clearedByChain(rendered.slice(start + 1, end), range, summaryShare);
    if (cleared <= 0) continue;
    clearedTokens += cleared;
    if (firstChanged < 0 || start < firstChanged) firstChanged = start + 1;
  }
  return { clearedTokens, keptTokens: keptBehind(rendered, firstChanged, clearedTokens), firstChanged };
}

function clearedByChain(middle: readonly AgentMessage[], range: ChainRange, summaryShare: number): number {
  const kept = new Set(range.protectedOccurrenceKeys);
  let before = 0;
  let summaries = 0;
  let relocated = 0;
  for (const message of middle) {
    const tokens = estimateMessageTokens(message);
    before += tokens;
    if (!isToolResult(message)) continue;
    if (kept.has(occurrenceKey(message.toolCallId, message.timestamp))) relocated += tokens;
    else summaries += Math.max(0, Math.min(tokens - STUB_TOKENS, STUB_TOKENS + tokens * summaryShare));
  }
  const lines = range.occurrenceKeys.length * CHAIN_LINE_TOKENS;
  return before - relocated - lines - CHAIN_FRAME_TOKENS - Math.min(CHAIN_SUMMARY_TOKENS, summaries);
}

function keptBehind(rendered: readonly AgentMessage[], firstChanged: number, clearedTokens: number): number {
  if (firstChanged < 0) return 0;
  const cached = rendered.slice(firstChanged, Math.max(firstChanged, lastAnswerIndex(rendered)));
  return Math.max(0, estimateTokens(cached) - clearedTokens);
}

/** Tokens that a model would take to summarise `pending`. */
export function forecastSummarizer(
  pending: readonly CapturedBatch[],
  { summaryShare, minBatchChars }: SummarySizes,
): { inputTokens: number; outputTokens: number } {
  let inputTokens = 0;
  for (const { toolCalls } of pending) {
    const chars = toolCalls.reduce((sum, call) => sum + contentChars(call.content), 0);
    if (chars < minBatchChars) continue;
    for (const call of toolCalls) inputTokens += estimateTextTokens(call.resultText);
  }
  return { inputTokens, outputTokens: inputTokens * summaryShare };
}
