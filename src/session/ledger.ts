/**
 * What the own entries on one branch amount to, in their order. A flush appends several entries and its frontier last;
 * only what a frontier has confirmed takes effect, so that a flush that was cut short changes no render.
 */
import { occurrenceKey } from "../messages.js";
import type {
  ChainCompressionEntry,
  DedupAliasEntryData,
  FrontierEntryData,
  IndexEntryData,
  RecoveryPointer,
  SummaryEntryData,
  SummaryToolCallRef,
  ToolCallRecord,
} from "../types.js";
import type { OwnEntry } from "./entries.js";
import { splitLegacySummary } from "./legacy.js";

/** A condensed call: its record and the ref that it answers to. */
export interface IndexedCall {
  occurrenceKey: string;
  shortId: string;
  record: ToolCallRecord;
}

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

/** The summary that stands for a call. */
export interface CallSummary {
  /** Text for this call; empty where the batch's text stands with another call. */
  text: string;
  /** Ref of the call that carries the text of a batch that could not be split. */
  carriedBy?: string;
}

/** A summary message of an earlier release, whose text now stands in the stubs of these calls. */
export interface LegacySummary {
  text: string;
  occurrenceKeys: string[];
}

/** What the entries up to the last frontier say about a branch. */
export interface CommittedState {
  calls: ReadonlyMap<string, IndexedCall>;
  duplicates: ReadonlyMap<string, DuplicateCall>;
  summaries: ReadonlyMap<string, CallSummary>;
  legacySummaries: readonly LegacySummary[];
  /** Compressed chains by block id, in the order of their blocks; also those that were decompressed by hand. */
  chains: ReadonlyMap<string, ChainCompressionEntry>;
  /** Failed calls whose arguments are condensed. */
  purged: ReadonlySet<string>;
  /** Pointers in the place of recovered outputs, by occurrence. */
  pointers: ReadonlyMap<string, RecoveryPointer>;
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
  readonly calls = new Map<string, IndexedCall>();
  readonly duplicates = new Map<string, DuplicateCall>();
  readonly summaries = new Map<string, CallSummary>();
  readonly legacySummaries: LegacySummary[] = [];
  readonly chains = new Map<string, ChainCompressionEntry>();
  readonly skipped = new Set<string>();
  readonly purged = new Set<string>();
  readonly pointers = new Map<string, RecoveryPointer>();
  frontier: FrontierEntryData | undefined;
  private readonly keysByHash = new Map<string, string>();
  private readonly stagedKeys = new Set<string>();
  private staged: (() => void)[] = [];

  constructor(private readonly lookup: CallLookup) {}

  /** Takes in the next entry of the branch. True where that changed what is committed. */
  fold(own: OwnEntry): boolean {
    switch (own.kind) {
      case "index":
        return this.foldIndex(own.data);
      case "alias":
        return this.apply(
          occurrenceKey(own.data.newToolCallId, own.data.newResultTimestamp),
          (key) => this.commitDuplicate(key, own.data),
          own.data.eager === true,
        );
      case "summary":
        this.staged.push(() => this.commitSummary(own.data));
        return false;
      case "legacy-summary":
        this.staged.push(() => this.commitLegacySummary(own.text, own.refs));
        return false;
      case "chain":
        return this.foldChain(own.data);
      case "frontier":
        this.commit(own.data);
        return true;
      default:
        return false;
    }
  }

  /** The occurrence has been dealt with, be it that its frontier is still to come. */
  has(key: string): boolean {
    return this.calls.has(key) || this.duplicates.has(key) || this.stagedKeys.has(key);
  }

  /** Entries without a frontier stand at the end: the flush that wrote them was cut short. */
  hasUncommitted(): boolean {
    return this.staged.length > 0;
  }

  findByHash(contentHash: string): IndexedCall | undefined {
    const key = this.keysByHash.get(contentHash);
    return key === undefined ? undefined : this.calls.get(key);
  }

