/** `/pruner stats`: what the summariser has used in this session, all told. */
import { count } from "../digest/room.js";
import { grouped } from "../text/text.js";
import type { StatsEntryData } from "../types.js";
import { type CommandInput, type CommandResult, info, NO_SESSION, type Subcommand } from "./types.js";

export const statsCommands: readonly Subcommand[] = [
  {
    name: "stats",
    usage: "",
    help: "Show what the summariser has used in this session",
    run: showStats,
  },
];

function showStats({ pruner }: CommandInput): CommandResult {
  const stats = pruner.currentState()?.stats.current;
  return stats ? info(describeStats(stats)) : NO_SESSION;
}

/** Calls, failed ones, tokens and cost. */
export function describeStats(stats: Readonly<StatsEntryData>): string {
  const { callCount, failedCallCount, totalInputTokens, totalOutputTokens, totalCost } = stats;
  if (callCount === 0) return "The summariser has not been called in this session.";
  const failed = failedCallCount === 0 ? "none failed" : `${grouped(failedCallCount)} failed`;
  const each = callCount === 1 ? "" : `, ${dollars(totalCost / callCount)} a call`;
  return [
    `Summariser: ${count(callCount, "call")}, ${failed}; ${grouped(totalInputTokens)} tokens in, ${grouped(totalOutputTokens)} out; ${dollars(totalCost)}${each}.`,
    "Counted since the session began, failed calls included; a fork begins with the figures of what it was forked from.",
  ].join("\n");
}

/** Summaries cost fractions of a cent. */
function dollars(amount: number): string {
  return `$${amount.toFixed(4)}`;
}
