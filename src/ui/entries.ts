/** Summaries in the transcript, where the host can draw entries: a line each, and the whole once it is expanded. */
import type { ExtensionAPI, Theme } from "@mariozechner/pi-coding-agent";
import { getMarkdownTheme } from "@mariozechner/pi-coding-agent";
import { type Component, Markdown } from "@mariozechner/pi-tui";
import { readOwnEntry } from "../session/entries.js";
import { count } from "../text/text.js";
import { CUSTOM_TYPE_SUMMARY } from "../types.js";
import { fit, type Paint, readable } from "./paint.js";

type EntryRenderer = (
  entry: Parameters<typeof readOwnEntry>[0],
  options: { expanded: boolean; keyText?(action: string): string },
  theme: Theme,
) => Component | undefined;

/** Only the newer host draws entries that are no messages. */
interface DrawsEntries {
  registerEntryRenderer(customType: string, renderer: EntryRenderer): void;
}

export function registerEntryRenderers(pi: ExtensionAPI): void {
  if (!drawsEntries(pi)) return;
  pi.registerEntryRenderer(CUSTOM_TYPE_SUMMARY, (entry, { expanded, keyText }, theme) => {
    const own = readOwnEntry(entry);
    const key = keyText?.("app.tools.expand") ?? "ctrl+o";
    return own?.kind === "summary" ? new SummaryEntry(own.data, { expanded, key }, theme) : undefined;
  });
}

function drawsEntries(pi: object): pi is DrawsEntries {
  return "registerEntryRenderer" in pi && typeof pi.registerEntryRenderer === "function";
}

/** One line, and the summary below it once it is expanded. */
export class SummaryEntry implements Component {
  private readonly markdown: Markdown | undefined;

  constructor(
    private readonly data: { text: string; occurrenceKeys: readonly string[]; model: string },
    private readonly view: { expanded: boolean; key: string },
    private readonly paint: Paint,
  ) {
    this.markdown = view.expanded ? new Markdown(readable(data.text), 0, 0, getMarkdownTheme()) : undefined;
  }

  invalidate(): void {
    this.markdown?.invalidate();
  }

  render(width: number): string[] {
    const { occurrenceKeys, model } = this.data;
    const by = model === "none" ? "" : ` by ${model}`;
    const hint = this.markdown ? "" : ` (${this.view.key} to expand)`;
    const line = `pruner: ${count(occurrenceKeys.length, "result")} condensed${by}${hint}`;
    return [fit(this.paint.fg("dim", line), width), ...(this.markdown?.render(width) ?? [])];
  }
}
