/** Runs the flushes of one session, one at a time, beside the agent, and makes summaries ahead of them. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { type Protection, protectedTurnsOf } from "../capture/protection.js";
import { describeCall } from "../digest/describe.js";
import {
  batchesToSummarize,
  commitFlush,
  emptyReport,
  type FlushReport,
  hasCondensed,
  prepareFlush,
} from "../flush.js";
import type { SummarizerChoice } from "../host/models.js";
import {
  type BatchSummary,
  digestSummary,
  type ModelChoice,
  type SummarizeOptions,
  type SummarizerCall,
  type SummaryModel,
  summarizeBatch,
  summarizeRange,
} from "../summarizer.js";
import type { Trouble } from "../summary/trouble.js";
import { lastAnswerIndex, resultKeys } from "../transcript/messages.js";
import { taggedText, withoutTagged } from "../transcript/tags.js";
import type { CapturedBatch, ChainRange, ContextPruneConfig, FlushReason } from "../types.js";
import type { SessionState } from "./session-state.js";
import { type Attempt, SummarizerPolicy } from "./summarizer-policy.js";
import { SummaryDesk } from "./summary-queue.js";

/** What the runner tells. */
export interface FlushListener {
  /** A summariser that is missing or in trouble, in a sentence for the user. */
  onTrouble(message: string): void;
  /** Something went wrong that should not have. */
  onError(error: unknown): void;
  /** A call of the summariser has been paid for. */
  onCall(call: SummarizerCall): void;
  /** Entries have been appended that change the next request. */
  onCommit(): void;
}

/** How far one batch of a flush is. */
export interface BatchProgress {
  /** Place of the batch among those that are summarised, from 0, and how many there are. */
  index: number;
  total: number;
  /** The calls of the batch in a few words. */
  label: string;
  state: "waiting" | "running" | "done" | "failed";
  /** Characters of summary that have come so far. */
  chars: number;
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
  /** Space must be freed: where no model gives a summary, the digest steps in. */
  mustFree?: boolean;
  /** Why the flush is made, where its price decided. */
  decision?: FlushReason;
  onProgress?(progress: BatchProgress): void;
}

/** A flush that is being prepared. */
interface Flight {
  done: Promise<FlushReport>;
}

export class FlushRunner {
  private flight: Flight | undefined;
  private closed = false;
  /** The user has ended the flush that is running. */
  private cancelled = false;
  private toldMissing: string | undefined;
  private readonly desk = new SummaryDesk();
  private readonly policy: SummarizerPolicy;

  constructor(
    private readonly state: SessionState,
    private readonly listener: FlushListener,
    now: () => number = Date.now,
  ) {
    const onTrouble = (model: string, { detail }: Trouble) => listener.onTrouble(`no summary from ${model}: ${detail}`);
    this.policy = new SummarizerPolicy({ onTrouble }, now);
  }

  /** The session has ended. */
  get isClosed(): boolean {
    return this.closed;
  }

  get running(): boolean {
    return this.flight !== undefined;
  }

  /** Starts a flush, or joins the one that is running. Never rejects. */
  start(request: FlushRequest): Promise<FlushReport> {
    if (this.flight) return this.flight.done;
    const flight: Flight = {
      done: this.run(request).finally(() => {
        if (this.flight === flight) this.flight = undefined;
      }),
    };
    this.flight = flight;
    return flight.done;
  }

  /** Has the summaries of `pending` made now, so that the flush that is to come finds them ready. */
  makeAhead({ pending, choice, config }: Pick<FlushRequest, "pending" | "choice" | "config">): void {
    // What is not asked for now is asked for by the flush; a model in trouble would only be counted as failing twice.
    if (choice.kind !== "model" || !this.policy.isAvailable(choice.models)) return;
    for (const batch of batchesToSummarize(pending, this.state.indexer, config)) {
      if (!this.desk.hasBeenAsked(batch)) void this.summarize(batch, choice.models, config);
    }
  }

  /** The batches whose summary has not been asked for yet. */
  unasked(pending: readonly CapturedBatch[]): CapturedBatch[] {
    return pending.filter((batch) => !this.desk.hasBeenAsked(batch));
  }

