/** A model's reply for a batch, taken apart by call. */

/** A line that opens the section of call `n`: `[3]`, also as a list item, heading or in bold. */
const SECTION = /^[ \t]*(?:[-*#]+[ \t]*)?\**\[(\d{1,4})\](?:\*|:)*[ \t]*/;

/**
 * The section of each of `count` calls, or `undefined` where the reply does not give every call exactly one non-empty
 * section in order. A single call needs no section mark.
 */
export function splitSummary(text: string, count: number): string[] | undefined {
  const sections: string[] = [];
  let current: string[] | undefined;
  for (const line of text.split("\n")) {
    const mark = SECTION.exec(line);
    if (mark && Number(mark[1]) === sections.length + 1 && sections.length < count) {
      if (current) sections[sections.length - 1] = current.join("\n").trim();
      current = [line.slice(mark[0].length)];
      sections.push("");
    } else current?.push(line);
  }
  if (current) sections[sections.length - 1] = current.join("\n").trim();
  if (sections.length === count && sections.every((section) => section.length > 0)) return sections;
  return count === 1 && sections.length === 0 && text.trim() ? [text.trim()] : undefined;
}
