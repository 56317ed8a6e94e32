/** Flushes and summaries whose price decides on them. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { tokensToFree } from "../cost/budget-watch.ts";
import { isUnderPressure, settingsFor } from "../cost/decision.ts";
import type { FlushReport } from "../flush.ts";
import { holdsSignedThinking, isClosingReply } from "../transcript/messages.ts";
import type { ContextPruneConfig } from "../types.ts";
import type { Environment, Moment, Summarizer } from "./environment.ts";
import type { FlushRunner } from "./flush-runner.ts";
import type { FlushScope, FlushWork } from "./flush-scope.ts";
import type { CondensingQuestion, PromptCache } from "./prompt-cache.ts";
import type { SessionState } from "./session-state.ts";

/** What prices are weighed with, beside the events. */
export interface PricedFlushParts {
  environment: Environment;
  state: SessionState;
  scope: FlushScope;
  flushes: FlushRunner;
  cache: PromptCache;
  /** `messages` as the next request carries them. */
  renderRequest(messages: AgentMessage[]): AgentMessage[];
  flush(moment: Moment, work: FlushWork, config: ContextPruneConfig, summarizer: Summarizer): Promise<FlushReport>;
}

/** Follows one session. */
export class PricedFlushes {
  constructor(private readonly parts: PricedFlushParts) {}

  /**
   * Starts a flush where that costs less than to go on.
   * @returns the flush, and whether no model is asked in it, or nothing where none was started
   */
  flushIfItPays(
    moment: Moment,
    messages: AgentMessage[],
    usage: ContextUsage | undefined,
  ): { done: Promise<void>; isDigest: boolean } | undefined {
    const { environment, scope, flushes, cache } = this.parts;
    if (flushes.running) return undefined;
    if (isThinkingBound(moment, messages) && !isUnderPressure(usage)) return undefined;
    const config = environment.settings();
    const mustFree = isUnderPressure(usage) ? tokensToFree(usage, config) : 0;
    const work = scope.workIn(moment, scope.ownMessages(messages), messages, mustFree);
    const question = this.question(moment, messages, work, usage);
    const decision = cache.decide({ ...question, messages: work.messages });
    if (!decision?.flush) return undefined;
    const { reason, savings, price, chains, digest } = decision;
    const summarizer: Summarizer = digest ? { kind: "digest" } : question.summarizer;
    const request = { ...work, compactAll: chains, decision: { reason, savings, price } };
    const flushing = this.parts.flush(moment, request, settingsFor(decision, config), summarizer);
    return { done: flushing.then((report) => cache.flushed(report)), isDigest: summarizer.kind === "digest" };
  }

  /** Has finished turns summarised while the agent works on, so that the flush that is to come finds it done. */
  prefetch(moment: Moment, messages: readonly AgentMessage[], usage: () => ContextUsage | undefined): void {
    const { environment, state, scope, flushes, cache } = this.parts;
    const config = environment.settings();
    const { batchingMode, pruneOn } = config;
    if (pruneOn === "on-demand" || batchingMode === "agent-message") return;
    const summarizer = moment.summarizer(config);
    if (summarizer.kind !== "model") return;
    const inUse = scope.inUse(moment, messages);
    const isProtected = scope.protection(moment);
    const pending = state.pending(messages, { batchingMode, isProtected, unseenToo: true, inUse });
    if (pruneOn === "cache-aware" || summarizer.isOptional) {
      const question = this.question(moment, [...messages], { pending, inUse }, usage());
      if (question.unpaid.length === 0 || !cache.summariesPay(question)) return;
    }
    flushes.prefetch({ pending, summarizer, config });
  }

  private question(
    moment: Moment,
    messages: AgentMessage[],
    { pending, inUse }: Pick<FlushWork, "pending" | "inUse">,
    usage: ContextUsage | undefined,
  ): CondensingQuestion {
    const { environment, scope, flushes, renderRequest } = this.parts;
    const config = environment.settings();
    return {
      messages,
      pending,
      inUse,
      unpaid: flushes.unasked(pending),
      isProtected: scope.protection(moment),
      render: () => renderRequest(messages),
      usage,
      model: moment.model,
      summarizer: moment.summarizer(config),
      config,
    };
  }
}

/** The open run holds thinking that would be lost where something before it changes. */
export function isThinkingBound({ model }: Pick<Moment, "model">, messages: readonly AgentMessage[]): boolean {
  return (
    model?.bindsThinking === true && holdsSignedThinking(messages.slice(messages.findLastIndex(isClosingReply) + 1))
  );
}
