/** What a tool says of the way to more: files of a full output, jobs that still run. These lines stay whole. */
import { oneLine, wellFormed } from "../text/text.ts";
import { toolKind } from "./result.ts";
import { MAX_LINE } from "./room.ts";

/** `Full output: /tmp/x.log`, `Output is written to /tmp/x.log` and their like, in the words of whatever tool. */
const FULL_OUTPUT =
  /\b(?:full (?:output|log|results?)|output (?:file|path|log)|output (?:is |was )?(?:being )?(?:written|saved|logged|redirected))\b[^\n/\\]{0,60}(?:\/|[A-Za-z]:\\)/gi;
/** `Started in the background with ID: b12`, `job 3 started`, `[1] 4711`. */
const JOB =
  /\b(?:job|task|shell|process|session|agent|background|terminal|bash)(?:[\w ]{0,30}[ _-])?p?id\b["']?\s{0,2}(?:[:=]|is)\s{0,2}["']?[\w.-]{1,80}|\bwith id: ?[\w.-]{1,80}|^\[\d{1,4}\] \d{1,9}$|\bpid:? \d{1,9}\b/i;
/** A path has at most 4,096 bytes. */
const MAX_PATH = 4200;
/** Rest of a line that is kept as it is. */
const MAX_REST = 300;
/** Only short outputs tell of a job that they have started. */
const MAX_JOB_TEXT = 4_000;

/** Tools whose output is that of files: what stands there speaks of other things. */
function isSilent(toolName: string): boolean {
  const kind = toolKind(toolName);
  return kind !== undefined && kind !== "shell";
}

/** The first and the last notice in the text that names the file of a full output, whole. */
export function pathNotices(toolName: string, text: string): string[] {
  if (isSilent(toolName)) return [];
  const starts = [...text.matchAll(FULL_OUTPUT)].map((match) => match.index);
  const found = [starts[0], starts.at(-1)].filter((start) => start !== undefined);
  const notices = found.map((start) => pathNotice(text, start)).filter((line) => line !== undefined);
  return [...new Set(notices)].map(wellFormed);
}

/** The first line that names a job which goes on by itself. */
export function jobNotice(toolName: string, lines: readonly string[], chars: number): string | undefined {
  if (isSilent(toolName) || chars > MAX_JOB_TEXT) return undefined;
  const line = lines.find((text) => text.length <= MAX_REST && JOB.test(text));
  return line === undefined ? undefined : oneLine(line, MAX_LINE);
}

/** From `start` to the end of the line, or of the string or brackets that the notice stands in; undefined if that is no path. */
function pathNotice(text: string, start: number): string | undefined {
  const end = text.indexOf("\n", start);
  const rest = text.slice(start, Math.min(end < 0 ? text.length : end, start + 2 * MAX_PATH));
  const atLineStart = start === 0 || text[start - 1] === "\n";
  const close = atLineStart && rest.length <= MAX_PATH ? -1 : rest.search(/["\]]/);
  if (close < 0 && rest.length > MAX_PATH) return undefined;
  return close > 0 && (rest[close] === "]" || rest.length > MAX_REST) ? rest.slice(0, close) : rest.trimEnd();
}
