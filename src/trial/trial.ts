/** Runs a trial: every moment with every context, one run after another, until all are there or it is ended. */
import type { Recording } from "../replay/recording.ts";
import { Answers } from "./answers.ts";
import type { Variant } from "./arguments.ts";
import { contextsAt, queryTool, rawContext, type Snapshot, textOfContext } from "./contexts.ts";
import { RecordedFiles } from "./recorded-files.ts";
import { ModelFailure, takeSteps } from "./steps.ts";
import { systemPromptOf, toolsOf } from "./tools.ts";
import {
  armsOf,
  CONDENSED,
  type FinishedRun,
  type Moment,
  RAW,
  RAW_AGAIN,
  type TrialHost,
  type TrialModel,
} from "./types.ts";

/** So many failures in a row end the trial. */
const MAX_FAILURES = 3;

export interface TrialPlan {
  recording: Recording;
  moments: readonly Moment[];
  variants: readonly [Variant, ...Variant[]];
}

export interface TrialSurroundings {
  host: Pick<TrialHost, "tools">;
  model: TrialModel;
  signal: AbortSignal;
  /** Whether a run is there already. */
  isDone(index: number, arm: string): boolean;
  onRun(finished: FinishedRun): void;
  /** Told of each request before it leaves: the moment's place from 1, and the step from 1. */
  onStep(place: number, arm: string, step: number): void;
  /** Told once of each message. */
  onFailure(message: string): void;
}

/** How a trial ended, and how many runs failed. */
export interface TrialEnd {
  how: "done" | "ended" | "failed";
  failures: number;
}

/** Makes the runs that are missing. A run that fails is left out, so that a later trial makes it. */
export async function runTrial(plan: TrialPlan, surroundings: TrialSurroundings): Promise<TrialEnd> {
  const arms = armsOf(plan.variants);
  const contexts = await condensedContexts(plan);
  const told = new Set<string>();
  let failures = 0;
  let inRow = 0;
  for (const [i, moment] of plan.moments.entries()) {
    const missing = arms.filter((arm) => !surroundings.isDone(moment.index, arm));
    const run = missing.length > 0 ? prepare(plan, moment, contexts, surroundings) : undefined;
    for (const arm of run ? missing : []) {
      try {
        const finished = await run?.(arm, (step) => surroundings.onStep(i + 1, arm, step));
        if (finished) surroundings.onRun({ index: moment.index, arm, run: finished });
        inRow = 0;
      } catch (error) {
        if (surroundings.signal.aborted) return { how: "ended", failures };
        if (!(error instanceof ModelFailure)) throw error;
        if (!told.has(error.message)) surroundings.onFailure(error.message);
        told.add(error.message);
        failures += 1;
        inRow += 1;
        if (inRow === MAX_FAILURES) return { how: "failed", failures };
      }
    }
  }
  return { how: "done", failures };
}

/** The condensed contexts of each variant, by its name and the moment's index. */
type Contexts = ReadonlyMap<string, ReadonlyMap<number, Snapshot>>;

async function condensedContexts({ recording, moments, variants }: TrialPlan): Promise<Contexts> {
  const indexes = new Set(moments.map(({ index }) => index));
  const contexts = new Map<string, ReadonlyMap<number, Snapshot>>();
  for (const { name, config } of variants) contexts.set(name, await contextsAt(recording, config, indexes));
  return contexts;
}

/** What the runs of one moment share, and a function that makes one of them. */
function prepare(
  { recording }: TrialPlan,
  { index }: Moment,
  contexts: Contexts,
  { host, model, signal }: TrialSurroundings,
) {
  const { entries, cwd } = recording;
  const raw: Snapshot = { messages: rawContext(recording, index) };
  const files = new RecordedFiles(entries, index, cwd);
  const tools = toolsOf(entries, host.tools(cwd || "/"));
  const rawText = textOfContext(raw.messages);
  return async (arm: string, onStep: (step: number) => void) => {
    const isRaw = arm === RAW || arm === RAW_AGAIN;
    const snapshot = isRaw ? raw : contexts.get(arm)?.get(index);
    if (!snapshot) return undefined;
    const condensed = isRaw ? contexts.get(CONDENSED)?.get(index) : snapshot;
    return takeSteps({
      model,
      signal,
      onStep,
      cwd,
      messages: snapshot.messages,
      systemPrompt: systemPromptOf(entries, cwd),
      tools: isRaw ? tools : [...tools, queryTool()],
      answers: new Answers(files, cwd, snapshot.recover),
      contexts: [rawText, textOfContext(condensed?.messages ?? [])],
    });
  };
}
