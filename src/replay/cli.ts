/** The command line program: reads, replays, prints. Exit code 0, or 2 where something that was given cannot be used. */
import { closeSync, existsSync, openSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { reasonOf } from "../text/text.ts";
import { visible, visibleJson } from "../text/visible.ts";
import { adviceVariant, describeAdvice } from "./advice.ts";
import { parseReplayArguments, type ReplayCommand, USAGE } from "./arguments.ts";
import { reportsOf } from "./figures.ts";
import { renderPage } from "./html.ts";
import { type OnProgress, type Replay, replaySession, type Variant } from "./replay.ts";
import { type NamedReport, renderReport, renderSummary } from "./report.ts";
import { ReplayInputError, readSessionFile } from "./session-file.ts";
import { sumOf } from "./totals.ts";

/** Where the program writes. */
export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  /** `err` is a terminal, so that a line may be written over. */
  errIsTty: boolean;
}

/** Milliseconds between two signs of progress. */
const PROGRESS_MS = 200;

/** Runs the program; gives its exit code. */
export async function main(args: readonly string[], terminal: Terminal): Promise<number> {
  const output = new Output(terminal);
  const [command, ...rest] = args;
  if (command === "--help" || command === "-h") {
    output.say(USAGE);
    return 0;
  }
  if (command !== "replay") {
    output.complain(`${command === undefined ? "Nothing to do." : `There is no command "${command}".`}\n\n${USAGE}`);
    return 2;
  }
  try {
    const parsed = parseReplayArguments(rest);
    if (!parsed) output.say(USAGE);
    else if (isFolder(parsed.path)) return await replayFolder(parsed, output);
    else await replayFile(parsed, output);
    return 0;
  } catch (error) {
    if (!(error instanceof ReplayInputError)) throw error;
    output.complain(`${error.message}\n`);
    return 2;
  }
}

/** What a session, a file name or an argument holds must not steer the terminal. */
class Output {
  private hasProgress = false;

  constructor(private readonly terminal: Terminal) {}

  say(text: string): void {
    this.terminal.out(visible(text));
  }

  print(data: unknown): void {
    this.terminal.out(`${visibleJson(JSON.stringify(data, null, 2))}\n`);
  }

  complain(text: string): void {
    this.endProgress();
    this.terminal.err(visible(text));
  }

  /** Writes over what was said of the progress before; nothing where nobody looks, unless it is `wanted`. */
  progress(text: string, wanted: boolean): void {
    if (!this.terminal.errIsTty && !wanted) return;
    this.hasProgress = true;
    this.terminal.err(`\r\u001b[K${visible(text)}`);
  }

  endProgress(): void {
    if (this.hasProgress) this.terminal.err("\r\u001b[K");
    this.hasProgress = false;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

async function replayFile(command: ReplayCommand, output: Output): Promise<void> {
  const { path, html, json, variants } = command;
  const start = performance.now();
  if (html !== undefined) checkPage(html);
  const title = basename(path);
  const extra = json ? undefined : adviceVariant(variants);
  const whole = await replayPath(command, path, title, output, extra ? [...variants, extra] : variants);
  const all = namedReports(whole, command);
  const replay = { ...whole, variants: whole.variants.slice(0, variants.length) };
  const reports = all.slice(0, variants.length);
  if (html !== undefined) writePage(html, renderPage(title, replay, reports));
  if (json) {
    const figures = reports.map(({ report }) => report);
    output.print(figures.length === 1 ? figures[0] : figures);
    return;
  }
  output.say(`${renderReport(title, reports, describeAdvice(all))}\n`);
  if (html !== undefined) output.say(`Page: ${html}\n`);
  output.say(`${effort(performance.now() - start)}\n`);
}

/** Gives the exit code: a file that cannot be replayed is named, and the others are replayed all the same. */
async function replayFolder(command: ReplayCommand, output: Output): Promise<number> {
  if (command.html !== undefined) throw new ReplayInputError("--html takes one session, not a folder.");
  const start = performance.now();
  const sessions: (NamedReport & { file: string })[] = [];
  let leftOut = 0;
  for (const file of sessionFiles(command.path)) {
    const shown = relative(command.path, file);
    try {
      const replay = await replayPath(command, file, shown, output, command.variants);
      if (replay.raw.meter.requests.length === 0) continue;
      for (const named of namedReports(replay, command)) sessions.push({ ...named, file: shown });
    } catch (error) {
      if (!(error instanceof ReplayInputError)) throw error;
      output.complain(`left out: ${error.message}\n`);
      leftOut += 1;
    }
  }
  const names = new Set(sessions.map(({ name }) => name));
  if (names.size === 0) throw new ReplayInputError(`${command.path}: there is no session in this folder to replay.`);
  const groups = [...names].map((name) => {
    const own = sessions.filter((session) => session.name === name);
    return { name, own, total: sumOf(own.map(({ report }) => report)) };
  });
  if (command.json) {
    const data = groups.map(({ own, total }) => ({
      sessions: own.map(({ file, report }) => ({ file, ...report })),
      total,
    }));
    output.print(data.length === 1 ? data[0] : data);
  } else {
    for (const { name, own, total } of groups) output.say(`${name}\n\n${renderSummary(own, total)}\n`);
    output.say(`${effort(performance.now() - start)}\n`);
  }
  return leftOut > 0 ? 2 : 0;
}

function sessionFiles(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".jsonl"))
      .sort()
      .map((name) => join(folder, name));
  } catch (error) {
    throw new ReplayInputError(`${folder}: it cannot be read (${reasonOf(error)}).`);
  }
}

/** @throws ReplayInputError whatever is wrong with the session */
async function replayPath(
  { assumptions, progress }: ReplayCommand,
  path: string,
  name: string,
  output: Output,
  variants: readonly Variant[],
): Promise<Replay> {
  output.progress(`${name}: 0%`, progress);
  let told = performance.now();
  const onProgress: OnProgress = (share) => {
    if (performance.now() - told < PROGRESS_MS) return;
    told = performance.now();
    output.progress(`${name}: ${Math.floor(share * 100)}%`, progress);
  };
  try {
    return await replaySession(readSessionFile(path), variants, assumptions, onProgress);
  } catch (error) {
    if (error instanceof ReplayInputError) throw error;
    // Sessions of other programs hold what no check foresees; one of them must not end a run over many.
    throw new ReplayInputError(`${path}: it cannot be replayed (${reasonOf(error)}).`);
  } finally {
    output.endProgress();
  }
}

function namedReports(replay: Replay, { assumptions }: ReplayCommand): NamedReport[] {
  return reportsOf(replay, assumptions).map((report, i) => ({ name: replay.variants[i]?.name ?? "", report }));
}

/** Before the replay, which takes its time. @throws ReplayInputError where the file cannot be written */
function checkPage(file: string): void {
  const isThere = existsSync(file);
  try {
    closeSync(openSync(file, "a"));
    if (!isThere) rmSync(file);
  } catch (error) {
    throw new ReplayInputError(`${file}: it cannot be written (${reasonOf(error)}).`);
  }
}

function writePage(file: string, page: string): void {
  try {
    writeFileSync(file, page);
  } catch (error) {
    throw new ReplayInputError(`${file}: it cannot be written (${reasonOf(error)}).`);
  }
}

function effort(ms: number): string {
  // maxRSS is in kilobytes.
  const megabytes = Math.round(process.resourceUsage().maxRSS / 1024);
  return `Replayed in ${(ms / 1000).toFixed(1)} s with at most ${megabytes} MB of memory.`;
}
