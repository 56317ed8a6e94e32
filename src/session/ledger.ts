/**
 * What the own entries on one branch amount to, in their order. A flush appends several entries and its frontier last;
 * only what a frontier has confirmed takes effect, so that a flush that was cut short changes no render.
 */
import { occurrenceKey } from "../transcript/messages.ts";
import type {
  ChainCompressionEntry,
  ChoiceEntryData,
  DedupAliasEntryData,
  FrontierEntryData,
  RecoveryPointer,
  ResultChoice,
  SummaryEntryData,
  SummaryToolCallRef,
} from "../types.ts";
import { type CallSummary, summaryReader } from "./batch-summaries.ts";
import { BranchCalls } from "./branch-calls.ts";
import type { IndexEntry, OwnEntry } from "./entries.ts";
import { callsOf, type IndexedCall } from "./index-calls.ts";
import { isSpilled } from "./lean-records.ts";
import { splitLegacySummary } from "./legacy.ts";

/** A result that repeats an indexed one. */
export interface DuplicateCall {
  occurrenceKey: string;
  toolCallId: string;
  /** Ref of the repeat; `undefined` where an earlier release gave it none. */
  shortId: string | undefined;
  original: IndexedCall;
  /** Takes effect although the model has not answered the result. */
  eager: boolean;
}

/** A summary message of an earlier release, whose text now stands in the stubs of these calls. */
export interface LegacySummary {
  text: string;
  occurrenceKeys: string[];
}

/** A place of the conversation that is rendered otherwise than before, by the time of its message. */
export interface Change {
  kind: "result" | "chain";
  /** Of the result, or of the message that opens the chain; -Infinity where it has none. */
  timestamp: number;
}

/** Changes in their order. Sessions have thousands, so that they are kept as numbers. */
export class Journal {
  private readonly times: number[] = [];
  /** Places of the chains among them, ascending. */
  private readonly chains: number[] = [];

  get length(): number {
    return this.times.length;
  }

  add({ kind, timestamp }: Change): void {
    if (kind === "chain") this.chains.push(this.times.length);
    this.times.push(timestamp);
  }

  slice(from: number, to: number): Change[] {
    const chains = new Set(this.chains.slice(this.chains.findLastIndex((place) => place < from) + 1));
    return this.times.slice(from, to).map((timestamp, i) => {
      return { kind: chains.has(from + i) ? "chain" : "result", timestamp };
    });
  }
}

/** What the entries up to the last frontier say about a branch. */
export interface CommittedState {
  /** Ids of records from before occurrence keys. */
  bareIds: ReadonlySet<string>;
  /** Every change so far, in order; it only grows. */
  journal: Pick<Journal, "length" | "slice">;
  calls: Pick<ReadonlyMap<string, IndexedCall>, "get" | "has" | "size"> & {
    keys(): Iterable<string>;
    values(): Iterable<IndexedCall>;
  };
  duplicates: ReadonlyMap<string, DuplicateCall>;
  summaries: ReadonlyMap<string, CallSummary>;
  legacySummaries: readonly LegacySummary[];
  /** Compressed chains by block id, in the order of their blocks; also those that were decompressed by hand. */
  chains: ReadonlyMap<string, ChainCompressionEntry>;
  /** Failed calls whose arguments are condensed. */
  purged: ReadonlySet<string>;
  /** Pointers in the place of recovered outputs, by occurrence. */
  pointers: ReadonlyMap<string, RecoveryPointer>;
  /** What the person has said of single results, by occurrence. */
  choices: ReadonlyMap<string, ResultChoice>;
}

/** What the file knows beyond the branch. */
export interface CallLookup {
  /** The call that an occurrence key names, or the original of a repeat. */
  originalOf(key: string): IndexedCall | undefined;
  /** The ref of a record whose entry gives it none. */
  refOf(key: string): string | undefined;
}

