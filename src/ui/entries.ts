/** Flushes in the transcript, where the host can draw entries: a line each, and the summaries once it is expanded. */
import type { ExtensionAPI, SessionEntry, Theme } from "@mariozechner/pi-coding-agent";
import { getMarkdownTheme } from "@mariozechner/pi-coding-agent";
import { type Component, Markdown } from "@mariozechner/pi-tui";
import { describeCall } from "../digest/describe.ts";
import { readOwnEntry } from "../session/entries.ts";
import { callsOf } from "../session/index-calls.ts";
import { findHeld } from "../session/lean-records.ts";
import { count } from "../text/text.ts";
import { CUSTOM_TYPE_FRONTIER, type SummaryEntryData } from "../types.ts";
import { fit, type Paint, readable, type Sizes, short } from "./paint.ts";

type EntryRenderer = (
  entry: Parameters<typeof readOwnEntry>[0],
  options: { expanded: boolean; keyText?(action: string): string },
  theme: Theme,
) => Component | undefined;

/** Only the newer host draws entries that are no messages. */
interface DrawsEntries {
  registerEntryRenderer(customType: string, renderer: EntryRenderer): void;
}

/** @param branch entries of the current branch, in which a flush is looked up */
export function registerEntryRenderers(pi: ExtensionAPI, branch: () => readonly SessionEntry[]): void {
  if (!drawsEntries(pi)) return;
  pi.registerEntryRenderer(CUSTOM_TYPE_FRONTIER, (entry, { expanded, keyText }, theme) => {
    const flush = flushOf(branch(), entry);
    const key = keyText?.("app.tools.expand") ?? "ctrl+o";
    return flush && new FlushEntry(flush, { expanded, key }, theme);
  });
}

function drawsEntries(pi: object): pi is DrawsEntries {
  return "registerEntryRenderer" in pi && typeof pi.registerEntryRenderer === "function";
}

/** What one flush has condensed. */
export interface Flush {
  /** Calls as they are described elsewhere, oldest first; empty where they cannot be looked up. */
  calls: readonly string[];
  duplicates: number;
  chains: number;
  /** Characters of the results, and of what stands in their place. */
  sizes: Sizes;
  /** The summaries, as Markdown. */
  text: string;
}

type CustomEntry = Parameters<typeof readOwnEntry>[0];

/** The flush that a frontier ends; `undefined` where it has condensed nothing. */
export function flushOf(branch: readonly SessionEntry[], frontier: CustomEntry): Flush | undefined {
  const own = readOwnEntry(frontier);
  if (own?.kind !== "frontier") return undefined;
  const found = branch.findLastIndex((entry) => entry.id === frontier.id);
  const end = found < 0 ? branch.length : found;
  const start = branch.slice(0, end).findLastIndex(isFrontier) + 1;
  const written = found < 0 ? [] : branch.slice(start, end).flatMap((entry) => readOwnEntry(entry) ?? []);
  const indexed = written.flatMap((one) => (one.kind === "index" && !one.data.backfilled ? callsOf(one).calls : []));
  const calls = indexed.filter(({ isSpilled }) => !isSpilled);
  findHeld(branch, calls);
  const parts = written.flatMap((one) => (one.kind === "summary" ? textsOf(one.data) : []));
  const { rawCharCount: before, summaryCharCount: after } = own.data;
  const flush: Flush = {
    calls: calls.map(({ record: { toolName, args } }) => describeCall(toolName, args)),
    duplicates: written.filter((one) => one.kind === "alias" && !one.data.eager).length,
    chains: written.filter((one) => one.kind === "chain").length,
    sizes: { before, after },
    text: parts.join("\n\n"),
  };
  return before > after || flush.chains > 0 ? flush : undefined;
}

function isFrontier(entry: SessionEntry): boolean {
  return entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER;
}

function textsOf({ text, parts }: SummaryEntryData): string[] {
  return text === "" ? parts.map((part) => `**${part.shortId}** ${part.text}`) : [text];
}

/** Columns from which on the key's use is told. */
const WIDE = 80;
/** Calls that a line names; more do not fit. */
const NAMED_CALLS = 3;

/** One line a flush, and its summaries below it once it is expanded. */
export class FlushEntry implements Component {
  private readonly markdown: Markdown | undefined;

  constructor(
    private readonly flush: Flush,
    private readonly view: { expanded: boolean; key: string },
    private readonly paint: Paint,
  ) {
    const isOpen = view.expanded && flush.text !== "";
    this.markdown = isOpen ? new Markdown(readable(flush.text), 0, 0, getMarkdownTheme()) : undefined;
  }

  invalidate(): void {
    this.markdown?.invalidate();
  }

  render(width: number): string[] {
    // In few columns the names of what was condensed are worth more than the words around them.
    const words = width < WIDE ? "" : " to expand";
    const hint = this.markdown || this.flush.text === "" ? "" : ` (${this.view.key}${words})`;
    const room = Math.max(20, width - hint.length);
    const line = `${fit(readable(`pruner: ${lineOf(this.flush)}`), room)}${hint}`;
    return [fit(this.paint.fg("dim", line), width), ...(this.markdown?.render(width) ?? [])];
  }
}

function lineOf({ calls, duplicates, chains, sizes }: Flush): string {
  const more = calls.length - NAMED_CALLS;
  const parts = [
    ...calls.slice(0, NAMED_CALLS),
    ...(more > 0 ? [`${more} more`] : []),
    ...(duplicates > 0 ? [count(duplicates, "duplicate")] : []),
    ...(chains > 0 ? [count(chains, "chain")] : []),
  ];
  const { before, after } = sizes;
  const size = before > after ? `condensed ${short(before)}→${short(after)} characters` : "compressed";
  return parts.length === 0 ? size : `${size}: ${parts.join(", ")}`;
}
