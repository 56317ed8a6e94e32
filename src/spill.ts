/**
 * Sidecar blobs: an oversized result is written to `<sessionDir>/<sessionId>-blobs/<key>.txt` and read back from there.
 *
 * All access to the file system and all sanitising of names is here. Everything is synchronous: a spill has to be
 * complete before the request that it shortens is built. A path that comes from a session file is untrusted.
 */
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { contentHash, shortHash } from "./capture/duplicates.ts";
import type { ToolCallRecord } from "./types.ts";

/** The file system calls that are made; tests put failing ones in their place. */
export type SpillIo = Pick<
  typeof fs,
  | "chmodSync"
  | "closeSync"
  | "fchmodSync"
  | "fstatSync"
  | "fsyncSync"
  | "linkSync"
  | "lstatSync"
  | "mkdirSync"
  | "openSync"
  | "readFileSync"
  | "renameSync"
  | "statSync"
  | "unlinkSync"
  | "writeFileSync"
>;

/**
 * What came of `writeSpill`. `path` is absolute, `bytes` the length of the file, `lines` as `countLines` gives them.
 * `reason` names paths and error codes, never content.
 */
export type SpillResult = { ok: true; path: string; bytes: number; lines: number } | { ok: false; reason: string };

const BLOB_FOLDER_SUFFIX = "-blobs";
/** Name of a folder of blobs. */
export const BLOB_FOLDER = /^[A-Za-z0-9_-]+-blobs$/;
const BLOB_NAME = /^[A-Za-z0-9_-]+\.txt$/;

/** With the extension, 100 bytes: room for the temporary suffix even where a file system allows but 143. */
const MAX_STEM = 96;
const HASH_CHARS = 16;
/** Kept for hashed names, so that no literal name can equal one. */
const ENDS_LIKE_HASH = new RegExp(`-[0-9a-f]{${HASH_CHARS}}$`);
/** No upper case, so that two literal names never meet on a case-insensitive disk. */
const LITERAL_KEY = /^[a-z0-9_-]+$/;
const LITERAL_SESSION_ID = /^[A-Za-z0-9_-]+$/;
const WINDOWS_DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])$/i;

// Windows lacks the two flags; there the `lstat` before each open has to do.
const NO_FOLLOW = fs.constants.O_NOFOLLOW ?? 0;
const NO_WAIT = fs.constants.O_NONBLOCK ?? 0;
const CREATE = fs.constants.O_WRONLY | fs.constants.O_CREAT | fs.constants.O_EXCL | NO_FOLLOW;
const READ = fs.constants.O_RDONLY | NO_FOLLOW | NO_WAIT;

const OTHERS_MAY_ANYTHING = 0o077;

/**
 * The folder of a session's blobs, `<sessionDir>/<sessionId>-blobs`. A session without a folder (`sessionDir` is "")
 * gets a relative path, which `writeSpill` refuses.
 *
 * Ids that differ only in case may share a folder on a case-insensitive disk; that loses nothing, since no blob is
 * ever overwritten.
 */
export function blobDirFor(sessionDir: string, sessionId: string): string {
  const name = safeName(sessionId, LITERAL_SESSION_ID) + BLOB_FOLDER_SUFFIX;
  return sessionDir === "" ? name : join(resolve(sessionDir), name);
}

/**
 * The file of one occurrence in `blobDir`: `<key>.txt`, at most 100 bytes of `[A-Za-z0-9_-]` and the extension.
 *
 * A key that would be changed, that is too long, or that could meet another one on a case-insensitive disk gets a hash
 * of the whole key at its end. The same key always gives the same name.
 */
export function blobPathFor(blobDir: string, occurrenceKey: string): string {
  return join(blobDir, `${safeName(occurrenceKey, LITERAL_KEY)}.txt`);
}

function safeName(key: string, literal: RegExp): string {
  const unchanged = key.length <= MAX_STEM && literal.test(key);
  if (unchanged && !ENDS_LIKE_HASH.test(key) && !WINDOWS_DEVICE.test(key)) return key;
  // UTF-16 keeps lone surrogates apart, which UTF-8 would fold into one character.
  const hash = createHash("sha256").update(key, "utf16le").digest("hex").slice(0, HASH_CHARS);
  return `${key.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, MAX_STEM - HASH_CHARS - 1)}-${hash}`;
}

