/** Protected output that came again: of a file or list that was read several times, only the newest copy is needed. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import {
  countImages,
  extractToolResultText,
  isAssistant,
  isToolResult,
  occurrenceKey,
} from "../transcript/messages.js";
import { CallPairing } from "../transcript/pairing.js";
import type { Protection } from "./protection.js";

/**
 * Occurrence keys of the protected results of `messages` that a later one makes superfluous: one of the same subject
 * (see `Protection.subjectOf`) or, of a subject, one with the same text. Failed results neither replace nor give way.
 */
export function supersededKeys(messages: readonly AgentMessage[], isProtected: Protection): Set<string> {
  const superseded = new Set<string>();
  const newest = new Map<string, string>();
  const pairing = new CallPairing();
  for (const message of messages) {
    if (isAssistant(message)) pairing.open(message);
    if (!isToolResult(message)) continue;
    const call = { toolName: message.toolName, args: pairing.take(message.toolCallId)?.arguments ?? {} };
    const subject = message.isError || !isProtected(call) ? undefined : isProtected.subjectOf?.(call);
    if (subject === undefined) continue;
    const key = occurrenceKey(message.toolCallId, message.timestamp);
    const text = countImages(message.content) === 0 ? `text ${extractToolResultText(message)}` : undefined;
    for (const name of [`subject ${subject}`, text]) {
      if (name === undefined) continue;
      const earlier = newest.get(name);
      if (earlier !== undefined && earlier !== key) superseded.add(earlier);
      newest.set(name, key);
    }
  }
  return superseded;
}
