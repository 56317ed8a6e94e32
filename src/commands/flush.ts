/** `/pruner now` and `/pruner status`. */
import type { PrunerStatus } from "../runtime.js";
import { count } from "../summary/room.js";
import { describeReport } from "./report.js";
import { info, NO_SESSION, type Subcommand, warning } from "./types.js";

export const flushCommands: readonly Subcommand[] = [
  {
    name: "now",
    usage: "",
    help: "Condense everything that is finished, without waiting for the next trigger",
    async run({ pruner, host }) {
      if (!pruner.settings.enabled) return warning("The pruner is off. Turn it on with /pruner on.");
      const report = await pruner.flushNow(host);
      return report ? describeReport(report) : NO_SESSION;
    },
  },
  {
    name: "status",
    usage: "",
    help: "Show what is condensed, what is pending, and what comes next",
    run({ pruner, host }) {
      const status = pruner.status(host);
      return status ? info(describeStatus(status)) : NO_SESSION;
    },
  },
];

function describeStatus({ config, stats, ...status }: PrunerStatus): string {
  const saved = status.rawChars - status.keptChars;
  const lines = [
    `Pruner ${config.enabled ? "on" : "off"}, condensing ${config.pruneOn}, summariser ${config.summarizerModel}.`,
    `Condensed: ${count(status.condensedCalls, "call")} and ${count(status.repeats, "repeat")}, ${number(saved)} characters fewer in each request.`,
    `Chains compressed: ${number(status.chains)}.`,
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
