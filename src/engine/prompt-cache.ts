/** What is known of the provider's prompt cache, and the decisions that rest on it. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import type { InUse } from "../capture/in-use.ts";
import type { Protection } from "../capture/protection.ts";
import { CacheBreakpoints } from "../cost/breakpoints.ts";
import {
  type BranchProgress,
  type CondensingDecision,
  type CondensingSituation,
  decideCondensing,
  lifetimeOf,
  NO_PROGRESS,
  progressOf,
  summariesPay,
} from "../cost/decision.ts";
import { DIGEST_SHARE, type ForecastConfig, forecastSummarizer, SUMMARY_SHARE } from "../cost/forecast.ts";
import { DEFAULT_PROFILE, isCacheCold } from "../cost/prices.ts";
import { PromptMarks } from "../cost/prompt-marks.ts";
import { compressibleRanges } from "../flush/chains.ts";
import { type CondensedCounts, hasCondensed } from "../flush.ts";
import type { CapturedBatch, ContextPruneConfig } from "../types.ts";
import type { Clock, SessionModel, Summarizer } from "./environment.ts";
import type { SessionState } from "./session-state.ts";

/** What a decision is asked about. */
export interface CondensingQuestion {
  messages: readonly AgentMessage[];
  pending: readonly CapturedBatch[];
  /** Results that are still at work; those of `pending` are marked as held. */
  inUse: InUse;
  /** Of `pending`, what a summariser would still have to be paid for. */
  unpaid: readonly CapturedBatch[];
  isProtected: Protection;
  /** The request as it would leave now. */
  render(): readonly AgentMessage[];
  usage: ContextUsage | undefined;
  model: SessionModel | undefined;
  summarizer: Summarizer;
  config: ContextPruneConfig;
}

/** Follows the requests of one session. */
export class PromptCache {
  /** ms; `undefined` where this process has sent none, as after a resume. */
  private lastRequestAt: number | undefined;
  private readonly breakpoints = new CacheBreakpoints();
  private readonly marks = new PromptMarks();
  private progress: ProgressFold | undefined;
  /** What the last flush that was decided here was to work on, and the one of which nothing came. */
  private subject: string | undefined;
  private fruitless: string | undefined;
  /** The last decision, for those who ask. */
  lastDecision: CondensingDecision | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly state: SessionState,
  ) {}

  /** @param rendered its messages as they are sent */
  requestLeaves(rendered: readonly AgentMessage[], model: SessionModel | undefined): void {
    this.lastRequestAt = this.clock.now();
    if (model?.cache.lookbackBlocks !== undefined) this.breakpoints.requestLeaves(this.marks.of(rendered));
  }

  /** A flush that was decided here is done: one of which nothing came is not tried again. */
  flushed(counts: CondensedCounts): void {
    this.fruitless = hasCondensed(counts) ? undefined : this.subject;
  }

  /** Decides on a flush before a request leaves; `undefined` where there is nothing to decide. */
  decide(question: CondensingQuestion): CondensingDecision | undefined {
    const { messages, isProtected, inUse, config } = question;
    const pending = question.pending.filter(({ held }) => !held);
    const { indexer } = this.state;
    const detected = this.state.chainsOf(messages, isProtected);
    const ranges = compressibleRanges({ messages, isProtected, detected, inUse, config, indexer });
    const subject = [...pending.map(({ toolCalls }) => toolCalls[0]?.occurrenceKey), ranges.length].join();
    if ((pending.length === 0 && ranges.length === 0) || subject === this.fruitless) return undefined;
    this.subject = subject;
    const decideWith = (asked: CondensingQuestion): CondensingDecision => {
      const forecastConfig = this.forecastConfig(asked);
      const choice = { rendered: question.render(), pending, ranges, config: forecastConfig };
      return decideCondensing(choice, this.situation(asked, forecastConfig));
    };
    const { summarizer } = question;
    const own = decideWith(isOptional(summarizer) ? withDigests(question) : question);
    // Where summaries do not pay, digests may.
    const isModel = summarizer.kind === "model" && !summarizer.isOptional;
    const other = isModel && !own.flush ? decideWith(withDigests(question)) : undefined;
    this.lastDecision = other?.flush ? { ...other, digest: true } : own;
    return this.lastDecision;
  }

  /** Whether what is unpaid of `pending` is worth a summary before it is known when the flush comes. */
  summariesPay(question: CondensingQuestion): boolean {
    const config = this.forecastConfig(question);
    const choice = { rendered: question.render(), pending: question.pending, config };
    return summariesPay(choice, this.situation(question, config), isOptional(question.summarizer));
  }

  private forecastConfig({ config, model, summarizer }: CondensingQuestion): ForecastConfig {
    const blocks = model?.cache.lookbackBlocks;
    return {
      ...config,
      summaryShare: shareOf(summarizer),
      chanceOfUse: config.workingSet === null ? undefined : (key) => this.state.chanceOfUse(key),
      tokensAt: (rendered, index) => this.marks.tokensAt(rendered, index),
      lookback: blocks === undefined ? undefined : { blocks, ends: this.breakpoints.lengths },
    };
  }

  private situation(
    { unpaid, usage, model, summarizer }: CondensingQuestion,
    forecastConfig: ForecastConfig,
  ): CondensingSituation {
    const assumedMs = model?.cache.lifetimeMs ?? DEFAULT_PROFILE.lifetimeMs;
    const progress = this.progressOf(assumedMs);
    const { model: lastModel, compacted, warmedAt } = progress;
    const modelChanged = model !== undefined && lastModel !== model.name;
    const lastRequestAt = this.lastRequestAt && Math.max(this.lastRequestAt, warmedAt ?? 0);
    const lifetimeMs = lifetimeOf(progress, assumedMs);
    const cacheIsCold = isCacheCold({ now: this.clock.now(), lastRequestAt, lifetimeMs, modelChanged, compacted });
    if (cacheIsCold) this.breakpoints.clear();
    const price = () =>
      summarizer.kind === "model" ? summarizer.priceOf(forecastSummarizer(unpaid, forecastConfig)) : 0;
    return {
      progress,
      prices: model?.rates(usage?.tokens ?? 0) ?? DEFAULT_PROFILE.rates,
      summarizerCost: unpaid.length > 0 ? price() : 0,
      cacheIsCold,
      usage,
    };
  }

  /** Each entry of the branch is looked at once, until the leaf moves. */
  private progressOf(lifetimeMs: number): BranchProgress {
    const { moves, branch } = this.state;
    const known = this.progress;
    const goesOn = known && known.moves === moves && known.lifetimeMs === lifetimeMs;
    const fold = goesOn ? known : { moves, lifetimeMs, entries: 0, progress: NO_PROGRESS };
    const progress = progressOf(branch.entries.slice(fold.entries), lifetimeMs, fold.progress);
    this.progress = { moves, lifetimeMs, entries: branch.entries.length, progress };
    return progress;
  }
}

/** How far a branch has come, as of a number of its entries. */
interface ProgressFold {
  moves: number;
  lifetimeMs: number;
  entries: number;
  progress: BranchProgress;
}

function isOptional(summarizer: Summarizer): boolean {
  return summarizer.kind === "model" && summarizer.isOptional;
}

function withDigests(question: CondensingQuestion): CondensingQuestion {
  return { ...question, summarizer: { kind: "digest" }, unpaid: [] };
}

function shareOf(summarizer: Summarizer): number {
  if (summarizer.kind === "model") return summarizer.summaryShare;
  return summarizer.kind === "digest" ? DIGEST_SHARE : SUMMARY_SHARE;
}
