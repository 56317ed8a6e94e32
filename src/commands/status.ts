/** `/pruner status`: what is condensed, what waits and why, what it saves, what comes next. */
import type { CondensingDecision } from "../cost/decision.ts";
import type { HostSnapshot } from "../host/host.ts";
import { chooseSummarizer, type SummarizerChoice } from "../host/models.ts";
import { billParts, billSentence, dollars } from "../money/sentences.ts";
import type { Pruner, PrunerStatus } from "../runtime.ts";
import { count, grouped } from "../text/text.ts";
import type { ContextPruneConfig, PruneOn } from "../types.ts";
import { change } from "../ui/paint.ts";
import { cacheShare } from "../ui/usage-model.ts";
import { type CommandResult, NO_SESSION } from "./types.ts";

/** What sets off a flush, as it stands behind "until". */
const TRIGGERS: Readonly<Record<PruneOn, string>> = {
  "agent-message": "the next closing reply",
  "every-turn": "the next reply",
  "on-context-tag": "the next call of a context-tag tool",
  "on-demand": "/pruner now",
  "cache-aware": "condensing saves clearly more than it costs",
};

const FALLEN = {
  unexplained:
    "Cache reads have fallen without a flush. If that goes on, look for another extension that changes the prompt.",
  cold: "Cache reads have fallen after a pause or a change of the model: the prompt cache had expired.",
  flushes: "Cache reads have fallen after several flushes. If that goes on, choose a pruneOn that flushes less often.",
  flush: "Cache reads have fallen once, after a flush: the changed part of the prompt is written to the cache again.",
} as const;

export function statusOf(pruner: Pruner, host: HostSnapshot): CommandResult {
  const status = pruner.status(host);
  const branch = pruner.currentState()?.branch.entries;
  const bill = pruner.bill();
  if (!status || !branch) return NO_SESSION;
  const cache = cacheShare(branch);
  const lines = [
    ...(bill ? [billSentence(bill), billParts(bill)].filter(Boolean) : ["The cost of this session is not known."]),
    ...overview(status),
    `Next flush: ${nextTrigger(status.config, host)}.`,
    ...avertedOf(status),
    ...decisionOf(status, host),
    ...summariser(status, host),
  ];
  if (cache) {
    const shares = cache.shares.map(percent).join(", ");
    lines.push(
      `Prompt cache: ${percent(cache.mean)} of the last ${count(cache.shares.length, "prompt")} was read from it (${shares}).`,
    );
  }
  const fallen = cache?.fallen;
  if (fallen) lines.push(FALLEN[fallen]);
  // On demand every flush was asked for by hand, and there is nothing rarer.
  const isTrouble = fallen === "unexplained" || (fallen === "flushes" && status.config.pruneOn !== "on-demand");
  return { message: lines.join("\n"), type: isTrouble ? "warning" : "info" };
}

function overview({ config, ...status }: PrunerStatus): string[] {
  const { condensed, whole } = status.sizes;
  const pending = `Pending: ${count(status.pendingCalls, "result")}`;
  const size = status.pendingCalls > 0 ? `, ${tokens(status.pendingTokens)}, ${waitsFor(status, config)}` : "";
  const unseen = status.unseenResults > 0 ? ` Not answered yet: ${count(status.unseenResults, "result")}.` : "";
  const sizes = condensed.before > 0 ? `, ${change(condensed)} tokens in each request` : "";
  const repeats = status.repeats > 0 ? ` and ${count(status.repeats, "duplicate")}` : "";
  return [
    `Pruner ${config.enabled ? "on" : "off"}, condensing ${config.pruneOn}, summariser ${config.summarizerModel}.`,
    `Condensed: ${count(status.condensedCalls, "call")}${repeats}${sizes}.`,
    `Conversation: ${tokens(whole.before)}, sent as ${tokens(whole.after)}.`,
    ...(status.chains > 0 ? [`Chains compressed: ${grouped(status.chains)}.`] : []),
    `${pending}${size}.${unseen}`,
  ];
}

function tokens(amount: number): string {
  return `about ${count(Math.round(amount), "token")}`;
}

const REASONS: Readonly<Record<CondensingDecision["reason"], string>> = {
  "nothing-to-clear": "nothing would get shorter",
  "window-pressure": "the window is nearly full",
  "cold-cache": "the prompt cache is cold",
  pays: "it pays",
  "does-not-pay": "it does not pay yet",
  "gathers-more": "it pays better with more at once",
};

