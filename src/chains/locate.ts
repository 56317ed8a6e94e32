/** Finds compressed chains in the messages of a request, and says which of the messages go. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import {
  contentChars,
  hasSpeech,
  isAssistant,
  isClosingReply,
  isDropped,
  isForeignMessage,
  isOwnMessage,
  isToolResult,
  resultKeysIn,
  textOf,
  toolCallsOf,
} from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { jsonSize } from "../transcript/tokens.ts";
import type { ChainCompressionEntry } from "../types.ts";

/** A chain as far as it takes to find it. */
export interface LocatableChain {
  entry: ChainCompressionEntry;
}

/** Where a chain stands and what goes there. */
export interface ChainPlace {
  /** Indices of the messages that go, ascending. */
  dropped: number[];
  /** Index of the closing reply; an interrupted chain has none. */
  closing: number | undefined;
  /** The results among them whose output is to be kept word for word. */
  kept: KeptResult[];
  /** Characters that go, images at their flat price; what pi-ai leaves out anyway does not count. */
  droppedChars: number;
}

/** A result with the call that it answers. */
export interface KeptResult {
  result: ToolResultMessage;
  call: ToolCall;
}

/** A chain and its place. */
export interface LocatedChain<Chain extends LocatableChain> {
  chain: Chain;
  place: ChainPlace;
}

/** Why a chain was left as it stands. */
export type UnresolvedReason =
  /** No assistant message has the closing reply's timestamp, or it cannot be told which of several ends the chain. */
  | "end-not-found"
  /** The message at the end of a chain that is said to be closed closes nothing. */
  | "end-not-closing"
  /** The opening message is gone, as after a compaction, or it cannot be told which of several it is. */
  | "start-not-found"
  /** A result stands in the range that the chain knows nothing of. */
  | "unknown-result"
  /** Another chain has taken some of the messages. */
  | "overlap";

/**
 * The chains that can be found in the messages for sure, in the order given; no message goes with two of them.
 *
 * A chain is found by position: its end is the closing reply with the entry's end timestamp, its start the user message
 * with the entry's start timestamp. Where several have that time, it is the one next to the chain's results. A notice of another extension has another timestamp after a reload; a
 * chain that was opened by one is found by its first dropped result instead. Within, assistant messages with calls, the
 * ones that pi-ai leaves out, results, and summary messages of earlier releases go. What people and other extensions
 * said stays where it is, and so does a text-only reply that was cut off by its length: it can be had nowhere else.
 * A result that the entry does not name leaves the whole chain as it is.
 *
 * A chain whose results are all absent (on another branch, behind a compaction, or compressed already) is passed over in
 * silence.
 * @param onUnresolved told of each other chain that is not found
 */
export function locateChains<Chain extends LocatableChain>(
  messages: readonly AgentMessage[],
  chains: readonly Chain[],
  onUnresolved?: (blockId: string, reason: UnresolvedReason) => void,
): LocatedChain<Chain>[] {
  if (chains.length === 0) return [];
  const bounds = findBounds(messages, chains);
  const results = new ResultPositions(messages, chains);
  const claimed = new Set<number>();
  const located: LocatedChain<Chain>[] = [];
  for (const chain of chains) {
    const range = findRange(messages, chain.entry, bounds, results);
    const place = typeof range === "string" ? range : takeRange(messages, chain.entry, range);
    if (place === "absent") continue;
    if (typeof place === "string") onUnresolved?.(chain.entry.blockId, place);
    else if (place.dropped.some((index) => claimed.has(index))) onUnresolved?.(chain.entry.blockId, "overlap");
    else {
      for (const index of place.dropped) claimed.add(index);
      located.push({ chain, place });
    }
  }
  return located;
}

/** The messages behind the opening one, and the closing reply that ends them unless the chain was interrupted. */
interface Range {
  first: number;
  /** Index behind the last message that may go. */
  end: number;
  closing: number | undefined;
}

/** Indices of the messages at the timestamps that chains begin and end with. */
interface Bounds {
  starts: ReadonlyMap<number, number[]>;
  ends: ReadonlyMap<number, number[]>;
}

