/** The command line of the trial. */
import { parseArgs } from "node:util";
import { ReplayInputError } from "../replay/session-file.ts";
import { type Assignment, configWith, parseAssignments } from "../replay/settings.ts";
import type { ContextPruneConfig } from "../types.ts";
import { CONDENSED } from "./types.ts";

export const USAGE = `Usage: pi-condense trial SESSION.jsonl --model PROVIDER/ID [options]

Asks a model for its next steps at moments of a recorded session, twice from the context as it
was and once from the condensed one, and tells where they differ. Nothing is executed. The cost
is told first, and asked about.

  --model PROVIDER/ID       model to ask, one of pi --list-models; a thinking level may follow
                            behind a colon
  --points 20               moments to try: half at random, half where the recorded reply used
                            what had been condensed by then
  --compare "K=V,K=V"       try one more context, condensed with these settings; may be given
                            several times
  --seed 1                  other moments for another number
  --json                    print the figures as JSON, without any text of the session
  --html FILE               write a page with the moments to read
  --state FILE              keep finished runs in this file; by default beside the session
  --pi FOLDER               package of pi to ask through; by default the pi on the PATH
  --yes                     do not ask
`;

/** A condensed context and the settings that make it. */
export interface Variant {
  name: string;
  config: ContextPruneConfig;
}

/** What was asked for. */
export interface TrialCommand {
  path: string;
  model: string;
  points: number;
  seed: number;
  /** The shipped settings first, then those to compare. */
  variants: readonly [Variant, ...Variant[]];
  json: boolean;
  html: string | undefined;
  state: string | undefined;
  yes: boolean;
}

const OPTIONS = {
  model: { type: "string" },
  points: { type: "string", default: "20" },
  seed: { type: "string", default: "1" },
  compare: { type: "string", multiple: true },
  json: { type: "boolean", default: false },
  html: { type: "string" },
  state: { type: "string" },
  pi: { type: "string" },
  yes: { type: "boolean", default: false },
} as const;

/** Summaries in a trial are digests: they cost nothing, and come out the same each time. */
const DIGESTS: Assignment = { key: "summarizerModel", value: "none" };

/**
 * Reads the arguments after `trial`.
 * @throws ReplayInputError with what is wrong
 */
export function parseTrialArguments(args: readonly string[]): TrialCommand {
  const { values, positionals } = parse(args);
  const [path, ...others] = positionals;
  if (path === undefined) throw new ReplayInputError("Name a session file; see pi-condense trial --help.");
  if (others.length > 0) throw new ReplayInputError(`One session at a time: what is "${others[0]}"?`);
  if (!values.model?.includes("/")) throw new ReplayInputError("Name a model: --model provider/id.");
  const { model, json, html, state, yes } = values;
  return {
    path,
    model,
    points: wholeNumber("--points", values.points, 1, 1_000),
    seed: wholeNumber("--seed", values.seed, 0, 2 ** 32 - 1),
    variants: [{ name: CONDENSED, config: configWith([DIGESTS]) }, ...(values.compare ?? []).map(variantOf)],
    json,
    html,
    state,
    yes,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS });
  } catch (error) {
    throw new ReplayInputError(error instanceof Error ? error.message : String(error));
  }
}

function variantOf(name: string): Variant {
  const assignments = parseAssignments(name);
  if (assignments.some(({ key }) => key === DIGESTS.key)) {
    throw new ReplayInputError("A trial condenses with digests; summarizerModel cannot be compared.");
  }
  return { name, config: configWith([DIGESTS, ...assignments]) };
}

function wholeNumber(name: string, text: string, min: number, max: number): number {
  const value = /^\d+$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new ReplayInputError(`${name} cannot be "${text}": it is a whole number from ${min} to ${max}.`);
}
