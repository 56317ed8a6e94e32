/** The file in which a trial keeps its finished runs, so that it can be taken up again. One JSON value a line. */
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { ReplayInputError } from "../replay/session-file.ts";
import { isRecord } from "../text/json.ts";
import type { FinishedRun } from "./types.ts";

const VERSION = 1;

/** A short name for a trial, other for all that makes another one: session, model, moments, settings. */
export function digestOf(key: object): string {
  const text = JSON.stringify({ ...key, version: VERSION });
  return createHash("sha256").update(text).digest("hex").slice(0, 10);
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
    try {
      if (!existsSync(path)) writeFileSync(path, `${JSON.stringify({ trial: digest })}\n`, { mode: 0o600 });
      const text = readFileSync(path, "utf8");
      const [head, ...rest] = text.split("\n").map(parse);
      if (!isRecord(head) || head.trial !== digest) throw new Error("it is not the file of this trial");
      // What was being written when the machine went off counts for nothing, and the next line must not join it.
      appendFileSync(path, text.endsWith("\n") ? "" : "\n");
      return new StateFile(path, rest.filter(isFinishedRun));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ReplayInputError(`${path} cannot be used: ${reason}. Name another file with --state.`);
    }
  }

  add(finished: FinishedRun): void {
    appendFileSync(this.path, `${JSON.stringify(finished)}\n`);
    this.runs.push(finished);
  }

  has(index: number, arm: string): boolean {
    return this.runs.some((finished) => finished.index === index && finished.arm === arm);
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
  return isRecord(value) && typeof value.index === "number" && isRecord(value.run) && isRecord(value.run.outcome);
}
