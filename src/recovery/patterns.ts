/** Finding lines of an original by a pattern that a model has written. */
import { runInNewContext } from "node:vm";
import { sliceText } from "../text/text.js";
import { pageOf } from "./originals.js";

/** Milliseconds that a pattern may take: a model's regular expression must not be able to hang the host. */
const PATTERN_TIMEOUT_MS = 1_000;
/** Characters of a line that are shown; of a longer one, those around the first match. */
const MAX_LINE_CHARS = 1_000;

/** Lines of a text that match a pattern, each headed by its number. */
export interface Matches {
  body: string;
  count: number;
  shown: number;
  /** The pattern is no regular expression and was looked for as it stands. */
  asText: boolean;
}

interface Hit {
  line: number;
  /** Where in the line the match begins. */
  at: number;
}

/**
 * The lines that match `pattern`, a regular expression or else plain text, as `12: line`.
 * @throws Error where the pattern takes too long
 */
export function matchesOf(text: string, pattern: string): Matches {
  const lines = text.split(/\r?\n/);
  const expression = compile(pattern);
  const hits = expression ? expressionHits(lines, expression) : textHits(lines, pattern);
  const body = hits.map(({ line, at }) => `${line + 1}: ${excerpt(lines[line] ?? "", at)}`).join("\n");
  const page = pageOf(body, {});
  const shown = page.end === page.total ? hits.length : page.body.split("\n").length - 1;
  return { body: page.body, count: hits.length, shown, asText: expression === undefined };
}

/** Runs in a context of its own, where it can be ended. */
function expressionHits(lines: readonly string[], expression: RegExp): Hit[] {
  const places: unknown = runInNewContext(
    "lines.map((line) => { const match = expression.exec(line); return match ? match.index : -1; })",
    { lines, expression },
    { timeout: PATTERN_TIMEOUT_MS },
  );
  if (!Array.isArray(places)) return [];
  return places.flatMap((at: unknown, line) => (typeof at === "number" && at >= 0 ? [{ line, at }] : []));
}

function textHits(lines: readonly string[], text: string): Hit[] {
  return lines.flatMap((candidate, line) => {
    const at = candidate.indexOf(text);
    return at < 0 ? [] : [{ line, at }];
  });
}

function excerpt(line: string, at: number): string {
  if (line.length <= MAX_LINE_CHARS) return line;
  const start = Math.max(0, at - MAX_LINE_CHARS / 4);
  const end = Math.min(line.length, start + MAX_LINE_CHARS);
  return `${start > 0 ? "…" : ""}${sliceText(line, start, end)}${end < line.length ? "…" : ""}`;
}

/** Models write escapes that Unicode mode forbids; what that takes for an error may be a good expression without it. */
function compile(pattern: string): RegExp | undefined {
  for (const flags of ["u", ""]) {
    try {
      return new RegExp(pattern, flags);
    } catch {
      // The next way of reading it.
    }
  }
  return undefined;
}
