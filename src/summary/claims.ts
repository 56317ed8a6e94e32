/** Whether a summary names paths and numbers that stand nowhere in what it was made from. */

import { describeOutcome } from "../digest/describe.js";
import type { CapturedBatch, CapturedToolCall } from "../types.js";

/** Words joined by slashes, which may be a path; in ASCII, so that it ends where other scripts go on. */
const PATH = /(?:[\w@.~+-]+|(?<![A-Za-z])[A-Za-z]:)?(?:[\\/]+[\w@.~+-]+)+/g;
/** Numbers with the separators that stand between their digits. */
const NUMBER = /\d+(?:[,_.]\d+)*/g;
/** Smaller numbers are counts that a reader may well have made. */
const MIN_DIGITS = 3;

/** The paths and numbers of a text that stand nowhere in what it was made from, in their order. */
export type ClaimCheck = (summary: string) => string[];

/**
 * Made once for a batch, whose outputs may be long.
 * @param shown what the summariser was shown, which may hold figures of its own
 */
export function claimCheck(batch: Pick<CapturedBatch, "assistantText" | "toolCalls">, shown = ""): ClaimCheck {
  const known = [shown, batch.assistantText, ...batch.toolCalls.map(knownText)].join("\n");
  const plain = lazily(() => withoutSeparators(known));
  const slashed = lazily(() => withSlashes(known));
  const places = lazily(() => batch.toolCalls.map(placesOf));
  const holdsPath = (path: string) => partsOf(path).every((part) => slashed().includes(part) || joins(part, places()));
  const holdsNumber = (number: string) =>
    known.includes(number) ||
    plain().includes(withoutSeparators(number)) ||
    (/[,_]/.test(number) && number.split(/[,_]/).every((part) => isSmall(part) || plain().includes(part)));
  return (summary) => {
    const words = slashed;
    const paths = (summary.match(PATH) ?? []).map(trimPath).filter((path) => isPath(path, words));
    const rest = summary.replace(PATH, (path) => (isPath(trimPath(path), words) ? " " : path));
    const numbers = (rest.match(NUMBER) ?? []).filter((number) => !isSmall(number));
    return [...paths.filter((path) => !holdsPath(path)), ...numbers.filter((number) => !holdsNumber(number))];
  };
}

/** What a summariser was shown of a call, and the figures that it may have read off it. */
function knownText(call: CapturedToolCall): string {
  const lines = call.resultText.split("\n").length;
  const figures = `${call.resultText.length} ${lines} ${lines - 1}`;
  return [call.toolName, argumentText(call.args), call.resultText, describeOutcome(call), figures].join("\n");
}

/** Strings as they are, not as JSON writes them; keys and other values too. */
function argumentText(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(value);
  return Object.entries(value)
    .map(([key, item]) => `${key} ${argumentText(item)}`)
    .join("\n");
}

/** "and/or", "3/5" and "req/s" are none, nor is a list of words that the batch holds. */
function isPath(text: string, known: () => string): boolean {
  const path = withSlashes(text);
  const segments = path.split("/").filter((segment) => segment !== "");
  if (segments.every((segment) => /^[\d.]+$/.test(segment))) return false;
  if (/\.[A-Za-z]\w{0,9}$/.test(path) || segments.some((segment) => /^\.\w/.test(segment))) return true;
  if (/^(?:[A-Za-z]:|[.~]*)\//.test(path)) return segments.some((segment) => segment.length > 2);
  return segments.length > 2 && !segments.every((segment) => known().includes(segment));
}

/** What must be known of a path: a model shortens one at its head, or leaves out its middle. */
function partsOf(path: string): string[] {
  return withSlashes(path)
    .split(/\/\.{2,}\//)
    .map((part) => part.replace(/^(?:[.~]*\/)+/, "").replace(/^_+|_+$/g, ""))
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
function joins(path: string, places: readonly Places[]): boolean {
  const ends = [...path.matchAll(/\//g)].map((match) => match.index);
  return ends.some((end) => {
    const folder = path.slice(0, end);
    const inside = path.slice(end + 1);
    return places.some(({ args, output }) => args.includes(folder) && output.includes(inside));
  });
}

function trimPath(path: string): string {
  return path.replace(/[.\-~@+]+$/, "");
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

function lazily<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
