/** Records of results that the session's own messages hold: they are read there, and never copied. */
import type { ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { changeSize } from "../digest/edits.ts";
import {
  countImages,
  extractToolResultText,
  isAssistant,
  isToolResult,
  occurrenceKey,
  ResultIds,
  timeOf,
} from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import type { HeldRecord, SummaryToolCallRef, ToolCallRecord } from "../types.ts";
import { hashOfResult } from "./originals.ts";

/** A result with its call, as the session holds them. */
export interface HeldResult {
  message: ToolResultMessage;
  call: ToolCall | undefined;
  /** When the call was made, ms since the epoch. */
  calledAt: number | undefined;
}

/** What waits for its message: `found` is `null` where the session has none any more. */
export interface Awaiting {
  readonly occurrenceKey: string;
  readonly contentHash: string | undefined;
  found: HeldResult | null | undefined;
}

export function isHeld(record: ToolCallRecord | HeldRecord): record is HeldRecord {
  return !("toolName" in record);
}

/** Its text stands in a blob; such a record is whole. */
export function isSpilled(record: ToolCallRecord | HeldRecord): boolean {
  return !isHeld(record) && record.spillPath !== undefined;
}

/** The record as a whole. Where its message is gone, it says next to nothing. */
export function wholeRecord(
  held: HeldRecord,
  { toolCallId, resultTimestamp }: Pick<SummaryToolCallRef, "toolCallId" | "resultTimestamp">,
  found: HeldResult | null | undefined,
): ToolCallRecord {
  const args = found?.call?.arguments ?? {};
  const isError = found?.message.isError === true;
  // A failed call has changed nothing, but names what it was to change.
  const change = found && !isError ? changeSize(args) : undefined;
  // Field by field: thousands are made for one request, and spread objects take many times as long.
  return {
    toolCallId,
    toolName: found ? String(found.message.toolName) : GONE,
    args,
    resultText: "",
    isError,
    turnIndex: 0,
    timestamp: found?.calledAt ?? resultTimestamp ?? 0,
    resultTimestamp,
    resultChars: found ? extractToolResultText(found.message).length : undefined,
    resultImages: found ? countImages(found.message.content) : undefined,
    outcome: held.outcome,
    contentHash: held.contentHash,
    change,
    changeChars: change ? longChars(args) : undefined,
  };
}

/** Name of the tool in the record of a result whose message is gone. */
const GONE = "unknown";

/** The record is of a result that is gone, so that nothing is known of its size. */
export function isGone({ toolName, resultText, resultChars }: ToolCallRecord): boolean {
  return toolName === GONE && resultText === "" && resultChars === undefined;
}

/** Finds the messages of all that wait, in one look at the entries. Of several with one key it takes the one of its content. */
export function findHeld(entries: readonly SessionEntry[], waiting: Iterable<Awaiting>): void {
  const wanted = new Map<string, Awaiting[]>();
  for (const one of waiting) {
    one.found = null;
    const others = wanted.get(one.occurrenceKey);
    if (others) others.push(one);
    else wanted.set(one.occurrenceKey, [one]);
  }
  const turns = new TurnReader(entries);
  for (const entry of entries.slice(firstOf(wanted.keys(), entries))) {
    const result = turns.read(entry);
    if (!result) continue;
    for (const one of wanted.get(result.key) ?? [])
      if (!one.found || hashOfResult(one.found.message) !== one.contentHash) one.found = result;
  }
}

/** Index of the turn from which on results of these keys can stand: most often they are among the last of a long file. */
function firstOf(keys: Iterable<string>, entries: readonly SessionEntry[]): number {
  const times = new Set<number>();
  for (const key of keys) times.add(key.includes("@") ? Number(key.slice(key.lastIndexOf("@") + 1)) : Number.NaN);
  if (times.has(Number.NaN)) return 0;
  const first = entries.findIndex(
    (entry) => entry.type === "message" && times.has(timeOf(entry.message.timestamp) ?? -1),
  );
  return first < 0 ? entries.length : Math.max(0, entries.slice(0, first).findLastIndex(beginsTurn));
}

function beginsTurn(entry: SessionEntry): boolean {
  return entry.type === "message" && isAssistant(entry.message);
}

/** Reads entries in the order of the file, each result with the call on its own path: two processes may write by turns. */
class TurnReader {
  private pairing = new CallPairing();
  private ids = new ResultIds();
  private calledAt: number | undefined;
  private last: string | undefined;
  private byId: ReadonlyMap<string, SessionEntry> | undefined;

  constructor(private readonly entries: readonly SessionEntry[]) {}

  read(entry: SessionEntry): (HeldResult & { key: string }) | undefined {
    // A turn that begins needs nothing of what stands before it.
    if (entry.parentId !== this.last && !beginsTurn(entry)) this.moveTo(entry.parentId);
    this.last = entry.id;
    return this.take(entry);
  }

  /** Takes up the turn that the entry stands in. A parent that is gone leaves the order of the file. */
  private moveTo(parentId: string | null): void {
    if (parentId === null) return;
    this.byId ??= new Map(this.entries.map((entry) => [entry.id, entry]));
    const turn: SessionEntry[] = [];
    for (let entry = this.byId.get(parentId); entry; entry = this.byId.get(entry.parentId ?? "")) {
      turn.push(entry);
      if (beginsTurn(entry)) break;
    }
    if (turn.length === 0) return;
    this.pairing = new CallPairing();
    this.ids = new ResultIds();
    for (const entry of turn.reverse()) this.take(entry);
  }

  private take(entry: SessionEntry): (HeldResult & { key: string }) | undefined {
    if (entry.type !== "message") return undefined;
    const { message } = entry;
    if (isAssistant(message)) {
      this.pairing.open(message);
      this.ids.opens();
      this.calledAt = timeOf(message.timestamp);
    }
    if (!isToolResult(message)) return undefined;
    const call = this.pairing.take(message.toolCallId);
    return { message, call, calledAt: this.calledAt, key: occurrenceKey(this.ids.idOf(message), message.timestamp) };
  }
}

/** Strings from here on are the long ones of a change: shorter ones stay in the prompt. */
const LONG_CHARS = 400;

function longChars(value: unknown): number {
  if (typeof value === "string") return value.length >= LONG_CHARS ? value.length : 0;
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce((sum: number, item) => sum + longChars(item), 0);
}
