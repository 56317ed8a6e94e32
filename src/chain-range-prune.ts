/**
 * Puts compressed chains into a render: the calls and results of a chain go, and one user message that sums them up
 * stands in their place.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ImageContent, ToolCall, ToolResultMessage, UserMessage } from "@mariozechner/pi-ai";
import {
  contentChars,
  extractToolResultText,
  isAssistant,
  isClosingReply,
  isDropped,
  isImage,
  isText,
  isToolResult,
  occurrenceKey,
  textOf,
  toolCallsOf,
} from "./messages.js";
import { describeCall } from "./summary/describe.js";
import { type ChainCompressionEntry, CUSTOM_TYPE_SUMMARY } from "./types.js";

/** A chain with the text that is to stand for it. */
export interface RenderedChain {
  entry: ChainCompressionEntry;
  /** What `buildChainBody` gave, or the text of an earlier release; may refer to other chains as `{b3}`. */
  body: string;
}

/** Output that is kept word for word inside a compressed chain. */
export interface ProtectedOutput {
  tool: string;
  text: string;
  images?: readonly ImageContent[];
}

/** How chains are put into a render. */
export interface ChainPruneOptions {
  /** The closing reply of a compressed chain loses its thinking. */
  stripFinalAssistantThinking: boolean;
  /** Called for each chain that is left as it stands since its messages do not say for sure where it is. */
  onUnresolved?(blockId: string, reason: UnresolvedReason): void;
}

/** Why a chain was left as it stands. */
export type UnresolvedReason =
  /** No assistant message, or more than one, has the closing reply's timestamp. */
  | "end-not-found"
  /** The message at the end of a chain that is said to be closed closes nothing. */
  | "end-not-closing"
  /** The opening message is gone, as after a compaction, or there are several. */
  | "start-not-found"
  /** A result stands in the range that the chain knows nothing of. */
  | "unknown-result"
  /** Another chain has taken some of the messages. */
  | "overlap";

/**
 * Pairs results with calls as a provider does once the transcript is repaired: a result belongs to the latest assistant
 * message, whatever stands between the two, and each call has one. Calls of a message that pi-ai leaves out have none.
 */
export class CallPairing {
  private waiting = new Map<string, ToolCall[]>();

  /** `message` is the latest assistant message now. */
  open(message: AssistantMessage): void {
    this.waiting = new Map();
    if (isDropped(message)) return;
    for (const call of toolCallsOf(message)) {
      const queue = this.waiting.get(call.id);
      if (queue) queue.push(call);
      else this.waiting.set(call.id, [call]);
    }
  }

  /** The call that the next result with this id answers; `undefined` where none waits for it. */
  take(toolCallId: string): ToolCall | undefined {
    const queue = this.waiting.get(toolCallId);
    const call = queue?.shift();
    if (queue?.length === 0) this.waiting.delete(toolCallId);
    return call;
  }

  /** Whether a call of the latest assistant message still has no result. */
  get isWaiting(): boolean {
    return this.waiting.size > 0;
  }
}

/** A message that an extension has put into the conversation. */
type CustomMessage = Extract<AgentMessage, { role: "custom" }>;

/** Summary message of an earlier release: ours, though it stands in the conversation. */
export function isOwnMessage(message: AgentMessage): message is CustomMessage {
  return message.role === "custom" && message.customType === CUSTOM_TYPE_SUMMARY;
}

/** A notice of another extension; one that stands before a run starts it. */
export function isForeignMessage(message: AgentMessage): message is CustomMessage {
  return message.role === "custom" && message.customType !== CUSTOM_TYPE_SUMMARY;
}

/** The text with the marks of compressed chains made harmless, so that none can be closed or faked by tool output. */
export function neutralizeMarks(text: string): string {
  return text.replace(/<(?=\s*\/?\s*(?:compressed-chain|protected-output)(?![\w-]))/gi, "&lt;");
}

