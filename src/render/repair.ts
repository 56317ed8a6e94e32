/**
 * Calls and results as providers demand them: each result directly behind the assistant message that made its call.
 * Mirrors how pi-ai reads a transcript, and acts before it, since pi-ai repairs missing results but lets orphaned ones
 * through and answers twice where a notice stands between a call and its result.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAssistant, isToolResult } from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";

/**
 * Drops results without a call and moves what stands between a call and its result behind the results.
 * Gives back `messages` itself where nothing had to be done.
 */
export function repairTranscript(messages: AgentMessage[]): AgentMessage[] {
  const firstBad = findFirstBad(messages);
  if (firstBad < 0) return messages;
  const start = Math.max(0, messages.slice(0, firstBad).findLastIndex(isAssistant));
  const repaired = messages.slice(0, start);
  let segment: AgentMessage[] = [];
  for (const message of messages.slice(start)) {
    if (isAssistant(message)) {
      repaired.push(...repairSegment(segment));
      segment = [];
    }
    segment.push(message);
  }
  repaired.push(...repairSegment(segment));
  return repaired;
}

/** Index of the first result that does not follow its call directly, or -1. */
function findFirstBad(messages: readonly AgentMessage[]): number {
  const pairing = new CallPairing();
  for (const [i, message] of messages.entries()) {
    if (isToolResult(message)) {
      if (!pairing.take(message.toolCallId)) return i;
    } else if (isAssistant(message)) pairing.open(message);
    else pairing.close();
  }
  return -1;
}

/** A segment is an assistant message and all that follows it up to the next one. */
function repairSegment(segment: readonly AgentMessage[]): AgentMessage[] {
  const [head, ...rest] = segment;
  if (!head) return [];
  const pairing = new CallPairing();
  if (isAssistant(head)) pairing.open(head);
  const results: AgentMessage[] = [];
  const others: AgentMessage[] = [];
  for (const message of isToolResult(head) ? segment : rest) {
    if (!isToolResult(message)) others.push(message);
    else if (pairing.take(message.toolCallId)) results.push(message);
  }
  return isToolResult(head) ? others : [head, ...results, ...others];
}
