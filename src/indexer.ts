/**
 * What has been condensed: records by occurrence, refs, repeats, and the frontier of the current branch.
 *
 * Everything is folded from session entries, live ones and reloaded ones alike, so that a restart cannot come to
 * another state. Records and refs are kept for the whole file, since a ref that the model has once read must answer on
 * every branch; what is rendered is kept for the current branch alone.
 */
import { isDeepStrictEqual } from "node:util";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import {
  type BatchMember,
  type IndexableBatch,
  indexEntry,
  joinSummaries,
  summaryEntry,
} from "./session/batch-entries.ts";
import { isReadable, type OwnEntry, readOwnEntries, readOwnEntry } from "./session/entries.ts";
import { FileLedger } from "./session/file-ledger.ts";
import type { IndexedCall } from "./session/index-calls.ts";
import { type Awaiting, findHeld } from "./session/lean-records.ts";
import { BranchLedger, type CommittedState } from "./session/ledger.ts";
import { hashOfResult } from "./session/originals.ts";
import { occurrenceKey } from "./transcript/messages.ts";
import { taggedText } from "./transcript/tags.ts";
import {
  type CapturedToolCall,
  type ChainCompressionEntry,
  type ChainRange,
  type ChoiceEntryData,
  CUSTOM_TYPE_CHAIN,
  CUSTOM_TYPE_CHOICE,
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_DIAGNOSTIC,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_SUMMARY,
  type DedupAliasEntryData,
  type FrontierEntryData,
  REFUSED_ENTRY,
  type ResultChoice,
  type ToolCallRecord,
} from "./types.ts";

export type { BatchMember, BatchSummaryText, IndexableBatch } from "./session/batch-entries.ts";

/** Appends a custom entry to the session. */
export type AppendEntry = (customType: string, data: unknown) => void;

/** Entries of the session, asked for when the text of a result is: every one of the file, and those of the current branch. */
export interface SessionEntries {
  all(): readonly SessionEntry[];
  branch(): readonly SessionEntry[];
}

/** Without a session to look them up in, records hold all that they say. */
const NO_ENTRIES: SessionEntries = { all: () => [], branch: () => [] };

/** Index of the tool calls that have been dealt with. */
export class ToolCallIndexer {
  private file: FileLedger;
  private ledger: BranchLedger;
  /** Highest numbers given away since the file was read, whether or not an entry has come of it. */
  private readonly given = { ref: 0, block: 0 };
  private readonly givenRefs = new Map<string, string>();
  private epochNumber = 0;

  constructor(private readonly entries: SessionEntries = NO_ENTRIES) {
    this.file = new FileLedger(entries.all);
    this.ledger = new BranchLedger(this.file);
  }

