/**
 * The pipeline of a flush: repeats, what is too small, summaries, what would not get shorter. Preparing may take as long
 * as a model takes; committing is one synchronous step that appends the entries.
 */

import { type ChainChoice, commitChains, type PreparedChains, prepareChains } from "./flush/chains.js";
import { type Ageing, type AgeingInput, judgeAge } from "./flush/expiry.js";
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
  withoutRepeats,
} from "./flush/verdicts.js";
import type { AppendEntry, ToolCallIndexer } from "./indexer.js";
import { isWorthwhile } from "./render/stub.js";
import type { BatchSummary } from "./summarizer.js";
import { contentChars } from "./transcript/messages.js";
import {
  type CapturedBatch,
  type ChainRange,
  type ContextPruneConfig,
  CUSTOM_TYPE_FRONTIER,
  type FlushOutcome,
  type FlushReason,
  type FrontierEntryData,
} from "./types.js";

/** Makes the summary of a batch, or gives `null` to leave it for the next flush. */
export type Summarize = (batch: CapturedBatch) => Promise<BatchSummary | null>;

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
      | "summarizerConcurrency"
      | "chainCompression"
      | "condenseArgs"
      | "purgeErrors"
      | "recoveryGraceTurns"
      | "protectTags"
    >;
    isRecovery: AgeingInput["isRecovery"];
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
    hasBlobs: indexer.hasBlobs,
    isSpilled: (key) => indexer.isSpilled(key),
    isAged: (key) => indexer.isAged(key),
    isHere: (name) => {
      const keys = indexer.resolve(name);
      return keys.length > 0 ? keys.every((key) => indexer.isSummarized(key)) : indexer.chains().has(name);
    },
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
