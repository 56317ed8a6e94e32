/** A model's reply for a batch, taken apart by call. */

/** A line that opens the section of call `n`: `[3]`, also as a list item, heading or in bold. */
export const SECTION = /^[ \t]*(?:[-*#]{1,6}[ \t]*)?\*{0,3}\[(\d{1,4})\][*:]*[ \t]*/;

/**
 * The section of each of `count` calls, or `undefined` where the reply does not give every call a non-empty section in
 * order. A call that is given a second section has none, since nobody can tell which of them was made up. A single call
 * needs no section mark.
 */
export function splitSummary(text: string, count: number): (string | undefined)[] | undefined {
  const sections: string[][] = [];
  const doubled = new Set<number>();
  let current: string[] | undefined;
  for (const line of text.split("\n")) {
    const mark = SECTION.exec(line);
    const n = Number(mark?.[1] ?? 0);
    const rest = line.slice(mark?.[0].length ?? 0);
    if (n === sections.length + 1 && n <= count) {
      current = [rest];
      sections.push(current);
    } else if (n > 0 && n <= sections.length) {
      doubled.add(n - 1);
      current = undefined;
    } else current?.push(line);
  }
  if (sections.length === 0) return count === 1 && text.trim() ? [text.trim()] : undefined;
  const texts = sections.map((lines) => lines.join("\n").trim());
  if (texts.length < count || texts.some((section) => section === "")) return undefined;
  return texts.map((section, i) => (doubled.has(i) ? undefined : section));
}
