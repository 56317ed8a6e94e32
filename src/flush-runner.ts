/** Runs the flushes of one session, one at a time, beside the agent. */
import { commitFlush, emptyReport, type FlushReport, prepareFlush, type Summarize } from "./flush.js";
import type { SummarizerChoice } from "./host.js";
import { isToolResult, occurrenceKey } from "./messages.js";
import type { SessionState } from "./session-state.js";
import { digestSummary, summarizeBatch } from "./summarizer.js";
import type { CapturedBatch, ContextPruneConfig } from "./types.js";

/** What the runner tells. */
export interface FlushListener {
  /** A summariser that is missing or in trouble, in a sentence for the user. */
  onTrouble(message: string): void;
  /** Something went wrong that should not have. */
  onError(error: unknown): void;
  /** Entries have been appended that change the next request. */
  onCommit(): void;
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
  start(
    pending: readonly CapturedBatch[],
    { choice, config }: { choice: SummarizerChoice; config: ContextPruneConfig },
  ): Promise<FlushReport> {
    if (this.flight) return this.flight.done;
    const controller = new AbortController();
    const flight: Flight = {
      controller,
      done: this.run(pending, choice, config, controller.signal).finally(() => {
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

  private async run(
    pending: readonly CapturedBatch[],
    choice: SummarizerChoice,
    config: ContextPruneConfig,
    signal: AbortSignal,
  ): Promise<FlushReport> {
    try {
      if (choice.kind === "missing") {
        this.listener.onTrouble(`${choice.reason}. Choose one with the setting summarizerModel.`);
        return emptyReport();
      }
      const { state } = this;
      const { moves } = state;
      const summarize = this.summarizer(choice, config, signal);
      const prepared = await prepareFlush(pending, { indexer: state.indexer, config, summarize });
      if (this.closed) return emptyReport();
      state.sync();
      const report = commitFlush(prepared, {
        indexer: state.indexer,
        append: state.append,
        isCurrent: this.currencyCheck(moves),
        saveStats: () => state.stats.save(state.append),
      });
      state.sync();
      if (report.condensed + report.duplicates > 0) this.listener.onCommit();
      return report;
    } catch (error) {
      if (!this.closed) this.listener.onError(error);
      return emptyReport();
    }
  }

  /** Whether an occurrence may still be indexed: a tree move may have taken it away while its summary was made. */
  private currencyCheck(movesAtStart: number): (key: string) => boolean {
    const { state } = this;
    if (movesAtStart === state.moves) return (key) => !state.indexer.isSummarized(key);
    const results = state.messages().filter(isToolResult);
    const here = new Set(results.map((result) => occurrenceKey(result.toolCallId, result.timestamp)));
    return (key) => here.has(key) && !state.indexer.isSummarized(key);
  }

  private summarizer(
    choice: Exclude<SummarizerChoice, { kind: "missing" }>,
    config: ContextPruneConfig,
    signal: AbortSignal,
  ): Summarize {
    if (choice.kind === "digest") return async (batch) => digestSummary(batch);
    const { model } = choice;
    return (batch) =>
      summarizeBatch(batch, {
        model,
        signal,
        idleTimeoutMs: config.summarizerIdleTimeoutMs,
        maxTimeoutMs: config.summarizerMaxTimeoutMs,
        onUsage: (usage, ok) => this.state.stats.add(usage, ok),
        onTrouble: (reason) => {
          if (!signal.aborted) this.listener.onTrouble(`no summary from ${model.name}: ${reason}`);
        },
      });
  }
}
