/** Which result answers which call. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import { isDropped, isToolResult, toolCallsOf } from "./messages.ts";

/**
 * Pairs results with calls as a provider does once the transcript is repaired: a result belongs to the latest assistant
 * message, whatever stands between the two, and each call has one. Calls of a message that pi-ai leaves out have none.
 * Some servers give several calls of a turn the same id; each of them waits for a result of its own. Ids are compared as texts: some servers
 * give numbers.
 */
export class CallPairing {
  /** Calls without a result yet, in their order: the next result is most often that of the first. */
  private waiting: ToolCall[] = [];

  /** `message` is the latest assistant message now. */
  open(message: Pick<AssistantMessage, "content" | "stopReason">): void {
    this.waiting = isDropped(message) ? [] : toolCallsOf(message);
  }

  /** No call waits any longer: what comes now answers none of them. */
  close(): void {
    if (this.waiting.length > 0) this.waiting = [];
  }

  /** The call that the next result with this id answers; `undefined` where none waits for it. */
  take(toolCallId: string): ToolCall | undefined {
    const id = String(toolCallId);
    const place = this.waiting.findIndex((call) => String(call.id) === id);
    const call = this.waiting[place];
    if (place === 0) this.waiting.shift();
    else if (call) this.waiting.splice(place, 1);
    return call;
  }

  /** The arguments that a result came of: of the call that it answers, or the command that the user has run. */
  argumentsFor(message: AgentMessage): Record<string, unknown> | undefined {
    if (message.role === "bashExecution") return { command: message.command };
    return isToolResult(message) ? this.take(message.toolCallId)?.arguments : undefined;
  }

  /** Whether a call of the latest assistant message still has no result. */
  get isWaiting(): boolean {
    return this.waiting.length > 0;
  }
}