function findBounds(messages: readonly AgentMessage[], chains: readonly LocatableChain[]): Bounds {
  const starts = new Map<number, number[]>(chains.map(({ entry }) => [entry.startUserTimestamp, []]));
  const ends = new Map<number, number[]>(chains.map(({ entry }) => [entry.finalAssistantTimestamp, []]));
  for (const [index, message] of messages.entries()) {
    if (message.role === "user") starts.get(message.timestamp)?.push(index);
    else if (isAssistant(message)) ends.get(message.timestamp)?.push(index);
  }
  return { starts, ends };
}

/** The range of a chain, or why there is none. `absent`: none of its results is here, so there is nothing to do. */
function findRange(
  messages: readonly AgentMessage[],
  entry: ChainCompressionEntry,
  bounds: Bounds,
  results: ResultPositions,
): Range | UnresolvedReason | "absent" {
  const unless = (reason: UnresolvedReason) => (results.holdsAny(entry) ? reason : "absent");
  const end = endOf(messages, entry, bounds.ends.get(entry.finalAssistantTimestamp) ?? [], results);
  const reply = end === undefined ? undefined : messages[end];
  if (end === undefined || !reply) return unless("end-not-found");
  if (!entry.interrupted && !isClosingReply(reply)) return unless("end-not-closing");

  const candidates = bounds.starts.get(entry.startUserTimestamp) ?? [];
  const first = candidates.length === 1 ? undefined : results.first(entry);
  const start =
    candidates.length === 0 ? openingNotice(messages, first) : (only(candidates) ?? lastBefore(candidates, first));
  if (start === undefined || start >= end) return unless("start-not-found");
  if (entry.interrupted) return { first: start + 1, end: lastOfTurn(messages, end) + 1, closing: undefined };
  return { first: start + 1, end, closing: end };
}

/** Which of the assistant messages at the end's timestamp ends the chain: clocks stand still, and some files hold whole seconds. */
function endOf(
  messages: readonly AgentMessage[],
  entry: ChainCompressionEntry,
  candidates: readonly number[],
  results: ResultPositions,
): number | undefined {
  if (candidates.length < 2) return candidates[0];
  const last = results.last(entry);
  if (entry.interrupted) return lastBefore(candidates, last);
  const closing = candidates.filter((index) => messages.slice(index, index + 1).some(isClosingReply));
  return only(closing) ?? closing.find((index) => last !== undefined && index > last);
}

function lastBefore(indices: readonly number[], limit: number | undefined): number | undefined {
  return limit === undefined ? undefined : indices.findLast((index) => index < limit);
}

/**
 * Index of the notice that opened the run in which this result stands; `undefined` where the run has lost its head,
 * which is what a compaction leaves.
 */
function openingNotice(messages: readonly AgentMessage[], result: number | undefined): number | undefined {
  let notice: number | undefined;
  for (let index = (result ?? 0) - 1; index >= 0; index--) {
    const message = messages[index];
    if (!message || message.role === "user" || isClosingReply(message)) break;
    if (isForeignMessage(message)) notice = index;
  }
  return notice;
}

/** Index of the last result that belongs to the assistant message at `index`, or `index` where there is none. */
function lastOfTurn(messages: readonly AgentMessage[], index: number): number {
  const pairing = new CallPairing();
  let last = index;
  for (let next = index; next < messages.length; next++) {
    const message = messages[next];
    if (!message) break;
    if (isAssistant(message)) {
      if (next > index) break;
      pairing.open(message);
    } else if (isToolResult(message) && pairing.take(message.toolCallId)) last = next;
  }
  return last;
}

