/** The file in which a trial keeps its finished runs, so that it can be taken up again. One JSON value a line. */
import { createHash } from "node:crypto";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { ReplayInputError } from "../replay/session-file.js";
import { isRecord } from "../text/json.js";
import type { FinishedRun } from "./types.js";

const VERSION = 1;

/** What makes two trials the same. */
export interface TrialKey {
  /** Text of the session file. */
  session: string;
  model: string;
  points: number;
  seed: number;
  compare: readonly string[];
  /** The settings that the first condensed context was made under, and whatever else tells how contexts are made. */
  config: unknown;
}

/** A short name for the trial, other for each other one. */
export function digestOf(key: TrialKey): string {
  return createHash("sha256")
    .update(JSON.stringify({ ...key, version: VERSION }))
    .digest("hex")
    .slice(0, 10);
}

/** Where a trial is kept if no other place is named: beside its session. The host lists no file that ends like this. */
export function defaultStatePath(sessionPath: string, digest: string): string {
  return `${sessionPath}.trial-${digest}`;
}

/** The file, opened. */
export class StateFile {
  private constructor(
    readonly path: string,
    readonly runs: FinishedRun[],
  ) {}

  /**
   * Opens the file of this trial, or begins it.
   * @throws ReplayInputError where it cannot be read or written, or belongs to another trial
   */
  static open(path: string, digest: string): StateFile {
    const lines = linesOf(path);
    const [head, ...rest] = lines.map(parse);
    if (lines.length === 0) {
      trying(path, "written", () => writeFileSync(path, `${JSON.stringify({ trial: digest })}\n`, { mode: 0o600 }));
      return new StateFile(path, []);
    }
    if (!isRecord(head) || head.trial !== digest) {
      throw new ReplayInputError(`${path}: this is not the file of this trial. Name another one with --state.`);
    }
    // A line that was being written when the machine went off counts for nothing, and the next one must not join it.
    if (lines.at(-1) !== "") trying(path, "written", () => appendFileSync(path, "\n"));
    return new StateFile(path, rest.filter(isFinishedRun));
  }

  add(finished: FinishedRun): void {
    trying(this.path, "written", () => appendFileSync(this.path, `${JSON.stringify(finished)}\n`));
    this.runs.push(finished);
  }

  has(index: number, arm: string): boolean {
    return this.runs.some((finished) => finished.index === index && finished.arm === arm);
  }
}

function linesOf(path: string): string[] {
  const text = trying(path, "read", () => {
    try {
      return readFileSync(path, "utf8");
    } catch (error) {
      if (isRecord(error) && error.code === "ENOENT") return "";
      throw error;
    }
  });
  return text === "" ? [] : text.split("\n");
}

function trying<T>(path: string, verb: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ReplayInputError(`${path}: it cannot be ${verb} (${reason}). Name another file with --state.`);
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Only this program writes the file, so that what looks like a run is one. */
function isFinishedRun(value: unknown): value is FinishedRun {
  return (
    isRecord(value) &&
    typeof value.index === "number" &&
    typeof value.arm === "string" &&
    isRecord(value.run) &&
    isRecord(value.run.outcome) &&
    typeof value.run.requests === "number" &&
    Array.isArray(value.run.lookups) &&
    Array.isArray(value.run.madeUp)
  );
}
