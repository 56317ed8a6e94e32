/**
 * What the own entries of a whole file say, whichever branch they stand on: records, repeats, refs and chains. A ref that
 * the model has once read must answer on every branch.
 */
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { occurrenceKey } from "../transcript/messages.ts";
import {
  type ChainCompressionEntry,
  CUSTOM_TYPE_INDEX,
  type DedupAliasEntryData,
  REFUSED_ENTRY,
  type SummaryToolCallRef,
} from "../types.ts";
import type { IndexEntry, OwnEntry } from "./entries.ts";
import { callsOf, type FindMessage, type IndexedCall, type NamedOccurrence } from "./index-calls.ts";
import { findHeld } from "./lean-records.ts";
import type { CallLookup, DuplicateCall } from "./ledger.ts";
import { RefBook } from "./ref-book.ts";

/** The fold of one file. */
export class FileLedger implements CallLookup {
  private readonly calls = new Map<string, IndexedCall>();
  private readonly duplicates = new Map<string, DuplicateCall>();
  private readonly book = new RefBook("t");
  private readonly blocks = new RefBook("b");
  /** First refs of the occurrences that no record stands for; the others' stand with their records. */
  private readonly refsWithoutRecord = new Map<string, string>();
  /** Indexed calls that no ref has been found for yet. */
  private nameless: IndexedCall[] = [];
  private readonly chainsByName = new Map<string, ChainCompressionEntry>();
  private readonly invalidTypes = new Set<string>();
  /** Some record's text stands in a blob. */
  hasBlobs = false;
  private readonly refused = new Set<string>();

  /** @param entries every entry of the file, asked for when a record's message is needed */
  constructor(private readonly entries: () => readonly SessionEntry[] = () => []) {}

  /** Takes in entries in the order of the file; those that are known already change nothing. */
  learn(entries: readonly OwnEntry[]): void {
    let covered: readonly string[] = [];
    for (const own of entries) {
      this.learnEntry(own, covered);
      if (own.kind === "summary") covered = own.data.occurrenceKeys;
    }
    // Only now: a record without a ref must not take a number that is given further down in the file.
    for (const call of this.nameless) if (call.shortId === "") this.fillGap(call);
    this.nameless = [];
  }

  /** The record that answers for an occurrence. */
  originalOf(key: string): IndexedCall | undefined {
    return this.calls.get(key) ?? this.duplicates.get(key)?.original;
  }

  /** The ref that an occurrence was given first. */
  refOf(key: string): string | undefined {
    return this.calls.get(key)?.shortId ?? this.refsWithoutRecord.get(key);
  }

  /** Occurrences that a ref (`t12`) or a raw tool call id names, in the order of the file. */
  resolve(name: string): string[] {
    const named = this.book.keysOf(name);
    return named.length > 0 ? [...named] : this.keysOfId(name);
  }

  /** Every ref that answers. */
  refs(): string[] {
    return this.book.refs();
  }

  /** The chains of all branches. */
  chains(): readonly ChainCompressionEntry[] {
    return [...this.chainsByName.values()];
  }

  /** Numbers for the next ref and the next block, `given` those that were given away since the file was read. */
  next(given: { ref: number; block: number }): { ref: number; block: number } {
    return { ref: this.book.next(given.ref), block: this.blocks.next(given.block) };
  }

  /** Types of own entries that were left out since they had another shape; asking clears the list. */
  takeInvalid(): string[] {
    const types = [...this.invalidTypes];
    this.invalidTypes.clear();
    return types;
  }

  /** A diagnostic says of the result or the chain that no entry can be made of it. */
  isRefused(subject: string): boolean {
    return this.refused.has(subject);
  }

  private learnEntry(own: OwnEntry, covered: readonly string[]): void {
    if (own.kind === "index") this.learnIndex(own, covered);
    if (own.kind === "legacy-summary") this.learnRefs(own.refs);
    if (own.kind === "alias") this.learnAlias(own.data);
    if (own.kind === "choice") this.name(own.data);
    if (own.kind === "chain") this.learnChain(own.data);
    if (own.kind === "diagnostic" && own.data.kind === REFUSED_ENTRY) this.refused.add(own.data.detail);
    if (own.kind === "invalid") this.invalidTypes.add(own.customType);
  }