  /**
   * Starts over from a session's entries.
   * @param all every entry of the file, in its order
   * @param branch the entries of the current branch, root first
   * @returns the own entries of the file, for whatever else starts from them
   */
  reconstructFromSession(all: readonly SessionEntry[], branch: readonly SessionEntry[]): readonly OwnEntry[] {
    this.file = new FileLedger(this.entries.all);
    Object.assign(this.given, { ref: 0, block: 0 });
    this.givenRefs.clear();
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

  /**
   * Whether the branch has the very result and its call, so that the record need not carry them; a fork or an export has
   * them too. What a tool marked as not to be condensed is carried all the same: chains show it.
   */
  private heldMembers(batches: readonly IndexableBatch[]): (member: BatchMember) => boolean {
    const waiting = new Map(batches.flatMap(({ members }) => members.map((member) => [member, awaiting(member)])));
    // As a record is read back, so that one that would be read otherwise is whole.
    findHeld(this.entries.all(), waiting.values());
    const onBranch = new Set(
      this.entries.branch().map((entry) => (entry.type === "message" ? entry.message : undefined)),
    );
    return (member) => {
      const { call, contentHash } = member;
      const { message, call: made } = waiting.get(member)?.found ?? {};
      if (!message || !onBranch.has(message) || taggedText(call.resultText) !== "") return false;
      if (!isDeepStrictEqual(made?.arguments ?? {}, call.args)) return false;
      return message.content === call.content || hashOfResult(message) === contentHash;
    };
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

  /**
   * Appends the summaries and the index entry of these batches, and gives the refs of each, none where its entries would
   * not be read back. The caller folds the entries back in.
   */
  addBatches(batches: readonly IndexableBatch[], append: AppendEntry): string[][] {
    const isHeld = this.heldMembers(batches);
    const made = batches.map((batch) => {
      const keys = batch.members.map(({ call }) => call.occurrenceKey);
      const refs = keys.map((key) => this.refFor(key));
      const summary = batch.summary && summaryEntry(batch.members, batch.summary, refs);
      const index = indexEntry(batch, refs, isHeld);
      const readable = this.isWritable(
        [...typed(CUSTOM_TYPE_SUMMARY, summary), [CUSTOM_TYPE_INDEX, index]],
        keys,
        append,
      );
      return { readable, refs, summary, index };
    });
    const good = made.filter(({ readable }) => readable);
    for (const summary of joinSummaries(good.flatMap((one) => one.summary ?? []))) append(CUSTOM_TYPE_SUMMARY, summary);
    const [first] = good;
    if (first) {
      const toolCalls = good.flatMap(({ index }) => index.toolCalls);
      append(CUSTOM_TYPE_INDEX, { ...first.index, toolCalls, refs: good.flatMap(({ index }) => index.refs) });
    }
    return made.map(({ readable, refs }) => (readable ? refs : []));
  }

  /** Appends an entry where it would be read back. @param subjects the results or the chain that it is about */
  write(customType: string, data: unknown, subjects: readonly string[], append: AppendEntry): boolean {
    const writable = this.isWritable([[customType, data]], subjects, append);
    if (writable) append(customType, data);
    return writable;
  }

  /**
   * Whether each of these entries would be read back. Where one would not, a diagnostic says so, and what they are about is
   * left alone for good: work on it would be lost at every flush.
   */
  private isWritable(entries: readonly TypedData[], subjects: readonly string[], append: AppendEntry): boolean {
    const readable = entries.every(([customType, data]) => isReadable(customType, data));
    if (!readable) for (const detail of subjects) append(CUSTOM_TYPE_DIAGNOSTIC, { kind: REFUSED_ENTRY, detail });
    return readable;
  }

  /** No readable entry can be made of this result, or of the chain of this name. */
  isRefused(subject: string): boolean {
    return this.file.isRefused(subject);
  }

  /**
   * Appends the alias entry of a result that repeats `original`, and gives its ref, `undefined` where the entry would not
   * be read back. The caller folds it back in.
   */
  registerDuplicate(
    repeat: { call: CapturedToolCall; contentHash: string; eager?: true },
    original: Pick<ToolCallRecord, "toolCallId" | "resultTimestamp">,
    append: AppendEntry,
  ): string | undefined {
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
    return this.write(CUSTOM_TYPE_DEDUP_ALIAS, data, [repeat.call.occurrenceKey], append) ? shortId : undefined;
  }

  /** A block id that no chain of this file has ever had. */
  mintBlockId(): string {
    this.given.block = this.file.next(this.given).block;
    return `b${this.given.block}`;
  }

  /** Appends the entry of a compressed chain, or of one whose state changes; false where it would not be read back. */
  registerChain(chain: ChainCompressionEntry, append: AppendEntry): boolean {
    return this.write(CUSTOM_TYPE_CHAIN, chain, [chainName(chain)], append);
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

  /** What the person has said of the result on the current branch. */
  choiceOf(key: string): ResultChoice | undefined {
    return this.ledger.choices.get(key);
  }

  /** Appends what the person says of a result, which has or is given a ref. */
  choose(key: string, choice: ResultChoice | null, append: AppendEntry): boolean {
    const data: ChoiceEntryData = { occurrenceKey: key, shortId: this.refFor(key), choice };
    return this.write(CUSTOM_TYPE_CHOICE, data, [key], append);
  }

  /** Results that the person has dropped and that stand raw. */
  openDrops(): string[] {
    return [...this.ledger.choices].flatMap(([key, choice]) =>
      choice === "drop" && !this.ledger.has(key) && !this.file.isRefused(key) ? [key] : [],
    );
  }

  /** The occurrence is left alone for good: a flush beyond whose frontier it stands has skipped it, or no entry can be made. */
  isSkipped(key: string): boolean {
    return this.ledger.skipped.has(key) || this.file.isRefused(key);
  }

  /** A frontier has said of the occurrence that it has had its time. */
  isAged(key: string): boolean {
    return this.ledger.purged.has(key) || this.ledger.pointers.has(key);
  }

  /** The occurrence, or what it repeats, was written to a blob before any flush. */
  isSpilled(key: string): boolean {
    const { calls, duplicates } = this.ledger;
    return calls.get(key)?.isSpilled === true || duplicates.get(key)?.eager === true;
  }

  /** Some output of this file, whichever branch it stands on, was written to a blob. */
  get hasBlobs(): boolean {
    return this.file.hasBlobs;
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

  /** As `resolve`, also by a ref that was given and that no entry has yet. */
  keysNamed(name: string): string[] {
    const known = this.resolve(name);
    return known.length > 0 ? known : [...this.givenRefs].flatMap(([key, ref]) => (ref === name ? [key] : []));
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

  /** The ref that an occurrence has or will be indexed by; `undefined` where none has been given. */
  givenRefOf(key: string): string | undefined {
    return this.refOf(key) ?? this.givenRefs.get(key);
  }

  /**
   * The ref that an occurrence has, or else a new one that it will be indexed by, so that the text of another can name it.
   * A result that another branch has dealt with keeps the ref that it has there.
   */
  refFor(key: string): string {
    const known = this.givenRefOf(key);
    if (known !== undefined) return known;
    this.given.ref = this.file.next(this.given).ref;
    this.givenRefs.set(key, `t${this.given.ref}`);
    return `t${this.given.ref}`;
  }
}

/** What a chain is called before it has a block id. */
export function chainName(range: Pick<ChainRange, "startUserTimestamp" | "finalAssistantTimestamp">): string {
  return `chain ${range.startUserTimestamp}-${range.finalAssistantTimestamp}`;
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

/** Type and data of an entry. */
type TypedData = readonly [customType: string, data: unknown];

function typed(customType: string, data: unknown): TypedData[] {
  return data === undefined ? [] : [[customType, data]];
}

function awaiting({ call: { occurrenceKey: key }, contentHash }: BatchMember): Awaiting {
  return { occurrenceKey: key, contentHash, found: undefined };
}
