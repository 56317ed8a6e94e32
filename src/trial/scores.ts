/** What the runs of a trial say: shares with their intervals, and the moments at which raw and condensed differ. */
import { QUERY_TOOL_NAME } from "../types.ts";
import { comparableTarget } from "./calls.ts";
import { type FinishedRun, type Moment, type Outcome, RAW, RAW_AGAIN, type Run } from "./types.ts";

/** A share, and the bounds between which the true one lies with 95% (Wilson's score interval). 0 to 1. */
export interface Share {
  hits: number;
  of: number;
  low: number;
  high: number;
}

/** A moment with its runs by the name of their context. */
export interface TriedMoment {
  moment: Moment;
  runs: ReadonlyMap<string, Run>;
}

/** How often each context led to the same next change as the first raw one, by group of moments. */
export type Agreements = Readonly<Record<string, Readonly<Record<keyof typeof GROUPS, Share>>>>;
/** What the runs of each context took and did. A number is a mean or a sum, as its name says. */
export type Figures = Readonly<Record<string, Readonly<Record<keyof typeof FIGURES, Share | number>>>>;

export interface Scores {
  /** Moments that have been tried with every context. */
  complete: number;
  agreements: Agreements;
  figures: Figures;
  /** Moments to read: the condensed context led elsewhere, to another text or to something made up. */
  differences: TriedMoment[];
}

const Z = 1.96;

/** Wilson's interval: it holds also for few runs, and for shares of nothing and all. */
export function shareOf(hits: number, of: number): Share {
  if (of === 0) return { hits, of, low: 0, high: 1 };
  const share = hits / of;
  const spread = Z ** 2 / of;
  const reach = Z * Math.sqrt((share * (1 - share) + spread / 4) / of);
  const bound = (value: number) => (share + spread / 2 + value) / (1 + spread);
  return { hits, of, low: hits === 0 ? 0 : bound(-reach), high: hits === of ? 1 : bound(reach) };
}

/** The groups of moments for which agreement is told. */
export const GROUPS = {
  all: { label: "all moments", has: (_: Moment) => true },
  random: { label: "at random", has: ({ kind }: Moment) => kind === "random" },
  use: { label: "where condensed output was used", has: ({ kind }: Moment) => kind === "use" },
};

const recoveriesOf = ({ lookups }: Run) => lookups.filter(({ tool }) => tool === QUERY_TOOL_NAME);
const exactOf = ({ outcome }: Run) => (outcome.kind === "call" && outcome.exact !== undefined ? [outcome.exact] : []);

/** Every figure of a context's runs, by its name in the JSON, in the order in which they are shown. */
export const FIGURES = {
  runs: { label: "runs", of: (runs: readonly Run[]) => runs.length },
  requests: { label: "requests a run", of: mean(({ requests }) => requests) },
  promptTokens: { label: "prompt tokens a run", of: mean(({ promptTokens }) => promptTokens) },
  outputTokens: { label: "answer tokens a run", of: mean(({ outputTokens }) => outputTokens) },
  cost: { label: "cost a run, USD", of: mean(({ cost }) => cost) },
  exact: {
    label: "old text exact in the file",
    of: (runs: readonly Run[]) => countOf(runs.flatMap(exactOf), (exact) => exact),
  },
  askedBack: { label: "asked condensed output back", of: share((run) => recoveriesOf(run).length > 0) },
  recoveries: { label: "recoveries a run", of: mean((run) => recoveriesOf(run).length) },
  recoveredChars: {
    label: "characters recovered a run",
    of: mean((run) => recoveriesOf(run).reduce((sum, { chars }) => sum + chars, 0)),
  },
  lookups: { label: "other look-ups a run", of: mean((run) => run.lookups.length - recoveriesOf(run).length) },
  unanswered: { label: "asked what is not recorded", of: share(({ lookups }) => lookups.some(({ known }) => !known)) },
  madeUp: { label: "made something up", of: share(({ madeUp }) => madeUp.length > 0) },
  undecided: { label: "no change within the steps", of: share(({ outcome }) => outcome.kind === "limit") },
};

/** Scores the runs; `arms` are the names of all contexts, the first raw one first. */
export function scoresOf(moments: readonly Moment[], arms: readonly string[], runs: readonly FinishedRun[]): Scores {
  const tried = moments.map((moment) => ({
    moment,
    runs: new Map(runs.filter(({ index }) => index === moment.index).map(({ arm, run }) => [arm, run])),
  }));
  const byArm = <T>(names: readonly string[], score: (arm: string) => T) =>
    Object.fromEntries(names.map((arm) => [arm, score(arm)]));
  return {
    complete: tried.filter((one) => arms.every((arm) => one.runs.has(arm))).length,
    agreements: byArm(arms.slice(1), (arm) => mapValues(GROUPS, ({ has }) => agreementOf(arm, tried, has))),
    figures: byArm(arms, (arm) => {
      const own = tried.flatMap((one) => one.runs.get(arm) ?? []);
      return mapValues(FIGURES, ({ of }) => of(own));
    }),
    differences: tried.filter(isDifferent).sort((a, b) => a.moment.index - b.moment.index),
  };
}

/** Whether two runs came to the same: the same tool and file, or words instead of a call. No decision equals nothing. */
export function isSame(a: Outcome, b: Outcome): boolean {
  if (a.kind === "text" && b.kind === "text") return true;
  if (a.kind !== "call" || b.kind !== "call" || a.tool !== b.tool) return false;
  return comparableTarget(a.tool, a.target) === comparableTarget(b.tool, b.target);
}

function agreementOf(arm: string, tried: readonly TriedMoment[], has: (moment: Moment) => boolean): Share {
  const pairs = tried.flatMap(({ moment, runs }) => {
    const [raw, other] = [runs.get(RAW), runs.get(arm)];
    return raw && other && has(moment) ? [isSame(raw.outcome, other.outcome)] : [];
  });
  return countOf(pairs, (same) => same);
}

function isDifferent({ runs }: TriedMoment): boolean {
  const raw = runs.get(RAW);
  return [...runs].some(([arm, run]) => {
    if (arm === RAW || arm === RAW_AGAIN) return false;
    if (run.madeUp.length > 0 || exactOf(run)[0] === false) return true;
    return raw !== undefined && !isSame(raw.outcome, run.outcome);
  });
}

function mean(value: (run: Run) => number): (runs: readonly Run[]) => number {
  return (runs) => runs.reduce((sum, run) => sum + value(run), 0) / Math.max(1, runs.length);
}

function share(fits: (run: Run) => boolean): (runs: readonly Run[]) => Share {
  return (runs) => countOf(runs, fits);
}

function countOf<T>(items: readonly T[], fits: (item: T) => boolean): Share {
  return shareOf(items.filter(fits).length, items.length);
}

function mapValues<K extends string, T, R>(values: Readonly<Record<K, T>>, map: (value: T) => R): Record<K, R> {
  const entries = Object.entries<T>(values).map(([key, value]) => [key, map(value)]);
  return Object.fromEntries(entries) as Record<K, R>;
}
