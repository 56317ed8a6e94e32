/** Output in sections: what a script prints under headings of its own, and files shown one behind another. */
import { cut, hasWords } from "../text/text.ts";
import { excerpt } from "./excerpt.ts";
import { count, MAX_LINE, type Room, roomAfter } from "./room.ts";

/** `=== tests ===`, `--- tests ---`, `==> src/a.ts <==`, `##### tests #####`. */
const HEADING =
  /^\s{0,8}(={2,60}>?|-{3,60}|#{3,60}|\*{3,60})\s{0,4}(\S(?:.{0,120}\S)?)\s{0,4}(<?={2,60}|-{3,60}|#{3,60}|\*{3,60})\s*$/;
const MIN_SECTIONS = 2;
/** Room that a section needs to say anything besides its heading. */
const MIN_CHARS = 70;

interface Section {
  /** Index of its heading. */
  line: number;
  name: string;
  end: number;
}

/** Each section with its size and its telling lines. Empty for a text that is not in sections. */
export function sectionDigest(lines: readonly string[], room: Room): string[] {
  const sections = sectionsOf(lines);
  if (sections.length < MIN_SECTIONS) return [];
  const digest: string[] = [];
  for (const [i, { line, name, end }] of sections.entries()) {
    const left = roomAfter(room, digest);
    const inside = lines.slice(line + 1, end);
    const filled = inside.filter((text) => hasWords(text)).length;
    const heading = cut(`L${line + 1} ${name} (${count(filled, "line")})`, MAX_LINE);
    if (left.lines < 1 || left.chars < heading.length + 1) break;
    digest.push(heading);
    const rest = sections.length - i;
    const own = roomAfter(left, [heading]);
    // Headings of what is still to come have their lines and some 40 characters kept free.
    const share: Room = {
      lines: Math.min(Math.max(1, Math.ceil(own.lines / rest)), own.lines - (rest - 1)),
      chars: Math.floor((own.chars - (rest - 1) * 40) / rest),
    };
    if (share.lines > 0 && share.chars >= MIN_CHARS)
      digest.push(...excerpt(inside, share, { head: 1, tail: 1 }, line + 2));
  }
  return digest;
}

function sectionsOf(lines: readonly string[]): Section[] {
  const sections: Section[] = [];
  lines.forEach((line, index) => {
    if (line.length > 200) return;
    const [, open = "", words = "", close = ""] = HEADING.exec(line) ?? [];
    const name = words.replace(/[\s=*#<>-]{1,60}$/, "");
    if (name === "" || open[0] !== close.at(-1) || !hasWords(name) || name.startsWith(open[0] ?? " ")) return;
    const last = sections.at(-1);
    if (last) last.end = index;
    sections.push({ line: index, name, end: lines.length });
  });
  return sections;
}
