/** Runs the flushes of one session, one at a time, beside the agent, and prefetches their summaries. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { InUse } from "../capture/in-use.ts";
import { type Protection, protectedTurnsOf } from "../capture/protection.ts";
import { SupersededScan } from "../capture/superseded.ts";
import { describeCall } from "../digest/describe.ts";
import {
  batchesToSummarize,
  commitFlush,
  emptyReport,
  type FlushReport,
  hasCondensed,
  type PreparedFlush,
  prepareFlush,
} from "../flush.ts";
import { type BatchSummary, digestSummary } from "../summarizer.ts";
import { taggedText, withoutTagged } from "../transcript/tags.ts";
import type { CapturedBatch, ContextPruneConfig, FlushReason } from "../types.ts";
import type { Environment, ModelSummarizer, Summarizer, SummaryOptions } from "./environment.ts";
import { currencyOf } from "./flush-currency.ts";
import type { SessionState } from "./session-state.ts";
import { SummaryQueue } from "./summary-queue.ts";

/** How far one batch of a flush is. */
export interface BatchProgress {
  /** Place of the batch among those that are summarised, from 0, and how many there are. */
  index: number;
  total: number;
  /** The calls of the batch in a few words. */
  label: string;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  /** Characters of summary that have come so far. */
  chars: number;
}

/** What a flush works on. */
export interface FlushRequest {
  pending: readonly CapturedBatch[];
  /** The conversation that `pending` is from. */
  messages: readonly AgentMessage[];
  /** Results that are still at work: no chain that holds one is compressed. */
  inUse: InUse;
  summarizer: Summarizer;
  config: ContextPruneConfig;
  isProtected: Protection;
  /** Compress every chain outside the window, however few there are. */
  compactAll?: boolean;
  /** What the person wants the summaries to mind: none that were made without it are taken. */
  guide?: string;
  /** Space must be freed: where no model gives a summary, the digest steps in. */
  mustFree?: boolean;
  /** Why the flush is made, where its price decided. */
  decision?: FlushReason;
  onProgress?(progress: BatchProgress): void;
}

/** What the runner asks and tells besides its environment. */
export interface FlushHooks {
  /** What is protected by now: the person may have said so while the summaries were made. */
  protection(): Protection | undefined;
  /** A flush has changed what the next request carries. */
  onCommit(decision: FlushReason | undefined): void;
}

export class FlushRunner {
  private flight: Promise<FlushReport> | undefined;
  private closed = false;
  /** The person has ended the flush that is running. */
  private cancelled = false;
  private toldMissing: string | undefined;
  private readonly queue = new SummaryQueue();
  private readonly superseded = new SupersededScan();

  constructor(
    private readonly state: SessionState,
    private readonly environment: Environment,
    private readonly hooks: FlushHooks,
  ) {}

  /** The session has ended. */
  get isClosed(): boolean {
    return this.closed;
  }

  get running(): boolean {
    return this.flight !== undefined;
  }

  /** The flush that is running. Never rejects. */
  get current(): Promise<FlushReport> | undefined {
    return this.flight;
  }

  /** Starts a flush, or joins the one that is running. Never rejects. */
  start(request: FlushRequest): Promise<FlushReport> {
    if (this.flight) return this.flight;
    const flight = this.run(request).finally(() => {
      if (this.flight === flight) this.flight = undefined;
    });
    this.flight = flight;
    return flight;
  }

  /** Prefetches the summaries of `pending`, so that the flush that is to come finds them ready. */
  prefetch({ pending, summarizer, config }: Pick<FlushRequest, "pending" | "summarizer" | "config">): void {
    // What is not asked for now is asked for by the flush; a model in trouble would only be counted as failing twice.
    if (summarizer.kind !== "model" || !summarizer.isAvailable()) return;
    for (const batch of batchesToSummarize(pending, this.state.indexer, config)) {
      if (!this.queue.hasBeenAsked(batch)) void this.summarize(batch, summarizer, config);
    }
  }

  /** The batches whose summary has not been asked for yet. */
  unasked(pending: readonly CapturedBatch[]): CapturedBatch[] {
    return pending.filter((batch) => !this.queue.hasBeenAsked(batch));
  }

  /** Summaries that failed may be asked for again at once. */
  forgetFailed(): void {
    this.queue.forgetFailed();
  }

  /** Waits for the flush that is running, at most `limitMs` and not longer than `signal` allows. */
  async settle(limitMs: number, signal?: AbortSignal): Promise<void> {
    const { flight } = this;
    if (!flight) return;
    const limit = AbortSignal.any([this.environment.clock.after(limitMs), ...(signal ? [signal] : [])]);
    await new Promise<void>((resolve) => {
      if (limit.aborted) resolve();
      limit.addEventListener("abort", () => resolve(), { once: true });
      void flight.then(() => resolve());
    });
  }

  /** Ends the calls of the flush that is running; what was finished is kept. */
  cancel(): void {
    this.cancelled = this.running;
    this.queue.cancel("cancelled");
  }

  /** Gives up the flush that is running; what it would still append is dropped. */
  close(): void {
    this.closed = true;
    this.queue.cancel("the session ended");
    this.flight = undefined;
  }

  private async run(request: FlushRequest): Promise<FlushReport> {
    try {
      const { summarizer } = request;
      this.tellMissing(summarizer);
      if (summarizer.kind === "missing" && !request.mustFree) return emptyReport();
      this.cancelled = false;
      if (summarizer.kind === "model") summarizer.flushBegins();
      const { moves } = this.state;
      const prepared = await this.prepare(request);
      if (this.closed) return emptyReport();
      return this.commit(prepared, moves, request.decision);
    } catch (error) {
      if (!this.closed) this.environment.onError(error);
      return emptyReport();
    }
  }

