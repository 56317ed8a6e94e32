/**
 * What has been condensed: records by occurrence, refs, repeats, and the frontier of the current branch.
 *
 * Everything is folded from session entries, live ones and reloaded ones alike, so that a restart cannot come to
 * another state. Records and refs are kept for the whole file, since a ref that the model has once read must answer on
 * every branch; what is rendered is kept for the current branch alone.
 */
import { isDeepStrictEqual } from "node:util";
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { isReadable, type OwnEntry, readOwnEntries, readOwnEntry } from "./session/entries.js";
import { FileLedger } from "./session/file-ledger.js";
import type { IndexedCall } from "./session/index-calls.js";
import { type Awaiting, findHeld } from "./session/lean-records.js";
import { BranchLedger, type CommittedState } from "./session/ledger.js";
import { hashOfResult, resultsByKey } from "./session/originals.js";
import { occurrenceKey } from "./transcript/messages.js";
import { taggedText } from "./transcript/tags.js";
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
  type HeldRecord,
  type IndexEntryData,
  REFUSED_ENTRY,
  type ResultChoice,
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
  /** Results of the current branch by key, made when a batch is added. */
  private results: ReadonlyMap<string, ToolResultMessage> | undefined;

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
    this.results = undefined;
    this.file.learn(own);
    this.foldBranch(onBranch);
    return own;
  }

  /** The leaf has moved to another path: folds `branch` anew, keeping what the file holds. */
  resetBranch(branch: readonly SessionEntry[]): void {
    const own = readOwnEntries(branch);
    this.results = undefined;
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
    this.results ??= resultsByKey(this.entries.branch());
    const onBranch = this.results;
    return (member) => {
      const { call, contentHash } = member;
      const { message, call: made } = waiting.get(member)?.found ?? {};
      if (!message || message !== onBranch.get(call.occurrenceKey) || taggedText(call.resultText) !== "") return false;
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
    if (entry.type === "message") this.results = undefined;
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

/** A text that is split stands in its parts alone. */
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
  const text = content.kind === "split" ? "" : content.whole;
  return { text, parts, occurrenceKeys, model, ...(usage ? { usage } : {}) };
}

/** One entry for all summaries of a model that are split by call; a call without a part points to the first of its own entry. */
function joinSummaries(summaries: readonly SummaryEntryData[]): SummaryEntryData[] {
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

function awaiting({ call: { occurrenceKey: key }, contentHash }: BatchMember): Awaiting {
  return { occurrenceKey: key, contentHash, found: undefined };
}

function indexEntry(
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

/** @param isHeld the session's own message has what the record need not hold */
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
