/** A trial in figures: as text for a terminal, and as JSON that holds no text of the session. */
import { flatten, grouped } from "../text/text.js";
import { type Agreement, type ArmFigures, isSame, type Scores, type Share } from "./scores.js";
import { type FinishedRun, type Moment, type Outcome, RAW, type Run } from "./types.js";

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

/** The text without what a terminal or a page would act on; line breaks stay where they are asked for. */
export function plain(text: string, keepLines = false): string {
  const shown = text.replace(DIRECTION_MARKS, "\uFFFD");
  return keepLines ? shown.split("\n").map(plainLine).join("\n") : flatten(shown);
}

function plainLine(line: string): string {
  return line.replace(/\t/g, "    ").replace(/\p{Cc}|\p{Surrogate}/gu, "\uFFFD");
}

/** `80% (16 of 20; 58% to 92%)` */
export function describeShare({ hits, of, low, high }: Share): string {
  if (of === 0) return "–";
  return `${percent(hits / of)} (${hits} of ${of}; ${percent(low)} to ${percent(high)})`;
}

function percent(share: number): string {
  return `${Math.round(share * 100)}%`;
}

/** What stands above the tables. */
export function describeTrial({ title, model, host, seed, candidates, moments, scores }: TrialResult): string[] {
  const using = moments.filter(({ kind }) => kind === "use").length;
  const picked = `${using} where the recorded reply used what had been condensed, ${moments.length - using} at random`;
  const open = moments.length - scores.complete;
  return [
    `${title}: ${model} through ${host}, seed ${seed}`,
    `${moments.length} of ${grouped(candidates)} requests at which something was condensed: ${picked}.`,
    ...(open > 0 ? [`${open} of them have not been tried with every context yet.`] : []),
  ];
}

const AGREEMENTS: readonly (readonly [string, (agreement: Agreement) => Share])[] = [
  ["all moments", ({ all }) => all],
  ["at random", ({ byKind }) => byKind.random],
  ["where condensed output was used", ({ byKind }) => byKind.use],
];

const FIGURES: readonly (readonly [string, (figures: ArmFigures) => string])[] = [
  ["runs", ({ runs }) => grouped(runs)],
  ["requests a run", ({ requests }) => requests.toFixed(1)],
  ["prompt tokens a run", ({ promptTokens }) => grouped(Math.round(promptTokens))],
  ["answer tokens a run", ({ outputTokens }) => grouped(Math.round(outputTokens))],
  ["cost of all runs", ({ cost }) => `$${cost.toFixed(cost < 1 ? 4 : 2)}`],
  ["old text exact in the file", ({ exact }) => describeShare(exact)],
  ["asked condensed output back", ({ askedBack }) => describeShare(askedBack)],
  ["  how often, all told", ({ recoveries }) => grouped(recoveries)],
  ["  characters a time", ({ recoveredChars }) => grouped(Math.round(recoveredChars))],
  ["other look-ups a run", ({ lookups }) => lookups.toFixed(1)],
  ["asked what is not recorded", ({ unanswered }) => describeShare(unanswered)],
  ["made something up", ({ madeUp }) => describeShare(madeUp)],
  ["no change within the steps", ({ undecided }) => describeShare(undecided)],
];

/** Rows of cells; the first row and the first column are headings. */
export type Table = readonly (readonly string[])[];

export function agreementTable({ scores }: TrialResult): Table {
  const head = ["", ...AGREEMENTS.map(([name]) => name)];
  return [head, ...scores.agreements.map((one) => [one.arm, ...AGREEMENTS.map(([, of]) => describeShare(of(one)))])];
}

export function figuresTable({ scores, arms }: TrialResult): Table {
  return [["", ...arms], ...FIGURES.map(([name, of]) => [name, ...scores.arms.map(of)])];
}

/** The whole report for a terminal. */
export function renderReport(result: TrialResult): string {
  const { differences } = result.scores;
  const list = differences.map(({ moment, runs }) => {
    const steps = [...runs].map(([arm, run]) => `    ${plain(arm)}: ${describeRun(run)}`);
    return [`  Entry ${moment.index} (${describeKind(moment)})`, ...steps].join("\n");
  });
  return [
    describeTrial(result)
      .map((line) => plain(line))
      .join("\n"),
    `Same next change, tool and file, as the first raw run\n${columns(agreementTable(result))}`,
    `What the runs took, and what they did\n${columns(figuresTable(result))}`,
    list.length > 0 ? `Moments to read\n${list.join("\n")}` : "There is no moment at which raw and condensed differ.",
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

export function describeOutcome(outcome: Outcome): string {
  if (outcome.kind === "limit") return "no change";
  if (outcome.kind === "text") return "an answer in words";
  const { tool, target, exact } = outcome;
  const judged = exact === undefined ? "" : exact ? ", old text exact" : ", old text not in the file";
  return `${plain(tool)} ${plain(target)}`.trim() + judged;
}

function columns(table: Table): string {
  const widths = (table[0] ?? []).map((_, column) => Math.max(...table.map((row) => plain(row[column] ?? "").length)));
  return table
    .map((row) => `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd())
    .join("\n");
}

/** All figures, without a word of the session: to be kept, compared and sent. */
export function jsonOf(result: TrialResult): object {
  const { model, host, points, seed, candidates, arms, moments, runs, scores } = result;
  return {
    model,
    host,
    points,
    seed,
    candidates,
    contexts: arms,
    complete: scores.complete,
    agreements: scores.agreements,
    figures: scores.arms,
    moments: moments.map((moment) => {
      const own = runs.filter(({ index }) => index === moment.index);
      const raw = own.find(({ arm }) => arm === RAW)?.run;
      return { ...moment, runs: own.map(({ arm, run }) => ({ context: arm, ...figuresOfRun(run, raw) })) };
    }),
  };
}

function figuresOfRun(run: Run, raw: Run | undefined): object {
  const { outcome, lookups, madeUp, ...counts } = run;
  return {
    outcome: outcome.kind,
    ...(outcome.kind === "call" ? { tool: outcome.tool, exact: outcome.exact ?? null } : {}),
    sameAsRaw: raw ? isSame(raw.outcome, outcome) : null,
    ...counts,
    lookups: lookups.map(({ tool, chars, known }) => ({ tool, chars, known })),
    madeUp: madeUp.length,
  };
}
