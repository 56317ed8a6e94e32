/** Paths in short, and counting. */
import { cutStart, oneLine } from "../text/text.ts";
import { packNames, type Room } from "./room.ts";

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
export function shorten(paths: readonly string[]): { note: string; short: (path: string) => string } {
  const folder = paths.length < 2 ? "" : commonFolder(paths);
  if (folder.length < 12) return { note: "", short: (path) => oneLine(path, 100) };
  return {
    note: ` in ${cutStart(oneLine(folder, 400), 90)}`,
    short: (path) => oneLine(path.slice(folder.length), 100),
  };
}

/** How often each key occurs, most frequent first, otherwise by first appearance. */
export function tally(keys: readonly string[]): [key: string, times: number][] {
  const times = new Map<string, number>();
  for (const key of keys) times.set(key, (times.get(key) ?? 0) + 1);
  return [...times].sort((a, b) => b[1] - a[1]);
}

/** Files with a number each, in lines headed by what `heading` makes of the folder that they share. */
export function packFiles(
  counts: readonly [path: string, times: number][],
  heading: (folder: string) => string,
  room: Room,
): string[] {
  const { note, short } = shorten(counts.map(([path]) => path));
  return packNames(
    counts.map(([path, times]) => `${short(path)}: ${times}`),
    heading(note),
    room,
  ).lines;
}
