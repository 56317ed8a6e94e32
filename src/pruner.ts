/**
 * Renders the messages of one request. Every phase is pure and gives back what it was given where nothing changes, so
 * that a request with nothing to condense costs one look at its messages.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import { applyChainCompressions, type ChainPruneOptions } from "./chain-range-prune.ts";
import { type ArgumentOptions, condenseArguments } from "./render/arguments.ts";
import type { RenderPlan, Replacement } from "./render/plan.ts";
import { repairTranscript } from "./render/repair.ts";
import {
  blocksIn,
  contentChars,
  isAssistant,
  isImage,
  isOwnMessage,
  isToolResult,
  lastAnswerIndex,
  resultKeys,
  resultKeysIn,
  resultOf,
  textOf,
} from "./transcript/messages.ts";
import { CallPairing } from "./transcript/pairing.ts";

/** What a render may be told besides its plan. */
export interface RenderOptions {
  /** Told of each compressed chain whose messages could not be made out, and which stays raw. */
  onUnresolved?: ChainPruneOptions["onUnresolved"];
  /** The messages are a part of the conversation that the model has seen to its end. */
  allSeen?: boolean;
}

/** The messages as they are to be sent. Neither the array nor anything in it is changed. */
export function pruneMessages(messages: AgentMessage[], plan: RenderPlan, options: RenderOptions = {}): AgentMessage[] {
  const { stripFinalAssistantThinking } = plan;
  const seen = options.allSeen ? messages.length : lastAnswerIndex(messages);
  const condensed = condenseCallArguments(messages, plan, seen);
  const stubbed = replaceResults(condensed, plan, seen);
  const folded = foldLegacySummaries(stubbed, plan);
  const compressed = applyChainCompressions(folded, plan.chains, {
    stripFinalAssistantThinking,
    onUnresolved: options.onUnresolved,
  });
  return repairTranscript(compressed);
}

/**
 * Puts a render into the host's own array. Where only contents differ, they are set on the host's messages and
 * `undefined` is given: handing back another array makes the newer host fold later system messages into the head of
 * the prompt. Nothing is touched before the whole render is known.
 */
export function applyRender(messages: AgentMessage[], rendered: AgentMessage[]): AgentMessage[] | undefined {
  if (rendered === messages) return undefined;
  const changes: (() => void)[] = [];
  for (const [i, message] of messages.entries()) {
    const next = rendered[i];
    if (next === message) continue;
    if (!next || !sameButContent(message, next)) return rendered;
    changes.push(() => Object.assign(message, next));
  }
  if (rendered.length !== messages.length) return rendered;
  for (const change of changes) change();
  return undefined;
}

/** Long strings in the arguments of finished calls become markers; calls whose result is unseen are left alone. */
function condenseCallArguments(messages: AgentMessage[], plan: RenderPlan, seen: number): AgentMessage[] {
  if (plan.isEmpty) return messages;
  const pairing = new CallPairing();
  const keyOf = resultKeysIn(messages);
  const optionsOf = new Map<ToolCall, ArgumentOptions>();
  const turns = new Map<number, AssistantMessage>();
  let turn = -1;
  for (let i = 0; i < Math.min(seen, messages.length); i++) {
    const message = messages[i];
    if (message && isAssistant(message)) {
      pairing.open(message);
      turn = i;
    } else if (message && isToolResult(message)) {
      const call = pairing.take(message.toolCallId);
      const options = call && plan.argumentsOf(keyOf(message));
      const owner = messages[turn];
      if (!options || !owner || !isAssistant(owner)) continue;
      optionsOf.set(call, options);
      turns.set(turn, owner);
    }
  }
  let rendered: AgentMessage[] | undefined;
  for (const [index, owner] of turns) {
    const changed = withCondensedArguments(owner, optionsOf);
    if (changed === owner) continue;
    rendered ??= messages.slice();
    rendered[index] = changed;
  }
  return rendered ?? messages;
}