  /**
   * Records and refs are taken from the branch's own entry, whatever another branch has made of the same result, so that a
   * fork, which holds no other branch, renders alike. A spilled result must not go out whole, so its record does not wait
   * for a frontier.
   */
  private foldIndex({ toolCalls, refs }: IndexEntryData): boolean {
    const given = new Map(refs.map((ref) => [occurrenceKey(ref.toolCallId, ref.resultTimestamp), ref.shortId]));
    const changes = toolCalls.map((record) => {
      const key = occurrenceKey(record.toolCallId, record.resultTimestamp);
      const commit = () => this.commitCall(key, given.get(key) ?? this.lookup.refOf(key), record);
      return this.apply(key, commit, record.spillPath !== undefined);
    });
    return changes.some(Boolean);
  }

  /**
   * A chain waits for the frontier of the flush that compresses it, since records of its calls may come with it. One that
   * stands alone is whole: a decompress, or an entry of a release that wrote chains behind the frontier.
   */
  private foldChain(chain: ChainCompressionEntry): boolean {
    const commit = () => void this.chains.set(chain.blockId, chain);
    if (this.staged.length > 0) {
      this.staged.push(commit);
      return false;
    }
    commit();
    return true;
  }

  /** Commits at once or stages for the next frontier. True where something is committed. */
  private apply(key: string, commit: (key: string) => void, atOnce: boolean): boolean {
    if (atOnce) {
      commit(key);
      return true;
    }
    this.stagedKeys.add(key);
    this.staged.push(() => commit(key));
    return false;
  }

  private commit(frontier: FrontierEntryData): void {
    for (const apply of this.staged) apply();
    this.staged = [];
    this.stagedKeys.clear();
    this.frontier = frontier;
    for (const key of frontier.skippedOccurrenceKeys ?? []) this.skipped.add(key);
    for (const key of frontier.purgedOccurrenceKeys ?? []) this.purged.add(key);
    for (const pointer of frontier.pointers ?? []) this.pointers.set(pointer.occurrenceKey, pointer);
  }

  private commitCall(key: string, shortId: string | undefined, record: ToolCallRecord): void {
    if (shortId === undefined || this.calls.has(key)) return;
    this.calls.set(key, { occurrenceKey: key, shortId, record });
    const hash = record.contentHash;
    if (hash !== undefined && !this.keysByHash.has(hash)) this.keysByHash.set(hash, key);
  }

  private commitDuplicate(key: string, data: DedupAliasEntryData): void {
    const originalKey = occurrenceKey(data.originalToolCallId, data.originalResultTimestamp);
    const original =
      this.calls.get(originalKey) ?? this.duplicates.get(originalKey)?.original ?? this.lookup.originalOf(originalKey);
    if (!original || this.duplicates.has(key)) return;
    const { newToolCallId: toolCallId, shortId, eager } = data;
    this.duplicates.set(key, { occurrenceKey: key, toolCallId, shortId, original, eager: eager === true });
  }

  private commitSummary(data: SummaryEntryData): void {
    const texts = new Map(data.parts.map((part) => [part.occurrenceKey, part.text]));
    const carriedBy = data.parts[0]?.shortId;
    for (const key of data.occurrenceKeys) {
      const text = texts.get(key);
      if (text !== undefined) this.summaries.set(key, { text });
      else if (carriedBy !== undefined) this.summaries.set(key, { text: "", carriedBy });
    }
  }

  private commitLegacySummary(text: string, refs: readonly SummaryToolCallRef[]): void {
    const texts = splitLegacySummary(text, refs);
    const carriedBy = refs.at(-1)?.shortId;
    const occurrenceKeys = refs.map((ref) => occurrenceKey(ref.toolCallId, ref.resultTimestamp));
    for (const [i, key] of occurrenceKeys.entries()) {
      const own = texts[i];
      this.summaries.set(key, own === undefined && carriedBy ? { text: "", carriedBy } : { text: own ?? "" });
    }
    this.legacySummaries.push({ text, occurrenceKeys });
  }
}
