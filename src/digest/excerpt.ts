/** The telling lines of any text: its errors, its summary, its end and its beginning, with their numbers. */

import { cut, hasWords, oneLine, sliceText, wellFormed } from "../text/text.ts";
import { type FoundError, findErrors, findSummaries, isStackFrame, placeBeside } from "./errors.ts";
import { findFailedTests } from "./failures.ts";
import { MAX_LINE, type Room } from "./room.ts";

/** Lines that are wanted from each end of a text. */
export interface Ends {
  head: number;
  tail: number;
}

/** A line is rather left out than cut shorter than this. */
const MIN_WIDTH = 60;

/** Tests that are shown with what they failed by. */
const MAX_FAILED_TESTS = 4;

/** Lines gathered in order of importance and given back in order of appearance, as far as there is room. */
class Excerpt {
  private readonly picks = new Map<string, { line: number; column: number; text: string }>();
  private chars = 0;

  constructor(
    private readonly room: Room,
    private readonly firstLine: number,
  ) {}

  add(line: number, column: number, words: string, suffix = ""): void {
    const key = `${line}:${column}`;
    if (words === "" || this.picks.has(key) || this.picks.size >= this.room.lines) return;
    const label = `L${this.firstLine + line} `;
    const left = Math.min(MAX_LINE, this.room.chars - this.chars - 1) - label.length - suffix.length;
    if (left < Math.min(words.length, MIN_WIDTH)) return;
    const text = `${label}${cut(words, left)}${suffix}`;
    this.picks.set(key, { line, column, text });
    this.chars += text.length + 1;
  }

  lines(): string[] {
    return [...this.picks.values()].sort((a, b) => a.line - b.line || a.column - b.column).map((pick) => pick.text);
  }
}

/**
 * The telling lines of a text, as `L12 text`. Errors come first when room is short: one line for each kind, the last
 * kinds too. `firstLine` is the number of the text's first line.
 */
export function excerpt(lines: readonly string[], room: Room, ends: Ends, firstLine = 1): string[] {
  const result = new Excerpt(room, firstLine);
  const errors = findErrors(lines);
  const summaries = findSummaries(lines, 3);
  const strong = errors.filter((error) => error.strong);
  const weak = errors.filter((error) => !error.strong);
  const chosen = strong.length <= 6 ? strong : [...strong.slice(0, 4), ...strong.slice(-2)];
  const addError = (error: FoundError) => {
    const place = error.strong ? placeBeside(lines, error.line) : undefined;
    // Those of the same kind may be shown too, so the number is that of the whole text.
    const alike = error.alike > 0 ? ` (1 of ${error.alike + 1})` : "";
    result.add(error.line, error.column, error.text, `${place ? ` @ ${wellFormed(place)}` : ""}${alike}`);
  };
  const width = widthFor(room, ends, lines.length);
  const failures = findFailedTests(lines);
  for (const { line, assertion } of failures.slice(0, MAX_FAILED_TESTS)) {
    result.add(line, 0, oneLine(lines[line] ?? "", width));
    const place = assertion && placeBeside(lines, assertion.line);
    if (assertion) result.add(assertion.line, 0, assertion.text, place ? ` @ ${wellFormed(place)}` : "");
  }
  chosen.slice(0, 3).forEach(addError);
  for (const index of summaries) result.add(index, 0, oneLine(lines[index] ?? "", width));
  addTail(result, lines, Math.min(1, ends.tail), width);
  chosen.slice(3).forEach(addError);
  if (strong.length > 0 && strong.length < 4) {
    for (const { others } of strong) for (const other of others) result.add(other.line, other.column, other.text);
  }
  addTail(result, lines, strong.length > 0 ? Math.min(2, ends.tail) : ends.tail, width);
  // Next to an error only warnings tell more.
  const doubtful = strong.length > 0 ? weak.filter((error) => /warn|deprecat/i.test(error.text)).slice(0, 1) : weak;
  doubtful.slice(0, 3).forEach(addError);
  // What stands first is seldom what is looked for in a text that has errors or a summary.
  const head =
    strong.length > 0 ? Math.min(1, ends.head - 1) : summaries.length > 0 ? Math.min(1, ends.head) : ends.head;
  addHead(result, lines, head, width);
  return result.lines();
}

/** The first and last lines of a text that have words in them, as `L12 text`. */
export function endsOf(lines: readonly string[], room: Room, ends: Ends, firstLine = 1): string[] {
  const result = new Excerpt(room, firstLine);
  addHead(result, lines, ends.head, widthFor(room, ends, lines.length));
  addTail(result, lines, ends.tail, widthFor(room, ends, lines.length));
  return result.lines();
}

/** Width of one line such that all that are wanted find room, labels included. */
function widthFor(room: Room, ends: Ends, lines: number): number {
  const wanted = Math.max(1, Math.min(lines, ends.head + ends.tail));
  return Math.min(MAX_LINE - 10, Math.max(MIN_WIDTH, Math.floor(room.chars / wanted) - 8));
}

function addHead(result: Excerpt, lines: readonly string[], wanted: number, width: number): void {
  for (let i = 0, found = 0; i < lines.length && found < wanted; i++) {
    const line = lines[i] ?? "";
    if (!hasWords(line)) continue;
    found++;
    result.add(i, 0, oneLine(line, width));
  }
}

function addTail(result: Excerpt, lines: readonly string[], wanted: number, width: number): void {
  for (let i = lines.length - 1, found = 0; i >= 0 && found < wanted; i--) {
    const line = lines[i] ?? "";
    if (!hasWords(line.slice(-400)) || isStackFrame(line)) continue;
    found++;
    // Of a line too long to show, the end is what the text ends with.
    const from = line.length > 2000 ? line.length - width + 10 : 0;
    const words = from === 0 ? line : `…${sliceText(line, from, line.length)}`;
    result.add(i, from, oneLine(words, width));
  }
}
