/** Reading the arguments of calls: agents and servers give one thing many names. */
import { isRecord } from "../text/json.ts";
import { numberArg } from "../text/text.ts";

/** Arguments that name the file that a call is about, best first. */
const PATH_NAMES = [
  "path",
  "filepath",
  "absolutepath",
  "targetfile",
  "notebookpath",
  "relativeworkspacepath",
  "file",
  "filename",
  "uri",
];
const COMMAND_NAMES = ["command", "cmd", "commandline", "script"];

/** The name of an argument without case and separators: `file_path`, `filePath` and `FilePath` are one. */
export function argName(key: string): string {
  return /^[a-z]*$/.test(key) ? key : key.replace(/[_-]/g, "").toLowerCase();
}

/** The first of the named arguments that is a non-blank string; names as `argName` gives them, best first. */
export function argText(args: Record<string, unknown>, ...names: string[]): string | undefined {
  const entries = argsNamed(args, names);
  return entries.filter(isText).find((value) => value.trim() !== "");
}

/** The first of the named arguments that is a whole number of 1 or more. */
export function argNumber(args: Record<string, unknown>, ...names: string[]): number | undefined {
  return argsNamed(args, names)
    .map((value) => numberArg({ value }, "value"))
    .find((value) => value !== undefined);
}

/** The file that a call is about. */
export function pathOf(args: Record<string, unknown>): string | undefined {
  return argText(args, ...PATH_NAMES);
}

/** The command that a call runs; a list of words is taken for one, and of `bash -lc SCRIPT` the script. */
export function commandOf(args: Record<string, unknown>): string {
  const [value] = argsNamed(args, COMMAND_NAMES);
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return "";
  const words = value.filter(isText);
  const script = /^-\w?c$/.test(words[1] ?? "") ? words[2] : undefined;
  return script ?? words.join(" ");
}

function argsNamed(args: Record<string, unknown>, names: readonly string[]): unknown[] {
  if (!isRecord(args)) return [];
  const found: { rank: number; value: unknown }[] = [];
  for (const key of Object.keys(args)) {
    const rank = names.indexOf(argName(key));
    if (rank >= 0) found.push({ rank, value: args[key] });
  }
  return found.sort((x, y) => x.rank - y.rank).map(({ value }) => value);
}

const REF = /^[^\p{L}\p{N}]{0,4}[tb]\d{1,9}[^\p{L}\p{N}]{0,4}$/iu;

/** The refs or ids that a model asks for: a list, or one string; several refs in one string are told apart. */
export function refsIn(asked: unknown): string[] {
  const names = (Array.isArray(asked) ? asked : [asked]).filter(isText);
  const refs = names.flatMap((name) => {
    const parts = name.split(/[\s,;]+/).filter((part) => part !== "");
    return parts.length > 1 && parts.every((part) => REF.test(part)) ? parts : [name];
  });
  return [...new Set(refs)];
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
