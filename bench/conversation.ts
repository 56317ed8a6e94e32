/** A made-up conversation for measurements where no recording is at hand; the same for every run. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { isToolResult } from "../src/transcript/messages.ts";

const USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
const TURNS_A_PROMPT = 7;

/** At least `size` messages: prompts, each followed by tool turns with reads and writes, and a closing reply. */
export function generateConversation(size: number): AgentMessage[] {
  const messages: AgentMessage[] = [];
  let clock = 1_700_000_000_000;
  const next = () => {
    clock += 1_000;
    return clock;
  };
  while (messages.length < size) {
    messages.push({ role: "user", content: [{ type: "text", text: `Request ${messages.length}` }], timestamp: next() });
    for (let turn = 0; turn < TURNS_A_PROMPT; turn++) messages.push(...toolTurn(messages.length, next));
    messages.push(reply([{ type: "text", text: "That is done." }], "stop", next()));
  }
  return messages;
}

function toolTurn(seed: number, next: () => number): AgentMessage[] {
  const isWrite = seed % 5 === 0;
  const text = Array.from(
    { length: 20 + ((seed * 37) % 180) },
    (_, i) => `line ${i} of output ${seed}: value ${(seed * i) % 977}`,
  );
  const body = text.join("\n");
  const path = `src/file${seed}.ts`;
  const args: Record<string, string> = isWrite ? { path, content: body } : { path };
  const name = isWrite ? "write" : "read";
  return [
    reply([{ type: "toolCall", id: `call_${seed}`, name, arguments: args }], "toolUse", next()),
    {
      role: "toolResult",
      toolCallId: `call_${seed}`,
      toolName: name,
      content: [{ type: "text", text: isWrite ? `Successfully wrote to src/file${seed}.ts` : body }],
      isError: false,
      timestamp: next(),
    },
  ];
}

function reply(
  content: AssistantMessage["content"],
  stopReason: AssistantMessage["stopReason"],
  timestamp: number,
): AssistantMessage {
  const usage = { ...USAGE, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
  return {
    role: "assistant",
    content,
    api: "made-up",
    provider: "made-up",
    model: "made-up",
    usage,
    stopReason,
    timestamp,
  };
}

/** The conversation over and over, with ids and timestamps of its own each time, up to `size` messages. */
export function repeat(messages: readonly AgentMessage[], size: number): AgentMessage[] {
  const span = (messages.at(-1)?.timestamp ?? 0) - (messages[0]?.timestamp ?? 0) + 60_000;
  return Array.from({ length: size }, (_, i): AgentMessage => {
    const round = Math.floor(i / messages.length);
    const message = structuredClone(messages[i % messages.length]);
    if (!message) throw new Error("the conversation is empty");
    message.timestamp += round * span;
    if (isToolResult(message))
      return { ...message, toolCallId: `${message.toolCallId}-${round}`, content: vary(message.content, round) };
    if (message.role === "assistant") {
      for (const block of message.content) if (block.type === "toolCall") block.id = `${block.id}-${round}`;
    }
    return message;
  });
}

/** So that the rounds are no repeats of each other. */
function vary<T extends { type: string }>(content: T[], round: number): T[] {
  return content.map((block) => ("text" in block && round > 0 ? { ...block, text: `${round}\n${block.text}` } : block));
}
