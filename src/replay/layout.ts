/** Tables and sentences that fit a terminal of 60 columns, in which the host keeps one free on each side. */

/** Columns of the narrowest terminal that is reckoned with. */
const COLUMNS = 58;

/** A sentence in lines; a word that is longer than a line is not broken. */
export function wrapped(text: string, indent = ""): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > COLUMNS) {
      lines.push(line);
      line = indent + word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].join("\n");
}

/** Rows in columns, the first one to the left and the others to the right. A first cell is cut at its start. */
export function layOut(rows: readonly (readonly string[])[], columns = COLUMNS): string[] {
  const widthOf = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0));
  const widths = (rows[0] ?? []).map((_, column) => widthOf(column));
  const others = widths.slice(1).reduce((sum, width) => sum + width + 2, 0);
  const first = Math.min(widths[0] ?? 0, Math.max(10, columns - others));
  return rows.map(([label = "", ...cells]) => {
    const shown = label.length > first ? `…${label.slice(label.length - first + 1)}` : label;
    const right = cells.map((cell, i) => cell.padStart(widths[i + 1] ?? 0));
    return [shown.padEnd(first), ...right].join("  ").trimEnd();
  });
}