/** The fold of one branch. */
export class BranchLedger implements CommittedState {
  readonly calls: BranchCalls;
  readonly duplicates = new Map<string, DuplicateCall>();
  readonly summaries = new Map<string, CallSummary>();
  readonly legacySummaries: LegacySummary[] = [];
  readonly chains = new Map<string, ChainCompressionEntry>();
  readonly skipped = new Set<string>();
  readonly purged = new Set<string>();
  readonly pointers = new Map<string, RecoveryPointer>();
  readonly choices = new Map<string, ResultChoice>();
  /** Results that were condensed only since the person dropped them. */
  private readonly forced = new Set<string>();
  readonly bareIds = new Set<string>();
  readonly journal = new Journal();
  frontier: FrontierEntryData | undefined;
  /** Entries that wait for their frontier. */
  private staged: OwnEntry[] = [];
  /** Occurrences that they deal with; made when it is asked for. */
  private stagedKeys: Set<string> | undefined;
  /** First calls by content hash; made when a flush first asks for one. */
  private byHash: Map<string, IndexedCall> | undefined;

  constructor(private readonly lookup: CallLookup) {
    this.calls = new BranchCalls((key) => lookup.originalOf(key));
  }

  /** Takes in the next entry of the branch. True where that changed what is committed. */
  fold(own: OwnEntry): boolean {
    switch (own.kind) {
      case "index":
        return this.foldIndex(own);
      case "alias":
        if (!own.data.eager) return this.stage(own);
        this.commitDuplicate(own.data);
        return true;
      case "summary":
      case "legacy-summary":
        return this.stage(own);
      case "chain":
        return this.foldChain(own);
      case "choice":
        this.choose(own.data);
        return true;
      case "frontier":
        this.commit(own.data);
        return true;
      default:
        return false;
    }
  }

  /** The occurrence has been dealt with, be it that its frontier is still to come. */
  has(key: string): boolean {
    if (this.calls.has(key) || this.duplicates.has(key)) return true;
    if (this.staged.length === 0) return false;
    this.stagedKeys ??= new Set(this.staged.flatMap(keysOf));
    return this.stagedKeys.has(key);
  }

  /** Entries without a frontier stand at the end: the flush that wrote them was cut short. */
  hasUncommitted(): boolean {
    return this.staged.length > 0;
  }

  findByHash(contentHash: string): IndexedCall | undefined {
    if (!this.byHash) {
      this.byHash = new Map();
      for (const call of this.calls.values()) addByHash(this.byHash, call);
    }
    return this.byHash.get(contentHash);
  }

  /** A spilled result must not go out whole, so its record does not wait for a frontier. */
  private foldIndex(own: IndexEntry): boolean {
    const { toolCalls } = own.data;
    if (!toolCalls.every(isSpilled)) this.stage(own);
    if (!toolCalls.some(isSpilled)) return false;
    for (const call of callsOf(own).calls) if (call.isSpilled) this.commitCall(call);
    return true;
  }

  /**
   * A chain waits for the frontier of the flush that compresses it, since records of its calls may come with it. One that
   * stands alone is whole: a decompress, or an entry of a release that wrote chains behind the frontier.
   */
  private foldChain(own: Extract<OwnEntry, { kind: "chain" }>): boolean {
    if (this.staged.length > 0) return this.stage(own);
    this.commitChain(own.data);
    return true;
  }

  /** What waits changes nothing that is committed, which is what `fold` says of it. */
  private stage(own: OwnEntry): false {
    this.staged.push(own);
    this.stagedKeys = undefined;
    return false;
  }

  private commit(frontier: FrontierEntryData): void {
    for (const own of this.staged) this.commitEntry(own);
    this.staged = [];
    this.stagedKeys = undefined;
    this.frontier = frontier;
    for (const key of frontier.skippedOccurrenceKeys ?? []) this.skipped.add(key);
    for (const key of frontier.purgedOccurrenceKeys ?? []) {
      this.purged.add(key);
      this.noteResult(key);
    }
    for (const pointer of frontier.pointers ?? []) {
      this.pointers.set(pointer.occurrenceKey, pointer);
      this.noteResult(pointer.occurrenceKey);
    }
  }

  private commitEntry(own: OwnEntry): void {
    switch (own.kind) {
      case "index":
        for (const call of callsOf(own).calls) if (!call.isSpilled) this.commitCall(call);
        break;
      case "alias":
        this.commitDuplicate(own.data);
        break;
      case "summary":
        this.addSummaries(own.data);
        for (const key of own.data.occurrenceKeys) this.noteResult(key);
        break;
      case "legacy-summary":
        this.commitLegacySummary(own.text, own.refs);
        break;
      case "chain":
        this.commitChain(own.data);
    }
  }

