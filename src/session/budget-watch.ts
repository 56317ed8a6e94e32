/** When the size of the context forces a flush. Usage figures come one reply late, so each of them is judged once. */
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { shouldBudgetFlush, shouldDeltaFlush, shouldTokenFlush, usageFraction } from "../budget.js";
import type { ContextPruneConfig } from "../types.js";

/** Remembers which usage figures have been judged, and which of them are from before the last flush. */
export class BudgetWatch {
  /** Share of the window at the last known figure; `null` after a start or a move in the tree. */
  private previousFraction: number | null = null;
  private judgedReply: number | undefined;
  /** Set by a flush: figures are stale until a reply to a request that left after it. */
  private flushed: { lastReplyBefore?: number } | undefined;

  /** The session, or the place in its tree, is another one. */
  reset(): void {
    this.previousFraction = null;
    this.judgedReply = undefined;
    this.flushed = undefined;
  }

  /**
   * Whether the budgets of `config` call for a flush. Unknown usage neither fires nor replaces the last known figure.
   * @param reply timestamp of the last reply, ms: each is judged once, whichever event comes first
   */
  isDue(usage: ContextUsage | undefined, reply: number | undefined, config: BudgetConfig): boolean {
    if (reply === undefined || reply === this.judgedReply) return false;
    if (this.isStale(reply)) return false;
    this.judgedReply = reply;
    this.flushed = undefined;
    const due =
      shouldBudgetFlush(usage, config.autoBudgetThreshold) ||
      shouldDeltaFlush(usage, this.previousFraction, config.budgetTurnDelta) ||
      shouldTokenFlush(usage, config.autoBudgetTokens);
    this.previousFraction = usageFraction(usage) ?? this.previousFraction;
    return due;
  }

  /** A flush has changed what the next request carries. */
  flushCommitted(): void {
    this.flushed = {};
  }

  /** A request leaves; `lastReply` (timestamp, ms) is the newest reply that it carries. */
  requestLeaves(lastReply: number | undefined): void {
    if (this.flushed && this.flushed.lastReplyBefore === undefined) {
      this.flushed.lastReplyBefore = lastReply ?? Number.NEGATIVE_INFINITY;
    }
  }

  private isStale(reply: number): boolean {
    if (!this.flushed) return false;
    const { lastReplyBefore } = this.flushed;
    return lastReplyBefore === undefined || reply <= lastReplyBefore;
  }
}

export type BudgetConfig = Pick<ContextPruneConfig, "autoBudgetThreshold" | "budgetTurnDelta" | "autoBudgetTokens">;
