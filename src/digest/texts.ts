/** Output of a kind that only its text, and the command behind it, tell. */
import { oneLine } from "../text/text.ts";
import { errorsByFile } from "./compilers.ts";
import { diffDigest, statusDigest } from "./diffs.ts";
import { type Ends, excerpt } from "./excerpt.ts";
import { findFailedTests } from "./failures.ts";
import { jsonShape } from "./json.ts";
import { isListing, listingDigest, listingOf, namesListed } from "./listings.ts";
import { pageDigest } from "./pages.ts";
import { MAX_LINE, type Room, roomAfter } from "./room.ts";
import { grepDigest, searchMatches } from "./searches.ts";
import { sectionDigest } from "./sections.ts";
import { todoDigest } from "./todos.ts";

/** An output, and the call that gave it. */
export interface Output {
  body: string;
  /** The body, line by line. */
  lines: readonly string[];
  room: Room;
  toolName: string;
  args: Record<string, unknown>;
  /** Empty where the tool runs no command. */
  command: string;
  /** Lines that are wanted from each end of a text that has no shape of its own. */
  ends: Ends;
  isError?: boolean;
}

/** The telling part of an output: by its shape where it has one, otherwise its errors, summary and ends. */
export function digestText(output: Output): string[] {
  const { body, lines, room, command, ends } = output;
  if (!output.isError) {
    const shaped = shapedDigest(output);
    if (shaped.length > 0) return shaped;
  }
  const errors = errorsByFile(lines, room);
  const shape = errors.length > 0 ? errors : jsonShape(body, { lines: 4, chars: Math.floor(room.chars / 2) });
  if (shape.length > 0)
    return [...shape, ...excerpt(lines, roomAfter(room, shape), { head: 0, tail: errors.length > 0 ? 1 : 0 })];
  if (!output.isError && (command === "" || /\b(?:curl|wget|gh|pandoc|lynx|man)\b/.test(command))) {
    const page = pageDigest(body, lines, room);
    if (page.length > 0) return page;
  }
  return excerpt(lines, room, ends);
}

function shapedDigest({ lines, room, command, toolName, args }: Output): string[] {
  const diff = diffDigest(lines, room);
  if (diff.length > 0) return diff;
  const isAlone = !/[;&]/.test(command.replace(/^cd [^\s;&|]{1,400} && |2>&1/g, ""));
  if (isAlone && /\bgit (?:\S{1,200} ){0,4}status\b/.test(command)) {
    const status = statusDigest(lines, room);
    if (status.length > 0) return status;
  }
  const found = isSearch(command === "" ? toolName : command) ? searchMatches(lines) : undefined;
  if (found) {
    const width = Math.min(MAX_LINE, Math.floor(room.chars / 4));
    const others = found.others.slice(0, 2).map((line) => oneLine(line, width));
    return [...others, ...grepDigest(found.matches, roomAfter(room, others))];
  }
  const listing = listingOf(lines) ?? (isListing(command) ? namesListed(lines) : undefined);
  if (listing && listing.length > 0) return listingDigest(listing, room);
  const todos = todoDigest(lines, args, room);
  if (todos.length > 0) return todos;
  return findFailedTests(lines).length > 0 ? [] : sectionDigest(lines, room);
}

function isSearch(words: string): boolean {
  return /grep|search|\b(?:rg|ag|ack)\b/i.test(words);
}