  /** Once for each reason, until there is a summariser again. */
  private tellMissing(summarizer: Summarizer): void {
    const reason = summarizer.kind === "missing" ? summarizer.reason : undefined;
    if (reason !== undefined && reason !== this.toldMissing)
      this.environment.tell({ text: `pruner: ${reason}`, type: "warning" });
    this.toldMissing = reason;
  }

  private async prepare(request: FlushRequest): Promise<PreparedFlush> {
    const { summarizer, config, messages, isProtected, compactAll, guide, onProgress } = request;
    const { indexer } = this.state;
    const work = batchesToSummarize(request.pending, indexer, config);
    const model = summarizer.kind === "model" ? summarizer : undefined;
    if (model) for (const batch of work) onProgress?.({ ...placeOf(batch, work), state: "waiting", chars: 0 });
    const prepared = await prepareFlush(request.pending, {
      indexer,
      config,
      isRecovery: (call) => this.state.isRecovery(call),
      superseded: this.superseded,
      summarize: (batch) => this.summarizeInFlush(batch, work, request),
      chains: {
        messages,
        isProtected,
        detected: this.state.chainsOf(messages, isProtected),
        all: compactAll,
        inUse: request.inUse,
        protectedTurns: protectedTurnsOf(config),
        fuse: model && !model.isOptional ? (summaries) => this.fuse(summaries, model, config, guide) : undefined,
      },
    });
    this.queue.forget(work);
    return prepared;
  }

  private commit(prepared: PreparedFlush, moves: number, decision: FlushReason | undefined): FlushReport {
    const { state, environment } = this;
    state.sync();
    const report = commitFlush(prepared, {
      indexer: state.indexer,
      append: environment.append,
      ...currencyOf(state, moves),
      isProtected: this.hooks.protection(),
      now: environment.clock.now(),
      saveStats: () => state.stats.save(environment.append),
    });
    state.sync();
    if (hasCondensed(report)) this.hooks.onCommit(decision);
    return this.cancelled ? { ...report, cancelled: true } : report;
  }

  private async summarizeInFlush(
    batch: CapturedBatch,
    work: readonly CapturedBatch[],
    { summarizer, config, guide, mustFree, onProgress }: FlushRequest,
  ): Promise<BatchSummary | null> {
    // What is worth an optional model's summary has been asked for before.
    const isOptional = summarizer.kind === "model" && summarizer.isOptional;
    if (summarizer.kind === "digest" || (isOptional && !this.queue.hasBeenAsked(batch))) return digestSummary(batch);
    const place = placeOf(batch, work);
    const tell = (state: BatchProgress["state"], chars: number) => onProgress?.({ ...place, state, chars });
    if (this.cancelled) {
      tell("cancelled", 0);
      return null;
    }
    if (this.queue.hasBeenAsked(batch)) tell("running", 0);
    const onChars = (chars: number) => tell("running", chars);
    const made =
      summarizer.kind === "model" ? await this.summarize(batch, summarizer, config, { guide, onChars }) : null;
    const summary = made ?? ((mustFree || isOptional) && !this.cancelled ? digestSummary(batch) : null);
    tell(summary ? "done" : this.cancelled ? "cancelled" : "failed", summary?.whole.length ?? 0);
    return summary;
  }

  private summarize(
    batch: CapturedBatch,
    model: ModelSummarizer,
    config: ContextPruneConfig,
    { guide, onChars }: Pick<SummaryOptions, "guide" | "onChars"> = {},
  ): Promise<BatchSummary | null> {
    const shown = config.protectTags ? withoutTags(batch) : batch;
    const make = (signal: AbortSignal) => {
      onChars?.(0);
      return model.summarize(shown, { ...this.optionsFor(config, signal), guide, onChars });
    };
    const { summarizerConcurrency } = config;
    return guide === undefined
      ? this.queue.summary(batch, summarizerConcurrency, make)
      : this.queue.inTurn(summarizerConcurrency, make);
  }

  private fuse(
    summaries: readonly string[],
    model: ModelSummarizer,
    config: ContextPruneConfig,
    guide: string | undefined,
  ): Promise<string | null> {
    if (this.cancelled) return Promise.resolve(null);
    return this.queue.inTurn(config.summarizerConcurrency, (signal) =>
      model.fuse(summaries, { ...this.optionsFor(config, signal), guide }),
    );
  }

  private optionsFor(config: ContextPruneConfig, signal: AbortSignal): Parameters<ModelSummarizer["summarize"]>[1] {
    const { stats } = this.state;
    return {
      config,
      signal,
      onCall: (call) => {
        stats.add(call.usage, call.ok || call.cancelled === true);
        if (!this.closed) this.environment.onPaid(call, stats.current);
      },
    };
  }
}

function placeOf(
  { toolCalls }: CapturedBatch,
  work: readonly CapturedBatch[],
): Pick<BatchProgress, "index" | "total" | "label"> {
  const [first] = toolCalls;
  return {
    index: work.findIndex((candidate) => candidate.toolCalls[0]?.occurrenceKey === first?.occurrenceKey),
    total: work.length,
    label: toolCalls.map((call) => describeCall(call.toolName, call.args)).join(", "),
  };
}

/** The batch as a summariser may see it: what a tool has marked is kept word for word and needs no summary. */
function withoutTags(batch: CapturedBatch): CapturedBatch {
  const toolCalls = batch.toolCalls.map((call) =>
    taggedText(call.resultText) === "" ? call : { ...call, resultText: withoutTagged(call.resultText) },
  );
  return { ...batch, toolCalls };
}
