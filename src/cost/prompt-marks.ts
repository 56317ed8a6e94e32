/** What the messages of a prompt are known again by, and their tokens, each estimated once while it stays as it is. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { estimateMessageTokens, jsonSize } from "../transcript/tokens.ts";

/** The host hands out fresh copies of its messages for every request. */
export interface Mark {
  timestamp: number;
  /** Characters of all its strings, so that a content that was replaced is told from the one before. */
  size: number;
}

/** Follows the prompts of one session. */
export class PromptMarks {
  private marked: { rendered: readonly AgentMessage[]; marks: readonly Mark[] } | undefined;
  private readonly known: (Mark & { tokens: number })[] = [];

  /** Marks of a prompt's messages. */
  of(rendered: readonly AgentMessage[]): readonly Mark[] {
    if (this.marked?.rendered !== rendered) this.marked = { rendered, marks: rendered.map(markOf) };
    return this.marked.marks;
  }

  /** Tokens of the message at an index of a prompt. */
  tokensAt(rendered: readonly AgentMessage[], index: number): number {
    const mark = this.of(rendered)[index];
    const message = rendered[index];
    if (!mark || !message) return 0;
    const known = this.known[index];
    if (known && isSameMark(known, mark)) return known.tokens;
    const tokens = estimateMessageTokens(message);
    this.known[index] = { ...mark, tokens };
    return tokens;
  }
}

export function isSameMark(mark: Mark, other: Mark | undefined): boolean {
  return mark.timestamp === other?.timestamp && mark.size === other.size;
}

export function markOf(message: AgentMessage): Mark {
  return { timestamp: message.timestamp, size: "content" in message ? jsonSize(message.content) : 0 };
}
