/** When a flush is due, read from the conversation itself, so that a missed event or a reload loses no flush. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAnswer, isAssistant, isClosingReply, isToolResult, toolCallsOf } from "../transcript/messages.ts";
import type { ContextPruneConfig } from "../types.ts";

/** A reply that calls for a flush. */
export interface Trigger {
  /** Tells it from others of the session. */
  name: string;
  /** Number of messages to the reply, itself included, and to the results of its calls. */
  toReply: number;
  toResults: number;
}

/** The last trigger of `messages`, once the results of its calls have come or something else has come after it. */
export function lastTrigger(
  messages: readonly AgentMessage[],
  settings: Pick<ContextPruneConfig, "pruneOn" | "contextTagTools">,
): Trigger | undefined {
  const index = flushMark(messages, settings);
  if (index < 0) return undefined;
  const end = turnEnd(messages, index);
  if (end === messages.length && awaitsResults(messages, index)) return undefined;
  return { name: nameOf(messages, index), toReply: index + 1, toResults: end };
}

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

/** Index after the results of the reply at `index`: of the next reply or prompt, or of the list's end. */
function turnEnd(messages: readonly AgentMessage[], index: number): number {
  const end = messages.findIndex((message, i) => i > index && (isAssistant(message) || message.role === "user"));
  return end < 0 ? messages.length : end;
}

/** Results are missing of calls of the reply at `index`. */
function awaitsResults(messages: readonly AgentMessage[], index: number): boolean {
  const reply = messages[index];
  const calls = reply && isAssistant(reply) ? toolCallsOf(reply).length : 0;
  return messages.slice(index + 1).filter(isToolResult).length < calls;
}

/** Names the reply at `index` by its time, and by its place among replies of that time: some servers give none. */
function nameOf(messages: readonly AgentMessage[], index: number): string {
  const time = String(messages[index]?.timestamp);
  const isAlike = (other: AgentMessage) => isAssistant(other) && String(other.timestamp) === time;
  return `${time}#${messages.slice(0, index + 1).filter(isAlike).length}`;
}