function withCondensedArguments(
  message: AssistantMessage,
  optionsOf: ReadonlyMap<ToolCall, ArgumentOptions>,
): AssistantMessage {
  const content = message.content.map((block) => {
    const options = block?.type === "toolCall" ? optionsOf.get(block) : undefined;
    if (block?.type !== "toolCall" || !options) return block;
    const condensed = condenseArguments(block.arguments, options);
    return condensed === block.arguments ? block : { ...block, arguments: condensed };
  });
  return content.some((block, i) => block !== message.content[i]) ? { ...message, content } : message;
}

/** Results the model has answered take their stub, unless that would be longer than what stands there. */
function replaceResults(messages: AgentMessage[], plan: RenderPlan, seen: number): AgentMessage[] {
  if (plan.isEmpty) return messages;
  const ambiguous = ambiguousBareIds(messages, plan);
  const keyOf = resultKeysIn(messages);
  const used = new Set<string>();
  let rendered: AgentMessage[] | undefined;
  for (const [i, message] of messages.entries()) {
    const result = resultOf(message);
    if (!result) continue;
    const replacement = find(plan, keyOf(result), String(result.toolCallId), ambiguous);
    if (!replacement || used.has(replacement.occurrenceKey) || (i > seen && !replacement.eager)) continue;
    used.add(replacement.occurrenceKey);
    const { text, savedArguments, eager } = replacement;
    // A result that was spilled before the model has seen it keeps its images: only its text is in the file.
    const images = eager ? blocksIn(result.content).filter(isImage) : [];
    if (text.length + contentChars(images) >= contentChars(result.content) + savedArguments) continue;
    // The stub of a change may be longer than the reply, so that its length does not tell that it stands there already.
    if (savedArguments > 0 && textOf(result.content) === text) continue;
    rendered ??= messages.slice();
    rendered[i] =
      message.role === "bashExecution"
        ? { ...message, output: text }
        : { ...result, content: [{ type: "text", text }, ...images] };
  }
  return rendered ?? messages;
}

function find(
  plan: RenderPlan,
  key: string,
  toolCallId: string,
  ambiguous: ReadonlySet<string>,
): Replacement | undefined {
  const exact = plan.replacements.get(key);
  if (exact) return exact;
  return plan.bareIds.has(toolCallId) && !ambiguous.has(toolCallId) ? plan.replacements.get(toolCallId) : undefined;
}

/** Bare ids that more than one result has: they name none of them. */
function ambiguousBareIds(messages: readonly AgentMessage[], plan: RenderPlan): Set<string> {
  const seen = new Set<string>();
  const ambiguous = new Set<string>();
  if (plan.bareIds.size === 0) return ambiguous;
  for (const message of messages) {
    if (!isToolResult(message) || !plan.bareIds.has(message.toolCallId)) continue;
    if (seen.has(message.toolCallId)) ambiguous.add(message.toolCallId);
    seen.add(message.toolCallId);
  }
  return ambiguous;
}

/** A summary message of an earlier release goes once all that it speaks of stands as stubs that hold its text. */
function foldLegacySummaries(messages: AgentMessage[], plan: RenderPlan): AgentMessage[] {
  if (plan.legacySummaries.size === 0) return messages;
  const present = resultKeys(messages);
  for (const message of messages) if (isToolResult(message)) present.add(String(message.toolCallId));
  const kept = messages.filter((message) => {
    if (!isOwnMessage(message)) return true;
    const keys = plan.legacySummaries.get(textOf(message.content));
    return !keys?.every((key) => plan.replacements.has(key) && present.has(key));
  });
  return kept.length === messages.length ? messages : kept;
}

function sameButContent(message: AgentMessage, next: AgentMessage): boolean {
  return (
    message.role === next.role &&
    message.timestamp === next.timestamp &&
    (!isToolResult(message) || (isToolResult(next) && message.toolCallId === next.toolCallId))
  );
}
