/** The extension at work on a replayed session: what its handlers do, with the same modules and without a host. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { type Protection, protectedTurnsOf, protectionOf } from "../capture/protection.js";
import { flushMark } from "../capture/triggers.js";
import { PromptEnds } from "../cost/breakpoints.js";
import { BudgetWatch } from "../cost/budget-watch.js";
import {
  type CondensingDecision,
  type CondensingSituation,
  decideCondensing,
  progressOf,
  settingsFor,
  summariesPay,
} from "../cost/decision.js";
import { type ForecastConfig, forecastSummarizer } from "../cost/forecast.js";
import { type CachePolicy, isCacheCold, type Rates } from "../cost/prices.js";
import { RenderMemo } from "../engine/render-memo.js";
import { SessionState } from "../engine/session-state.js";
import { compressibleRanges } from "../flush/chains.js";
import { spillOversized } from "../flush/spilling.js";
import { batchesToSummarize, commitFlush, hasCondensed, prepareFlush } from "../flush.js";
import { capImages, imageLimits } from "../render/images.js";
import { isAnswer } from "../transcript/messages.js";
import type { CapturedBatch, ContextPruneConfig } from "../types.js";
import type { EntryTree } from "./entry-tree.js";
import type { StandIn } from "./stand-in.js";

/** What the handlers are told of the session around them. */
export interface Surroundings {
  usage(): ContextUsage | undefined;
  /** How the provider keeps prompts, what it charges, and when it last got one (ms). */
  cache: CachePolicy;
  rates(): Rates;
  lastRequestAt(): number | undefined;
  /** What a summariser would cost. */
  summarizerCost(tokens: { inputTokens: number; outputTokens: number }): number;
  /** A flush has changed what the next request carries. */
  onFlush(): void;
  /** The session has ended, and summaries that took so many tokens have not been used. */
  onLeftOver(tokens: { inputTokens: number; outputTokens: number }): void;
}

export interface ReplayPrunerOptions {
  config: ContextPruneConfig;
  standIn: StandIn;
  /** Share of an output that its summary is expected to have. */
  summaryShare: number;
  cwd: string;
  surroundings: Surroundings;
}

/** A request that is about to leave: when (ms), and to which model (`provider/id`). */
export interface ComingRequest {
  at: number;
  model: string;
}

interface FlushWork {
  messages: readonly AgentMessage[];
  pending: readonly CapturedBatch[];
}

/** One session. The handlers are called in the order in which the host would. */
export class ReplayPruner {
  private readonly state: SessionState;
  private readonly budget = new BudgetWatch();
  private readonly memo = new RenderMemo();
  private readonly ends = new PromptEnds();
  private readonly isProtected: Protection;
  private flushedMark: number | undefined;
  /** Batches whose summaries have been made, by their first call, until a flush uses them. */
  private readonly ahead = new Map<string | undefined, CapturedBatch>();
  private lastRequest: ComingRequest | undefined;

  constructor(
    tree: EntryTree,
    private readonly options: ReplayPrunerOptions,
  ) {
    this.isProtected = protectionOf(options.config, options.cwd);
    this.state = new SessionState(tree, (customType, data) => tree.appendCustom(customType, data));
  }

  /** A turn has ended. */
  async turnEnded(): Promise<void> {
    const messages = await this.keepWithinBounds();
    this.makeSummariesAhead(messages);
    if (this.options.config.pruneOn !== "cache-aware") await this.flushIfDue(messages);
  }

  /** The session has ended. */
  ended(): void {
    if (this.ahead.size === 0) return;
    this.options.surroundings.onLeftOver(forecastSummarizer([...this.ahead.values()], this.forecastConfig()));
  }

  /** A request is about to leave. */
  async beforeRequest(request: ComingRequest): Promise<void> {
    const messages = await this.keepWithinBounds();
    this.lastRequest = request;
    if (this.options.config.pruneOn === "cache-aware") await this.flushIfItPays(messages, request);
    else await this.flushIfDue(messages);
  }

  /** A request leaves. @param rendered its messages as they are sent */
  requestLeaves(rendered: readonly AgentMessage[]): void {
    this.budget.requestLeaves(rendered.findLast(isAnswer)?.timestamp);
    this.ends.requestLeaves(rendered);
  }

  /** The messages as they are sent. */
  render(messages: AgentMessage[]): AgentMessage[] {
    this.state.sync();
    const { config } = this.options;
    return capImages(this.memo.render(messages, this.state.plan(config)), imageLimits(config, undefined));
  }

  /** Spills what is oversized and flushes where the context is over its budget; gives the conversation. */
  private async keepWithinBounds(): Promise<AgentMessage[]> {
    this.state.sync();
    const messages = this.state.messages();
    this.spill(messages);
    const { config, surroundings } = this.options;
    const isDue = this.budget.isDue(surroundings.usage(), messages.findLast(isAnswer)?.timestamp, config);
    if (isDue) await this.flush(this.workIn(messages));
    return messages;
  }

