/** Single results that the person names: to keep them word for word, to drop them at once, or neither. */
import { captureOccurrences, isUnderstood } from "../batch-capture.ts";
import { contentHash } from "../capture/duplicates.ts";
import { describeCall, describeOutcome } from "../digest/describe.ts";
import { sizeWith, summaryFor } from "../flush/verdicts.ts";
import type { AppendEntry, BatchSummaryText, ToolCallIndexer } from "../indexer.ts";
import { digestSummary } from "../summarizer.ts";
import { contentChars, lastAnswerIndex, resultKeys } from "../transcript/messages.ts";
import { type CapturedToolCall, CUSTOM_TYPE_FRONTIER, type FrontierEntryData, type ResultChoice } from "../types.ts";
import type { SessionState } from "./session-state.ts";

/** A result of the branch as it is listed to the person. */
export interface NamedResult {
  ref: string;
  title: string;
  /** Characters of the whole result. */
  chars: number;
  choice: ResultChoice | undefined;
  /** The model has answered it. */
  isSeen: boolean;
  /** A stub can stand for it: all of its content is text or images. */
  isUnderstood: boolean;
}

/** The newest results that stand raw, at most `limit`, and all that something has been said of, in their order. */
export function listResults(state: SessionState, limit: number): NamedResult[] {
  const calls = allCalls(state);
  const { indexer } = state;
  const raw = calls.filter(({ occurrenceKey: key }) => !indexer.isSummarized(key)).slice(-limit);
  const listed = calls.filter((call) => raw.includes(call) || indexer.choiceOf(call.occurrenceKey) !== undefined);
  const unseen = unseenIn(state);
  return listed.map((call) => describe(call, state, unseen));
}

/** The results of the branch that a ref, the id of a call or a key names, by their keys. */
export function resultsNamed(state: SessionState, name: string): Map<string, NamedResult> {
  const keys = new Set(state.indexer.keysNamed(name));
  const calls = allCalls(state).filter(
    (call) => keys.has(call.occurrenceKey) || call.toolCallId === name || call.occurrenceKey === name,
  );
  const unseen = unseenIn(state);
  return new Map(calls.map((call) => [call.occurrenceKey, describe(call, state, unseen)]));
}

/**
 * Appends what condenses these dropped results with digests, however small they are; those that the model has not
 * answered wait. The frontier stays where it is. True where anything was appended.
 */
export function condenseDropped(
  messages: Parameters<typeof captureOccurrences>[0],
  { indexer, append }: { indexer: ToolCallIndexer; append: AppendEntry },
): boolean {
  const open = new Set(indexer.openDrops());
  if (open.size === 0) return false;
  const batches = captureOccurrences(messages.slice(0, lastAnswerIndex(messages)), open).flatMap((batch) => {
    const toolCalls = batch.toolCalls.filter(isUnderstood);
    return toolCalls.length > 0 ? [{ ...batch, toolCalls }] : [];
  });
  const prepared = batches.map((batch) => {
    const { whole, texts, model } = digestSummary(batch);
    const content: BatchSummaryText = { kind: "split", whole, texts: texts ?? [whole] };
    const members = batch.toolCalls.map((call) => ({
      call,
      outcome: describeOutcome(call),
      contentHash: contentHash(call),
    }));
    return { turnIndex: batch.turnIndex, timestamp: batch.timestamp, members, summary: { content, model } };
  });
  const members = prepared.flatMap((batch) =>
    batch.members.map((member, i) => ({ member, size: sizeWith(member, summaryFor(batch.summary.content, i)) })),
  );
  if (members.length === 0) return false;
  indexer.addBatches(prepared, append);
  const previous = indexer.frontier();
  const frontier: FrontierEntryData = {
    lastAttemptedToolCallId: previous?.lastAttemptedToolCallId ?? null,
    lastAttemptedResultTimestamp: previous?.lastAttemptedResultTimestamp,
    attemptedBatchCount: prepared.length,
    attemptedToolCallCount: members.length,
    rawCharCount: members.reduce((sum, { member }) => sum + contentChars(member.call.content), 0),
    summaryCharCount: members.reduce((sum, { size }) => sum + size, 0),
    outcome: "summarized",
  };
  const keys = members.map(({ member }) => member.call.occurrenceKey);
  return indexer.write(CUSTOM_TYPE_FRONTIER, frontier, keys, append);
}

function allCalls(state: SessionState): CapturedToolCall[] {
  const messages = state.messages();
  return captureOccurrences(messages, { has: () => true }).flatMap(({ toolCalls }) => toolCalls);
}

/** Results that the model has not answered. */
function unseenIn(state: SessionState): ReadonlySet<string> {
  const messages = state.messages();
  return resultKeys(messages.slice(lastAnswerIndex(messages) + 1));
}

function describe(call: CapturedToolCall, { indexer }: SessionState, unseen: ReadonlySet<string>): NamedResult {
  return {
    ref: indexer.refFor(call.occurrenceKey),
    title: describeCall(call.toolName, call.args),
    chars: contentChars(call.content),
    choice: indexer.choiceOf(call.occurrenceKey),
    isSeen: !unseen.has(call.occurrenceKey),
    isUnderstood: isUnderstood(call),
  };
}
