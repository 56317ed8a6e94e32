/** Outlines of files: what a text defines and on which line, by the kind of file that its path names. */

import { oneLine } from "../text/text.js";
import { endsOf, excerpt } from "./excerpt.js";
import { JSON_KEYS, type Language, languageOf, RANKS, type Rank } from "./languages.js";
import { charsOf, packNames, type Room, roomAfter } from "./room.js";
import { jsonShape } from "./shapes.js";

/** Only this much of a line is looked at. */
const LOOKED_AT = 240;

interface Entry {
  line: number;
  rank: Rank;
  /** The line up to its body. */
  long: string;
  /** Line number, and the keyword where it tells something: goes before the name. */
  label: string;
  /** The name, with brackets after a function's. */
  name: string;
}

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
  const result = fit(entries, language?.headings, room);
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

function entriesOf(lines: readonly string[], language: Language, firstLine: number): Entry[] {
  const entries: Entry[] = [];
  let fenced = false;
  lines.forEach((whole, index) => {
    const line = whole.slice(0, LOOKED_AT).trimEnd();
    if (line === "") return;
    if (language.fence?.test(line)) fenced = !fenced;
    if (fenced) return;
    for (const [pattern, rank] of language.rules) {
      const match = pattern.exec(line);
      if (!match) continue;
      entries.push(entryOf(match, line, firstLine + index, rank));
      return;
    }
  });
  return entries;
}

/** Keywords that go without saying next to a name. */
const PLAIN_KINDS = /^(?:function\*?|const|let|var)$/;

function entryOf(match: RegExpExecArray, line: string, number: number, rank: Rank): Entry {
  const { kind, name, call } = match.groups ?? {};
  const label = `L${number} `;
  const plain = kind === undefined || PLAIN_KINDS.test(kind);
  // A bracket after a variable's name opens a function or just an expression.
  const callable = call !== undefined && (!call.includes("=") || /=>|\($/.test(line));
  const signature = line.replace(/\s*(?:\{|=>\s*\{?|=|:)\s*$/, "");
  return {
    line: number,
    rank,
    long: label + oneLine(signature, 110),
    label: plain ? label : `${label}${kind} `,
    name: oneLine(name ?? line, 60) + (plain && callable ? "()" : ""),
  };
}

/** The fullest form that has room: every line written out, else names packed, the most telling ranks first. */
function fit(entries: readonly Entry[], headings: Language["headings"], room: Room): string[] {
  const written = entries.map((entry) => entry.long);
  if (written.length <= room.lines && charsOf(written) <= room.chars) return written;
  if (!headings) {
    const packed = packNames(namesOf(entries), "", room);
    if (packed.hidden === 0) return packed.lines;
  }
  const lines: string[] = [];
  for (const rank of RANKS) {
    const names = namesOf(entries.filter((entry) => entry.rank === rank));
    const heading = headings ? `${headings[rank]}: ` : "";
    lines.push(...packNames(names, heading, roomAfter(room, lines)).lines);
  }
  return lines;
}

function namesOf(entries: readonly Entry[]): string[] {
  return entries.map((entry) => entry.label + entry.name);
}
