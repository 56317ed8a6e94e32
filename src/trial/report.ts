/** A trial in figures: as text for a terminal, and as JSON that holds no text of the session. */
import { flatten, grouped } from "../text/text.ts";
import { FIGURES, GROUPS, isSame, type Scores, type Share } from "./scores.ts";
import { type FinishedRun, type Moment, type Outcome, RAW, type Run } from "./types.ts";

/** A trial with all that is told of it. */
export interface TrialResult {
  /** Name of the session's file. */
  title: string;
  model: string;
  host: string;
  points: number;
  seed: number;
  /** Requests of the session at which something was condensed. */
  candidates: number;
  arms: readonly string[];
  moments: readonly Moment[];
  runs: readonly FinishedRun[];
  scores: Scores;
}

/** Direction marks, which would let a text of the session reorder what stands around it. */
const DIRECTION_MARKS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** One line of text without anything that a terminal or a page would act on. */
export function plain(text: string): string {
  return flatten(text.replace(DIRECTION_MARKS, "\uFFFD"));
}

/** `80% (16 of 20; 58% to 92%)`, or without its interval. */
export function describeShare({ hits, of, low, high }: Share, withInterval = true): string {
  if (of === 0) return "–";
  const percent = (part: number) => `${Math.round(part * 100)}%`;
  const interval = withInterval ? `; ${percent(low)} to ${percent(high)}` : "";
  return `${percent(hits / of)} (${hits} of ${of}${interval})`;
}

/** What stands above the tables; the first line is a title. */
export function describeTrial({ title, model, host, seed, candidates, moments, scores }: TrialResult): string[] {
  const using = moments.filter(GROUPS.use.has).length;
  const picked = `${using} where the recorded reply used what had been condensed, ${moments.length - using} at random`;
  const open = moments.length - scores.complete;
  return [
    `${title}: ${model} through ${host}, seed ${seed}`,
    `${moments.length} of ${grouped(candidates)} requests at which something was condensed: ${picked}.`,
    ...(open > 0 ? [`${open} of them have not been tried with every context yet.`] : []),
  ].map(plain);
}

/** Rows of cells; the first row and the first column are headings. */
export type Table = readonly (readonly string[])[];

export function agreementTable({ scores }: TrialResult): Table {
  const rows = Object.entries(scores.agreements).map(([arm, shares]) => [
    arm,
    ...Object.values(shares).map((share) => describeShare(share)),
  ]);
  return [["", ...Object.values(GROUPS).map(({ label }) => label)], ...rows];
}

export function figuresTable({ scores, arms }: TrialResult): Table {
  const keys = Object.keys(FIGURES) as (keyof typeof FIGURES)[];
  const cell = (arm: string, key: keyof typeof FIGURES) => {
    const value = scores.figures[arm]?.[key] ?? 0;
    if (typeof value !== "number") return describeShare(value);
    return value.toLocaleString("en-US", { maximumFractionDigits: value < 1 ? 4 : value < 100 ? 2 : 0 });
  };
  return [["", ...arms], ...keys.map((key) => [FIGURES[key].label, ...arms.map((arm) => cell(arm, key))])];
}

/** The whole report for a terminal. */
export function renderReport(result: TrialResult): string {
  const { differences } = result.scores;
  const list = differences.map(({ moment, runs }) => {
    const steps = [...runs].map(([arm, run]) => `    ${plain(arm)}: ${describeRun(run)}`);
    return [`  Entry ${moment.index} (${describeKind(moment)})`, ...steps].join("\n");
  });
  return [
    describeTrial(result).join("\n"),
    `Same next change, tool and file, as the first raw run\n${columns(agreementTable(result))}`,
    `What the runs took, and what they did\n${columns(figuresTable(result))}`,
    list.length > 0
      ? `Moments to read\n${list.join("\n")}`
      : "No moment at which raw and condensed differ has come up.",
  ].join("\n\n");
}

export function describeKind({ kind }: Moment): string {
  return kind === "use" ? "the recorded reply used condensed output" : "picked at random";
}

/** `edit src/app.ts, old text exact, after 2 requests; made up: 1` */
export function describeRun({ outcome, requests, madeUp }: Run): string {
  const after = `after ${requests} ${requests === 1 ? "request" : "requests"}`;
  return `${describeOutcome(outcome)}, ${after}${madeUp.length > 0 ? `; made up: ${madeUp.length}` : ""}`;
}

function describeOutcome(outcome: Outcome): string {
  if (outcome.kind === "limit") return "no change";
  if (outcome.kind === "text") return "an answer in words";
  const judged = { none: "", true: ", old text exact", false: ", old text not in the file" };
  return plain(`${outcome.tool} ${outcome.target}`) + judged[`${outcome.exact ?? "none"}`];
}

function columns(table: Table): string {
  const widths = (table[0] ?? []).map((_, column) => Math.max(...table.map((row) => plain(row[column] ?? "").length)));
  const lines = table.map((row) => row.map((cell, column) => plain(cell).padEnd(widths[column] ?? 0)).join("  "));
  return lines.map((line) => `  ${line}`.trimEnd()).join("\n");
}

/** All figures, without a word of the session: to be kept, compared and sent. */
export function jsonOf({ title: _, scores, moments, runs, ...head }: TrialResult): object {
  const { differences: __, ...figures } = scores;
  const perMoment = moments.map((moment) => {
    const own = runs.filter(({ index }) => index === moment.index);
    const raw = own.find(({ arm }) => arm === RAW)?.run.outcome;
    return { ...moment, runs: own.map(({ arm, run }) => ({ arm, ...figuresOfRun(run, raw) })) };
  });
  return { ...head, ...figures, moments: perMoment };
}

function figuresOfRun({ outcome, lookups, madeUp, ...counts }: Run, raw: Outcome | undefined): object {
  return {
    outcome: outcome.kind,
    ...(outcome.kind === "call" ? { tool: outcome.tool, exact: outcome.exact ?? null } : {}),
    sameAsRaw: raw ? isSame(raw, outcome) : null,
    ...counts,
    lookups: lookups.map(({ tool, chars, known }) => ({ tool, chars, known })),
    madeUp: madeUp.length,
  };
}
