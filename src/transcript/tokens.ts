/**
 * Size of a conversation in tokens, estimated from its characters: for decisions and forecasts where no provider has
 * counted yet. Pure, and one pass over the text.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
// Brings the host's own roles (custom, bashExecution, summaries) into `AgentMessage`.
import type {} from "@mariozechner/pi-coding-agent";
import { blocksIn, isAssistant, isDropped, isImage, isText } from "./messages.ts";

/** Characters that the hosts take for one token, whatever the text. */
export const CHARS_PER_TOKEN = 4;

/** Tokens of so many characters by the hosts' own estimate: good enough to compare sizes. */
export function tokensOfChars(chars: number): number {
  return Math.ceil(chars / CHARS_PER_TOKEN);
}

/** Characters that so many tokens are, by the same estimate. */
export function charsOfTokens(tokens: number): number {
  return tokens * CHARS_PER_TOKEN;
}

/** Tokens of one image, whatever its size: pi's own flat estimate. */
export const IMAGE_TOKENS = 1_200;

/** Tokens that a message takes besides its text: role, borders, the wrapping of a call or a result. */
const MESSAGE_TOKENS = 4;
const CALL_TOKENS = 12;

/** Tokens for each UTF-16 code unit by script: averages of current tokenizers, code counted as Latin. */
const LATIN = 1 / 3.7;
const ALPHABETIC = 1 / 2.2;
const SYMBOL = 1 / 1.2;
const IDEOGRAPHIC = 1 / 1.25;
const PAIR_HALF = 1 / 0.9;

/** First code unit that is not of the Latin blocks, accents included. */
const END_OF_LATIN = 0x250;

/** Tokens of a text: about 3.7 characters a token in Latin script and code, about 1.25 in Chinese or Japanese. */
export function estimateTextTokens(text: string): number {
  // Plain ASCII, which most text is, is told from the rest by native code.
  if (Buffer.byteLength(text) === text.length) return text.length * LATIN;
  let latin = 0;
  let tokens = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < END_OF_LATIN) latin += 1;
    else tokens += weightOf(unit);
  }
  return tokens + latin * LATIN;
}

function weightOf(unit: number): number {
  if (unit < 0x2000) return ALPHABETIC;
  if (unit < 0x2e80) return SYMBOL;
  if (unit >= 0xd800 && unit <= 0xdfff) return PAIR_HALF;
  return unit < 0xe000 || (unit >= 0xf900 && unit < 0xfb00) || unit >= 0xfe30 ? IDEOGRAPHIC : ALPHABETIC;
}

/** Tokens of a conversation as a provider would be sent it. */
export function estimateTokens(messages: readonly AgentMessage[]): number {
  return messages.reduce((sum, message) => sum + estimateMessageTokens(message), 0);
}

/** Tokens of a window that pi by default leaves for the system prompt, the tools and the answer: where fewer are left, it compacts. */
export const RESERVE_TOKENS = 16_384;

/** Whether a conversation leaves room in a window of so many tokens; any does where that is unknown. */
export function fitsWindow(messages: readonly AgentMessage[], window: number | undefined): boolean {
  return window === undefined || estimateTokens(messages) <= window - Math.min(RESERVE_TOKENS, window / 4);
}

/** Tokens of one message; 0 for one that no provider is sent. */
export function estimateMessageTokens(message: AgentMessage): number {
  const tokens = bodyTokens(message);
  return tokens === 0 ? 0 : tokens + MESSAGE_TOKENS;
}

function bodyTokens(message: AgentMessage): number {
  switch (message.role) {
    case "user":
    case "toolResult":
    case "custom":
      return contentTokens(message.content);
    case "assistant":
      return isAssistant(message) && isDropped(message) ? 0 : contentTokens(message.content);
    case "bashExecution":
      return message.excludeFromContext
        ? 0
        : estimateTextTokens(message.command) + estimateTextTokens(message.output) + CALL_TOKENS;
    case "branchSummary":
    case "compactionSummary":
      return estimateTextTokens(message.summary) + CALL_TOKENS;
    default:
      return 0;
  }
}

/** Tokens of a content: texts, thinking, calls with their arguments, images. */
export function contentTokens(content: string | readonly { type: string }[]): number {
  if (typeof content === "string") return estimateTextTokens(content);
  let tokens = 0;
  for (const block of blocksIn(content)) tokens += block ? blockTokens(block) : 0;
  return tokens;
}

function blockTokens(block: { type: string }): number {
  if (isText(block)) return estimateTextTokens(block.text);
  if (isImage(block)) return IMAGE_TOKENS;
  if ("thinking" in block && typeof block.thinking === "string") return estimateTextTokens(block.thinking);
  if (block.type !== "toolCall" || !("arguments" in block)) return 0;
  const name = "name" in block && typeof block.name === "string" ? block.name : "";
  return CALL_TOKENS + estimateTextTokens(name) + estimateTextTokens(JSON.stringify(block.arguments) ?? "");
}

/** About the length of the value as JSON, without making it: large arguments are not copied to be measured. */
export function jsonSize(value: unknown): number {
  if (typeof value === "string") return value.length + 2;
  if (Array.isArray(value)) return value.reduce((sum: number, element) => sum + jsonSize(element) + 1, 1);
  if (typeof value !== "object" || value === null) return 4;
  let size = 1;
  // A list of entries would cost more than the look at them.
  for (const key in value) size += key.length + 4 + jsonSize((value as Record<string, unknown>)[key]);
  return size;
}

/**
 * Tokens that a UTF-16 code unit is taken for, on the high side, so that what is fitted does fit: words; digits, which
 * some models read one by one; capitals and signs, of which hashes and base64 are full; anything beyond Latin letters.
 */
const WORD_TOKENS = 0.4;
const SIGN_TOKENS = 0.6;
const DIGIT_TOKENS = 1;
const OTHER_TOKENS = 1.6;

/** Most tokens that a text has; counted no further than `enough`. */
export function mostTokens(text: string, enough = Number.POSITIVE_INFINITY): number {
  let tokens = 0;
  for (let i = 0; i < text.length && tokens <= enough; i++) tokens += mostTokensOfUnit(text.charCodeAt(i));
  return tokens;
}

/** Most tokens that one UTF-16 code unit is taken for. */
export function mostTokensOfUnit(unit: number): number {
  if (unit >= END_OF_LATIN) return OTHER_TOKENS;
  if ((unit >= 0x61 && unit <= 0x7a) || unit === 0x20 || unit === 0x0a) return WORD_TOKENS;
  if (unit >= 0x30 && unit <= 0x39) return DIGIT_TOKENS;
  return SIGN_TOKENS;
}
