/** Reading the host's messages: texts, calls, answers, occurrence keys. Nothing here changes a message. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ImageContent, TextContent, ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import { CUSTOM_TYPE_SUMMARY } from "../types.js";

/** Characters that one image counts for in every size comparison: pi's own flat estimate (1,200 tokens). */
export const IMAGE_CHARS = 4800;

export function isAssistant(message: AgentMessage): message is AssistantMessage {
  return message.role === "assistant";
}

export function isToolResult(message: AgentMessage): message is ToolResultMessage {
  return message.role === "toolResult";
}

/** The assistant finished this message: pi-ai drops errored and aborted ones, so they answer nothing. */
export function isAnswer(message: AgentMessage): message is AssistantMessage {
  return isAssistant(message) && !isDropped(message);
}

/** pi-ai leaves this assistant message out of the request, its calls with it. */
export function isDropped(message: AssistantMessage): boolean {
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
export function toolCallsOf(message: AssistantMessage): ToolCall[] {
  return Array.isArray(message.content) ? message.content.filter((block) => block.type === "toolCall") : [];
}

/** Text of a message content, blocks joined by a newline; images and other blocks left out. */
export function textOf(content: string | readonly { type: string }[]): string {
  if (typeof content === "string") return content;
  const texts = content.filter(isText).map((block) => block.text);
  return texts.length === 1 ? (texts[0] ?? "") : texts.join("\n");
}

/**
 * The text of a tool result as capture, recovery and relocation all give it: text blocks joined by a newline.
 * A result with one text block gives that very string, so that holding it costs no memory.
 */
export function extractToolResultText(message: Pick<ToolResultMessage, "content">): string {
  return Array.isArray(message.content) ? textOf(message.content) : "";
}

export function isText(block: { type: string }): block is TextContent {
  return block.type === "text" && "text" in block && typeof block.text === "string";
}

/** Whether some text of an assistant message says anything. */
export function hasSpeech(content: AssistantMessage["content"]): boolean {
  return content.some((block) => isText(block) && block.text.trim() !== "");
}

/** Some reply among the messages carries thinking that its provider has signed. */
export function holdsSignedThinking(messages: readonly AgentMessage[]): boolean {
  const isSigned = (block: AssistantMessage["content"][number]) => block.type === "thinking" && block.thinkingSignature;
  return messages.some((message) => isAnswer(message) && message.content.some(isSigned));
}

export function isImage(block: { type: string }): block is ImageContent {
  return block.type === "image";
}

export function countImages(content: readonly { type: string }[]): number {
  return content.filter(isImage).length;
}

/** Content blocks of a message, as a provider counts them when it looks back. */
export function blocksOf(message: AgentMessage | undefined): number {
  return message && "content" in message && Array.isArray(message.content) ? message.content.length : 1;
}

/** Size of a result's content in characters, images at their flat price. */
export function contentChars(content: readonly { type: string }[]): number {
  let chars = 0;
  for (const block of content) chars += isText(block) ? block.text.length : isImage(block) ? IMAGE_CHARS : 0;
  return chars;
}

/**
 * Names one result of a session. Providers reuse call ids, so the id alone names nothing; records of releases before
 * occurrence keys have no result timestamp and are keyed by the bare id.
 */
export function occurrenceKey(toolCallId: string, resultTimestamp?: number): string {
  return resultTimestamp === undefined ? toolCallId : `${toolCallId}@${resultTimestamp}`;
}

/** Occurrence keys of the results among `messages`. */
export function resultKeys(messages: readonly AgentMessage[]): Set<string> {
  return new Set(messages.filter(isToolResult).map((result) => occurrenceKey(result.toolCallId, result.timestamp)));
}

/** Index of the last finished assistant message, or -1. What stands before it has been seen by the model. */
export function lastAnswerIndex(messages: readonly AgentMessage[]): number {
  return messages.findLastIndex(isAnswer);
}
