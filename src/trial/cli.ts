/** The command line program: picks, tells the cost, asks, runs, reports. */
import { writeFileSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline/promises";
import { type Recording, recordingOf } from "../replay/recording.js";
import { ReplayInputError, readSessionFile } from "../replay/session-file.js";
import { grouped } from "../text/text.js";
import { parseTrialArguments, type TrialCommand } from "./arguments.js";
import { type Candidate, candidatesOf } from "./contexts.js";
import { armsOf, type Estimate, estimateOf } from "./estimate.js";
import { pickMoments } from "./moments.js";
import { renderTrialPage } from "./page.js";
import { jsonOf, plain, renderReport, type TrialResult } from "./report.js";
import { scoresOf } from "./scores.js";
import { defaultStatePath, digestOf, StateFile } from "./state-file.js";
import { runTrial, type TrialEnd } from "./trial.js";
import type { Moment, TrialHost, TrialModel } from "./types.js";

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

/** Runs the program; gives its exit code. */
export async function main(args: readonly string[], terminal: TrialTerminal): Promise<number> {
  const interrupted = new AbortController();
  const onInterrupt = () => interrupted.abort();
  process.once("SIGINT", onInterrupt);
  try {
    return await run(parseTrialArguments(args), terminal, interrupted.signal);
  } catch (error) {
    if (!(error instanceof ReplayInputError)) throw error;
    terminal.err(`${plain(error.message, true)}\n`);
    return UNUSABLE;
  } finally {
    process.removeListener("SIGINT", onInterrupt);
  }
}

async function run(command: TrialCommand, terminal: TrialTerminal, signal: AbortSignal): Promise<number> {
  const { host } = terminal;
  const session = readSessionFile(command.path);
  const recording = recordingOf(session);
  const model = await host.model(command.model);
  const progress = new Progress(terminal);
  const candidates = await survey(recording, command, model, progress);
  const moments = pickMoments(candidates, command);
  const compare = command.variants.slice(1).map(({ name }) => name);
  const arms = armsOf(compare);
  const [{ config }] = command.variants;
  const { points, seed } = command;
  const digest = digestOf({
    session: JSON.stringify(session.entries),
    model: model.name,
    points,
    seed,
    compare,
    config,
  });
  const state = StateFile.open(command.state ?? defaultStatePath(command.path, digest), digest);
  const isDone = (index: number, arm: string) => state.has(index, arm);
  const isComplete = moments.every(({ index }) => arms.every((arm) => isDone(index, arm)));
  terminal.err(
    `Finished runs are kept in ${plain(state.path)}${state.runs.length > 0 ? `, ${state.runs.length} so far` : ""}.\n`,
  );
  if (!isComplete) {
    const estimate = estimateOf(moments, arms, model.cost, isDone);
    terminal.err(`${describeEstimate(estimate, moments, arms, model)}\n`);
    if (!(await isAgreed(command, terminal, signal))) return signal.aborted ? INTERRUPTED : 0;
  }
  const end = await runTrial(
    { recording, moments, variants: command.variants },
    {
      host,
      model,
      signal,
      isDone,
      onRun: (finished) => state.add(finished),
      onStep: (place, arm, step) =>
        progress.tell(`moment ${place} of ${moments.length}, ${plain(arm)}, request ${step}`),
      onFailure: (message) => progress.say(`The model failed: ${plain(message)}`),
    },
  );
  progress.clear();
  report(
    {
      title: basename(command.path),
      model: model.name,
      host: host.name,
      points,
      seed,
      candidates: candidates.length,
      arms,
      moments,
      runs: state.runs,
      scores: scoresOf(moments, arms, state.runs),
    },
    command,
    terminal,
  );
  return conclude(end, terminal);
}

async function survey(
  recording: Recording,
  { variants, path }: TrialCommand,
  { name, contextWindow }: TrialModel,
  progress: Progress,
): Promise<Candidate[]> {
  const found = await candidatesOf(recording, variants[0].config, (share) =>
    progress.tell(`reading the session: ${Math.floor(share * 100)}%`),
  );
  progress.clear();
  const fitting = found.filter(({ rawTokens }) => contextWindow === 0 || rawTokens + ROOM_TOKENS <= contextWindow);
  if (found.length === 0) throw new ReplayInputError(`${path}: nothing of this session would have been condensed.`);
  if (fitting.length === 0) throw new ReplayInputError(`No moment of this session fits into the window of ${name}.`);
  const left = found.length - fitting.length;
  if (left > 0)
    progress.say(`${grouped(left)} requests are too long for the window of ${plain(name)} and are left out.`);
  return fitting;
}

function describeEstimate(
  { least, usual, most, requests, promptTokens }: Estimate,
  moments: readonly Moment[],
  arms: readonly string[],
  { name }: TrialModel,
): string {
  const money = (value: number) => `$${value.toFixed(2)}`;
  const price =
    most > 0 ? `${money(usual)}; ${money(least)} at least, ${money(most)} at most` : "nothing by the host's table";
  return `${moments.length} moments with ${arms.length} contexts each: about ${grouped(requests)} requests and ${grouped(Math.round(promptTokens))} prompt tokens.
At the prices of ${plain(name)} this costs about ${price}.`;
}

async function isAgreed({ yes }: TrialCommand, terminal: TrialTerminal, signal: AbortSignal): Promise<boolean> {
  if (yes) return true;
  if (terminal.in.isTTY !== true) throw new ReplayInputError("Nobody can be asked here: add --yes to go on.");
  terminal.err("Go on? [y/N] ");
  const lines = createInterface({ input: terminal.in });
  try {
    const answer = await lines.question("", { signal });
    return /^\s*y(?:es)?\s*$/i.test(answer);
  } catch {
    return false;
  } finally {
    lines.close();
  }
}

function report(result: TrialResult, { json, html }: TrialCommand, terminal: TrialTerminal): void {
  if (html !== undefined) {
    try {
      writeFileSync(html, renderTrialPage(result));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ReplayInputError(`${html}: it cannot be written (${reason}).`);
    }
  }
  terminal.out(json ? `${JSON.stringify(jsonOf(result), null, 2)}\n` : `${renderReport(result)}\n`);
  if (html !== undefined && !json) terminal.out(`\nPage: ${plain(html)}\n`);
}

function conclude({ how, failures }: TrialEnd, { err }: TrialTerminal): number {
  const again = "Run the same command again to go on from here.";
  if (how === "ended") err(`Ended. What was finished is kept. ${again}\n`);
  else if (failures > 0)
    err(`${failures} runs failed${how === "failed" ? ", and the trial was ended" : ""}. ${again}\n`);
  if (how === "ended") return INTERRUPTED;
  return failures > 0 ? FAILED : 0;
}

/** One line on a terminal that is written over; nothing where there is none. */
class Progress {
  private isShown = false;

  constructor(private readonly terminal: Pick<TrialTerminal, "err" | "errIsTty">) {}

  tell(text: string): void {
    if (!this.terminal.errIsTty) return;
    this.isShown = true;
    this.terminal.err(`\r\u001b[K${text}`);
  }

  /** A line that stays. */
  say(text: string): void {
    this.clear();
    this.terminal.err(`${text}\n`);
  }

  clear(): void {
    if (this.isShown) this.terminal.err("\r\u001b[K");
    this.isShown = false;
  }
}