/**
 * The beginning of `text` in at most `maxBytes` bytes of UTF-8: as many whole lines as fit, without the newline after
 * the last one. Where the first lines that fit are blank, or the very first is too long, the cut is inside a line, but
 * never inside a character.
 */
export function headPreview(text: string, maxBytes: number): string {
  const room = Math.max(0, Math.min(maxBytes, text.length * 3));
  // No character takes less than a byte, so nothing behind the slice can fit.
  const end = new TextEncoder().encodeInto(text.slice(0, room), new Uint8Array(room)).read;
  const cut = text.slice(0, end);
  if (end === text.length || text[end] === "\n") return cut;
  const wholeLines = cut.slice(0, Math.max(0, cut.lastIndexOf("\n")));
  return wholeLines.trim() === "" ? cut : wholeLines;
}

/** Number of lines; a newline at the very end ends the last line and starts no other. Empty text has none. */
export function countLines(text: string): number {
  let lines = text === "" || text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines++;
  return lines;
}

/**
 * Writes `text` to `path` (from `blobPathFor`; absolute) and makes it durable. Never throws.
 *
 * The folder is made if need be, 0700; the file appears at once, complete, 0600. Nothing is overwritten and no symbolic
 * link followed. A file with the same content counts as written, so that a crash before the record was persisted can
 * be made good. Where the result is not `ok`, no file was left and the caller keeps the text inline. Text with
 * lone surrogates is refused: UTF-8 could not give it back.
 */
export function writeSpill(spill: { path: string; text: string }, io: SpillIo = fs): SpillResult {
  try {
    if (!isAbsolute(spill.path)) throw new Error("the session has no folder for blobs");
    const path = resolve(spill.path);
    const body = Buffer.from(spill.text, "utf8");
    if (body.toString("utf8") !== spill.text) throw new Error("the text is not well-formed Unicode");

    ensureFolder(dirname(path), io);
    const created = io.lstatSync(path, { throwIfNoEntry: false }) === undefined && create(path, body, io);
    if (!created && !alreadyHolds(path, body, io)) throw new Error(`something else stands at ${path}`);
    return { ok: true, path, bytes: body.length, lines: countLines(spill.text) };
  } catch (error) {
    return { ok: false, reason: reasonOf(error, dirname(spill.path)) };
  }
}

/** The same for every file of a folder: a disk that is full is told once, not with the name of each temporary file. */
function reasonOf(error: unknown, folder: string): string {
  if (!(error instanceof Error)) return String(error);
  return "syscall" in error ? `${error.message.split(" '", 1)[0]} in ${folder}` : error.message;
}

/**
 * The text of a blob; `null` where `path` is not a regular file directly inside one of `allowedDirs` (blob folders),
 * where it is missing or unreadable, and where it is not UTF-8 and so not what was written. Never throws.
 */
export function readSpill(path: string, allowedDirs: readonly string[]): string | null {
  const blob = resolve(path);
  const allowed = allowedDirs.some((dir) => isAbsolute(dir) && resolve(dir) === dirname(blob));
  if (!isAbsolute(path) || !allowed || !isBlob(blob)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readRegularFile(blob, fs));
  } catch {
    return null;
  }
}

/**
 * Where the blob of a record is now: at its recorded path if that is in one of `sessionDirs`, else at the same folder
 * and file name in the first of them that has it (a session folder that was moved); `null` where it is nowhere.
 *
 * `sessionDirs` are the folders of the session and of those it was forked from, `folderNames` what `blobFolderNames` gave.
 * Only the last two names of the recorded path are used, `<id>-blobs/<name>.txt`, so a forged record reaches nothing but
 * blobs of these sessions. Never throws.
 */
export function resolveSpillPath(
  recordedPath: string,
  sessionDirs: readonly string[],
  folderNames: ReadonlySet<string>,
): string | null {
  // Both separators: the folder may come from another operating system.
  const [folder, name] = recordedPath.split(/[\\/]/).slice(-2);
  if (folder === undefined || name === undefined || !folderNames.has(folder) || !BLOB_NAME.test(name)) return null;
  const candidates = sessionDirs.filter((dir) => dir !== "").map((dir) => join(resolve(dir), folder, name));
  if (candidates.includes(recordedPath) && isBlob(recordedPath)) return recordedPath;
  return candidates.find(isBlob) ?? null;
}

