/** Whether a compaction that the host announces is needed, judged by what a request would carry and not by what is stored. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAnswer, isAssistant } from "../transcript/messages.ts";
import { estimateTextTokens, estimateTokens, RESERVE_TOKENS } from "../transcript/tokens.ts";

/** Who or what wants a compaction: a person or an extension, the size of the context, or a provider that refused. */
export type CompactionReason = "manual" | "threshold" | "overflow";

/** What the host says of a compaction. The older one names no reason. */
export interface CompactionAnnouncement {
  reason?: string;
  customInstructions?: string;
  /** Its settings; `enabled` says whether the host compacts by itself. */
  preparation: { settings?: { enabled?: boolean; reserveTokens?: number } };
}

/** What the judgement looks at. */
export interface CompactionQuestion {
  reason: CompactionReason;
  /** Messages of the branch as they are stored, and as a request would carry them. */
  messages: readonly AgentMessage[];
  rendered: readonly AgentMessage[];
  systemPrompt: string;
  /** Tokens of the model's window, and those that the host keeps free in it. */
  window: number | undefined;
  reserveTokens: number;
}

/** Descriptions of the tools, and what an estimate may be short by. */
const TOOL_TOKENS = 4_000;
const MARGIN = 1.1;

/** Milliseconds in which the host, having looked at the size of the context, announces a compaction. */
const ANNOUNCED_WITHIN_MS = 500;

/** Watches one session. Clocks are passed in as ms since the epoch. */
export class CompactionWatch {
  /** Compactions that were found to be needless. */
  averted = 0;
  private avertedAt: number | undefined;
  private lookedAt: number | undefined;

  /** A run has ended or a prompt has come: the host looks at the size of the context right behind that. */
  hostLooks(now: number): void {
    this.lookedAt = now;
  }

  /**
   * Why the host compacts. Where it does not say, only the first compaction that it announces right after it has looked, of
   * a context that the last reply found too large, is taken for its own doing; all else for a person's.
   */
  reasonOf(
    { reason, customInstructions, preparation }: CompactionAnnouncement,
    { messages, window, now }: { messages: readonly AgentMessage[]; window: number | undefined; now: number },
  ): CompactionReason {
    const { lookedAt } = this;
    // A look leads to one compaction at most: who announces a second one is a person.
    this.lookedAt = undefined;
    if (reason === "manual" || reason === "threshold" || reason === "overflow") return reason;
    const last = messages.findLast(isAssistant);
    if (reason !== undefined || customInstructions !== undefined || !last || window === undefined) return "manual";
    if (preparation.settings?.enabled === false || last.stopReason === "aborted") return "manual";
    if (last.stopReason === "error") return "overflow";
    const hasLooked = lookedAt !== undefined && now - lookedAt <= ANNOUNCED_WITHIN_MS;
    return hasLooked && tokensOf(last) > window - reserveOf(preparation) ? "threshold" : "manual";
  }

  /**
   * Whether the compaction can be cancelled: the host wants it for the size of the context alone, and what would be sent
   * fits below its threshold. Not where one was cancelled before and no reply since then was to a request below it.
   */
  isNeedless(question: CompactionQuestion): boolean {
    const { reason, messages, rendered, systemPrompt, window, reserveTokens } = question;
    if (reason !== "threshold" || window === undefined) return false;
    const threshold = window - reserveTokens;
    const tokens = (estimateTokens(rendered) + estimateTextTokens(systemPrompt) + TOOL_TOKENS) * MARGIN;
    if (tokens > threshold) return false;
    const { avertedAt } = this;
    const since = avertedAt === undefined ? [] : messages.filter(isAnswer).filter((m) => m.timestamp > avertedAt);
    return since.length === 0 || since.some((reply) => tokensOf(reply) <= threshold);
  }

  /** A compaction has been cancelled. */
  avert(now: number): void {
    this.averted += 1;
    this.avertedAt = now;
  }
}

/** Tokens that the host keeps free in the window. */
export function reserveOf({ settings }: CompactionAnnouncement["preparation"]): number {
  return settings?.reserveTokens ?? RESERVE_TOKENS;
}

function tokensOf({ usage }: { usage?: { totalTokens?: number } }): number {
  return usage?.totalTokens ?? 0;
}
