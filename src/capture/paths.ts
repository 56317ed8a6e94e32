/** The files that a tool call is about, found in its arguments whatever those are called, however they are spelled. */
import { posix } from "node:path";

/** A longer text is no path, and matching it would only cost time. */
const MAX_PATH_CHARS = 4096;

/** Arguments are searched this deep; tools that take several files at once nest them two or three levels down. */
const MAX_DEPTH = 6;

/** Names of arguments that hold paths end like this, in lower case without separators (`notebook_path`, `target_file`). */
const PATH_ARGUMENT = /(?:path|file|filename|uri)s?$/;

/** Names of arguments that hold a shell command. */
const COMMAND_ARGUMENT = /^(?:command|cmd|script)s?$/;

/** Commands that print the files that they are given. */
const READERS: ReadonlySet<string> = new Set(
  "awk bat cat gc get-content head less more nl sed tac tail type view".split(" "),
);

/** A word of a command that is the name of a file: it has an extension, and no sign of a pattern or a variable. */
const FILE_WORD = /^(?!-|\/dev\/)[^*?$|{}[\]\\!]*[^\s/.*?$|{}[\]\\!]\.[a-z][\w-]{0,9}$/i;

/** A path that a call names, in every form that a pattern may be written for. */
export interface NamedPath {
  absolute: string;
  /** Relative to the working folder, or the absolute path where it lies outside of it. */
  relative: string;
  basename: string;
}

/** What relative paths and `~` start from. */
export interface PathBase {
  cwd: string;
  home: string;
}

/** Where a path leads, however it is spelled; `undefined` for what is no path of a file. */
export function locate(spelling: string, { cwd, home }: PathBase): NamedPath | undefined {
  if (spelling.length > MAX_PATH_CHARS) return undefined;
  let path = spelling
    .trim()
    .replace(/^@/, "")
    .replace(/[\u00A0\u2000-\u200A\u202F\u205F\u3000]/g, " ");
  if (/^file:/i.test(path)) path = fromFileUrl(path);
  else if (/^[a-z][a-z0-9+.-]+:\/\//i.test(path)) return undefined;
  path = slashes(path).normalize("NFC");
  if (path === "") return undefined;
  if (path === "~" || path.startsWith("~/")) path = home + path.slice(1);
  if (!isAbsolute(path)) path = `${cwd}/${path}`;
  const absolute = withoutEndSlash(posix.normalize(path));
  const root = withoutEndSlash(posix.normalize(cwd));
  const relative = absolute.startsWith(`${root}/`) ? absolute.slice(root.length + 1) : absolute;
  return { absolute, relative, basename: posix.basename(absolute) };
}

function fromFileUrl(url: string): string {
  try {
    // Windows writes `file:///C:/…`, whose path part begins with a slash that is no part of the path.
    return decodeURIComponent(new URL(url).pathname).replace(/^\/(?=[a-z]:)/i, "");
  } catch {
    return url.replace(/^file:(\/\/)?/i, "");
  }
}

/**
 * Every text among the arguments that stands where a path is expected, every `file:` URL, and of commands what `wordsOf`
 * gives, by default what commands such as `cat` print.
 */
export function* pathsIn(
  value: unknown,
  wordsOf: (command: string) => Iterable<string> = filesReadBy,
  key = "",
  depth = 0,
): Generator<string> {
  if (typeof value === "string") {
    if (isPathKey(key) || /^@?file:/i.test(value)) yield value;
    else if (COMMAND_ARGUMENT.test(plainKey(key))) yield* wordsOf(value);
  } else if (Array.isArray(value)) {
    if (depth < MAX_DEPTH) for (const element of value) yield* pathsIn(element, wordsOf, key, depth + 1);
  } else if (typeof value === "object" && value !== null && depth < MAX_DEPTH) {
    for (const [name, field] of Object.entries(value)) yield* pathsIn(field, wordsOf, name, depth + 1);
  }
}

/** What commands such as `cat` are given, in the folder that a `cd` before them names. */
function* filesReadBy(command: string): Generator<string> {
  let folder = "";
  // What follows `<<` is text, and what `>` writes to is not read.
  const read = (command.slice(0, MAX_PATH_CHARS).split("<<", 1)[0] ?? "").replace(/\d?>+\s*\S+/g, " ");
  for (const step of read.split(/[;&|\n]+/)) {
    const [name = "", ...words] = (step.match(/"[^"]*"|'[^']*'|[^\s"'()`]+/g) ?? []).map((w) =>
      w.replace(/^["']|["']$/g, ""),
    );
    if (name === "cd") folder = inFolder(folder, words[0] ?? "~");
    if (READERS.has(posix.basename(name).toLowerCase())) for (const word of words) yield inFolder(folder, word);
  }
}

/** Every word of a command that looks like the path of a file, in the folder that a `cd` before it names. */
export function* filesNamedBy(command: string): Generator<string> {
  let folder = "";
  for (const step of command.slice(0, MAX_PATH_CHARS).split(/[;&|\n]+/)) {
    const words = step.match(/[^\s"'`()<>=,:]+/g) ?? [];
    if (words[0] === "cd") folder = inFolder(folder, words[1] ?? "~");
    else for (const word of words) if (FILE_WORD.test(word)) yield inFolder(folder, word);
  }
}

function inFolder(folder: string, path: string): string {
  return folder === "" || isAbsolute(path) || path.startsWith("~") ? path : `${folder}/${path}`;
}

export function isPathKey(key: string): boolean {
  return PATH_ARGUMENT.test(plainKey(key));
}

function plainKey(key: string): string {
  return key.toLowerCase().replace(/[_-]/g, "");
}

export function isAbsolute(path: string): boolean {
  return path.startsWith("/") || /^[a-z]:\//i.test(path);
}

export function slashes(path: string): string {
  return path.replaceAll("\\", "/");
}

function withoutEndSlash(path: string): string {
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

export function escapeGlob(path: string): string {
  return path.replace(/[*?[\]{}()!+@|$^]/g, "\\$&");
}
