/** What becomes of each batch of a flush: its repeats, whether it is too small, whether its summary is worth the place. */
import { contentHash } from "../capture/duplicates.ts";
import { describeOutcome } from "../digest/describe.ts";
import type { BatchMember, BatchSummaryText, ToolCallIndexer } from "../indexer.ts";
import { callArgumentSavings } from "../render/arguments.ts";
import { callStub, duplicateStub, isWorthSummarizing, isWorthwhile } from "../render/stub.ts";
import type { CallSummary } from "../session/batch-summaries.ts";
import { type BatchSummary, digestSummary } from "../summarizer.ts";
import { cleanSummary } from "../text/clean.ts";
import { contentChars } from "../transcript/messages.ts";
import { taggedText } from "../transcript/tags.ts";
import type { CapturedBatch, CapturedToolCall, ContextPruneConfig, ToolCallRecord } from "../types.ts";

/** Longer than any ref that will be given, so that a size judged with it can only get smaller. */
const REF_FOR_SIZE = "t9999999";

/** A result that repeats one that is indexed, or is about to be. */
export interface Repeat {
  call: CapturedToolCall;
  contentHash: string;
  original: Pick<ToolCallRecord, "toolCallId" | "resultTimestamp">;
  originalKey: string;
}

/** What became of one batch. */
export type Verdict =
  | { kind: "deduped" }
  | { kind: "trivial" }
  | { kind: "oversized" }
  | { kind: "failed" }
  | { kind: "held" }
  | { kind: "summarized"; content: BatchSummaryText; summary: BatchSummary };

export interface PreparedBatch {
  batch: CapturedBatch;
  /** The batch without its repeats. */
  members: BatchMember[];
  repeats: Repeat[];
  verdict: Verdict;
}

/**
 * Takes out of each batch the results that repeat an indexed one or an earlier one of this flush. What is too small to be
 * indexed is no original: its repeats would have nothing to point to.
 */
export function separateRepeats(
  batches: readonly CapturedBatch[],
  indexer: ToolCallIndexer | undefined,
  config: SizeConfig,
): Omit<PreparedBatch, "verdict">[] {
  const originals = new Map<string, BatchMember>();
  return batches.map((batch) => {
    const fresh = new Map<string, BatchMember>();
    const earlier = (hash: string) => originals.get(hash) ?? fresh.get(hash);
    const members: BatchMember[] = [];
    const repeats: Repeat[] = [];
    for (const call of batch.toolCalls) {
      const member = { call, outcome: describeOutcome(call), contentHash: contentHash(call) };
      const original = indexer && findOriginal(member, indexer, earlier);
      if (original) repeats.push({ call, contentHash: member.contentHash, ...original });
      else members.push(member);
      if (!earlier(member.contentHash)) fresh.set(member.contentHash, member);
    }
    if (judgeSize({ batch, members, repeats }, config)?.kind !== "trivial") {
      for (const member of members) if (!originals.has(member.contentHash)) originals.set(member.contentHash, member);
    }
    return { batch, members, repeats };
  });
}

export function withoutRepeats({ batch, members }: Pick<PreparedBatch, "batch" | "members">): CapturedBatch {
  return { ...batch, toolCalls: members.map((member) => member.call) };
}

/** The batch without these results. Where one text stands for all of them, it waits for the next flush. */
export function withoutMembers(item: PreparedBatch, spared: ReadonlySet<string>): PreparedBatch {
  const isKept = ({ call }: { call: CapturedToolCall }) => !spared.has(call.occurrenceKey);
  const members = item.members.filter(isKept);
  const repeats = item.repeats.filter(isKept);
  if (members.length + repeats.length === item.members.length + item.repeats.length) return item;
  const { verdict } = item;
  const rest = { ...item, members, repeats };
  if (members.length === 0) return { ...rest, verdict: { kind: "deduped" } };
  if (verdict.kind !== "summarized" || members.length === item.members.length) return rest;
  if (verdict.content.kind === "whole") return { ...rest, verdict: { kind: "failed" } };
  const { texts } = verdict.content;
  const kept = texts.filter((_, i) => item.members[i] !== undefined && isKept(item.members[i]));
  return { ...rest, verdict: { ...verdict, content: { kind: "split", whole: kept.join("\n"), texts: kept } } };
}

function findOriginal(
  member: BatchMember,
  indexer: ToolCallIndexer,
  earlierMember: (contentHash: string) => BatchMember | undefined,
): Pick<Repeat, "original" | "originalKey"> | undefined {
  const known = indexer.findByHash(member.contentHash);
  const earlier = earlierMember(member.contentHash);
  const original =
    known ??
    (earlier && { shortId: REF_FOR_SIZE, record: recordOf(earlier), occurrenceKey: earlier.call.occurrenceKey });
  if (!original) return undefined;
  const stub = duplicateStub({ shortId: REF_FOR_SIZE, original });
  if (!isWorthwhile(stub.length, contentChars(member.call.content))) return undefined;
  return { original: original.record, originalKey: original.occurrenceKey };
}

