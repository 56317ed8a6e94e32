/** Originals of condensed results: finding them by name, and giving them page by page. */
import { dirname } from "node:path";
import type { ImageContent, ToolResultMessage } from "@mariozechner/pi-ai";
import { DEFAULT_MAX_BYTES, DEFAULT_MAX_LINES, type SessionEntry, truncateHead } from "@mariozechner/pi-coding-agent";
import type { SessionView } from "../engine/session-state.ts";
import { isGone } from "../session/lean-records.ts";
import { findOriginals, type OriginalResult, originalOfRecord } from "../session/originals.ts";
import { isAsWritten, readSpill } from "../spill.ts";
import { nearest } from "../text/nearest.ts";
import { splitsPair } from "../text/text.ts";
import {
  blocksIn,
  extractToolResultText,
  isImage,
  occurrenceKey,
  otherBlocks,
  resultKeys,
} from "../transcript/messages.ts";
import type { ToolCallRecord } from "../types.ts";

/** An original, whole. */
export interface RecoveredOutput {
  /** Ref of the occurrence, or its raw id where it has none. */
  name: string;
  record: ToolCallRecord;
  /** Arguments of this very call; a repeat may have others than its original. */
  args: Record<string, unknown>;
  text: string;
  images: ImageContent[];
  /** Blocks of other kinds, as the tool gave them. */
  others: { type: string }[];
  /** What is missing of it, where it is not whole. */
  note?: string;
}

/** Where originals are looked for. */
export interface RecoverySources {
  indexer: SessionView["indexer"];
  /** Every entry of the session's file. */
  entries: readonly SessionEntry[];
  /** Text of a blob, or `undefined` where it is gone. */
  readBlob(spillPath: string): string | undefined;
  /** The result stands in the context as it was. */
  isInContext(message: ToolResultMessage): boolean;
}

export function sourcesOf(state: SessionView): RecoverySources {
  return {
    indexer: state.indexer,
    entries: state.reader.getEntries(),
    isInContext: contextCheck(state),
    readBlob: (spillPath) => {
      const path = state.locateBlob(spillPath);
      return path === undefined ? undefined : (readSpill(path, [dirname(path)]) ?? undefined);
    },
  };
}

/** What a name stands for. */
export type Recovery = { kind: "found"; outputs: RecoveredOutput[] } | { kind: "missing"; message: string };

/**
 * The originals that a ref (`t12`), a compressed chain (`b3`) or a raw tool call id names. A reused id gives every
 * occurrence, and a chain every output that it stands for.
 */
export function recover(name: string, sources: RecoverySources): Recovery {
  const { indexer } = sources;
  const wanted = normalizeName(name, indexer);
  const isUnseen = (message: OriginalResult["message"]) => !sources.isInContext(message);
  const chainKeys = keysOfChain(wanted, indexer);
  const keys = chainKeys ?? indexer.resolve(wanted);
  const outputs = keys.flatMap((key) => {
    const record = indexer.getRecord(key);
    return record
      ? [
          {
            name: indexer.refOf(key) ?? record.toolCallId,
            record,
            args: argsOf(key, record, sources),
            others: othersOf(record, sources),
            ...bodyOf(record, sources),
          },
        ]
      : // A chain gives all of its outputs, also the protected ones of a chain that has been put back.
        originalOutputs(key, sources, (message) => chainKeys !== undefined || isUnseen(message));
  });
  const found = outputs.length > 0 ? outputs : originalOutputs(wanted, sources, isUnseen);
  if (found.length > 0) return { kind: "found", outputs: found };
  return { kind: "missing", message: explainMissing(wanted, sources) };
}

/** Blocks that are neither text nor image: only the session's own message has them. */
function othersOf(record: ToolCallRecord, { entries }: RecoverySources): RecoveredOutput["others"] {
  const original = originalOfRecord(record, entries);
  return typeof original === "string" ? [] : otherBlocks(original.message.content);
}

function keysOfChain(name: string, indexer: SessionView["indexer"]): string[] | undefined {
  const chains = indexer.chainsEverywhere().filter((chain) => chain.blockId === name);
  const keys = chains.flatMap((chain) => chain.droppedOccurrenceKeys ?? chain.droppedToolCallIds);
  return keys.length > 0 ? [...new Set(keys)] : undefined;
}

/** Whether a result stands in the context: not behind a compaction, on another branch, or in a compressed chain. */
function contextCheck(state: SessionView): RecoverySources["isInContext"] {
  let here: Set<string> | undefined;
  return ({ toolCallId, timestamp }) => {
    here ??= resultKeys(state.messages());
    const key = occurrenceKey(toolCallId, timestamp);
    const isDropped = [...state.indexer.chains().values()].some(
      (chain) =>
        chain.active !== false &&
        (chain.droppedOccurrenceKeys?.includes(key) ?? chain.droppedToolCallIds.includes(toolCallId)),
    );
    return here.has(key) && !isDropped && !state.indexer.committed().pointers.has(key);
  };
}

/** Results without a record, from the session's own messages. */
function originalOutputs(
  key: string,
  { entries }: RecoverySources,
  isWanted: (message: OriginalResult["message"]) => boolean,
): RecoveredOutput[] {
  return findOriginals(entries, key)
    .filter(({ message }) => isWanted(message))
    .map(({ message, args }) => ({
      name: message.toolCallId,
      args,
      record: {
        toolCallId: message.toolCallId,
        toolName: message.toolName,
        args,
        resultText: "",
        isError: message.isError,
        turnIndex: 0,
        timestamp: message.timestamp,
        resultTimestamp: message.timestamp,
      },
      text: extractToolResultText(message),
      images: blocksIn(message.content).filter(isImage),
      others: otherBlocks(message.content),
    }));
}

