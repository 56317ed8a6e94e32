/**
 * What has been condensed: records by occurrence, refs, repeats, and the frontier of the current branch.
 *
 * Everything is folded from session entries, live ones and reloaded ones alike, so that a restart cannot come to
 * another state. Records and refs are kept for the whole file, since a ref that the model has once read must answer on
 * every branch; what is rendered is kept for the current branch alone.
 */
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { occurrenceKey } from "./messages.js";
import { type OwnEntry, readOwnEntry } from "./session/entries.js";
import { BranchLedger, type CommittedState, type DuplicateCall, type IndexedCall } from "./session/ledger.js";
import {
  type CapturedToolCall,
  type ChainCompressionEntry,
  CUSTOM_TYPE_CHAIN,
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_SUMMARY,
  type DedupAliasEntryData,
  type FrontierEntryData,
  type IndexEntryData,
  type SummaryEntryData,
  type SummaryToolCallRef,
  type SummaryUsage,
  type ToolCallRecord,
} from "./types.js";

/** Appends a custom entry to the session. */
export type AppendEntry = (customType: string, data: unknown) => void;

/** A call of a batch that is about to be indexed. */
export interface BatchMember {
  call: CapturedToolCall;
  outcome: string;
  contentHash: string;
  /** The text stays in the session's own message alone: a recovered output would be stored a second time. */
  leaveText?: true;
  /** Where the text has been written, so that the record need not hold it. */
  spill?: Required<Pick<ToolCallRecord, "spillPath" | "spillBytes" | "spillLines" | "resultPreview">>;
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

/** Index of the tool calls that have been dealt with. */
export class ToolCallIndexer {
  private calls = new Map<string, IndexedCall>();
  private duplicates = new Map<string, DuplicateCall>();
  private keysByRef = new Map<string, string[]>();
  private refsByKey = new Map<string, string>();
  private chainsOfFile = new Map<string, ChainCompressionEntry>();
  private highestRef = 0;
  private highestBlock = 0;
  private invalidTypes = new Set<string>();
  private ledger = this.newLedger();
  private epochNumber = 0;

  /**
   * Starts over from a session's entries.
   * @param all every entry of the file, in its order
   * @param branch the entries of the current branch, root first
   */
  reconstructFromSession(all: readonly SessionEntry[], branch: readonly SessionEntry[]): void {
    this.calls = new Map();
    this.duplicates = new Map();
    this.keysByRef = new Map();
    this.refsByKey = new Map();
    this.chainsOfFile = new Map();
    this.highestRef = 0;
    this.highestBlock = 0;
    this.invalidTypes = new Set();
    const known = ownEntriesOf(all);
    this.learnAll([...known.values()]);
    this.foldBranch(branch, (entry) => known.get(entry) ?? readOwnEntry(entry));
  }

  /** The leaf has moved to another path: folds `branch` anew, keeping what the file holds. */
  resetBranch(branch: readonly SessionEntry[]): void {
    const known = ownEntriesOf(branch);
    // The path may hold entries that nobody has seen yet: those of a flush that broke off before the move.
    this.learnAll([...known.values()]);
    this.foldBranch(branch, (entry) => known.get(entry));
  }

  private foldBranch(branch: readonly SessionEntry[], read: (entry: SessionEntry) => OwnEntry | undefined): void {
    this.ledger = this.newLedger();
    this.epochNumber += 1;
    for (const entry of branch) {
      if (entry.type !== "custom" && entry.type !== "custom_message") continue;
      const own = read(entry);
      if (own) this.ledger.fold(own);
    }
  }

  /** Takes in an entry that has just been appended to the current branch. */
  fold(entry: SessionEntry): void {
    const own = readOwnEntry(entry);
    if (!own) return;
    this.learnRefs(own);
    this.learn(own);
    if (this.ledger.fold(own)) this.epochNumber += 1;
  }

  /** Appends the summary and index entries of one batch and gives its refs. The caller folds the entries back in. */
  addBatch(batch: IndexableBatch, append: AppendEntry): string[] {
    const refs = batch.members.map(({ call }) => this.refFor(call.occurrenceKey));
    if (batch.summary) append(CUSTOM_TYPE_SUMMARY, summaryEntry(batch.members, batch.summary, refs));
    append(CUSTOM_TYPE_INDEX, indexEntry(batch, refs));
    return refs;
  }

  /** Appends the alias entry of a result that repeats `original`, and gives its ref. The caller folds it back in. */
  registerDuplicate(
    repeat: { call: CapturedToolCall; contentHash: string; eager?: true },
    original: Pick<ToolCallRecord, "toolCallId" | "resultTimestamp">,
    append: AppendEntry,
  ): string {
    const shortId = this.refFor(repeat.call.occurrenceKey);
    const data: DedupAliasEntryData = {
      newToolCallId: repeat.call.toolCallId,
      newResultTimestamp: repeat.call.resultTimestamp,
      originalToolCallId: original.toolCallId,
      originalResultTimestamp: original.resultTimestamp,
      contentHash: repeat.contentHash,
      shortId,
      ...(repeat.eager ? { eager: true } : {}),
    };
    append(CUSTOM_TYPE_DEDUP_ALIAS, data);
    return shortId;
  }

