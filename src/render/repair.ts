/**
 * Calls and results as providers demand them: each result directly behind the assistant message that made its call.
 * Mirrors how pi-ai reads a transcript, and acts before it, since pi-ai repairs missing results but lets orphaned ones
 * through and answers twice where a notice stands between a call and its result.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAssistant, isDropped, isToolResult, toolCallsOf } from "../messages.js";

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
  const open = new OpenCalls();
  for (const [i, message] of messages.entries()) {
    if (isToolResult(message)) {
      if (!open.take(message.toolCallId)) return i;
    } else open.reset(message);
  }
  return -1;
}

/** A segment is an assistant message and all that follows it up to the next one. */
function repairSegment(segment: readonly AgentMessage[]): AgentMessage[] {
  const [head, ...rest] = segment;
  if (!head) return [];
  const open = new OpenCalls();
  open.reset(head);
  const results: AgentMessage[] = [];
  const others: AgentMessage[] = [];
  for (const message of isToolResult(head) ? segment : rest) {
    if (!isToolResult(message)) others.push(message);
    else if (open.take(message.toolCallId)) results.push(message);
  }
  return isToolResult(head) ? others : [head, ...results, ...others];
}

/** Calls that still wait for their result. Ids are counted: some servers give several calls of a turn the same id. */
class OpenCalls {
  private waiting = new Map<string, number>();

  /** `message` is not a result: it closes the calls before it, and opens its own if it is an assistant's. */
  reset(message: AgentMessage): void {
    if (this.waiting.size > 0) this.waiting = new Map();
    if (!isAssistant(message) || isDropped(message)) return;
    for (const { id } of toolCallsOf(message)) this.waiting.set(id, (this.waiting.get(id) ?? 0) + 1);
  }

  /** Takes the result of a waiting call; false where none waits. */
  take(toolCallId: string): boolean {
    const count = this.waiting.get(toolCallId) ?? 0;
    if (count === 0) return false;
    if (count === 1) this.waiting.delete(toolCallId);
    else this.waiting.set(toolCallId, count - 1);
    return true;
  }
}
