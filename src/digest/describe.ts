/** What a call was and what came of it, in a few words each: the header of a stub. */

import { isRecord } from "../text/json.ts";
import { cut, cutStart, flatten, oneLine, sliceText, withoutEscapes } from "../text/text.ts";
import type { CapturedToolCall } from "../types.ts";
import { argName, argNumber, argText, commandOf, pathOf } from "./arguments.ts";
import { changesOf } from "./edits.ts";
import { gradeLine } from "./errors.ts";
import { countLines, frameOf, listEntries, parseGrepLine, saysNothing, toolKind } from "./result.ts";
import { count } from "./room.ts";

const MAX_CALL = 100;
const MAX_OUTCOME = 80;
/** Characters of a tool's name that are shown; of a longer one the end, since servers put their own name first. */
const MAX_NAME = 40;
/** Arguments that tell most about a tool nobody has described to us, best first; names as `argName` gives them. */
const TELLING = ["path", "filepath", "absolutepath", "targetfile", "url", "query", "pattern", "command", "name"];
/** Lists of things to do at once: the first says what the call is about. */
const LISTS = ["queries", "requests", "commands", "tasks"];
/** Arguments that hold what is looked for rather than a place: quoted, as they may be of several words. */
const QUOTED = ["query", "pattern"];

/**
 * Tool name and key argument in one line of at most 100 characters, well-formed and without control characters.
 * A range of `read` is written as pi shows it: `src/app.ts:10-59` are the lines from 10 to 59.
 */
export function describeCall(toolName: string, args: Record<string, unknown>, max = MAX_CALL): string {
  const name = cutStart(flatten(toolName.slice(-400)), Math.min(MAX_NAME, max)) || "tool";
  const text = `${name} ${describeArgs(toolName, args, max - name.length - 1)}`;
  return cut(text.trim(), max);
}

function describeArgs(toolName: string, args: Record<string, unknown>, room: number): string {
  const path = pathOf(args);
  const kind = toolKind(toolName);
  if (kind === "shell") return describeCommand(commandOf(args), room);
  if (kind === "read" && path) return withSuffix(path, readRange(args), room);
  if (kind === "edit" && path) return withSuffix(path, editCount(args), room);
  if (kind === "write" && path) return withSuffix(path, "", room);
  if (kind === "ls") return withSuffix(path ?? "", "", room);
  const pattern = argText(args, "pattern");
  if ((kind === "grep" || kind === "find") && pattern) {
    const glob = kind === "grep" ? argText(args, "glob") : undefined;
    const text = `"${oneLine(pattern, 48)}"`;
    const filter = glob ? ` (${oneLine(glob, 20)})` : "";
    return path ? `${text} in ${withSuffix(path, filter, room - text.length - 4)}` : `${text}${filter}`;
  }
  return describeUnknown(args, room);
}

function withSuffix(path: string, suffix: string, room: number): string {
  const end = sliceText(path, Math.max(0, path.length - 1000), path.length);
  return `${cutStart(flatten(end), room - suffix.length)}${suffix}`;
}

function readRange(args: Record<string, unknown>): string {
  const offset = argNumber(args, "offset");
  const limit = argNumber(args, "limit");
  if (offset === undefined && limit === undefined) return "";
  const first = offset ?? 1;
  return limit === undefined ? `:${first}-` : `:${first}-${first + limit - 1}`;
}

function editCount(args: Record<string, unknown>): string {
  const edits = Array.isArray(args.edits) ? args.edits.length : changesOf(args).length;
  return edits === 0 && !Array.isArray(args.edits) ? "" : ` (${count(edits, "edit")})`;
}

/** A long command loses the folders above the one that it changes to: what it does there is what tells. */
function describeCommand(command: string, room: number): string {
  const flat = oneLine(command, 1000);
  if (flat.length <= room) return flat;
  return cut(flat.replace(/^cd \S{0,400}\/(?=[^/\s]+ (?:&&|;))/, "cd …/"), room);
}