  /** A block id that no chain of this file has ever had. */
  mintBlockId(): string {
    this.highestBlock += 1;
    return `b${this.highestBlock}`;
  }

  /** Appends the entry of a compressed chain, or of one whose state changes. The caller folds it back in. */
  registerChain(chain: ChainCompressionEntry, append: AppendEntry): void {
    append(CUSTOM_TYPE_CHAIN, chain);
  }

  /** The chains of the current branch by block id, decompressed ones too. */
  chains(): ReadonlyMap<string, ChainCompressionEntry> {
    return this.ledger.chains;
  }

  /** Every chain of the file, also of other branches: a block id that the model has once read must answer. */
  chainsEverywhere(): readonly ChainCompressionEntry[] {
    return [...this.chainsOfFile.values()];
  }

  /** The occurrence is indexed, or an alias of an indexed one, on the current branch. */
  isSummarized(key: string): boolean {
    return this.ledger.has(key);
  }

  /** A flush has looked at the occurrence beyond the frontier and skipped it for good. */
  isSkipped(key: string): boolean {
    return this.ledger.skipped.has(key);
  }

  /** A frontier has said of the occurrence that it has had its time. */
  isAged(key: string): boolean {
    return this.ledger.purged.has(key) || this.ledger.pointers.has(key);
  }

  /** The occurrence, or what it repeats, was written to a blob before any flush. */
  isSpilled(key: string): boolean {
    const { calls, duplicates } = this.ledger;
    return calls.get(key)?.record.spillPath !== undefined || duplicates.get(key)?.eager === true;
  }

  /** The record that answers for an occurrence, wherever in the file it stands; a repeat gives its original's. */
  getRecord(key: string): ToolCallRecord | undefined {
    return (this.calls.get(key) ?? this.duplicates.get(key)?.original)?.record;
  }

  /** Occurrences that a ref (`t12`) or a raw tool call id names, in the order of the file. */
  resolve(name: string): string[] {
    return this.keysByRef.get(name)?.slice() ?? this.keysOfId(name);
  }

  /** The ref of an occurrence, as it stands on the current branch if it does. */
  refOf(key: string): string | undefined {
    const { calls, duplicates } = this.ledger;
    return calls.get(key)?.shortId ?? duplicates.get(key)?.shortId ?? this.refsByKey.get(key);
  }

  /** Every ref that answers. */
  refs(): string[] {
    return [...this.keysByRef.keys()];
  }

  /** The indexed call of the current branch whose whole content has this hash. */
  findByHash(contentHash: string): IndexedCall | undefined {
    return this.ledger.findByHash(contentHash);
  }

  /** Key of the last result that a flush has dealt with on this branch. */
  frontierKey(): string | undefined {
    const { frontier } = this.ledger;
    if (!frontier || frontier.lastAttemptedToolCallId === null) return undefined;
    return occurrenceKey(frontier.lastAttemptedToolCallId, frontier.lastAttemptedResultTimestamp);
  }

  /** The last frontier of the current branch. */
  frontier(): FrontierEntryData | undefined {
    return this.ledger.frontier;
  }

  /** Entries of a flush whose frontier was never written stand at the end of the branch. */
  hasUncommitted(): boolean {
    return this.ledger.hasUncommitted();
  }

  /** Changes whenever what `committed` gives has changed. */
  get epoch(): number {
    return this.epochNumber;
  }

  /** What the render plan is made from. */
  committed(): CommittedState {
    return this.ledger;
  }

  /** Types of own entries that were left out since they had another shape; asking clears the list. */
  takeInvalid(): string[] {
    const types = [...this.invalidTypes];
    this.invalidTypes.clear();
    return types;
  }

  private newLedger(): BranchLedger {
    return new BranchLedger({
      originalOf: (key) => this.calls.get(key) ?? this.duplicates.get(key)?.original,
      refOf: (key) => this.refsByKey.get(key),
    });
  }

  /** A result that another branch has dealt with keeps the ref that it has there. */
  private refFor(key: string): string {
    const known = this.refOf(key);
    if (known !== undefined) return known;
    this.highestRef += 1;
    return `t${this.highestRef}`;
  }

  /** Refs come first: a record without one must not take a number that is given further down in the file. */
  private learnAll(entries: readonly OwnEntry[]): void {
    for (const entry of entries) this.learnRefs(entry);
    for (const entry of entries) this.learn(entry);
  }

  private learnRefs(own: OwnEntry): void {
    for (const ref of refsOf(own)) this.nameKey(ref.shortId, occurrenceKey(ref.toolCallId, ref.resultTimestamp));
  }