  private spill(messages: readonly AgentMessage[]): void {
    const { config } = this.options;
    const blobDir = this.state.blobDir();
    if (blobDir === undefined) return;
    const { isProtected } = this;
    const { indexer, append } = this.state;
    const batches = this.state.oversized(messages, { isProtected, config });
    spillOversized(batches, { indexer, append, sync: () => this.state.sync(), blobDir, config });
  }

  private async flushIfDue(messages: readonly AgentMessage[]): Promise<void> {
    const index = flushMark(messages, this.options.config);
    const mark = messages[index];
    if (!mark || mark.timestamp === this.flushedMark) return;
    this.flushedMark = mark.timestamp;
    const work = this.workIn(messages.slice(0, index + 1));
    if (work.pending.length > 0 || this.state.indexer.hasUncommitted()) await this.flush(work);
  }

  private async flushIfItPays(messages: AgentMessage[], request: ComingRequest): Promise<void> {
    const { config } = this.options;
    const work = this.workIn(messages);
    const decision = this.decide(work, request);
    if (decision.flush) await this.flush(work, settingsFor(decision, config), decision.chains);
  }

  /** A model's summaries are under way before a flush wants them. */
  private makeSummariesAhead(messages: readonly AgentMessage[]): void {
    const { config, standIn } = this.options;
    const { batchingMode, pruneOn } = config;
    if (standIn.isFree || pruneOn === "on-demand" || batchingMode === "agent-message") return;
    const pending = this.state.pending(messages, { batchingMode, isProtected: this.isProtected, unseenToo: true });
    if (pruneOn === "cache-aware") {
      const { lastRequest } = this;
      if (!lastRequest || this.unpaid(pending).length === 0) return;
      const choice = { rendered: this.render([...messages]), pending, config: this.forecastConfig() };
      if (!summariesPay(choice, this.situation(pending, lastRequest))) return;
    }
    for (const batch of batchesToSummarize(pending, this.state.indexer, config)) this.ahead.set(firstKey(batch), batch);
  }

  private decide({ messages, pending }: FlushWork, request: ComingRequest): CondensingDecision {
    const { config } = this.options;
    const { isProtected } = this;
    const ranges = compressibleRanges({ messages, isProtected, config, indexer: this.state.indexer });
    return decideCondensing(
      { rendered: this.render([...messages]), pending, ranges, config: this.forecastConfig() },
      this.situation(pending, request),
    );
  }

  private situation(pending: readonly CapturedBatch[], { at, model }: ComingRequest): CondensingSituation {
    const { standIn, surroundings } = this.options;
    const { lifetimeMs } = surroundings.cache;
    const tokens = forecastSummarizer(this.unpaid(pending), this.forecastConfig());
    const { model: lastModel, compacted, ...progress } = progressOf(this.state.branch.entries, lifetimeMs);
    const lastRequestAt = surroundings.lastRequestAt();
    const modelChanged = lastModel !== undefined && lastModel !== model;
    const cacheIsCold = isCacheCold({ now: at, lastRequestAt, lifetimeMs, modelChanged, compacted });
    if (cacheIsCold) this.ends.clear();
    return {
      progress,
      prices: surroundings.rates(),
      summarizerCost: standIn.isFree ? 0 : surroundings.summarizerCost(tokens),
      cacheIsCold,
      usage: surroundings.usage(),
    };
  }

  private unpaid(pending: readonly CapturedBatch[]): CapturedBatch[] {
    return pending.filter((batch) => !this.ahead.has(firstKey(batch)));
  }

  private forecastConfig(): ForecastConfig {
    const { config, summaryShare, surroundings } = this.options;
    const { lookbackBlocks: blocks } = surroundings.cache;
    const lookback = blocks === undefined ? undefined : { blocks, ends: this.ends.lengths };
    return { ...config, summaryShare, lookback };
  }

  private workIn(messages: readonly AgentMessage[]): FlushWork {
    const { config } = this.options;
    const { batchingMode } = config;
    const options = { batchingMode, isProtected: this.isProtected, protectedTurns: protectedTurnsOf(config) };
    return { messages, pending: this.state.pending(messages, options) };
  }

  private async flush(
    { messages, pending }: FlushWork,
    config: ContextPruneConfig = this.options.config,
    compactAll = false,
  ): Promise<void> {
    const { standIn, surroundings } = this.options;
    const { indexer, append } = this.state;
    const chains = { messages, isProtected: this.isProtected, fuse: standIn.fuse, all: compactAll };
    const prepared = await prepareFlush(pending, {
      indexer,
      config,
      isRecovery: (call) => this.state.isRecovery(call),
      summarize: standIn.summarize,
      chains: { ...chains, protectedTurns: protectedTurnsOf(config) },
    });
    const report = commitFlush(prepared, {
      indexer,
      append,
      isCurrent: (key) => !indexer.isSummarized(key),
      isCurrentRange: () => true,
      now: 0,
    });
    for (const batch of pending) this.ahead.delete(firstKey(batch));
    this.state.sync();
    if (!hasCondensed(report)) return;
    this.budget.flushCommitted();
    surroundings.onFlush();
  }
}

function firstKey({ toolCalls }: CapturedBatch): string | undefined {
  return toolCalls[0]?.occurrenceKey;
}
