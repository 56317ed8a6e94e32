/** The session's own messages: where everything that was condensed still stands. */
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { isAssistant, isToolResult, resultKeysIn } from "../transcript/messages.js";
import { CallPairing } from "../transcript/pairing.js";

/** A result as the session holds it, with the arguments of its call. */
export interface OriginalResult {
  message: ToolResultMessage;
  args: Record<string, unknown>;
  /** Occurrence key, and the bare id of the call. */
  keys: readonly string[];
}

/** The results that an occurrence key, or a bare call id, names, in the order of the file. */
export function findOriginals(entries: readonly SessionEntry[], key: string): OriginalResult[] {
  return originalsIn(entries).filter((original) => original.keys.includes(key));
}

function originalsIn(entries: readonly SessionEntry[]): OriginalResult[] {
  const found: OriginalResult[] = [];
  const pairing = new CallPairing();
  const keyOf = resultKeysIn(entries.flatMap((entry) => (entry.type === "message" ? [entry.message] : [])));
  for (const entry of entries) {
    if (entry.type !== "message") continue;
    const { message } = entry;
    if (isAssistant(message)) pairing.open(message);
    if (!isToolResult(message)) continue;
    const args = pairing.take(message.toolCallId)?.arguments ?? {};
    found.push({ message, args, keys: [keyOf(message), String(message.toolCallId)] });
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
  for (const original of originalsIn(entries))
    for (const key of original.keys) if (!known.has(key)) known.set(key, original);
  return known;
}
