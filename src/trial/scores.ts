/** What the runs of a trial say: shares with their intervals, and the moments at which raw and condensed differ. */
import { QUERY_TOOL_NAME } from "../types.js";
import { comparableTarget } from "./calls.js";
import { CONDENSED, type FinishedRun, type Moment, type MomentKind, type Outcome, RAW, type Run } from "./types.js";

/** A share, and the bounds between which the true one lies with 95% (Wilson's score interval). 0 to 1. */
export interface Share {
  hits: number;
  of: number;
  low: number;
  high: number;
}

/** How often one context led to the same next change, tool and file, as the first raw one. */
export interface Agreement {
  arm: string;
  all: Share;
  byKind: Readonly<Record<MomentKind, Share>>;
}

/** What the runs from one kind of context took, means a run. */
export interface ArmFigures {
  arm: string;
  runs: number;
  requests: number;
  promptTokens: number;
  outputTokens: number;
  /** USD, all runs. */
  cost: number;
  /** Edits whose old text stands in the file, of those where that can be known. */
  exact: Share;
  /** Runs that asked for condensed output, how often all told, and characters a time. */
  askedBack: Share;
  recoveries: number;
  recoveredChars: number;
  /** Calls that looked for something else. */
  lookups: number;
  /** Runs with a call whose answer the recording does not hold. */
  unanswered: Share;
  /** Runs with something made up. */
  madeUp: Share;
  /** Runs that came to no change within their steps. */
  undecided: Share;
}

/** A moment with its runs by the name of their context. */
export interface TriedMoment {
  moment: Moment;
  runs: ReadonlyMap<string, Run>;
}

export interface Scores {
  /** Moments that have been tried with every context. */
  complete: number;
  agreements: Agreement[];
  arms: ArmFigures[];
  /** Moments to read: the condensed context led elsewhere, to another text or to something made up. */
  differences: TriedMoment[];
}

const Z = 1.96;

/** Wilson's interval: it holds also for few runs, and for shares of nothing and all. */
export function shareOf(hits: number, of: number): Share {
  if (of === 0) return { hits, of, low: 0, high: 1 };
  const share = hits / of;
  const spread = Z ** 2 / of;
  const middle = share + spread / 2;
  const reach = Z * Math.sqrt((share * (1 - share) + spread / 4) / of);
  const bound = (value: number) => Math.min(1, Math.max(0, value / (1 + spread)));
  return { hits, of, low: hits === 0 ? 0 : bound(middle - reach), high: hits === of ? 1 : bound(middle + reach) };
}

/** Scores the runs; `arms` are the names of all contexts, the first raw one first. */
export function scoresOf(moments: readonly Moment[], arms: readonly string[], runs: readonly FinishedRun[]): Scores {
  const tried = moments.map((moment) => ({
    moment,
    runs: new Map(runs.filter(({ index }) => index === moment.index).map(({ arm, run }) => [arm, run])),
  }));
  return {
    complete: tried.filter((one) => arms.every((arm) => one.runs.has(arm))).length,
    agreements: arms.filter((arm) => arm !== RAW).map((arm) => agreementOf(arm, tried)),
    arms: arms.map((arm) =>
      figuresOf(
        arm,
        tried.flatMap((one) => one.runs.get(arm) ?? []),
      ),
    ),
    differences: tried.filter((one) => isDifferent(one, arms)).sort((a, b) => a.moment.index - b.moment.index),
  };
}

/** Whether two runs came to the same: the same tool and file, or words instead of a call. No decision equals nothing. */
export function isSame(a: Outcome, b: Outcome): boolean {
  if (a.kind === "text" && b.kind === "text") return true;
  if (a.kind !== "call" || b.kind !== "call" || a.tool !== b.tool) return false;
  return comparableTarget(a.tool, a.target) === comparableTarget(b.tool, b.target);
}

function agreementOf(arm: string, tried: readonly TriedMoment[]): Agreement {
  const among = (kind?: MomentKind) => {
    const pairs = tried.flatMap(({ moment, runs }) => {
      const raw = runs.get(RAW);
      const other = runs.get(arm);
      return raw && other && (kind === undefined || moment.kind === kind) ? [isSame(raw.outcome, other.outcome)] : [];
    });
    return countOf(pairs, (same) => same);
  };
  return { arm, all: among(), byKind: { random: among("random"), use: among("use") } };
}

function figuresOf(arm: string, runs: readonly Run[]): ArmFigures {
  const sum = (value: (run: Run) => number) => runs.reduce((total, run) => total + value(run), 0);
  const mean = (value: (run: Run) => number) => (runs.length > 0 ? sum(value) / runs.length : 0);
  const recoveries = runs.flatMap(({ lookups }) => lookups.filter(({ tool }) => tool === QUERY_TOOL_NAME));
  const judged = runs.flatMap(({ outcome }) =>
    outcome.kind === "call" && outcome.exact !== undefined ? [outcome.exact] : [],
  );
  return {
    arm,
    runs: runs.length,
    requests: mean(({ requests }) => requests),
    promptTokens: mean(({ promptTokens }) => promptTokens),
    outputTokens: mean(({ outputTokens }) => outputTokens),
    cost: sum(({ cost }) => cost),
    exact: countOf(judged, (exact) => exact),
    askedBack: countOf(runs, ({ lookups }) => lookups.some(({ tool }) => tool === QUERY_TOOL_NAME)),
    recoveries: recoveries.length,
    recoveredChars: recoveries.reduce((total, { chars }) => total + chars, 0) / Math.max(1, recoveries.length),
    lookups: mean(({ lookups }) => lookups.filter(({ tool }) => tool !== QUERY_TOOL_NAME).length),
    unanswered: countOf(runs, ({ lookups }) => lookups.some(({ known }) => !known)),
    madeUp: countOf(runs, ({ madeUp }) => madeUp.length > 0),
    undecided: countOf(runs, ({ outcome }) => outcome.kind === "limit"),
  };
}

function countOf<T>(items: readonly T[], fits: (item: T) => boolean): Share {
  return shareOf(items.filter(fits).length, items.length);
}

function isDifferent({ runs }: TriedMoment, arms: readonly string[]): boolean {
  const raw = runs.get(RAW);
  const others = arms.slice(arms.indexOf(CONDENSED)).flatMap((arm) => runs.get(arm) ?? []);
  return others.some((run) => {
    if (run.madeUp.length > 0 || (run.outcome.kind === "call" && run.outcome.exact === false)) return true;
    return raw !== undefined && !isSame(raw.outcome, run.outcome);
  });
}
