/** When the size of the context forces a flush. Usage figures come one reply late, so each of them is judged once. */
import type { ContextUsage, SessionEntry } from "@mariozechner/pi-coding-agent";
import { shouldBudgetFlush, shouldDeltaFlush, shouldTokenFlush, usageFraction } from "../budget.ts";
import { isAnswer } from "../transcript/messages.ts";
import { type ContextPruneConfig, CUSTOM_TYPE_FRONTIER } from "../types.ts";
import { pressureLimit } from "./prices.ts";

/** Remembers which usage figures have been judged, and which of them are from before the last flush. */
export class BudgetWatch {
  /** Tokens at the last known figure; `null` after a start or a move in the tree. */
  private previousTokens: number | null = null;
  /** Newest reply whose figure has been judged (timestamp, ms), and the window it was judged against. */
  private judged: { reply: number; contextWindow: number } | undefined;
  /** Set by a flush: figures are stale until a reply to a request that left after it. */
  private flushed: { lastReplyBefore?: number } | undefined;

  /**
   * The session, or the place in its tree, is another one: `branch`, root first. A flush that stands behind its last reply
   * has made that reply's figure stale.
   */
  takeUp(branch: readonly SessionEntry[] = []): void {
    this.previousTokens = null;
    this.judged = undefined;
    this.flushed = undefined;
    const frontier = branch.findLastIndex((e) => e.type === "custom" && e.customType === CUSTOM_TYPE_FRONTIER);
    const reply = branch.findLast((e, i) => i < frontier && e.type === "message" && isAnswer(e.message));
    const isLast = !branch.slice(frontier + 1).some((e) => e.type === "message" && isAnswer(e.message));
    if (reply?.type !== "message" || !isLast) return;
    this.flushed = { lastReplyBefore: reply.message.timestamp };
  }

  /**
   * Whether the budgets of `config` call for a flush. Unknown usage neither fires nor replaces the last known figure.
   * @param reply timestamp of the last reply, ms: each is judged once, whichever event comes first, and again only
   *   against another window
   */
  isDue(usage: ContextUsage | undefined, reply: number | undefined, config: BudgetConfig): boolean {
    if (reply === undefined || !usage || usageFraction(usage) === null) return false;
    if (this.isStale(reply) || this.isJudged(reply, usage.contextWindow)) return false;
    const previousFraction = this.previousTokens === null ? null : this.previousTokens / usage.contextWindow;
    this.judged = { reply, contextWindow: usage.contextWindow };
    this.flushed = undefined;
    this.previousTokens = usage.tokens;
    return (
      shouldBudgetFlush(usage, config.autoBudgetThreshold) ||
      shouldDeltaFlush(usage, previousFraction, config.budgetTurnDelta) ||
      shouldTokenFlush(usage, config.autoBudgetTokens)
    );
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

  /** On the older host an event may come so late that replies after its own have been judged. */
  private isJudged(reply: number, contextWindow: number): boolean {
    if (!this.judged || reply > this.judged.reply) return false;
    return reply < this.judged.reply || contextWindow === this.judged.contextWindow;
  }

  private isStale(reply: number): boolean {
    if (!this.flushed) return false;
    const { lastReplyBefore } = this.flushed;
    return lastReplyBefore === undefined || reply <= lastReplyBefore;
  }
}

/** Share of a limit that a flush brings the context down to once it is reached. */
const ROOM_SHARE = 0.75;

/**
 * Tokens that have to be freed where the context has reached one of its limits, the window's own included; else those of
 * a jump that counts as one; 0 without any.
 */
export function tokensToFree(usage: ContextUsage | undefined, config: BudgetConfig): number {
  if (usage?.tokens == null) return 0;
  const { tokens, contextWindow } = usage;
  const { autoBudgetThreshold, autoBudgetTokens } = config;
  const budgets = [(autoBudgetThreshold ?? 1) * contextWindow, autoBudgetTokens ?? Number.POSITIVE_INFINITY];
  const limit = Math.min(pressureLimit(contextWindow), ...budgets);
  return tokens >= limit ? tokens - limit * ROOM_SHARE : (config.budgetTurnDelta ?? 0) * contextWindow;
}

export type BudgetConfig = Pick<ContextPruneConfig, "autoBudgetThreshold" | "budgetTurnDelta" | "autoBudgetTokens">;