/** Settings that say which batches are worth the work. */
export type SizeConfig = Pick<ContextPruneConfig, "minBatchChars" | "condenseArgs" | "purgeErrors" | "protectTags">;

/**
 * The verdict on a batch that needs no summariser: nothing new in it, still at work, too small. A batch that is large by
 * its arguments alone is indexed with its digest, so that those can be condensed.
 */
export function judgeSize(item: Omit<PreparedBatch, "verdict">, config: SizeConfig): Verdict | undefined {
  if (item.batch.held) return { kind: "held" };
  if (item.members.length === 0) return { kind: "deduped" };
  const resultChars = item.members.reduce((sum, { call }) => sum + contentChars(call.content), 0);
  if (resultChars >= config.minBatchChars && resultChars > 0) return undefined;
  const savings = savedArguments(item, config);
  if (savings === 0 || resultChars + savings < config.minBatchChars) return { kind: "trivial" };
  const summary = cleaned(digestSummary(withoutRepeats(item)));
  const content: BatchSummaryText = { kind: "split", whole: summary.whole, texts: summary.texts ?? [] };
  return { kind: "summarized", content, summary };
}

/** Characters that condensing takes off the arguments of the batch's calls, be it later. */
function savedArguments({ members }: Pick<PreparedBatch, "members">, config: SizeConfig): number {
  return members.reduce((sum, { call }) => sum + callArgumentSavings(call, config), 0);
}

/** A summary counts only where at least one result, or the arguments of a call, get shorter by it. */
export function judge(item: Omit<PreparedBatch, "verdict">, made: BatchSummary | null, config: SizeConfig): Verdict {
  if (!made) return { kind: "failed" };
  const summary = cleaned(made);
  const { whole } = summary;
  const fits = (member: BatchMember, text: string) =>
    isWorthSummarizing(sizeWith(member, { text }), contentChars(member.call.content));
  const texts = summary.texts?.map((text, i) => withTagged(text, item.members[i], config));
  if (texts) {
    const content: BatchSummaryText = { kind: "split", whole, texts };
    const worthwhile = item.members.some((member, i) => fits(member, texts[i] ?? ""));
    return worthwhile || savedArguments(item, config) > 0
      ? { kind: "summarized", content, summary }
      : { kind: "oversized" };
  }
  const tagged = config.protectTags && item.members.some(({ call }) => taggedText(call.resultText) !== "");
  const carrier = tagged ? -1 : item.members.findLastIndex((member) => fits(member, whole));
  if (carrier < 0) return { kind: "oversized" };
  return { kind: "summarized", content: { kind: "whole", whole, carrier }, summary };
}

/** The summary as it may be stored and shown. */
function cleaned(summary: BatchSummary): BatchSummary {
  return { ...summary, whole: cleanSummary(summary.whole), texts: summary.texts?.map(cleanSummary) };
}

/** What the tool marked as not to be condensed stands below the summary, word for word. */
function withTagged(text: string, member: BatchMember | undefined, { protectTags }: SizeConfig): string {
  const tagged = protectTags && member ? taggedText(member.call.resultText) : "";
  return tagged ? [text, tagged].filter(Boolean).join("\n") : text;
}

/** The summary with a line before each part that its file has been changed since, in the words of `changesOf`. */
export function withChanges(
  content: BatchSummaryText,
  members: readonly BatchMember[],
  changesOf: (key: string) => string | undefined,
  refOf: (key: string) => string | undefined,
): BatchSummaryText {
  const notes = members.map(({ call }) => changesOf(call.occurrenceKey));
  if (notes.every((note) => note === undefined)) return content;
  if (content.kind === "split") {
    const texts = content.texts.map((text, i) =>
      [notes[i] && `Outdated: ${notes[i]}.`, text].filter(Boolean).join("\n"),
    );
    return { ...content, texts };
  }
  const lines = members.flatMap(({ call }, i) =>
    notes[i] ? [`${refOf(call.occurrenceKey) ?? call.toolName} is outdated: ${notes[i]}.`] : [],
  );
  return { ...content, whole: [...lines, content.whole].join("\n") };
}

/** A call's share of its batch's summary. */
export function textFor(content: BatchSummaryText, index: number): string {
  return summaryFor(content, index).text;
}

/** The summary that will stand for the call at `index` of a batch. */
export function summaryFor(content: BatchSummaryText, index: number): CallSummary {
  if (content.kind === "split") return { text: content.texts[index] ?? "" };
  return index === content.carrier ? { text: content.whole } : { text: "", carriedBy: REF_FOR_SIZE };
}

export function sizeWith(member: BatchMember, summary: CallSummary): number {
  return callStub({ shortId: REF_FOR_SIZE, record: recordOf(member) }, summary).length;
}

function recordOf({ call, outcome, contentHash: hash }: BatchMember): ToolCallRecord {
  const { toolCallId, toolName, args, resultText, resultImages, isError, resultTimestamp } = call;
  const base = { toolCallId, toolName, args, resultText, isError, resultTimestamp, outcome, contentHash: hash };
  return { ...base, turnIndex: 0, timestamp: 0, resultImages };
}
