/** When the context has grown so far that pending output must be condensed at once. */
import type { ContextUsage } from "@mariozechner/pi-coding-agent";

/** Far below the share of one token in any window: a jump of exactly `delta` counts in spite of rounding. */
const ROUNDING = 1e-9;

/**
 * Share of the context window that is in use, as a fraction (0.8 = 80%); `null` where the host does not know it.
 *
 * Computed from `tokens` and `contextWindow`, since `ContextUsage.percent` runs from 0 to 100. `tokens` is null right
 * after a compaction: unknown usage is not zero.
 */
export function usageFraction(usage: ContextUsage | undefined): number | null {
  if (!usage || usage.tokens == null || !(usage.contextWindow > 0)) return null;
  const fraction = usage.tokens / usage.contextWindow;
  return Number.isFinite(fraction) ? fraction : null;
}

/**
 * True iff the usage has reached `threshold`, a fraction in (0, 1] of the window.
 * `null` and values out of that range switch the trigger off; so does unknown usage.
 */
export function shouldBudgetFlush(usage: ContextUsage | undefined, threshold: number | null): boolean {
  if (!isFraction(threshold)) return false;
  const fraction = usageFraction(usage);
  return fraction !== null && fraction >= threshold;
}

/**
 * True iff the usage has grown by `delta` or more, a fraction in (0, 1] of the window, since `previousFraction`.
 * `null` and values out of that range switch the trigger off; so does unknown usage, now or before.
 *
 * The caller keeps `previousFraction` as it is on a turn whose usage is unknown.
 */
export function shouldDeltaFlush(
  usage: ContextUsage | undefined,
  previousFraction: number | null,
  delta: number | null,
): boolean {
  if (!isFraction(delta) || previousFraction == null) return false;
  const fraction = usageFraction(usage);
  return fraction !== null && fraction - previousFraction >= delta - ROUNDING;
}

/**
 * True iff `tokens` or more tokens are in use: for models whose window is so large that no fraction is ever reached.
 * `null` and values of 0 or less switch the trigger off; so does unknown usage.
 */
export function shouldTokenFlush(usage: ContextUsage | undefined, tokens: number | null): boolean {
  if (tokens == null || !(tokens > 0)) return false;
  return usageFraction(usage) !== null && usage?.tokens != null && usage.tokens >= tokens;
}

function isFraction(value: number | null): value is number {
  return value != null && value > 0 && value <= 1;
}
