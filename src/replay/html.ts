/** A replay as one self-contained page: its figures, and how context and cost went. */
import { readFileSync } from "node:fs";
import { isRecord } from "../text/json.ts";
import { grouped } from "../text/text.ts";
import { escapeHtml, renderChart, renderLanes, type Series } from "./chart.ts";
import type { CostMeter } from "./costs.ts";
import type { ReplayReport } from "./figures.ts";
import type { Replay, VariantRun } from "./replay.ts";
import {
  describeBill,
  describeCalibration,
  describeMisses,
  describePrices,
  describeVariant,
  type NamedReport,
} from "./report.ts";

/** Digits behind the point of a cost. */
const COST_DIGITS = 4;

/** The page. Every figure on it is one of `reports`, which it also holds as JSON. */
export function renderPage(title: string, replay: Replay, reports: readonly NamedReport[]): string {
  const [first] = reports;
  if (!first) throw new Error("a page of no variant");
  const { settings, calibration, requests } = first.report;
  const unit = settings.replay.currency === "USD" ? "$" : "";
  const runs = [replay.raw, ...replay.variants];
  const tokens = runs.map((run) => seriesOf(run, tokensOf(run.meter)));
  const costs = runs.map((run) => seriesOf(run, costsOf(run.meter)));
  const money = (value: number) => `${unit}${value.toLocaleString("en-US", { maximumFractionDigits: 2 })}`;
  const data = reports.map(({ report }) => report);
  const sentences = [
    `${grouped(requests)} requests. ${describePrices(settings)}`,
    describeCalibration(calibration),
    ...reports.flatMap(({ name, report }) => [
      describeVariant(name, report.settings),
      ...describeMisses(name, report.pruned),
    ]),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>
${part("page.css")}</style>
</head>
<body>
<h1>${escapeHtml(title)}</h1>
<p class="lead">${escapeHtml(describeBill(first.report))}</p>
${tiles(first.report, unit)}
${legend(runs)}
${renderChart({ id: "context", title: "Prompt of each request", yLabel: "tokens", series: tokens, format: shortNumber })}
${renderChart({ id: "cost", title: "Cost so far", yLabel: costLabel(first.report), series: costs, format: money })}
${renderLanes(tokens)}
${table(reports, unit)}
${sentences.map((sentence) => `<p>${escapeHtml(sentence)}</p>`).join("\n")}
<script type="application/json" id="report">${json(data.length === 1 ? data[0] : data)}</script>
<script type="application/json" id="series">${json(seriesData(runs, unit, [tokens, costs]))}</script>
<script>
${part("page.js")}</script>
</body>
</html>
`;
}

function costLabel({ settings }: ReplayReport): string {
  return settings.replay.currency === "USD" ? "USD" : "prices of a million input tokens";
}

/** Style and script stand in files of their own; the page holds them whole. */
export function part(name: "page.css" | "page.js"): string {
  return readFileSync(new URL(name, import.meta.url), "utf8");
}

function seriesOf({ name, meter, uses }: VariantRun, values: number[]): Series {
  return {
    name,
    values,
    misses: uses.flatMap((request, i) => (request.uses.some(({ missed }) => missed) ? [i] : [])),
    flushes: meter.flushes.map(({ request }) => request),
    compactions: meter.compactions.map(({ request }) => request),
  };
}

function tokensOf(meter: CostMeter): number[] {
  return meter.requests.map(({ tokens }) => Math.round(tokens));
}

/** Running total of all that has been paid by each request; what comes after the last one is added to it. */
function costsOf({ requests, sideCalls }: CostMeter): number[] {
  const costs = requests.map(({ cost }) => cost);
  for (const { request, cost } of sideCalls) {
    const index = Math.min(request, costs.length - 1);
    costs[index] = (costs[index] ?? 0) + cost;
  }
  let total = 0;
  return costs.map((cost) => {
    total += cost;
    return Number(total.toFixed(6));
  });
}

function seriesData(runs: readonly VariantRun[], unit: string, [tokens, costs]: readonly [Series[], Series[]]) {
  return {
    names: runs.map(({ name }) => name),
    at: runs[0]?.meter.requests.map(({ at }) => at) ?? [],
    charts: {
      context: { values: tokens.map(({ values }) => values), unit: "", digits: 0 },
      cost: { values: costs.map(({ values }) => values), unit, digits: COST_DIGITS },
    },
  };
}

/** A figure with its path in the JSON and its exact value, so that both can be compared. */
function figure(tag: string, path: string, value: number, text: string): string {
  return `<${tag} data-figure="${path}" data-value="${value}">${text}</${tag}>`;
}

function tiles(report: ReplayReport, unit: string): string {
  const { raw, pruned, ratio, ratioWithoutRecoveries: without, cacheReadShare } = report;
  const { missedEdits } = pruned.uses;
  const tile = (label: string, path: string, value: number, text: string) =>
    `<div class="tile"><span>${label}</span>${figure("strong", path, value, text)}</div>`;
  return `<div class="tiles">${[
    tile("cost, raw", "raw.cost", raw.cost, cost(raw.cost, unit)),
    tile("cost, pruned", "pruned.cost", pruned.cost, cost(pruned.cost, unit)),
    tile("of the raw cost", "ratio", ratio, `${Number((ratio * 100).toFixed(2))}%`),
    tile("without recoveries", "ratioWithoutRecoveries", without, `${Number((without * 100).toFixed(2))}%`),
    tile("edits that missed their text", "pruned.uses.missedEdits", missedEdits, grouped(missedEdits)),
    tile("largest prompt, pruned", "pruned.peakTokens", pruned.peakTokens, grouped(pruned.peakTokens)),
    tile("read from cache", "cacheReadShare", cacheReadShare, `${Number((cacheReadShare * 100).toFixed(2))}%`),
  ].join("")}</div>`;
}

function legend(runs: readonly VariantRun[]): string {
  const items = runs.map(({ name }, i) => `<li class="s${i}"><i></i>${escapeHtml(name)}</li>`);
  return `<ul class="legend">${items.join("")}<li>dashed: compaction by the host</li></ul>`;
}

const FIGURES = [
  ["cost", "cost"],
  ["summariser", "summarizerCost"],
  ["recoveries", "recoveryCost"],
  ["extra requests", "extraRequests"],
  ["largest prompt, tokens", "peakTokens"],
  ["mean prompt, tokens", "meanTokens"],
  ["read from cache, tokens", "readTokens"],
  ["written to cache, tokens", "writeTokens"],
  ["flushes", "flushes"],
  ["compactions by the host", "compactions"],
  ["uses of earlier output", "uses.uses"],
  ["missed uses", "uses.misses"],
  ["edits", "uses.edits"],
  ["missed edits", "uses.missedEdits"],
] as const;

function table(reports: readonly NamedReport[], unit: string): string {
  const raw = reports[0]?.report.raw;
  const columns = [
    { name: "raw", path: "raw", figures: raw },
    ...reports.map(({ name, report }, i) => {
      return { name, path: reports.length === 1 ? "pruned" : `${i}.pruned`, figures: report.pruned };
    }),
  ];
  const cells = (key: (typeof FIGURES)[number][1]) =>
    columns.map(({ path, figures }) => {
      const value = key.split(".").reduce<unknown>((at, part) => (isRecord(at) ? at[part] : undefined), figures);
      if (typeof value !== "number") return "<td>–</td>";
      return figure(
        "td",
        `${path}.${key}`,
        value,
        key.toLowerCase().includes("cost") ? cost(value, unit) : grouped(value),
      );
    });
  const rows = FIGURES.map(([label, key]) => `<tr><th scope="row">${label}</th>${cells(key).join("")}</tr>`);
  const head = columns.map(({ name }) => `<th scope="col">${escapeHtml(name)}</th>`).join("");
  return `<div class="scroll"><table><thead><tr><th></th>${head}</tr></thead><tbody>${rows.join("\n")}</tbody></table></div>`;
}

function cost(value: number, unit: string): string {
  return unit + value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: COST_DIGITS });
}

function shortNumber(value: number): string {
  return value >= 1_000 ? `${Number((value / 1_000).toFixed(1))}k` : String(Math.round(value));
}

/** JSON that cannot end the script that holds it. */
function json(value: unknown): string {
  return JSON.stringify(value).replace(/</g, "\\u003c");
}
