/** Tests that have failed: the name of each, and the assertion that it failed by. */
import { oneLine } from "../text/text.ts";
import { hasPassed, isSourceLine } from "./errors.ts";

/** Lines beyond this length are no report of a test runner. */
const MAX_LENGTH = 320;
/** Lines below and above a name in which its assertion is looked for; runners differ in where they print it. */
const BELOW = 20;
const ABOVE = 40;
/** Failures that are told apart. */
const MAX_FAILURES = 50;

const FAILED =
  /^\s*(?:[✗✘✖✕❌×]\s+\S|\(fail\)\s|not ok \d|FAIL(?:ED)?[:\s]\s{0,4}\S|--- FAIL: |●\s.{0,200}›)|\.\.\. FAILED$|::\S{1,200} FAILED\b/;
const ASSERTION =
  /\b(?:[A-Z]\w{0,40})?(?:Error|Exception)\b|\bassert|^\s*expect(?:ed)?\b|\bexpected\b|^\s*error:|^E\s{2,}\S|\bpanicked at\b|\bgot\b.{1,120}\bwant\b/i;

/** A test that has failed: index of the line with its name, and what it failed by. */
export interface FailedTest {
  line: number;
  assertion?: { line: number; text: string };
}

/** The failed tests that a runner reports, in order; one that it names twice counts once. */
export function findFailedTests(lines: readonly string[]): FailedTest[] {
  // Biome marks its findings as test runners mark tests, below a ruler of its own.
  if (lines.some((line) => line.length <= MAX_LENGTH && line.includes("━━━━"))) return [];
  const marks = lines.flatMap((line, i) => (isMark(line) ? [i] : [])).slice(0, MAX_FAILURES);
  const taken = new Set<number>();
  const found: FailedTest[] = [];
  for (const [i, line] of marks.entries()) {
    const below = assertionIn(lines, line + 1, Math.min(marks[i + 1] ?? lines.length, line + BELOW), 1);
    const above = below ?? assertionIn(lines, line - 1, Math.max(marks[i - 1] ?? -1, line - ABOVE), -1);
    if (above !== undefined && taken.has(above)) continue;
    if (above !== undefined) taken.add(above);
    found.push(
      above === undefined ? { line } : { line, assertion: { line: above, text: assertionText(lines, above) } },
    );
  }
  return found;
}

function isMark(line: string): boolean {
  return line.length <= MAX_LENGTH && FAILED.test(line) && !hasPassed(line);
}

function assertionIn(lines: readonly string[], from: number, end: number, step: 1 | -1): number | undefined {
  for (let at = from; step > 0 ? at < end : at > end; at += step) {
    const line = lines[at] ?? "";
    if (line.length <= MAX_LENGTH && ASSERTION.test(line) && !isSourceLine(line) && !hasPassed(line)) return at;
  }
  return undefined;
}

/** Jest and bun say what was expected and what came on lines of their own. */
function assertionText(lines: readonly string[], at: number): string {
  const values = lines.slice(at + 1, at + 9).filter((line) => /^\s*(?:Expected|Received|Actual)\b.{0,20}:/.test(line));
  return [lines[at] ?? "", ...values.slice(0, 2)].map((line) => oneLine(line, 120)).join(" ");
}
