/** The part of a flush that compresses closed chains: what is chosen and fused first, what is appended in its commit. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { captureOccurrences, repeatedKeys } from "../batch-capture.ts";
import { contentHash } from "../capture/duplicates.ts";
import type { InUse } from "../capture/in-use.ts";
import { type Protection, protectedTurnsOf } from "../capture/protection.ts";
import { compressEligible, hasPerBatchSummaryCoveringAny, selectEligible } from "../chain-compressor.ts";
import { detectChains } from "../chain-detector.ts";
import { describeOutcome } from "../digest/describe.ts";
import { type AppendEntry, chainName, type ToolCallIndexer } from "../indexer.ts";
import { cleanSummary } from "../text/clean.ts";
import { isAssistant, isClosingReply, isForeignMessage, lastAnswerIndex, resultKeys } from "../transcript/messages.ts";
import type { ChainCompressionConfig, ChainRange, ContextPruneConfig } from "../types.ts";

/** Joins the summaries of a chain into one, or gives `null` to leave them as they are. */
export type FuseRangeSummary = (summaries: readonly string[]) => Promise<string | null>;

/** What choosing chains needs. */
export interface ChainChoice {
  /** The conversation that the flush looks at. */
  messages: readonly AgentMessage[];
  isProtected: Protection;
  /** The chains of `messages`, where they are known already. */
  detected?: readonly ChainRange[];
  config: ChainCompressionConfig;
  indexer: ToolCallIndexer;
  /** Results that stay pending after this flush. */
  isPending(key: string): boolean;
  /** Results that are still at work: their chains stay. */
  inUse?: InUse;
  /** Summary of a result, be it made in this flush. */
  summaryOf(key: string): string | undefined;
  /** Takes every chain behind the window, however few there are. */
  all?: boolean;
  /** User turns at the end whose chains are left alone. */
  protectedTurns?: number;
  /** Missing where there is no model to ask. */
  fuse?: FuseRangeSummary;
}

/** Chains that are about to be compressed. */
export interface PreparedChains {
  messages: readonly AgentMessage[];
  ranges: readonly ChainRange[];
  /** Fused summaries; two chains may end at the same time. */
  fused: ReadonlyMap<ChainRange, string>;
}

/** Chooses the chains to compress and has their summaries fused, one call each. */
export async function prepareChains(choice: ChainChoice): Promise<PreparedChains> {
  const { messages } = choice;
  const ranges = eligibleRanges(choice);
  return { messages, ranges, fused: await fuseRangeSummaries(ranges, choice) };
}

/** Every chain behind the window that could be compressed together with all that is pending, oldest first. */
export function compressibleRanges({
  config,
  ...choice
}: Pick<ChainChoice, "messages" | "isProtected" | "detected" | "indexer" | "inUse"> & {
  config: ContextPruneConfig;
}): ChainRange[] {
  const { chainCompression } = config;
  if (!chainCompression.enabled) return [];
  const protectedTurns = protectedTurnsOf(config);
  return eligibleRanges({ ...choice, config: chainCompression, protectedTurns, isPending: () => false, all: true });
}

/** The chains that a flush would compress now, oldest first. */
export function eligibleRanges(choice: Omit<ChainChoice, "summaryOf" | "fuse">): ChainRange[] {
  const { messages, config, indexer } = choice;
  const isOpen = openCycle(messages);
  // The last turns of the user may be protected; without so many, nothing is old enough.
  const users = messages.filter((message) => message.role === "user");
  const protectedTurns = choice.protectedTurns ?? 0;
  const protectedSince = protectedTurns > 0 ? (users.at(-protectedTurns)?.timestamp ?? 0) : Number.POSITIVE_INFINITY;
  const compressed = new Set([...indexer.chains().values()].map((chain) => chain.finalAssistantTimestamp));
  const isCompressed = (range: ChainRange) => compressed.has(range.finalAssistantTimestamp);
  const stillProtected = (range: ChainRange) =>
    isCompressed(range) ? range : withoutCondensed(range, (key) => indexer.isSummarized(key));
  const detected = choice.detected ?? detectChains(messages, choice.isProtected);
  const selected = selectEligible(detected.map(stillProtected), {
    config,
    all: choice.all,
    isCompressed,
    isDealtWith: (key) => !choice.isPending(key) && !choice.inUse?.has(key),
  }).filter((range) => !isOpen(range) && range.finalAssistantTimestamp < protectedSince && hasName(range, indexer));
  // A key that two results share could not be given back.
  const repeated = repeatedKeys(messages, new Set(selected.flatMap((range) => range.occurrenceKeys)));
  return selected.filter((range) => !range.occurrenceKeys.some((key) => repeated.has(key)));
}

/**
 * Appends the entries of the chosen chains. Calls without a ref are indexed first, so that each has one in the body; a
 * chain that has left the context meanwhile is passed over.
 * @returns how many chains were compressed
 */
