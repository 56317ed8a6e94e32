/** Which tool output must stay in the context as it is: by the tool's name, or by the file that it is about. */
import { homedir } from "node:os";
import { posix } from "node:path";
import picomatch from "picomatch";
import type { ContextPruneConfig } from "../types.js";

/** A longer text is no path, and matching it would only cost time. */
const MAX_PATH_CHARS = 4096;

/** Arguments are searched this deep; tools that take several files at once nest them two or three levels down. */
const MAX_DEPTH = 6;

/** Names of arguments that hold a path or a list of paths, in lower case without separators. */
const PATH_ARGUMENTS: ReadonlySet<string> = new Set([
  "path",
  "paths",
  "file",
  "files",
  "filename",
  "filenames",
  "filepath",
  "filepaths",
  "fullpath",
  "absolutepath",
  "relativepath",
  "targetfile",
  "uri",
]);

/** The part of a tool call that protection is decided from. */
export interface ProtectableCall {
  toolName: string;
  args: Record<string, unknown>;
}

/** Whether the output of a call is protected. */
export type Protection = (call: ProtectableCall) => boolean;

/** What is protected, and how paths are to be read. */
export interface ProtectionOptions {
  /** Exact tool names: pi's own are lower case, and two tools may differ in case alone. */
  protectedTools: readonly string[];
  /** Glob patterns; see `createProtection`. */
  protectedPaths: readonly string[];
  /** Folder that relative paths and patterns start from. */
  cwd: string;
  /** What `~` stands for; the user's home folder by default. */
  home?: string;
}

/** A path that a call names, in every form that a pattern may be written for. */
interface NamedPath {
  absolute: string;
  /** Relative to the working folder, or the absolute path where it lies outside of it. */
  relative: string;
  basename: string;
}

type Matcher = (path: NamedPath) => boolean;

/**
 * Builds the test for protected output.
 *
 * Patterns are picomatch globs, dot folders included and letter case ignored, so that protection rather takes in too
 * much on a disk that tells cases apart than too little on one that does not.
 * - Without a slash (`AGENTS.md`, `*.lock`): the file of that name in any folder.
 * - With a slash: relative to the working folder (`docs/*.md`, `./docs/*.md`, `../notes/*.md`), to the home folder
 *   (`~/notes/**`), or absolute. A pattern that begins with `**` holds outside of the working folder too.
 * - With a slash at its end (`docs/`): everything in that folder.
 * - With `!` before it: takes what it matches out of what the others protect.
 *
 * A pattern that cannot be read matches nothing. Paths are looked for in the arguments of any tool (`path`,
 * `file_path`, `filename`, `paths: []`, `files: [{ path }]` and the like) and match however they are spelled:
 * absolute, relative, with `./` or `..`, backslashes, `~/`, `file://`, or the `@` that pi's own tools tolerate.
 */
export function createProtection(options: ProtectionOptions): Protection {
  const tools = new Set(options.protectedTools);
  const base = { cwd: slashes(options.cwd), home: slashes(options.home ?? homedir()) };
  const patterns = options.protectedPaths.filter((pattern) => typeof pattern === "string" && pattern.trim() !== "");
  const isException = (pattern: string) => /^\s*!(?!\()/.test(pattern);
  const kept = compileAll(
    patterns.filter((pattern) => !isException(pattern)),
    base,
  );
  const exceptions = compileAll(
    patterns.filter(isException).map((pattern) => pattern.trim().slice(1)),
    base,
  );

  const matches = (spelling: string): boolean => {
    const path = locate(spelling, base);
    return path !== undefined && kept.some((m) => m(path)) && !exceptions.some((m) => m(path));
  };
  return ({ toolName, args }) => {
    if (tools.has(toolName)) return true;
    if (kept.length === 0) return false;
    for (const spelling of pathsIn(args, false, 0)) if (matches(spelling)) return true;
    return false;
  };
}

interface Base {
  cwd: string;
  home: string;
}

function compileAll(patterns: readonly string[], base: Base): Matcher[] {
  return patterns.flatMap((pattern) => compile(pattern, base) ?? []);
}

function compile(pattern: string, { cwd, home }: Base): Matcher | undefined {
  let text = withSlashes(pattern.trim()).normalize("NFC");
  if (text.endsWith("/")) text += "**";
  if (/^\.\.?\//.test(text)) text = posix.normalize(`${escapeGlob(cwd)}/${text}`);
  else if (text.startsWith("~/")) text = posix.normalize(`${escapeGlob(home)}/${text.slice(2)}`);
  const test = parse(text);
  if (!test) return undefined;
  if (isAbsolute(text)) return (path) => test(path.absolute);
  if (!text.includes("/")) return (path) => test(path.basename);
  return (path) => test(path.relative) || test(path.absolute);
}

/**
 * Backslashes that are meant as separators become slashes: those before an ordinary character, and in a pattern without
 * a single slash (`skills\**\*.md`) those before a star too. The others quote the character behind them.
 */
function withSlashes(pattern: string): string {
  return pattern.replace(pattern.includes("/") ? /\\(?![*?[\]{}()!+@|\\])/g : /\\(?![[\]{}()\\])/g, "/");
}

function parse(glob: string): ((text: string) => boolean) | undefined {
  try {
    // `windows: false`: all paths have been brought to forward slashes, on every platform.
    return picomatch(glob, { dot: true, nocase: true, nonegate: true, windows: false });
  } catch {
    return undefined;
  }
}

function locate(spelling: string, { cwd, home }: Base): NamedPath | undefined {
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

/** Every text among the arguments that stands where a path is expected, and every `file:` URL. */
function* pathsIn(value: unknown, isPath: boolean, depth: number): Generator<string> {
  if (typeof value === "string") {
    if (isPath || /^@?file:/i.test(value)) yield value;
  } else if (Array.isArray(value)) {
    if (depth < MAX_DEPTH) for (const element of value) yield* pathsIn(element, isPath, depth + 1);
  } else if (typeof value === "object" && value !== null && depth < MAX_DEPTH) {
    for (const [key, field] of Object.entries(value)) {
      yield* pathsIn(field, PATH_ARGUMENTS.has(key.toLowerCase().replace(/[_-]/g, "")), depth + 1);
    }
  }
}

function isAbsolute(path: string): boolean {
  return path.startsWith("/") || /^[a-z]:\//i.test(path);
}

function slashes(path: string): string {
  return path.replaceAll("\\", "/");
}

function withoutEndSlash(path: string): string {
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
}

function escapeGlob(path: string): string {
  return path.replace(/[*?[\]{}()!+@|$^]/g, "\\$&");
}

/** User turns at the end that are left alone; 0 where that is off. */
export function protectedTurnsOf({ turnProtection }: Pick<ContextPruneConfig, "turnProtection">): number {
  return turnProtection.enabled ? turnProtection.turns : 0;
}
