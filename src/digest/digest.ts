/**
 * The mechanical digest: a summary without any model. It quotes and counts, and says nothing that is not in the call,
 * so that a reader can tell whether the original is needed.
 */

import { cut, flatten, hasWords, numberArg, oneLine, stringArg, wellFormed } from "../text/text.js";
import type { CapturedBatch, CapturedToolCall } from "../types.js";
import { excerpt } from "./excerpt.js";
import { outline } from "./outline.js";
import { countLines, frameOf, isShell, listEntries, saysNothing } from "./result.js";
import { charsOf, count, MAX_LINE, type Room, roomAfter } from "./room.js";
import { diffDigest, grepDigest, grepMatches, jsonShape, listingDigest, listingOf, searchMatches } from "./shapes.js";

/** Most that a digest takes up, apart from what the tool said about where its full output is. */
export const MAX_DIGEST: Readonly<Room> = { lines: 12, chars: 700 };
/** A digest of a short result is shorter: this share of it, but not less than the floor. */
const SHARE = 0.3;
const FLOOR = 120;
/** Argument strings up to this many characters stay readable in the call itself. */
const SHORT_ARGUMENT = 400;
/** What `edit` and `write` answer is not longer than this, unless it tells more than that they are done. */
const PLAIN_REPLY = 300;

/** Tools whose outcome says already that nothing was found. */
const SEARCHES: ReadonlySet<string> = new Set(["grep", "find", "ls"]);

/** One digest for each call of the batch, in order. */
export function digestBatch(batch: CapturedBatch): string[] {
  return batch.toolCalls.map(digestCall);
}

/**
 * The lines that follow a stub's header: at most 12 lines and 700 characters, each line at most 160. The header says
 * tool, key argument, size and outcome already. Notices of where a full output is kept come on top, whole. Lines of the
 * result are numbered `L12`, those of a file as in the file. Empty where there is nothing to say.
 */
export function digestCall(call: CapturedToolCall): string {
  const { body, notice, status } = frameOf(call.toolName, call.resultText);
  const lines: string[] = [];
  if (call.resultImages > 0) lines.push(`${count(call.resultImages, "image")} (recoverable with the ref)`);
  const kept = pathNotices(call.toolName, body);
  if (notice !== undefined)
    kept.push(notice.includes("Full output: ") ? wellFormed(notice) : oneLine(notice, MAX_LINE));
  const room = roomAfter(MAX_DIGEST, [...lines, ...kept.map((line) => cut(line, MAX_LINE))]);
  const share = Math.max(call.isError ? MAX_LINE + 1 : FLOOR, Math.ceil(call.resultText.length * SHARE));
  // Emptied, not removed: the numbers of the other lines must stay.
  const rest = kept.reduce((text, line) => text.replace(line, () => ""), body);
  lines.push(...digestBody(call, rest, { lines: room.lines, chars: Math.min(room.chars, share) }));
  // A failed command without output has said all in its status.
  const text = [...lines, ...kept].join("\n");
  return status !== undefined && text === "(no output)" ? "" : text;
}

function digestBody(call: CapturedToolCall, body: string, room: Room): string[] {
  if (!call.isError && (call.toolName === "edit" || call.toolName === "write")) return digestChange(call, body);
  if (SEARCHES.has(call.toolName) && saysNothing(body)) return [];
  const whole = wholeIfShort(body, room);
  if (whole) return whole;
  const lines = body.split("\n");
  if (call.isError) {
    if (body.length < 2 * MAX_LINE && lines.filter(hasWords).length === 1) return [oneLine(body, MAX_LINE)];
    return excerpt(lines, room, isShell(call.toolName) ? { head: 1, tail: 4 } : { head: 4, tail: 1 });
  }
  switch (call.toolName) {
    case "read":
      return outline(stringArg(call.args, "path", "file_path") ?? "", body, room, numberArg(call.args, "offset"));
    case "grep": {
      const matches = grepMatches(lines);
      return matches.length > 0 ? grepDigest(matches, room) : digestText(lines, body, room, false);
    }
    case "find":
    case "ls":
      return listingDigest(listEntries(body), room);
    default: {
      const command = isShell(call.toolName) ? (stringArg(call.args, "command") ?? "") : "";
      const shown = shownFile(command);
      if (shown) return outline(shown.path, body, room, shown.firstLine);
      const searching = /grep|search|\b(?:rg|ag|ack)\b/i.test(command === "" ? call.toolName : command);
      return digestText(lines, body, room, searching);
    }
  }
}

/** A text that is no longer than its digest would be, blank lines left out. */
function wholeIfShort(text: string, room: Room): string[] | undefined {
  if (text.length > room.chars * 2) return undefined;
  const lines = text
    .split("\n")
    .map((line) => flatten(line))
    .filter((line) => line !== "");
  return lines.length <= room.lines && charsOf(lines) <= room.chars && lines.every((line) => line.length <= MAX_LINE)
    ? lines
    : undefined;
}

