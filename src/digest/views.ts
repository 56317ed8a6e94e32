/** Commands that do nothing but show a file, or a part of one: their output is outlined as a read of it is. */

/** A file that a command shows. */
export interface ShownFile {
  path: string;
  /** Number of the first line of `text`. */
  firstLine: number;
  /** The text of the file, numbers that the command has put before its lines taken off. */
  text: string;
}

/** A command longer than this does more than that. */
const MAX_COMMAND = 1_000;
const MAX_NUMBER = 9_999_999;
/** Lines left out between those shown are put in as blank ones, up to this many in all. */
const MAX_GAPS = 50_000;
/** Share of the lines that carry a number in a text that is numbered. */
const MIN_NUMBERED = 0.9;

/** What of a file the command shows; `undefined` where it does anything else, or takes several files. */
export function shownFile(command: string, body: string): ShownFile | undefined {
  const view = viewOf(command);
  if (!view) return undefined;
  const { path } = view;
  const numbered = numberedText(body);
  if (numbered) return { path, ...numbered };
  const ranges = view.stages.map((stage) => (stage[0] === "sed" ? rangeStart(stage) : undefined));
  return { path, firstLine: ranges.find((start) => start !== undefined) ?? 1, text: body };
}

/** The file that a command shows, or a part of it. */
export function pathShownBy(command: string): string | undefined {
  return viewOf(command)?.path;
}

function viewOf(command: string): { path: string; stages: string[][] } | undefined {
  if (command.length > MAX_COMMAND) return undefined;
  const plain = command.trim().replace(/^cd [^\s;&|]{1,400} && /, "");
  const stages = stagesOf(plain.replace(/ 2>(?:\/dev\/null|&1)/g, ""));
  const [first = [], ...others] = stages ?? [];
  const [program = "", ...words] = first;
  const path = operandsOf(program, words)?.at(-1);
  const isView = others.every(([name = ""]) => /^(?:head|tail|sed|nl|cat)$/.test(name));
  return path === undefined || !stages || !isView ? undefined : { path, stages };
}

/** A text whose lines carry their numbers (`cat -n`, `nl`, `grep -n`), with those taken off; gaps become blank lines. */
export function numberedText(body: string): Omit<ShownFile, "path"> | undefined {
  const lines = body.split("\n");
  const filled = lines.filter((line) => line.trim() !== "" && line !== "--");
  if (filled.length < 3 || !NUMBERED.test(filled[0] ?? "")) return undefined;
  const rows = filled.flatMap((line) => {
    const match = NUMBERED.exec(line);
    return match ? [{ number: Number(match[1]), text: line.slice(match[0].length) }] : [];
  });
  const first = rows[0]?.number ?? 0;
  const last = rows.at(-1)?.number ?? 0;
  const ascending = rows.every((row, i) => i === 0 || row.number > (rows[i - 1]?.number ?? MAX_NUMBER));
  if (!ascending || rows.length < filled.length * MIN_NUMBERED || last - first - rows.length > MAX_GAPS)
    return undefined;
  const text: string[] = new Array<string>(last - first + 1).fill("");
  for (const row of rows) text[row.number - first] = row.text;
  return { firstLine: first, text: text.join("\n") };
}

const NUMBERED = /^ {0,8}(\d{1,7})(?:\t|→|:|-| {2}| \| )/;

/** The words of each stage of a pipe; `undefined` where the command is more than a plain pipe. */
function stagesOf(command: string): string[][] | undefined {
  const stages: string[][] = [[]];
  for (const [word, , double, single] of command.matchAll(/(\||"([^"]*)"|'([^']*)'|[^\s|"']+)/g)) {
    const quoted = double ?? single;
    if (quoted === undefined && /[;&<>`$*(){}]/.test(word)) return undefined;
    if (word === "|") stages.push([]);
    else stages.at(-1)?.push(quoted ?? word);
  }
  return stages;
}

/** The operands of a program that shows one file; `undefined` for any other, and for a search without context lines. */
function operandsOf(program: string, words: readonly string[]): string[] | undefined {
  const operands: string[] = [];
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? "";
    if (!word.startsWith("-")) operands.push(word);
    else if (/^-(?:n|[ABCm]|-lines)$/.test(word) && /^\d+$/.test(words[i + 1] ?? "")) i++;
  }
  if (/^(?:cat|nl|bat|batcat|head|tail|less|more|type)$/.test(program))
    return operands.length === 1 ? operands : undefined;
  if (program === "sed")
    return operands.length === 2 && rangeStart(["sed", ...words]) !== undefined ? operands : undefined;
  const isPart = /^(?:grep|rg)$/.test(program) && words.some((word) => /^-\w{0,4}[ABC]\d{0,4}$/.test(word));
  return isPart && operands.length === 2 && /\.\w{1,10}$/.test(operands[1] ?? "") ? operands : undefined;
}

/** The 10 of `sed -n 10,20p`. */
function rangeStart(words: readonly string[]): number | undefined {
  if (!words.includes("-n")) return undefined;
  const range = words
    .map((word) => /^(\d{1,7})(?:,(?:\d{1,7}|\$))?p$/.exec(word)?.[1])
    .find((start) => start !== undefined);
  return range === undefined ? undefined : Number(range);
}