/**
 * The message that stands for a chain:
 *
 *     <compressed-chain id="b7" tools="t1,t2">
 *     {body}
 *
 *     <protected-output tool="todowrite">
 *     {text}
 *     </protected-output>
 *     </compressed-chain>
 *
 * References to other chains in the body (`{b3}`) give way to the text that `bodies` has for them, each one once, so
 * that circles end and nothing multiplies; others stay. Protected text is verbatim by contract, marks in it included;
 * their images follow the text.
 */
export function buildSyntheticChainMessage(
  { entry, body }: RenderedChain,
  protectedOutputs: readonly ProtectedOutput[],
  bodies: ReadonlyMap<string, string> = new Map(),
): UserMessage {
  const text = neutralizeMarks(resolveReferences(body, bodies, new Set([entry.blockId])));
  const blocks = protectedOutputs.map(
    (output) =>
      `\n<protected-output tool="${attribute(output.tool)}">\n${protectedText(output)}\n</protected-output>\n`,
  );
  const head = `<compressed-chain id="${attribute(entry.blockId)}" tools="${attribute(entry.toolRefs.join(","))}">`;
  return {
    role: "user",
    content: [
      { type: "text", text: `${head}\n${text}\n${blocks.join("")}</compressed-chain>` },
      ...protectedOutputs.flatMap((output) => output.images ?? []),
    ],
    timestamp: entry.startUserTimestamp,
  };
}

/**
 * The messages with every chain compressed that can be found in them for sure; the same array where none is.
 *
 * A chain is found by position: its end is the one assistant message with the entry's end timestamp, its start the one
 * user message with the entry's start timestamp. A notice of another extension has another timestamp after a reload; a
 * chain that was opened by one is found by its first dropped result instead. Within, assistant messages with calls, the
 * ones that pi-ai leaves out, results, and summary messages of earlier releases go. What people and other extensions
 * said stays where it is, and so does a text-only reply that was cut off by its length: it can be had nowhere else.
 * A result that the entry does not name leaves the whole chain as it is.
 *
 * Nothing grows: a chain whose message would not be shorter than what it replaces stays as it is. That depends on the
 * chain's own messages alone, so appending messages does not change it. A chain whose results are all absent (on
 * another branch, behind a compaction, or compressed already) is passed over in silence.
 */
export function applyChainCompressions(
  messages: AgentMessage[],
  chains: readonly RenderedChain[],
  options: ChainPruneOptions,
): AgentMessage[] {
  const placements = placeChains(messages, chains, options.onUnresolved).filter((p) => p.keptChars < p.droppedChars);
  if (placements.length === 0) return messages;

  const replacements = new Map<number, AgentMessage | undefined>();
  for (const { dropped, synthetic, closing } of placements) {
    for (const [i, index] of dropped.entries()) replacements.set(index, i === 0 ? synthetic : undefined);
    const reply = closing === undefined ? undefined : messages[closing];
    if (closing !== undefined && reply && isAssistant(reply) && options.stripFinalAssistantThinking) {
      replacements.set(closing, withoutThinking(reply));
    }
  }
  const rendered: AgentMessage[] = [];
  for (const [index, message] of messages.entries()) {
    const next = replacements.has(index) ? replacements.get(index) : message;
    if (next) rendered.push(next);
  }
  return rendered;
}

/**
 * Characters that each chain found in the messages saves, by block id: what it replaces less what stands there instead,
 * images at their flat price. `applyChainCompressions` leaves those at 0 and below as they are.
 */
export function chainSavings(
  messages: readonly AgentMessage[],
  chains: readonly RenderedChain[],
): ReadonlyMap<string, number> {
  const placements = placeChains(messages, chains, undefined);
  return new Map(placements.map((p) => [p.blockId, p.droppedChars - p.keptChars]));
}

