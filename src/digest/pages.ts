/** Documents that a tool has fetched: their headings. */
import { oneLine } from "../text/text.ts";
import { outline } from "./outline.ts";
import { MAX_LINE, type Room } from "./room.ts";

/** Headings that make a text a document. */
const MIN_HEADINGS = 3;
const MAX_HEADINGS = 40;

/** The headings of a text in Markdown or HTML. Empty for any other. */
export function pageDigest(text: string, lines: readonly string[], room: Room): string[] {
  const headings = htmlHeadings(text);
  if (headings.length > 0) return headings.slice(0, room.lines);
  const marked = lines.filter((line) => /^#{1,4} \S/.test(line) && line.length < 200).length;
  return marked < MIN_HEADINGS ? [] : outline("page.md", text, room);
}

function htmlHeadings(text: string): string[] {
  if (!/^\s{0,20}<(?:!doctype html|html|head|body)\b/i.test(text.slice(0, 200))) return [];
  const found: string[] = [];
  for (const match of text.matchAll(/<(title|h[1-4])\b[^<>]{0,300}>([^<]{1,300})/gi)) {
    const words = oneLine(match[2] ?? "", 120);
    if (words !== "") found.push(oneLine(`${match[1]?.toLowerCase()}: ${words}`, MAX_LINE));
    if (found.length === MAX_HEADINGS) break;
  }
  return found;
}
