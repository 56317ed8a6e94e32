/** `/pruner replay`: what this session would have cost raw, and what it costs with the settings as they are. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { changedSettings } from "../config.js";
import { reasonOf } from "../text/text.js";
import { type CommandInput, type CommandResult, info, warning } from "./types.js";

const PROGRAM = fileURLToPath(new URL("../../bin/pi-condense.mjs", import.meta.url));
/** Milliseconds; sessions of thousands of requests take a minute. */
const LIMIT_MS = 10 * 60_000;
const MAX_OUTPUT_BYTES = 1_000_000;

/** Runs the command line in a process of its own, so that the host goes on meanwhile. */
export async function replay({ pruner, host }: CommandInput): Promise<CommandResult> {
  const file = host.session.getSessionFile();
  if (file === undefined || !existsSync(file)) {
    return warning("There is nothing to replay: this session has no file yet.");
  }
  // A host that is one executable is no runtime for another program.
  if (!/^(node|bun)/i.test(basename(process.execPath))) return info(`Run: npx pi-condense replay "${file}"`);
  const args = [PROGRAM, "replay", file, ...changedSettings(pruner.settings).flatMap((change) => ["--set", change])];
  try {
    const options = { timeout: LIMIT_MS, maxBuffer: MAX_OUTPUT_BYTES };
    const { stdout } = await promisify(execFile)(process.execPath, args, options);
    return info(stdout.trimEnd());
  } catch (error) {
    return warning(`The session could not be replayed: ${complaintOf(error)}`);
  }
}

function complaintOf(error: unknown): string {
  if (typeof error === "object" && error !== null && "stderr" in error && typeof error.stderr === "string") {
    const said = error.stderr.trim();
    if (said !== "") return said;
  }
  return reasonOf(error);
}
