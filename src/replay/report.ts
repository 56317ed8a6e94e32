/** A replay as a table for a terminal. */
import { changedSettings } from "../config.js";
import { count, grouped } from "../text/text.js";
import type { ReplayReport, ReportSettings, VariantFigures } from "./figures.js";

/** A report with the name of its variant. */
export interface NamedReport {
  name: string;
  report: ReplayReport;
}

/** A row of the table: what it shows of the raw session and of a pruned one. */
interface Row {
  label: string;
  raw(report: ReplayReport): string;
  pruned(report: ReplayReport): string;
}

const NONE = "–";

function rowOf(label: string, show: (figures: VariantFigures, report: ReplayReport) => string): Row {
  return { label, raw: (report) => show(report.raw, report), pruned: (report) => show(report.pruned, report) };
}

const ROWS: readonly Row[] = [
  rowOf("cost", ({ cost }, { settings }) => money(cost, settings)),
  { label: "  of the raw cost", raw: () => NONE, pruned: ({ ratio }) => ratio.toFixed(3) },
  {
    label: "  summariser",
    raw: () => NONE,
    pruned: ({ pruned, settings }) => money(pruned.summarizerCost, settings),
  },
  {
    label: "with answers, of raw",
    raw: () => NONE,
    pruned: ({ raw, pruned, settings: { replay } }) =>
      ((pruned.cost + replay.answersCost) / (raw.cost + replay.answersCost || 1)).toFixed(3),
  },
  rowOf("largest prompt, tokens", ({ peakTokens }) => grouped(peakTokens)),
  rowOf("mean prompt, tokens", ({ meanTokens }) => grouped(meanTokens)),
  rowOf("read from cache, tokens", ({ readTokens }) => grouped(readTokens)),
  rowOf("written to cache, tokens", ({ writeTokens }) => grouped(writeTokens)),
  { label: "flushes", raw: () => NONE, pruned: ({ pruned }) => grouped(pruned.flushes) },
  rowOf("compactions by the host", ({ compactions }) => grouped(compactions)),
];

/**
 * The table of one session.
 * @param reports one for each variant, all of the same session
 */
export function renderReport(title: string, reports: readonly NamedReport[]): string {
  const [first] = reports;
  if (!first) return "";
  const { requests, calibration, settings } = first.report;
  const header = ["", "raw", ...reports.map(({ name }) => name)];
  const body = ROWS.map((row) => [
    row.label,
    row.raw(first.report),
    ...reports.map(({ report }) => row.pruned(report)),
  ]);
  return [
    `${title}: ${count(requests, "request")}`,
    "",
    ...layOut([header, ...body]),
    "",
    describePrices(settings),
    describeCalibration(calibration),
    ...reports.map(({ name, report }) => describeVariant(name, report.settings)),
    "",
  ].join("\n");
}

/** The table of several sessions, one line each. */
export function renderSummary(sessions: readonly (NamedReport & { file: string })[], total: ReplayReport): string {
  const line = (name: string, { requests, raw, pruned, ratio, settings }: ReplayReport) => [
    name,
    grouped(requests),
    money(raw.cost, settings),
    money(pruned.cost, settings),
    ratio.toFixed(3),
    grouped(raw.peakTokens),
    grouped(pruned.peakTokens),
  ];
  const header = ["session", "requests", "raw cost", "cost", "of raw", "raw peak", "peak"];
  const rows = sessions.map(({ file, report }) => line(file, report));
  return [...layOut([header, ...rows, line("all", total)]), ""].join("\n");
}

/** The settings of a variant and how its summaries are made, in a sentence. */
export function describeVariant(name: string, settings: ReportSettings): string {
  const { summaries, summaryRatio, summarizerPrice } = settings.replay;
  const changed = changedSettings(settings).join(", ") || "the shipped settings";
  const made =
    summaries === "digest"
      ? "mechanical digests"
      : `summaries of ${percent(summaryRatio ?? 0)} at ${percent(summarizerPrice ?? 0)} of the model's price`;
  return `${name}: ${changed}; ${made}.`;
}

/** What the costs rest on, in a sentence. */
export function describePrices({ replay }: ReportSettings): string {
  const { prices, cacheLifetimeMs, minCacheTokens, contextWindow, answersCost, currency } = replay;
  const unit = currency === "USD" ? "USD" : "the price of one million input tokens";
  return `Prices: ${prices}, in ${unit}; cache kept for ${grouped(cacheLifetimeMs / 60_000)} min, from ${grouped(minCacheTokens)} tokens; window ${grouped(contextWindow)} tokens. Answers cost ${answersCost.toFixed(2)} in each variant and are left out.`;
}

/** How far the estimate is from what was recorded, in a sentence. */
export function describeCalibration({
  recordedTokens,
  estimatedTokens,
  errorPct,
}: ReplayReport["calibration"]): string {
  if (errorPct === null) return "Calibration: no usage was recorded; tokens are estimates.";
  return `Calibration: ${grouped(recordedTokens)} tokens recorded, ${grouped(estimatedTokens)} estimated for the raw session; mean error of a request ${errorPct.toFixed(1)}%.`;
}

function layOut(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const cell = (text: string, column: number) =>
    column === 0 ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0);
  return rows.map((row) => row.map(cell).join("  ").trimEnd());
}

function money(cost: number, { replay }: ReportSettings): string {
  const text = cost.toFixed(cost < 1 ? 4 : 2);
  return replay.currency === "USD" ? `$${text}` : text;
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(1))}%`;
}
