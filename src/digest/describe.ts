/** What a call was and what came of it, in a few words each: the header of a stub. */

import { cut, cutStart, flatten, numberArg, oneLine, sliceText, stringArg } from "../text/text.js";
import type { CapturedToolCall } from "../types.js";
import { gradeLine } from "./errors.js";
import { countLines, frameOf, isShell, listEntries, parseGrepLine, saysNothing } from "./result.js";
import { count } from "./room.js";

const MAX_CALL = 100;
const MAX_OUTCOME = 80;
/** Arguments that tell most about a tool nobody has described to us, best first. */
const TELLING = ["path", "file_path", "url", "query", "pattern", "command", "name"];
/** Arguments that hold what is looked for rather than a place: quoted, as they may be of several words. */
const QUOTED = ["query", "pattern"];

/**
 * Tool name and key argument in one line of at most 100 characters, well-formed and without control characters.
 * A range of `read` is written as pi shows it: `src/app.ts:10-59` are the lines from 10 to 59.
 */
export function describeCall(toolName: string, args: Record<string, unknown>): string {
  const name = oneLine(toolName, 40) || "tool";
  const text = `${name} ${describeArgs(toolName, args, MAX_CALL - name.length - 1)}`;
  return cut(text.trim(), MAX_CALL);
}

function describeArgs(toolName: string, args: Record<string, unknown>, room: number): string {
  const path = stringArg(args, "path", "file_path");
  if (isShell(toolName)) return describeCommand(stringArg(args, "command") ?? "", room);
  if (toolName === "read" && path) return withSuffix(path, readRange(args), room);
  if (toolName === "edit" && path) return withSuffix(path, editCount(args), room);
  if (toolName === "write" && path) return withSuffix(path, "", room);
  if (toolName === "ls") return withSuffix(path ?? "", "", room);
  const pattern = stringArg(args, "pattern");
  if ((toolName === "grep" || toolName === "find") && pattern) {
    const glob = toolName === "grep" ? stringArg(args, "glob") : undefined;
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
  const offset = numberArg(args, "offset");
  const limit = numberArg(args, "limit");
  if (offset === undefined && limit === undefined) return "";
  const first = offset ?? 1;
  return limit === undefined ? `:${first}-` : `:${first}-${first + limit - 1}`;
}

function editCount(args: Record<string, unknown>): string {
  if (Array.isArray(args.edits)) return ` (${count(args.edits.length, "edit")})`;
  return typeof args.oldText === "string" ? " (1 edit)" : "";
}

/** A long command loses the folders above the one that it changes to: what it does there is what tells. */
function describeCommand(command: string, room: number): string {
  const flat = oneLine(command, 1000);
  if (flat.length <= room) return flat;
  return cut(flat.replace(/^cd \S{0,400}\/(?=[^/\s]+ (?:&&|;))/, "cd …/"), room);
}

function describeUnknown(args: Record<string, unknown>, room: number): string {
  if (typeof args !== "object" || args === null) return "";
  const rank = (key: string) => (TELLING.includes(key) ? TELLING.indexOf(key) : TELLING.length);
  const entries = Object.entries(args).sort(([a], [b]) => rank(a) - rank(b));
  const words: string[] = [];
  for (const [key, value] of entries) {
    if (words.length === 3) break;
    const word = describeValue(key, value);
    if (word) words.push(word);
  }
  return cut(words.join(" "), room);
}

function describeValue(key: string, value: unknown): string | undefined {
  const telling = TELLING.includes(key);
  const label = `${oneLine(key, 24)}=`;
  if (typeof value === "number" || typeof value === "boolean") return `${label}${value}`;
  // Long free text (a body, a script) says little in a few words and would push the rest out.
  if (typeof value !== "string" || value.trim() === "" || (!telling && value.length > 80)) return undefined;
  const text = oneLine(value, telling ? 90 : 40);
  if (!telling) return `${label}"${text}"`;
  return QUOTED.includes(key) ? `"${text}"` : text;
}

/**
 * What came of a call in one line of at most 80 characters: `ok`, `exit code 1`, `12 matches`, `345 lines`,
 * `error: …`. Counts are of what the result shows.
 */
export function describeOutcome(
  call: Pick<CapturedToolCall, "toolName" | "args" | "resultText" | "isError" | "resultImages">,
): string {
  const { body, notice, status } = frameOf(call.toolName, call.resultText);
  if (isShell(call.toolName) && status !== undefined) return status;
  if (call.isError) return describeError(call.resultText);
  const images = call.resultImages > 0 ? count(call.resultImages, "image") : "";
  const limited = notice !== undefined && /limit reached/.test(notice) ? " (limit reached)" : "";
  switch (call.toolName) {
    case "read":
      if (images) return images;
      if (body === "") return notice === undefined ? "empty" : "no lines shown";
      return count(countLines(body), "line");
    case "grep":
      return `${describeMatches(body)}${limited}`;
    case "find":
    case "ls": {
      const entries = listEntries(body).length;
      if (entries === 0) return call.toolName === "ls" ? "empty" : "no matches";
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
