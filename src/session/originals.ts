/** The session's own messages: where everything that was condensed still stands. */
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { contentHash, shortHash } from "../capture/duplicates.ts";
import { isAssistant, occurrenceKey, resultKeysIn, resultOf } from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import type { ToolCallRecord } from "../types.ts";

/** A result as the session holds it, with the arguments of its call. */
export interface OriginalResult {
  message: ToolResultMessage;
  args: Record<string, unknown>;
  /** Occurrence key, and the bare id of the call. */
  keys: readonly string[];
}

/** The key of deduplication of a result, as its record has it. */
export function hashOfResult({ toolName, isError, content }: ToolResultMessage): string {
  return contentHash({ toolName: String(toolName), isError: isError === true, content });
}

/**
 * The result that a record was made from. Where the record has a hash, a result of another content is not it: `changed`
 * says that the session file has been altered since.
 */
export function originalOfRecord(
  record: Pick<ToolCallRecord, "toolCallId" | "resultTimestamp" | "contentHash">,
  entries: readonly SessionEntry[],
): OriginalResult | "changed" | "gone" {
  const found = findOriginals(entries, occurrenceKey(record.toolCallId, record.resultTimestamp));
  const hash = record.contentHash === undefined ? undefined : shortHash(record.contentHash);
  const isSame = ({ message }: OriginalResult) => hash === undefined || hashOfResult(message) === hash;
  // A record whose time is wrong still finds its call's result by the content.
  const others = found.length > 0 || hash === undefined ? [] : findOriginals(entries, record.toolCallId);
  return found.find(isSame) ?? others.find(isSame) ?? (found.length > 0 ? "changed" : "gone");
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
    const result = resultOf(message);
    if (!result) continue;
    const args = pairing.argumentsFor(message) ?? {};
    found.push({ message: result, args, keys: [keyOf(result), String(result.toolCallId)] });
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
