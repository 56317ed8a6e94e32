/** What a tool call does with which files, told by its arguments, whatever the tool is called. */
import type { ToolCall } from "@mariozechner/pi-ai";
import { isRecord } from "../text/json.ts";
import { filesNamedBy, locate, type PathBase, pathsIn } from "./paths.ts";

/** A call's access to files. */
export interface FileAccess {
  /** Absolute paths. */
  files: string[];
  kind: "read" | "edit" | "write" | "other";
  /** The call, or its result, holds the whole content of its only file. */
  isWhole: boolean;
  /** The same for readings of the same part of a file by the same tool. */
  part?: string;
}

/** Names of arguments that hold text to be replaced, and the new content of a file. */
const REPLACED = /^(?:old_?(?:text|string|str|content)|target_?content|edits|diff|patch_?text)$/i;
const CONTENT = /^(?:file_?)?(?:text|contents?|code_?content)$/i;
/** Tools that show a file; the others that name one search it or work with it. */
const READER = /read|view|cat|open/i;
/** A file header of an `apply_patch` text. */
const PATCHED = /^\*\*\* (?:Add|Update|Delete) File: (.+)$/gm;

/** Files that `call` names, and what it does with them. */
export function fileAccess({ name, arguments: args }: ToolCall, base: PathBase): FileAccess {
  const files = new Set<string>();
  const add = (spelling: string) => {
    const path = locate(spelling, base);
    if (path) files.add(path.absolute);
  };
  for (const spelling of pathsIn(args, filesNamedBy)) add(spelling);
  const entries = isRecord(args) ? Object.entries(args) : [];
  let kind: FileAccess["kind"] = "other";
  let isPart = false;
  for (const [key, value] of entries) {
    if (REPLACED.test(key)) kind = "edit";
    else if (typeof value === "string" && CONTENT.test(key) && kind !== "edit") kind = "write";
    if (typeof value === "number" || Array.isArray(value)) isPart = true;
    if (typeof value === "string" && value.includes("*** ")) {
      for (const [, path] of value.matchAll(PATCHED)) if (path) add(path);
      if (files.size > 0) kind = "edit";
    }
  }
  if (kind === "other" && files.size > 0 && READER.test(name)) kind = "read";
  const isOne = files.size === 1;
  const isWhole = isOne && (kind === "write" || (kind === "read" && !isPart));
  return {
    files: [...files],
    kind,
    isWhole,
    ...(kind === "read" && isOne ? { part: JSON.stringify([name, args]) } : {}),
  };
}
