/** How full the context is, counted as it is sent. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { contentChars, lastAnswerIndex, resultKeysIn, resultOf } from "../transcript/messages.ts";
import { CHARS_PER_TOKEN } from "../transcript/tokens.ts";
import type { RenderPlan } from "./plan.ts";

/**
 * The host's figure for `messages` without what leaves as a stub from the first request on: behind the last reply, which
 * the provider has counted, the host counts what is stored.
 */
export function usageAsSent(
  usage: ContextUsage | undefined,
  messages: readonly AgentMessage[],
  { replacements }: Pick<RenderPlan, "replacements">,
): ContextUsage | undefined {
  if (!usage || usage.tokens === null) return usage;
  let saved = 0;
  const uncounted = messages.slice(lastAnswerIndex(messages) + 1);
  const keyOf = resultKeysIn(uncounted);
  for (const message of uncounted) {
    const result = resultOf(message);
    if (!result) continue;
    const replacement = replacements.get(keyOf(result));
    if (replacement?.eager) saved += Math.max(0, contentChars(result.content) - replacement.text.length);
  }
  return { ...usage, tokens: Math.max(0, usage.tokens - Math.floor(saved / CHARS_PER_TOKEN)) };
}