/** Where a chain stands and what is to be done there. */
interface Placement {
  blockId: string;
  /** Indices of the messages that go, ascending; the synthetic one takes the place of the first. */
  dropped: number[];
  /** Index of the closing reply; an interrupted chain has none. */
  closing: number | undefined;
  synthetic: UserMessage;
  droppedChars: number;
  keptChars: number;
}

/** The messages behind the opening one, and the closing reply that ends them unless the chain was interrupted. */
interface Range {
  first: number;
  /** Index behind the last message that may go. */
  end: number;
  closing: number | undefined;
}

function placeChains(
  messages: readonly AgentMessage[],
  chains: readonly RenderedChain[],
  onUnresolved: ChainPruneOptions["onUnresolved"],
): Placement[] {
  const active = chains.filter(({ entry }) => entry.active !== false);
  if (active.length === 0) return [];
  const bodies = new Map(chains.map(({ entry, body }) => [entry.blockId, body]));
  const bounds = findBounds(messages, active);
  const results = new ResultPositions(messages, active);
  const claimed = new Set<number>();
  const placements: Placement[] = [];
  for (const chain of active) {
    const found = findRange(messages, chain.entry, bounds, results);
    const placement = typeof found === "string" ? found : place(messages, chain, found, bodies);
    if (placement === "absent") continue;
    if (typeof placement === "string") onUnresolved?.(chain.entry.blockId, placement);
    else if (placement.dropped.some((index) => claimed.has(index))) onUnresolved?.(chain.entry.blockId, "overlap");
    else {
      for (const index of placement.dropped) claimed.add(index);
      placements.push(placement);
    }
  }
  return placements;
}

/** Indices of the messages at the timestamps that chains begin and end with. */
interface Bounds {
  starts: ReadonlyMap<number, number[]>;
  ends: ReadonlyMap<number, number[]>;
}

function findBounds(messages: readonly AgentMessage[], chains: readonly RenderedChain[]): Bounds {
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
  const end = only(bounds.ends.get(entry.finalAssistantTimestamp));
  const reply = end === undefined ? undefined : messages[end];
  if (end === undefined || !reply) return unless("end-not-found");
  if (!entry.interrupted && !isClosingReply(reply)) return unless("end-not-closing");

  const candidates = bounds.starts.get(entry.startUserTimestamp) ?? [];
  const start = candidates.length === 0 ? openingNotice(messages, results.first(entry)) : only(candidates);
  if (start === undefined || start >= end) return unless("start-not-found");
  if (entry.interrupted) return { first: start + 1, end: lastOfTurn(messages, end) + 1, closing: undefined };
  return { first: start + 1, end, closing: end };
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

function place(
  messages: readonly AgentMessage[],
  chain: RenderedChain,
  { first, end, closing }: Range,
  bodies: ReadonlyMap<string, string>,
): Placement | UnresolvedReason | "absent" {
  const { entry } = chain;
  const known = new Set(names(entry));
  const relocated = new Set(entry.protectedOccurrenceKeys ?? entry.protectedToolCallIds);
  const knownIds = new Set(entry.droppedToolCallIds);
  const pairing = pairingBefore(messages, first);
  const dropped: number[] = [];
  const outputs: ProtectedOutput[] = [];
  const keptLines: string[] = [];
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
      if (!isDropped(message)) droppedChars += sizeOf(message.content);
    } else if (isToolResult(message)) {
      // Without a call it reaches no provider; it goes with the chain if the chain knows the id.
      const call = pairing.take(message.toolCallId);
      const isLive = call !== undefined;
      const key = occurrenceKey(message.toolCallId, message.timestamp);
      if (isLive ? !known.has(key) && !known.has(message.toolCallId) : !knownIds.has(message.toolCallId))
        return "unknown-result";
      // It answers a call from before the chain, which would be left without it.
      if (isLive && turns === 0) return "unknown-result";
      dropped.push(index);
      if (!isLive) continue;
      results += 1;
      droppedChars += contentChars(message.content);
      if (relocated.has(key) || relocated.has(message.toolCallId)) {
        outputs.push(protectedOutput(message));
        keptLines.push(...keptLine(message.toolName, call?.arguments ?? {}));
      }
    } else if (isOwnMessage(message)) {
      dropped.push(index);
      droppedChars += textOf(message.content).length;
    }
  }
  if (results === 0) return "absent";
  const body = [chain.body, ...keptLines].filter((part) => part !== "").join("\n");
  const synthetic = buildSyntheticChainMessage({ entry, body }, outputs, bodies);
  const keptChars = typeof synthetic.content === "string" ? synthetic.content.length : contentChars(synthetic.content);
  return { blockId: entry.blockId, dropped, closing, synthetic, droppedChars, keptChars };
}

