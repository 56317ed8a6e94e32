/** Flushes that a budget forces: when one is due, and how long the next request waits for it. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage, SessionEntry } from "@mariozechner/pi-coding-agent";
import { BudgetWatch, tokensToFree } from "../cost/budget-watch.ts";
import { batchesToSummarize } from "../flush.ts";
import { isAnswer } from "../transcript/messages.ts";
import type { Environment, Moment } from "./environment.ts";
import type { FlushRunner } from "./flush-runner.ts";
import type { FlushScope, FlushWork } from "./flush-scope.ts";
import type { SessionState } from "./session-state.ts";

/** Milliseconds that a request waits for a flush which the size of the context has forced. */
export const BUDGET_WAIT_MS = 60_000;

/** What budgets are kept with, beside the events. */
export interface BudgetFlushParts {
  environment: Environment;
  state: SessionState;
  scope: FlushScope;
  flushes: FlushRunner;
  /** Size of the context as it is sent. */
  usage(moment: Moment, messages: readonly AgentMessage[]): ContextUsage | undefined;
  /** Starts a flush that nobody waits for. */
  flush(moment: Moment, work: FlushWork): void;
}

/** Follows one session. */
export class BudgetFlushes {
  private readonly watch = new BudgetWatch();
  /** The flush that is running was forced by a budget, and the next request waits for it. */
  private urgent = false;
  /** A budget was exceeded while a flush ran, which may have left out what exceeded it. */
  private isOpen = false;
  /** A budget is exceeded: where no model gives a summary, the next flush of every-turn takes digests. */
  mustFree = false;

  constructor(private readonly parts: BudgetFlushParts) {}

  /** The session, or the place in its tree, is another one. @param branch root first */
  takeUp(branch: readonly SessionEntry[]): void {
    this.watch.takeUp(branch);
  }

  /** A flush has changed what the next request carries. */
  flushCommitted(): void {
    this.watch.flushCommitted();
  }

  /** A request leaves with these messages. */
  requestLeaves(messages: readonly AgentMessage[]): void {
    this.watch.requestLeaves(lastReply(messages));
  }

  /** A flush has ended: it was the forced one, unless a budget was exceeded meanwhile. */
  flushEnded(): void {
    this.urgent = this.isOpen;
  }

  /** Flushes everything that has been seen where the context has grown too large; the next request waits for it. */
  flushIfExceeded(moment: Moment, messages: readonly AgentMessage[]): void {
    const settings = this.parts.environment.settings();
    const { autoBudgetThreshold, budgetTurnDelta, autoBudgetTokens, pruneOn } = settings;
    if (autoBudgetThreshold === null && budgetTurnDelta === null && autoBudgetTokens === null) return;
    if (!this.watch.isDue(this.parts.usage(moment, messages), lastReply(messages), settings)) return;
    this.urgent = true;
    // every-turn flushes the same results anyway.
    if (pruneOn === "every-turn") this.mustFree = true;
    else this.flush(moment, messages);
  }

  /** Flushes where a budget was exceeded while the flush before ran. */
  flushIfOpen(moment: Moment, messages: readonly AgentMessage[]): void {
    if (this.isOpen) this.flush(moment, messages);
  }

  /** Waits for a flush that a budget has forced, and for the one after it where that left something out. */
  async wait(moment: Moment, messages: readonly AgentMessage[]): Promise<void> {
    if (!this.urgent) return;
    const { flushes } = this.parts;
    await flushes.settle(BUDGET_WAIT_MS, moment.signal);
    if (!flushes.running) this.flushIfOpen(moment, messages);
    await flushes.settle(BUDGET_WAIT_MS, moment.signal);
    if (!flushes.running) this.urgent = false;
  }

  private flush(moment: Moment, messages: readonly AgentMessage[]): void {
    const { environment, state, scope, flushes } = this.parts;
    this.isOpen = flushes.running;
    if (this.isOpen) return;
    const settings = environment.settings();
    const mustFree = tokensToFree(this.parts.usage(moment, messages), settings);
    const work = scope.workIn(moment, scope.ownMessages(messages), messages, mustFree);
    const pending = work.pending.filter((batch) => !batch.held);
    if (pending.length === 0) {
      const text = "pruner: context budget reached, but nothing that is finished is left to condense";
      environment.tell({ text, type: "info", once: true });
      this.urgent = false;
      return;
    }
    const turns = pending.length === 1 ? "1 pending turn" : `${pending.length} pending turns`;
    if (batchesToSummarize(pending, state.indexer, settings).length > 0) {
      environment.tell({ text: `pruner: context budget reached — compacting ${turns}`, type: "info" });
    }
    this.parts.flush(moment, { ...work, mustFree: true });
  }
}

/** Timestamp (ms) of the last finished reply. */
function lastReply(messages: readonly AgentMessage[]): number | undefined {
  return messages.findLast(isAnswer)?.timestamp;
}
