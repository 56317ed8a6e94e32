/** What is known of the provider's prompt cache, and the decisions that rest on it. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import type { Protection } from "../capture/protection.js";
import { PromptEnds } from "../cost/breakpoints.js";
import {
  type CondensingDecision,
  type CondensingSituation,
  decideCondensing,
  progressOf,
  summariesPay,
} from "../cost/decision.js";
import { DIGEST_SHARE, type ForecastConfig, forecastSummarizer } from "../cost/forecast.js";
import { costOf, DEFAULT_PROFILE, isCacheCold, type Rates, ratesFor } from "../cost/prices.js";
import { compressibleRanges } from "../flush/chains.js";
import { type CondensedCounts, hasCondensed } from "../flush.js";
import type { HostSnapshot } from "../host/host.js";
import { summarizerRates } from "../host/models.js";
import type { CapturedBatch, ContextPruneConfig } from "../types.js";
import type { SessionState } from "./session-state.js";

/** Milliseconds that a provider keeps a prompt where the host asks for long retention. */
const LONG_LIFETIME_MS = 60 * 60_000;

/**
 * Content blocks before the mark at a prompt's end among which these interfaces look for an earlier marked end; the hosts
 * set one mark there. The others find any common beginning.
 */
const LOOKBACK_BLOCKS: Readonly<Record<string, number>> = { "anthropic-messages": 20, "bedrock-converse-stream": 20 };

/** Share of an output that a model's summary has. */
const SUMMARY_SHARE = 0.08;

/** What a decision is asked about. */
export interface CondensingQuestion {
  messages: readonly AgentMessage[];
  pending: readonly CapturedBatch[];
  /** Of `pending`, what a summariser would still have to be paid for. */
  unpaid: readonly CapturedBatch[];
  isProtected: Protection;
  /** The request as it would leave now. */
  render(): readonly AgentMessage[];
  usage: ContextUsage | undefined;
  config: ContextPruneConfig;
}

/** Follows the requests of one session. */
export class CacheWatch {
  /** ms; `undefined` where this process has sent none, as after a resume. */
  private lastRequestAt: number | undefined;
  private readonly ends = new PromptEnds();
  /** The model's provider finds only ends of earlier prompts. */
  private looksBack = false;
  /** What the last flush that was decided here was to work on, and the one of which nothing came. */
  private subject: string | undefined;
  private fruitless: string | undefined;
  /** The last decision, for those who ask. */
  lastDecision: CondensingDecision | undefined;

  constructor(private readonly now: () => number = Date.now) {}

  /** @param rendered its messages as they are sent */
  requestLeaves(rendered: readonly AgentMessage[]): void {
    this.lastRequestAt = this.now();
    if (this.looksBack) this.ends.requestLeaves(rendered);
  }

  /** A flush that was decided here is done: one of which nothing came is not tried again. */
  flushed(counts: CondensedCounts): void {
    this.fruitless = hasCondensed(counts) ? undefined : this.subject;
  }

  /** Decides on a flush before a request of `state` leaves; `undefined` where there is nothing to decide. */
  decide(host: HostSnapshot, state: SessionState, question: CondensingQuestion): CondensingDecision | undefined {
    const { messages, isProtected, pending, config } = question;
    this.looksBack = lookbackBlocks(host) !== undefined;
    const ranges = compressibleRanges({ messages, isProtected, config, indexer: state.indexer });
    const subject = [...pending.map(({ toolCalls }) => toolCalls[0]?.occurrenceKey), ranges.length].join();
    if ((pending.length === 0 && ranges.length === 0) || subject === this.fruitless) return undefined;
    this.subject = subject;
    const forecastConfig = this.forecastConfig(host, config);
    const choice = { rendered: question.render(), pending, ranges, config: forecastConfig };
    this.lastDecision = decideCondensing(choice, this.situation(host, state, question, forecastConfig));
    return this.lastDecision;
  }

  /** Whether what is unpaid of `pending` is worth a summary before it is known when the flush comes. */
  summariesPay(host: HostSnapshot, state: SessionState, question: CondensingQuestion): boolean {
    const config = this.forecastConfig(host, question.config);
    const choice = { rendered: question.render(), pending: question.pending, config };
    return summariesPay(choice, this.situation(host, state, question, config));
  }

  private forecastConfig(host: HostSnapshot, config: ContextPruneConfig): ForecastConfig {
    const summaryShare = config.summarizerModel === "none" ? DIGEST_SHARE : SUMMARY_SHARE;
    const blocks = lookbackBlocks(host);
    const lookback = blocks === undefined ? undefined : { blocks, ends: this.ends.lengths };
    return { ...config, summaryShare, lookback };
  }

  private situation(
    host: HostSnapshot,
    state: SessionState,
    { unpaid, usage, config }: CondensingQuestion,
    forecastConfig: ForecastConfig,
  ): CondensingSituation {
    const lifetimeMs = process.env.PI_CACHE_RETENTION === "long" ? LONG_LIFETIME_MS : DEFAULT_PROFILE.lifetimeMs;
    const { model, compacted, ...progress } = progressOf(state.branch.entries, lifetimeMs);
    const modelChanged = host.model !== undefined && model !== `${host.model.provider}/${host.model.id}`;
    const { lastRequestAt } = this;
    const { inputTokens, outputTokens } = forecastSummarizer(unpaid, forecastConfig);
    const rates = summarizerRates(config, host);
    const cacheIsCold = isCacheCold({ now: this.now(), lastRequestAt, lifetimeMs, modelChanged, compacted });
    if (cacheIsCold) this.ends.clear();
    return {
      progress,
      prices: pricesOf(host, usage?.tokens ?? 0),
      summarizerCost: rates ? costOf({ read: 0, write: 0, input: inputTokens, output: outputTokens }, rates) : 0,
      cacheIsCold,
      usage,
    };
  }
}

function lookbackBlocks({ model }: Pick<HostSnapshot, "model">): number | undefined {
  return LOOKBACK_BLOCKS[model?.api ?? ""];
}

/** The session model's prices; those of a usual one where it has none, so that proportions are right at least. */
function pricesOf({ model }: Pick<HostSnapshot, "model">, promptTokens: number): Rates {
  return model && model.cost.input > 0 ? ratesFor(model.cost, promptTokens) : DEFAULT_PROFILE.rates;
}
