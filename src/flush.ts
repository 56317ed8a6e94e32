/**
 * The pipeline of a flush: repeats, what is too small, summaries, what would not get shorter. Preparing may take as long
 * as a model takes; committing is one synchronous step that appends the entries.
 */

import { captureOccurrences } from "./batch-capture.ts";
import type { Protection } from "./capture/protection.ts";
import { SupersededScan } from "./capture/superseded.ts";
import { changesSince, describeChanges } from "./digest/outdated.ts";
import { type ChainChoice, commitChains, type PreparedChains, prepareChains } from "./flush/chains.ts";
import { type Ageing, type AgeingInput, judgeAge } from "./flush/expiry.ts";
import {
  judge,
  judgeSize,
  type PreparedBatch,
  type SizeConfig,
  separateRepeats,
  sizeWith,
  summaryFor,
  textFor,
  type Verdict,
  withChanges,
  withoutMembers,
  withoutRepeats,
} from "./flush/verdicts.ts";
import type { AppendEntry, ToolCallIndexer } from "./indexer.ts";
import { isWorthSummarizing } from "./render/stub.ts";
import type { BatchSummary } from "./summarizer.ts";
import { contentChars, isAssistant, resultOf } from "./transcript/messages.ts";
import {
  type CapturedBatch,
  type ChainRange,
  type ContextPruneConfig,
  CUSTOM_TYPE_FRONTIER,
  type FlushOutcome,
  type FrontierEntryData,
} from "./types.ts";

/** Makes the summary of a batch in its turn, or gives `null` to leave it for the next flush. All are asked for at once. */
export type Summarize = (batch: CapturedBatch) => Promise<BatchSummary | null>;

/** A flush whose summaries are made and whose entries are yet to be appended. */
export interface PreparedFlush {
  batches: PreparedBatch[];
  chains: PreparedChains;
  ageing: Ageing;
  /** Calls that have changed the file of an output since, by the output's key, as `changesSince` gives them. */
  changes: ReadonlyMap<string, readonly string[]>;
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

/** What of a report changes a request. */
export type CondensedCounts = Pick<FlushReport, "condensed" | "duplicates" | "chains">;

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
      | "chainCompression"
      | "condenseArgs"
      | "purgeErrors"
      | "recoveryGraceTurns"
      | "protectTags"
    >;
    isRecovery: AgeingInput["isRecovery"];
    /** What has read this conversation before. */
    superseded?: SupersededScan;
    summarize: Summarize;
    chains: Pick<ChainChoice, "messages" | "isProtected" | "detected" | "inUse" | "all" | "protectedTurns" | "fuse">;
  },
): Promise<PreparedFlush> {
  const { indexer, config } = deps;
  const prepared = separateRepeats(batches, config.dedupByContentHash ? indexer : undefined, config).map((item) => ({
    ...item,
    verdict: judgeSize(item, config),
  }));
  const work = prepared.filter((item) => item.verdict === undefined);
  const made = await Promise.all(work.map((item) => deps.summarize(withoutRepeats(item))));
  const summaries = new Map<object, BatchSummary | null>(work.map((item, i) => [item, made[i] ?? null]));
  const judged = prepared.map((item) => ({
    ...item,
    verdict: item.verdict ?? judge(item, summaries.get(item) ?? null, config),
  }));
  const ageing = judgeAge({
    messages: deps.chains.messages,
    config,
    isRecovery: deps.isRecovery,
    hasBlobs: indexer.hasBlobs,
    isSpilled: (key) => indexer.isSpilled(key),
    superseded: (deps.superseded ?? new SupersededScan()).keysIn(deps.chains.messages, deps.chains.isProtected),
    isAged: (key) => indexer.isAged(key),
    isHere: (name) => {
      const keys = indexer.resolve(name);
      return keys.length > 0 ? keys.every((key) => indexer.isSummarized(key)) : indexer.chains().has(name);
    },
  });
  const changes = changesSince(sinceFirst(batches, deps.chains.messages));
  return { batches: judged, chains: await chooseChains(judged, deps), ageing, changes };
}

