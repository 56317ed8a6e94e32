/** Digests of search matches. */
import { oneLine } from "../text/text.ts";
import { shorten, tally } from "./names.ts";
import { type GrepLine, parseGrepLine } from "./result.ts";
import { count, MAX_LINE, packNames, type Room, roomAfter } from "./room.ts";

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
