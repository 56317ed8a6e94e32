/** The command line program: picks, tells the cost, asks, runs, reports. */
import { writeFileSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline/promises";
import { recordingOf } from "../replay/recording.ts";
import { ReplayInputError, readSessionFile } from "../replay/session-file.ts";
import { grouped } from "../text/text.ts";
import { parseTrialArguments, type TrialCommand } from "./arguments.ts";
import { candidatesOf } from "./contexts.ts";
import { describeEstimate, estimateOf } from "./estimate.ts";
import { pickMoments } from "./moments.ts";
import { renderTrialPage } from "./page.ts";
import { jsonOf, plain, renderReport, type TrialResult } from "./report.ts";
import { scoresOf } from "./scores.ts";
import { defaultStatePath, digestOf, StateFile } from "./state-file.ts";
import { runTrial, type TrialEnd } from "./trial.ts";
import { armsOf, type TrialHost, type TrialModel } from "./types.ts";

/** Where the program reads and writes, and the host that it asks through. */
export interface TrialTerminal {
  out(text: string): void;
  err(text: string): void;
  /** `err` is a terminal, so that a line may be written over. */
  errIsTty: boolean;
  in: NodeJS.ReadableStream & { isTTY?: boolean };
  host: TrialHost;
}

/** Exit codes: what was given cannot be used, the model failed, ended by Ctrl-C. */
const UNUSABLE = 2;
const FAILED = 1;
const INTERRUPTED = 130;
/** Tokens that must be free in a model's window beside the conversation. */
const ROOM_TOKENS = 24_000;
/** Takes the line of progress away. */
const CLEAR = "\r\u001b[K";

/** Runs the program; gives its exit code. */
export async function main(args: readonly string[], terminal: TrialTerminal): Promise<number> {
  const interrupted = new AbortController();
  const onInterrupt = () => interrupted.abort();
  process.once("SIGINT", onInterrupt);
  try {
    return await run(parseTrialArguments(args), terminal, interrupted.signal);
  } catch (error) {
    if (!(error instanceof ReplayInputError)) throw error;
    terminal.err(`${plain(error.message)}\n`);
    return UNUSABLE;
  } finally {
    process.removeListener("SIGINT", onInterrupt);
  }
}

async function run(command: TrialCommand, terminal: TrialTerminal, signal: AbortSignal): Promise<number> {
  const { host } = terminal;
  const { points, seed, variants } = command;
  const say = (text: string) => terminal.err(`${terminal.errIsTty ? CLEAR : ""}${text}\n`);
  let shown = "";
  const progress = (text: string) => {
    if (terminal.errIsTty && text !== shown) terminal.err(CLEAR + text);
    shown = text;
  };
  const session = readSessionFile(command.path);
  const recording = recordingOf(session);
  const model = await host.model(command.model);
  const candidates = await candidatesOf(recording, variants[0].config, (share) =>
    progress(`reading: ${Math.floor(share * 100)}%`),
  );
  const fitting = candidates.filter(({ rawTokens }) => fits(rawTokens, model));
  if (fitting.length === 0) {
    const why =
      candidates.length > 0 ? `no moment fits into the window of ${model.name}` : "nothing would be condensed";
    throw new ReplayInputError(`${command.path}: ${why}.`);
  }
  const left = candidates.length - fitting.length;
  if (left > 0) say(`${grouped(left)} requests are too long for the window of ${plain(model.name)} and are left out.`);
  const moments = pickMoments(fitting, command);
  const arms = armsOf(variants);
  const settings = { model: model.name, points, seed, variants };
  const digest = digestOf({ entries: session.entries, ...settings });
  const state = StateFile.open(command.state ?? defaultStatePath(command.path, digest), digest);
  const isDone = (index: number, arm: string) => state.has(index, arm);
  say(`Finished runs are kept in ${plain(state.path)}, ${state.runs.length} so far.`);
  if (!moments.every(({ index }) => arms.every((arm) => isDone(index, arm)))) {
    say(describeEstimate(estimateOf(moments, arms, model.cost, isDone), plain(model.name)));
    if (!(command.yes || (await isAgreed(terminal, signal)))) return signal.aborted ? INTERRUPTED : 0;
  }
  const end = await runTrial(
    { recording, moments, variants },
    {
      host,
      model,
      signal,
      isDone,
      onRun: (finished) => state.add(finished),
      onStep: (place, arm, step) => progress(`moment ${place} of ${moments.length}, ${plain(arm)}, request ${step}`),
      onFailure: (message) => say(`The model failed: ${plain(message)}`),
    },
  );
  progress("");
  const scores = scoresOf(moments, arms, state.runs);
  const about = { title: basename(command.path), model: model.name, host: host.name, points, seed };
  report({ ...about, candidates: fitting.length, arms, moments, runs: state.runs, scores }, command, terminal);
  return conclude(end, say);
}

function fits(tokens: number, { contextWindow }: TrialModel): boolean {
  return contextWindow === 0 || tokens + ROOM_TOKENS <= contextWindow;
}

async function isAgreed(terminal: TrialTerminal, signal: AbortSignal): Promise<boolean> {
  if (terminal.in.isTTY !== true) throw new ReplayInputError("Nobody can be asked here: add --yes to go on.");
  terminal.err("Go on? [y/N] ");
  const lines = createInterface({ input: terminal.in });
  try {
    return /^\s*y(?:es)?\s*$/i.test(await lines.question("", { signal }));
  } catch {
    return false;
  } finally {
    lines.close();
  }
}

function report(result: TrialResult, { json, html }: TrialCommand, { out }: TrialTerminal): void {
  try {
    if (html !== undefined) writeFileSync(html, renderTrialPage(result));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ReplayInputError(`${html}: it cannot be written (${reason}).`);
  }
  out(json ? `${JSON.stringify(jsonOf(result), null, 2)}\n` : `${renderReport(result)}\n`);
  if (html !== undefined && !json) out(`\nPage: ${plain(html)}\n`);
}

function conclude({ how, failures }: TrialEnd, say: (text: string) => void): number {
  const again = "Run the same command again to go on from here.";
  if (how === "ended") say(`Ended. What was finished is kept. ${again}`);
  else if (failures > 0) say(`${failures} runs failed${how === "failed" ? ", and the trial was ended" : ""}. ${again}`);
  if (how === "ended") return INTERRUPTED;
  return failures > 0 ? FAILED : 0;
}
