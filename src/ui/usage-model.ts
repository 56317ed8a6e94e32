/** What the conversation says about money: what condensing has saved, and how much is read from the prompt cache. */
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { readOwnEntry } from "../session/entries.js";
import { isAnswer } from "../transcript/messages.js";
import { tokensOfChars } from "../transcript/tokens.js";

/** Replies whose cache figures are looked at. */
const RECENT_REPLIES = 5;
/** A share below this, after replies that stood above the other, is a fall worth a warning. */
const FALLEN_BELOW = 0.5;
const STOOD_ABOVE = 0.75;

/** What condensing has kept out of the requests that were answered so far. */
export interface SavedTokens {
  requests: number;
  /** Estimate over all of these requests. */
  tokens: number;
}

/** Adds up, for each reply on the branch, what the flushes before it had taken out of its request. */
export function savedTokens(branch: readonly SessionEntry[]): SavedTokens {
  let perRequest = 0;
  const saved: SavedTokens = { requests: 0, tokens: 0 };
  for (const entry of branch) {
    if (entry.type === "message" && isAnswer(entry.message) && perRequest > 0) {
      saved.requests += 1;
      saved.tokens += tokensOfChars(perRequest);
    }
    const own = entry.type === "custom" ? readOwnEntry(entry) : undefined;
    if (own?.kind === "frontier") perRequest += Math.max(0, own.data.rawCharCount - own.data.summaryCharCount);
    // What stands before a compaction is in no request any more.
    if (entry.type === "compaction") perRequest = 0;
  }
  return saved;
}

/** Share of the prompt that was read from the cache. */
export interface CacheShare {
  /** Over all of the recent replies, 0 to 1. */
  mean: number;
  /** Each of them, oldest first. */
  shares: readonly number[];
  /** The newest one is far below what stood before. */
  fallen: boolean;
}

/** `undefined` where the provider reports no cache figures. */
export function cacheShare(branch: readonly SessionEntry[]): CacheShare | undefined {
  const replies: AssistantMessage[] = [];
  for (let i = branch.length - 1; i >= 0 && replies.length < RECENT_REPLIES; i--) {
    const entry = branch[i];
    if (entry?.type === "message" && isAnswer(entry.message) && promptTokens(entry.message) > 0) {
      replies.unshift(entry.message);
    }
  }
  const read = replies.reduce((sum, reply) => sum + reply.usage.cacheRead, 0);
  const written = replies.reduce((sum, reply) => sum + reply.usage.cacheWrite, 0);
  if (read + written === 0) return undefined;
  const total = replies.reduce((sum, reply) => sum + promptTokens(reply), 0);
  const shares = replies.map((reply) => reply.usage.cacheRead / promptTokens(reply));
  const last = shares.at(-1) ?? 0;
  const before = shares.slice(0, -1);
  const fallen = last < FALLEN_BELOW && before.some((share) => share > STOOD_ABOVE);
  return { mean: read / total, shares, fallen };
}

function promptTokens({ usage }: AssistantMessage): number {
  return usage.input + usage.cacheRead + usage.cacheWrite;
}
