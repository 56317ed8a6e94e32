/** The lines of the tree of what is condensed. */
import { count } from "../text/text.ts";
import { fit, type Paint, padded, type Sizes, saving, short, shrinking } from "./paint.ts";
import type { CallNode, GroupNode } from "./tree-model.ts";

/** Columns of `14.2k → 1.3k −91%`. */
const SIZES_WIDTH = 20;

/** One line of the tree as it is folded now. */
export type TreeRow = { group: GroupNode; call?: CallNode };

/** What is to be seen while only the groups in `open` are unfolded. */
export function visibleRows(groups: readonly GroupNode[], open: ReadonlySet<string>): TreeRow[] {
  return groups.flatMap((group) => [
    { group },
    ...(open.has(foldKey(group)) ? group.calls.map((call) => ({ group, call })) : []),
  ]);
}

/** Chains and batches have names of their own kind each. */
export function foldKey({ kind, id }: GroupNode): string {
  return `${kind} ${id}`;
}

/** What all of it comes to: the figures of the status, since rows may hold results that are not condensed. */
export function treeTitle(condensed: Sizes | undefined): string {
  return `Condensed: ${shrinking(condensed ?? { before: 0, after: 0 })}`;
}

/** One line of at most `width` columns; without `isOpen` no fold is drawn. */
export function drawRow(
  row: TreeRow,
  paint: Paint,
  width: number,
  state: { isOpen?: boolean; selected?: boolean },
): string {
  const { group, call } = row;
  const { isOpen } = state;
  const cursor = state.selected ? "→ " : "  ";
  const left = call
    ? `    ${padded(call.ref, 5)}${call.title}${call.fate === "spilled" ? " (spilled)" : ""}`
    : `${isOpen === undefined ? "" : isOpen ? "▾ " : "▸ "}${groupTitle(group)}`;
  const { before, after } = call ?? group;
  const room = Math.max(10, width - SIZES_WIDTH - 3);
  const title = padded(`${cursor}${left}`, room);
  const note = call?.fate === "kept" ? "kept" : (call ? call.fate === "raw" : !group.active) ? "raw" : "";
  const sizes = before === after ? `${short(before)} ${note}`.trimEnd() : `${short(before)} → ${short(after)}`;
  const percent = paint.fg("success", padded(saving(before, after), 6, "right"));
  const text = `${state.selected ? paint.fg("accent", title) : call ? paint.fg("muted", title) : title} `;
  return fit(text + paint.fg("muted", padded(sizes, SIZES_WIDTH - 6, "right")) + percent, width);
}

function groupTitle(group: GroupNode): string {
  const calls = count(group.calls.length, "call");
  if (group.kind === "batch") return `${calls}: ${group.title}`;
  return `${group.id} ${group.active ? "chain" : "chain put back"}, ${calls}: ${group.title}`;
}

/** The whole tree without colours, for where there is no terminal; at most `limit` lines. */
export function treeText(groups: readonly GroupNode[], paint: Paint, width: number, limit: number): string {
  const open = new Set(groups.map(foldKey));
  const rows = visibleRows(groups, open).map((row) => drawRow(row, paint, width, {}).trimEnd());
  const hidden = rows.length - limit;
  return [...rows.slice(0, limit), ...(hidden > 0 ? [`… ${count(hidden, "line")} more`] : [])].join("\n");
}
