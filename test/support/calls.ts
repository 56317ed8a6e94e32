/** Finished calls, as a conversation holds them. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ToolCall } from "@mariozechner/pi-ai";

/** An assistant message with one call, and its result at `timestamp`. */
export function finishedCall(
  id: string,
  [name, args, text]: readonly [name: string, args: ToolCall["arguments"], text: string],
  timestamp: number,
  isError = false,
): [AgentMessage, AgentMessage] {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const source = { api: "anthropic-messages", provider: "anthropic", model: "m", usage };
  const content = [{ type: "toolCall" as const, id, name, arguments: args }];
  return [
    { role: "assistant", content, ...source, stopReason: "toolUse", timestamp: timestamp - 0.5 },
    { role: "toolResult", toolCallId: id, toolName: name, content: [{ type: "text", text }], isError, timestamp },
  ];
}
