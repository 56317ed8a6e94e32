/** Outlines of files: what a text defines and on which line, by the kind of file that its path names. */

import { oneLine } from "../text/text.ts";
import { type Entry, entriesOf, LOOKED_AT, shortFunction, tellSizes } from "./definitions.ts";
import { endsOf, excerpt } from "./excerpt.ts";
import { jsonShape } from "./json.ts";
import { JSON_KEYS, type Language, languageOf, RANKS } from "./languages.ts";
import { countLines } from "./result.ts";
import { charsOf, MAX_LINE, packNames, type Room, roomAfter } from "./room.ts";

/**
 * What a file's text defines, with line numbers (`firstLine` is the number of its first line). Definitions are written
 * out where there is room, and packed by name where there is not. A text that defines nothing gives its first and last lines.
 */
export function outline(path: string, text: string, room: Room, firstLine = 1): string[] {
  const language = languageOf(path);
  if (language === JSON_KEYS) {
    const shape = jsonShape(text, { lines: 4, chars: room.chars });
    if (shape.length > 0) return shape;
  }
  const lines = text.split("\n");
  const entries = language ? entriesOf(lines, language, firstLine) : [];
  if (/\.(?:log|out|txt)$/i.test(path)) return excerpt(lines, room, { head: 3, tail: 3 }, firstLine);
  if (entries.length === 0) return endsOf(lines, room, { head: 3, tail: 3 }, firstLine);
  if (language && !language.headings) tellSizes(entries, language, firstLine + countLines(text));
  const result = fit(entries, language?.headings, room, (entry) => shortFunction(lines, entry.line - firstLine));
  const rest = roomAfter(room, result);
  const left = { ...rest, lines: Math.min(3, rest.lines) };
  if (left.lines < 1 || left.chars < 60) return result;
  const more = language?.headings ? todos(lines, left, firstLine) : [];
  return more.length > 0 || entries.length > 2
    ? [...result, ...more]
    : [...result, ...sparse(lines, entries, left, firstLine)];
}

/** Of a text with hardly a definition in it, also its beginning and its end. */
function sparse(lines: readonly string[], entries: readonly Entry[], room: Room, firstLine: number): string[] {
  const taken = new Set(entries.map((entry) => entry.line - firstLine));
  const others = lines.map((line, index) => (taken.has(index) ? "" : line));
  return endsOf(others, room, { head: Math.min(2, room.lines), tail: room.lines > 2 ? 1 : 0 }, firstLine);
}

function todos(lines: readonly string[], room: Room, firstLine: number): string[] {
  const found: string[] = [];
  let left = room.chars;
  for (let i = 0; i < lines.length && found.length < Math.min(2, room.lines); i++) {
    const match = /\b(?:TODO|FIXME|XXX|HACK)\b.{0,200}/.exec((lines[i] ?? "").slice(0, LOOKED_AT));
    if (!match) continue;
    const text = `L${firstLine + i} ${oneLine(match[0], 90)}`;
    if (text.length + 1 > left) break;
    left -= text.length + 1;
    found.push(text);
  }
  return found;
}

/** The fullest form that has room: every line written out, else names packed, the most telling ranks first. */
function fit(
  entries: readonly Entry[],
  headings: Language["headings"],
  room: Room,
  bodyOf: (entry: Entry) => string | undefined,
): string[] {
  const written = entries.map((entry) => entry.long);
  if (written.length <= room.lines && charsOf(written) <= room.chars) {
    return headings ? withBodies(entries, written, room, bodyOf) : written;
  }
  if (!headings) {
    const packed = packNames(namesOf(entries), "", room);
    if (packed.hidden === 0) return packed.lines;
  }
  const full = packRanks(entries, headings, room, fullNamesOf);
  return full.hidden === 0 ? full.lines : packRanks(entries, headings, room, namesOf).lines;
}

function packRanks(
  entries: readonly Entry[],
  headings: Language["headings"],
  room: Room,
  name: (entries: readonly Entry[]) => string[],
): { lines: string[]; hidden: number } {
  const lines: string[] = [];
  let hidden = 0;
  for (const rank of RANKS) {
    const names = name(entries.filter((entry) => entry.rank === rank));
    const packed = packNames(names, headings ? `${headings[rank]}: ` : "", roomAfter(room, lines));
    lines.push(...packed.lines);
    hidden += packed.hidden;
  }
  return { lines, hidden };
}

/** Short functions are written out in the room that the definitions leave. */
function withBodies(
  entries: readonly Entry[],
  written: readonly string[],
  room: Room,
  bodyOf: (entry: Entry) => string | undefined,
): string[] {
  let left = room.chars - charsOf(written);
  return entries.map((entry, i) => {
    const line = written[i] ?? "";
    const body = bodyOf(entry);
    const whole = body === undefined ? line : `L${entry.line} ${oneLine(body, MAX_LINE)}`;
    const isWhole = body !== undefined && body.length < MAX_LINE - 10;
    if (!isWhole || whole.length > MAX_LINE || whole.length - line.length > left) return line;
    left -= Math.max(0, whole.length - line.length);
    return whole;
  });
}

function namesOf(entries: readonly Entry[]): string[] {
  return entries.map((entry) => entry.label + entry.name);
}

function fullNamesOf(entries: readonly Entry[]): string[] {
  return entries.map((entry) => entry.label + entry.full);
}
