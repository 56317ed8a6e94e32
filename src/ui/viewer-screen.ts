/** A summary and the original that it stands for, to be scrolled through. */
import { type Component, Markdown, type MarkdownTheme, matchesKey } from "@mariozechner/pi-tui";
import { count } from "../text/text.ts";
import { framed, readable, wrapped } from "./paint.ts";
import type { Screen, Stage } from "./terminal.ts";

/** Lines of an original that are shown until it is expanded. */
const FOLDED_LINES = 10;
/** Rows of rules, title, blanks and keys. */
const ROWS_AROUND = 7;
const MIN_BODY_ROWS = 3;
/** Characters of an original that are laid out at most; a whole blob would stall the terminal. */
const MAX_SHOWN_CHARS = 400_000;

/** What is shown of one call or chain. */
export interface Document {
  title: string;
  /** Markdown; empty where nothing was summarised. */
  summary: string;
  originals: readonly { title: string; text: string }[];
}

export class ViewerScreen implements Screen {
  readonly capturesViewportInput = true;
  private readonly markdown: Component | undefined;
  private top = 0;
  private expanded = false;
  private cache: { width: number; expanded: boolean; lines: string[] } | undefined;

  constructor(
    private readonly document: Document,
    private readonly stage: Stage,
    private readonly close: () => void,
    markdownTheme: MarkdownTheme,
  ) {
    this.markdown = document.summary ? new Markdown(readable(document.summary), 0, 0, markdownTheme) : undefined;
  }

  invalidate(): void {
    this.cache = undefined;
    this.markdown?.invalidate();
  }

  render(width: number): string[] {
    const lines = this.lines(width);
    const rows = this.bodyRows();
    this.top = Math.max(0, Math.min(this.top, lines.length - rows));
    const body = lines.slice(this.top, this.top + rows);
    const end = Math.min(lines.length, this.top + rows);
    const position = lines.length > rows ? [`${this.top + 1}-${end} of ${lines.length}`] : [];
    const key = this.stage.keyName("app.tools.expand");
    const keys = [`${key} ${this.expanded ? "fold" : "expand"}`, "↑↓ scroll", "esc back", ...position];
    return framed({ title: this.document.title, body, keys, rows: this.stage.rows() }, this.stage.theme, width);
  }

  handleInput(data: string): void {
    const { pressed } = this.stage;
    if (pressed(data, "tui.select.cancel") || matchesKey(data, "q")) this.close();
    else if (pressed(data, "app.tools.expand")) this.expanded = !this.expanded;
    else if (pressed(data, "tui.select.up")) this.top -= 1;
    else if (pressed(data, "tui.select.down")) this.top += 1;
    else if (pressed(data, "tui.select.pageUp")) this.top -= this.bodyRows();
    else if (pressed(data, "tui.select.pageDown") || matchesKey(data, "space")) this.top += this.bodyRows();
    else if (matchesKey(data, "home")) this.top = 0;
    else if (matchesKey(data, "end")) this.top = Number.MAX_SAFE_INTEGER;
  }

  private bodyRows(): number {
    return Math.max(MIN_BODY_ROWS, this.stage.rows() - ROWS_AROUND);
  }

  private lines(width: number): string[] {
    if (this.cache?.width !== width || this.cache.expanded !== this.expanded) {
      this.cache = { width, expanded: this.expanded, lines: this.layOut(width) };
    }
    return this.cache.lines;
  }

  private layOut(width: number): string[] {
    const { theme } = this.stage;
    const summary = this.markdown
      ? [...this.markdown.render(width)]
      : wrapped(theme.fg("muted", "No summary: the text in its place was made without a model."), width);
    return [
      ...summary,
      ...this.document.originals.flatMap((original) => ["", ...layOut(original, this.expanded, this.stage, width)]),
    ];
  }
}

/** Lines of an original. */
function layOut(
  { title, text }: Document["originals"][number],
  expanded: boolean,
  { theme: paint, keyName }: Pick<Stage, "theme" | "keyName">,
  width: number,
): string[] {
  const shown = readable(text.slice(0, MAX_SHOWN_CHARS)).split("\n");
  const lines = expanded ? shown : shown.slice(0, FOLDED_LINES);
  const hidden = shown.length - lines.length;
  const cut = text.length > MAX_SHOWN_CHARS && expanded ? ["the rest is too long to be shown here"] : [];
  const notes = [
    ...(hidden > 0 ? [`… ${count(hidden, "line")} more, ${keyName("app.tools.expand")} to expand`] : []),
    ...cut,
  ];
  return [
    ...wrapped(paint.fg("mdHeading", readable(title)), width),
    ...lines.flatMap((line) => wrapped(paint.fg("toolOutput", line), width)),
    ...notes.flatMap((note) => wrapped(paint.fg("dim", note), width)),
  ];
}
