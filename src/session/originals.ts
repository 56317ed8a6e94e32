/** The session's own messages: where everything that was condensed still stands. */
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { isAssistant, isToolResult, occurrenceKey } from "../transcript/messages.js";
import { CallPairing } from "../transcript/pairing.js";

/** A result as the session holds it, with the arguments of its call. */
export interface OriginalResult {
  message: ToolResultMessage;
  args: Record<string, unknown>;
}

/** The results that an occurrence key, or a bare call id, names, in the order of the file. */
export function findOriginals(entries: readonly SessionEntry[], key: string): OriginalResult[] {
  return originalsIn(entries).filter(
    ({ message }) => message.toolCallId === key || occurrenceKey(message.toolCallId, message.timestamp) === key,
  );
}

function originalsIn(entries: readonly SessionEntry[]): OriginalResult[] {
  const found: OriginalResult[] = [];
  const pairing = new CallPairing();
  for (const entry of entries) {
    if (entry.type !== "message") continue;
    const { message } = entry;
    if (isAssistant(message)) pairing.open(message);
    if (isToolResult(message)) found.push({ message, args: pairing.take(message.toolCallId)?.arguments ?? {} });
  }
  return found;
}

/** Finds results by occurrence key or bare id; the entries are read once, when the first is asked for. */
export function originalsByKey(entries: () => readonly SessionEntry[]): (key: string) => OriginalResult | undefined {
  let known: Map<string, OriginalResult> | undefined;
  return (key) => {
    known ??= indexOriginals(entries());
    return known.get(key);
  };
}

function indexOriginals(entries: readonly SessionEntry[]): Map<string, OriginalResult> {
  const known = new Map<string, OriginalResult>();
  for (const original of originalsIn(entries)) {
    const { toolCallId, timestamp } = original.message;
    for (const name of [toolCallId, occurrenceKey(toolCallId, timestamp)])
      if (!known.has(name)) known.set(name, original);
  }
  return known;
}