/**
 * Whether the text of a blob is what was written: by the hash of its record, or by its length where the record has no
 * hash. `undefined` where that cannot be told: the hash is of all blocks of a result, images too.
 */
export function isAsWritten(
  text: string,
  record: Pick<ToolCallRecord, "toolName" | "isError" | "contentHash" | "spillBytes">,
): boolean | undefined {
  const { toolName, isError, contentHash: hash, spillBytes } = record;
  if (spillBytes !== undefined && Buffer.byteLength(text) !== spillBytes) return false;
  if (hash === undefined) return true;
  return contentHash({ toolName, isError, content: [{ type: "text", text }] }) === shortHash(hash) ? true : undefined;
}

/** A regular file with the name of a blob, in a real folder with the name of a blob folder. */
function isBlob(path: string): boolean {
  const folder = dirname(path);
  if (!BLOB_NAME.test(basename(path)) || !BLOB_FOLDER.test(basename(folder))) return false;
  try {
    return fs.lstatSync(folder).isDirectory() && fs.lstatSync(path).isFile();
  } catch {
    return false;
  }
}

function ensureFolder(dir: string, io: SpillIo): void {
  const created = io.mkdirSync(dir, { recursive: true, mode: 0o700 });
  if (created !== undefined) syncFolder(dirname(dir), io);

  const stats = io.lstatSync(dir);
  if (!stats.isDirectory()) throw new Error(`${dir} is not a folder`);
  const user = process.geteuid?.();
  if (user === undefined) return;
  // In a folder that all may write to, another user could have planted it; who owns the session folder is trusted.
  if (stats.uid !== user && stats.uid !== io.statSync(dirname(dir)).uid) throw new Error(`${dir} has another owner`);
  if (stats.mode & OTHERS_MAY_ANYTHING) attempt(() => io.chmodSync(dir, 0o700));
}

/** Creates the file under a temporary name and publishes it. False if something has come to stand at `path`. */
function create(path: string, body: Buffer, io: SpillIo): boolean {
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  const file = io.openSync(temporary, CREATE, 0o600);
  try {
    try {
      io.writeFileSync(file, body);
      io.fsyncSync(file);
    } finally {
      io.closeSync(file);
    }
    if (!publish(temporary, path, io)) return false;
  } finally {
    attempt(() => io.unlinkSync(temporary));
  }
  syncFolder(dirname(path), io);
  return true;
}

/** Gives the finished file its name, which `rename` alone would do over any other file. False if the name is taken. */
function publish(temporary: string, path: string, io: SpillIo): boolean {
  try {
    io.linkSync(temporary, path);
    return true;
  } catch (error) {
    if (isExists(error)) return false;
  }
  // No hard links on this disk: reserve the name, then rename over the reservation.
  try {
    io.closeSync(io.openSync(path, CREATE, 0o600));
  } catch (error) {
    if (isExists(error)) return false;
    throw error;
  }
  try {
    io.renameSync(temporary, path);
    return true;
  } catch (error) {
    attempt(() => io.unlinkSync(path));
    throw error;
  }
}

function alreadyHolds(path: string, body: Buffer, io: SpillIo): boolean {
  if (!io.lstatSync(path).isFile()) return false;
  const file = io.openSync(path, READ);
  try {
    const stats = io.fstatSync(file);
    if (!stats.isFile() || stats.size !== body.length || !body.equals(io.readFileSync(file))) return false;
    if (stats.mode & OTHERS_MAY_ANYTHING) attempt(() => io.fchmodSync(file, 0o600));
    return true;
  } finally {
    io.closeSync(file);
  }
}

function readRegularFile(path: string, io: SpillIo): Buffer {
  const file = io.openSync(path, READ);
  try {
    if (!io.fstatSync(file).isFile()) throw new Error("not a regular file");
    return io.readFileSync(file);
  } finally {
    io.closeSync(file);
  }
}

/** Makes a new name in `dir` durable where the system can: Windows opens no folders. */
function syncFolder(dir: string, io: SpillIo): void {
  attempt(() => {
    const folder = io.openSync(dir, fs.constants.O_RDONLY);
    try {
      io.fsyncSync(folder);
    } finally {
      io.closeSync(folder);
    }
  });
}

/** For steps that are welcome but not needed. */
function attempt(step: () => void): void {
  try {
    step();
  } catch {
    // The outcome does not depend on it.
  }
}

function isExists(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EEXIST";
}