/** The conversation from the turn of the first call on: what came before changes nothing that the batches show. */
function sinceFirst(batches: readonly CapturedBatch[], messages: ChainChoice["messages"]): ChainChoice["messages"] {
  const first = batches[0]?.toolCalls[0];
  if (!first) return [];
  const result = messages.findIndex((message) => {
    const candidate = resultOf(message);
    return candidate?.timestamp === first.resultTimestamp && String(candidate?.toolCallId) === first.toolCallId;
  });
  return messages.slice(Math.max(0, messages.slice(0, Math.max(0, result)).findLastIndex(isAssistant)));
}

/** Chains are chosen as they will stand once the batches are committed. */
function chooseChains(
  batches: readonly PreparedBatch[],
  { indexer, config, chains }: Pick<Parameters<typeof prepareFlush>[1], "indexer" | "config" | "chains">,
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
    config: config.chainCompression,
    isPending: (key) => failed.has(key),
    summaryOf: (key) => fresh.get(key) ?? known.get(key)?.text,
  });
}

/**
 * Appends what was prepared: summaries and index, aliases, chains, the frontier last. Batches that have left the
 * context meanwhile are passed over. Appends nothing where there is nothing to say.
 *
 * `isCurrent` tells whether an occurrence still stands in the context and has not been dealt with, `isCurrentRange`
 * whether a chain still stands there; `saveStats` appends
 * what the summariser has used, also where nothing came of it. What would not be read back is not appended: it is left
 * alone for good, and a diagnostic says so.
 */
export function commitFlush(
  prepared: PreparedFlush,
  deps: {
    indexer: ToolCallIndexer;
    append: AppendEntry;
    isCurrent(key: string): boolean;
    isCurrentRange(range: ChainRange): boolean;
    /** What is protected by now: the user may have said so while the summaries were made. */
    isProtected?: Protection;
    saveStats?: () => void;
    /** ms since the epoch. */
    now: number;
  },
): FlushReport {
  const { indexer, append } = deps;
  const spared = protectedByNow(prepared, deps.isProtected);
  const batches = prepared.batches
    .filter(({ batch }) => batch.toolCalls.every((call) => deps.isCurrent(call.occurrenceKey)))
    .map((item) => withoutMembers(item, spared));
  const report: FlushReport = emptyReport();
  const given = new Map<string, string>();
  commitSummarized(batches, prepared.changes, deps, report, given);
  for (const { repeats, verdict } of batches) {
    if (verdict.kind === "held") continue;
    for (const repeat of repeats) {
      // Of an original that only another branch has, a fork would know nothing.
      if (!indexer.isSummarized(repeat.originalKey) && !given.has(repeat.originalKey)) continue;
      const ref = indexer.registerDuplicate(repeat, repeat.original, append);
      if (ref === undefined) continue;
      given.set(repeat.call.occurrenceKey, ref);
      report.duplicates += 1;
    }
  }
  const settled = batches.map((item) => (isUnpointed(item, given) ? { ...item, verdict: UNPOINTED } : item));
  report.chains = commitChains(prepared.chains, {
    indexer,
    append,
    given,
    isCurrent: (range) => deps.isCurrentRange(range) && !losesProtected(range, spared, indexer),
    now: deps.now,
  });
  tally(batches, report);
  deps.saveStats?.();
  const frontier = frontierAfter(settled, report, indexer, prepared.ageing);
  const attempted = batches.flatMap(({ batch }) => batch.toolCalls.map((call) => call.occurrenceKey));
  if (frontier) indexer.write(CUSTOM_TYPE_FRONTIER, frontier, attempted, append);
  return report;
}

