/** A replay as a table for a terminal. */
import { changedSettings } from "../config.ts";
import { dollars } from "../money/sentences.ts";
import { count, grouped } from "../text/text.ts";
import type { ReplayReport, ReportSettings, VariantFigures } from "./figures.ts";
import { layOut, wrapped } from "./layout.ts";
import type { UseShare } from "./use-counter.ts";

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
/** Variants that stand side by side in 60 columns. */
const VARIANTS_A_TABLE = 2;

function rowOf(label: string, show: (figures: VariantFigures, report: ReplayReport) => string): Row {
  return { label, raw: (report) => show(report.raw, report), pruned: (report) => show(report.pruned, report) };
}

function prunedRow(label: string, pruned: Row["pruned"]): Row {
  return { label, raw: () => NONE, pruned };
}

const ROWS: readonly Row[] = [
  rowOf("cost without answers", ({ cost }, { settings }) => money(cost, settings)),
  prunedRow("  of the raw cost", ({ ratio }) => ratio.toFixed(3)),
  prunedRow("  without recoveries", ({ ratioWithoutRecoveries }) => ratioWithoutRecoveries.toFixed(3)),
  prunedRow("  with answers", ({ raw, pruned, settings: { replay } }) =>
    ((pruned.cost + replay.answersCost) / (raw.cost + replay.answersCost || 1)).toFixed(3),
  ),
  prunedRow("  summariser", ({ pruned, settings }) => money(pruned.summarizerCost, settings)),
  rowOf("  recoveries", ({ recoveryCost }, { settings }) => money(recoveryCost, settings)),
  rowOf("extra requests", ({ extraRequests }) => grouped(extraRequests)),
  rowOf("largest prompt, tokens", ({ peakTokens }) => grouped(peakTokens)),
  rowOf("mean prompt, tokens", ({ meanTokens }) => grouped(meanTokens)),
  rowOf("read from cache", ({ readTokens }) => grouped(readTokens)),
  rowOf("written to cache", ({ writeTokens }) => grouped(writeTokens)),
  prunedRow("flushes", ({ pruned }) => grouped(pruned.flushes)),
  rowOf("compactions by the host", ({ compactions }) => grouped(compactions)),
  rowOf("uses of earlier output", ({ uses }) => grouped(uses.uses)),
  rowOf("  missed", ({ uses }) => grouped(uses.misses)),
  rowOf("edits", ({ uses }) => grouped(uses.edits)),
  rowOf("  missed", ({ uses }) => grouped(uses.missedEdits)),
];

/**
 * The report of one session.
 * @param reports one for each variant, all of the same session
 * @param advice what other settings would have cost, in a sentence
 */
export function renderReport(title: string, reports: readonly NamedReport[], advice?: string): string {
  const [first] = reports;
  if (!first) return "";
  const { requests, calibration, settings } = first.report;
  const columns = reports.map(({ report }, i) => ({ column: columnOf(i, reports.length), report }));
  const sentences = [
    describePrices(settings),
    describeCalibration(calibration),
    ...columns.flatMap(({ column, report }) => [
      describeVariant(column, report.settings),
      ...describeMisses(column, report.pruned),
    ]),
    ...(advice === undefined ? [] : [advice]),
  ];
  return [
    `${title}: ${count(requests, "request")}`,
    "",
    wrapped(describeBill(first.report)),
    "",
    ...tablesOf(first.report, columns),
    ...sentences.map((sentence) => wrapped(sentence, "  ")),
    "",
  ].join("\n");
}

function columnOf(index: number, variants: number): string {
  return variants === 1 ? "condensed" : String.fromCharCode("A".charCodeAt(0) + index);
}

function tablesOf(first: ReplayReport, columns: readonly { column: string; report: ReplayReport }[]): string[] {
  const lines: string[] = [];
  for (let start = 0; start < columns.length; start += VARIANTS_A_TABLE) {
    const shown = columns.slice(start, start + VARIANTS_A_TABLE);
    const header = ["", "raw", ...shown.map(({ column }) => column)];
    const body = ROWS.map((row) => [row.label, row.raw(first), ...shown.map(({ report }) => row.pruned(report))]);
    lines.push(...layOut([header, ...body]), "");
  }
  return lines;
}

