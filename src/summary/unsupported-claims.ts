/** Whether a summary names paths and numbers that stand nowhere in what it was made from. */

import { describeOutcome } from "../digest/describe.ts";
import type { CapturedBatch, CapturedToolCall } from "../types.ts";

/**
 * Words joined by slashes, which may be a path; in ASCII, so that it ends where other scripts go on. A word or a row of
 * slashes is tried from its beginning alone: a long one would else take the square of its length.
 */
const PATH = /(?:(?<![\w@.~+-])[\w@.~+-]+|(?<![A-Za-z])[A-Za-z]:)?(?<![\\/])(?:[\\/]+[\w@.~+-]+)+/g;
/** Numbers with the separators that stand between their digits. */
const NUMBER = /\d+(?:[,_.]\d+)*/g;
/** Smaller numbers are counts that a reader may well have made. */
const MIN_DIGITS = 3;
/** A longer path is known only where it stands word for word. */
const MAX_PATH_CHARS = 1_000;
/** Characters of the batch that all checks of it may search: about a second of work. */
const MAX_SEARCHED_CHARS = 500_000_000;
/** Levels of nested arguments that are looked at. */
const MAX_ARGUMENT_DEPTH = 50;

/** The paths and numbers of a text that stand nowhere in what it was made from, in their order. */
export type FindUnsupported = (summary: string) => string[];

/**
 * Made once for a batch, whose outputs may be long. What has not been found once its work is used up is unsupported.
 * @param shown what the summariser was shown, which may hold figures of its own
 */
export function unsupportedClaims(
  batch: Pick<CapturedBatch, "assistantText" | "toolCalls">,
  shown = "",
): FindUnsupported {
  const known = [shown, batch.assistantText, ...batch.toolCalls.map(knownText)].join("\n");
  const plain = lazily(() => withoutSeparators(known));
  const slashed = lazily(() => withSlashes(known));
  const places = lazily(() => batch.toolCalls.map(placesOf));
  let searched = 0;
  const holds = (text: string, part: string) => {
    if (searched > MAX_SEARCHED_CHARS) return false;
    const at = text.indexOf(part);
    searched += (at < 0 ? text.length : at) + part.length;
    return at >= 0;
  };
  const isWord = remembered((word) => holds(slashed(), word));
  const isKnownPath = remembered(
    (path) =>
      holds(known, path) ||
      (path.length <= MAX_PATH_CHARS && partsOf(path).every((p) => isWord(p) || joins(p, places(), holds))),
  );
  const isKnownNumber = remembered(
    (number) =>
      holds(known, number) ||
      holds(plain(), withoutSeparators(number)) ||
      (/[,_]/.test(number) && number.split(/[,_]/).every((part) => isSmall(part) || holds(plain(), part))),
  );
  return (summary) => {
    const paths: string[] = [];
    const rest = summary.replace(PATH, (word) => {
      const path = trimEnd(word, ".-~@+");
      if (!isPath(path, isWord)) return word;
      if (!isKnownPath(path)) paths.push(path);
      return " ";
    });
    const numbers = (rest.match(NUMBER) ?? []).filter((number) => !isSmall(number) && !isKnownNumber(number));
    return [...paths, ...numbers];
  };
}

/** Whether a text holds a part. */
type Holds = (text: string, part: string) => boolean;

/** What a summariser was shown of a call, and the figures that it may have read off it. */
function knownText(call: CapturedToolCall): string {
  const lines = call.resultText.split("\n").length;
  const figures = `${call.resultText.length} ${lines} ${lines - 1}`;
  return [call.toolName, argumentText(call.args), call.resultText, describeOutcome(call), figures].join("\n");
}

/** Strings as they are, not as JSON writes them; keys and other values too. */
function argumentText(value: unknown, depth = 0): string {
  if (typeof value !== "object" || value === null) return String(value);
  if (depth === MAX_ARGUMENT_DEPTH) return "";
  return Object.entries(value)
    .map(([key, item]) => `${key} ${argumentText(item, depth + 1)}`)
    .join("\n");
}

/** "and/or", "3/5" and "req/s" are none, nor is a list of words that the batch holds. */
function isPath(text: string, isWord: (word: string) => boolean): boolean {
  if (text.length > MAX_PATH_CHARS) return true;
  const path = withSlashes(text);
  const segments = path.split("/").filter((segment) => segment !== "");
  if (segments.every((segment) => /^[\d.]+$/.test(segment))) return false;
  if (/\.[A-Za-z]\w{0,9}$/.test(path) || segments.some((segment) => /^\.\w/.test(segment))) return true;
  if (/^(?:[A-Za-z]:|[.~]*)\//.test(path)) return segments.some((segment) => segment.length > 2);
  return segments.length > 2 && !segments.every(isWord);
}

/** What must be known of a path: a model shortens one at its head, or leaves out its middle. */
function partsOf(path: string): string[] {
  return withSlashes(path)
    .split(/\/\.{2,}\//)
    .map((part) => trimEnd(part.replace(/^(?:[.~]*\/)+/, "").replace(/^_+/, ""), "_"))
    .filter((part) => part !== "");
}

/** The arguments and the output of a call, where a folder and the names in it may stand. */
interface Places {
  args: string;
  output: string;
}

function placesOf(call: CapturedToolCall): Places {
  return { args: withSlashes(argumentText(call.args)), output: withSlashes(call.resultText) };
}

/** A folder that a call was about, followed by what its output names in that folder. */
function joins(path: string, places: readonly Places[], holds: Holds): boolean {
  const ends = [...path.matchAll(/\//g)].map((match) => match.index);
  return ends.some((end) => {
    const folder = path.slice(0, end);
    const inside = path.slice(end + 1);
    return places.some(({ args, output }) => holds(args, folder) && holds(output, inside));
  });
}

/** Without those of `signs` that it ends with. */
function trimEnd(text: string, signs: string): string {
  let end = text.length;
  while (end > 0 && signs.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

/** Below a hundred, with one decimal at most. */
function isSmall(number: string): boolean {
  return number.replace(/\D/g, "").length < MIN_DIGITS || /^\d{1,2}\.\d$/.test(number);
}

function withoutSeparators(text: string): string {
  return text.replace(/(?<=\d)[,_](?=\d)/g, "");
}

function withSlashes(text: string): string {
  return text.replace(/[\\/]+/g, "/");
}

/** Replies name the same things again and again. */
function remembered(judge: (text: string) => boolean): (text: string) => boolean {
  const known = new Map<string, boolean>();
  return (text) => {
    const verdict = known.get(text) ?? judge(text);
    known.set(text, verdict);
    return verdict;
  };
}

function lazily<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
