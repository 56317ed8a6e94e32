/** The entries that a flush writes of its batches: what was said of them, and the index of their calls. */
import type {
  CapturedToolCall,
  HeldRecord,
  IndexEntryData,
  SummaryEntryData,
  SummaryUsage,
  ToolCallRecord,
} from "../types.ts";

/** A call of a batch that is about to be indexed. */
export interface BatchMember {
  call: CapturedToolCall;
  outcome: string;
  contentHash: string;
  /** Where the text has been written, so that the record need not hold it. */
  spill?: Required<Pick<ToolCallRecord, "spillPath" | "spillBytes" | "spillLines" | "resultPreview">> &
    Pick<ToolCallRecord, "spillLongestLine">;
}

/** What a batch's summary says: a text for each call, or one text for all that the call at `carrier` carries. */
export type BatchSummaryText =
  | { kind: "split"; whole: string; texts: readonly string[] }
  | { kind: "whole"; whole: string; carrier: number };

/** A batch that is about to be indexed. */
export interface IndexableBatch {
  turnIndex: number;
  timestamp: number;
  members: readonly BatchMember[];
  /** The batch is indexed after the fact, so that its calls have refs. */
  backfilled?: true;
  /** Missing for results whose stub needs none. */
  summary?: { content: BatchSummaryText; model: string; usage?: SummaryUsage };
}

/** The summaries of a batch. A text that is split stands in its parts alone. */
export function summaryEntry(
  members: readonly BatchMember[],
  { content, model, usage }: NonNullable<IndexableBatch["summary"]>,
  refs: readonly string[],
): SummaryEntryData {
  const parts = members.flatMap(({ call }, i) => {
    const text = content.kind === "split" ? content.texts[i] : i === content.carrier ? content.whole : undefined;
    const shortId = refs[i];
    return text === undefined || shortId === undefined ? [] : [{ shortId, occurrenceKey: call.occurrenceKey, text }];
  });
  const occurrenceKeys = members.map(({ call }) => call.occurrenceKey);
  const text = content.kind === "split" ? "" : content.whole;
  return { text, parts, occurrenceKeys, model, ...(usage ? { usage } : {}) };
}

/** One entry for all summaries of a model that are split by call; a call without a part points to the first of its own entry. */
export function joinSummaries(summaries: readonly SummaryEntryData[]): SummaryEntryData[] {
  const joined: SummaryEntryData[] = [];
  for (const summary of summaries) {
    const into = joined.findIndex((other) => other.text === "" && summary.text === "" && other.model === summary.model);
    const other = joined[into];
    if (other) joined[into] = joinTwo(other, summary);
    else joined.push(summary);
  }
  return joined;
}

function joinTwo(a: SummaryEntryData, b: SummaryEntryData): SummaryEntryData {
  const usage = a.usage && b.usage ? sumOf(a.usage, b.usage) : (a.usage ?? b.usage);
  const parts = [...a.parts, ...b.parts];
  const occurrenceKeys = [...a.occurrenceKeys, ...b.occurrenceKeys];
  return { text: "", parts, occurrenceKeys, model: a.model, ...(usage ? { usage } : {}) };
}

function sumOf(a: SummaryUsage, b: SummaryUsage): SummaryUsage {
  const inputTokens = a.inputTokens + b.inputTokens;
  return { inputTokens, outputTokens: a.outputTokens + b.outputTokens, cost: a.cost + b.cost };
}

/** The index entry of a batch. @param isHeld the session's own message has what the record need not hold */
export function indexEntry(
  { members, turnIndex, timestamp, backfilled }: IndexableBatch,
  refs: readonly string[],
  isHeld: (member: BatchMember) => boolean,
): IndexEntryData {
  return {
    toolCalls: members.map((member) => recordOf(member, { turnIndex, timestamp }, isHeld(member))),
    refs: members.flatMap(({ call: { toolCallId, resultTimestamp } }, i) => {
      const shortId = refs[i];
      return shortId === undefined ? [] : [{ shortId, toolCallId, resultTimestamp }];
    }),
    ...(backfilled ? { backfilled } : {}),
  };
}

function recordOf(
  { call, outcome, contentHash, spill }: BatchMember,
  { turnIndex, timestamp }: Pick<IndexableBatch, "turnIndex" | "timestamp">,
  isHeld: boolean,
): ToolCallRecord | HeldRecord {
  const { toolCallId, toolName, args, resultText, isError, resultTimestamp, resultImages } = call;
  const said = outcome === (isError ? "error" : "ok") ? {} : { outcome };
  // What is spilled keeps a record of its own: its stub holds before any flush, also in release 1.0.0.
  if (isHeld && !spill) return { contentHash, ...said };
  return {
    toolCallId,
    toolName,
    args,
    resultText: spill ? "" : resultText,
    isError,
    turnIndex,
    timestamp,
    resultTimestamp,
    ...(resultImages > 0 ? { resultImages } : {}),
    ...(spill ? { resultChars: resultText.length } : {}),
    ...spill,
    ...said,
    contentHash,
  };
}
