/**
 * The mechanical digest: a summary without any model. It quotes and counts, and says nothing that is not in the call,
 * so that a reader can tell whether the original is needed.
 */

import { cut, flatten, hasWords, oneLine, wellFormed, withoutEscapes } from "../text/text.ts";
import type { CapturedBatch, CapturedToolCall } from "../types.ts";
import { argNumber, commandOf, pathOf } from "./arguments.ts";
import { digestChanges } from "./changes.ts";
import { changesFiles } from "./edits.ts";
import { excerpt } from "./excerpt.ts";
import { listingDigest } from "./listings.ts";
import { jobNotice, pathNotices } from "./notices.ts";
import { outline } from "./outline.ts";
import { closingProse, isReport } from "./reports.ts";
import { frameOf, listEntries, saysNothing, type ToolKind, toolKind } from "./result.ts";
import { charsOf, count, MAX_LINE, type Room, roomAfter } from "./room.ts";
import { grepDigest, grepMatches } from "./searches.ts";
import { digestText } from "./texts.ts";
import { numberedText, shownFile } from "./views.ts";

/** Most that a digest takes up, apart from what the tool said about where its full output is. */
export const MAX_DIGEST: Readonly<Room> = { lines: 12, chars: 700 };
/** A digest of a short result is shorter: this share of it, but not less than the floor. */
const SHARE = 0.3;
const FLOOR = 120;
/** What a tool that changes files answers is not longer than this, unless it tells more than that it is done. */
const PLAIN_REPLY = 300;

/** Tools whose outcome says already that nothing was found. */
const SEARCHES: ReadonlySet<ToolKind | undefined> = new Set(["grep", "find", "ls"] as const);

/** One digest for each call of the batch, in order. */
export function digestBatch(batch: CapturedBatch): string[] {
  return batch.toolCalls.map(digestCall);
}

/**
 * The lines that follow a stub's header: at most 12 lines and 700 characters, each line at most 160; the report of a
 * subagent may take more. The header says tool, key argument, size and outcome already. Notices of where a full output
 * is kept come on top, whole. Lines of the result are numbered `L12`, those of a file as in the file. Empty where there
 * is nothing to say.
 */
export function digestCall(call: CapturedToolCall): string {
  const { body, notice, status } = frameOf(call.toolName, plainText(call.resultText));
  const lines: string[] = [];
  if (call.resultImages > 0) lines.push(`${count(call.resultImages, "image")} (recoverable with the ref)`);
  const kept = pathNotices(call.toolName, body);
  if (notice !== undefined)
    kept.push(notice.includes("Full output: ") ? wellFormed(notice) : oneLine(notice, MAX_LINE));
  // Emptied, not removed: the numbers of the other lines must stay.
  const rest = kept.reduce((text, line) => text.replace(line, () => ""), body);
  const job = jobNotice(call.toolName, rest.split("\n"), rest.length);
  if (job !== undefined && !kept.some((line) => line.includes(job))) kept.unshift(job);
  const room = roomAfter(MAX_DIGEST, [...lines, ...kept.map((line) => cut(line, MAX_LINE))]);
  if (isReport(call) && !call.isError) return [...lines, ...closingProse(rest), ...kept].join("\n");
  const share = Math.max(call.isError ? MAX_LINE + 1 : FLOOR, Math.ceil(call.resultText.length * SHARE));
  const own = digestBody(call, rest, { lines: room.lines, chars: Math.min(room.chars, share) });
  lines.push(...own.filter((line) => line !== job));
  // A failed command without output has said all in its status.
  const text = [...lines, ...kept].join("\n");
  return status !== undefined && text === "(no output)" ? "" : text;
}

/** The text without colours and cursor moves: a mark of a test runner must stand where it is looked for. */
export function plainText(text: string): string {
  return withoutEscapes(text);
}

function digestBody(call: CapturedToolCall, body: string, room: Room): string[] {
  const { toolName, args, isError } = call;
  const kind = toolKind(toolName);
  if (!isError && (kind === "edit" || kind === "write" || changesFiles(args))) return digestChanged(call, body);
  if (SEARCHES.has(kind) && saysNothing(body)) return [];
  const whole = wholeIfShort(body, room);
  if (whole) return whole;
  const lines = body.split("\n");
  const command = kind === "shell" ? commandOf(args) : "";
  if (isError) {
    if (body.length < 2 * MAX_LINE && lines.filter(hasWords).length === 1) return [oneLine(body, MAX_LINE)];
    return digestText({
      lines,
      body,
      room,
      command,
      toolName,
      args,
      ends: command ? { head: 1, tail: 4 } : { head: 4, tail: 1 },
      isError,
    });
  }
  switch (kind) {
    case "read": {
      const shown = numberedText(body) ?? { text: body, firstLine: argNumber(args, "offset") };
      return outline(pathOf(args) ?? "", shown.text, room, shown.firstLine);
    }
    case "grep": {
      const matches = grepMatches(lines);
      if (matches.length > 0) return grepDigest(matches, room);
      break;
    }
    case "find":
    case "ls":
      return listingDigest(listEntries(body), room);
  }
  const shown = command === "" ? undefined : shownFile(command, body);
  if (shown) return outline(shown.path, shown.text, room, shown.firstLine);
  return digestText({ lines, body, room, command, toolName, args, ends: { head: 3, tail: 3 } });
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

/** What a call did to files, and what the tool says of it besides that it is done. */
function digestChanged({ args, toolName }: CapturedToolCall, body: string): string[] {
  const changes = digestChanges(args, MAX_DIGEST);
  if (body.length <= PLAIN_REPLY) return changes;
  const room = roomAfter(MAX_DIGEST, changes);
  if (changes.length > 0) return [...changes, ...excerpt(body.split("\n"), room, { head: 0, tail: 0 })];
  const lines = body.split("\n");
  return (
    wholeIfShort(body, room) ??
    digestText({ lines, body, room, command: "", toolName, args, ends: { head: 3, tail: 3 } })
  );
}
