/** Reports of subagents: a whole run was paid for them, so that they keep what they conclude with. */
import { sliceText, wellFormed, withoutEscapes } from "../text/text.ts";
import type { CapturedToolCall } from "../types.ts";

/** Characters of a report's end that stay. */
const MAX_CLOSING = 1_500;
/** Paragraphs begin within this distance of the cut where they can. */
const PARAGRAPH = 500;

/** The call has another agent do some work and answers with its report. */
export function isReport({ toolName }: Pick<CapturedToolCall, "toolName">): boolean {
  return /^(?:(?:run|spawn|dispatch|call)_?)?(?:sub_?)?(?:agent|task)s?$/i.test(toolName);
}

/** The end of a report, from the beginning of a paragraph or a line on; the whole of a short one. */
export function closingProse(text: string): string[] {
  const plain = wellFormed(withoutEscapes(text)).trim();
  const from = plain.length - MAX_CLOSING;
  if (from <= 0) return linesOf(plain);
  const paragraph = plain.indexOf("\n\n", from);
  const line = plain.indexOf("\n", from);
  const start =
    paragraph >= 0 && paragraph < from + PARAGRAPH ? paragraph : line >= 0 && line < from + PARAGRAPH ? line : from;
  return [`… ${linesOf(sliceText(plain, start, plain.length)).join("\n")}`];
}

function linesOf(text: string): string[] {
  const lines = text.split("\n").map((line) => line.replace(/[\p{Cc}\u2028\u2029]+/gu, " ").trimEnd());
  return lines.filter((line) => line.trim() !== "");
}