/** Output of a kind that only its text tells. */
function digestText(lines: readonly string[], body: string, room: Room, searching: boolean): string[] {
  const diff = diffDigest(lines, room);
  if (diff.length > 0) return diff;
  const found = searching ? searchMatches(lines) : undefined;
  if (found) {
    const others = found.others
      .slice(0, 2)
      .map((line) => oneLine(line, Math.min(MAX_LINE, Math.floor(room.chars / 4))));
    return [...others, ...grepDigest(found.matches, roomAfter(room, others))];
  }
  const listing = listingOf(lines);
  if (listing) return listingDigest(listing, room);
  const shape = jsonShape(body, { lines: 4, chars: Math.floor(room.chars / 2) });
  const ends = shape.length > 0 ? { head: 0, tail: 0 } : { head: 3, tail: 3 };
  return [...shape, ...excerpt(lines, roomAfter(room, shape), ends)];
}

/** The file that a command does nothing but show, and the number of the first line shown. */
function shownFile(command: string): { path: string; firstLine: number } | undefined {
  const plain = command
    .slice(0, 1000)
    .trim()
    .replace(/^cd [^\s;&|]+ && /, "")
    .replace(/ \| head(?: -n?\s?\d+)?$/, "");
  const match =
    /^(?:cat|head(?: -n?\s?\d+)?|sed -n ['"]?(\d+),\d+p['"]?) (?:"([^"]+)"|'([^']+)'|([^\s;&|<>"'`$*-][^\s;&|<>"'`$*]*))$/.exec(
      plain,
    );
  const path = match?.[2] ?? match?.[3] ?? match?.[4];
  return path === undefined ? undefined : { path, firstLine: match?.[1] === undefined ? 1 : Number(match[1]) };
}

/** What a successful `edit` or `write` did, as far as its arguments are too long to be read in the call. */
function digestChange(call: CapturedToolCall, body: string): string[] {
  const content = stringArg(call.args, "content");
  const lines =
    body.length > PLAIN_REPLY
      ? (wholeIfShort(body, MAX_DIGEST) ?? digestText(body.split("\n"), body, MAX_DIGEST, false))
      : [];
  if (lines.length > 0) return lines;
  if (call.toolName === "write") {
    if (content === undefined || content.length <= SHORT_ARGUMENT) return [];
    const chars = Math.min(MAX_DIGEST.chars, Math.max(FLOOR, Math.ceil(content.length * SHARE)));
    const heading = `wrote ${count(countLines(content), "line")}:`;
    const path = stringArg(call.args, "path", "file_path") ?? "";
    return [heading, ...outline(path, content, roomAfter({ lines: MAX_DIGEST.lines, chars }, [heading]))];
  }
  const edits = editsOf(call.args);
  const size = edits.reduce((sum, edit) => sum + edit.oldText.length + edit.newText.length, 0);
  if (size <= SHORT_ARGUMENT) return [];
  const shown = edits.slice(0, edits.length > 6 ? 5 : 6).map(sketchEdit);
  return edits.length > shown.length ? [...shown, `… ${edits.length - shown.length} more edits`] : shown;
}

interface Edit {
  oldText: string;
  newText: string;
}

function editsOf(args: Record<string, unknown>): Edit[] {
  const list: unknown[] = Array.isArray(args.edits) ? args.edits : [args];
  return list.filter(isEdit);
}

function isEdit(value: unknown): value is Edit {
  return (
    typeof value === "object" &&
    value !== null &&
    "oldText" in value &&
    "newText" in value &&
    typeof value.oldText === "string" &&
    typeof value.newText === "string"
  );
}

/** The first line that an edit changes, before and after, and how many lines it takes and gives. */
function sketchEdit({ oldText, newText }: Edit): string {
  const before = oldText.split("\n");
  const after = newText.split("\n");
  let first = 0;
  while (first < before.length && first < after.length && before[first] === after[first]) first++;
  const quote = (line: string | undefined) => (line === undefined ? "(end)" : `"${oneLine(line, 36)}"`);
  const sizes = `${before.length} → ${count(after.length, "line")}`;
  return cut(`${sizes}: ${quote(before[first])} → ${quote(after[first])}`, 110);
}

/** `Full output: /tmp/x.log` and its like, in the words of whatever tool. */
const FULL_OUTPUT = /\bfull (?:output|log|results?)\b[^\n/\\]{0,60}(?:\/|[A-Za-z]:\\)/gi;
/** A path has at most 4,096 bytes. */
const MAX_PATH = 4200;
/** Rest of a line that is kept as it is. */
const MAX_REST = 300;

/** The first and the last notice in the text that names the file of a full output, whole. */
function pathNotices(toolName: string, text: string): string[] {
  if (["read", "grep", "find", "ls", "edit", "write"].includes(toolName)) return [];
  const starts = [...text.matchAll(FULL_OUTPUT)].map((match) => match.index);
  const found = [starts[0], starts.at(-1)].filter((start) => start !== undefined);
  const notices = found.map((start) => pathNotice(text, start)).filter((line) => line !== undefined);
  return [...new Set(notices)].map(wellFormed);
}

/** From `start` to the end of the line, or of the string or brackets that the notice stands in; undefined if that is no path. */
function pathNotice(text: string, start: number): string | undefined {
  const end = text.indexOf("\n", start);
  const rest = text.slice(start, Math.min(end < 0 ? text.length : end, start + 2 * MAX_PATH));
  const atLineStart = start === 0 || text[start - 1] === "\n";
  const close = atLineStart && rest.length <= MAX_PATH ? -1 : rest.search(/["\]]/);
  if (close < 0 && rest.length > MAX_PATH) return undefined;
  return close > 0 && (rest[close] === "]" || rest.length > MAX_REST) ? rest.slice(0, close) : rest.trimEnd();
}
