/** Reading the host's messages: texts, calls, answers, occurrence keys. Nothing here changes a message. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ImageContent, TextContent, ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import { CUSTOM_TYPE_SUMMARY } from "../types.ts";

/** Characters that one image counts for in every size comparison: pi's own flat estimate (1,200 tokens). */
export const IMAGE_CHARS = 4800;

export function isAssistant(message: AgentMessage): message is AssistantMessage {
  return message.role === "assistant";
}

export function isToolResult(message: AgentMessage): message is ToolResultMessage {
  return message.role === "toolResult";
}

/** Name that every result of `resultOf` has which is none of a tool. */
const RAN_BY_USER = "!";

/**
 * The tool result that a message is, or that the output of a command stands for which the user has run. Nothing where no
 * model is sent the output, and where it has no time, which alone names it.
 */
export function resultOf(message: AgentMessage): ToolResultMessage | undefined {
  if (isToolResult(message)) return message;
  if (message.role !== "bashExecution" || message.excludeFromContext || !message.output) return undefined;
  if (typeof message.output !== "string" || timeOf(message.timestamp) === undefined) return undefined;
  return {
    role: "toolResult",
    toolCallId: RAN_BY_USER,
    toolName: "bash",
    content: [{ type: "text", text: message.output }],
    isError: message.cancelled || Boolean(message.exitCode),
    timestamp: message.timestamp,
  };
}

/** The call that `result` would answer, had a model asked for what the user has run. */
export function callOf({ command, timestamp }: UserCommand): CallTurn {
  const call = { type: "toolCall" as const, id: RAN_BY_USER, name: "bash", arguments: { command } };
  return { content: [call], stopReason: "toolUse", timestamp };
}

/** A message with the output of a command that the user has run. */
export type UserCommand = Extract<AgentMessage, { role: "bashExecution" }>;

/** What of an assistant message says which calls it made. */
export type CallTurn = Pick<AssistantMessage, "content" | "stopReason" | "timestamp">;

/** The assistant finished this message: pi-ai drops errored and aborted ones, so they answer nothing. */
export function isAnswer(message: AgentMessage): message is AssistantMessage {
  return isAssistant(message) && !isDropped(message);
}

/** pi-ai leaves this assistant message out of the request, its calls with it. */
export function isDropped(message: Pick<AssistantMessage, "stopReason">): boolean {
  return message.stopReason === "error" || message.stopReason === "aborted";
}

