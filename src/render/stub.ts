/** The texts that stand in for condensed results. */

import { describeCall } from "../digest/describe.ts";
import { changeSize, changesFiles } from "../digest/edits.ts";
import type { CallSummary } from "../session/batch-summaries.ts";
import type { IndexedCall } from "../session/index-calls.ts";
import { cut, grouped } from "../text/text.ts";
import { IMAGE_CHARS } from "../transcript/messages.ts";
import { QUERY_TOOL_NAME, type ToolCallRecord } from "../types.ts";

/** pi cuts results to 2,000 characters when it compacts, so what identifies a call must come early. */
const MAX_OUTCOME_CHARS = 50;

/** A stub that saves less than a quarter costs the model more in detail than it saves in tokens. */
export const MAX_STUB_SHARE = 0.75;

/** Characters that a change takes to name its file, whose whole path stands in the call above. */
const MAX_CHANGE_CALL = 50;

/** Shorter results save next to nothing, and are asked for again as often as long ones. */
export const MIN_RESULT_CHARS = 800;

/** A longer line is refused by pi's `read`. */
const READABLE_LINE_BYTES = 50 * 1024;

/** What the header of a stub is made from. */
export interface StubSubject {
  shortId: string;
  record: Pick<
    ToolCallRecord,
    | "toolName"
    | "args"
    | "change"
    | "resultText"
    | "resultChars"
    | "resultImages"
    | "isError"
    | "outcome"
    | "spillBytes"
  >;
}

/** `[t12 condensed: read src/app.ts, 14,203 chars, ok. Full output: context_tree_query t12]` and the summary. */
export function callStub(subject: StubSubject, summary: CallSummary | undefined): string {
  const { record, shortId } = subject;
  const width = isChange(record) ? MAX_CHANGE_CALL : undefined;
  const header = `[${shortId} condensed: ${describeRecord(record, width)}. ${hint(shortId)}]`;
  const body = summary?.carriedBy ? `Summarized together with ${summary.carriedBy}.` : summary?.text.trim();
  return body ? `${header}\n${body}` : header;
}

/** `read src/app.ts, 14,203 chars, ok`: the call, its size and what came of it. */
export function describeRecord(record: StubSubject["record"], maxCall?: number): string {
  return `${describeCall(record.toolName, record.args, maxCall)}, ${describeSize(record)}, ${outcomeOf(record)}`;
}

/**
 * The mechanical stub of a spilled result: tool, arguments, size, preview, where the whole output is, ref.
 * @param path the blob as it can be read now; a stub never names a file that is not there
 */
export function spillStub(
  { shortId, record }: Pick<IndexedCall, "shortId" | "record">,
  path: string | undefined,
): string {
  const size = `${grouped(record.spillBytes ?? 0)} bytes${lines(record.spillLines)}`;
  const header = `[${shortId} condensed: ${describeCall(record.toolName, record.args)}, ${size}, ${outcomeOf(record)}. ${hint(shortId)}]`;
  const preview = record.resultPreview ?? "";
  const where = path === undefined ? "" : ` ${readHint(path, { shortId, record })}`;
  return `${header}\n${preview}\n[preview of the first ${grouped(preview.length)} characters.${where}]`;
}

/** `[t12 condensed: identical to t7 (read src/app.ts, 14,203 chars). Full output: context_tree_query t7]` */
export function duplicateStub(
  { shortId, original }: { shortId: string | undefined; original: Pick<IndexedCall, "shortId" | "record"> },
  path?: string,
): string {
  const { record } = original;
  const known = `${describeCall(record.toolName, record.args)}, ${describeSize(record)}`;
  const name = shortId === undefined ? "condensed" : `${shortId} condensed`;
  const stub = `[${name}: identical to ${original.shortId} (${known}). ${hint(original.shortId)}]`;
  return path === undefined ? stub : `${stub}\n[${readHint(path, original)}]`;
}

/** Size of the original in characters, images at their flat price. */
export function recordChars(record: StubSubject["record"]): number {
  return textChars(record) + (record.resultImages ?? 0) * IMAGE_CHARS;
}

/** A summary's stub may stand in the place of a result: it is enough shorter, and the result is long enough to matter. */
export function isWorthSummarizing(stubChars: number, originalChars: number): boolean {
  return originalChars >= MIN_RESULT_CHARS && isWorthwhile(stubChars, originalChars);
}

/** The stub is enough shorter than the original to stand in its place. */
export function isWorthwhile(stubChars: number, originalChars: number): boolean {
  return stubChars <= originalChars * MAX_STUB_SHARE;
}

/** The call has changed files. */
export function isChange({ args, change }: Pick<ToolCallRecord, "args" | "change">): boolean {
  return change === undefined ? changesFiles(args) : change !== "";
}

/** Of a change its own size: the length of the reply says nothing of it. */
function describeSize(record: StubSubject["record"]): string {
  const change = record.change ?? (record.isError ? "" : changeSize(record.args));
  if (change !== "") return change;
  const images = record.resultImages ?? 0;
  const text = `${grouped(textChars(record))} chars`;
  return images === 0 ? text : `${text} and ${images === 1 ? "1 image" : `${images} images`}`;
}

function hint(ref: string): string {
  return `Full output: ${QUERY_TOOL_NAME} ${ref}`;
}

/** Spilled records of earlier releases tell the bytes alone. */
function textChars(record: StubSubject["record"]): number {
  return record.resultChars ?? (record.resultText.length || (record.spillBytes ?? 0));
}

function readHint(path: string, { shortId, record }: Pick<IndexedCall, "shortId" | "record">): string {
  return hasLongLine(record)
    ? `The whole output is in ${path}, with lines too long for read: use ${QUERY_TOOL_NAME} ${shortId} with a pattern, or with offset and limit in characters.`
    : `The whole output is in ${path}: read this file (offset/limit supported) to access the full output.`;
}

/** pi's `read` shows nothing of such a line, whatever its offset and limit. */
function hasLongLine({ spillLongestLine, spillBytes, spillLines }: ToolCallRecord): boolean {
  // Of records without the length of the longest line only the mean is known.
  return (spillLongestLine ?? (spillBytes ?? 0) / Math.max(1, spillLines ?? 1)) > READABLE_LINE_BYTES;
}

function outcomeOf(record: StubSubject["record"]): string {
  return cut(record.outcome ?? (record.isError ? "error" : "ok"), MAX_OUTCOME_CHARS);
}

function lines(count: number | undefined): string {
  return count === undefined ? "" : ` in ${grouped(count)} lines`;
}
