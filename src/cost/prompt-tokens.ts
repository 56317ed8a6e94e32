/** Tokens of the messages of a prompt, each estimated once while it stays as it is. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { estimateMessageTokens } from "../transcript/tokens.js";

/** What a message of a prompt is known again by: the host hands out fresh copies for every request. */
export interface Mark {
  timestamp: number;
  /** Characters of all its strings, so that a content that was replaced is told from the one before. */
  size: number;
}

export function markOf(message: AgentMessage): Mark {
  return { timestamp: message.timestamp, size: "content" in message ? sizeOf(message.content) : 0 };
}

export function isSameMark(mark: Mark, other: Mark | undefined): boolean {
  return mark.timestamp === other?.timestamp && mark.size === other.size;
}

/** Follows the prompts of one session. */
export class PromptTokens {
  private readonly known: (Mark & { tokens: number })[] = [];

  /** Tokens of the message that stands at `index` of a prompt. */
  at(message: AgentMessage, index: number): number {
    const mark = markOf(message);
    const known = this.known[index];
    if (known && isSameMark(known, mark)) return known.tokens;
    const tokens = estimateMessageTokens(message);
    this.known[index] = { ...mark, tokens };
    return tokens;
  }
}

function sizeOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 1;
  let size = 1;
  for (const part of Object.values(value)) size += sizeOf(part);
  return size;
}
