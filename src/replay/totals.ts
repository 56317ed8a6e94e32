/** The figures of several sessions together. */
import { type ReplayReport, ratiosOf, rounded, type VariantFigures } from "./figures.ts";
import { sumUses } from "./use-counter.ts";

/** The figures of several sessions as those of one; the settings are those of the first. */
export function sumOf(reports: readonly ReplayReport[]): ReplayReport {
  const [first] = reports;
  if (!first) throw new Error("no sessions to sum up");
  const requests = reports.reduce((all, report) => all + report.requests, 0);
  const raw = joinFigures(reports.map((report) => ({ figures: report.raw, requests: report.requests })));
  const joined = joinFigures(reports.map((report) => ({ figures: report.pruned, requests: report.requests })));
  const add = (pick: (report: ReplayReport) => number) => reports.reduce((all, report) => all + pick(report), 0);
  const summarizerCost = rounded(
    add(({ pruned }) => pruned.summarizerCost),
    6,
  );
  const pruned = { ...joined, summarizerCost, flushes: add((report) => report.pruned.flushes) };
  const recordedTokens = add(({ calibration }) => calibration.recordedTokens);
  const error = add(({ calibration }) => (calibration.errorPct ?? 0) * calibration.recordedTokens);
  const tokens = joined.meanTokens * requests;
  return {
    requests,
    raw,
    pruned,
    ...ratiosOf(raw, pruned),
    cacheReadShare: tokens > 0 ? rounded(joined.readTokens / tokens, 4) : 0,
    calibration: {
      recordedTokens,
      errorPct: recordedTokens > 0 ? rounded(error / recordedTokens, 2) : null,
      scales: [],
    },
    settings: {
      ...first.settings,
      replay: {
        ...first.settings.replay,
        answersCost: rounded(
          add(({ settings }) => settings.replay.answersCost),
          6,
        ),
      },
    },
    rows: [],
  };
}

function joinFigures(parts: readonly { figures: VariantFigures; requests: number }[]): VariantFigures {
  const add = (pick: (figures: VariantFigures) => number) => parts.reduce((all, { figures }) => all + pick(figures), 0);
  const requests = parts.reduce((all, part) => all + part.requests, 0);
  const tokens = parts.reduce((all, part) => all + part.figures.meanTokens * part.requests, 0);
  return {
    cost: rounded(
      add(({ cost }) => cost),
      6,
    ),
    recoveryCost: rounded(
      add(({ recoveryCost }) => recoveryCost),
      6,
    ),
    extraRequests: add(({ extraRequests }) => extraRequests),
    peakTokens: parts.reduce((most, { figures }) => Math.max(most, figures.peakTokens), 0),
    meanTokens: requests > 0 ? Math.round(tokens / requests) : 0,
    readTokens: add(({ readTokens }) => readTokens),
    writeTokens: add(({ writeTokens }) => writeTokens),
    compactions: add(({ compactions }) => compactions),
    uses: sumUses(parts.map(({ figures }) => figures.uses)),
  };
}
