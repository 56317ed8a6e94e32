/** When a flush is due, read from the conversation itself, so that a missed event or a reload loses no flush. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAnswer, isClosingReply, toolCallsOf } from "../transcript/messages.js";
import type { ContextPruneConfig } from "../types.js";

/**
 * Index of the last assistant message that calls for a flush of what stands before it, or -1. What stands behind it
 * waits for the next one, also after a restart.
 */
export function flushMark(
  messages: readonly AgentMessage[],
  { pruneOn, contextTagTools }: Pick<ContextPruneConfig, "pruneOn" | "contextTagTools">,
): number {
  switch (pruneOn) {
    case "every-turn":
      return messages.findLastIndex(isAnswer);
    case "agent-message":
      return messages.findLastIndex(isClosingReply);
    case "on-context-tag":
      return messages.findLastIndex(
        (message) => isAnswer(message) && toolCallsOf(message).some((call) => contextTagTools.includes(call.name)),
      );
    case "on-demand":
    // Decided by price, before each request.
    case "cache-aware":
      return -1;
  }
}
