/**
 * The pipeline of a flush: repeats, what is too small, summaries, what would not get shorter. Preparing may take as long
 * as a model takes; committing is one synchronous step that appends the entries.
 */
import { type Ageing, type AgeingInput, judgeAge } from "./ageing.js";
import { type ChainChoice, commitChains, type PreparedChains, prepareChains } from "./chain-flush.js";
import { contentHash } from "./dedup.js";
import type { AppendEntry, BatchMember, BatchSummaryText, ToolCallIndexer } from "./indexer.js";
import { contentChars } from "./messages.js";
import { taggedText } from "./protect-tags.js";
import { argumentSavings } from "./render/arguments.js";
import { callStub, duplicateStub, isWorthwhile } from "./render/stub.js";
import type { CallSummary } from "./session/ledger.js";
import { type BatchSummary, digestSummary } from "./summarizer.js";
import { describeOutcome } from "./summary/describe.js";
import {
  type CapturedBatch,
  type CapturedToolCall,
  type ChainRange,
  type ContextPruneConfig,
  CUSTOM_TYPE_FRONTIER,
  type FlushOutcome,
  type FlushReason,
  type FrontierEntryData,
  type ToolCallRecord,
} from "./types.js";

/** Longer than any ref that will be given, so that a size judged with it can only get smaller. */
const REF_FOR_SIZE = "t9999999";

/** Makes the summary of a batch, or gives `null` to leave it for the next flush. */
export type Summarize = (batch: CapturedBatch) => Promise<BatchSummary | null>;

/** A result that repeats one that is indexed, or is about to be. */
interface Repeat {
  call: CapturedToolCall;
  contentHash: string;
  original: Pick<ToolCallRecord, "toolCallId" | "resultTimestamp">;
  originalKey: string;
}

/** What became of one batch. */
type Verdict =
  | { kind: "deduped" }
  | { kind: "trivial" }
  | { kind: "oversized" }
  | { kind: "failed" }
  | { kind: "held" }
  | { kind: "summarized"; content: BatchSummaryText; summary: BatchSummary };

interface PreparedBatch {
  batch: CapturedBatch;
  /** The batch without its repeats. */
  members: BatchMember[];
  repeats: Repeat[];
  verdict: Verdict;
}

/** A flush whose summaries are made and whose entries are yet to be appended. */
export interface PreparedFlush {
  batches: PreparedBatch[];
  chains: PreparedChains;
  ageing: Ageing;
}

/** What a flush has done, in calls. */
export interface FlushReport {
  condensed: number;
  duplicates: number;
  trivial: number;
  oversized: number;
  failed: number;
  /** Chains that were compressed. */
  chains: number;
  /** The user has ended the flush; what was ready by then is kept. */
  cancelled?: true;
  /** Characters of the condensed results before and after. */
  rawChars: number;
  keptChars: number;
}

/** The batches of `pending` that a flush would have summarised, without repeats and what is too small. */
export function batchesToSummarize(
  pending: readonly CapturedBatch[],
  indexer: ToolCallIndexer,
  config: SizeConfig & Pick<ContextPruneConfig, "dedupByContentHash">,
): CapturedBatch[] {
  return separateRepeats(pending, config.dedupByContentHash ? indexer : undefined, config)
    .filter((item) => judgeSize(item, config) === undefined)
    .map(withoutRepeats);
}

/** Everything up to the summaries. `batches` are the pending ones, oldest first. */
export async function prepareFlush(
  batches: readonly CapturedBatch[],
  deps: {
    indexer: ToolCallIndexer;
    config: Pick<
      ContextPruneConfig,
      | "dedupByContentHash"
      | "minBatchChars"
      | "summarizerConcurrency"
      | "chainCompression"
      | "condenseArgs"
      | "purgeErrors"
      | "recoveryGraceTurns"
      | "protectTags"
    >;
    isRecovery: AgeingInput["isRecovery"];
    summarize: Summarize;
    chains: Pick<ChainChoice, "messages" | "isProtected" | "all" | "protectedTurns" | "fuse">;
  },
): Promise<PreparedFlush> {
  const { indexer, config } = deps;
  const prepared = separateRepeats(batches, config.dedupByContentHash ? indexer : undefined, config).map((item) => ({
    ...item,
    verdict: judgeSize(item, config),
  }));
  const work = prepared.filter((item) => item.verdict === undefined);
  const summaries = new Map<object, BatchSummary | null>();
  await eachLimited(work, config.summarizerConcurrency, async (item) => {
    summaries.set(item, await deps.summarize(withoutRepeats(item)));
  });
  const judged = prepared.map((item) => ({
    ...item,
    verdict: item.verdict ?? judge(item, summaries.get(item) ?? null, config),
  }));
  const ageing = judgeAge({
    messages: deps.chains.messages,
    config,
    isRecovery: deps.isRecovery,
    isSpilled: (key) => indexer.isSpilled(key),
    isAged: (key) => indexer.isAged(key),
  });
  return { batches: judged, chains: await chooseChains(judged, deps), ageing };
}

