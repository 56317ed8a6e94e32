/** Globs that no text can make slow. */
import picomatch from "picomatch";

/** A file name can be no longer on any common disk. */
const MAX_SEGMENT_CHARS = 255;

/** Stars in one segment of a pattern that are told apart: each further one multiplies the time of a match. */
const MAX_STARS = 2;

/** Wildcards of a pattern whose groups span folders, and characters that it is matched against. */
const MAX_WILDCARDS = 3;
const MAX_GROUPED_PATH_CHARS = 512;

/** What becomes of a pattern that could take too long: a wider one in its place, or none. */
export type IfSlow = "widen" | "drop";

export type TextTest = (text: string) => boolean;

const ANY_FOLDERS = Symbol("**");

/**
 * The test of a glob. It goes segment by segment, since one regular expression for several `**` can take minutes on a
 * path that does not match.
 */
export function parseGlob(glob: string, ifSlow: IfSlow): TextTest | undefined {
  try {
    if (/[{(][^})]*\//.test(glob)) {
      if ((glob.match(/\*+|\?/g) ?? []).length > MAX_WILDCARDS || REPEATED_GROUP.test(glob)) return undefined;
      const test = toTest(glob);
      return (text) => text.length <= MAX_GROUPED_PATH_CHARS && test(text);
    }
    const parts: (TextTest | typeof ANY_FOLDERS)[] = [];
    for (const segment of glob.split("/")) {
      const simple = simplified(segment);
      if (simple !== segment && ifSlow === "drop") return undefined;
      if (segment !== "**") parts.push(toTest(simple));
      else if (parts.at(-1) !== ANY_FOLDERS) parts.push(ANY_FOLDERS);
    }
    const name = parts.at(-1);
    // Most paths fail by their last segment, which takes no list of the others to see.
    const mayMatch = (text: string) => typeof name !== "function" || fits(name, text.slice(text.lastIndexOf("/") + 1));
    return (text) => mayMatch(text) && matchSegments(parts, text.split("/"));
  } catch {
    return undefined;
  }
}

const REPEATED_GROUP = /[+*!]\(/;

/** A segment of a pattern that matches at least as much and takes no longer than a few stars do. */
function simplified(segment: string): string {
  if (REPEATED_GROUP.test(segment)) return "*";
  const stars = segment.match(/\*+/g)?.length ?? 0;
  if (stars <= MAX_STARS || segment === "**") return segment;
  if (/[{(]/.test(segment)) return "*";
  return `${segment.slice(0, segment.indexOf("*"))}*${segment.slice(segment.lastIndexOf("*") + 1)}`;
}

function toTest(glob: string): TextTest {
  if (!/[\\*?[\]{}()+@!|]/.test(glob)) {
    const plain = glob.toLowerCase();
    return (text) => text.toLowerCase() === plain;
  }
  // `windows: false`: all paths have been brought to forward slashes, on every platform.
  return picomatch(glob, { dot: true, nocase: true, nonegate: true, windows: false });
}

function fits(part: TextTest, segment: string): boolean {
  return segment.length <= MAX_SEGMENT_CHARS && part(segment);
}

/** Whether the parts match the segments one by one, `**` any number of them. */
function matchSegments(parts: readonly (TextTest | typeof ANY_FOLDERS)[], segments: readonly string[]): boolean {
  // Beginnings of the path, by number of segments, that the parts so far match.
  let reached = new Set([0]);
  for (const part of parts) {
    const next = new Set<number>();
    if (part === ANY_FOLDERS) {
      for (let i = Math.min(...reached); i <= segments.length; i++) next.add(i);
    } else {
      for (const i of reached) {
        const segment = segments[i];
        if (segment !== undefined && fits(part, segment)) next.add(i + 1);
      }
    }
    reached = next;
  }
  return reached.has(segments.length);
}
