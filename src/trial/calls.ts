/** What a tool call is about: the file it reads or changes, and whether it changes anything at all. */
import { posix } from "node:path";
import { isRecord } from "../text/json.ts";
import { numberArg, oneLine, stringArg } from "../text/text.ts";
import { QUERY_TOOL_NAME } from "../types.ts";

/** A call as models make it. */
export interface Call {
  name: string;
  arguments: Record<string, unknown>;
}

/** One text in the place of another. */
export interface Replacement {
  oldText: string;
  newText: string;
}

/** Tools that only look. A shell is looked at more closely. */
const LOOKUPS = new Set(["read", "grep", "find", "ls", QUERY_TOOL_NAME]);
const SHELLS = new Set(["bash", "powershell", "shell"]);
/** Programs that change nothing, whatever their arguments are. */
const READERS = new Set(
  "cat cd cut diff echo file grep head jq ls nl pwd rg sort stat tail tr tree true uniq wc which".split(" "),
);
const GIT_READERS = new Set(["blame", "diff", "grep", "log", "ls-files", "rev-parse", "show", "status"]);
const MAX_TARGET_CHARS = 120;

export function isShell(tool: string): boolean {
  return SHELLS.has(tool);
}

/** Whether the call leaves everything as it is. A tool that is not known is taken to change something. */
export function changesNothing(call: Call): boolean {
  return LOOKUPS.has(call.name) || (isShell(call.name) && isReadOnly(commandOf(call)));
}

export function commandOf({ arguments: args }: Call): string {
  return stringArg(args, "command", "cmd") ?? "";
}

/** Whether a command line is made of nothing but programs that look. In doubt it is not. */
export function isReadOnly(command: string): boolean {
  const plain = command.replace(/\d?>&\d|\d?>\s*\/dev\/null/g, "").replace(/'[^']*'|"(?:[^"\\$`]|\\.)*"/g, "_");
  if (/[>`$(){}]|<</.test(plain)) return false;
  const parts = plain.split(/&&|\|\||[;|&\n]/).map((part) => part.trim().split(/\s+/));
  return parts.every(([program = "", ...args]) => program === "" || program.startsWith("#") || looks(program, args));
}

function looks(program: string, args: readonly string[]): boolean {
  if (program === "git") return GIT_READERS.has(args.find((arg) => !arg.startsWith("-")) ?? "");
  if (program === "sed") return args[0] === "-n" && !args.some((arg) => arg.startsWith("-i"));
  if (program === "find") return !args.some((arg) => /^-(?:delete|exec|ok|fprint|fls)/.test(arg));
  return READERS.has(program);
}

/** The file that a call names, as an absolute path; `undefined` where it names none. */
export function pathOf({ arguments: args }: Call, cwd: string): string | undefined {
  const path = stringArg(args, "path", "file_path", "filePath");
  return path === undefined ? undefined : posix.resolve(cwd || "/", path.replace(/^@/, ""));
}

/** What an edit replaces, in any of the shapes that tools have had. */
export function replacementsOf({ name, arguments: args }: Call): Replacement[] {
  if (name === "write") return [];
  const many = Array.isArray(args.edits) ? args.edits.filter(isRecord) : [];
  return [args, ...many].flatMap((edit) => {
    const oldText = edit.oldText ?? edit.old_string;
    const newText = edit.newText ?? edit.new_string;
    return typeof oldText === "string" && typeof newText === "string" && oldText !== "" ? [{ oldText, newText }] : [];
  });
}

/** Lines that a read asks for: the first, counted from 1, and how many at most. */
export function rangeOf({ arguments: args }: Call): { offset: number; limit: number | undefined } {
  return { offset: numberArg(args, "offset") ?? 1, limit: numberArg(args, "limit") };
}

/** What a call is about, for people and for comparing: a path below the session's folder, refs, or a command's beginning. */
export function targetOf(call: Call, cwd: string): string {
  const path = pathOf(call, cwd);
  if (path !== undefined) return shortPath(path, cwd);
  if (isShell(call.name)) return oneLine(commandOf(call).replace(/^\s*cd \S+ *(?:&&|;)/, ""), MAX_TARGET_CHARS);
  const refs = call.arguments.toolCallIds;
  if (Array.isArray(refs)) return oneLine(refs.join(", "), MAX_TARGET_CHARS);
  return oneLine(stringArg(call.arguments, "pattern", "query") ?? "", MAX_TARGET_CHARS);
}

export function shortPath(path: string, cwd: string): string {
  return cwd !== "" && path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path;
}

/** What must agree for two calls to be the same step: the file, or of a command each program with its first word. */
export function comparableTarget(tool: string, target: string): string {
  if (!isShell(tool)) return target;
  const programs = target.split(/&&|\|\||[;|\n]/).map((part) => part.trim().split(/\s+/).slice(0, 2).join(" "));
  return programs.filter((program) => !program.startsWith("cd ")).join(" && ");
}