/** Chains are chosen as they will stand once the batches are committed. */
function chooseChains(
  batches: readonly PreparedBatch[],
  {
    indexer,
    config,
    chains,
    isRecovery,
  }: Pick<Parameters<typeof prepareFlush>[1], "indexer" | "config" | "chains" | "isRecovery">,
): Promise<PreparedChains> {
  const failed = new Set<string>();
  const fresh = new Map<string, string>();
  for (const { batch, members, verdict } of batches) {
    if (verdict.kind === "failed" || verdict.kind === "held")
      for (const call of batch.toolCalls) failed.add(call.occurrenceKey);
    if (verdict.kind !== "summarized") continue;
    for (const [i, { call }] of members.entries()) fresh.set(call.occurrenceKey, textFor(verdict.content, i));
  }
  const known = indexer.committed().summaries;
  return prepareChains({
    ...chains,
    indexer,
    isRecovery,
    config: config.chainCompression,
    isPending: (key) => failed.has(key),
    summaryOf: (key) => fresh.get(key) ?? known.get(key)?.text,
  });
}

/** A call's share of its batch's summary. */
function textFor(content: BatchSummaryText, index: number): string {
  return summaryFor(content, index).text;
}

/** The summary that will stand for the call at `index` of a batch. */
function summaryFor(content: BatchSummaryText, index: number): CallSummary {
  if (content.kind === "split") return { text: content.texts[index] ?? "" };
  return index === content.carrier ? { text: content.whole } : { text: "", carriedBy: REF_FOR_SIZE };
}

/**
 * Appends what was prepared: summary and index per batch, aliases, the frontier last. Batches that have left the
 * context meanwhile are passed over. Appends nothing where there is nothing to say.
 *
 * `isCurrent` tells whether an occurrence still stands in the context and has not been dealt with, `isCurrentRange`
 * whether a chain still stands there; `saveStats` appends
 * what the summariser has used, also where nothing came of it.
 */
export function commitFlush(
  prepared: PreparedFlush,
  deps: {
    indexer: ToolCallIndexer;
    append: AppendEntry;
    isCurrent(key: string): boolean;
    isCurrentRange(range: ChainRange): boolean;
    saveStats?: () => void;
    /** Why the flush was made, where its price decided. */
    decision?: FlushReason;
    /** ms since the epoch. */
    now: number;
  },
): FlushReport {
  const { indexer, append } = deps;
  const batches = prepared.batches.filter(({ batch }) => batch.toolCalls.every((c) => deps.isCurrent(c.occurrenceKey)));
  const report: FlushReport = emptyReport();
  const given = new Map<string, string>();
  for (const item of batches) {
    if (item.verdict.kind === "summarized") commitBatch(item, item.verdict, deps, report, given);
  }
  for (const { repeats, verdict } of batches) {
    if (verdict.kind === "held") continue;
    for (const repeat of repeats) {
      // Of an original that only another branch has, a fork would know nothing.
      if (!indexer.isSummarized(repeat.originalKey) && !given.has(repeat.originalKey)) continue;
      given.set(repeat.call.occurrenceKey, indexer.registerDuplicate(repeat, repeat.original, append));
      report.duplicates += 1;
    }
  }
  const settled = batches.map((item) => (isUnpointed(item, given) ? { ...item, verdict: UNPOINTED } : item));
  report.chains = commitChains(prepared.chains, {
    indexer,
    append,
    given,
    isCurrent: deps.isCurrentRange,
    now: deps.now,
  });
  tally(batches, report);
  deps.saveStats?.();
  const frontier = frontierAfter(settled, report, indexer, prepared.ageing);
  const decision = deps.decision && { decision: deps.decision };
  if (frontier) append(CUSTOM_TYPE_FRONTIER, { ...frontier, ...decision });
  return report;
}

/** A batch of repeats alone whose originals have failed: it waits for them. */
const UNPOINTED: Verdict = { kind: "failed" };

function isUnpointed({ members, repeats, verdict }: PreparedBatch, given: ReadonlyMap<string, string>): boolean {
  return verdict.kind === "deduped" && members.length === 0 && !repeats.some((r) => given.has(r.call.occurrenceKey));
}

