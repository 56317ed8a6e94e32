/** What a trial will cost, before it is begun. */
import { costOf, type ModelCost } from "../cost/prices.ts";
import { grouped } from "../text/text.ts";
import { MAX_STEPS } from "./steps.ts";
import { type Moment, RAW, RAW_AGAIN } from "./types.ts";

/** Requests of a run as they were in the sessions that this was tried on, and tokens that each adds. */
const USUAL_STEPS = 3;
const ANSWER_TOKENS = 400;
const LOOKUP_TOKENS = 2_500;
/** System prompt and tools. */
const BASE_TOKENS = 3_000;

/** What a trial costs in USD: where every run takes one request, the usual number of them, and as many as it may. */
export interface Estimate {
  least: number;
  usual: number;
  most: number;
  runs: number;
  /** Tokens of the usual prompts. */
  promptTokens: number;
}

/** What the runs that are still to be made cost; `isDone` leaves out those that are there. */
export function estimateOf(
  moments: readonly Moment[],
  arms: readonly string[],
  cost: ModelCost,
  isDone: (index: number, arm: string) => boolean,
): Estimate {
  const runs = moments.flatMap((moment) =>
    arms.filter((arm) => !isDone(moment.index, arm)).map((arm) => ({ arm, tokens: tokensFor(moment, arm) })),
  );
  const sum = (value: (run: { arm: string; tokens: number }) => number) =>
    runs.reduce((total, run) => total + value(run), 0);
  const total = (steps: number) => sum(({ arm, tokens }) => costOfRun(tokens, arm === RAW_AGAIN, steps, cost));
  const promptTokens = sum(({ tokens }) => tokens * USUAL_STEPS);
  return { least: total(1), usual: total(USUAL_STEPS), most: total(MAX_STEPS), runs: runs.length, promptTokens };
}

/** The estimate in words. */
export function describeEstimate({ least, usual, most, runs, promptTokens }: Estimate, model: string): string {
  const money = (value: number) => `$${value.toFixed(2)}`;
  const price = `${money(usual)}; ${money(least)} at least, ${money(most)} at most`;
  return [
    `To be made: ${runs} runs, about ${runs * USUAL_STEPS} requests with ${grouped(Math.round(promptTokens))} prompt tokens.`,
    `At the prices of ${model} this costs about ${most > 0 ? price : "nothing"}.`,
  ].join("\n");
}

function tokensFor({ rawTokens, condensedTokens }: Moment, arm: string): number {
  return BASE_TOKENS + (arm === RAW || arm === RAW_AGAIN ? rawTokens : condensedTokens);
}

/** The first request writes its prompt into the cache, unless the run before it has; the others read it there. */
function costOfRun(tokens: number, isCached: boolean, steps: number, cost: ModelCost): number {
  let sum = 0;
  for (let step = 0; step < steps; step++) {
    const old = step === 0 ? (isCached ? tokens : 0) : tokens + (step - 1) * LOOKUP_TOKENS;
    const write = tokens + step * LOOKUP_TOKENS - old;
    sum += costOf({ read: old, write, input: 0, output: ANSWER_TOKENS }, cost);
  }
  return sum;
}
