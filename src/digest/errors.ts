/** Finding what went wrong in the output of any tool. One pass over the text; no pattern can backtrack beyond a window. */
import { flatten, oneLine, sliceText } from "../text/text.ts";

/** Lines up to this length are judged as a whole; longer ones by windows around each suspicious word. */
const WHOLE_LINE = 320;
/** Characters of an error that are shown. */
const SHOWN = 150;
/** Distinct kinds of error that are told apart in one text. */
const MAX_KINDS = 500;

/** Anything that may speak of an error. Only literals: the one pattern that runs over whole texts. */
const SUSPICIOUS =
  /error|err!|fail|fatal|panic|exception|traceback|assert|abort|not ok|cannot|can't|could not|couldn't|unable to|not found|no such|denied|refused|undefined ref|unresolved|unexpected|invalid|missing|timed out|timeout|killed|segmentation|unhandled|uncaught|rejected|conflict|out of memory|warn|deprecat|enoent|eacces|econn|eaddrinuse|epipe|etimedout|eperm|eexist|[✗✘✖✕❌×●]/i;

/** "0 failed", "no errors", "errors: 0". */
const NEGATED =
  /\b(?:0|no|zero|without)\s(?:[a-z]{1,12}\s)?(?:errors?|fail[a-z]*|warnings?|problems?|vulnerabilit[a-z]*|conflicts?)\b|\b(?:errors?|fail[a-z]*|warnings?|# fail)["']?\s?[:= ]\s?(?:0|false|null|none)\b/gi;
const PASSED = /^\s*(?:[✓✔√]|ok\b|pass(?:ed)?\b|\(pass\))/i;
const PASSED_BEHIND = /\.{3} ok$|\bPASSED(?:\s{1,40}\[\s{0,3}\d{1,3}%\])?$/;
/** Source code that handles errors. */
const QUOTING =
  /^\s*(?:\d+\s*[│|:]\s*)?(?:(?:throw|import|export|const|let|var|return|if|else|function|async|await|case|try)\b|\}?\s*catch\b|\/\/|\/\*|\*\s)|[{;]\s?(?:throw|const|let|var|return|if|function)\b|=>\s?\{/;
/** What npm prints before each line, and what it says of a script that has failed already. */
const NPM = /^\s{0,8}npm (?:error|ERR!) ?/;
const NPM_EPILOGUE =
  /^(?:code (?:\d|ELIFECYCLE)|errno\b|path\b|workspace\b|location\b|command\b|syscall\b|Lifecycle\b|Exit status\b|Failed at the\b|This is probably\b|in workspace\b|signal\b|A complete log|\S{1,200}: `|\s*$)/;
const NPM_CAUSE =
  /^(?:code E[A-Z0-9]{2,}|\d{3} |ERESOLVE|notarget|enoent|Missing script|No matching version|network|engine)/i;
const STRONG =
  /(?<![a-z/.-])(?:errors?|fatal|panic(?:ked)?|exceptions?|traceback|fail(?:ed|ures?|s|ing)?|not ok|assert(?:ion)?(?:error)?|abort(?:ed)?|segmentation fault|uncaught|unhandled|cannot|can't|could not|couldn't|unable to|no such|permission denied|access denied|command not found|module not found|connection refused|timed out|out of memory|killed|rejected|undefined reference|unresolved|conflict)(?![a-z]|[./-]\w)|err!/i;
/** `TypeError`, `IOException`, `ENOENT`; the marks with which test runners and linters begin a line. */
const STRONG_SHAPE = /[a-z](?:Error|Exception)\b|\bE[A-Z]{4,12}\b(?!_)|^\s*[✗✘✖✕❌×●]\s/;

/** 2: tells of an error; 1: may do, or is a warning; 0: does not. `line` should have at most a few hundred characters. */
export function gradeLine(line: string): 0 | 1 | 2 {
  if (!SUSPICIOUS.test(line) || hasPassed(line)) return 0;
  if (NPM.test(line)) return gradeNpm(line.replace(NPM, ""));
  const rest = line.replace(NEGATED, " ");
  if (!SUSPICIOUS.test(rest)) return 0;
  return !QUOTING.test(rest) && (STRONG.test(rest) || STRONG_SHAPE.test(rest)) ? 2 : 1;
}

/** npm prefixes all that it says of a failure: the cause, and much that tells nothing. */
function gradeNpm(words: string): 0 | 1 | 2 {
  if (NPM_EPILOGUE.test(words)) return 0;
  if (NPM_CAUSE.test(words)) return 2;
  return STRONG.test(words) || STRONG_SHAPE.test(words) ? 2 : 1;
}

/** The line names a test that has passed, whatever its name says. */
export function hasPassed(line: string): boolean {
  return PASSED.test(line) || PASSED_BEHIND.test(line.trimEnd());
}

/** A line of a program that is quoted around an error. */
export function isSourceLine(line: string): boolean {
  return QUOTING.test(line) || /^\s*>?\s*\d{1,6}\s*[│|]/.test(line);
}

/** The first error of its kind in a text. */
export interface FoundError {
  /** Index of its line, and where in the line its window starts. */
  line: number;
  column: number;
  /** The line, or as much of it around the error as is shown. */
  text: string;
  strong: boolean;
  /** Further lines of the same kind: the same words up to a number or a quoted name. */
  alike: number;
  /** The first of those. */
  others: Pick<FoundError, "line" | "column" | "text">[];
}

/** Lines of one kind that are kept besides the first. */
const MAX_OTHERS = 3;

/** Every kind of error in the text, by first appearance. */
export function findErrors(lines: readonly string[]): FoundError[] {
  const kinds = new Map<string, FoundError>();
  const suspicious = new RegExp(SUSPICIOUS.source, "gi");
  lines.forEach((line, index) => {
    if (line.length <= WHOLE_LINE) {
      const at = line.search(SUSPICIOUS);
      if (at >= 0) note(kinds, line, index, at);
      return;
    }
    suspicious.lastIndex = 0;
    for (let match = suspicious.exec(line); match; match = suspicious.exec(line)) {
      note(kinds, line, index, match.index);
      suspicious.lastIndex = match.index + SHOWN;
    }
  });
  return [...kinds.values()];
}

function note(kinds: Map<string, FoundError>, line: string, index: number, at: number): void {
  const whole = line.length <= WHOLE_LINE;
  const column = whole && at < SHOWN - 40 ? 0 : Math.max(0, at - 50);
  const grade = gradeLine(whole ? line : sliceText(line, column, at + SHOWN));
  if (grade === 0) return;
  const key = `${grade}${kindOf(sliceText(line, at, at + 80))}`;
  const known = kinds.get(key);
  if (known) known.alike++;
  if (known ? known.others.length >= MAX_OTHERS : kinds.size >= MAX_KINDS) return;
  const shown = column === 0 ? line : `…${sliceText(line, column, column + 4 * SHOWN)}`;
  const found = { line: index, column, text: oneLine(shown, SHOWN) };
  if (known) {
    // Builds of several packages report one error again and again, by other relative paths.
    const end = found.text.slice(-100);
    if (!known.text.endsWith(end) && !known.others.some((other) => other.text.endsWith(end))) known.others.push(found);
  } else kinds.set(key, { ...found, strong: grade === 2, alike: 0, others: [] });
}

function kindOf(words: string): string {
  const flat = flatten(words).replace(/\b\d+\b/g, "#");
  return /^[^'"`]{0,40}/.exec(flat)?.[0] ?? "";
}

/** What test runners, compilers and package managers end with. */
const SUMMARY =
  /\b\d+ (?:tests? )?(?:passed|passing|pass|failed|failing|fail|skipped|errors?|warnings?|problems?|vulnerabilities)\b|^\s*(?:Tests?(?![/.])|Test Suites|Test Files|Suites|Ran|Found|Checked)\b.{0,80}\d|^# (?:tests|pass|fail) \d|^test result:|^BUILD (?:SUCCESS|FAIL)|\bfiles? changed\b|^(?:added|removed|changed|updated) \d/i;

/** Indexes of the lines that sum up a run of tests or the like; at most `max`, the last ones, repeats left out. */
export function findSummaries(lines: readonly string[], max: number): number[] {
  const found: number[] = [];
  const texts = new Set<string>();
  for (let i = lines.length - 1; i >= 0 && found.length < max; i--) {
    const line = lines[i];
    if (line === undefined || line.length > WHOLE_LINE || !SUMMARY.test(line) || texts.has(line)) continue;
    texts.add(line);
    found.unshift(i);
  }
  return found;
}

/** A place in a file as tools print it: `src/a.ts:12:5`, `src/a.ts(12,5)`, `File "a.py", line 3`. */
const PLACE = /[^\s"'()]{1,200}\.\w{1,12}(?::\d+(?:[:,]\d+)?|\(\d+(?:[:,]\d+)?\))|File "[^"\n]{1,200}", line \d+/;

/** The place that an error line lacks, where a line next to it names one. */
export function placeBeside(lines: readonly string[], index: number): string | undefined {
  if (PLACE.test((lines[index] ?? "").slice(0, WHOLE_LINE))) return undefined;
  for (const near of [index - 1, index - 2, index + 1, index + 2]) {
    const line = lines[near];
    if (line === undefined || line.length > WHOLE_LINE) continue;
    const place = PLACE.exec(line)?.[0];
    if (place) return place.length <= 90 ? place : undefined;
  }
  return undefined;
}

/** A line of a stack trace, below the error that it belongs to. */
export function isStackFrame(line: string): boolean {
  return /^\s+at\s.{0,300}[:(]\w|^\s+File "[^"]{1,200}", line \d/.test(line.slice(0, 400));
}
