/** The summaries on a branch by call. */
import type { SummaryPart } from "../types.js";

/** The summary that stands for a call. */
export interface CallSummary {
  /** Text for this call; empty where the batch's text stands with another call. */
  text: string;
  /** Ref of the call that carries the text of a batch that could not be split. */
  carriedBy?: string;
}

/** The summary of a call within its batch: one without a part stands with the first that has one. */
export function summaryOf(key: string, parts: readonly SummaryPart[]): CallSummary {
  const own = parts.findLast((part) => part.occurrenceKey === key);
  return own ? { text: own.text } : { text: "", carriedBy: parts[0]?.shortId };
}
