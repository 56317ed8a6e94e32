/** Which tool output must stay in the context as it is: by the tool's name, or by the file that it is about. */
import { homedir } from "node:os";
import { posix } from "node:path";
import picomatch from "picomatch";
import type { ContextPruneConfig } from "../types.js";
import { escapeGlob, isAbsolute, locate, type NamedPath, type PathBase, pathsIn, slashes } from "./paths.js";

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
    for (const spelling of pathsIn(args)) if (matches(spelling)) return true;
    return false;
  };
}

function compileAll(patterns: readonly string[], base: PathBase): Matcher[] {
  return patterns.flatMap((pattern) => compile(pattern, base) ?? []);
}

function compile(pattern: string, { cwd, home }: PathBase): Matcher | undefined {
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

/** User turns at the end that are left alone; 0 where that is off. */
export function protectedTurnsOf({ turnProtection }: Pick<ContextPruneConfig, "turnProtection">): number {
  return turnProtection.enabled ? turnProtection.turns : 0;
}
