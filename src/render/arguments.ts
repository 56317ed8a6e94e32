/** Long strings in the arguments of finished calls, replaced in place by markers; the shape stays as it was. */
import type { CapturedToolCall, ContextPruneConfig } from "../types.ts";

/** Strings under these names say what a call is about, so they stay readable. */
const NAMING_KEYS: ReadonlySet<string> = new Set([
  "path",
  "file_path",
  "filePath",
  "file",
  "filename",
  "paths",
  "cwd",
  "url",
  "pattern",
  "glob",
  "query",
  "name",
  "description",
]);
/** Up to this length; what is longer names nothing. */
const MAX_NAMING_CHARS = 2_000;
/** Characters of a long command that stay in front of its marker. */
const COMMAND_HEAD_CHARS = 200;

/** A marker wherever it stands, also as a model may have copied it: escaped in a script, with other quotes or spaces. */
const MARKER = /<condensed-args\s[^<>]{0,80}?ref\s*=\s*\\*["']?(t\d+)[^<>\n]{0,80}(?:>(?:<\/condensed-args>)?|$)/gm;
/** What may stand on a line beside a marker that is in place of a text: the head of a command, or the quotes of a script. */
const HEAD = /(?:^|… )[\s"'`]*$/;
/** What `replace` gives: it is never condensed again. */
const CONDENSED = /^(?:[\s\S]{0,200}… )?<condensed-args chars="\d+" ref="t\d+"\/>$/;

/** What is replaced, and what by. */
export interface ArgumentOptions {
  /** Ref of the call, at which the originals are found. */
  ref: string;
  minStringChars: number;
}

/** `<condensed-args chars="30000" ref="t12"/>` */
export function argumentMarker(chars: number, ref: string): string {
  return `<condensed-args chars="${chars}" ref="${ref}"/>`;
}

/**
 * The arguments with long strings replaced by markers: every key, JSON type and array length stays. Gives back `args`
 * itself where nothing is long enough, and parts of it by reference where those stay.
 */
export function condenseArguments<T>(args: T, options: ArgumentOptions): T {
  return condense(args, undefined, options) as T;
}

/** Characters that condensing takes off the arguments. */
export function argumentSavings(args: unknown, minStringChars: number): number {
  let savings = 0;
  eachString(args, undefined, (text, key) => {
    savings += text.length - replace(text, key, { ref: "t99999", minStringChars }).length;
  });
  return savings;
}

/** Characters that condensing takes off the arguments of a finished call under the settings, be it later. */
export function callArgumentSavings(
  { args, isError }: Pick<CapturedToolCall, "args" | "isError">,
  { condenseArgs, purgeErrors }: Pick<ContextPruneConfig, "condenseArgs" | "purgeErrors">,
): number {
  const { enabled } = isError ? purgeErrors : condenseArgs;
  return enabled ? argumentSavings(args, isError ? purgeErrors.minArgChars : condenseArgs.minStringChars) : 0;
}

/** A string that condensing replaces, and where in the arguments it stands: `edits[0].oldText`. */
export interface LongArgument {
  at: string;
  text: string;
}

/** The strings of the arguments that condensing replaces, in order. */
export function longArguments(args: unknown, minStringChars: number): LongArgument[] {
  const found: LongArgument[] = [];
  eachString(args, undefined, (text, key, at) => {
    if (replace(text, key, { ref: "t1", minStringChars }) !== text) found.push({ at, text });
  });
  return found;
}

/** The arguments as JSON, with their size in the place of each long string. */
export function shortArguments(args: unknown, minStringChars: number): string {
  const short = (key: string, value: unknown) => {
    if (typeof value !== "string" || replace(value, key, { ref: "t1", minStringChars }) === value) return value;
    return `(${value.length} characters)`;
  };
  return JSON.stringify(args, short, 2);
}

/**
 * Refs of the markers in any string of a value that stand in place of a text: alone in it, or on a line of their own. One
 * within a line is quoted, unless it is all of a text in a command.
 */
export function markerRefs(value: unknown): string[] {
  const refs: string[] = [];
  eachString(value, undefined, (text, key) => {
    for (const { 0: marker, 1: ref, index } of text.matchAll(MARKER)) {
      const before = text.slice(text.lastIndexOf("\n", index - 1) + 1, index);
      const after = text.slice(index + marker.length).split("\n", 1)[0] ?? "";
      const isAlone = HEAD.test(before) && /^[\s"'`;,)]*$/.test(after);
      const isWholeText = key === "command" && /["'`]$/.test(before) && /^["'`]/.test(after);
      if (ref && (isAlone || isWholeText)) refs.push(ref);
    }
  });
  return refs;
}

function condense(value: unknown, key: string | undefined, options: ArgumentOptions): unknown {
  if (typeof value === "string") return replace(value, key, options);
  if (Array.isArray(value)) {
    const items = value.map((item) => condense(item, key, options));
    return items.some((item, i) => !Object.is(item, value[i])) ? items : value;
  }
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  const changed = entries.map(([name, item]): [string, unknown] => [name, condense(item, name, options)]);
  return changed.some(([, item], i) => !Object.is(item, entries[i]?.[1])) ? Object.fromEntries(changed) : value;
}

function replace(text: string, key: string | undefined, { ref, minStringChars }: ArgumentOptions): string {
  if (text.length < minStringChars || CONDENSED.test(text)) return text;
  if (key !== undefined && NAMING_KEYS.has(key) && text.length <= MAX_NAMING_CHARS) return text;
  const marker = argumentMarker(text.length, ref);
  const replaced = key === "command" ? `${head(text)}${marker}` : marker;
  return replaced.length < text.length ? replaced : text;
}

function head(text: string): string {
  return `${text.slice(0, COMMAND_HEAD_CHARS).replace(/[\uD800-\uDBFF]$/, "")}… `;
}

function eachString(
  value: unknown,
  key: string | undefined,
  visit: (text: string, key: string | undefined, at: string) => void,
  at = "",
): void {
  if (typeof value === "string") visit(value, key, at);
  else if (Array.isArray(value)) for (const [i, item] of value.entries()) eachString(item, key, visit, `${at}[${i}]`);
  else if (typeof value === "object" && value !== null) {
    for (const [name, item] of Object.entries(value)) eachString(item, name, visit, at === "" ? name : `${at}.${name}`);
  }
}
