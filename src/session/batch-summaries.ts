/** The summaries on a branch by call. They are held as their entries have them, and told apart when one is asked for. */
import type { SummaryEntryData } from "../types.js";
import { PagedMap } from "./paged-map.js";

/** The summary that stands for a call. */
export interface CallSummary {
  /** Text for this call; empty where the batch's text stands with another call. */
  text: string;
  /** Ref of the call that carries the text of a batch that could not be split. */
  carriedBy?: string;
}

/** What has been written of one batch: that of a call without a part stands with the first that has one. */
type Batch = Pick<SummaryEntryData, "parts">;

/** What can be read of `BatchSummaries`; a `Map` can be read alike. */
export type ReadonlySummaries = Pick<ReadonlyMap<string, CallSummary>, "get" | "size"> &
  Iterable<[string, CallSummary]>;

/** Summaries by occurrence key. */
export class BatchSummaries implements ReadonlySummaries {
  private readonly batches = new PagedMap<Batch>();

  get size(): number {
    return this.batches.size;
  }

  /** A batch covers these occurrences; where one of them has a summary already, the later one holds. */
  add(occurrenceKeys: readonly string[], batch: Batch): void {
    if (batch.parts.length > 0) for (const key of occurrenceKeys) this.batches.set(key, batch);
  }

  get(key: string): CallSummary | undefined {
    const batch = this.batches.get(key);
    return batch && summaryOf(key, batch);
  }

  *[Symbol.iterator](): MapIterator<[string, CallSummary]> {
    for (const [key, batch] of this.batches) yield [key, summaryOf(key, batch)];
  }
}

function summaryOf(key: string, { parts }: Batch): CallSummary {
  const own = parts.findLast((part) => part.occurrenceKey === key);
  return own ? { text: own.text } : { text: "", carriedBy: parts[0]?.shortId };
}
