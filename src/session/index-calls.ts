/** The calls of an index entry by their occurrence keys. */
import { occurrenceKey } from "../transcript/messages.js";
import type { IndexEntryData, SummaryToolCallRef, ToolCallRecord } from "../types.js";

/** A condensed call: its record and the ref that it answers to. */
export interface IndexedCall {
  occurrenceKey: string;
  shortId: string;
  record: ToolCallRecord;
}

/** A ref and the occurrence that it is given to. */
export type NamedOccurrence = Pick<IndexedCall, "occurrenceKey" | "shortId">;

/** What an index entry says. */
export interface EntryCalls {
  /** Its records; `shortId` is empty where the entry itself has no ref for one. */
  calls: IndexedCall[];
  /** Its refs; the very list of calls where each record has one. */
  names: readonly NamedOccurrence[];
}

/** The calls of an index entry. They are made once, since making and hashing keys is most of taking up a session. */
export function callsOf(own: { data: IndexEntryData; calls?: EntryCalls | undefined }): EntryCalls {
  own.calls ??= readCalls(own.data);
  return own.calls;
}

function readCalls({ toolCalls, refs }: IndexEntryData): EntryCalls {
  if (!isParallel(toolCalls, refs)) return matchedByKey(toolCalls, refs);
  const calls = toolCalls.map((record, i) => indexed(record, refs[i]?.shortId ?? ""));
  // One occurrence twice in an entry takes its last ref.
  const isDistinct = calls.length === 1 || new Set(calls.map((call) => call.occurrenceKey)).size === calls.length;
  return isDistinct ? { calls, names: calls } : matchedByKey(toolCalls, refs);
}

function isParallel(toolCalls: readonly ToolCallRecord[], refs: readonly SummaryToolCallRef[]): boolean {
  return (
    toolCalls.length === refs.length &&
    toolCalls.every((record, i) => {
      const ref = refs[i];
      return ref?.toolCallId === record.toolCallId && ref.resultTimestamp === record.resultTimestamp;
    })
  );
}

function matchedByKey(toolCalls: readonly ToolCallRecord[], refs: readonly SummaryToolCallRef[]): EntryCalls {
  const names = refs.map((ref) => ({ occurrenceKey: keyOf(ref), shortId: ref.shortId }));
  const given = new Map(names.map((name) => [name.occurrenceKey, name.shortId]));
  return { calls: toolCalls.map((record) => indexed(record, given.get(keyOf(record)) ?? "")), names };
}

function indexed(record: ToolCallRecord, shortId: string): IndexedCall {
  return { occurrenceKey: keyOf(record), shortId, record };
}

function keyOf({ toolCallId, resultTimestamp }: SummaryToolCallRef | ToolCallRecord): string {
  return occurrenceKey(toolCallId, resultTimestamp);
}
