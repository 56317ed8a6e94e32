/** Which result answers which call. */
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import { isDropped, toolCallsOf } from "./messages.js";

/**
 * Pairs results with calls as a provider does once the transcript is repaired: a result belongs to the latest assistant
 * message, whatever stands between the two, and each call has one. Calls of a message that pi-ai leaves out have none.
 * Some servers give several calls of a turn the same id; each of them waits for a result of its own. Ids are compared as texts: some servers
 * give numbers.
 */
export class CallPairing {
  private waiting = new Map<string, ToolCall[]>();

  /** `message` is the latest assistant message now. */
  open(message: Pick<AssistantMessage, "content" | "stopReason">): void {
    this.close();
    if (isDropped(message)) return;
    for (const call of toolCallsOf(message)) {
      const id = String(call.id);
      const queue = this.waiting.get(id);
      if (queue) queue.push(call);
      else this.waiting.set(id, [call]);
    }
  }

  /** No call waits any longer: what comes now answers none of them. */
  close(): void {
    if (this.waiting.size > 0) this.waiting = new Map();
  }

  /** The call that the next result with this id answers; `undefined` where none waits for it. */
  take(toolCallId: string): ToolCall | undefined {
    const id = String(toolCallId);
    const queue = this.waiting.get(id);
    const call = queue?.shift();
    if (queue?.length === 0) this.waiting.delete(id);
    return call;
  }

  /** Whether a call of the latest assistant message still has no result. */
  get isWaiting(): boolean {
    return this.waiting.size > 0;
  }
}
