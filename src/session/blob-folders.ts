/** Which blob folders a session may read, and which no session needs any more. */
import * as fs from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { BLOB_FOLDER, blobDirFor } from "../spill.ts";

const BLOB_OR_TEMPORARY = /^[A-Za-z0-9_-]+\.txt(?:\.[0-9a-f]+\.tmp)?$/;

/** Parents that are looked for: a circle of headers must end. */
const MAX_ANCESTORS = 64;

/** Bytes of a session file that its header stands in. */
const MAX_HEADER_BYTES = 65_536;

/**
 * Names of the folders that may hold blobs of a session: its own and those of the sessions that it was forked from.
 * @param parentSession session file that it was forked from, as its header says
 */
export function blobFolderNames(sessionId: string, parentSession?: string): Set<string> {
  const names = new Set([basename(blobDirFor("", sessionId))]);
  let parent = parentSession;
  for (let i = 0; i < MAX_ANCESTORS && typeof parent === "string" && parent !== ""; i++) {
    const header = readHeader(parent);
    for (const id of header?.id === undefined ? idsIn(parent) : [header.id]) names.add(basename(blobDirFor("", id)));
    parent = header?.parentSession;
  }
  return names;
}

/** What the id of a session may be whose file is gone: pi calls the file `<time>_<id>.jsonl`. */
function idsIn(file: string): string[] {
  const stem = /^(.+)\.jsonl$/.exec(basename(file))?.[1];
  return stem === undefined ? [] : [...new Set([stem, stem.slice(stem.indexOf("_") + 1)])];
}

/** A folder of blobs, and what its files take. */
export interface BlobFolder {
  path: string;
  files: number;
  bytes: number;
}

/**
 * The blob folders of `sessionDir` that no session needs: none in that folder, nor in one beside it, has their id or comes
 * from a session that had. Never throws.
 * @param keep ids of sessions that may have no file yet
 */
export function orphanedBlobFolders(sessionDir: string, keep: readonly string[]): BlobFolder[] {
  const names = namesIn(sessionDir).filter((name) => BLOB_FOLDER.test(name));
  if (names.length === 0) return [];
  // pi keeps the sessions of each project in a folder of its own; a fork may stand in another one than its parent.
  const parent = dirname(resolve(sessionDir));
  const beside = namesIn(parent).filter((name) => /^--.*--$/.test(name));
  const needed = new Set(keep.flatMap((id) => [...blobFolderNames(id)]));
  for (const dir of new Set([resolve(sessionDir), ...beside.map((name) => join(parent, name))])) {
    for (const file of namesIn(dir).filter((name) => name.endsWith(".jsonl"))) {
      const path = join(dir, file);
      const header = readHeader(path);
      for (const name of blobFolderNames(header?.id ?? "", path)) needed.add(name);
    }
  }
  return names.filter((name) => !needed.has(name)).flatMap((name) => measureFolder(join(resolve(sessionDir), name)));
}

/** Takes the blobs of a folder away, and the folder where nothing else stands in it; gives the bytes that are free now. */
export function removeBlobFolder(path: string): number {
  let freed = 0;
  if (!BLOB_FOLDER.test(basename(path)) || !fs.lstatSync(path).isDirectory()) return freed;
  for (const name of namesIn(path)) {
    const file = join(path, name);
    const stats = fs.lstatSync(file);
    if (!stats.isFile() || !BLOB_OR_TEMPORARY.test(name)) continue;
    fs.unlinkSync(file);
    freed += stats.size;
  }
  if (namesIn(path).length === 0) fs.rmdirSync(path);
  return freed;
}

/** The folder with its size, or nothing where it is none. */
export function measureFolder(path: string): BlobFolder[] {
  if (fs.lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  const sizes = namesIn(path).map((name) => fs.lstatSync(join(path, name), { throwIfNoEntry: false })?.size ?? 0);
  return [{ path, files: sizes.length, bytes: sizes.reduce((sum, size) => sum + size, 0) }];
}

function namesIn(dir: string): string[] {
  try {
    return fs.readdirSync(dir).toSorted();
  } catch {
    return [];
  }
}

/** Id and parent of a session file, where it can be read. */
function readHeader(file: string): { id?: string; parentSession?: string } | undefined {
  try {
    const descriptor = fs.openSync(file, fs.constants.O_RDONLY | (fs.constants.O_NONBLOCK ?? 0));
    try {
      const buffer = Buffer.alloc(MAX_HEADER_BYTES);
      const bytes = fs.readSync(descriptor, buffer, 0, MAX_HEADER_BYTES, 0);
      const header: unknown = JSON.parse(buffer.toString("utf8", 0, bytes).split("\n", 1)[0] ?? "");
      if (typeof header !== "object" || header === null) return undefined;
      const { id, parentSession } = header as Record<string, unknown>;
      return {
        ...(typeof id === "string" ? { id } : {}),
        ...(typeof parentSession === "string" ? { parentSession } : {}),
      };
    } finally {
      fs.closeSync(descriptor);
    }
  } catch {
    return undefined;
  }
}
