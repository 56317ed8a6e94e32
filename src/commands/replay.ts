/** `/pruner replay`: what this session would have cost raw, and what it costs with the settings as they are. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { changedSettings } from "../config.ts";
import type { HostSnapshot } from "../host/host.ts";
import { findModel } from "../host/models.ts";
import { reasonOf } from "../text/text.ts";
import { isAssistant } from "../transcript/messages.ts";
import type { ContextPruneConfig } from "../types.ts";
import { type CommandInput, type CommandResult, inBackground, info, warning } from "./types.ts";

const PROGRAM = fileURLToPath(new URL("../../bin/pi-condense.mjs", import.meta.url));
/** Milliseconds; sessions of thousands of requests take a minute. */
const LIMIT_MS = 10 * 60_000;
const MAX_OUTPUT_BYTES = 1_000_000;
const KEY = "pruner-replay";

/** Runs the command line in a process of its own. */
export async function replay(input: CommandInput): Promise<CommandResult> {
  return inBackground(input.host, replayOf(input));
}

async function replayOf({ pruner, host }: CommandInput): Promise<CommandResult> {
  const file = host.session.getSessionFile();
  if (file === undefined || !existsSync(file)) {
    return warning("There is nothing to replay: this session has no file yet.");
  }
  // A host that is one executable is no runtime for another program.
  if (!/^(node|bun)/i.test(basename(process.execPath))) return info(`Run: npx pi-condense replay "${file}"`);
  const changes = changedSettings(pruner.settings).flatMap((change) => ["--set", change]);
  const args = [PROGRAM, "replay", file, "--progress", ...changes, ...priceArguments(host, pruner.settings)];
  try {
    const options = { timeout: LIMIT_MS, maxBuffer: MAX_OUTPUT_BYTES };
    const running = promisify(execFile)(process.execPath, args, options);
    showProgress(host, "0%");
    running.child.stderr?.on("data", (said) => {
      const share = /\d+%(?!.*\d%)/s.exec(String(said))?.[0];
      if (share) showProgress(host, share);
    });
    const { stdout } = await running;
    return info(stdout.trimEnd());
  } catch (error) {
    return warning(`The session could not be replayed: ${complaintOf(error)}`);
  } finally {
    host.terminal?.setWidget(KEY, undefined);
  }
}

function showProgress({ terminal }: Pick<HostSnapshot, "terminal">, share: string): void {
  terminal?.setWidget(KEY, [`Replaying this session: ${share}`]);
}

/** The host's own prices of the session's models and of the summariser, for the command line, which has no host. */
export function priceArguments(
  { session, models }: Pick<HostSnapshot, "session" | "models">,
  { summarizerModel }: Pick<ContextPruneConfig, "summarizerModel">,
): string[] {
  const used = session.getEntries().flatMap((entry) => {
    if (entry.type !== "message" || !isAssistant(entry.message)) return [];
    return [`${entry.message.provider}/${entry.message.model}`];
  });
  const prices = [...new Set([...used, summarizerModel])].flatMap((name) => {
    const found = findModel(name, models);
    return found ? [[name, found.model.cost] as const] : [];
  });
  return prices.length === 0 ? [] : ["--model-prices", JSON.stringify(Object.fromEntries(prices))];
}

function complaintOf(error: unknown): string {
  if (typeof error === "object" && error !== null && "stderr" in error && typeof error.stderr === "string") {
    // What was said of the progress has been cleared from the line.
    const said = (error.stderr.split("\r\u001b[K").at(-1) ?? "").trim();
    if (said !== "") return said;
  }
  return reasonOf(error);
}