/** A text-only reply that ended by `stop`: it closes the run of tool calls before it. */
export function isClosingReply(message: AgentMessage): message is AssistantMessage {
  return isAssistant(message) && message.stopReason === "stop" && toolCallsOf(message).length === 0;
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

/** The tool calls of an assistant message, in order. */
export function toolCallsOf(message: Pick<AssistantMessage, "content">): ToolCall[] {
  return Array.isArray(message.content) ? message.content.filter((block) => block?.type === "toolCall") : [];
}

/** The blocks of a content. Against the types, a file may hold a text in their place, `null`, or nothing. */
export function blocksIn<B extends { type: string }>(content: string | readonly B[]): readonly (B | TextContent)[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? content : [];
}

/** Text of a message content, blocks joined by a newline; images and other blocks left out. */
export function textOf(content: string | readonly { type: string }[]): string {
  if (typeof content === "string") return content;
  const texts = blocksIn(content)
    .filter(isText)
    .map((block) => block.text);
  return texts.length === 1 ? (texts[0] ?? "") : texts.join("\n");
}

/**
 * The text of a tool result as capture, recovery and relocation all give it: text blocks joined by a newline.
 * A result with one text block gives that very string, so that holding it costs no memory.
 */
export function extractToolResultText(message: Pick<ToolResultMessage, "content">): string {
  return textOf(message.content);
}

export function isText(block: { type: string }): block is TextContent {
  return block?.type === "text" && "text" in block && typeof block.text === "string";
}

/** Whether some text of an assistant message says anything. */
export function hasSpeech(content: AssistantMessage["content"]): boolean {
  return blocksIn(content).some((block) => isText(block) && block.text.trim() !== "");
}

/** Some reply among the messages carries thinking that its provider has signed. */
export function holdsSignedThinking(messages: readonly AgentMessage[]): boolean {
  const isSigned = (block: AssistantMessage["content"][number]) =>
    block?.type === "thinking" && block.thinkingSignature;
  return messages.some((message) => isAnswer(message) && blocksIn(message.content).some(isSigned));
}

export function isImage(block: { type: string }): block is ImageContent {
  return block?.type === "image";
}

/** Blocks that are neither text nor image, such as audio: no provider is known to take them, and no summary tells of them. */
export function otherBlocks(content: readonly { type: string }[]): { type: string }[] {
  return blocksIn(content).filter((block) => block && block.type !== "text" && block.type !== "image");
}

export function countImages(content: readonly { type: string }[]): number {
  return blocksIn(content).filter(isImage).length;
}

/** Content blocks of a message, as a provider counts them when it looks back. */
export function blocksOf(message: AgentMessage | undefined): number {
  return message && "content" in message && Array.isArray(message.content) ? message.content.length : 1;
}

/** Size of a result's content in characters, images at their flat price. */
export function contentChars(content: readonly { type: string }[]): number {
  let chars = 0;
  for (const block of blocksIn(content)) chars += isText(block) ? block.text.length : isImage(block) ? IMAGE_CHARS : 0;
  return chars;
}

/** A time in ms since the epoch; `undefined` where it is none. Hosts pass on what a file holds: `null`, nothing, a date as text. */
export function timeOf(timestamp: unknown): number | undefined {
  const time = typeof timestamp === "string" ? Date.parse(timestamp) : timestamp;
  return typeof time === "number" && Number.isFinite(time) ? time : undefined;
}

/**
 * Names one result of a session. Providers reuse call ids, so the id alone names nothing. Records of releases before
 * occurrence keys have no result timestamp and are keyed by the bare id, and so is a result whose message has no time.
 */
export function occurrenceKey(toolCallId: string, resultTimestamp?: number): string {
  const time = timeOf(resultTimestamp);
  return time === undefined ? String(toolCallId) : `${toolCallId}@${time}`;
}

/**
 * The ids by which results are named, asked for in the order of the conversation: each its call's, as a text. Of several
 * in one turn that have id and time in common, as servers that give no ids make them, the second is named `id#2` and so on.
 */
export class ResultIds {
  private readonly turn: ToolResultMessage[] = [];

  /** A turn begins. */
  opens(): void {
    this.turn.length = 0;
  }

  idOf(result: ToolResultMessage): string {
    let place = 1;
    for (const earlier of this.turn) if (hasSameKey(earlier, result)) place += 1;
    this.turn.push(result);
    return place > 1 ? `${result.toolCallId}#${place}` : String(result.toolCallId);
  }
}

/** As `ResultIds`, for the results among `messages` in any order. */
export function resultIdsIn(messages: readonly AgentMessage[]): (result: ToolResultMessage) => string {
  const later = new Map<ToolResultMessage, string>();
  const ids = new ResultIds();
  for (const message of messages) {
    if (isAssistant(message)) ids.opens();
    if (!isToolResult(message)) continue;
    const id = ids.idOf(message);
    if (id !== message.toolCallId) later.set(message, id);
  }
  return (result) => later.get(result) ?? String(result.toolCallId);
}

/** The occurrence keys of the results among `messages`, which begin with a whole turn. */
export function resultKeysIn(messages: readonly AgentMessage[]): (result: ToolResultMessage) => string {
  const idOf = resultIdsIn(messages);
  return (result) => occurrenceKey(idOf(result), result.timestamp);
}

/**
 * Finds the results among `messages` that have one of these keys. A look at their times comes first, since it costs less
 * than the making of a key, and most of a long conversation is passed over.
 */
export function resultFinder(
  messages: readonly AgentMessage[],
  keys: Iterable<string>,
): (index: number) => string | undefined {
  const wanted = new Set(keys);
  const times = new Set(
    [...wanted].map((key) => (key.includes("@") ? Number(key.slice(key.lastIndexOf("@") + 1)) : NaN)),
  );
  return (index) => {
    const message = messages[index];
    const result = message && resultOf(message);
    if (!message || !result) return undefined;
    if (!times.has(result.timestamp) && !times.has(timeOf(result.timestamp) ?? Number.NaN)) return undefined;
    const key = isToolResult(message) ? keyAt(messages, index) : occurrenceKey(result.toolCallId, result.timestamp);
    return key !== undefined && wanted.has(key) ? key : undefined;
  };
}

/** The key of the result at an index, worked out in its turn alone. */
function keyAt(messages: readonly AgentMessage[], index: number): string | undefined {
  let start = index;
  while (start > 0 && messages[start - 1]?.role !== "assistant") start -= 1;
  const ids = new ResultIds();
  let key: string | undefined;
  for (const message of messages.slice(start, index + 1)) {
    if (isToolResult(message)) key = occurrenceKey(ids.idOf(message), message.timestamp);
  }
  return key;
}

/** Occurrence keys of the results among `messages`. */
export function resultKeys(messages: readonly AgentMessage[]): Set<string> {
  return new Set(messages.flatMap((message) => resultOf(message) ?? []).map(resultKeysIn(messages)));
}

function hasSameKey(one: ToolResultMessage, other: ToolResultMessage): boolean {
  if (String(one.toolCallId) !== String(other.toolCallId)) return false;
  return one.timestamp === other.timestamp || timeOf(one.timestamp) === timeOf(other.timestamp);
}

/** Index of the last finished assistant message, or -1. What stands before it has been seen by the model. */
export function lastAnswerIndex(messages: readonly AgentMessage[]): number {
  return messages.findLastIndex(isAnswer);
}
