/** The summaries on a branch by call. */
import type { SummaryEntryData } from "../types.ts";

/** The summary that stands for a call. */
export interface CallSummary {
  /** Text for this call; empty where the batch's text stands with another call. */
  text: string;
  /** Ref of the call that carries the text of a batch that could not be split. */
  carriedBy?: string;
}

/**
 * What a summary entry says of the call at `index` of those that it covers. Parts are given as they are, since a session has
 * thousands; a call without one stands with the first that has one.
 */
export function summaryReader({
  occurrenceKeys,
  parts,
}: Pick<SummaryEntryData, "occurrenceKeys" | "parts">): (index: number) => CallSummary {
  const carried = { text: "", carriedBy: parts[0]?.shortId };
  const isAligned =
    parts.length === occurrenceKeys.length && parts.every((p, i) => p.occurrenceKey === occurrenceKeys[i]);
  if (isAligned) return (index) => parts[index] ?? carried;
  const own = new Map(parts.map((part) => [part.occurrenceKey, part]));
  return (index) => own.get(occurrenceKeys[index] ?? "") ?? carried;
}
