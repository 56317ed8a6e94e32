/** The room that a digest has, and filling it with names. */
import { grouped } from "../text/text.ts";

export { count } from "../text/text.ts";

/** What a digest may take up: lines, and characters with one line break for each line. */
export interface Room {
  lines: number;
  chars: number;
}

/** Characters of one line of a digest. */
export const MAX_LINE = 160;
/** Kept free for " … 1,234,567 more". */
const HIDDEN_NOTE = 18;

/** Characters of lines with their line breaks. */
export function charsOf(lines: readonly string[]): number {
  return lines.reduce((sum, line) => sum + line.length + 1, 0);
}

/** What is left of a room after some lines. */
export function roomAfter(room: Room, lines: readonly string[]): Room {
  return { lines: room.lines - lines.length, chars: room.chars - charsOf(lines) };
}

/** Items joined by commas behind a heading in lines of at most `MAX_LINE`; how many had no room stands at the end. */
export function packNames(names: readonly string[], heading: string, room: Room): { lines: string[]; hidden: number } {
  const lines: string[] = [];
  let next = 0;
  let left = room.chars - HIDDEN_NOTE;
  while (next < names.length && lines.length < room.lines) {
    const width = Math.min(MAX_LINE - HIDDEN_NOTE, left - 1);
    const start = next;
    let line = lines.length === 0 ? heading : "";
    for (let name = names[next]; name !== undefined; name = names[++next]) {
      const longer = next === start ? line + name : `${line}, ${name}`;
      if (longer.length > width) break;
      line = longer;
    }
    if (next === start) break;
    lines.push(line);
    left -= line.length + 1;
  }
  const hidden = names.length - next;
  const note = `… ${grouped(hidden)} more`;
  if (lines.length === 0 && hidden > 0 && room.lines > 0 && heading.length + note.length < room.chars) {
    return { lines: [heading + note], hidden };
  }
  const last = lines.pop();
  if (last !== undefined) lines.push(hidden === 0 ? last : `${last} ${note}`);
  return { lines, hidden };
}