/** A report of a flush that found nothing. */
export function emptyReport(): FlushReport {
  return { condensed: 0, duplicates: 0, trivial: 0, oversized: 0, failed: 0, chains: 0, rawChars: 0, keptChars: 0 };
}

/**
 * Takes out of each batch the results that repeat an indexed one or an earlier one of this flush. What is too small to be
 * indexed is no original: its repeats would have nothing to point to.
 */
function separateRepeats(
  batches: readonly CapturedBatch[],
  indexer: ToolCallIndexer | undefined,
  config: SizeConfig,
): Omit<PreparedBatch, "verdict">[] {
  const originals = new Map<string, BatchMember>();
  return batches.map((batch) => {
    const fresh = new Map(originals);
    const members: BatchMember[] = [];
    const repeats: Repeat[] = [];
    for (const call of batch.toolCalls) {
      const member = { call, outcome: describeOutcome(call), contentHash: contentHash(call) };
      const original = indexer && findOriginal(member, indexer, fresh);
      if (original) repeats.push({ call, contentHash: member.contentHash, ...original });
      else members.push(member);
      if (!fresh.has(member.contentHash)) fresh.set(member.contentHash, member);
    }
    if (judgeSize({ batch, members, repeats }, config)?.kind !== "trivial") {
      for (const member of members) if (!originals.has(member.contentHash)) originals.set(member.contentHash, member);
    }
    return { batch, members, repeats };
  });
}

function withoutRepeats({ batch, members }: Pick<PreparedBatch, "batch" | "members">): CapturedBatch {
  return { ...batch, toolCalls: members.map((member) => member.call) };
}

function findOriginal(
  member: BatchMember,
  indexer: ToolCallIndexer,
  fresh: ReadonlyMap<string, BatchMember>,
): Pick<Repeat, "original" | "originalKey"> | undefined {
  const known = indexer.findByHash(member.contentHash);
  const earlier = fresh.get(member.contentHash);
  const original =
    known ??
    (earlier && { shortId: REF_FOR_SIZE, record: recordOf(earlier), occurrenceKey: earlier.call.occurrenceKey });
  if (!original) return undefined;
  const stub = duplicateStub({ shortId: REF_FOR_SIZE, original });
  if (!isWorthwhile(stub.length, contentChars(member.call.content))) return undefined;
  return { original: original.record, originalKey: original.occurrenceKey };
}

/** Settings that say which batches are worth the work. */
type SizeConfig = Pick<ContextPruneConfig, "minBatchChars" | "condenseArgs" | "purgeErrors" | "protectTags">;

/**
 * The verdict on a batch that needs no summariser: nothing new in it, still at work, too small. A batch that is large by
 * its arguments alone is indexed with its digest, so that those can be condensed.
 */
function judgeSize(item: Omit<PreparedBatch, "verdict">, config: SizeConfig): Verdict | undefined {
  if (item.batch.held) return { kind: "held" };
  if (item.members.length === 0) return { kind: "deduped" };
  const resultChars = item.members.reduce((sum, { call }) => sum + contentChars(call.content), 0);
  if (resultChars >= config.minBatchChars && resultChars > 0) return undefined;
  const savings = savedArguments(item, config);
  if (savings === 0 || resultChars + savings < config.minBatchChars) return { kind: "trivial" };
  const summary = digestSummary(withoutRepeats(item));
  const content: BatchSummaryText = { kind: "split", whole: summary.whole, texts: summary.texts ?? [] };
  return { kind: "summarized", content, summary };
}

/** Characters that condensing takes off the arguments of the batch's calls, be it later. */
function savedArguments({ members }: Pick<PreparedBatch, "members">, config: SizeConfig): number {
  const { condenseArgs, purgeErrors } = config;
  return members.reduce((sum, { call }) => {
    const enabled = call.isError ? purgeErrors.enabled : condenseArgs.enabled;
    const minChars = call.isError ? purgeErrors.minArgChars : condenseArgs.minStringChars;
    return enabled ? sum + argumentSavings(call.args, minChars) : sum;
  }, 0);
}

