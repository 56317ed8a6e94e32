/** Which ends of earlier prompts the next one still holds: some providers find nothing else in their cache. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { jsonSize } from "../transcript/tokens.js";

/** What a message of a prompt is known again by. */
interface Mark {
  timestamp: number;
  /** Characters of all its strings, so that a content that was replaced is told from the one before. */
  size: number;
}

/** Follows the requests of one session. */
export class PromptEnds {
  private marks: readonly Mark[] = [];
  private ends: readonly number[] = [];

  /** @param rendered the messages of a request as they are sent */
  requestLeaves(rendered: readonly AgentMessage[]): void {
    const marks = rendered.map(markOf);
    const change = this.marks.findIndex((mark, i) => !isSame(mark, marks[i]));
    const common = change < 0 ? this.marks.length : change;
    this.ends = [...this.ends.filter((end) => end <= common), marks.length];
    this.marks = marks;
  }

  /** Nothing that was sent is kept any more. */
  clear(): void {
    this.ends = [];
  }

  /** Numbers of messages after which a prompt ended. */
  get lengths(): ReadonlySet<number> {
    return new Set(this.ends);
  }
}

function markOf(message: AgentMessage): Mark {
  return { timestamp: message.timestamp, size: "content" in message ? jsonSize(message.content) : 0 };
}

function isSame(mark: Mark, other: Mark | undefined): boolean {
  return mark.timestamp === other?.timestamp && mark.size === other.size;
}
