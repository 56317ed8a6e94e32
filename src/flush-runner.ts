/** Runs the flushes of one session, one at a time, beside the agent. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { commitFlush, emptyReport, type FlushReport, prepareFlush } from "./flush.js";
import type { SummarizerChoice } from "./host.js";
import { isToolResult, occurrenceKey } from "./messages.js";
import type { Protection } from "./protection.js";
import type { SessionState } from "./session-state.js";
import {
  digestSummary,
  type SummarizeOptions,
  type SummaryModel,
  summarizeBatch,
  summarizeRange,
} from "./summarizer.js";
import type { CapturedBatch, ChainRange, ContextPruneConfig } from "./types.js";

/** What the runner tells. */
export interface FlushListener {
  /** A summariser that is missing or in trouble, in a sentence for the user. */
  onTrouble(message: string): void;
  /** Something went wrong that should not have. */
  onError(error: unknown): void;
  /** Entries have been appended that change the next request. */
  onCommit(): void;
}

/** What a flush works on. */
export interface FlushRequest {
  pending: readonly CapturedBatch[];
  /** The conversation that `pending` is from. */
  messages: readonly AgentMessage[];
  choice: SummarizerChoice;
  config: ContextPruneConfig;
  isProtected: Protection;
  /** Compress every chain behind the window, however few there are. */
  compactAll?: boolean;
}

/** A flush that is being prepared. */
interface Flight {
  done: Promise<FlushReport>;
  controller: AbortController;
}

export class FlushRunner {
  private flight: Flight | undefined;
  private closed = false;

  constructor(
    private readonly state: SessionState,
    private readonly listener: FlushListener,
  ) {}

  get running(): boolean {
    return this.flight !== undefined;
  }

  /** Starts a flush of `pending`, or joins the one that is running. Never rejects. */
  start(request: FlushRequest): Promise<FlushReport> {
    if (this.flight) return this.flight.done;
    const controller = new AbortController();
    const flight: Flight = {
      controller,
      done: this.run(request, controller.signal).finally(() => {
        if (this.flight === flight) this.flight = undefined;
      }),
    };
    this.flight = flight;
    return flight.done;
  }

  /** Waits for the flush that is running, at most `limitMs` and not longer than `signal` allows. */
  async settle(limitMs: number, signal?: AbortSignal): Promise<void> {
    const { flight } = this;
    if (!flight) return;
    const limit = AbortSignal.any([AbortSignal.timeout(limitMs), ...(signal ? [signal] : [])]);
    await new Promise<void>((resolve) => {
      if (limit.aborted) resolve();
      limit.addEventListener("abort", () => resolve(), { once: true });
      void flight.done.then(() => resolve());
    });
  }

  /** Gives up the flush that is running; what it would still append is dropped. */
  close(): void {
    this.closed = true;
    this.flight?.controller.abort(new Error("the session ended"));
    this.flight = undefined;
  }

  private async run(request: FlushRequest, signal: AbortSignal): Promise<FlushReport> {
    const { choice, config, messages, isProtected } = request;
    try {
      if (choice.kind === "missing") {
        this.listener.onTrouble(`${choice.reason}. Choose one with the setting summarizerModel.`);
        return emptyReport();
      }
      const { state } = this;
      const { moves } = state;
      const model = choice.kind === "model" ? this.optionsFor(choice.model, config, signal) : undefined;
      const prepared = await prepareFlush(request.pending, {
        indexer: state.indexer,
        config,
        summarize: async (batch) => (model ? summarizeBatch(batch, model) : digestSummary(batch)),
        chains: {
          messages,
          isProtected,
          all: request.compactAll,
          fuse: model && ((summaries) => summarizeRange(summaries, model)),
        },
      });
      if (this.closed) return emptyReport();
      state.sync();
      const report = commitFlush(prepared, {
        indexer: state.indexer,
        append: state.append,
        ...this.currencyChecks(moves),
        now: Date.now(),
        saveStats: () => state.stats.save(state.append),
      });
      state.sync();
      if (report.condensed + report.duplicates + report.chains > 0) this.listener.onCommit();
      return report;
    } catch (error) {
      if (!this.closed) this.listener.onError(error);
      return emptyReport();
    }
  }

  /**
   * Whether an occurrence may still be indexed, and a chain compressed: a tree move may have taken them away while the
   * summaries were made.
   */
  private currencyChecks(movesAtStart: number): {
    isCurrent(key: string): boolean;
    isCurrentRange(range: ChainRange): boolean;
  } {
    const { state } = this;
    const results = state.messages().filter(isToolResult);
    const keys = new Set(results.map((result) => occurrenceKey(result.toolCallId, result.timestamp)));
    const isHere = (key: string) => movesAtStart === state.moves || keys.has(key);
    return {
      isCurrent: (key) => isHere(key) && !state.indexer.isSummarized(key),
      isCurrentRange: (range) => range.occurrenceKeys.every(isHere),
    };
  }

  private optionsFor(model: SummaryModel, config: ContextPruneConfig, signal: AbortSignal): SummarizeOptions {
    return {
      model,
      signal,
      idleTimeoutMs: config.summarizerIdleTimeoutMs,
      maxTimeoutMs: config.summarizerMaxTimeoutMs,
      onUsage: (usage, ok) => this.state.stats.add(usage, ok),
      onTrouble: (reason) => {
        if (!signal.aborted) this.listener.onTrouble(`no summary from ${model.name}: ${reason}`);
      },
    };
  }
}
