/** The extension at work on a replayed session: what its handlers do, with the same modules and without a host. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { prepareChains } from "../chain-flush.js";
import {
  decideFlush,
  expectedReads,
  type FlushDecision,
  type FlushForecast,
  type Rates,
  type SessionProgress,
} from "../economics.js";
import { commitFlush, prepareFlush } from "../flush.js";
import {
  forecastChains,
  forecastStubs,
  forecastSummarizer,
  joinForecasts,
  type RewriteForecast,
} from "../flush-forecast.js";
import { isAnswer } from "../messages.js";
import { spillOversized } from "../oversized.js";
import { createProtection, type Protection } from "../protection.js";
import { capImages } from "../render/images.js";
import { RenderMemo } from "../render-memo.js";
import { BudgetWatch } from "../session/budget-watch.js";
import { SessionState } from "../session-state.js";
import { flushMark } from "../triggers.js";
import type { CapturedBatch, ChainRange } from "../types.js";
import type { EntryTree } from "./entry-tree.js";
import type { ReplayConfig } from "./settings.js";
import type { StandIn } from "./stand-in.js";

/** What the handlers are told of the session around them. */
export interface Surroundings {
  usage(): ContextUsage | undefined;
  isCacheCold(at: number): boolean;
  rates(): Rates;
  /** As of the provider's `CachePolicy`. */
  lookbackBlocks: number | undefined;
  progress(): SessionProgress;
  /** What a summariser would cost. */
  summarizerCost(tokens: { inputTokens: number; outputTokens: number }): number;
  /** A flush has changed what the next request carries. */
  onFlush(): void;
}

export interface ReplayPrunerOptions {
  config: ReplayConfig;
  standIn: StandIn;
  /** Share of an output that its summary is expected to have. */
  summaryShare: number;
  cwd: string;
  surroundings: Surroundings;
}

interface FlushWork {
  messages: readonly AgentMessage[];
  pending: readonly CapturedBatch[];
}

/** What a flush does about closed chains; by default what the settings say. */
interface ChainOrder {
  /** Compress every chain behind the window, also where nothing else is to be condensed. */
  all?: true;
  none?: true;
}

/** One session. The handlers are called in the order in which the host would. */
export class ReplayPruner {
  private readonly state: SessionState;
  private readonly budget = new BudgetWatch();
  private readonly memo = new RenderMemo();
  private readonly isProtected: Protection;
  private flushedMark: number | undefined;

  constructor(
    tree: EntryTree,
    private readonly options: ReplayPrunerOptions,
  ) {
    const { protectedTools, protectedPaths } = options.config;
    this.isProtected = createProtection({ protectedTools, protectedPaths, cwd: options.cwd });
    this.state = new SessionState(tree, (customType, data) => tree.appendCustom(customType, data));
  }

  /** A turn has ended. */
  async turnEnded(): Promise<void> {
    await this.act(undefined);
  }

  /** A request is about to leave at `at` (ms). */
  async beforeRequest(at: number): Promise<void> {
    await this.act(at);
    this.budget.requestLeaves(this.state.messages().findLast(isAnswer)?.timestamp);
  }

  /** The messages as they are sent. */
  render(messages: AgentMessage[]): AgentMessage[] {
    this.state.sync();
    const { config } = this.options;
    return capImages(this.memo.render(messages, this.state.plan(config)), config.maxImagesPerRequest);
  }

  private async act(requestAt: number | undefined): Promise<void> {
    this.state.sync();
    const messages = this.state.messages();
    this.spill(messages);
    if (this.isOverBudget(messages)) await this.flush(this.workIn(messages));
    if (this.options.config.pruneOn === "cache-aware") await this.flushIfItPays(messages, requestAt);
    else await this.flushIfDue(messages, this.options.config.pruneOn);
  }

  private spill(messages: readonly AgentMessage[]): void {
    const { config } = this.options;
    const blobDir = this.state.blobDir();
    if (blobDir === undefined) return;
    const oversized = this.state.oversized(messages, {
      isProtected: this.isProtected,
      threshold: config.spillThreshold,
    });
    const { indexer, append } = this.state;
    spillOversized(oversized, { indexer, append, sync: () => this.state.sync(), blobDir, config });
  }

  private isOverBudget(messages: readonly AgentMessage[]): boolean {
    const { config, surroundings } = this.options;
    return this.budget.isDue(surroundings.usage(), messages.findLast(isAnswer)?.timestamp, config);
  }

