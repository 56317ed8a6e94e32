/** The shares of the window as a bar chart, and the screen that shows it until a key closes it. */
import { grouped } from "../text/text.ts";
import { type ContextShares, SHARES, type Share } from "./context-model.ts";
import { type Color, framed, type Paint, padded, saving, short, shrinking, wrapped } from "./paint.ts";
import type { Screen, Stage } from "./terminal.ts";

/** Columns of the longest label. */
const LABEL_WIDTH = Math.max(...Object.values(SHARES).map((label) => label.length));
/** Columns of a size: `14.2k`. */
const SIZE_WIDTH = 6;
/** Columns behind the bar: both sizes, the arrow, the saving. */
const SIZES_WIDTH = 2 * SIZE_WIDTH + 2 + 6;
const MIN_BAR_WIDTH = 6;

const COLORS: Readonly<Partial<Record<Share["kind"], Color>>> = {
  raw: "warning",
  condensed: "success",
  spilled: "success",
  chains: "success",
  protected: "accent",
};

/** What the host knows of the window; tokens are `null` where it does not know. */
export interface WindowFigures {
  tokens: number | null;
  contextWindow: number;
}

/** The whole of the window, in one line: it stands above the chart, where no screen is too low for it. */
export function contextTitle({ before, after }: ContextShares): string {
  return `Where the window goes: ${shrinking({ before, after })}`;
}

/** Lines of at most `width` columns. A bar is as long as what the session holds; its solid part is sent. */
export function contextChart(
  { shares }: ContextShares,
  host: WindowFigures | undefined,
  paint: Paint,
  width: number,
): string[] {
  const longest = Math.max(1, ...shares.map((share) => Math.max(share.before, share.after)));
  const labelWidth = Math.min(LABEL_WIDTH, Math.max(10, width - SIZES_WIDTH - MIN_BAR_WIDTH - 2));
  const barWidth = Math.min(60, width - labelWidth - SIZES_WIDTH - 2);
  const rows = shares.map((share) => row(share, longest, { labelWidth, barWidth }, paint, width));
  const legend = barWidth >= MIN_BAR_WIDTH ? "█ sent  ░ kept out. " : "";
  return [
    ...rows,
    "",
    ...wrapped(paint.fg("dim", `${legend}Tokens, estimated; the definitions of tools are not counted.`), width),
    ...hostLine(host, paint, width),
  ];
}

function row(
  share: Share,
  longest: number,
  { labelWidth, barWidth }: { labelWidth: number; barWidth: number },
  paint: Paint,
  width: number,
): string {
  const color = COLORS[share.kind] ?? "text";
  const label = padded(SHARES[share.kind], labelWidth);
  const changed = share.before !== share.after;
  const before = padded(short(share.before), SIZE_WIDTH, "right");
  const after = changed ? padded(short(share.after), SIZE_WIDTH, "right") : " ".repeat(SIZE_WIDTH);
  const arrow = changed ? paint.fg("dim", " →") : "  ";
  const percent = paint.fg("success", padded(saving(share.before, share.after), 6, "right"));
  const sizes = `${before}${arrow}${after}${percent}`;
  if (barWidth < MIN_BAR_WIDTH) return padded(`${label} ${sizes}`, width);
  return `${label} ${bar(share, longest, barWidth, color, paint)} ${sizes}`;
}

function bar({ before, after }: Share, longest: number, width: number, color: Color, paint: Paint): string {
  const whole = columns(Math.max(before, after), longest, width);
  const solid = Math.min(whole, columns(after, longest, width));
  const blanks = " ".repeat(width - whole);
  return paint.fg(color, "█".repeat(solid)) + paint.fg("dim", "░".repeat(whole - solid)) + blanks;
}

/** Something is never drawn as nothing. */
function columns(value: number, longest: number, width: number): number {
  return value <= 0 ? 0 : Math.max(1, Math.round((value / longest) * width));
}

function hostLine(host: WindowFigures | undefined, paint: Paint, width: number): string[] {
  if (!host || host.tokens === null || host.contextWindow <= 0) return [];
  const share = Math.round((host.tokens / host.contextWindow) * 100);
  const text = `Last reported by pi: ${grouped(host.tokens)} of ${grouped(host.contextWindow)} tokens (${share}%).`;
  return wrapped(paint.fg("dim", text), width);
}

export class ContextScreen implements Screen {
  readonly capturesViewportInput = true;
  constructor(
    private readonly shares: ContextShares,
    private readonly host: WindowFigures | undefined,
    private readonly stage: Stage,
  ) {}

  invalidate(): void {
    // Nothing is kept between two renders.
  }

  render(width: number): string[] {
    const { theme } = this.stage;
    const body = contextChart(this.shares, this.host, theme, width);
    const rows = this.stage.rows();
    return framed({ title: contextTitle(this.shares), body, keys: ["esc close"], rows }, theme, width);
  }

  handleInput(data: string): void {
    const { pressed, close } = this.stage;
    if (pressed(data, "tui.select.cancel") || pressed(data, "tui.select.confirm")) close();
  }
}
