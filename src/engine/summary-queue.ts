/** Summaries in the making: each batch is asked for once, a few at a time, whoever wants it. */
import type { BatchSummary } from "../summarizer.ts";
import type { CapturedBatch } from "../types.ts";

/** Makes one summary; ends early when `signal` is aborted. Never rejects. */
export type MakeSummary = (signal: AbortSignal) => Promise<BatchSummary | null>;

/** The one place that limits how many calls run at once. Keeps what was prefetched until a flush has taken it. */
export class SummaryQueue {
  private readonly jobs = new Map<string, Promise<BatchSummary | null>>();
  private readonly asked = new Set<string>();
  /** Batches whose job has come to nothing. */
  private readonly failed = new Set<string>();
  private controller = new AbortController();
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  /** The summary of `batch`: the one that is being made or has been made, or else what `make` gives. */
  summary(batch: CapturedBatch, concurrency: number, make: MakeSummary): Promise<BatchSummary | null> {
    const key = keyOf(batch);
    const known = this.jobs.get(key);
    if (known) return known;
    const job = this.inTurn(concurrency, make);
    this.jobs.set(key, job);
    this.asked.add(key);
    const keep = (summary: BatchSummary | null) => {
      if (summary === null && this.jobs.get(key) === job) this.failed.add(key);
    };
    void job.then(keep, () => undefined);
    return job;
  }

  /** The batch has been asked for before, whatever came of it: only a flush asks again. */
  hasBeenAsked(batch: CapturedBatch): boolean {
    return this.asked.has(keyOf(batch));
  }

  /** Runs `make` as soon as fewer than `concurrency` calls are running. */
  async inTurn<T>(concurrency: number, make: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = this.controller;
    while (this.running >= concurrency) await new Promise<void>((resolve) => void this.waiting.push(resolve));
    this.running += 1;
    try {
      return await make(signal);
    } finally {
      this.running -= 1;
      this.waiting.shift()?.();
    }
  }

  /** A flush has taken these: what failed may be asked for again by the next, and what was made is not needed twice. */
  forget(batches: readonly CapturedBatch[]): void {
    for (const batch of batches) this.drop(keyOf(batch));
  }

  /** What has failed may be asked for again at once. */
  forgetFailed(): void {
    for (const key of this.failed) this.drop(key);
  }

  /** Ends every call that is running; what has been made stays. */
  cancel(reason: string): void {
    this.controller.abort(new Error(reason));
    this.controller = new AbortController();
  }

  private drop(key: string): void {
    this.jobs.delete(key);
    this.failed.delete(key);
  }
}

function keyOf(batch: CapturedBatch): string {
  return batch.toolCalls.map((call) => call.occurrenceKey).join("\n");
}
