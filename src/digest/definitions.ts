/** What a text defines, line by line, as its language has it. */
import { oneLine } from "../text/text.ts";
import { type Language, languageOf, type Rank } from "./languages.ts";

/** Only this much of a line is looked at. */
export const LOOKED_AT = 240;

/** A definition, in the forms that an outline may have room for. */
export interface Entry {
  line: number;
  rank: Rank;
  /** The line up to its body. */
  long: string;
  /** Line number, and the keyword where it tells something: goes before the name. */
  label: string;
  /** The name, with brackets after a function's. */
  name: string;
  /** The name with its parameters, types left out. */
  full: string;
}

/** Lines of a function that may stand whole in an outline. */
const SHORT_FUNCTION = 5;
/** Sections of fewer lines do not tell their size. */
const TOLD_SECTION = 5;

/** The last thing defined in the lines, as a caller would name it; undefined where the language is not known. */
export function enclosingName(path: string, lines: readonly string[]): string | undefined {
  const language = languageOf(path);
  return language?.headings
    ? entriesOf(lines, language, 1).findLast(({ name }) => /^[\w#$]/.test(name) && !/^default\b/.test(name))?.name
    : undefined;
}

/** The definitions of a text whose first line has the number `firstLine`. */
export function entriesOf(lines: readonly string[], language: Language, firstLine: number): Entry[] {
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
    full: oneLine(name ?? line, 60) + (plain && callable ? parametersOf(line, name) : ""),
  };
}

/** `(path, options)` of a line that opens a function, types and defaults left out; `()` where the line does not hold them all. */
function parametersOf(line: string, name = ""): string {
  const open = line.indexOf("(", line.indexOf(name));
  const words: string[] = [];
  let depth = 0;
  let start = open + 1;
  for (let at = open; open >= 0 && at < line.length; at++) {
    const char = line.charAt(at);
    if ("([{<".includes(char)) depth++;
    else if (")]}".includes(char) || (char === ">" && line[at - 1] !== "=")) depth--;
    if (depth > 1 || (depth === 1 && char !== ",")) continue;
    words.push(/^\s*(?:(?:public|private|readonly|mut)\s)?\s*([\w$.*&]{1,40})/.exec(line.slice(start, at))?.[1] ?? "");
    if (depth === 0) return `(${words.filter((word) => word !== "").join(", ")})`;
    start = at + 1;
  }
  return "()";
}

/** A section says how many lines it has up to the next heading. */
export function tellSizes(entries: readonly Entry[], language: Language, end: number): void {
  if (!language.fence) return;
  for (const [i, entry] of entries.entries()) {
    const size = (entries[i + 1]?.line ?? end) - entry.line - 1;
    if (size >= TOLD_SECTION) entry.long += ` (${size} lines)`;
  }
}

/** A function of a few lines in one; undefined where it is longer, or its end is not to be seen. */
export function shortFunction(lines: readonly string[], start: number): string | undefined {
  const first = lines[start] ?? "";
  const indent = /^\s*/.exec(first.slice(0, LOOKED_AT))?.[0] ?? "";
  const isBlock = /[{(]\s*$/.test(first.slice(-40));
  if (!isBlock && !/:\s*$/.test(first.slice(-40))) return undefined;
  for (let at = start + 1; at < Math.min(lines.length + 1, start + SHORT_FUNCTION + 1); at++) {
    const line = lines[at] ?? "";
    const isInside = line.startsWith(`${indent} `) || line.startsWith(`${indent}\t`);
    if (isInside || (line.trim() === "" && at < lines.length)) continue;
    const closes = isBlock && line.startsWith(`${indent}}`);
    if (isBlock && (!closes || /[{(]\s*$/.test(line))) return undefined;
    if (at - start + (closes ? 1 : 0) > SHORT_FUNCTION) return undefined;
    const whole = lines.slice(start, closes ? at + 1 : at).map((part) => part.slice(0, LOOKED_AT).trim());
    return whole.filter((part) => part !== "").join(" ");
  }
  return undefined;
}
