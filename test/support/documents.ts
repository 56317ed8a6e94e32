/** The project's documents, and what stands in them: commands, code, links. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { REPOSITORY } from "./host-paths.ts";

/** Something that a document says, and where. */
export interface Mention {
  document: string;
  line: number;
  text: string;
}

/** A block of code, fenced or indented. */
export interface Block extends Mention {
  /** What stands behind the fence. */
  language: string;
}

/** Every document, by its path in the repository. */
export const DOCUMENTS: readonly string[] = ["", "doc"].flatMap((folder) =>
  readdirSync(join(REPOSITORY, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => join(folder, name)),
);

/** Fences of blocks that hold commands; any other language is data. */
const SHELLS = new Set(["", "sh", "bash", "shell", "console"]);

/** What a command in running text begins with; a block may begin with anything. */
const PROGRAMS =
  /^(npm|npx|pi|bun|bunx|node|git|gh|yarn|pnpm|deno|docker|brew|apt|apt-get|curl|wget|sudo|sh|bash|cd|export|python3?|tmux)$/;
const ASSIGNMENT = /^[A-Z][A-Z0-9_]*=\S+$/;
/** Blocks that are output, settings or a formula, and no commands. */
const DATA = /^[[{<]|×/;
/** Words of a command; a placeholder in angle brackets may hold spaces. */
const WORDS = /(?:<[^>]*>|\[[^\]]*\]|\S)+/g;

export function readDocument(document: string): string {
  return readFileSync(join(REPOSITORY, document), "utf8");
}

/** The document's blocks of code. */
export function blocksIn(document: string): Block[] {
  return split(document).blocks;
}

/** Code within running text, also where it goes over the end of a line. */
export function inlineCodeIn(document: string): Mention[] {
  const { prose } = split(document);
  return [...prose.matchAll(/`([^`]+)`/g)].map(({ index, 1: code = "" }) => ({
    document,
    line: prose.slice(0, index).split("\n").length,
    text: code.replace(/\s+/g, " "),
  }));
}

/** Where links and images lead. */
export function linksIn(document: string): Mention[] {
  const { prose } = split(document);
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(({ index, 1: text = "" }) => ({
    document,
    line: prose.slice(0, index).split("\n").length,
    text,
  }));
}

/** The anchors that links can name: a heading in lower case, words joined by hyphens. */
export function anchorsIn(document: string): string[] {
  const headings = split(document).prose.match(/^#+ .+$/gm) ?? [];
  return headings.map((heading) =>
    heading
      .replace(/^#+ /, "")
      .toLowerCase()
      .replace(/[^\w\s-]/g, "")
      .replace(/\s/g, "-"),
  );
}

/**
 * Every command that a reader could type: the lines of shell blocks, and code in running text that begins with a program, with
 * the setting of a variable, or as a slash command does.
 */
export function commandsIn(document: string): Mention[] {
  const fromBlocks = blocksIn(document)
    .filter(({ language, text }) => SHELLS.has(language) && !DATA.test(text))
    .flatMap(({ line, text }) =>
      text
        .split("\n")
        .map((row, i) => ({ document, line: line + i, text: row.replace(/^\s*\$ |\s+#\s.*$/g, "").trim() })),
    )
    .filter(({ text }) => text !== "" && !text.startsWith("#"));
  const fromProse = inlineCodeIn(document).filter(({ text }) => isCommand(text));
  return [...fromBlocks, ...fromProse].toSorted((a, b) => a.line - b.line);
}

function isCommand(code: string): boolean {
  if (/^\/[a-z][a-z-]*( .*)?$/.test(code)) return true;
  const words = wordsOf(code);
  const program = words.find((word) => !ASSIGNMENT.test(word));
  if (program === undefined) return true;
  return PROGRAMS.test(program) && words.length > 1;
}

/** A command as it is to be run. */
export interface Invocation {
  env: Record<string, string>;
  argv: [program: string, ...args: string[]];
}

/**
 * The invocation of a command that a document holds, word for word, with something real in the place of each placeholder; a
 * test that runs it this way goes with the document.
 * @throws where no document holds the command, or a placeholder is left
 */
export function documented(command: string, standIns: Readonly<Record<string, string>> = {}): Invocation {
  const found = DOCUMENTS.some((document) => commandsIn(document).some(({ text }) => text === command));
  if (!found) throw new Error(`no document holds the command: ${command}`);
  return invocationOf(command, standIns);
}

/** Reads a command, with `standIns` in the place of what they are named after. */
export function invocationOf(command: string, standIns: Readonly<Record<string, string>> = {}): Invocation {
  const words = wordsOf(command).map((word) => {
    const entries = Object.entries(standIns);
    const real = entries.reduce((text, [placeholder, standIn]) => text.replace(placeholder, () => standIn), word);
    if (/[<[]/.test(real) || real.includes("/path/to/"))
      throw new Error(`nothing stands in for ${real} in: ${command}`);
    return real;
  });
  const first = words.findIndex((word) => !ASSIGNMENT.test(word));
  const [program, ...args] = first < 0 ? [] : words.slice(first);
  if (program === undefined) throw new Error(`this is no command: ${command}`);
  const env = words
    .slice(0, first)
    .map((word) => [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)]);
  return { env: Object.fromEntries(env), argv: [program, ...args] };
}

function wordsOf(command: string): string[] {
  return (command.match(WORDS) ?? []).map((word) => word.replace(/^"(.*)"$/, "$1"));
}

/** The blocks of a document, and the rest with as many lines as the whole. */
function split(document: string): { blocks: Block[]; prose: string } {
  const blocks: Block[] = [];
  const prose: string[] = [];
  let fence: { mark: string; block: Block } | undefined;
  let indented: Block | undefined;
  const lines = readDocument(document).split("\n");
  for (const [i, line] of lines.entries()) {
    const [, mark = "", language = ""] = /^ {0,3}(```+|~~~+)\s*(\S*)/.exec(line) ?? [];
    const content = fence ? undefined : /^(?: {4}|\t)(.*)$/.exec(line)?.[1];
    const afterText = (lines[i - 1] ?? "").trim() !== "" && !indented;
    prose.push("");
    if (fence) {
      if (mark.startsWith(fence.mark)) fence = undefined;
      else fence.block.text += `${fence.block.text === "" ? "" : "\n"}${line}`;
    } else if (mark) {
      fence = { mark, block: { document, line: i + 2, language, text: "" } };
      blocks.push(fence.block);
    } else if (content !== undefined && !afterText) {
      if (indented) indented.text += `\n${content}`;
      else {
        indented = { document, line: i + 1, language: "", text: content };
        blocks.push(indented);
      }
      continue;
    } else if (line.trim() === "" && indented) {
      indented.text += "\n";
      continue;
    } else prose[i] = line;
    indented = undefined;
  }
  return { blocks, prose: prose.join("\n") };
}
