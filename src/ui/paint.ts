/** Colours, numbers and frames of everything that is drawn. */
import type { Theme } from "@mariozechner/pi-coding-agent";
import { truncateToWidth, visibleWidth, wrapTextWithAnsi } from "@mariozechner/pi-tui";
import type { Sizes } from "../money/sizes.ts";
import { withoutEscapes } from "../text/text.ts";
import { visible } from "../text/visible.ts";

export type { Sizes };

export type Color = Parameters<Theme["fg"]>[0];

/** The part of a theme that is used; `PLAIN` where there is none. */
export interface Paint {
  fg(color: Color, text: string): string;
  bold(text: string): string;
}

/** No colours: for output that is not drawn by a terminal. */
export const PLAIN: Paint = Object.freeze({ fg: (_color: Color, text: string) => text, bold: (text: string) => text });

/** What is drawn before and after condensing, added up. */
export function total(items: readonly Sizes[], side: keyof Sizes): number {
  return items.reduce((sum, item) => sum + item[side], 0);
}

/** `57k→9k (-84%)`: what is condensed, raw and as it is sent. */
export function change({ before, after }: Sizes): string {
  const share = saving(before, after).replace("−", "-");
  return `${short(before)}→${short(after)}${share && ` (${share})`}`;
}

/** `57k → 9k tokens −84%`, as titles say it. */
export function shrinking({ before, after }: Sizes): string {
  return `${short(before)} → ${short(after)} tokens ${saving(before, after)}`.trimEnd();
}

/** `950`, `14.2k`, `1.3M`: at most five columns below a billion. */
export function short(value: number): string {
  if (value < 1_000) return String(Math.round(value));
  if (value < 999_950) return `${trimmed(value / 1_000)}k`;
  return `${trimmed(value / 1_000_000)}M`;
}

function trimmed(value: number): string {
  return value < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value));
}

/** `−94%`; empty where nothing is saved. */
export function saving(before: number, after: number): string {
  if (before <= 0 || after >= before) return "";
  if (after <= 0) return "−100%";
  return `−${Math.min(99, Math.round((1 - after / before) * 100))}%`;
}

/** The text on a field of `width` columns, cut where it is longer; colours survive. */
export function padded(text: string, width: number, align: "left" | "right" = "left"): string {
  const cut = truncateToWidth(text, Math.max(0, width), "…");
  const blanks = " ".repeat(Math.max(0, width - visibleWidth(cut)));
  return align === "left" ? cut + blanks : blanks + cut;
}

/** One line of at most `width` columns. */
export function fit(text: string, width: number): string {
  return truncateToWidth(text, Math.max(1, width), "…");
}

/** Lines of at most `width` columns, each behind `indent`. */
export function wrapped(text: string, width: number, indent = ""): string[] {
  return wrapTextWithAnsi(text, Math.max(1, width - visibleWidth(indent))).map((line) => indent + line);
}

/** What all screens look like: a rule, a title, a body, the keys, a rule; as the host's own screens do. */
export interface Frame {
  title: string;
  /** Lines that are at most as wide as the frame. */
  body: readonly string[];
  /** Keys and what they do, as `enter open`. */
  keys: readonly string[];
  /** Lines that the whole may have; as many as it takes where that is left out. */
  rows?: number;
}

/** Lines of the frame, none wider than `width`. Where `rows` are too few, the body's end goes, never title nor keys. */
export function framed(frame: Frame, paint: Paint, width: number): string[] {
  const { title, body, keys, rows = Number.POSITIVE_INFINITY } = frame;
  const rule = paint.fg("border", "─".repeat(Math.max(1, width)));
  const heading = fit(paint.bold(paint.fg("accent", title)), width);
  const hint = wrapped(paint.fg("dim", keys.join(" · ")), width, "  ");
  const room = rows - hint.length - 3;
  if (body.length + 2 <= room) return [rule, heading, "", ...body, "", ...hint, rule];
  const fitted = body.length <= room ? body : withoutBlanks(body).slice(0, Math.max(0, room));
  return [rule, heading, ...fitted, ...hint, rule];
}

/** The lines without those that are empty. */
function withoutBlanks(lines: readonly string[]): string[] {
  return lines.filter((line) => line.trim() !== "");
}

/** Lines that a frame takes for itself. */
export function frameRows(keys: readonly string[], width: number): number {
  return wrapped(keys.join(" · "), width, "  ").length + 5;
}

/** First index of a window of `size` items in which `selected` stands as near to the middle as it can. */
export function windowStart(selected: number, size: number, total: number): number {
  return Math.max(0, Math.min(selected - Math.floor(size / 2), total - size));
}

/** The text without escape sequences, and with every other sign written out that a terminal must not obey; tabs become blanks. */
export function readable(text: string): string {
  return visible(withoutEscapes(text).replace(/\t/g, "   ").replace(/\r\n?/g, "\n"));
}
