/** What calls change in files, read from their arguments alone: tools that edit go by many names. */
import { isRecord } from "../text/json.ts";
import { argName, argText, pathOf } from "./arguments.ts";
import { countLines } from "./result.ts";

/** A text that takes the place of another. */
export interface TextChange {
  /** Missing where the arguments name no file for it. */
  path?: string;
  before: string;
  after: string;
}

const OLD_NAMES: ReadonlySet<string> = new Set(["oldtext", "oldstring", "oldstr", "targetcontent", "search"]);
const NEW_NAMES: ReadonlySet<string> = new Set(["newtext", "newstring", "newstr", "replacementcontent", "replace"]);
const WRITTEN_NAMES = ["content", "filetext", "codecontent", "contents", "newsource"];
/** Arguments are searched this deep for edits, and this many are read. */
const MAX_DEPTH = 4;
const MAX_CHANGES = 200;
/** Characters that the shortest patch has. */
const MIN_PATCH = 16;

/** The texts that a call replaces, in order: pairs of old and new text, however named, and the hunks of a patch. */
export function changesOf(args: Record<string, unknown>): TextChange[] {
  const changes: TextChange[] = [];
  collect(args, undefined, 0, changes);
  return changes.slice(0, MAX_CHANGES);
}

/** The whole text that a call writes to a file, and the file; `undefined` where it does nothing of the kind. */
export function writtenBy(args: Record<string, unknown>): { path: string; text: string } | undefined {
  const path = pathOf(args);
  const text = argText(args, ...WRITTEN_NAMES);
  return path === undefined || text === undefined ? undefined : { path, text };
}

/** Files that a call changes, as it spells them. */
export function changedPaths(args: Record<string, unknown>): string[] {
  const paths = changesOf(args).flatMap(({ path }) => (path === undefined ? [] : [path]));
  const written = writtenBy(args);
  return [...new Set(written ? [...paths, written.path] : paths)];
}

/** The call changes a file, as far as its arguments tell. */
export function changesFiles(args: Record<string, unknown>): boolean {
  return writtenBy(args) !== undefined || changesOf(args).length > 0;
}

/** `5 → 7 lines`, `wrote 84 lines`; empty where a call changes nothing. */
export function changeSize(args: Record<string, unknown>): string {
  const changes = changesOf(args);
  if (changes.length > 0) {
    const lines = (side: "before" | "after") => changes.reduce((sum, change) => sum + countLines(change[side]), 0);
    return `${lines("before")} → ${lines("after")} line${lines("after") === 1 ? "" : "s"}`;
  }
  const written = writtenBy(args);
  if (!written) return "";
  const lines = countLines(written.text);
  return `wrote ${lines} line${lines === 1 ? "" : "s"}`;
}

function collect(value: unknown, path: string | undefined, depth: number, changes: TextChange[]): void {
  if (depth > MAX_DEPTH || changes.length >= MAX_CHANGES) return;
  if (typeof value === "string") {
    if (isPatch(value)) changes.push(...hunksOf(value, path));
  } else if (Array.isArray(value)) {
    for (const item of value.slice(0, MAX_CHANGES)) collect(item, path, depth + 1, changes);
  } else if (isRecord(value)) {
    let before: string | undefined;
    let after: string | undefined;
    const others: unknown[] = [];
    for (const key of Object.keys(value)) {
      const item = value[key];
      const name = argName(key);
      if (typeof item === "string" && OLD_NAMES.has(name)) before ??= item;
      else if (typeof item === "string" && NEW_NAMES.has(name)) after ??= item;
      // The text of a file may look like a patch and is none.
      else if (typeof item === "object" || (typeof item === "string" && !WRITTEN_NAMES.includes(name)))
        others.push(item);
    }
    const isChange = before !== undefined && after !== undefined;
    const file = isChange || others.some(mayHoldChanges) ? (pathOf(value) ?? path) : path;
    if (before !== undefined && after !== undefined) changes.push({ ...(file ? { path: file } : {}), before, after });
    else for (const item of others) collect(item, file, depth + 1, changes);
  }
}

function mayHoldChanges(item: unknown): boolean {
  return typeof item === "object" || (typeof item === "string" && item.length > 20);
}

function isPatch(text: string): boolean {
  if (text.length < MIN_PATCH) return false;
  const head = text.slice(0, 4_000);
  return /^\*\*\* (?:Begin Patch|Update File: |Add File: )/m.test(head) || /^--- .{1,400}\n\+\+\+ /m.test(head);
}

/** The hunks of a patch: what stands in the file before and after each, with the lines around them. */
function hunksOf(patch: string, named: string | undefined): TextChange[] {
  const hunks: { path: string | undefined; before: string[]; after: string[] }[] = [];
  let path = named;
  const open = () => hunks.push({ path, before: [], after: [] });
  for (const line of patch.split("\n")) {
    const file = /^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b\/)?)([^\t\r]{1,400})/.exec(line)?.[1];
    if (file !== undefined) {
      path = file.trim();
      open();
    } else if (line.startsWith("@@")) open();
    else if (!/^(?:\*\*\* |--- |diff |index )/.test(line)) {
      const hunk = hunks.at(-1);
      const text = line.slice(1);
      if (line.startsWith("-") || line.startsWith(" ")) hunk?.before.push(text);
      if (line.startsWith("+") || line.startsWith(" ")) hunk?.after.push(text);
    }
  }
  return hunks
    .filter(({ before, after }) => before.length + after.length > 0)
    .map(({ before, after, ...at }) => ({
      ...(at.path === undefined ? {} : { path: at.path }),
      before: before.join("\n"),
      after: after.join("\n"),
    }));
}