  private async flushIfDue(
    messages: readonly AgentMessage[],
    pruneOn: Exclude<ReplayConfig["pruneOn"], "cache-aware">,
  ): Promise<void> {
    const index = flushMark(messages, { ...this.options.config, pruneOn });
    const mark = messages[index];
    if (!mark || mark.timestamp === this.flushedMark) return;
    this.flushedMark = mark.timestamp;
    await this.flush(this.workIn(messages.slice(0, index + 1)));
  }

  private workIn(messages: readonly AgentMessage[]): FlushWork {
    const { batchingMode, turnProtection } = this.options.config;
    const protectedTurns = turnProtection.enabled ? turnProtection.turns : 0;
    const options = { batchingMode, protectedTurns, isProtected: this.isProtected };
    return { messages, pending: this.state.pending(messages, options) };
  }

  private async flush({ messages, pending }: FlushWork, chains: ChainOrder = {}): Promise<void> {
    const { config, standIn, surroundings } = this.options;
    const { indexer, append } = this.state;
    const chainsAlone = chains.all === true;
    if (pending.length === 0 && !chainsAlone && !indexer.hasUncommitted()) return;
    const enabled = config.chainCompression.enabled && chains.none !== true;
    const prepared = await prepareFlush(pending, {
      indexer,
      config: { ...config, chainCompression: { ...config.chainCompression, enabled } },
      isRecovery: (call) => this.state.isRecovery(call),
      summarize: standIn.summarize,
      chains: { messages, isProtected: this.isProtected, fuse: standIn.fuse, all: chains.all },
    });
    const report = commitFlush(prepared, {
      indexer,
      append,
      isCurrent: (key) => !indexer.isSummarized(key),
      isCurrentRange: () => true,
      now: 0,
    });
    this.state.sync();
    if (report.condensed + report.duplicates + report.chains === 0) return;
    this.budget.flushCommitted();
    surroundings.onFlush();
  }

  /** Flushes where that is cheaper than to go on; chains come along where that is cheaper still. */
  private async flushIfItPays(messages: readonly AgentMessage[], requestAt: number | undefined): Promise<void> {
    const work = this.workIn(messages);
    const { config, standIn, summaryShare, surroundings } = this.options;
    const rendered = this.render([...messages]);
    const forecastConfig = { ...config, summaryShare, lookbackBlocks: surroundings.lookbackBlocks };
    const stubs = forecastStubs(rendered, work.pending, forecastConfig);
    const tokens = forecastSummarizer(work.pending, forecastConfig);
    const summarizerCost = standIn.isFree ? 0 : surroundings.summarizerCost(tokens);
    const alone = this.decide(stubs, requestAt, summarizerCost);
    const ranges = await this.eligibleChains(messages);
    const both = joinForecasts(stubs, forecastChains(rendered, ranges, forecastConfig));
    const together = this.decide(both, requestAt, summarizerCost);
    const chainsPay = ranges.length > 0 && together.savings - together.price > alone.savings - alone.price;
    if (chainsPay && together.flush) await this.flush(work, { all: true });
    else if (alone.flush) await this.flush(work, { none: true });
  }

  private async eligibleChains(messages: readonly AgentMessage[]): Promise<readonly ChainRange[]> {
    const { ranges } = await prepareChains({
      messages,
      isProtected: this.isProtected,
      config: this.options.config.chainCompression,
      indexer: this.state.indexer,
      isPending: () => false,
      summaryOf: () => undefined,
      all: true,
    });
    return ranges;
  }

  private decide(rewrite: RewriteForecast, requestAt: number | undefined, summarizerCost: number): FlushDecision {
    const { surroundings } = this.options;
    const usage = surroundings.usage();
    const windowShare = usage && usage.tokens !== null ? usage.tokens / usage.contextWindow : undefined;
    const prices = surroundings.rates();
    const forecast: FlushForecast = {
      clearedTokens: rewrite.clearedTokens,
      keptTokens: rewrite.keptTokens,
      carriedTokens: rewrite.carriedTokens,
      expectedRequests: expectedReads(surroundings.progress(), prices),
      prices,
      summarizerCost,
      cacheIsCold: requestAt !== undefined && surroundings.isCacheCold(requestAt),
    };
    return decideFlush(forecast, windowShare);
  }
}
