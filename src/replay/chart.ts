/** A line chart over the requests of a session, as HTML that stretches to any width: lines in SVG, all text beside it. */
import { count } from "../text/text.ts";

/** One line of a chart and the marks that belong to it. */
export interface Series {
  name: string;
  /** One value for each request. */
  values: readonly number[];
  /** Indices of requests before which a flush took effect. */
  flushes: readonly number[];
  /** Indices of requests before which the host compacted. */
  compactions: readonly number[];
  /** Indices of requests that lacked something their reply used. */
  misses: readonly number[];
}

/** What a chart shows. */
export interface ChartOptions {
  id: string;
  title: string;
  /** What the vertical axis counts; the other one counts requests. */
  yLabel: string;
  series: readonly Series[];
  format(value: number): string;
}

const WIDTH = 1_000;
const HEIGHT = 300;
const GRID_LINES = 4;

/** The chart; series are coloured by their place. */
export function renderChart({ id, title, yLabel, series, format }: ChartOptions): string {
  const count = Math.max(1, ...series.map(({ values }) => values.length));
  const top = niceCeiling(Math.max(0, ...series.flatMap(({ values }) => [...values])));
  const ticks = Array.from({ length: GRID_LINES + 1 }, (_, i) => (top / GRID_LINES) * i);
  const y = (value: number) => HEIGHT - (top > 0 ? value / top : 0) * HEIGHT;
  const grid = ticks.map((tick) => `<line class="grid" x1="0" x2="${WIDTH}" y1="${y(tick)}" y2="${y(tick)}"/>`);
  const lines = series.map(({ values }, i) => `<path class="line s${i}" d="${pathOf(values, count, y)}"/>`);
  const compactions = series.flatMap((one, i) =>
    one.compactions.map((index) => {
      const x = xOf(index, count).toFixed(1);
      return `<line class="compaction s${i}" x1="${x}" x2="${x}" y1="0" y2="${HEIGHT}"/>`;
    }),
  );
  const labels = ticks.map((tick) => `<span style="bottom:${share(tick, top)}%">${format(tick)}</span>`);
  return `<figure class="chart" id="${id}">
<figcaption>${escapeHtml(title)} <span class="axis">vertical: ${escapeHtml(yLabel)}; horizontal: number of the request</span></figcaption>
<div class="body"><div class="y">${labels.join("")}</div>
<div class="plot" data-chart="${id}"><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${escapeHtml(title)}">${grid.join("")}${compactions.join("")}${lines.join("")}</svg><div class="cursor" hidden></div></div>
<div class="x">${xLabels(count)}</div></div>
<p class="readout" aria-live="polite"></p>
</figure>`;
}

/** A row of ticks for each series: where it was flushed, where the host compacted, and where something was missed. */
export function renderLanes(series: readonly Series[]): string {
  const requests = Math.max(1, ...series.map(({ values }) => values.length));
  const at = (index: number) => `left:${((xOf(index, requests) / WIDTH) * 100).toFixed(2)}%`;
  const lanes = series.map((one, i) => {
    const flushes = one.flushes.map((index) => `<i class="flush s${i}" style="${at(index)}"></i>`);
    const compactions = one.compactions.map((index) => `<b class="s${i}" style="${at(index)}"></b>`);
    const misses = one.misses.map((index) => `<u class="miss s${i}" style="${at(index)}"></u>`);
    const told = [
      count(one.flushes.length, "flush", "flushes"),
      count(one.compactions.length, "compaction"),
      count(one.misses.length, "request that missed something", "requests that missed something"),
    ].join(", ");
    return `<div class="lane"><span class="lane-name">${escapeHtml(one.name)}: ${told}</span><div class="lane-body">${flushes.join("")}${compactions.join("")}${misses.join("")}</div></div>`;
  });
  return `<figure class="lanes">\n<figcaption>Flushes (bars), compactions by the host (diamonds), and requests that missed something (dots)</figcaption>\n${lanes.join("\n")}\n</figure>`;
}

/** Text that is safe between tags and in attributes. */
export function escapeHtml(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}

function xOf(index: number, count: number): number {
  return count > 1 ? (Math.min(index, count - 1) / (count - 1)) * WIDTH : WIDTH / 2;
}

function pathOf(values: readonly number[], count: number, y: (value: number) => number): string {
  return values.map((value, i) => `${i === 0 ? "M" : "L"}${xOf(i, count).toFixed(1)} ${y(value).toFixed(1)}`).join("");
}

function share(value: number, top: number): string {
  return (top > 0 ? (value / top) * 100 : 0).toFixed(1);
}

function xLabels(count: number): string {
  const marks = [...new Set([0, 0.25, 0.5, 0.75, 1].map((part) => Math.round(part * (count - 1))))];
  return marks
    .map((index) => `<span style="left:${((xOf(index, count) / WIDTH) * 100).toFixed(1)}%">${index + 1}</span>`)
    .join("");
}

/** The next round number of which a quarter is round too. */
function niceCeiling(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].find((factor) => factor * power >= value) ?? 10;
  return step * power;
}