function describeUnknown(args: Record<string, unknown>, room: number): string {
  if (typeof args !== "object" || args === null) return "";
  const rank = (key: string) => (isTelling(key) ? TELLING.indexOf(argName(key)) : TELLING.length);
  const entries = Object.entries(args).sort(([a], [b]) => rank(a) - rank(b));
  const words: string[] = [];
  for (const [key, value] of entries) {
    if (words.length === 3) break;
    const word = describeValue(key, value);
    if (word) words.push(word);
  }
  return cut(words.join(" "), room);
}

function isTelling(key: string): boolean {
  return TELLING.includes(argName(key));
}

function describeValue(key: string, value: unknown): string | undefined {
  const name = argName(key);
  const label = `${oneLine(key, 24)}=`;
  if (typeof value === "number" || typeof value === "boolean") return `${label}${value}`;
  if (Array.isArray(value) && LISTS.includes(name)) return describeFirst(value);
  // Long free text (a body, a script) says little in a few words and would push the rest out.
  if (typeof value !== "string" || value.trim() === "" || (!isTelling(key) && value.length > 80)) return undefined;
  const text = oneLine(value, isTelling(key) ? 90 : 40);
  if (!isTelling(key)) return `${label}"${text}"`;
  return QUOTED.includes(name) ? `"${text}"` : text;
}

/** `"rust async" (1 of 3)`: the first item, by its most telling argument where it is an object. */
function describeFirst(items: readonly unknown[]): string | undefined {
  const [first] = items;
  const text =
    typeof first === "string"
      ? first
      : isRecord(first)
        ? (argText(first, ...TELLING, "description", "prompt", "task", "title") ??
          Object.values(first).find((value): value is string => typeof value === "string"))
        : undefined;
  if (text === undefined || text.trim() === "") return undefined;
  return `"${oneLine(text, 70)}"${items.length > 1 ? ` (1 of ${items.length})` : ""}`;
}

/**
 * What came of a call in one line of at most 80 characters: `ok`, `exit code 1`, `12 matches`, `345 lines`,
 * `error: …`. Counts are of what the result shows.
 */
export function describeOutcome(
  call: Pick<CapturedToolCall, "toolName" | "args" | "resultText" | "isError" | "resultImages">,
): string {
  const { body, notice, status } = frameOf(call.toolName, withoutEscapes(call.resultText));
  const kind = toolKind(call.toolName);
  if (kind === "shell" && status !== undefined) return status;
  if (call.isError) return describeError(call.resultText);
  const images = call.resultImages > 0 ? count(call.resultImages, "image") : "";
  const limited = notice !== undefined && /limit reached/.test(notice) ? " (limit reached)" : "";
  switch (kind) {
    case "read":
      if (images) return images;
      if (body === "") return notice === undefined ? "empty" : "no lines shown";
      return count(countLines(body), "line");
    case "grep":
      return `${describeMatches(body)}${limited}`;
    case "find":
    case "ls": {
      const entries = listEntries(body).length;
      if (entries === 0) return kind === "ls" ? "empty" : "no matches";
      return `${count(entries, "entry", "entries")}${limited}`;
    }
    default:
      return images ? `ok, ${images}` : "ok";
  }
}

function describeMatches(body: string): string {
  if (saysNothing(body)) return "no matches";
  const lines = body.split("\n").filter((line) => line.trim() !== "");
  const matches = lines.filter((line) => parseGrepLine(line) !== undefined).length;
  return matches === 0 ? count(lines.length, "line") : count(matches, "match", "matches");
}

/** The first line that speaks of an error, else the first line. */
function describeError(text: string): string {
  const lines = text.slice(0, 20_000).split("\n");
  const telling = lines.find((line) => gradeLine(line.slice(0, 300)) === 2) ?? lines.find((line) => line.trim() !== "");
  const words = oneLine(telling ?? "", 400).replace(/^error:\s*/i, "");
  return words === "" ? "error" : cut(`error: ${words}`, MAX_OUTCOME);
}
