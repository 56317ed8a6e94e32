/** One short segment in the host's status line. */
import type { HostSnapshot } from "../host/host.ts";
import type { Pruner } from "../runtime.ts";
import { change, short } from "./paint.ts";
import type { Margins } from "./terminal.ts";

const KEY = "pruner";

/** Keeps the segment true; draws only where something has changed. */
export class StatusLine {
  private margins: Margins | undefined;
  private drawn: string | undefined;

  constructor(private readonly pruner: Pick<Pruner, "settings" | "summary">) {}

  /** Takes up the interface of a session. */
  attach({ terminal }: Pick<HostSnapshot, "terminal">): void {
    this.margins = terminal;
    this.drawn = undefined;
    this.update();
  }

  /** Never throws: a status line is not worth a failed handler. */
  update(): void {
    try {
      const text = segment(this.pruner);
      if (!this.margins || text === this.drawn) return;
      this.margins.setStatus(KEY, text && this.margins.theme.fg("dim", text));
      this.drawn = text;
    } catch {
      // The host has closed the interface, or the session cannot be read; the next session attaches anew.
    }
  }

  /** The session ends. */
  detach(): void {
    try {
      if (this.drawn !== undefined) this.margins?.setStatus(KEY, undefined);
    } catch {
      // There is nothing left to clear.
    }
    this.margins = undefined;
    this.drawn = undefined;
  }
}

/** What stands in the status line, or `undefined` where there is nothing to say. */
export function segment(pruner: Pick<Pruner, "settings" | "summary">): string | undefined {
  const { showPruneStatusLine, enabled } = pruner.settings;
  if (!showPruneStatusLine) return undefined;
  if (!enabled) return "pruner off";
  const now = pruner.summary();
  if (!now) return undefined;
  if (now.flushing) return "pruner: condensing…";
  if (now.condensed.before > now.condensed.after) return `pruner ${change(now.condensed)}`;
  return now.hasReplies ? `pruner ${short(now.waiting)} waiting` : undefined;
}