  /** @param covered keys of the summary before the entry, which is that of its batch */
  private learnIndex(own: IndexEntry, covered: readonly string[]): void {
    if (own.rejected > 0) this.invalidTypes.add(CUSTOM_TYPE_INDEX);
    const { calls, names } = callsOf(own, this.findMessage);
    if (names !== calls) for (const name of names) this.name(name);
    for (const [i, call] of calls.entries()) {
      const key = covered[i];
      // Equal, but a string that the host holds anyway.
      if (key === call.occurrenceKey) call.occurrenceKey = key;
      const known = this.learnCall(call);
      // A branch that is folded once more shares the calls that the file has.
      if (known.stored === call.stored && known.shortId === call.shortId) calls[i] = known;
      if (names === calls) this.name(call, known);
    }
  }

  /** The messages of all calls that wait for theirs are looked for at once. */
  private readonly findMessage: FindMessage = (call) => {
    const waiting = [...this.calls.values()].filter(({ found }) => found === undefined);
    findHeld(this.entries(), new Set([...waiting, call]));
  };

  private learnRefs(refs: readonly SummaryToolCallRef[]): void {
    for (const { shortId, toolCallId, resultTimestamp } of refs)
      this.name({ shortId, occurrenceKey: occurrenceKey(toolCallId, resultTimestamp) });
  }

  /** The call that answers for the occurrence: of several records the first in the file, by the ref given first. */
  private learnCall(call: IndexedCall): IndexedCall {
    const { occurrenceKey: key } = call;
    const known = this.calls.get(key);
    if (known) return known;
    if (call.isSpilled) this.hasBlobs = true;
    const shortId = this.refsWithoutRecord.get(key) ?? call.shortId;
    this.refsWithoutRecord.delete(key);
    const first = shortId === call.shortId ? call : call.named(shortId);
    this.calls.set(key, first);
    if (shortId === "") this.nameless.push(first);
    return first;
  }

  private name({ shortId, occurrenceKey: key }: NamedOccurrence, call = this.calls.get(key)): void {
    if (call?.shortId === "") call.shortId = shortId;
    if (!call && !this.refsWithoutRecord.has(key)) this.refsWithoutRecord.set(key, shortId);
    this.book.add(shortId, key);
  }

  private learnAlias(data: DedupAliasEntryData): void {
    const key = occurrenceKey(data.newToolCallId, data.newResultTimestamp);
    if (data.shortId !== undefined) this.name({ shortId: data.shortId, occurrenceKey: key });
    const original = this.originalOf(occurrenceKey(data.originalToolCallId, data.originalResultTimestamp));
    if (!original || this.duplicates.has(key)) return;
    this.duplicates.set(key, {
      occurrenceKey: key,
      toolCallId: data.newToolCallId,
      shortId: data.shortId,
      original,
      eager: data.eager === true,
    });
  }

  /** Two processes on one file may have given one block id twice; it then names both chains. */
  private learnChain(chain: ChainCompressionEntry): void {
    const { blockId, finalAssistantTimestamp: end } = chain;
    this.blocks.add(blockId, String(end));
    const isFirst = (this.chainsByName.get(blockId)?.finalAssistantTimestamp ?? end) === end;
    this.chainsByName.set(isFirst ? blockId : `${blockId}@${end}`, chain);
  }

  /** Asked for so seldom that no index is kept. */
  private keysOfId(toolCallId: string): string[] {
    const calls = [...this.calls.values()].filter((call) => call.toolCallId === toolCallId);
    const repeats = [...this.duplicates.values()].filter((repeat) => repeat.toolCallId === toolCallId);
    return [...calls, ...repeats].map(({ occurrenceKey: key }) => key);
  }

  /**
   * Earlier releases gave spilled records no ref. They take the lowest free numbers in the order of the file, which are
   * the same at every load since new refs are always given above the highest.
   */
  private fillGap(call: IndexedCall): void {
    call.shortId = this.book.lowestFree();
    this.book.add(call.shortId, call.occurrenceKey);
  }
}
