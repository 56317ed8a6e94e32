/** Colours, numbers and bars of everything that is drawn. */
import type { Theme } from "@mariozechner/pi-coding-agent";
import { truncateToWidth, visibleWidth, wrapTextWithAnsi } from "@mariozechner/pi-tui";

export type Color = Parameters<Theme["fg"]>[0];

/** The part of a theme that is used; `PLAIN` where there is none. */
export interface Paint {
  fg(color: Color, text: string): string;
  bold(text: string): string;
}

/** No colours: for output that is not drawn by a terminal. */
export const PLAIN: Paint = Object.freeze({ fg: (_color: Color, text: string) => text, bold: (text: string) => text });

/** Characters that a token is taken to hold: pi's own estimate. */
const CHARS_PER_TOKEN = 4;

/** An estimate, good enough to compare sizes. */
export function tokensOf(chars: number): number {
  return Math.ceil(chars / CHARS_PER_TOKEN);
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
