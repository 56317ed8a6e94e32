/** A recorded session as the environment of a session engine. */
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import type { CachePolicy, Rates } from "../cost/prices.ts";
import { type Environment, type ModelSummarizer, type Moment, SYSTEM_CLOCK } from "../engine/environment.ts";
import type { MemorySession } from "../session/memory-session.ts";
import type { ContextPruneConfig } from "../types.ts";
import type { StandIn } from "./stand-in.ts";

/** What a replay knows of the provider. */
export interface ReplayProvider {
  usage(): ContextUsage | undefined;
  contextWindow: number;
  /** How prompts are kept, and what they cost. */
  cache: CachePolicy;
  rates(): Rates;
  /** What a summariser would cost. */
  summarizerCost(tokens: { inputTokens: number; outputTokens: number }): number;
}

export interface ReplaySessionOptions {
  session: MemorySession;
  config: ContextPruneConfig;
  standIn: StandIn;
  /** Share of an output that its summary is expected to have. */
  summaryShare: number;
  provider: ReplayProvider;
  /** A flush has changed what the next request carries. @param reason why it was made: what its price said, or the trigger */
  onCommit(reason: string): void;
}

/** Time is what the recording says. */
export class ReplaySession {
  readonly environment: Environment;
  private now = 0;
  private model = "";
  private failure: { error: unknown } | undefined;

  constructor(private readonly options: ReplaySessionOptions) {
    const { session, config, onCommit } = options;
    const { pruneOn } = config;
    this.environment = {
      reader: session,
      append: (customType, data) => session.appendCustom(customType, data),
      clock: { now: () => this.now, after: SYSTEM_CLOCK.after },
      settings: () => config,
      tell: () => undefined,
      onPaid: () => undefined,
      onChange: () => undefined,
      // In a session that goes by prices, a flush without a decision is one of the budget.
      onCommit: (decision) => onCommit(decision?.reason ?? (pruneOn === "cache-aware" ? "budget" : pruneOn)),
      onError: (error) => {
        this.failure ??= { error };
      },
    };
  }

  /** A request to a model (`provider/id`) is about to leave, `at` ms since the epoch. */
  requestComes(at: number, model: string): void {
    this.now = at;
    this.model = model;
  }

  /** @throws what went wrong in a flush since the last event */
  moment(): Moment {
    if (this.failure) throw this.failure.error;
    const { provider, standIn } = this.options;
    const { contextWindow, cache, rates, usage } = provider;
    return {
      cwd: this.options.session.getCwd(),
      usage,
      model: { name: this.model, contextWindow, cache, rates },
      summarizer: () => (standIn.isFree ? { kind: "digest" } : this.summarizer(standIn)),
    };
  }

  private summarizer({ summarize, fuse }: StandIn): ModelSummarizer {
    return {
      kind: "model",
      isOptional: this.options.config.summarizerModel === "auto",
      summaryShare: this.options.summaryShare,
      priceOf: (tokens) => this.options.provider.summarizerCost(tokens),
      isAvailable: () => true,
      flushBegins: () => undefined,
      forgive: () => undefined,
      summarize,
      fuse: (summaries) => fuse?.(summaries) ?? Promise.resolve(null),
    };
  }
}