/** What goes of the range, unless something in it speaks against it. */
function takeRange(
  messages: readonly AgentMessage[],
  entry: ChainCompressionEntry,
  { first, end, closing }: Range,
): ChainPlace | UnresolvedReason | "absent" {
  const known = new Set(names(entry));
  const relocated = new Set(entry.protectedOccurrenceKeys ?? entry.protectedToolCallIds);
  const knownIds = new Set(entry.droppedToolCallIds);
  const pairing = pairingBefore(messages, first);
  const keyOf = resultKeysIn(messages.slice(first, end));
  const dropped: number[] = [];
  const kept: KeptResult[] = [];
  let turns = 0;
  let results = 0;
  let droppedChars = 0;
  for (let index = first; index < end; index++) {
    const message = messages[index];
    if (!message) continue;
    if (isAssistant(message)) {
      turns += 1;
      pairing.open(message);
      if (isCutOffReply(message)) continue;
      dropped.push(index);
      if (!isDropped(message)) droppedChars += jsonSize(message.content);
    } else if (isToolResult(message)) {
      // Without a call it reaches no provider; it goes with the chain if the chain knows the id.
      const call = pairing.take(message.toolCallId);
      const id = String(message.toolCallId);
      const key = keyOf(message);
      if (call ? !known.has(key) && !known.has(id) : !knownIds.has(id)) return "unknown-result";
      // It answers a call from before the chain, which would be left without it.
      if (call && turns === 0) return "unknown-result";
      dropped.push(index);
      if (!call) continue;
      results += 1;
      droppedChars += contentChars(message.content);
      if (relocated.has(key) || relocated.has(id)) kept.push({ result: message, call });
    } else if (isOwnMessage(message)) {
      dropped.push(index);
      droppedChars += textOf(message.content).length;
    }
  }
  return results === 0 ? "absent" : { dropped, closing, kept, droppedChars };
}

/** The calls that still wait for their result where `index` begins. */
function pairingBefore(messages: readonly AgentMessage[], index: number): CallPairing {
  const pairing = new CallPairing();
  let turn = index - 1;
  for (let message = messages[turn]; message && !isAssistant(message); message = messages[turn]) turn -= 1;
  for (const message of messages.slice(Math.max(0, turn), index)) {
    if (isAssistant(message)) pairing.open(message);
    else if (isToolResult(message)) pairing.take(message.toolCallId);
  }
  return pairing;
}

/** Positions of the results that chains have dropped, found in one pass and only when a chain is in doubt. */
class ResultPositions {
  private positions: Map<string, number[]> | undefined;

  constructor(
    private readonly messages: readonly AgentMessage[],
    private readonly chains: readonly LocatableChain[],
  ) {}

  holdsAny(entry: ChainCompressionEntry): boolean {
    const positions = this.find();
    return names(entry).some((name) => positions.has(name));
  }

  /** Index of the chain's first result, where exactly one message can be meant. */
  first(entry: ChainCompressionEntry): number | undefined {
    const [name] = names(entry);
    return name === undefined ? undefined : only(this.find().get(name));
  }

  /** The same of its last result. */
  last(entry: ChainCompressionEntry): number | undefined {
    const name = names(entry).at(-1);
    return name === undefined ? undefined : only(this.find().get(name));
  }

  private find(): ReadonlyMap<string, number[]> {
    if (this.positions) return this.positions;
    const wanted = new Set(this.chains.flatMap(({ entry }) => entry.droppedToolCallIds));
    const positions = new Map<string, number[]>();
    const keyOf = resultKeysIn(this.messages);
    for (const [index, message] of this.messages.entries()) {
      if (!isToolResult(message) || !wanted.has(String(message.toolCallId))) continue;
      for (const name of [String(message.toolCallId), keyOf(message)]) {
        const indices = positions.get(name);
        if (indices) indices.push(index);
        else positions.set(name, [index]);
      }
    }
    this.positions = positions;
    return positions;
  }
}

/** What the entry calls its results: occurrence keys, or bare ids in entries from before there were keys. */
function names(entry: ChainCompressionEntry): readonly string[] {
  return entry.droppedOccurrenceKeys ?? entry.droppedToolCallIds;
}

function only<T>(values: readonly T[] | undefined): T | undefined {
  return values?.length === 1 ? values[0] : undefined;
}

/** A text-only reply that reaches the provider: within a chain, one that ended by its length. */
function isCutOffReply(message: AssistantMessage): boolean {
  return !isDropped(message) && toolCallsOf(message).length === 0 && hasSpeech(message.content);
}
