/** Results that are finished but still at work: the file that a failed edit of the open chain was about. */
import { resolve } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAssistant, isClosingReply, isToolResult, resultKeysIn } from "../transcript/messages.js";
import { CallPairing } from "../transcript/pairing.js";

const EDITING_TOOLS: ReadonlySet<string> = new Set(["edit", "write"]);

/**
 * Keys of the reads in the open chain whose file an edit has failed on there: the model is about to try again and needs
 * the text as it stands.
 */
export function heldReads(messages: readonly AgentMessage[], cwd: string): Set<string> {
  const reads: { key: string; path: string }[] = [];
  const failed = new Set<string>();
  const pairing = new CallPairing();
  const keyOf = resultKeysIn(messages);
  for (const message of messages.slice(messages.findLastIndex(isClosingReply) + 1)) {
    if (isAssistant(message)) pairing.open(message);
    if (!isToolResult(message)) continue;
    const path = pairing.take(message.toolCallId)?.arguments.path;
    if (typeof path !== "string") continue;
    // pi's own tools tolerate an @ before a path.
    const file = resolve(cwd, path.replace(/^@/, ""));
    if (message.toolName === "read") reads.push({ key: keyOf(message), path: file });
    else if (message.isError && EDITING_TOOLS.has(message.toolName)) failed.add(file);
  }
  return new Set(reads.filter(({ path }) => failed.has(path)).map(({ key }) => key));
}