const CHANGED = "the file with this output has been changed since; this is the session's own copy";
const UNCHECKED =
  "the file with this output may have been changed since: the session's own copy is gone, so that it could not be compared";

/**
 * The text: from the record, the blob where it is as it was written, or the session's own message, in this order, and at
 * last the preview. Images come from the session's message.
 */
function bodyOf(
  record: ToolCallRecord,
  { entries, readBlob }: RecoverySources,
): Pick<RecoveredOutput, "text" | "images" | "note"> {
  const file = record.resultText || record.spillPath === undefined ? undefined : readBlob(record.spillPath);
  const verdict = file === undefined ? false : isAsWritten(file, record);
  const sure = record.resultText || (verdict === true ? file : undefined);
  const found = sure && !record.resultImages ? "gone" : originalOfRecord(record, entries);
  const original = typeof found === "string" ? undefined : found.message;
  const images = original ? blocksIn(original.content).filter(isImage) : [];
  if (sure) return { text: sure, images };
  if (original) {
    const text = extractToolResultText(original);
    return { text, images, note: file === undefined || file === text ? undefined : CHANGED };
  }
  if (file !== undefined && verdict === undefined) return { text: file, images, note: UNCHECKED };
  const copy = found === "changed" ? "has been changed since it was condensed" : "is gone from the session file";
  if (record.resultPreview === undefined && !record.resultChars && !isGone(record)) return { text: "", images };
  if (record.resultPreview === undefined)
    return { text: "", images, note: `this output cannot be given: the message that held it ${copy}` };
  const note = `only this preview is left: the file with the full output is gone, and the message that held it ${copy}`;
  return { text: record.resultPreview, images, note };
}

function argsOf(key: string, record: ToolCallRecord, { entries }: RecoverySources): Record<string, unknown> {
  if (key !== occurrenceKey(record.toolCallId, record.resultTimestamp))
    return findOriginals(entries, key)[0]?.args ?? record.args;
  // A record holds the beginning of long arguments; the message that it was made from has them whole.
  const original = record.resultText ? "gone" : originalOfRecord(record, entries);
  return typeof original === "string" ? record.args : original.args;
}

/** Models write refs as they saw them: in backticks, brackets, upper case. */
function normalizeName(name: string, indexer: SessionView["indexer"]): string {
  const plain = name.trim();
  const bare = plain.replace(/^[`"'[(<#]+|[`"'\])>.,:]+$/g, "");
  const ref = /^[^\p{L}\p{N}]*([tb]\d{1,9})[^\p{L}\p{N}]*$/iu.exec(plain);
  if (ref?.[1]) return ref[1].toLowerCase();
  return indexer.resolve(plain).length === 0 && indexer.resolve(bare).length > 0 ? bare : plain;
}

function explainMissing(name: string, { indexer, entries }: RecoverySources): string {
  if (findOriginals(entries, name).length > 0) {
    return `${name} is not condensed: its output still stands in the context.`;
  }
  const known = indexer.refs();
  if (known.length === 0) return `Unknown ref "${name}": nothing has been condensed in this session.`;
  const close = nearest(name, known);
  const refs = close.length > 0 ? close : known.slice(-3);
  return `Unknown ref "${name}". Valid are refs of the form t12, as they stand in "[t12 condensed: …]", and raw tool call ids. Nearest known: ${refs.join(", ")}.`;
}

/** A stretch of a text. `start` and `end` count UTF-16 code units from its beginning. */
export interface Page {
  body: string;
  start: number;
  end: number;
  total: number;
}

/**
 * The page that begins at `offset`: at most `limit` characters, and at most what the host's own tools give at once.
 * Ends at a line's end where it can and never inside a character; pages in a row join to the original.
 * @param share into how many answers the host's limit is divided
 */
export function pageOf(text: string, options: { offset?: number; limit?: number; share?: number }): Page {
  const start = alignedStart(text, Math.min(Math.max(0, options.offset ?? 0), text.length));
  const maxBytes = Math.max(1_000, Math.floor(DEFAULT_MAX_BYTES / (options.share ?? 1)));
  const wanted = text.slice(start, options.limit === undefined ? undefined : start + Math.max(1, options.limit));
  const head = truncateHead(wanted, { maxBytes, maxLines: DEFAULT_MAX_LINES });
  // truncateHead leaves out the line break that it cuts at; the page keeps it, so that pages join.
  const cutLength = head.firstLineExceedsLimit ? bytePrefix(wanted, maxBytes) : head.content.length + 1;
  const end = alignedEnd(text, start, start + (head.truncated ? cutLength : wanted.length));
  return { body: text.slice(start, end), start, end, total: text.length };
}

function bytePrefix(text: string, maxBytes: number): number {
  return new TextDecoder().decode(Buffer.from(text).subarray(0, maxBytes)).replace(/\uFFFD$/, "").length;
}

function alignedStart(text: string, index: number): number {
  return splitsPair(text, index) ? index - 1 : index;
}

function alignedEnd(text: string, start: number, end: number): number {
  if (!splitsPair(text, end)) return end;
  return end - 1 > start ? end - 1 : end + 1;
}
