/** The figures of a replay as data: what `--json` prints, and what every other form shows. */
import { DEFAULT_PROFILE } from "../cost/prices.js";
import type { ContextPruneConfig } from "../types.js";
import type { Calibration } from "./calibration.js";
import type { CostMeter, SideCall } from "./costs.js";
import type { Assumptions, Replay, VariantRun } from "./replay.js";

/** What one way to run a session cost. Tokens are prompt tokens; costs are in `settings.replay.currency`. */
export interface VariantFigures {
  /** The prompts, the host's compactions, and the summariser; the answers are the same in every variant and left out. */
  cost: number;
  peakTokens: number;
  meanTokens: number;
  readTokens: number;
  writeTokens: number;
  /** Compactions by the host. */
  compactions: number;
}

export interface PrunedFigures extends VariantFigures {
  summarizerCost: number;
  flushes: number;
}

/** What the figures rest on: the extension's settings, and what the replay assumes. */
export type ReportSettings = ContextPruneConfig & {
  replay: {
    /** `USD`, or the price of one million input tokens. */
    currency: "USD" | "input-Mtok";
    /** Name of the price profile; `recorded` for prices from the session itself. */
    prices: string;
    cacheLifetimeMs: number;
    minCacheTokens: number;
    contextWindow: number;
    /** Cost of the answers, which stands in no other figure. */
    answersCost: number;
    summaries: "digest" | "ratio";
    summaryRatio: number | null;
    summarizerPrice: number | null;
  };
};

/** One variant beside the raw session. */
export interface ReplayReport {
  requests: number;
  raw: VariantFigures;
  pruned: PrunedFigures;
  /** Cost of the pruned session by that of the raw one. */
  ratio: number;
  /** Share of the pruned session's prompt tokens that came from the provider's cache. */
  cacheReadShare: number;
  calibration: Calibration;
  settings: ReportSettings;
}

/** One report for each variant. */
export function reportsOf(replay: Replay, assumptions: Assumptions): ReplayReport[] {
  return replay.variants.map((variant) => reportOf(replay, variant, assumptions));
}

function reportOf(replay: Replay, { config, meter }: VariantRun, assumptions: Assumptions): ReplayReport {
  const raw = figuresOf(replay.raw.meter);
  const summarizerCost = rounded(total(meter.flushes) + total(meter.unusedSummaries), 6);
  const pruned = { ...figuresOf(meter), summarizerCost, flushes: meter.flushes.length };
  const tokens = sum(meter, "tokens");
  const { recordedTokens, estimatedTokens, errorPct } = replay.calibration;
  return {
    requests: replay.raw.meter.requests.length,
    raw,
    pruned,
    ratio: raw.cost > 0 ? rounded(pruned.cost / raw.cost, 4) : 1,
    cacheReadShare: tokens > 0 ? rounded(sum(meter, "read") / tokens, 4) : 0,
    calibration: { recordedTokens, estimatedTokens, errorPct: errorPct === null ? null : rounded(errorPct, 2) },
    settings: settingsOf(replay, config, assumptions),
  };
}

function figuresOf(meter: CostMeter): VariantFigures {
  const { requests } = meter;
  return {
    cost: rounded(sum(meter, "cost") + total(meter.sideCalls), 6),
    peakTokens: Math.round(requests.reduce((most, { tokens }) => Math.max(most, tokens), 0)),
    meanTokens: Math.round(requests.length > 0 ? sum(meter, "tokens") / requests.length : 0),
    readTokens: Math.round(sum(meter, "read")),
    writeTokens: Math.round(sum(meter, "write")),
    compactions: meter.compactions.length,
  };
}

function settingsOf(replay: Replay, config: ContextPruneConfig | undefined, assumptions: Assumptions): ReportSettings {
  if (!config) throw new Error("a variant without settings");
  const cache = assumptions.profile ?? DEFAULT_PROFILE;
  const digest = config.summarizerModel === "none";
  return {
    ...config,
    replay: {
      currency: replay.hasPrices ? "USD" : "input-Mtok",
      prices: assumptions.profile?.name ?? (replay.hasPrices ? "recorded" : DEFAULT_PROFILE.name),
      cacheLifetimeMs: cache.lifetimeMs,
      minCacheTokens: cache.minTokens,
      contextWindow: replay.recording.contextWindow,
      answersCost: rounded(sum(replay.raw.meter, "outputCost"), 6),
      summaries: digest ? "digest" : "ratio",
      summaryRatio: digest ? null : assumptions.summaryRatio,
      summarizerPrice: digest ? null : assumptions.summarizerPrice,
    },
  };
}

function sum(meter: CostMeter, field: "tokens" | "read" | "write" | "cost" | "outputCost"): number {
  return meter.requests.reduce((all, request) => all + request[field], 0);
}

function total(calls: readonly SideCall[]): number {
  return calls.reduce((all, call) => all + call.cost, 0);
}

/** A number with at most so many digits behind the point. */
export function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
