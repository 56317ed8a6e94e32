/** The files of a recorded session as they stood at one moment: from reads, writes and edits before it and soon after. */
import { posix } from "node:path";
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { extractToolResultText, isAssistant, isImage, isToolResult } from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { type Call, changesNothing, commandOf, isReadOnly, isShell, pathOf, rangeOf, replacementsOf } from "./calls.ts";
import { KnownFile } from "./known-file.ts";

/** What a host's `read` adds below the lines where there are more. */
const MORE_LINES = /\n*\[(\d+) more lines in file\. Use offset=\d+ to continue\.?\]$/;
const CUT_SHORT = /\n*\[Showing lines (\d+)-(\d+) of (\d+)[^\]\n]*\]$/;
const IMAGE_NOTE = /^Read image file \[/;
const READ_ARGUMENTS = new Set(["path", "file_path", "offset", "limit"]);
const NUMBERED = /^\s*\d+(?:\t|→|: |:$|\|)/;
/** Commands that may change files which they do not name. */
const SWEEPING =
  /\bgit\s+(?:-\S+\s+)*(?:apply|checkout|cherry-pick|clean|merge|pull|rebase|reset|restore|revert|stash|switch)\b|--write\b|--fix\b|\b(?:xargs|format|prettier)\b|\bfor\b|-exec\b|\*/;

/** Every file that the recording says anything about, by absolute path, and the results of calls that only looked. */
export class RecordedFiles {
  readonly byPath = new Map<string, KnownFile>();
  /** Text of the results by `callKey`, as long as nothing has changed since. */
  readonly results = new Map<string, string>();

  /** @param index place in `entries` of the reply before which the files stand as they are asked for */
  constructor(
    entries: readonly SessionEntry[],
    index: number,
    private readonly cwd: string,
  ) {
    const pairing = new CallPairing();
    for (const entry of entries.slice(0, index)) this.before(entry, pairing);
    this.after(entries.slice(index));
  }

  private before(entry: SessionEntry, pairing: CallPairing): void {
    if (entry.type !== "message") return;
    const { message } = entry;
    if (message.role === "bashExecution" && !isReadOnly(message.command)) this.ran(message.command, true);
    if (isAssistant(message)) pairing.open(message);
    const call = isToolResult(message) ? pairing.take(message.toolCallId) : undefined;
    if (isToolResult(message) && call) this.happened(call, message);
  }

  private happened(call: Call, result: ToolResultMessage): void {
    if (changesNothing(call)) {
      this.looked(call, result, "learn");
      return;
    }
    this.ran(changesNamedIn(call), isShell(call.name));
    const path = pathOf(call, this.cwd);
    if (path === undefined || result.isError) return;
    const { content } = call.arguments;
    if (call.name === "write" && typeof content === "string") this.byPath.set(path, KnownFile.of(content));
    const file = this.file(path);
    for (const { oldText, newText } of replacementsOf(call)) file.replace(oldText, newText);
  }

  /** What came after the moment tells of it too, until something is changed. */
  private after(entries: readonly SessionEntry[]): void {
    const pairing = new CallPairing();
    const changed = new Set<string>();
    // A command may change files that it does not name; until the first one, what is read is what stood there.
    let how: "learn" | "learnMore" = "learn";
    for (const entry of entries) {
      if (entry.type !== "message") continue;
      const { message } = entry;
      if (message.role === "bashExecution" && !isReadOnly(message.command)) return;
      if (isAssistant(message)) pairing.open(message);
      const call = isToolResult(message) ? pairing.take(message.toolCallId) : undefined;
      if (!isToolResult(message) || !call) continue;
      const path = pathOf(call, this.cwd);
      if (changesNothing(call)) {
        // What names no file may be about all of them.
        const holds = path === undefined ? how === "learn" && changed.size === 0 : !changed.has(path);
        if (holds) this.looked(call, message, how);
        continue;
      }
      if (isShell(call.name)) how = "learnMore";
      if (isShell(call.name) && SWEEPING.test(commandOf(call))) return;
      for (const named of this.named(changesNamedIn(call))) changed.add(named);
      if (path === undefined || message.isError || changed.has(path)) continue;
      changed.add(path);
      // A replacement that went well proves that its text was there.
      for (const { oldText } of replacementsOf(call).slice(0, 1)) this.file(path).learnPiece(oldText);
    }
  }

  private looked(call: Call, result: ToolResultMessage, how: "learn" | "learnMore"): void {
    const text = extractToolResultText(result);
    const key = callKey(call);
    if (!result.isError && (how === "learn" || !this.results.has(key))) this.results.set(key, text);
    const path = pathOf(call, this.cwd);
    if (call.name !== "read" || path === undefined || result.isError) return;
    if (result.content.some(isImage) || IMAGE_NOTE.test(text) || !isBare(call, text)) return;
    const { offset, limit } = rangeOf(call);
    const { lines, total } = linesRead(text, offset, limit);
    this.file(path)[how](offset, lines, total);
  }

  /** Something has run that may have changed the files which are named in `text`. */
  private ran(text: string, isCommand: boolean): void {
    this.results.clear();
    if (isCommand && SWEEPING.test(text)) this.byPath.clear();
    for (const path of this.named(text)) this.byPath.delete(path);
  }

  private named(command: string): string[] {
    return [...this.byPath.keys()].filter((path) => command.includes(posix.basename(path)));
  }

  private file(path: string): KnownFile {
    const file = this.byPath.get(path) ?? new KnownFile();
    this.byPath.set(path, file);
    return file;
  }
}

/** The text that names what a call may change, unless its own arguments say exactly what it does. */
function changesNamedIn(call: Call): string {
  if (isShell(call.name)) return commandOf(call);
  const isPlain = typeof call.arguments.content === "string" && call.name === "write";
  return isPlain || replacementsOf(call).length > 0 ? "" : JSON.stringify(call.arguments);
}

/** One name for calls that ask the same. */
export function callKey(call: Call): string {
  const args = Object.entries(call.arguments).sort(([a], [b]) => (a < b ? -1 : 1));
  return `${call.name} ${JSON.stringify(args)}`;
}

/** Whether a read shows lines as they are, as pi does: other agents number them, or take other arguments. */
function isBare({ arguments: args }: Call, text: string): boolean {
  if (Object.keys(args).some((name) => !READ_ARGUMENTS.has(name))) return false;
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.length < 3 || lines.filter((line) => NUMBERED.test(line)).length < lines.length / 2;
}

function linesRead(text: string, offset: number, limit: number | undefined): { lines: string[]; total?: number } {
  const cutShort = CUT_SHORT.exec(text);
  if (cutShort) return { lines: text.slice(0, cutShort.index).split("\n"), total: Number(cutShort[3]) };
  const more = MORE_LINES.exec(text);
  const lines = text.slice(0, more?.index).split("\n");
  if (more && limit !== undefined) while (lines.length < limit) lines.push("");
  return { lines, total: offset - 1 + lines.length + Number(more?.[1] ?? 0) };
}
