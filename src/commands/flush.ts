/** `/pruner now` and `/pruner status`. */
import type { FlushReport } from "../flush.js";
import type { PrunerStatus } from "../runtime.js";
import { count } from "../summary/room.js";
import { type CommandResult, info, type Subcommand } from "./types.js";

const NO_SESSION: CommandResult = { message: "The pruner could not read this session.", type: "warning" };

export const flushCommands: readonly Subcommand[] = [
  {
    name: "now",
    usage: "",
    help: "Condense everything that is finished, without waiting for the next trigger",
    async run({ pruner, host }) {
      if (!pruner.settings.enabled)
        return { message: "The pruner is off. Turn it on with /pruner on.", type: "warning" };
      const report = await pruner.flushNow(host);
      return report ? describeReport(report) : NO_SESSION;
    },
  },
  {
    name: "status",
    usage: "",
    help: "Show what is condensed, what is pending, and what comes next",
    run({ pruner }) {
      const status = pruner.status();
      return status ? info(describeStatus(status)) : NO_SESSION;
    },
  },
];

function describeReport(report: FlushReport): CommandResult {
  const { condensed, duplicates, trivial, oversized, failed } = report;
  const skipped = [
    ...(trivial > 0 ? [`${count(trivial, "result")} too small`] : []),
    ...(oversized > 0 ? [`${count(oversized, "result")} not made shorter by a summary`] : []),
  ].join(", ");
  const rest = skipped ? ` Left as they are: ${skipped}.` : "";
  if (failed > 0 && condensed + duplicates === 0) {
    return {
      message: `Nothing condensed: the summariser failed; ${count(failed, "result")} stay pending.${rest}`,
      type: "warning",
    };
  }
  if (condensed + duplicates === 0) {
    return info(
      skipped
        ? `Nothing condensed.${rest}`
        : "Nothing to condense: no finished output is pending that the model has already answered.",
    );
  }
  const sizes = `${number(report.rawChars)} to ${number(report.keptChars)} characters`;
  const repeats = duplicates > 0 ? ` and ${count(duplicates, "repeat")}` : "";
  const pending = failed > 0 ? ` The summariser failed for ${count(failed, "result")}, which stay pending.` : "";
  return info(`Condensed ${count(condensed, "result")}${repeats}: ${sizes}.${pending}${rest}`);
}

function describeStatus({ config, stats, ...status }: PrunerStatus): string {
  const saved = status.rawChars - status.keptChars;
  const lines = [
    `Pruner ${config.enabled ? "on" : "off"}, condensing ${config.pruneOn}, summariser ${config.summarizerModel}.`,
    `Condensed: ${count(status.condensedCalls, "call")} and ${count(status.repeats, "repeat")}, ${number(saved)} characters fewer in each request.`,
    `Pending: ${count(status.pendingCalls, "result")}${status.flushing ? ", a flush is running" : ""}.`,
  ];
  if (stats.callCount > 0) {
    const failed = stats.failedCallCount > 0 ? ` (${number(stats.failedCallCount)} failed)` : "";
    const tokens = `${number(stats.totalInputTokens)} tokens in, ${number(stats.totalOutputTokens)} out`;
    lines.push(`Summariser: ${count(stats.callCount, "call")}${failed}, ${tokens}, $${stats.totalCost.toFixed(4)}.`);
  }
  return lines.join("\n");
}

function number(value: number): string {
  return value.toLocaleString("en-US");
}
