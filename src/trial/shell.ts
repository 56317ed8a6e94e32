/** Plain commands of a shell that only look, as the calls of `read` and `grep` that do the same. */
import { posix } from "node:path";
import type { Call } from "./calls.ts";

const CD = /^\s*cd\s+(\S+)\s*(?:&&|;)\s*/;
const HEAD = /\s*\|\s*head(?:\s+-n)?\s+-?(\d+)\s*$/;
const QUIET = /\s*2>\s*(?:&1|\/dev\/null)/g;
const WORDS = /'([^']*)'|"((?:[^"\\$`]|\\.)*)"|([^\s'"|&;<>$`(){}*?~]+)/g;
/** Flags of `grep` and `rg` that change neither which lines are found nor what is shown of them. */
const PLAIN_FLAGS = /^-[nrREHiFs]+$/;

/** The calls that show what the command would; `undefined` where it does anything but read lines of files or find them. */
export function lookupsOf(command: string, cwd: string): Call[] | undefined {
  const [prefix, folder = ""] = CD.exec(command) ?? [""];
  const base = posix.resolve(cwd || "/", folder);
  const quiet = command.slice(prefix.length).replace(QUIET, "");
  const limit = HEAD.exec(quiet)?.[1];
  const words = wordsOf(quiet.replace(HEAD, ""));
  if (!words) return undefined;
  const [program, ...args] = words;
  const read = (path: string | undefined, range: object) =>
    path === undefined ? undefined : [{ name: "read", arguments: { path: posix.resolve(base, path), ...range } }];
  if (program === "cat" && args.length === 1) return read(args[0], limit === undefined ? {} : { limit: Number(limit) });
  if (program === "grep" || program === "rg") return searchesOf(program, args, base, limit);
  const [, first, last] = /^-n (\d+),(\d+)p /.exec(`${args.slice(0, 2).join(" ")} `) ?? [];
  if (program === "sed" && args.length === 3 && first !== undefined && limit === undefined) {
    return read(args[2], { offset: Number(first), limit: Number(last) - Number(first) + 1 });
  }
  const count = /^-(?:n )?(\d+)$/.exec(args.slice(0, -1).join(" "))?.[1];
  return program === "head" && count !== undefined ? read(args.at(-1), { limit: Number(count) }) : undefined;
}

function searchesOf(program: string, args: readonly string[], base: string, limit: string | undefined) {
  const flags = args.filter((arg) => arg.startsWith("-"));
  const [pattern, ...paths] = args.filter((arg) => !arg.startsWith("-"));
  if (pattern === undefined || !flags.every((flag) => PLAIN_FLAGS.test(flag))) return undefined;
  const has = (letter: string) => flags.some((flag) => flag.includes(letter));
  if (paths.length === 0 && program === "grep" && !has("r") && !has("R")) return undefined;
  const options = {
    // Without -E, grep takes these characters for themselves, and with a backslash for what they mean elsewhere.
    pattern: program === "rg" || has("E") || has("F") ? pattern : pattern.replace(/\\?[|+?(){}]/g, swapEscape),
    literal: has("F"),
    ignoreCase: has("i"),
    ...(limit === undefined ? {} : { limit: Number(limit) }),
  };
  const places = paths.length > 0 ? paths : ["."];
  return places.map((path) => ({ name: "grep", arguments: { ...options, path: posix.resolve(base, path) } }));
}

function swapEscape(part: string): string {
  return part.length > 1 ? part.slice(1) : `\\${part}`;
}

/** The words of a command; `undefined` where it is more than one program with its words. */
function wordsOf(command: string): string[] | undefined {
  if (command.replace(WORDS, "").trim() !== "") return undefined;
  const unescaped = (text: string) => text.replace(/\\(["\\$`])/g, "$1");
  return [...command.matchAll(WORDS)].map(([, single, double, bare]) => single ?? unescaped(double ?? bare ?? ""));
}
