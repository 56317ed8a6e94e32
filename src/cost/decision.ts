/** `pruneOn: cache-aware`: whether what is finished is condensed before the next request, told by what it costs. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage, SessionEntry } from "@mariozechner/pi-coding-agent";
import { isAnswer } from "../transcript/messages.ts";
import type { CapturedBatch, ChainRange, ContextPruneConfig } from "../types.ts";
import { type ForecastConfig, forecastChains, forecastStubs, joinForecasts, type RewriteForecast } from "./forecast.ts";
import {
  decideFlush,
  expectedReads,
  type FlushDecision,
  pressureLimit,
  priceOfAsking,
  type Rates,
  type SessionProgress,
} from "./prices.ts";

/** What a flush would work on. */
export interface CondensingChoice {
  /** What the next request would carry if nothing were condensed now. */
  rendered: readonly AgentMessage[];
  pending: readonly CapturedBatch[];
  /** Chains that could be compressed with it, oldest first. */
  ranges: readonly ChainRange[];
  config: ForecastConfig;
}

/** What is known of the session and its provider. */
export interface CondensingSituation {
  progress: SessionProgress;
  prices: Rates;
  /** In the currency of `prices`; 0 for what is paid for already. */
  summarizerCost: number;
  cacheIsCold: boolean;
  usage: ContextUsage | undefined;
}

/** A decision, and whether the chains come along. */
export interface CondensingDecision extends FlushDecision {
  chains: boolean;
  /** It pays with digests alone, though a model has been chosen. */
  digest?: true;
}

/** Flushes where that is cheaper than to go on; chains come along where that is cheaper still. */
export function decideCondensing(
  { rendered, pending, ranges, config }: CondensingChoice,
  situation: CondensingSituation,
): CondensingDecision {
  const stubs = forecastStubs(rendered, pending, config);
  const alone = decide(stubs, situation);
  if (ranges.length === 0) return { ...alone, chains: false };
  const together = decide(joinForecasts(stubs, forecastChains(rendered, ranges, config, stubs.clearedAt)), situation);
  const chainsPay = together.flush && together.savings - together.price > alone.savings - alone.price;
  return chainsPay ? { ...together, chains: true } : { ...alone, chains: false };
}

/** So much of the window is in use that a flush is made whatever it costs. */
export function isUnderPressure(usage: ContextUsage | undefined): boolean {
  if (usage?.tokens == null || !(usage.contextWindow > 0)) return false;
  return usage.tokens >= pressureLimit(usage.contextWindow);
}

/** Part of what a flush saves that summaries which nobody has asked for may take. */
const SUMMARY_PART = 0.05;

/**
 * Whether to have `pending` summarised ahead: where a flush would be made if its last turn had been answered already.
 * @param isOptional only where the summaries take a small part of what the flush saves
 */
export function summariesPay(
  { rendered, pending, config }: Omit<CondensingChoice, "ranges">,
  situation: CondensingSituation,
  isOptional = false,
): boolean {
  const { flush, savings, price } = decide(forecastStubs(rendered, pending, config), situation);
  const { summarizerCost } = situation;
  return flush && (!isOptional || summarizerCost <= SUMMARY_PART * (savings - price + summarizerCost));
}

/** The settings of the flush that was decided on: chains are left out where they do not come along. */
export function settingsFor({ chains }: CondensingDecision, config: ContextPruneConfig): ContextPruneConfig {
  return chains ? config : { ...config, chainCompression: { ...config.chainCompression, enabled: false } };
}

function decide(
  { clearedTokens, keptTokens, carriedTokens, isLate, recovery }: RewriteForecast,
  { progress, prices, summarizerCost, cacheIsCold, usage }: CondensingSituation,
): FlushDecision {
  const reads = expectedReads(progress, prices);
  const recoveryCost = recovery ? priceOfAsking(recovery, (usage?.tokens ?? 0) - clearedTokens, prices) : 0;
  const rewrite = { clearedTokens, keptTokens, carriedTokens, isLate, returnedTokens: recovery?.tokens };
  return decideFlush(
    { ...rewrite, expectedRequests: reads, prices, summarizerCost, recoveryCost, cacheIsCold },
    isUnderPressure(usage),
  );
}

/** How far a branch has come, and what its cache was last filled by. */
export interface BranchProgress extends SessionProgress {
  /** `provider/id` of the model that gave the last finished reply. */
  model: string | undefined;
  /** When it came, ms. */
  lastReplyAt: number | undefined;
  /** When the host has kept the cache warm last, ms. */
  warmedAt: number | undefined;
  /** The host has compacted the context behind that reply. */
  compacted: boolean;
  /** The longest pause (ms) after which this model's cache still held the prompt, and the shortest after which it did not. */
  keptFor: number | undefined;
  goneAfter: number | undefined;
  /** The last reply's prompt was read from the cache or written to it. */
  wasCached: boolean;
}

/** How long (ms) the provider keeps a prompt, as far as the session has shown it. */
export function lifetimeOf({ keptFor, goneAfter }: BranchProgress, assumedMs: number): number {
  return Math.max(Math.min(assumedMs, goneAfter ?? assumedMs), keptFor ?? 0);
}

/** A branch without entries. */
export const NO_PROGRESS: BranchProgress = {
  userTurns: 0,
  requests: 0,
  coldRequests: 0,
  requestsThisTurn: 0,
  model: undefined,
  lastReplyAt: undefined,
  warmedAt: undefined,
  compacted: false,
  keptFor: undefined,
  goneAfter: undefined,
  wasCached: false,
};

/**
 * Reads the progress from the entries of a branch, root first.
 * @param assumedMs how long the provider keeps a prompt, before the session has shown it
 * @param before the progress up to these entries
 */
export function progressOf(
  entries: readonly SessionEntry[],
  assumedMs: number,
  before: BranchProgress = NO_PROGRESS,
): BranchProgress {
  const progress = { ...before };
  for (const entry of entries) {
    if (entry.type === "compaction") progress.compacted = true;
    // Only the newer host has entries of this type.
    if ("kind" in entry && entry.kind === "cache_warm") progress.warmedAt = Date.parse(entry.timestamp);
    if (entry.type !== "message") continue;
    const { message } = entry;
    if (message.role === "user") {
      progress.userTurns += 1;
      progress.requestsThisTurn = 0;
    }
    if (!isAnswer(message)) continue;
    const by = `${message.provider}/${message.model}`;
    const { compacted, model, lastReplyAt } = progress;
    const isOther = compacted || by !== model;
    const pause = lastReplyAt === undefined ? 0 : message.timestamp - Math.max(lastReplyAt, progress.warmedAt ?? 0);
    if (progress.requests > 0 && (isOther || pause > lifetimeOf(progress, assumedMs))) progress.coldRequests += 1;
    if (by !== model) Object.assign(progress, { keptFor: undefined, goneAfter: undefined });
    const { input = 0, cacheRead = 0, cacheWrite = 0 } = message.usage ?? {};
    if (!isOther && cacheRead > (input + cacheRead + cacheWrite) / 2)
      progress.keptFor = Math.max(progress.keptFor ?? 0, pause);
    else if (!isOther && cacheRead === 0 && progress.wasCached)
      progress.goneAfter = Math.min(progress.goneAfter ?? Number.POSITIVE_INFINITY, pause);
    progress.wasCached = cacheRead + cacheWrite > 0;
    progress.requests += 1;
    progress.requestsThisTurn += 1;
    progress.model = by;
    progress.lastReplyAt = message.timestamp;
    progress.compacted = false;
  }
  return progress;
}