  private commitChain(chain: ChainCompressionEntry): void {
    this.chains.set(chain.blockId, chain);
    this.journal.add({ kind: "chain", timestamp: chain.startUserTimestamp });
  }

  /** A result that only a drop has condensed is as if it had not been, once the drop is taken back. */
  private choose({ occurrenceKey: key, choice }: ChoiceEntryData): void {
    if (choice === "drop" && !this.has(key)) this.forced.add(key);
    if (choice !== "drop" && this.forced.delete(key)) {
      this.calls.delete(key);
      this.summaries.delete(key);
      this.byHash = undefined;
    }
    if (choice === null) this.choices.delete(key);
    else this.choices.set(key, choice);
    this.noteResult(key);
    for (const chain of this.chains.values()) {
      if (chain.droppedOccurrenceKeys?.includes(key)) this.commitChain(chain);
    }
  }

  private noteResult(key: string): void {
    const timestamp = Number(key.slice(key.lastIndexOf("@") + 1));
    this.journal.add({ kind: "result", timestamp: Number.isNaN(timestamp) ? Number.NEGATIVE_INFINITY : timestamp });
  }

  /**
   * Record and ref are taken from the branch's own entry, whatever another branch has made of the same result, so that a
   * fork, which holds no other branch, renders alike.
   */
  private commitCall(given: IndexedCall): void {
    const shortId = given.shortId || this.lookup.refOf(given.occurrenceKey);
    if (!shortId) return;
    const call = shortId === given.shortId ? given : given.named(shortId);
    if (!this.calls.add(call)) return;
    if (call.occurrenceKey === call.toolCallId) this.bareIds.add(call.occurrenceKey);
    this.noteResult(call.occurrenceKey);
    if (this.byHash) addByHash(this.byHash, call);
  }

  private commitDuplicate(data: DedupAliasEntryData): void {
    const key = occurrenceKey(data.newToolCallId, data.newResultTimestamp);
    const originalKey = occurrenceKey(data.originalToolCallId, data.originalResultTimestamp);
    const original =
      this.calls.get(originalKey) ?? this.duplicates.get(originalKey)?.original ?? this.lookup.originalOf(originalKey);
    if (!original || this.duplicates.has(key)) return;
    const { newToolCallId: toolCallId, shortId, eager } = data;
    this.duplicates.set(key, { occurrenceKey: key, toolCallId, shortId, original, eager: eager === true });
    if (key === toolCallId) this.bareIds.add(key);
    this.noteResult(key);
  }

  /** Where one of the occurrences has a summary already, the later one holds. */
  private addSummaries(entry: Pick<SummaryEntryData, "occurrenceKeys" | "parts">): void {
    if (entry.parts.length === 0) return;
    const summaryAt = summaryReader(entry);
    for (const [i, key] of entry.occurrenceKeys.entries()) this.summaries.set(key, summaryAt(i));
  }

  private commitLegacySummary(text: string, refs: readonly SummaryToolCallRef[]): void {
    const occurrenceKeys = refs.map((ref) => occurrenceKey(ref.toolCallId, ref.resultTimestamp));
    const texts = splitLegacySummary(text, refs);
    const parts = refs.flatMap(({ shortId }, i) => {
      const [key, own] = [occurrenceKeys[i], texts[i]];
      return key === undefined || own === undefined ? [] : [{ shortId, occurrenceKey: key, text: own }];
    });
    this.addSummaries({ occurrenceKeys, parts });
    this.legacySummaries.push({ text, occurrenceKeys });
  }
}

function addByHash(calls: Map<string, IndexedCall>, call: IndexedCall): void {
  const hash = call.contentHash;
  if (hash !== undefined && !calls.has(hash)) calls.set(hash, call);
}

/** The occurrences that a staged entry deals with. */
function keysOf(own: OwnEntry): string[] {
  if (own.kind === "alias") return [occurrenceKey(own.data.newToolCallId, own.data.newResultTimestamp)];
  if (own.kind !== "index") return [];
  return callsOf(own).calls.flatMap((call) => (call.isSpilled ? [] : [call.occurrenceKey]));
}