/** The whole bill in a sentence. */
export function describeBill({ raw, pruned, settings }: ReplayReport, what = "this session costs"): string {
  const { extraRequests, recoveryCost } = pruned;
  const before = raw.cost + settings.replay.answersCost;
  const after = pruned.cost + settings.replay.answersCost;
  const whole = `${money(after, settings)} instead of ${money(before, settings)}`;
  const change = before > 0 ? ` (${signed(after / before - 1)})` : "";
  const asked = extraRequests === 0 ? "" : `; ${money(recoveryCost, settings)} of it is for output asked back`;
  return `Condensed, ${what} ${whole}${change}, answers included${asked}.`;
}

/** The table of several sessions, one line each. */
export function renderSummary(sessions: readonly (NamedReport & { file: string })[], total: ReplayReport): string {
  const line = (name: string, { requests, raw, pruned, ratio, settings }: ReplayReport) => [
    name,
    grouped(requests),
    money(raw.cost, settings),
    money(pruned.cost, settings),
    ratio.toFixed(3),
    `${pruned.uses.missedEdits}/${pruned.uses.edits}`,
  ];
  const header = ["session", "requests", "raw", "cost", "of raw", "missed"];
  const rows = sessions.map(({ file, report }) => line(file.replace(/\.jsonl$/, ""), report));
  return [
    ...layOut([header, ...rows, line("all", total)]),
    "",
    wrapped(describeBill(total, "these sessions cost")),
    wrapped("missed: edits whose text the request lacked, of all edits.", "  "),
    ...describeMisses("all", total.pruned).map((sentence) => wrapped(sentence, "  ")),
    "",
  ].join("\n");
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

/** What was missed of which tool, and how old it was; nothing where nothing was missed. */
export function describeMisses(name: string, { uses }: VariantFigures): string[] {
  if (uses.misses === 0) return [];
  const list = (shares: Record<string, UseShare>) =>
    Object.entries(shares)
      .filter(([, share]) => share.misses > 0)
      .map(([group, share]) => `${group}: ${share.misses} of ${share.uses}`)
      .join(", ");
  return [
    `${name}, missed by tool – ${list(uses.byTool)}.`,
    `${name}, missed by age in requests – ${list(uses.byAge)}.`,
  ];
}

/** What the costs rest on, in a sentence. */
export function describePrices({ replay }: ReportSettings): string {
  const { prices, cacheLifetimeMs, minCacheTokens, contextWindow, answersCost, currency } = replay;
  const answers = currency === "USD" ? dollars(answersCost) : answersCost.toFixed(2);
  const unit = currency === "USD" ? "USD" : "the price of one million input tokens";
  return `Prices: ${prices}, in ${unit}; cache kept for ${grouped(cacheLifetimeMs / 60_000)} min, from ${grouped(minCacheTokens)} tokens; window ${grouped(contextWindow)} tokens. Answers cost ${answers} in each variant and are left out.`;
}

/** How tokens were estimated and how far off that is for a request, in a sentence. */
export function describeCalibration({ errorPct, scales }: ReplayReport["calibration"]): string {
  if (errorPct === null) return "Calibration: no usage was recorded; tokens are estimates.";
  const used = scales.map(({ model, factor, baseTokens, requests }) => {
    return `${model}: ${grouped(baseTokens)} tokens of system prompt and tools, ${factor.toFixed(2)} for each estimated one (${count(requests, "request")})`;
  });
  const scaled = used.length > 0 ? ` ${used.join("; ")}.` : "";
  return `Calibration: mean error of a request ${errorPct.toFixed(1)}%.${scaled}`;
}

/** A cost with its currency. */
export function money(cost: number, { replay }: ReportSettings): string {
  const text = cost.toFixed(cost < 1 ? 4 : 2);
  return replay.currency === "USD" ? `$${text}` : text;
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(1))}%`;
}

function signed(share: number): string {
  const rounded = Math.round(share * 100);
  return `${rounded > 0 ? "+" : ""}${rounded}%`;
}
