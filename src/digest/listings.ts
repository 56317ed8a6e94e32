/** Digests of listings: names by folder and kind. */
import { cutStart } from "../text/text.ts";
import { shorten, tally } from "./names.ts";
import { count, packNames, type Room, roomAfter } from "./room.ts";

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

/** A command that does nothing but list names. */
export function isListing(command: string): boolean {
  const plain = command
    .slice(0, 1000)
    .trim()
    .replace(/^cd [^\s;&|]{1,400} && /, "");
  return /^(?:ls|find|fd|tree|git ls-files|rg --files)\b[^;&<>`$]{0,900}$/.test(
    plain.replace(/ 2>\/dev\/null| 2>&1/g, ""),
  );
}

/** The names that such a command prints, those below the heading of a folder with the folder before them. */
export function namesListed(lines: readonly string[]): string[] {
  let folder = "";
  return lines.flatMap((line) => {
    const text = line.slice(0, 1200).trimEnd();
    const long = LONG_ENTRY.exec(text);
    const name = long ? `${long[3]}${long[1] === "d" ? "/" : ""}` : text.replace(/^[│├└─|`\s\u00a0-]{1,200}/, "");
    if (name === "" || name === "." || name === "./" || name === "../" || /^total \d/.test(name)) return [];
    if (/^\d{1,9} director(?:y|ies)\b/.test(name)) return [];
    const heading = long ? undefined : /^(\S.{0,400}):$/.exec(text)?.[1];
    if (heading === undefined) return [folder + name];
    folder = heading === "." ? "" : `${heading.replace(/^\.\//, "").replace(/\/$/, "")}/`;
    return [];
  });
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
