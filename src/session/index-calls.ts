/** The calls of an index entry by their occurrence keys. */
import { shortHash } from "../capture/duplicates.ts";
import { occurrenceKey } from "../transcript/messages.ts";
import type { HeldRecord, IndexEntryData, SummaryToolCallRef, ToolCallRecord } from "../types.ts";
import { type Awaiting, type HeldResult, isHeld, isSpilled, wholeRecord } from "./lean-records.ts";

/** A condensed call: its record and the ref that it answers to. */
export interface IndexedCall extends Awaiting {
  occurrenceKey: string;
  shortId: string;
  readonly toolCallId: string;
  /** Whole; made anew each time where the session's own message has the rest. */
  readonly record: ToolCallRecord;
  /** The record as the entry has it. */
  readonly stored: ToolCallRecord | HeldRecord;
  /** Its text stands in a blob. */
  readonly isSpilled: boolean;
  readonly isError: boolean;
  /** The calls of a branch that it is one of. */
  branch: object | undefined;
  /** The same call by another ref. */
  named(shortId: string): IndexedCall;
}

/** Finds the message of a call, and of others that wait for theirs. */
export type FindMessage = (call: Awaiting) => void;

/** A ref and the occurrence that it is given to. */
export type NamedOccurrence = Pick<IndexedCall, "occurrenceKey" | "shortId">;

/** What an index entry says. */
export interface EntryCalls {
  /** Its records; `shortId` is empty where the entry itself has no ref for one. */
  calls: IndexedCall[];
  /** Its refs; the very list of calls where each record has one. */
  names: readonly NamedOccurrence[];
}

/** The calls of an index entry. They are made once, since making and hashing keys is most of taking up a session. */
export function callsOf(
  own: { data: IndexEntryData; calls?: EntryCalls | undefined },
  findMessage?: FindMessage,
): EntryCalls {
  own.calls ??= readCalls(own.data, findMessage);
  return own.calls;
}

/** A call whose record is whole. */
export function callOfRecord(record: ToolCallRecord, shortId: string): IndexedCall {
  return new StoredCall(keyOf(record), shortId, record, record, undefined);
}

class StoredCall implements IndexedCall {
  found: HeldResult | null | undefined;
  branch: object | undefined;

  constructor(
    public occurrenceKey: string,
    public shortId: string,
    readonly stored: ToolCallRecord | HeldRecord,
    /** Names a held record. */
    private readonly ref: SummaryToolCallRef | ToolCallRecord,
    private readonly findMessage: FindMessage | undefined,
  ) {}

  get toolCallId(): string {
    return this.ref.toolCallId;
  }

  get contentHash(): string | undefined {
    const { contentHash } = this.stored;
    return contentHash === undefined ? undefined : shortHash(contentHash);
  }

  get isSpilled(): boolean {
    return isSpilled(this.stored);
  }

  get isError(): boolean {
    if (!isHeld(this.stored)) return this.stored.isError;
    this.find();
    return this.found?.message.isError === true;
  }

  get record(): ToolCallRecord {
    if (!isHeld(this.stored)) return this.stored;
    this.find();
    return wholeRecord(this.stored, this.ref, this.found);
  }

  private find(): void {
    if (this.found === undefined) this.findMessage?.(this);
  }

  named(shortId: string): IndexedCall {
    const call = new StoredCall(this.occurrenceKey, shortId, this.stored, this.ref, this.findMessage);
    call.found = this.found;
    return call;
  }
}

function readCalls(data: IndexEntryData, findMessage: FindMessage | undefined): EntryCalls {
  const { toolCalls, refs } = data;
  const make = (record: ToolCallRecord | HeldRecord, shortId: string, i: number) => {
    const ref = isHeld(record) ? refs[i] : record;
    return ref ? [new StoredCall(keyOf(ref), shortId, record, ref, findMessage)] : [];
  };
  if (isParallel(toolCalls, refs)) {
    const calls = toolCalls.flatMap((record, i) => make(record, refs[i]?.shortId ?? "", i));
    // One occurrence twice in an entry takes its last ref.
    const isDistinct = calls.length === 1 || new Set(calls.map((call) => call.occurrenceKey)).size === calls.length;
    if (isDistinct) return { calls, names: calls };
  }
  const names = refs.map((ref) => ({ occurrenceKey: keyOf(ref), shortId: ref.shortId }));
  const given = new Map(names.map((name) => [name.occurrenceKey, name.shortId]));
  const calls = toolCalls.flatMap((record, i) => make(record, "", i));
  for (const call of calls) call.shortId = given.get(call.occurrenceKey) ?? "";
  return { calls, names };
}

function isParallel(toolCalls: IndexEntryData["toolCalls"], refs: readonly SummaryToolCallRef[]): boolean {
  return (
    toolCalls.length === refs.length &&
    toolCalls.every((record, i) => {
      const ref = refs[i];
      return (
        isHeld(record) || (ref?.toolCallId === record.toolCallId && ref.resultTimestamp === record.resultTimestamp)
      );
    })
  );
}

function keyOf({ toolCallId, resultTimestamp }: SummaryToolCallRef | ToolCallRecord): string {
  // Joined, since a concatenation would stay in memory beside its text for as long as the key does.
  return resultTimestamp === undefined ? occurrenceKey(toolCallId, undefined) : [toolCallId, resultTimestamp].join("@");
}
