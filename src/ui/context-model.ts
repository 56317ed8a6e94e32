/** Where the window goes: the tokens of a conversation by kind, as it stands and as it is sent. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { ContextView } from "../runtime.ts";
import { blocksIn, isAssistant, isDropped, resultKeysIn, resultOf, textOf } from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { contentTokens, estimateMessageTokens, estimateTextTokens } from "../transcript/tokens.ts";
import type { Sizes } from "./paint.ts";

/** Kinds of content, in the order in which they are shown. */
export const SHARES = {
  system: "System prompt",
  user: "User",
  assistant: "Assistant text",
  thinking: "Thinking",
  arguments: "Tool arguments",
  raw: "Results, raw",
  condensed: "Results, condensed",
  spilled: "Results, spilled",
  protected: "Results, protected",
  chains: "Results in chains",
  other: "Other",
} as const;

export type ShareKind = keyof typeof SHARES;

/** Tokens of one kind, as the session holds it and as the next request carries it. */
export interface Share extends Sizes {
  kind: ShareKind;
}

/** Everything, and the kinds that take any room. Tokens are estimates. */
export interface ContextShares extends Sizes {
  shares: Share[];
}

/** How the message begins that stands for a compressed chain, and the protected output in it. */
const CHAIN_START = "<compressed-chain ";
const PROTECTED_OUTPUT = /<protected-output[ >][\s\S]*?<\/protected-output>/g;

type Totals = Map<ShareKind, number>;

/** Counts both forms of the conversation. A result counts as the same kind in both, by what has become of it. */
export function contextShares(view: ContextView, systemPrompt: string): ContextShares {
  const kindsByKey = resultKinds(view);
  const before = totalsOf(view.raw, kindsByKey);
  const after = totalsOf(view.sent, kindsByKey);
  const system = Math.round(estimateTextTokens(systemPrompt));
  for (const totals of [before, after]) totals.set("system", system);
  const kinds = Object.keys(SHARES) as ShareKind[];
  const shares = kinds
    .map((kind) => ({ kind, before: Math.round(before.get(kind) ?? 0), after: Math.round(after.get(kind) ?? 0) }))
    .filter((share) => share.before + share.after > 0);
  // The sum of rounded shares would differ from what the other screens show.
  return { shares, before: Math.round(sumOf(before)), after: Math.round(sumOf(after)) };
}

function sumOf(totals: Totals): number {
  return [...totals.values()].reduce((sum, tokens) => sum + tokens, 0);
}

function totalsOf(messages: readonly AgentMessage[], kinds: ReadonlyMap<string, ShareKind>): Totals {
  const totals: Totals = new Map();
  const add = (kind: ShareKind, tokens: number) => totals.set(kind, (totals.get(kind) ?? 0) + tokens);
  const keyOf = resultKeysIn(messages);
  for (const message of messages) {
    const result = resultOf(message);
    if (result) add(kinds.get(keyOf(result)) ?? "raw", estimateMessageTokens(message));
    else if (!isAssistant(message)) addOther(message, add);
    else if (!isDropped(message)) addReply(message, add);
  }
  return totals;
}

/** What a message takes besides its blocks counts as text. */
function addReply(reply: AssistantMessage, add: (kind: ShareKind, tokens: number) => void): void {
  let rest = estimateMessageTokens(reply);
  for (const block of blocksIn(reply.content)) {
    const kind = block?.type === "toolCall" ? "arguments" : block?.type === "thinking" ? "thinking" : "assistant";
    const tokens = contentTokens([block]);
    add(kind, tokens);
    rest -= tokens;
  }
  add("assistant", rest);
}

function addOther(message: AgentMessage, add: (kind: ShareKind, tokens: number) => void): void {
  const tokens = estimateMessageTokens(message);
  const text = message.role === "user" ? textOf(message.content) : "";
  if (!text.startsWith(CHAIN_START)) {
    add(message.role === "user" ? "user" : "other", tokens);
    return;
  }
  const kept = (text.match(PROTECTED_OUTPUT) ?? []).reduce((sum, block) => sum + estimateTextTokens(block), 0);
  add("protected", kept);
  add("chains", tokens - kept);
}

/** What has become of each result, by occurrence key: providers reuse ids, so that the id alone names none. */
function resultKinds({ raw, plan, isProtected }: ContextView): ReadonlyMap<string, ShareKind> {
  const kinds = new Map<string, ShareKind>();
  const chained = new Set(plan.chains.flatMap(({ entry }) => entry.droppedOccurrenceKeys ?? entry.droppedToolCallIds));
  const keyOf = resultKeysIn(raw);
  const pairing = new CallPairing();
  for (const message of raw) {
    if (isAssistant(message)) pairing.open(message);
    const result = resultOf(message);
    if (!result) continue;
    const { toolCallId, toolName } = result;
    const args = pairing.argumentsFor(message);
    const key = keyOf(result);
    const replacement = plan.replacements.get(key) ?? plan.replacements.get(toolCallId);
    if (isProtected({ toolName, args: args ?? {} })) kinds.set(key, "protected");
    else if (chained.has(key) || chained.has(toolCallId)) kinds.set(key, "chains");
    else if (replacement) kinds.set(key, replacement.eager ? "spilled" : "condensed");
  }
  return kinds;
}
