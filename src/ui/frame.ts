/** What all screens look like: a rule, a title, a body, the keys, a rule; as the host's own screens do. */
import { type Paint, wrapped } from "./paint.js";

export interface Frame {
  title: string;
  /** Lines that are at most as wide as the frame. */
  body: readonly string[];
  /** Keys and what they do, as `enter open`. */
  keys: readonly string[];
}

/** Lines of the frame, none wider than `width`. */
export function framed({ title, body, keys }: Frame, paint: Paint, width: number): string[] {
  const rule = paint.fg("border", "─".repeat(Math.max(1, width)));
  const heading = wrapped(paint.bold(paint.fg("accent", title)), width);
  const hint = wrapped(paint.fg("dim", keys.join(" · ")), width, "  ");
  return [rule, ...heading, "", ...body, "", ...hint, rule];
}

/** First index of a window of `size` items in which `selected` stands as near to the middle as it can. */
export function windowStart(selected: number, size: number, total: number): number {
  return Math.max(0, Math.min(selected - Math.floor(size / 2), total - size));
}