function avertedOf({ averted }: PrunerStatus): string[] {
  return averted > 0 ? [`Avoided: ${count(averted, "compaction")}, because the condensed context still fitted.`] : [];
}

/** The last decision of `cache-aware`, in USD, or in tokens at the input price where the model has no prices. */
function decisionOf({ decision }: PrunerStatus, { model }: Pick<HostSnapshot, "model">): string[] {
  if (!decision) return [];
  const { flush, reason, savings, price, chains, waitsFor } = decision;
  const hasPrices = (model?.cost.input ?? 0) > 0;
  const amount = (value: number) =>
    hasPrices ? dollars(value) : `${grouped(Math.round(value * 1_000_000))} tokens of input`;
  const what = flush ? (chains ? "condensed, chains too" : "condensed") : "waited";
  const told = `Last decision: ${what}, because ${REASONS[reason]}: it is expected to save ${amount(savings)} and costs ${amount(price)} at once.`;
  if (!waitsFor) return [told];
  const until = {
    savings: `It condenses once the expected saving is above ${amount(waitsFor.needed)}: that cost with a margin.`,
    carried: `It condenses once carrying what waits has cost ${amount(waitsFor.needed)}; so far it has cost ${amount(waitsFor.now)}.`,
  };
  return [`${told} ${until[waitsFor.amount]}`];
}

function waitsFor({ flushing }: Pick<PrunerStatus, "flushing">, config: ContextPruneConfig): string {
  if (!config.enabled) return "while the pruner is off";
  return flushing ? "being condensed now" : `until ${TRIGGERS[config.pruneOn]}`;
}

/** The event, and the budgets in tokens. */
export function nextTrigger(config: ContextPruneConfig, host: Pick<HostSnapshot, "usage">): string {
  if (!config.enabled) return "none while the pruner is off";
  const usage = host.usage();
  const window = usage?.contextWindow ?? 0;
  const { autoBudgetThreshold, autoBudgetTokens, budgetTurnDelta } = config;
  const limits = [
    ...(autoBudgetThreshold !== null && window > 0 ? [Math.ceil(autoBudgetThreshold * window)] : []),
    ...(autoBudgetTokens !== null ? [autoBudgetTokens] : []),
  ];
  const event = TRIGGERS[config.pruneOn];
  const parts = [config.pruneOn === "cache-aware" ? `as soon as ${event}` : event];
  if (limits.length > 0) parts.push(`${grouped(Math.min(...limits))} tokens in the context`);
  if (budgetTurnDelta !== null && window > 0) {
    parts.push(`a turn that adds ${grouped(Math.ceil(budgetTurnDelta * window))} tokens`);
  }
  const now = usage?.tokens == null ? "" : ` (${grouped(usage.tokens)} of ${grouped(window)} tokens now)`;
  return parts.join(", or ") + now;
}

function summariser({ config, stats }: Pick<PrunerStatus, "config" | "stats">, host: HostSnapshot): string[] {
  const lines = [`Summaries by ${describeChoice(chooseSummarizer(config, host), host)}`];
  if (stats.callCount > 0) {
    const failed = stats.failedCallCount > 0 ? ` (${grouped(stats.failedCallCount)} failed)` : "";
    const tokens = `${grouped(stats.totalInputTokens)} tokens in, ${grouped(stats.totalOutputTokens)} out`;
    lines.push(`Summariser: ${count(stats.callCount, "call")}${failed}, ${tokens}, ${dollars(stats.totalCost)}.`);
  }
  return lines;
}

/** Names the model, and its provider where tool output goes to another one than the session's. */
export function describeChoice(choice: SummarizerChoice, host: Pick<HostSnapshot, "model">): string {
  if (choice.kind === "digest") return "mechanical digest, offline and free.";
  if (choice.kind === "missing") return `no model: ${choice.reason}.`;
  const { name } = choice.models.configured;
  if (choice.isOptional) return `mechanical digests, or ${name} where it costs little.`;
  const provider = name.slice(0, name.indexOf("/"));
  const session = host.model?.provider;
  if (session === undefined || session === provider) return `${name}.`;
  return `${name}, at another provider than the session's (${session}): tool output is sent to ${provider}.`;
}

function percent(share: number): string {
  return `${Math.round(share * 100)}%`;
}