/** A summary counts only where at least one result, or the arguments of a call, get shorter by it. */
function judge(item: Omit<PreparedBatch, "verdict">, summary: BatchSummary | null, config: SizeConfig): Verdict {
  if (!summary) return { kind: "failed" };
  const { whole } = summary;
  const fits = (member: BatchMember, text: string) =>
    isWorthwhile(sizeWith(member, { text }), contentChars(member.call.content));
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

/** What the tool marked as not to be condensed stands below the summary, word for word. */
function withTagged(text: string, member: BatchMember | undefined, { protectTags }: SizeConfig): string {
  const tagged = protectTags && member ? taggedText(member.call.resultText) : "";
  return tagged ? [text, tagged].filter(Boolean).join("\n") : text;
}

function commitBatch(
  { batch, members }: PreparedBatch,
  { content, summary }: Extract<Verdict, { kind: "summarized" }>,
  { indexer, append }: { indexer: ToolCallIndexer; append: AppendEntry },
  report: FlushReport,
  given: Map<string, string>,
): void {
  const { model, usage } = summary;
  const { turnIndex, timestamp } = batch;
  const refs = indexer.addBatch({ turnIndex, timestamp, members, summary: { content, model, usage } }, append);
  for (const [i, member] of members.entries()) {
    given.set(member.call.occurrenceKey, refs[i] ?? "");
    const raw = contentChars(member.call.content);
    const stub = sizeWith(member, summaryFor(content, i));
    if (!isWorthwhile(stub, raw)) continue;
    report.condensed += 1;
    report.rawChars += raw;
    report.keptChars += stub;
  }
}

function sizeWith(member: BatchMember, summary: CallSummary): number {
  return callStub({ shortId: REF_FOR_SIZE, record: recordOf(member) }, summary).length;
}

function recordOf({ call, outcome, contentHash: hash }: BatchMember): ToolCallRecord {
  const { toolCallId, toolName, args, resultText, resultImages, isError, resultTimestamp } = call;
  const base = { toolCallId, toolName, args, resultText, isError, resultTimestamp, outcome, contentHash: hash };
  return { ...base, turnIndex: 0, timestamp: 0, resultImages };
}

function tally(batches: readonly PreparedBatch[], report: FlushReport): void {
  for (const { verdict, members } of batches) {
    if (verdict.kind === "trivial" || verdict.kind === "oversized" || verdict.kind === "failed") {
      report[verdict.kind] += members.length;
    }
  }
}

/**
 * The frontier stops before the first batch that failed. Batches behind it that were skipped are named, so that they
 * are not looked at, and paid for, again.
 */
function frontierAfter(
  batches: readonly PreparedBatch[],
  report: FlushReport,
  indexer: ToolCallIndexer,
  ageing: Ageing,
): FrontierEntryData | undefined {
  const firstFailure = batches.findIndex(({ verdict }) => verdict.kind === "failed" || verdict.kind === "held");
  const done = firstFailure < 0 ? batches : batches.slice(0, firstFailure);
  const beyond = firstFailure < 0 ? [] : batches.slice(firstFailure);
  const skipped = beyond.filter(({ verdict }) => verdict.kind === "trivial" || verdict.kind === "oversized");
  const attempted = batches.filter(({ verdict }) => verdict.kind !== "failed" && verdict.kind !== "held");
  if (attempted.length === 0 && report.chains === 0 && !indexer.hasUncommitted()) return undefined;

  const last = done.at(-1)?.batch.toolCalls.at(-1);
  const previous = indexer.frontier();
  const skippedOccurrenceKeys = skipped.flatMap(({ members }) => members.map(({ call }) => call.occurrenceKey));
  return {
    lastAttemptedToolCallId: last?.toolCallId ?? previous?.lastAttemptedToolCallId ?? null,
    lastAttemptedResultTimestamp: last ? last.resultTimestamp : previous?.lastAttemptedResultTimestamp,
    ...(skippedOccurrenceKeys.length > 0 ? { skippedOccurrenceKeys } : {}),
    ...(ageing.purgedOccurrenceKeys.length > 0 ? { purgedOccurrenceKeys: ageing.purgedOccurrenceKeys } : {}),
    ...(ageing.pointers.length > 0 ? { pointers: ageing.pointers } : {}),
    attemptedBatchCount: attempted.length,
    attemptedToolCallCount: attempted.reduce((sum, { batch }) => sum + batch.toolCalls.length, 0),
    rawCharCount: report.rawChars,
    summaryCharCount: report.keptChars,
    outcome: outcomeOf(report),
  };
}

function outcomeOf(report: FlushReport): FlushOutcome {
  if (report.condensed + report.chains > 0) return "summarized";
  if (report.oversized > 0) return "skipped-oversized";
  return report.duplicates > 0 ? "skipped-deduped" : "skipped-trivial";
}

/** Runs `task` over `items`, at most `limit` at once. */
async function eachLimited<T>(items: readonly T[], limit: number, task: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const worker = async () => {
    for (const item of queue) await task(item);
  };
  await Promise.all(Array.from({ length: Math.max(1, Math.min(limit, items.length)) }, worker));
}
