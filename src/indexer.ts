/**
 * What has been condensed: records by occurrence, refs, repeats, and the frontier of the current branch.
 *
 * Everything is folded from session entries, live ones and reloaded ones alike, so that a restart cannot come to
 * another state. Records and refs are kept for the whole file, since a ref that the model has once read must answer on
 * every branch; what is rendered is kept for the current branch alone.
 */
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { type OwnEntry, readOwnEntries, readOwnEntry } from "./session/entries.js";
import { FileLedger } from "./session/file-ledger.js";
import type { IndexedCall } from "./session/index-calls.js";
import { BranchLedger, type CommittedState } from "./session/ledger.js";
import { occurrenceKey } from "./transcript/messages.js";
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

/** Index of the tool calls that have been dealt with. */
export class ToolCallIndexer {
  private file = new FileLedger();
  private ledger = new BranchLedger(this.file);
  /** Highest numbers given away since the file was read, whether or not an entry has come of it. */
  private givenRef = 0;
  private readonly givenRefs = new Map<string, string>();
  private givenBlock = 0;
  private epochNumber = 0;

  /**
   * Starts over from a session's entries.
   * @param all every entry of the file, in its order
   * @param branch the entries of the current branch, root first
   * @returns the own entries of the file, for whatever else starts from them
   */
  reconstructFromSession(all: readonly SessionEntry[], branch: readonly SessionEntry[]): readonly OwnEntry[] {
    this.file = new FileLedger();
    this.givenRef = 0;
    this.givenRefs.clear();
    this.givenBlock = 0;
    const { own, onBranch } = readEntries(all, branch);
    this.file.learn(own);
    this.foldBranch(onBranch);
    return own;
  }

  /** The leaf has moved to another path: folds `branch` anew, keeping what the file holds. */
  resetBranch(branch: readonly SessionEntry[]): void {
    const own = readOwnEntries(branch);
    // The path may hold entries that nobody has seen yet: those of a flush that broke off before the move.
    this.file.learn(own);
    this.foldBranch(own);
  }

  private foldBranch(entries: readonly OwnEntry[]): void {
    this.ledger = new BranchLedger(this.file);
    this.epochNumber += 1;
    for (const own of entries) this.ledger.fold(own);
  }

  /** Takes in an entry that has just been appended to the current branch. */
  fold(entry: SessionEntry): void {
    const own = readOwnEntry(entry);
    if (!own) return;
    this.file.learn([own]);
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
    this.givenBlock = Math.max(this.givenBlock, this.file.highest.block) + 1;
    return `b${this.givenBlock}`;
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
    return this.file.chains();
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
    return this.file.originalOf(key)?.record;
  }

  /** Occurrences that a ref (`t12`) or a raw tool call id names, in the order of the file. */
  resolve(name: string): string[] {
    return this.file.resolve(name);
  }

  /** The ref of an occurrence, as it stands on the current branch if it does. */
  refOf(key: string): string | undefined {
    const { calls, duplicates } = this.ledger;
    return calls.get(key)?.shortId ?? duplicates.get(key)?.shortId ?? this.file.refOf(key);
  }

  /** Every ref that answers. */
  refs(): string[] {
    return this.file.refs();
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
    return this.file.takeInvalid();
  }

  /**
   * The ref that an occurrence has, or else a new one that it will be indexed by, so that the text of another can name it.
   * A result that another branch has dealt with keeps the ref that it has there.
   */
  refFor(key: string): string {
    const known = this.refOf(key) ?? this.givenRefs.get(key);
    if (known !== undefined) return known;
    this.givenRef = Math.max(this.givenRef, this.file.highest.ref) + 1;
    this.givenRefs.set(key, `t${this.givenRef}`);
    return `t${this.givenRef}`;
  }
}

/** The own entries of a file and, out of them, those of its branch, each read once. */
function readEntries(all: readonly SessionEntry[], branch: readonly SessionEntry[]) {
  const own: OwnEntry[] = [];
  const onBranch: OwnEntry[] = [];
  let followed = 0;
  for (const entry of all) {
    const isOnBranch = entry === branch[followed];
    if (isOnBranch) followed += 1;
    const read = readOwnEntry(entry);
    if (!read) continue;
    own.push(read);
    if (isOnBranch) onBranch.push(read);
  }
  // A parent stands before its children in every file that a host has written, but another may be put together otherwise.
  onBranch.push(...readOwnEntries(branch.slice(followed)));
  return { own, onBranch };
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
