/** Which tool output must stay in the context as it is: by the tool's name, or by the file that it is about. */
import { homedir } from "node:os";
import { posix } from "node:path";
import type { ContextPruneConfig } from "../types.ts";
import { type IfSlow, parseGlob } from "./globs.ts";
import { escapeGlob, isAbsolute, isPathKey, locate, type NamedPath, type PathBase, pathsIn, slashes } from "./paths.ts";

/** Spellings of paths whose verdict is remembered. */
const MAX_KNOWN_PATHS = 10_000;

/** The part of a tool call that protection is decided from. */
export interface ProtectableCall {
  toolName: string;
  args: Record<string, unknown>;
  /** Of its result, where that is known. */
  occurrenceKey?: string;
}

/** Whether the output of a call is protected. */
export interface Protection {
  (call: ProtectableCall): boolean;
  /**
   * What a protected call gives in full each time: the list of a tool that returns all of it, or a file. A later result
   * of the same subject leaves nothing to be wanted of an earlier one. `undefined` where each result stands for itself.
   */
  subjectOf?(call: ProtectableCall): Subject | undefined;
}

/** What a result is about: the name is the same for the same list, or the same part of the same file. */
export interface Subject {
  name: string;
  isList: boolean;
}

/** What is protected, and how paths are to be read. */
export interface ProtectionOptions {
  /** Tool names in any case, or globs of them (`mcp__jira__*`). */
  protectedTools: readonly string[];
  /** The same for tools whose output is small and hard to get again; none by default. */
  stateTools?: readonly string[];
  /** The same for tools that return their whole list each time; none by default. What is named above stays whole each time. */
  listTools?: readonly string[];
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
 * A pattern that cannot be read matches nothing. One with so many stars that matching it could take long matches what a
 * simpler one would (`*a*b*c` what `*c` does); as an exception it takes nothing out. Paths are looked for in the
 * arguments of any tool (`path`, `notebook_path`, `paths: []`, `files: [{ path }]` and the like) and in commands that
 * print files (`cd docs && cat AGENTS.md`). They match however they are spelled: absolute, relative, with `./` or `..`,
 * backslashes, `~/`, `file://`, or the `@` that pi's own tools tolerate.
 */
export function createProtection(options: ProtectionOptions): Protection {
  const lists = toolTest(options.listTools ?? []);
  const tools = toolTest([...options.protectedTools, ...(options.stateTools ?? [])]);
  const base = { cwd: slashes(options.cwd), home: slashes(options.home ?? homedir()) };
  const patterns = options.protectedPaths.filter((pattern) => typeof pattern === "string" && pattern.trim() !== "");
  const kept = patterns.filter((pattern) => !isException(pattern)).flatMap((p) => compile(p, base, "widen") ?? []);
  const exceptions = patterns
    .filter(isException)
    .flatMap((pattern) => compile(pattern.trim().slice(1), base, "drop") ?? []);

  const known = new Map<string, boolean>();
  const matches = (spelling: string): boolean => {
    const before = known.get(spelling);
    if (before !== undefined) return before;
    const path = locate(spelling, base);
    const verdict = path !== undefined && kept.some((m) => m(path)) && !exceptions.some((m) => m(path));
    if (known.size >= MAX_KNOWN_PATHS) known.clear();
    known.set(spelling, verdict);
    return verdict;
  };
  const looked = new WeakMap<object, boolean>();
  const lookFor = (args: unknown): boolean => {
    for (const spelling of pathsIn(args)) if (matches(spelling)) return true;
    return false;
  };
  // The session's own arguments are the same objects each time they are asked about.
  const isProtectedPath = (args: unknown): boolean => {
    if (kept.length === 0 || typeof args !== "object" || args === null) return false;
    const verdict = looked.get(args) ?? lookFor(args);
    looked.set(args, verdict);
    return verdict;
  };
  const isProtected = ({ toolName, args }: ProtectableCall) =>
    tools(toolName) || lists(toolName) || isProtectedPath(args);
  const subjectOf = ({ toolName, args }: ProtectableCall): Subject | undefined => {
    const tool = String(toolName).toLowerCase();
    if (tools(toolName)) return undefined;
    if (!isProtectedPath(args)) return lists(toolName) ? { name: tool, isList: true } : undefined;
    const inFull = (key: string, value: unknown) =>
      typeof value === "string" && isPathKey(key) ? (locate(value, base)?.absolute ?? value) : value;
    return { name: `${tool} ${JSON.stringify(args, inFull)}`, isList: false };
  };
  return Object.assign(isProtected, { subjectOf });
}

/** `createProtection` with all that the settings say. */
export function protectionOf(
  {
    protectedTools,
    stateTools,
    listTools,
    protectedPaths,
  }: Pick<ContextPruneConfig, "protectedTools" | "stateTools" | "listTools" | "protectedPaths">,
  cwd: string,
): Protection {
  return createProtection({ protectedTools, stateTools, listTools, protectedPaths, cwd });
}

/** Whether a pattern of `protectedPaths` takes something out of what the others protect. */
export function isException(pattern: string): boolean {
  return /^\s*!(?!\()/.test(pattern);
}

/** The names and globs that fit no tool: most likely they are misspelled. */
export function unknownTools(protectedTools: readonly string[], registered: readonly string[]): string[] {
  return protectedTools.filter((name) => !registered.some(toolTest([name])));
}

/** Whether one of the names or globs is that of a tool. */
function toolTest(names: readonly string[]): (toolName: string) => boolean {
  const plain = new Set(names.map((name) => name.toLowerCase()));
  const globs = names.filter((name) => /[*?[{(]/.test(name)).flatMap((name) => parseGlob(name, "widen") ?? []);
  return (toolName) => plain.has(String(toolName).toLowerCase()) || globs.some((matches) => matches(String(toolName)));
}

function compile(pattern: string, { cwd, home }: PathBase, ifSlow: IfSlow): Matcher | undefined {
  let text = withSlashes(pattern.trim()).normalize("NFC");
  if (text.endsWith("/")) text += "**";
  if (/^\.\.?\//.test(text)) text = posix.normalize(`${escapeGlob(cwd)}/${text}`);
  else if (text.startsWith("~/")) text = posix.normalize(`${escapeGlob(home)}/${text.slice(2)}`);
  const test = parseGlob(text, ifSlow);
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

/** User turns at the end that are left alone; 0 where that is off. */
export function protectedTurnsOf({ turnProtection }: Pick<ContextPruneConfig, "turnProtection">): number {
  return turnProtection.enabled ? turnProtection.turns : 0;
}