/** The block of a protected output names the tool alone; a line of the body says which file, say, it is from. */
function keptLine(toolName: string, args: Record<string, unknown>): string[] {
  const call = describeCall(toolName, args);
  return call === toolName ? [] : [`- ${neutralizeMarks(call)}, kept below`];
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
    private readonly chains: readonly RenderedChain[],
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

  private find(): ReadonlyMap<string, number[]> {
    if (this.positions) return this.positions;
    const wanted = new Set(this.chains.flatMap(({ entry }) => entry.droppedToolCallIds));
    const positions = new Map<string, number[]>();
    for (const [index, message] of this.messages.entries()) {
      if (!isToolResult(message) || !wanted.has(message.toolCallId)) continue;
      for (const name of [message.toolCallId, occurrenceKey(message.toolCallId, message.timestamp)]) {
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

function hasSpeech(content: AssistantMessage["content"]): boolean {
  return content.some((block) => isText(block) && block.text.trim() !== "");
}

/**
 * The reply without its thinking blocks. It stays as it is where nothing would be left, and where a text carries a
 * signature: OpenAI refuses a message item whose reasoning item is missing.
 */
function withoutThinking(reply: AssistantMessage): AssistantMessage {
  const content = reply.content.filter((block) => block.type !== "thinking");
  const isSigned = content.some((block) => block.type === "text" && block.textSignature !== undefined);
  return content.length === reply.content.length || isSigned || !hasSpeech(content) ? reply : { ...reply, content };
}

function protectedOutput(message: ToolResultMessage): ProtectedOutput {
  const images = message.content.filter(isImage);
  return {
    tool: message.toolName,
    text: extractToolResultText(message),
    ...(images.length > 0 ? { images } : {}),
  };
}

/** An output of images alone has no text of its own; the note says that they are not lost. */
function protectedText({ text, images }: ProtectedOutput): string {
  if (text !== "" || !images || images.length === 0) return text;
  return images.length === 1 ? "[1 image, attached]" : `[${images.length} images, attached]`;
}

function resolveReferences(text: string, bodies: ReadonlyMap<string, string>, used: Set<string>): string {
  return text.replace(/\{(b\d{1,9})\}/g, (reference, blockId: string) => {
    const body = bodies.get(blockId);
    if (body === undefined || used.has(blockId)) return reference;
    used.add(blockId);
    return resolveReferences(body, bodies, used);
  });
}

function attribute(value: string): string {
  return value
    .replaceAll("&", "&amp;")
    .replaceAll('"', "&quot;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replace(/[\s\p{Cc}]+/gu, " ");
}

/** About the length of the value as JSON, without making it: large arguments are not copied to be measured. */
function sizeOf(value: unknown): number {
  if (typeof value === "string") return value.length + 2;
  if (Array.isArray(value)) return value.reduce((sum: number, element) => sum + sizeOf(element) + 1, 1);
  if (typeof value !== "object" || value === null) return 4;
  let size = 1;
  for (const [key, field] of Object.entries(value)) size += key.length + 4 + sizeOf(field);
  return size;
}