/** Results of the flush that are protected by now. */
function protectedByNow({ batches, chains }: PreparedFlush, isProtected: Protection | undefined): Set<string> {
  if (!isProtected) return new Set();
  const inChains = new Set(chains.ranges.flatMap((range) => range.occurrenceKeys));
  const chained = inChains.size === 0 ? [] : captureOccurrences(chains.messages, inChains);
  const captured = [...batches.map(({ batch }) => batch), ...chained];
  const calls = captured.flatMap(({ toolCalls }) => toolCalls).filter(isProtected);
  return new Set(calls.map((call) => call.occurrenceKey));
}

/** Compressing the chain would take a result out of the context that was protected meanwhile; the next flush knows of it. */
function losesProtected(range: ChainRange, spared: ReadonlySet<string>, indexer: ToolCallIndexer): boolean {
  const kept = new Set(range.protectedOccurrenceKeys);
  return range.occurrenceKeys.some(
    // What the person keeps stands word for word in the chain's text.
    (key) => spared.has(key) && !kept.has(key) && !indexer.isSummarized(key) && indexer.choiceOf(key) !== "keep",
  );
}

/** A batch of repeats alone whose originals have failed: it waits for them. */
const UNPOINTED: Verdict = { kind: "failed" };

function isUnpointed({ members, repeats, verdict }: PreparedBatch, given: ReadonlyMap<string, string>): boolean {
  return verdict.kind === "deduped" && members.length === 0 && !repeats.some((r) => given.has(r.call.occurrenceKey));
}

/** The flush has changed what the next request carries. */
export function hasCondensed({ condensed, duplicates, chains }: CondensedCounts): boolean {
  return condensed + duplicates + chains > 0;
}

/** A report of a flush that found nothing. */
export function emptyReport(): FlushReport {
  return { condensed: 0, duplicates: 0, trivial: 0, oversized: 0, failed: 0, chains: 0, rawChars: 0, keptChars: 0 };
}

/** What two flushes have done, one after the other. */
export function addReports(first: FlushReport, second: FlushReport): FlushReport {
  return {
    condensed: first.condensed + second.condensed,
    duplicates: first.duplicates + second.duplicates,
    trivial: first.trivial + second.trivial,
    oversized: first.oversized + second.oversized,
    failed: first.failed + second.failed,
    chains: first.chains + second.chains,
    rawChars: first.rawChars + second.rawChars,
    keptChars: first.keptChars + second.keptChars,
    ...(first.cancelled || second.cancelled ? { cancelled: true } : {}),
  };
}

function commitSummarized(
  batches: readonly PreparedBatch[],
  changes: PreparedFlush["changes"],
  { indexer, append }: { indexer: ToolCallIndexer; append: AppendEntry },
  report: FlushReport,
  given: Map<string, string>,
): void {
  const work = batches.flatMap((item) => (item.verdict.kind === "summarized" ? [{ ...item, ...item.verdict }] : []));
  // The refs of all are given first, so that an outdated read can name an edit of the same flush.
  for (const { members } of work) for (const { call } of members) indexer.refFor(call.occurrenceKey);
  const refOf = (key: string) => indexer.givenRefOf(key);
  const summarized = work.map(({ batch: { turnIndex, timestamp }, members, content, summary: { model, usage } }) => {
    const told = withChanges(content, members, (key) => describeChanges(changes.get(key), refOf), refOf);
    return { turnIndex, timestamp, members, summary: { content: told, model, usage } };
  });
  for (const [b, refs] of indexer.addBatches(summarized, append).entries()) {
    const batch = summarized[b];
    for (const [i, member] of (batch?.members ?? []).entries()) {
      const ref = refs[i];
      if (!batch || ref === undefined) continue;
      given.set(member.call.occurrenceKey, ref);
      const raw = contentChars(member.call.content);
      const stub = sizeWith(member, summaryFor(batch.summary.content, i));
      if (!isWorthSummarizing(stub, raw)) continue;
      report.condensed += 1;
      report.rawChars += raw;
      report.keptChars += stub;
    }
  }
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
