/** How much of the prompts was read from the provider's cache, and whether condensing is why that has fallen. */
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { DEFAULT_PROFILE } from "../cost/prices.ts";
import { modelOf } from "../replay/recording.ts";
import { isAnswer } from "../transcript/messages.ts";
import { CUSTOM_TYPE_FRONTIER } from "../types.ts";

/** Replies whose cache figures are looked at. */
const RECENT_REPLIES = 5;
/** A share below this, of this prompt and of the one before, after replies that stood above the other, is a fall. */
const FALLEN_BELOW = 0.5;
const STOOD_ABOVE = 0.75;

/** Share of the prompt that was read from the cache. */
export interface CacheShare {
  /** Over all of the recent replies, 0 to 1. */
  mean: number;
  /** Each of them, oldest first. */
  shares: readonly number[];
  /**
   * The newest one is far below what stood before: behind a flush, of which that is the price, behind several of the
   * recent flushes, behind a pause or a change of the model, or for no such reason.
   */
  fallen: false | "flush" | "flushes" | "cold" | "unexplained";
}

/** `undefined` where the provider reports no cache figures. @param lifetimeMs how long it keeps a prompt */
export function cacheShare(
  branch: readonly SessionEntry[],
  lifetimeMs = DEFAULT_PROFILE.lifetimeMs,
): CacheShare | undefined {
  const replies: { reply: AssistantMessage; flushed: boolean }[] = [];
  for (let i = branch.length - 1; i >= 0 && replies.length < RECENT_REPLIES; i--) {
    const entry = branch[i];
    const last = replies[0];
    if (last && entry?.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER) last.flushed = true;
    if (entry?.type === "message" && isAnswer(entry.message) && promptTokens(entry.message) > 0) {
      replies.unshift({ reply: entry.message, flushed: false });
    }
  }
  const usages = replies.map(({ reply }) => reply);
  const read = usages.reduce((sum, reply) => sum + reply.usage.cacheRead, 0);
  const written = usages.reduce((sum, reply) => sum + reply.usage.cacheWrite, 0);
  if (read + written === 0) return undefined;
  const total = usages.reduce((sum, reply) => sum + promptTokens(reply), 0);
  const shares = usages.map((reply) => reply.usage.cacheRead / promptTokens(reply));
  const before = shares.slice(0, -1);
  const lowBehindFlush = replies.filter((one, i) => one.flushed && (shares[i] ?? 1) < FALLEN_BELOW).length;
  const [previous, last] = usages.slice(-2);
  // A prompt that is mostly new has a small share, though all that stood before it was read from the cache.
  const isLost = previous && last && last.usage.cacheRead < FALLEN_BELOW * promptTokens(previous);
  const isLow = isLost && (shares.at(-1) ?? 0) < FALLEN_BELOW && before.some((share) => share > STOOD_ABOVE);
  const isCold =
    previous && last && (last.timestamp - previous.timestamp > lifetimeMs || modelOf(last) !== modelOf(previous));
  const flushReason = lowBehindFlush > 1 ? "flushes" : "flush";
  const why = isCold ? "cold" : replies.at(-1)?.flushed ? flushReason : "unexplained";
  return { mean: read / total, shares, fallen: isLow ? why : false };
}

function promptTokens({ usage }: AssistantMessage): number {
  return usage.input + usage.cacheRead + usage.cacheWrite;
}