export function commitChains(
  prepared: PreparedChains,
  deps: {
    indexer: ToolCallIndexer;
    append: AppendEntry;
    /** Refs that this flush has given already. */
    given: Map<string, string>;
    isCurrent(range: ChainRange): boolean;
    now: number;
  },
): number {
  const { indexer, append, given } = deps;
  const ranges = prepared.ranges.filter(deps.isCurrent);
  const isSummarized = (key: string) => given.has(key) || indexer.isSummarized(key);
  const covered = new Set(ranges.flatMap((range) => range.occurrenceKeys).filter(isSummarized));
  backfill(prepared.messages, ranges, { indexer, append, given, isSummarized });
  const entries = compressEligible(ranges, {
    mintBlockId: () => indexer.mintBlockId(),
    refOf: (key) => given.get(key) ?? indexer.refOf(key),
    rangeSummary: (range) => {
      const text = prepared.fused.get(range);
      return text === undefined ? undefined : { text, source: "fused" };
    },
    isSummarized: (key) => covered.has(key),
    now: deps.now,
  });
  return entries.filter((entry) => indexer.registerChain(entry, append)).length;
}

/** The range without the protection of what had been condensed before it was protected: its stub is nothing to keep. */
function withoutCondensed(range: ChainRange, isCondensed: (key: string) => boolean): ChainRange {
  const protectedOccurrenceKeys = range.protectedOccurrenceKeys.filter((key) => !isCondensed(key));
  if (protectedOccurrenceKeys.length === range.protectedOccurrenceKeys.length) return range;
  const isKept = (id: string) => protectedOccurrenceKeys.some((key) => key.startsWith(`${id}@`));
  return { ...range, protectedOccurrenceKeys, protectedToolCallIds: range.protectedToolCallIds.filter(isKept) };
}

/**
 * Whether a chain ends behind the message that opened the last run, the user's or another extension's: that is the model's open cycle, whose replies must keep their
 * thinking. Told by position, since a clock may have been set back. One that was interrupted before the model had
 * answered its last results is open too.
 */
function openCycle(messages: readonly AgentMessage[]): (range: ChainRange) => boolean {
  const opens = (message: AgentMessage, i: number) =>
    message.role === "user" || (isForeignMessage(message) && isIdleBefore(messages, i));
  const start = messages.findLastIndex(opens);
  const unseen = resultKeys(messages.slice(lastAnswerIndex(messages) + 1));
  const ends = new Set(
    messages
      .slice(start + 1)
      .filter(isAssistant)
      .map((message) => message.timestamp),
  );
  return (range) =>
    start < 0 || ends.has(range.finalAssistantTimestamp) || range.occurrenceKeys.some((key) => unseen.has(key));
}

/** Nothing ran when this message came: the context begins with it, or a reply had closed what ran. */
function isIdleBefore(messages: readonly AgentMessage[], index: number): boolean {
  const last = messages.slice(0, index).findLast((message) => !isForeignMessage(message));
  return last === undefined || isClosingReply(last);
}

/** The ends of the chain have times, and no entry of it has been refused. */
function hasName(range: ChainRange, indexer: Pick<ToolCallIndexer, "isRefused">): boolean {
  const { startUserTimestamp: start, finalAssistantTimestamp: end } = range;
  return Number.isFinite(start) && Number.isFinite(end) && !indexer.isRefused(chainName(range));
}

/** The fused text of each chain that has two or more summaries; a failed call leaves them side by side. */
async function fuseRangeSummaries(
  ranges: readonly ChainRange[],
  choice: ChainChoice,
): Promise<Map<ChainRange, string>> {
  const { config, fuse, summaryOf } = choice;
  const fused = new Map<ChainRange, string>();
  if (!fuse || !config.fuseRangeSummary) return fused;
  for (const range of ranges) {
    if (!hasPerBatchSummaryCoveringAny(range, (key) => summaryOf(key) !== undefined)) continue;
    const summaries = range.occurrenceKeys.map(summaryOf).filter((text): text is string => Boolean(text));
    const text = summaries.length < 2 ? null : await fuse(summaries);
    if (text !== null) fused.set(range, cleanSummary(text));
  }
  return fused;
}

/** Indexes the calls of `ranges` that have no record yet: what was too small, or not made shorter by a summary. */
function backfill(
  messages: readonly AgentMessage[],
  ranges: readonly ChainRange[],
  deps: {
    indexer: ToolCallIndexer;
    append: AppendEntry;
    given: Map<string, string>;
    isSummarized(key: string): boolean;
  },
): void {
  const keys = ranges.flatMap((range) => {
    const kept = new Set(range.protectedOccurrenceKeys);
    return range.occurrenceKeys.filter((key) => !kept.has(key) && !deps.isSummarized(key));
  });
  if (keys.length === 0) return;
  const batches = captureOccurrences(messages, new Set(keys)).map(({ toolCalls, turnIndex, timestamp }) => {
    const members = toolCalls.map((call) => ({ call, outcome: describeOutcome(call), contentHash: contentHash(call) }));
    return { turnIndex, timestamp, members, backfilled: true as const };
  });
  for (const [b, refs] of deps.indexer.addBatches(batches, deps.append).entries()) {
    for (const [i, ref] of refs.entries()) {
      const key = batches[b]?.members[i]?.call.occurrenceKey;
      if (key !== undefined) deps.given.set(key, ref);
    }
  }
}
