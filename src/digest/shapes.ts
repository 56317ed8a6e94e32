/** Digests of output by its shape: search matches, listings, diffs, JSON. */

import { cut, cutStart, oneLine } from "../text/text.js";
import { type GrepLine, parseGrepLine } from "./result.js";
import { count, MAX_LINE, packNames, type Room, roomAfter } from "./room.js";

/** The folder that all paths share, with its slash; empty where they share none. */
function commonFolder(paths: readonly string[]): string {
  const [first = ""] = paths;
  let length = first.lastIndexOf("/") + 1;
  for (const path of paths) {
    while (length > 0 && !path.startsWith(first.slice(0, length))) {
      length = length < 2 ? 0 : first.lastIndexOf("/", length - 2) + 1;
    }
  }
  return first.slice(0, length);
}

/** Paths without the folder that all of them share, where naming that folder once is shorter. */
function shorten(paths: readonly string[]): { note: string; short: (path: string) => string } {
  const folder = paths.length < 2 ? "" : commonFolder(paths);
  if (folder.length < 12) return { note: "", short: (path) => oneLine(path, 100) };
  return {
    note: ` in ${cutStart(oneLine(folder, 400), 90)}`,
    short: (path) => oneLine(path.slice(folder.length), 100),
  };
}

/** How often each key occurs, most frequent first, otherwise by first appearance. */
function tally(keys: readonly string[]): [key: string, times: number][] {
  const times = new Map<string, number>();
  for (const key of keys) times.set(key, (times.get(key) ?? 0) + 1);
  return [...times].sort((a, b) => b[1] - a[1]);
}

/** The matches that pi's `grep` shows. */
export function grepMatches(lines: readonly string[]): GrepLine[] {
  return lines.map(parseGrepLine).filter((match) => match !== undefined);
}

/**
 * Matches in the output of a command that searches, however it names them, and the few lines that are something else.
 * Undefined if most lines are.
 */
export function searchMatches(lines: readonly string[]): { matches: GrepLine[]; others: string[] } | undefined {
  const filled = lines.filter((line) => line.trim() !== "" && line !== "--");
  const forms = [parseGrepLine, parseFileLine, parseNumberLine];
  for (const form of forms) {
    const matches = filled.map(form).filter((match) => match !== undefined);
    if (matches.length > 3 && matches.length > filled.length * 0.8) {
      return { matches, others: filled.filter((line) => form(line) === undefined) };
    }
  }
  return undefined;
}

/** `src/a.ts:text`, as `grep -r` prints it. */
function parseFileLine(line: string): GrepLine | undefined {
  const match = /^([\w@./~+-]{1,300}\.\w{1,12}):/.exec(line);
  return match?.[1] ? { path: match[1], text: line.slice(match[0].length) } : undefined;
}

/** `12:text`, as `grep -n` prints the matches in one file. */
function parseNumberLine(line: string): GrepLine | undefined {
  const match = /^(\d{1,9})[:-]/.exec(line);
  return match?.[1] ? { path: "", line: Number(match[1]), text: line.slice(match[0].length) } : undefined;
}

/** Matches for each file, then the first matches: one of each file, and more where there is room. */
export function grepDigest(matches: readonly GrepLine[], room: Room): string[] {
  const files = tally(matches.map((match) => match.path));
  const { note, short } = shorten(files.map(([path]) => path));
  const single = files.length === 1;
  const counts = files.map(([path, times]) =>
    path === "" ? count(times, "match", "matches") : `${short(path)}: ${times}`,
  );
  const heading = single ? "" : `${count(files.length, "file")}${note}: `;
  const lines = packNames(counts, heading, { lines: 2, chars: Math.max(120, room.chars / 2) }).lines;

  const chosen = new Map<number, string>();
  let left = roomAfter(room, lines);
  const offer = (match: GrepLine, index: number) => {
    const where = single ? "" : short(match.path);
    const place = match.line === undefined ? where : single ? `L${match.line}` : `${where}:${match.line}`;
    const text = oneLine(`${place}${single ? "" : ":"} ${oneLine(match.text, 120)}`, MAX_LINE);
    if (chosen.has(index) || left.lines < 1 || text.length + 1 > left.chars) return;
    left = roomAfter(left, [text]);
    chosen.set(index, text);
  };
  const seen = new Set<string>();
  matches.forEach((match, index) => {
    if (!seen.has(match.path) && seen.size < 6) offer(match, index);
    seen.add(match.path);
  });
  matches.slice(0, 12).forEach(offer);
  return [...lines, ...[...chosen].sort(([a], [b]) => a - b).map(([, text]) => text)];
}

/** `-rw-r--r-- 1 user group 1234 Dec 8 10:00 name`, as `ls -l` prints it. */
const LONG_ENTRY =
  /^([-dlbcps])[rwxsStT-]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+([\d.,]+[KMGT]?)\s+\S+\s+\S+\s+\S+\s(.{1,1000})$/;

