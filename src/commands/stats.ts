/** `/pruner stats`: what the summariser has used in this session; with `--all`, what all sessions were billed. */
import { join } from "node:path";
import type { HostSnapshot } from "../host/host.ts";
import { type Lifetime, lifetimeOf, sessionFiles } from "../money/lifetime.ts";
import { modelFacts } from "../money/prices.ts";
import { billParts, billSentence, dollars } from "../money/sentences.ts";
import type { Pruner } from "../runtime.ts";
import { count, grouped } from "../text/text.ts";
import type { StatsEntryData } from "../types.ts";
import { type CommandInput, type CommandResult, inBackground, info, NO_SESSION } from "./types.ts";

const KEY = "pruner-stats";

/** What the summariser has used in this session, all told. */
export function statsOf(pruner: Pruner): CommandResult {
  const stats = pruner.currentState()?.stats.current;
  return stats ? info(describeStats(stats)) : NO_SESSION;
}

/** Calls, failed ones, tokens and cost. */
function describeStats(stats: Readonly<StatsEntryData>): string {
  const { callCount, failedCallCount, totalInputTokens, totalOutputTokens, totalCost } = stats;
  if (callCount === 0) return "The summariser has not been called in this session.";
  const failed = failedCallCount === 0 ? "none failed" : `${grouped(failedCallCount)} failed`;
  const each = callCount === 1 ? "" : `, ${dollars(totalCost / callCount)} a call`;
  return [
    `Summariser: ${count(callCount, "call")}, ${failed}; ${grouped(totalInputTokens)} tokens in, ${grouped(totalOutputTokens)} out; ${dollars(totalCost)}${each}.`,
    "This counts all calls since the session began, failed ones too. A fork starts with the figures of its parent session.",
  ].join("\n");
}

/** What all sessions of this machine were billed. */
export async function statsOfAll({ pruner, host }: CommandInput): Promise<CommandResult> {
  return inBackground(host, readAll(pruner, host));
}

async function readAll(pruner: Pruner, host: HostSnapshot): Promise<CommandResult> {
  const { terminal, agentDir, session, models } = host;
  try {
    const folder = session.getSessionDir();
    const files = sessionFiles([join(agentDir, "sessions"), ...(folder ? [folder] : [])]);
    const show = (done: number) =>
      terminal?.setWidget(KEY, [`Reading the sessions on this machine: ${grouped(done)} of ${grouped(files.length)}`]);
    show(0);
    const options = { ...modelFacts(models, process.env.PI_CACHE_RETENTION), config: () => pruner.settings };
    return info(describeLifetime(await lifetimeOf(files, options, show)));
  } finally {
    terminal?.setWidget(KEY, undefined);
  }
}

function describeLifetime({ sessions, condensedSessions, bill, otherCost, otherTokens, unread }: Lifetime): string {
  const others = sessions - condensedSessions;
  const used = otherCost > 0 ? dollars(otherCost) : `${grouped(Math.round(otherTokens))} prompt tokens`;
  return [
    condensedSessions === 0
      ? "No session on this machine has been condensed yet."
      : billSentence(bill, `${count(condensedSessions, "condensed session")} on this machine`),
    billParts(bill),
    others > 0 ? `${count(others, "other session")}: ${used}.` : "",
    unread.length > 0
      ? `Could not be read: ${unread.slice(0, 3).join(", ")}${unread.length > 3 ? " and more" : ""}.`
      : "",
  ]
    .filter(Boolean)
    .join("\n");
}
