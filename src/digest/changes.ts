/** What a call has changed in files: the digest of edits, patches and writes. */
import { cut, oneLine, sliceText } from "../text/text.ts";
import { pathOf } from "./arguments.ts";
import { enclosingName } from "./definitions.ts";
import { changesOf, type TextChange, writtenBy } from "./edits.ts";
import { outline } from "./outline.ts";
import { countLines } from "./result.ts";
import { charsOf, count, MAX_LINE, type Room, roomAfter } from "./room.ts";

/** Edits that are shown, and the length of one. */
const MAX_SHOWN = 6;
const MAX_SKETCH = 150;
const MAX_QUOTE = 42;
/** A text that was written is outlined in this share of it, but not in less than the floor. */
const SHARE = 0.3;
const FLOOR = 120;
/** A written text up to this long is readable in the call itself. */
const SHORT_TEXT = 400;

/** One line for each edit, or the outline of the file that was written. Empty for a call that changes nothing. */
export function digestChanges(args: Record<string, unknown>, room: Room): string[] {
  const changes = changesOf(args);
  if (changes.length === 0) return digestWritten(args, room);
  const path = pathOf(args) ?? changes[0]?.path;
  const shown = changes.slice(0, changes.length > MAX_SHOWN ? MAX_SHOWN - 1 : MAX_SHOWN);
  const lines = shown.map((change) =>
    cut(`${elsewhere(change, path)}${sketch(change, path ?? "", changes.length > 1)}`, MAX_SKETCH),
  );
  while (charsOf(lines) > room.chars - 20 && lines.length > 0) lines.pop();
  const hidden = changes.length - lines.length;
  return hidden > 0 ? [...lines, `… ${count(hidden, "more edit")}`] : lines;
}

function elsewhere(change: TextChange, path: string | undefined): string {
  return change.path === undefined || change.path === path ? "" : `${oneLine(change.path.slice(-60), 60)} `;
}

function digestWritten(args: Record<string, unknown>, room: Room): string[] {
  const written = writtenBy(args);
  if (!written || written.text.length <= SHORT_TEXT) return [];
  const { path, text } = written;
  const heading = `wrote ${count(countLines(text), "line")}:`;
  const chars = Math.min(room.chars, Math.max(FLOOR, Math.ceil(text.length * SHARE)));
  return [heading, ...outline(path, text, roomAfter({ lines: room.lines, chars }, [heading]))];
}

/** Of several edits each one's size, where it stands, and the first line that differs, before and after. */
function sketch({ before, after, path }: TextChange, called: string, isOneOfSeveral: boolean): string {
  const old = before.split("\n");
  const next = after.split("\n");
  let start = 0;
  while (start < old.length && start < next.length && old[start] === next[start]) start++;
  let same = 0;
  while (same < Math.min(old.length, next.length) - start && old.at(-1 - same) === next.at(-1 - same)) same++;
  const name = enclosingName(path ?? called, old.slice(0, start + 1)) ?? "";
  const place = name === "" || old[start]?.includes(name.replace("()", "")) ? "" : `in ${name}`;
  const size = isOneOfSeveral ? `${countLines(before)} → ${count(countLines(after), "line")}` : "";
  const removed = firstWords(old.slice(start, old.length - same));
  const added = firstWords(next.slice(start, next.length - same));
  const where = [size, place].filter((words) => words !== "").join(" ");
  return `${where === "" ? "" : `${where}: `}${difference(removed, added)}`;
}

function firstWords(lines: readonly string[]): string {
  return lines.find((line) => /[\p{L}\p{N}]/u.test(line)) ?? lines.find((line) => line.trim() !== "") ?? "";
}

/** Both lines from a little before the place where they part. */
function difference(removed: string, added: string): string {
  const [from, to] = [oneLine(removed, 400), oneLine(added, 400)];
  if (from === "") return to === "" ? "blank lines" : `added ${quote(to, 0)}`;
  if (to === "") return `removed ${quote(from, 0)}`;
  let parting = 0;
  while (parting < from.length && from[parting] === to[parting]) parting++;
  const start = Math.max(from.length, to.length) > MAX_QUOTE ? Math.max(0, parting - 12) : 0;
  return `${quote(from, start)} → ${quote(to, start)}`;
}

function quote(line: string, start: number): string {
  const shown = start === 0 ? line : `…${sliceText(line, start, Math.min(line.length, start + MAX_LINE))}`;
  return `"${cut(shown, MAX_QUOTE)}"`;
}