  /** Models that were given up get another chance: the user has asked for it or changed a setting. */
  forgive(): void {
    this.policy.forgive();
    this.desk.forgetFailed();
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

  /** Ends the calls of the flush that is running; what was finished is kept. */
  cancel(): void {
    this.cancelled = this.running;
    this.desk.cancel("cancelled");
  }

  /** Gives up the flush that is running; what it would still append is dropped. */
  close(): void {
    this.closed = true;
    this.desk.cancel("the session ended");
    this.flight = undefined;
  }

  private async run(request: FlushRequest): Promise<FlushReport> {
    try {
      this.tellMissing(request.choice);
      if (request.choice.kind === "missing" && !request.mustFree) return emptyReport();
      this.cancelled = false;
      this.policy.flushBegins();
      const { moves } = this.state;
      const prepared = await this.prepare(request);
      if (this.closed) return emptyReport();
      return this.commit(prepared, moves);
    } catch (error) {
      if (!this.closed) this.listener.onError(error);
      return emptyReport();
    }
  }

  /** Once for each reason, until there is a summariser again. */
  private tellMissing(choice: SummarizerChoice): void {
    const reason = choice.kind === "missing" ? choice.reason : undefined;
    if (reason !== undefined && reason !== this.toldMissing) this.listener.onTrouble(reason);
    this.toldMissing = reason;
  }

  private async prepare(request: FlushRequest): ReturnType<typeof prepareFlush> {
    const { choice, config, messages, isProtected, compactAll } = request;
    const { indexer } = this.state;
    const work = batchesToSummarize(request.pending, indexer, config);
    const models = choice.kind === "model" ? choice.models : undefined;
    for (const batch of models ? work : [])
      request.onProgress?.({ ...placeOf(batch, work), state: "waiting", chars: 0 });
    const prepared = await prepareFlush(request.pending, {
      indexer,
      config,
      isRecovery: (call) => this.state.isRecovery(call),
      summarize: (batch) => this.summarizeInFlush(batch, work, request),
      chains: {
        messages,
        isProtected,
        all: compactAll,
        protectedTurns: protectedTurnsOf(config),
        fuse: models && ((summaries) => this.fuse(summaries, models, config)),
      },
    });
    this.desk.forget(work);
    return prepared;
  }

  private commit(prepared: Awaited<ReturnType<typeof prepareFlush>>, moves: number): FlushReport {
    const { state } = this;
    state.sync();
    const report = commitFlush(prepared, {
      indexer: state.indexer,
      append: state.append,
      ...this.currencyChecks(moves),
      now: Date.now(),
      saveStats: () => state.stats.save(state.append),
    });
    state.sync();
    if (hasCondensed(report)) this.listener.onCommit();
    return this.cancelled ? { ...report, cancelled: true } : report;
  }

  private async summarizeInFlush(
    batch: CapturedBatch,
    work: readonly CapturedBatch[],
    { choice, config, mustFree, onProgress }: FlushRequest,
  ): Promise<BatchSummary | null> {
    if (choice.kind === "digest") return digestSummary(batch);
    if (this.cancelled) return null;
    const place = placeOf(batch, work);
    const tell = (state: BatchProgress["state"], chars: number) => onProgress?.({ ...place, state, chars });
    tell("running", 0);
    const onChars = (chars: number) => tell("running", chars);
    const made = choice.kind === "model" ? await this.summarize(batch, choice.models, config, onChars) : null;
    const summary = made ?? (mustFree && !this.cancelled ? digestSummary(batch) : null);
    tell(summary ? "done" : "failed", summary?.whole.length ?? 0);
    return summary;
  }

  private summarize(
    batch: CapturedBatch,
    models: ModelChoice,
    config: ContextPruneConfig,
    onChars?: (chars: number) => void,
  ): Promise<BatchSummary | null> {
    return this.desk.summary(batch, config.summarizerConcurrency, (signal) =>
      this.ask(models, config, signal, onChars, (options) =>
        summarizeBatch(config.protectTags ? withoutTags(batch) : batch, options),
      ),
    );
  }

  private fuse(summaries: readonly string[], models: ModelChoice, config: ContextPruneConfig): Promise<string | null> {
    if (this.cancelled) return Promise.resolve(null);
    return this.desk.inTurn(config.summarizerConcurrency, (signal) =>
      this.ask(models, config, signal, undefined, (options) => summarizeRange(summaries, options)),
    );
  }

  /** Runs `call` with the model that the policy chooses. Never rejects. */
  private async ask<T>(
    models: ModelChoice,
    config: ContextPruneConfig,
    signal: AbortSignal,
    onChars: SummarizeOptions["onChars"],
    call: (options: SummarizeOptions) => Promise<T | null>,
  ): Promise<T | null> {
    const attempt = async (model: SummaryModel): Promise<Attempt<T>> => {
      let trouble: Trouble = { kind: "failed", detail: "no summary was given" };
      const value = await call({
        model,
        signal,
        idleTimeoutMs: config.summarizerIdleTimeoutMs,
        maxTimeoutMs: config.summarizerMaxTimeoutMs,
        onUsage: (paid) => this.paidFor(paid),
        onTrouble: (what) => {
          trouble = what;
        },
        onChars,
      });
      return value === null ? { trouble } : { value };
    };
    try {
      return await this.policy.ask(models, attempt);
    } catch (error) {
      if (!this.closed) this.listener.onError(error);
      return null;
    }
  }

  private paidFor(call: SummarizerCall): void {
    this.state.stats.add(call.usage, call.ok);
    if (!this.closed) this.listener.onCall(call);
  }

  /**
   * Whether an occurrence may still be indexed, and a chain compressed: a tree move may have taken them away while the
   * summaries were made, or the reply that had answered them.
   */
  private currencyChecks(movesAtStart: number): {
    isCurrent(key: string): boolean;
    isCurrentRange(range: ChainRange): boolean;
  } {
    const { state } = this;
    const messages = state.messages();
    const answered = resultKeys(messages.slice(0, lastAnswerIndex(messages) + 1));
    const hasMoved = movesAtStart !== state.moves;
    const isAnswered = (key: string) => !hasMoved || answered.has(key);
    return {
      isCurrent: (key) => isAnswered(key) && !state.indexer.isSummarized(key),
      isCurrentRange: (range) => range.occurrenceKeys.every(isAnswered),
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
