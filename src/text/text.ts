/** Cutting and flattening tool text, and numbers in texts. Lengths are UTF-16 code units; nothing here splits a surrogate pair. */
import { stripVTControlCharacters } from "node:util";

const ESC = String.fromCharCode(27);
const BEL = String.fromCharCode(7);
/** A window's title or a hyperlink's target. */
const OPERATING_COMMAND = new RegExp(`${ESC}\\][^${BEL}${ESC}\\n]*(?:${BEL}|${ESC}\\\\)?`, "g");
const BLANKS = /[\s\p{Cc}]+/gu;

/** Like `String.slice` for non-negative bounds, moved inwards where a bound would split a surrogate pair. */
export function sliceText(text: string, start: number, end: number): string {
  const from = start > 0 && splitsPair(text, start) ? start + 1 : start;
  const to = end < text.length && splitsPair(text, end) ? end - 1 : end;
  return text.slice(from, Math.max(from, to));
}

/** Whether a cut at `index` would part the halves of a surrogate pair. */
export function splitsPair(text: string, index: number): boolean {
  return (text.charCodeAt(index - 1) & 0xfc00) === 0xd800 && (text.charCodeAt(index) & 0xfc00) === 0xdc00;
}

/** At most `max` code units of the text; a cut is marked by an ellipsis at its end. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  return max < 1 ? "" : `${sliceText(text, 0, max - 1)}…`;
}

/** As `cut`, but keeps the end of the text: the telling part of a path. */
export function cutStart(text: string, max: number): string {
  if (text.length <= max) return text;
  return max < 1 ? "" : `…${sliceText(text, text.length - max + 1, text.length)}`;
}

/** The text with every lone surrogate replaced, as an encoder would do it. */
export function wellFormed(text: string): string {
  return text.toWellFormed();
}

/** The text without escape sequences. Node's own function leaves most of a window's title. */
export function withoutEscapes(text: string): string {
  return stripVTControlCharacters(text.replace(OPERATING_COMMAND, ""));
}

/** One well-formed line without escape sequences and control characters, runs of blanks collapsed; any length. */
export function flatten(text: string): string {
  return wellFormed(withoutEscapes(text).replace(BLANKS, " ")).trim();
}

/** `flatten` and `cut` in one; looks only at as much of the text as can matter. */
export function oneLine(text: string, max: number): string {
  const start = text.search(/\S/);
  if (start < 0) return "";
  const end = start + max * 4 + 40;
  const flat = flatten(sliceText(text, start, end));
  return cut(end < text.length ? `${flat}…` : flat, max);
}

/** What each of `sizes` may take of `room`, `most` at most: short ones are whole, the longer ones share what is left evenly. */
export function shareRoom(sizes: readonly number[], room: number, most: number): number[] {
  const shares = sizes.map(() => 0);
  let left = Math.max(0, room);
  for (const [position, [index, size]] of [...sizes.entries()].sort(([, a], [, b]) => a - b).entries()) {
    const share = Math.min(size, most, Math.floor(left / (sizes.length - position)));
    shares[index] = share;
    left -= share;
  }
  return shares;
}

/** What an error says, whatever has been thrown. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A whole number with its digits in groups of three, whatever the locale of the process. */
export function grouped(value: number): string {
  return value.toLocaleString("en-US");
}

/** "1 match", "2 matches". */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${grouped(n)} ${n === 1 ? one : many}`;
}

/** Whether a line says anything: rulers and blank lines do not. Looks at its first 400 characters. */
export function hasWords(line: string): boolean {
  return /[\p{L}\p{N}]/u.test(line.slice(0, 400));
}

/** The first of the named arguments that is a non-blank string. Tolerates arguments that are no object at all. */
export function stringArg(args: Record<string, unknown>, ...names: string[]): string | undefined {
  for (const name of names) {
    const value: unknown = args?.[name];
    if (typeof value === "string" && value.trim() !== "") return value;
  }
  return undefined;
}

/** A whole number >= 1 among the arguments, also where a model wrote it as a string. */
export function numberArg(args: Record<string, unknown>, name: string): number | undefined {
  const value: unknown = args?.[name];
  const number = typeof value === "string" && /^\d{1,9}$/.test(value.trim()) ? Number(value) : value;
  return typeof number === "number" && Number.isInteger(number) && number >= 1 ? number : undefined;
}
