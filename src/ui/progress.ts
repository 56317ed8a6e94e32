/** A running flush above the editor: a line a batch, with its state and the characters that have come. */
import { type Component, isKeyRelease, matchesKey } from "@mariozechner/pi-tui";
import type { BatchProgress, FlushRequest } from "../engine/flush-runner.ts";
import type { FlushReport } from "../flush.ts";
import type { HostSnapshot } from "../host/host.ts";
import type { Pruner } from "../runtime.ts";
import { count, grouped } from "../text/text.ts";
import { visible } from "../text/visible.ts";
import { type Color, fit, type Paint, padded } from "./paint.ts";
import { MAX_WIDGET_LINES } from "./terminal.ts";

const KEY = "pruner-progress";
/** Milliseconds that a flush runs before it is shown: most are over by then. */
const DELAY_MS = 150;
/** Columns of the state and the characters. */
const STATE_WIDTH = 10;
const CHARS_WIDTH = 14;

const STATES: Readonly<Record<BatchProgress["state"], { mark: string; color: Color }>> = {
  waiting: { mark: "◌", color: "dim" },
  running: { mark: "●", color: "accent" },
  done: { mark: "✓", color: "success" },
  failed: { mark: "✗", color: "error" },
  cancelled: { mark: "–", color: "muted" },
};

/** Lines of at most `width` columns, as many as a widget may have. What runs and what comes next go before what is over. */
export function progressLines(batches: readonly BatchProgress[], paint: Paint, width: number): string[] {
  const total = batches[0]?.total ?? 0;
  const over = batches.filter(({ state }) => state !== "running" && state !== "waiting").length;
  const what = total === 0 ? "Condensing…" : `Condensing ${count(total, "batch", "batches")}, ${over} done`;
  const heading = `${paint.bold(paint.fg("accent", what))}${paint.fg("dim", " · esc cancels")}`;
  const room = MAX_WIDGET_LINES - 2;
  const shown = chooseRows(batches, room);
  const rest = total - shown.length;
  return [
    fit(heading, width),
    ...shown.map((batch) => row(batch, paint, width)),
    ...(rest > 0 && total > 0 ? [fit(paint.fg("dim", `  … ${count(rest, "more batch", "more batches")}`), width)] : []),
  ];
}

function chooseRows(batches: readonly BatchProgress[], room: number): BatchProgress[] {
  if (batches.length <= room) return [...batches];
  const rank = ({ state }: BatchProgress) => ["running", "waiting", "failed", "cancelled", "done"].indexOf(state);
  const isOver = ({ state }: BatchProgress) => state !== "running" && state !== "waiting";
  const order = (a: BatchProgress, b: BatchProgress) => (isOver(a) ? b.index - a.index : a.index - b.index);
  const first = [...batches].sort((a, b) => rank(a) - rank(b) || order(a, b)).slice(0, room);
  return first.sort((a, b) => a.index - b.index);
}

function row({ label, state, chars }: BatchProgress, paint: Paint, width: number): string {
  const { mark, color } = STATES[state];
  const room = Math.max(8, width - STATE_WIDTH - CHARS_WIDTH - 5);
  const written = chars > 0 ? `${grouped(chars)} chars` : "";
  const title = padded(visible(label), room);
  const text = `  ${paint.fg(color, mark)} ${title} ${paint.fg(color, padded(state, STATE_WIDTH))}${paint.fg("muted", padded(written, CHARS_WIDTH, "right"))}`;
  return fit(text, width);
}

/** What came of a flush that was shown. */
export interface ShownFlush {
  report: FlushReport | undefined;
  /** The user has ended it. */
  cancelled: boolean;
}

/**
 * Flushes, and shows how far it is where there is a terminal. Escape ends the flush there, and nothing else: while it is
 * shown, the agent does not hear of the key.
 */
export async function flushWithProgress(
  pruner: Pruner,
  { terminal, ...host }: HostSnapshot,
  request: Pick<FlushRequest, "compactAll" | "guide">,
): Promise<ShownFlush> {
  const batches = new Map<number, BatchProgress>();
  let redraw = () => {};
  let cancelled = false;
  let stopListening = () => {};
  const show = () => {
    terminal?.setWidget(KEY, (tui, theme): Component => {
      redraw = () => tui.requestRender();
      return {
        render: (width) => progressLines(inOrder(batches), theme, width),
        invalidate: () => undefined,
      };
    });
    stopListening =
      terminal?.onTerminalInput((data) => {
        if (isKeyRelease(data) || !matchesKey(data, "escape")) return undefined;
        cancelled = true;
        pruner.cancelFlush();
        return { consume: true };
      }) ?? stopListening;
  };
  const timer = terminal && setTimeout(show, DELAY_MS);
  try {
    const report = await pruner.flushNow(host, {
      ...request,
      onProgress: (progress) => {
        batches.set(progress.index, progress);
        redraw();
      },
    });
    return { report, cancelled };
  } finally {
    clearTimeout(timer);
    stopListening();
    terminal?.setWidget(KEY, undefined);
  }
}

function inOrder(batches: ReadonlyMap<number, BatchProgress>): BatchProgress[] {
  return [...batches.values()].sort((a, b) => a.index - b.index);
}
