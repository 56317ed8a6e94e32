/** The figures of a replay as data: what `--json` prints, and what every other form shows. */
import { DEFAULT_PROFILE } from "../cost/prices.ts";
import type { ContextPruneConfig } from "../types.ts";
import type { Calibration } from "./calibration.ts";
import type { CostMeter, SideCall } from "./costs.ts";
import { type Assumptions, type Replay, summarizerPriceOf, type VariantRun } from "./replay.ts";
import { totalUses, type UseTotals } from "./use-counter.ts";

/** What one way to run a session cost. Tokens are prompt tokens; costs are in `settings.replay.currency`. */
export interface VariantFigures {
  /** The prompts, the host's compactions, the summariser and the recoveries; answers are the same in every variant and left out. */
  cost: number;
  /** What it costs to ask for what was missed and to carry it, as a part of `cost`; and the requests for that. */
  recoveryCost: number;
  extraRequests: number;
  peakTokens: number;
  meanTokens: number;
  readTokens: number;
  writeTokens: number;
  /** Compactions by the host. */
  compactions: number;
  /** What the replies used of earlier output and arguments, and what of it their requests lacked. */
  uses: UseTotals;
}

/** One request of a pruned session. Tokens of its prompt, by the cache; what its reply used, and missed. */
export interface RequestRow {
  readTokens: number;
  writtenTokens: number;
  /** A flush took effect before it, and why it was made: "unknown" where nothing says so; `null` without a flush. */
  flush: string | null;
  uses: number;
  misses: number;
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
  /** Cost of the pruned session by that of the raw one, recoveries included; and the same without them. */
  ratio: number;
  ratioWithoutRecoveries: number;
  /** Share of the pruned session's prompt tokens that came from the provider's cache. */
  cacheReadShare: number;
  calibration: Calibration;
  settings: ReportSettings;
  /** Empty for a sum over sessions. */
  rows: RequestRow[];
}

/** One report for each variant. */
export function reportsOf(replay: Replay, assumptions: Assumptions): ReplayReport[] {
  return replay.variants.map((variant) => reportOf(replay, variant, assumptions));
}

function reportOf(replay: Replay, variant: VariantRun, assumptions: Assumptions): ReplayReport {
  const { config, meter } = variant;
  const raw = figuresOf(replay.raw);
  const summarizerCost = rounded(total(meter.flushes) + total(meter.unusedSummaries), 6);
  const pruned = { ...figuresOf(variant), summarizerCost, flushes: meter.flushes.length };
  const tokens = sum(meter, "tokens");
  const { recordedTokens, errorPct, scales } = replay.calibration;
  return {
    requests: replay.raw.meter.requests.length,
    raw,
    pruned,
    ...ratiosOf(raw, pruned),
    cacheReadShare: tokens > 0 ? rounded(sum(meter, "read") / tokens, 4) : 0,
    calibration: {
      recordedTokens,
      errorPct: errorPct === null ? null : rounded(errorPct, 2),
      scales: scales.map((scale) => ({
        ...scale,
        factor: rounded(scale.factor, 4),
        baseTokens: Math.round(scale.baseTokens),
      })),
    },
    settings: settingsOf(replay, config, assumptions),
    rows: rowsOf(variant),
  };
}

/** Both ratios of a pruned session to the raw one. */
export function ratiosOf(raw: VariantFigures, pruned: VariantFigures) {
  const without = ({ cost, recoveryCost }: VariantFigures) => cost - recoveryCost;
  return {
    ratio: raw.cost > 0 ? rounded(pruned.cost / raw.cost, 4) : 1,
    ratioWithoutRecoveries: without(raw) > 0 ? rounded(without(pruned) / without(raw), 4) : 1,
  };
}

function rowsOf({ meter, uses }: VariantRun): RequestRow[] {
  const flushes = new Map(meter.flushes.map(({ request, reason }) => [request, reason ?? "unknown"]));
  return meter.requests.map(({ read, write }, i) => {
    const used = uses[i]?.uses ?? [];
    return {
      readTokens: Math.round(read),
      writtenTokens: Math.round(write),
      flush: flushes.get(i) ?? null,
      uses: used.length,
      misses: used.filter(({ missed }) => missed).length,
    };
  });
}

function figuresOf({ meter, uses, extraRequests }: VariantRun): VariantFigures {
  const { requests } = meter;
  return {
    cost: rounded(sum(meter, "cost") + total(meter.sideCalls), 6),
    recoveryCost: rounded(total(meter.recoveries), 6),
    extraRequests,
    peakTokens: Math.round(requests.reduce((most, { tokens }) => Math.max(most, tokens), 0)),
    meanTokens: Math.round(requests.length > 0 ? sum(meter, "tokens") / requests.length : 0),
    readTokens: Math.round(sum(meter, "read")),
    writeTokens: Math.round(sum(meter, "write")),
    compactions: meter.compactions.length,
    uses: totalUses(uses),
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
      summarizerPrice: digest ? null : rounded(summarizerPriceOf(config, replay.recording, assumptions), 4),
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