/** The entries of the output if it is a listing: a path in every line, or what `ls -l` prints. */
export function listingOf(lines: readonly string[]): string[] | undefined {
  const filled = lines.filter((line) => line.trim() !== "" && !/^total \d/.test(line));
  if (filled.length < 6) return undefined;
  const entries: string[] = [];
  for (const line of filled) {
    const long = LONG_ENTRY.exec(line.slice(0, 1200));
    if (long) entries.push(long[1] === "d" ? `${long[3]}/` : `${long[3]} ${long[2]}`);
    else if (line.length <= 400 && /^[\w@~./+-]*(?:\/|\.\w)[\w@~./+-]*$/.test(line.trim())) entries.push(line.trim());
  }
  return entries.length >= filled.length * 0.95 ? entries : undefined;
}

/** Names by folder; where they are too many, how many of which kind, and as many names as there is room for. */
export function listingDigest(entries: readonly string[], room: Room): string[] {
  const { note, short } = shorten(entries);
  const names = entries.map(short);
  const folders = new Map<string, string[]>();
  for (const name of names) {
    const slash = name.lastIndexOf("/", name.length - 2) + 1;
    const folder = name.slice(0, slash);
    const inside = folders.get(folder);
    if (inside) inside.push(name.slice(slash));
    else folders.set(folder, [name.slice(slash)]);
  }
  const all = packNames(names, note === "" ? "" : `${note.trim()}: `, room);
  if (all.hidden === 0) return all.lines;

  const lines = packNames(kindsOf(names), `${count(entries.length, "entry", "entries")}${note}: `, room).lines.slice(
    0,
    1,
  );
  if (folders.size === 1) return [...lines, ...packNames(names, "", roomAfter(room, lines)).lines];
  const bySize = [...folders].sort((a, b) => b[1].length - a[1].length);
  const shown = bySize.slice(0, 6);
  const others = bySize.slice(6).map(([folder, inside]) => `${cutStart(folder, 60) || "./"} ${inside.length}`);
  // Each of the largest folders has a share by its size, so that none takes the room of the others.
  const spare = others.length > 0 ? 40 : 0;
  let unshown = entries.length;
  for (const [folder, inside] of shown) {
    const left = roomAfter(room, lines);
    const share = Math.max(90, Math.floor((left.chars * inside.length) / unshown));
    const heading = `${cutStart(folder, 60) || "./"} ${inside.length}: `;
    const packed = packNames(inside, heading, { lines: 3, chars: Math.min(share, left.chars - spare) }).lines;
    if (packed.length <= left.lines) lines.push(...packed);
    unshown -= inside.length;
  }
  return [...lines, ...packNames(others, "also ", roomAfter(room, lines)).lines];
}

function kindsOf(names: readonly string[]): string[] {
  const kinds = names.map((name) =>
    name.endsWith("/") ? "folders" : (/[^/](\.\w{1,12})(?: [\d.,]+[KMGT]?)?$/.exec(name.slice(-60))?.[1] ?? "other"),
  );
  return tally(kinds).map(([kind, times]) => `${times} ${kind}`);
}

/** The files of a unified diff with their added and removed lines, then the first changes. Empty for anything else. */
export function diffDigest(lines: readonly string[], room: Room): string[] {
  const files: { path: string; added: number; removed: number }[] = [];
  const changes: string[] = [];
  let inHunk = false;
  lines.forEach((line, index) => {
    const file = files.at(-1);
    if (line.startsWith("diff --git ")) {
      files.push({ path: / b\/(.{1,400})$/.exec(line.slice(0, 900))?.[1] ?? "?", added: 0, removed: 0 });
      inHunk = false;
    } else if (line.startsWith("@@ ")) inHunk = true;
    else if (inHunk && file && (line.startsWith("+") || line.startsWith("-"))) {
      if (line.startsWith("+")) file.added++;
      else file.removed++;
      if (changes.length < 6 && line.trim().length > 4) changes.push(`L${index + 1} ${oneLine(line, 100)}`);
    }
  });
  if (files.length === 0) return [];
  const { note, short } = shorten(files.map((file) => file.path));
  const stats = files.map((file) => `${short(file.path)} +${file.added} -${file.removed}`);
  const digest = packNames(stats, `diff of ${count(files.length, "file")}${note}: `, room).lines;
  for (const change of changes) {
    const left = roomAfter(room, digest);
    if (left.lines < 1 || left.chars < change.length + 1) break;
    digest.push(change);
  }
  return digest;
}

/** Keys or length of a JSON text, values in brief. Empty where the text is no JSON object or array. */
export function jsonShape(text: string, room: Room): string[] {
  const value = parseJson(text);
  if (Array.isArray(value)) {
    const heading = `JSON array of ${value.length}`;
    const first: unknown = value[0];
    if (typeof first !== "object" || first === null)
      return packNames(value.slice(0, 20).map(brief), `${heading}: `, room).lines;
    return packNames(members(first), `${heading}, first: `, room).lines;
  }
  if (typeof value !== "object" || value === null) return [];
  return packNames(members(value), "JSON object: ", room).lines;
}

function parseJson(text: string): unknown {
  const start = text.search(/\S/);
  if (start < 0 || !"{[".includes(text.charAt(start))) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function members(value: object): string[] {
  return Object.entries(value).map(([key, inner]) => `${oneLine(key, 40)} ${brief(inner)}`);
}

function brief(value: unknown): string {
  if (typeof value === "string") return `"${cut(oneLine(value, 60), 40)}"`;
  if (Array.isArray(value)) return `[${value.length}]`;
  if (typeof value === "object" && value !== null) return `{${Object.keys(value).length}}`;
  return String(value);
}
