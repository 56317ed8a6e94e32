/** The frame that pi's built-in tools put around their output: continuation notices and exit statuses. */

/** Tools by what they do, whatever the agent calls them; names in lower case without separators. */
const KINDS: readonly (readonly [kind: ToolKind, names: string])[] = [
  ["shell", "bash powershell shell runcommand execcommand executecommand runterminalcmd localshell terminal"],
  ["read", "read readfile view viewfile"],
  ["edit", "edit multiedit editfile replacefilecontent strreplace searchreplace applypatch"],
  ["write", "write writefile createfile writetofile"],
  ["grep", "grep grepsearch searchfilecontent"],
  ["find", "find glob filesearch findbyname"],
  ["ls", "ls listdir listdirectory listfiles"],
];

/** What a tool does with files, or that it runs a command. */
export type ToolKind = "shell" | "read" | "edit" | "write" | "grep" | "find" | "ls";

/** The kind of a tool; `undefined` for one that is not known. */
export function toolKind(toolName: string): ToolKind | undefined {
  const name = String(toolName).slice(0, 60).replace(/[_-]/g, "").toLowerCase();
  return KINDS.find(([, names]) => names.split(" ").includes(name))?.[0];
}

/** Tools that run a command and report as pi's `bash` does. */
export function isShell(toolName: string): boolean {
  return toolKind(toolName) === "shell";
}

/** A result's text, taken apart. */
export interface ResultFrame {
  /** The output itself. */
  body: string;
  /** The bracketed notice that follows it ("[45 more lines in file. Use offset=101 to continue.]"). */
  notice?: string;
  /** What a command ended with, without its full stop ("exit code 2"). */
  status?: string;
}

const NOTICE =
  /^\[(?:Showing (?:lines|last) |Line \d+ is |\d+ more lines in file|\d+ (?:matches|results|entries) limit reached|[\d.]+[KM]?B limit reached|Some lines truncated)/;
/** A notice may hold the path of a file, and a path has at most 4,096 bytes. */
const MAX_NOTICE = 5000;

/** Takes the text of a built-in tool's result apart; text of any other kind is all body. */
export function frameOf(toolName: string, text: string): ResultFrame {
  let body = text;
  let status: string | undefined;
  if (isShell(toolName)) {
    const start = body.lastIndexOf("\n", body.trimEnd().length - 1) + 1;
    status = statusOf(body.slice(start, start + 400).trim());
    if (status !== undefined) body = body.slice(0, start).trimEnd();
  }
  const end = body.trimEnd();
  if (!end.endsWith("]")) return { body, status };
  const start = end.lastIndexOf("\n") + 1;
  const notice = end.slice(start);
  if (notice.length > MAX_NOTICE || !NOTICE.test(notice)) return { body, status };
  return { body: body.slice(0, Math.max(0, start - 2)), notice, status };
}

function statusOf(line: string): string | undefined {
  const exit = /^Command exited with code (-?\d{1,12})$/.exec(line);
  if (exit) return `exit code ${exit[1]}`;
  const timeout = /^Command (timed out after [\d.]{1,20} seconds)/.exec(line);
  if (timeout) return timeout[1];
  if (line === "Command aborted") return "aborted";
  return line === "Command terminated without an exit code" ? "terminated without an exit code" : undefined;
}

/** Lines of a text as an editor counts them: a line break at the end opens no further line. */
export function countLines(text: string): number {
  if (text === "") return 0;
  let lines = text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines++;
  return lines;
}

/** A line of `grep` output. */
export interface GrepLine {
  path: string;
  /** Missing where the tool gave none. */
  line?: number;
  text: string;
}

/** Reads `path:12: text` and `path:12:text`; context lines (`path-11- text`) and all others give undefined. */
export function parseGrepLine(line: string): GrepLine | undefined {
  // The path ends before the first `:number:`; beyond this length no path goes.
  const match = /^([^\r]{1,1000}?):(\d{1,9}):/.exec(line.slice(0, 1100));
  if (!match?.[1] || !match[2]) return undefined;
  return { path: match[1], line: Number(match[2]), text: line.slice(match[0].length) };
}

/** What pi's `grep`, `find` and `ls` say instead of an empty list. */
export function saysNothing(body: string): boolean {
  return /^\s*(?:No matches found|No files found matching pattern|\(empty directory\))?\s*$/.test(body.slice(0, 80));
}

/** Entries of a listing, one a line. */
export function listEntries(body: string): string[] {
  if (saysNothing(body)) return [];
  const entries = body.split("\n").map((line) => line.trim());
  return entries.filter((entry) => entry !== "");
}
