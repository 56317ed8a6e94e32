/** The foldable browser of what is condensed. */
import { type MarkdownTheme, matchesKey } from "@mariozechner/pi-tui";
import type { Pruner } from "../runtime.ts";
import type { ResultChoice } from "../types.ts";
import { framed, frameRows, windowStart, wrapped } from "./paint.ts";
import type { Screen, Stage } from "./terminal.ts";
import { documentOf } from "./tree-documents.ts";
import { condensedTree, type GroupNode } from "./tree-model.ts";
import { drawRow, foldKey, type TreeRow, treeTitle, visibleRows } from "./tree-rows.ts";
import { ViewerScreen } from "./viewer-screen.ts";

const MIN_LIST_ROWS = 3;
/** Rows of the position and of what came of the last key. */
const ROWS_BELOW = 3;

const KEYS = [
  "↑↓ move",
  "←→ fold",
  "enter open",
  "d chain raw or compressed",
  "k keep, x drop, r restore a call",
  "esc close",
];

export class TreeScreen implements Screen {
  readonly capturesViewportInput = true;
  private groups: GroupNode[] = [];
  private readonly open = new Set<string>();
  private selected = 0;
  private viewer: ViewerScreen | undefined;
  private said = "";
  /** Columns of the last render. */
  private width = 80;

  constructor(
    private readonly pruner: Pruner,
    private readonly stage: Stage,
    private readonly markdownTheme: MarkdownTheme,
  ) {
    this.groups = condensedTree(pruner) ?? [];
    // The newest is what people look for.
    this.selected = Math.max(0, this.rows().length - 1);
  }

  invalidate(): void {
    this.viewer?.invalidate();
  }

  render(width: number): string[] {
    if (this.viewer) return this.viewer.render(width);
    const { theme } = this.stage;
    const title = treeTitle(this.pruner.summary()?.condensed);
    const message = this.said ? ["", ...wrapped(theme.fg("success", this.said), width, "  ")] : [];
    this.width = width;
    return framed(
      { title, body: [...this.renderRows(width), ...message], keys: KEYS, rows: this.stage.rows() },
      theme,
      width,
    );
  }

  handleInput(data: string): void {
    if (this.viewer) this.viewer.handleInput(data);
    else this.handleList(data);
    this.stage.redraw();
  }

  private handleList(data: string): void {
    const { pressed, close } = this.stage;
    const rows = this.rows();
    const row = rows[this.selected];
    if (pressed(data, "tui.select.cancel")) close();
    else if (pressed(data, "tui.select.up")) this.moveTo(this.selected - 1);
    else if (pressed(data, "tui.select.down")) this.moveTo(this.selected + 1);
    else if (pressed(data, "tui.select.pageUp")) this.moveTo(this.selected - this.listRows());
    else if (pressed(data, "tui.select.pageDown")) this.moveTo(this.selected + this.listRows());
    else if (!row) return;
    else if (matchesKey(data, "right")) this.fold(row, true);
    else if (matchesKey(data, "left")) this.fold(row, false);
    else if (matchesKey(data, "space")) this.fold(row, !this.open.has(foldKey(row.group)));
    else if (pressed(data, "tui.select.confirm")) this.view(row);
    else if (matchesKey(data, "d")) this.toggleChain(row.group);
    else if (matchesKey(data, "k")) this.choose(row, "keep");
    else if (matchesKey(data, "x")) this.choose(row, "drop");
    else if (matchesKey(data, "r")) this.choose(row, null);
  }

  private rows(): TreeRow[] {
    return visibleRows(this.groups, this.open);
  }

  private moveTo(index: number): void {
    this.selected = Math.max(0, Math.min(this.rows().length - 1, index));
    this.said = "";
  }

  private fold({ group }: TreeRow, open: boolean): void {
    const key = foldKey(group);
    if (open) this.open.add(key);
    else this.open.delete(key);
    this.moveTo(this.rows().findIndex((row) => foldKey(row.group) === key));
  }

  private toggleChain(group: GroupNode): void {
    if (group.kind !== "chain") {
      this.said = "Only a compressed chain can be put back.";
      return;
    }
    this.pruner.setChainActive(group.id, !group.active);
    this.groups = condensedTree(this.pruner) ?? [];
    this.said = group.active
      ? `${group.id} is sent raw from the next request on. The prompt cache is rewritten from there on.`
      : `${group.id} is compressed again from the next request on.`;
  }

  private choose({ call }: TreeRow, choice: ResultChoice | null): void {
    if (!call) {
      this.said = "Choose one call: unfold its group with →.";
      return;
    }
    const [before] = this.pruner.chooseResult(call.occurrenceKey, choice);
    this.groups = condensedTree(this.pruner) ?? [];
    const now = { keep: "stays word for word", drop: "is condensed", none: "is treated as the settings say" };
    this.said = before
      ? `${call.ref} ${now[choice ?? "none"]} from the next request on.`
      : `${call.ref} is from before a compaction, so no request carries it.`;
  }

  private view(row: TreeRow): void {
    const document = documentOf(row, this.pruner);
    const back = () => {
      this.viewer = undefined;
    };
    this.viewer = new ViewerScreen(document, this.stage, back, this.markdownTheme);
  }

  private listRows(): number {
    return Math.max(MIN_LIST_ROWS, this.stage.rows() - frameRows(KEYS, this.width) - ROWS_BELOW);
  }

  private renderRows(width: number): string[] {
    const { theme } = this.stage;
    const rows = this.rows();
    if (rows.length === 0) return wrapped(theme.fg("muted", "Nothing is condensed on this branch yet."), width, "  ");
    const size = this.listRows();
    const start = windowStart(this.selected, size, rows.length);
    const lines = rows.slice(start, start + size).map((row, i) =>
      drawRow(row, theme, width, {
        isOpen: row.call ? undefined : this.open.has(foldKey(row.group)),
        selected: start + i === this.selected,
      }),
    );
    if (rows.length > size) lines.push(theme.fg("dim", `  (${this.selected + 1}/${rows.length})`));
    return lines;
  }
}
