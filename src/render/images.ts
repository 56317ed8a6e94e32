/** The cap on images in one request, which some providers demand. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isImage, isToolResult } from "../transcript/messages.js";

const NOTE = "[an image stood here; it was left out to keep the request within the allowed number of images]";

/**
 * Leaves out the oldest images where there are more than `cap`, half the cap at a time, so that the prompt changes seldom.
 * Gives back `messages` itself where nothing has to go.
 */
export function capImages(messages: AgentMessage[], cap: number | null): AgentMessage[] {
  if (cap === null) return messages;
  const total = messages.reduce((sum, message) => sum + imagesIn(message), 0);
  if (total <= cap) return messages;
  const step = Math.max(1, Math.floor(cap / 2));
  let left = Math.min(total, Math.ceil((total - cap) / step) * step);
  return messages.map((message) => {
    if (left === 0 || imagesIn(message) === 0) return message;
    const [changed, gone] = withoutImages(message, left);
    left -= gone;
    return changed;
  });
}

function imagesIn(message: AgentMessage): number {
  return contentOf(message)?.filter(isImage).length ?? 0;
}

function contentOf(message: AgentMessage) {
  if (message.role !== "user" && message.role !== "custom" && !isToolResult(message)) return undefined;
  return typeof message.content === "string" ? undefined : message.content;
}

/** The message without its first `max` images, and how many that were. */
function withoutImages(message: AgentMessage, max: number): [AgentMessage, number] {
  let gone = 0;
  const content = contentOf(message)?.map((block) => {
    if (!isImage(block) || gone === max) return block;
    gone += 1;
    return { type: "text" as const, text: NOTE };
  });
  return content ? [{ ...message, content } as AgentMessage, gone] : [message, 0];
}
