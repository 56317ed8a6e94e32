/** `/pruner now`, and what it has in common with `/pruner compact`. */

import { chooseSummarizer } from "../host/models.ts";
import { count } from "../text/text.ts";
import { flushWithProgress } from "../ui/progress.ts";
import { describeReport } from "./report.ts";
import { answer, type CommandInput, type CommandResult, failure, NO_SESSION, SHOWN, warning } from "./types.ts";

/**
 * Flushes and tells what came of it. In a terminal the answer comes later, from the background: a host that waits for a
 * command takes no prompt meanwhile.
 */
export async function flushByHand(input: CommandInput, compactAll: boolean): Promise<CommandResult> {
  const { pruner, host } = input;
  if (!pruner.settings.enabled) return warning("The pruner is off. Turn it on with /pruner on.");
  const obstacle = pruner.obstacle(host);
  if (obstacle !== undefined) return warning(`Nothing condensed: ${obstacle}`);
  const flushing = flush(input, compactAll);
  if (!host.terminal) return flushing;
  void flushing.then((result) => answer(host, result));
  return SHOWN;
}

async function flush({ pruner, host, args }: CommandInput, compactAll: boolean): Promise<CommandResult> {
  try {
    const session = pruner.currentState();
    const before = pruner.status(host);
    if (!session || !before) return NO_SESSION;
    const choice = chooseSummarizer(pruner.settings, host);
    if (choice.kind === "missing" && before.pendingCalls > 0) return warning(`Nothing condensed: ${choice.reason}.`);
    const { report, cancelled } = await flushWithProgress(pruner, host, {
      compactAll,
      ...(args ? { guide: args } : {}),
    });
    // Another session is on the screen, and what it would be told is not of it.
    if (!report || pruner.currentState() !== session) return SHOWN;
    const { quietOversizedSkips } = pruner.settings;
    const dealtWith = report.condensed + report.duplicates + report.trivial + report.oversized + report.failed;
    if (dealtWith + report.chains === 0 && before.pendingCalls > 0 && !before.flushing) {
      return failure(`Nothing condensed: the flush failed; ${count(before.pendingCalls, "result")} left pending.`);
    }
    return describeReport(report, { cancelled, quietOversizedSkips });
  } catch (error) {
    return failure(error);
  }
}
