/** What the conversation takes in a request, as it stands and as it is sent: the figures that every screen shows. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAssistant, resultKeysIn, resultOf, textOf } from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { contentTokens, estimateMessageTokens } from "../transcript/tokens.ts";

/** A size without and with condensing. */
export interface Sizes {
  before: number;
  after: number;
}

/** Tokens of messages, each estimated once for as long as its content is the same object. */
export class TokenBook {
  private readonly known = new WeakMap<object, number>();

  of(message: AgentMessage): number {
    const key = "content" in message && typeof message.content === "object" ? (message.content ?? message) : message;
    const known = this.known.get(key);
    if (known !== undefined) return known;
    const tokens = estimateMessageTokens(message);
    this.known.set(key, tokens);
    return tokens;
  }

  sum(messages: readonly AgentMessage[]): number {
    let tokens = 0;
    for (const message of messages) tokens += this.of(message);
    return tokens;
  }
}

/** The conversation in both forms, estimated tokens. */
export interface ContextSizes {
  /** All of it. */
  whole: Sizes;
  /** What is rendered otherwise than it stands; saves as much as `whole`. */
  condensed: Sizes;
}

/** @param raw the messages of the branch @param sent the same as a request carries them, unchanged ones the same objects */
export function contextSizes(
  raw: readonly AgentMessage[],
  sent: readonly AgentMessage[],
  book: TokenBook,
): ContextSizes {
  const before = book.sum(raw);
  if (raw === sent) return { whole: { before, after: before }, condensed: { before: 0, after: 0 } };
  const standing = new Set(sent.flatMap(partsOf));
  let same = 0;
  for (const message of raw) same += unchangedTokens(message, standing, book);
  const after = book.sum(sent);
  return { whole: { before, after }, condensed: { before: before - same, after: after - same } };
}

/** The sizes while nothing is condensed: the pruner is off. */
export function rawSizes({ whole: { before } }: ContextSizes): ContextSizes {
  return { whole: { before, after: before }, condensed: { before: 0, after: 0 } };
}

/** The content of a message and its blocks, by which it is known again; texts are told from each other by their message. */
function partsOf(message: AgentMessage): unknown[] {
  const content: unknown = "content" in message ? message.content : undefined;
  return Array.isArray(content) ? [content, ...content] : [message];
}

/** What of a message stands in the request as it is: all of it, or some of its blocks. */
function unchangedTokens(message: AgentMessage, standing: ReadonlySet<unknown>, book: TokenBook): number {
  const [whole, ...blocks] = partsOf(message);
  if (standing.has(whole)) return book.of(message);
  if (book.of(message) === 0) return 0;
  return contentTokens((blocks as { type: string }[]).filter((block) => standing.has(block)));
}

/** Tokens of each result, with the call's arguments where those are condensed too, by occurrence key, and of each chain as a whole, by block. */
export interface CallSizes {
  calls: ReadonlyMap<string, Sizes>;
  chains: ReadonlyMap<string, Sizes>;
}

/** A chain whose message may stand in the render. */
export interface ChainSpan {
  blockId: string;
  /** Timestamps of its first and its last message, ms. */
  from: number;
  to: number;
}

/** What becomes of each call and chain, in the same tokens as `contextSizes`. */
export function callSizes(
  raw: readonly AgentMessage[],
  sent: readonly AgentMessage[],
  spans: readonly ChainSpan[],
  book: TokenBook,
): CallSizes {
  const inSent = new Set(sent.flatMap(partsOf));
  const inRaw = new Set(raw.flatMap(partsOf));
  const before = tokensByCall(raw, inSent);
  const after = tokensByCall(sent, inRaw);
  const calls = new Map([...before].map(([key, tokens]) => [key, { before: tokens, after: after.get(key) ?? 0 }]));
  const chains = new Map<string, Sizes>();
  const standing = new Map(sent.flatMap((message) => [[chainIdOf(message), message] as const]));
  for (const { blockId, from, to } of spans) {
    const body = standing.get(blockId);
    if (!body) continue;
    const isInside = (message: AgentMessage) =>
      message !== body && message.timestamp >= from && message.timestamp <= to;
    const changed = (messages: readonly AgentMessage[], standing: ReadonlySet<unknown>) =>
      messages.filter(isInside).reduce((sum, one) => sum + book.of(one) - unchangedTokens(one, standing, book), 0);
    chains.set(blockId, { before: changed(raw, inSent), after: changed(sent, inRaw) + book.of(body) });
  }
  return { calls, chains };
}

function chainIdOf(message: AgentMessage): string | undefined {
  if (message.role !== "user") return undefined;
  return /^<compressed-chain id="(b\d+)"/.exec(textOf(message.content))?.[1];
}

/** A result counts with the block that asked for it, unless that block stands in the `others` as well. */
function tokensByCall(messages: readonly AgentMessage[], others: ReadonlySet<unknown>): Map<string, number> {
  const tokens = new Map<string, number>();
  const pairing = new CallPairing();
  const keyOf = resultKeysIn(messages);
  for (const message of messages) {
    if (isAssistant(message)) pairing.open(message);
    const result = resultOf(message);
    if (!result) continue;
    const call = pairing.take(result.toolCallId);
    const size = estimateMessageTokens(message) + (call && !others.has(call) ? contentTokens([call]) : 0);
    tokens.set(keyOf(result), size);
    // Records of earlier releases are keyed by the bare id.
    tokens.set(String(result.toolCallId), size);
  }
  return tokens;
}
