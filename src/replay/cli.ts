/** The command line program: reads, replays, prints. Exit code 0, or 2 where what was given cannot be used. */
import { readdirSync, statSync, writeFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { reasonOf } from "../text/text.js";
import { parseReplayArguments, type ReplayCommand, USAGE } from "./arguments.js";
import { type ReplayReport, reportsOf } from "./figures.js";
import { renderPage } from "./html.js";
import { type OnProgress, type Replay, replaySession } from "./replay.js";
import { type NamedReport, renderReport, renderSummary } from "./report.js";
import { ReplayInputError, readSessionFile } from "./session-file.js";
import { sumOf } from "./totals.js";

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
  const [command, ...rest] = args;
  if (command === "--help" || command === "-h") {
    terminal.out(USAGE);
    return 0;
  }
  if (command !== "replay") {
    terminal.err(`${command === undefined ? "Nothing to do." : `There is no command "${command}".`}\n\n${USAGE}`);
    return 2;
  }
  try {
    const parsed = parseReplayArguments(rest);
    if (parsed) await run(parsed, terminal);
    else terminal.out(USAGE);
    return 0;
  } catch (error) {
    if (!(error instanceof ReplayInputError)) throw error;
    terminal.err(`${error.message}\n`);
    return 2;
  }
}

async function run(command: ReplayCommand, terminal: Terminal): Promise<void> {
  if (isFolder(command.path)) await replayFolder(command, terminal);
  else await replayFile(command, terminal);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

async function replayFile(command: ReplayCommand, terminal: Terminal): Promise<void> {
  const start = performance.now();
  const session = readSessionFile(command.path);
  const replay = await replayWithProgress(command, session, command.path, terminal);
  const reports = namedReports(replay, command);
  const title = basename(command.path);
  if (command.html !== undefined) writePage(command.html, renderPage(title, replay, reports));
  if (command.json) {
    const figures = reports.map(({ report }) => report);
    terminal.out(`${JSON.stringify(figures.length === 1 ? figures[0] : figures, null, 2)}\n`);
    return;
  }
  terminal.out(`${renderReport(title, reports)}\n`);
  if (command.html !== undefined) terminal.out(`Page: ${command.html}\n`);
  terminal.out(`${effort(performance.now() - start)}\n`);
}

async function replayFolder(command: ReplayCommand, terminal: Terminal): Promise<void> {
  if (command.html !== undefined) throw new ReplayInputError("--html takes one session, not a folder.");
  const start = performance.now();
  const sessions: (NamedReport & { file: string })[] = [];
  for (const file of sessionFiles(command.path)) {
    const shown = relative(command.path, file);
    try {
      const replay = await replayWithProgress(command, readSessionFile(file), shown, terminal);
      if (replay.raw.meter.requests.length === 0) continue;
      for (const named of namedReports(replay, command)) sessions.push({ ...named, file: shown });
    } catch (error) {
      if (!(error instanceof ReplayInputError)) throw error;
      terminal.err(`left out: ${error.message}\n`);
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
    terminal.out(`${JSON.stringify(data.length === 1 ? data[0] : data, null, 2)}\n`);
    return;
  }
  for (const { name, own, total } of groups) terminal.out(`${name}\n\n${renderSummary(own, total)}\n`);
  terminal.out(`${effort(performance.now() - start)}\n`);
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

async function replayWithProgress(
  { variants, assumptions }: ReplayCommand,
  session: Parameters<typeof replaySession>[0],
  name: string,
  terminal: Terminal,
): Promise<Replay> {
  if (!terminal.errIsTty) return replaySession(session, variants, assumptions);
  let told = performance.now();
  let shown = false;
  const onProgress: OnProgress = (share) => {
    if (performance.now() - told < PROGRESS_MS) return;
    told = performance.now();
    shown = true;
    terminal.err(`\r\u001b[K${name}: ${Math.floor(share * 100)}%`);
  };
  try {
    return await replaySession(session, variants, assumptions, onProgress);
  } finally {
    if (shown) terminal.err("\r\u001b[K");
  }
}

function namedReports(replay: Replay, { assumptions }: ReplayCommand): NamedReport[] {
  const reports: ReplayReport[] = reportsOf(replay, assumptions);
  return reports.map((report, i) => ({ name: replay.variants[i]?.name ?? "", report }));
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
