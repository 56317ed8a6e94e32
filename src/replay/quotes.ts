/** What a tool call's arguments quote: the text that an edit is to replace, and everything else. */
import { isRecord } from "../text/json.ts";

/** Shortest line that counts as a quotation: in text that is to be replaced, and anywhere else. */
export const MIN_REPLACED_CHARS = 12;
const MIN_OTHER_CHARS = 25;

/** Names of arguments that hold text to be replaced. */
const REPLACED = /^(?:old_?(?:text|string|str|content)|target_?content)$/i;
const PATHS = /^(?:(?:absolute_?|file_?|notebook_?|relative_workspace_?)?path|file(?:_?name)?|target_?file|uri)$/i;
/** A hunk of a unified diff, or a file header of an `apply_patch` text. */
const PATCH_MARK = /^(?:@@|\*\*\* )/m;
const PATCH_CHANGE = /^[-+]/m;
/** What tools put before a line that they show: `  12→`, `12<tab>`, `12: `, `Line 12: `, `src/a.ts:12:`. */
const LINE_NUMBER = /^\s*(?:(?:Line )?\d{1,7}(?:→|\t|: ?|\|)|[^\s:]{1,200}:\d{1,7}:)/;

/** A string of unknown depth within a call's arguments, and the name of the nearest argument around it. */
export interface ArgumentText {
  name: string;
  text: string;
}

/** Lines that a call quotes, trimmed. */
export interface Quotes {
  /** The call replaces text that stands in a file. */
  isEdit: boolean;
  lines: Set<string>;
}

/** Every string in a value, in no special order. Values may be nested to any depth. */
export function textsIn(value: unknown): ArgumentText[] {
  const found: ArgumentText[] = [];
  const open: { name: string; value: unknown }[] = [{ name: "", value }];
  for (let next = open.pop(); next; next = open.pop()) {
    const { name, value: item } = next;
    if (typeof item === "string") found.push({ name, text: item });
    else if (Array.isArray(item)) for (const part of item) open.push({ name, value: part });
    else if (isRecord(item)) for (const [key, part] of Object.entries(item)) open.push({ name: key, value: part });
  }
  return found;
}

/** What a call with these arguments quotes. The names of its arguments tell whether it edits, not its tool. */
export function quotesOf(texts: readonly ArgumentText[]): Quotes {
  const quotes: Quotes = { isEdit: false, lines: new Set() };
  const add = (text: string, min: number) => {
    for (const line of linesOf(text)) if (line.length >= min) quotes.lines.add(line);
  };
  for (const { name, text } of texts) {
    if (REPLACED.test(name)) {
      quotes.isEdit ||= text.trim() !== "";
      add(text, MIN_REPLACED_CHARS);
    } else if (PATCH_MARK.test(text) && PATCH_CHANGE.test(text)) {
      const replaced = text.split("\n").filter((line) => /^[- ](?!--)/.test(line));
      quotes.isEdit ||= replaced.some((line) => line.startsWith("-") || line.trim() !== "");
      add(replaced.map((line) => line.slice(1)).join("\n"), MIN_REPLACED_CHARS);
      add(
        text
          .split("\n")
          .map((line) => line.replace(/^[-+ ]/, ""))
          .join("\n"),
        MIN_OTHER_CHARS,
      );
    } else add(text, MIN_OTHER_CHARS);
  }
  return quotes;
}

/** The file that a call is about, where one of its arguments names one. */
export function fileOf(texts: readonly ArgumentText[]): string | undefined {
  return texts.find(({ name, text }) => PATHS.test(name) && text !== "" && !text.includes("\n"))?.text;
}

/** The lines of a text, trimmed; those too short for any quotation are left out. */
export function linesOf(text: string): string[] {
  return text.split("\n").flatMap((line) => {
    const trimmed = line.trim();
    return trimmed.length < MIN_REPLACED_CHARS ? [] : [trimmed];
  });
}

/** As `linesOf`, and each line once more without a number that the tool has put before it. */
export function shownLines(text: string): string[] {
  return text.split("\n").flatMap((line) => {
    const trimmed = line.trim();
    if (trimmed.length < MIN_REPLACED_CHARS) return [];
    const bare = line.replace(LINE_NUMBER, "").trim();
    return bare.length < MIN_REPLACED_CHARS || bare === trimmed ? [trimmed] : [trimmed, bare];
  });
}