  /** Two processes on one file may have given one ref twice; it then names both. */
  private nameKey(ref: string, key: string): void {
    const keys = this.keysByRef.get(ref);
    if (!keys) this.keysByRef.set(ref, [key]);
    else if (!keys.includes(key)) keys.push(key);
    if (!this.refsByKey.has(key)) this.refsByKey.set(key, ref);
    this.highestRef = Math.max(this.highestRef, Number(ref.slice(1)));
  }

  private learn(own: OwnEntry): void {
    if (own.kind === "invalid") this.invalidTypes.add(own.customType);
    if (own.kind === "alias") this.learnAlias(own.data);
    if (own.kind === "chain") this.learnChain(own.data);
    if (own.kind !== "index") return;
    if (own.rejected > 0) this.invalidTypes.add(CUSTOM_TYPE_INDEX);
    for (const record of own.data.toolCalls) {
      const key = occurrenceKey(record.toolCallId, record.resultTimestamp);
      if (this.calls.has(key)) continue;
      this.calls.set(key, { occurrenceKey: key, shortId: this.refsByKey.get(key) ?? this.fillGap(key), record });
    }
  }

  /** Two processes on one file may have given one block id twice; it then names both chains. */
  private learnChain(chain: ChainCompressionEntry): void {
    this.highestBlock = Math.max(this.highestBlock, Number(chain.blockId.slice(1)));
    this.chainsOfFile.set(`${chain.blockId}@${chain.finalAssistantTimestamp}`, chain);
  }

  private learnAlias(data: DedupAliasEntryData): void {
    const key = occurrenceKey(data.newToolCallId, data.newResultTimestamp);
    const originalKey = occurrenceKey(data.originalToolCallId, data.originalResultTimestamp);
    const original = this.calls.get(originalKey) ?? this.duplicates.get(originalKey)?.original;
    if (!original || this.duplicates.has(key)) return;
    this.duplicates.set(key, {
      occurrenceKey: key,
      toolCallId: data.newToolCallId,
      shortId: data.shortId,
      original,
      eager: data.eager === true,
    });
  }

  /** Asked for so seldom that no index is kept. */
  private keysOfId(toolCallId: string): string[] {
    const calls = [...this.calls.values()].filter(({ record }) => record.toolCallId === toolCallId);
    const repeats = [...this.duplicates.values()].filter((repeat) => repeat.toolCallId === toolCallId);
    return [...calls, ...repeats].map(({ occurrenceKey: key }) => key);
  }

  /**
   * Earlier releases gave spilled records no ref. They take the lowest free numbers in the order of the file, which are
   * the same at every load since new refs are always given above the highest.
   */
  private fillGap(key: string): string {
    let number = 1;
    while (this.keysByRef.has(`t${number}`)) number += 1;
    this.nameKey(`t${number}`, key);
    return `t${number}`;
  }
}

function ownEntriesOf(entries: readonly SessionEntry[]): Map<SessionEntry, OwnEntry> {
  const own = new Map<SessionEntry, OwnEntry>();
  for (const entry of entries) {
    const read = readOwnEntry(entry);
    if (read) own.set(entry, read);
  }
  return own;
}

function refsOf(own: OwnEntry): SummaryToolCallRef[] {
  switch (own.kind) {
    case "index":
      return own.data.refs;
    case "legacy-summary":
      return own.refs;
    case "alias": {
      const { shortId, newToolCallId, newResultTimestamp } = own.data;
      return shortId === undefined ? [] : [{ shortId, toolCallId: newToolCallId, resultTimestamp: newResultTimestamp }];
    }
    default:
      return [];
  }
}

function summaryEntry(
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
  return { text: content.whole, parts, occurrenceKeys, model, ...(usage ? { usage } : {}) };
}

function indexEntry(
  { members, turnIndex, timestamp, backfilled }: IndexableBatch,
  refs: readonly string[],
): IndexEntryData {
  return {
    toolCalls: members.map(({ call, outcome, contentHash, spill, leaveText }) => ({
      toolCallId: call.toolCallId,
      toolName: call.toolName,
      args: call.args,
      resultText: spill || leaveText ? "" : call.resultText,
      isError: call.isError,
      turnIndex,
      timestamp,
      resultTimestamp: call.resultTimestamp,
      ...(call.resultImages > 0 ? { resultImages: call.resultImages } : {}),
      ...(spill || leaveText ? { resultChars: call.resultText.length } : {}),
      ...spill,
      outcome,
      contentHash,
    })),
    refs: members.flatMap(({ call: { toolCallId, resultTimestamp } }, i) => {
      const shortId = refs[i];
      return shortId === undefined ? [] : [{ shortId, toolCallId, resultTimestamp }];
    }),
    ...(backfilled ? { backfilled } : {}),
  };
}
