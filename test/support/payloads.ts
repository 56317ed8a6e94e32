/** The final payload that a host's pi-ai builds of messages, captured before anything is sent, for every protocol. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type {
  Api,
  AssistantMessage,
  Context,
  Message,
  Model,
  SimpleStreamOptions,
  TextContent,
  ThinkingContent,
  ToolCall,
} from "@mariozechner/pi-ai";
import { isAssistant, isToolResult } from "../../src/transcript/messages.ts";
import { HOST_PATHS, type Host } from "./host-paths.ts";
import type { Protocol } from "./protocols.ts";

type ModelName = Pick<Model<Api>, "id" | "provider">;

const MODELS: Readonly<Record<Protocol, ModelName>> = {
  "anthropic-messages": { provider: "anthropic", id: "claude-sonnet-4-5" },
  "openai-completions": { provider: "openai", id: "gpt-4o" },
  "openai-responses": { provider: "openai", id: "gpt-5" },
  "google-generative-ai": { provider: "google", id: "gemini-3-pro-preview" },
  "mistral-conversations": { provider: "mistral", id: "mistral-large-latest" },
  "bedrock-converse-stream": { provider: "amazon-bedrock", id: "anthropic.claude-sonnet-4-5-20250929-v1:0" },
};

export function modelOf(api: Protocol): Model<Api> {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const { provider, id } = MODELS[api];
  const sizes = { contextWindow: 200_000, maxTokens: 8_000 };
  return {
    id,
    name: id,
    api,
    provider,
    baseUrl: "http://127.0.0.1:9",
    reasoning: true,
    input: ["text", "image"],
    cost,
    ...sizes,
  };
}

export interface HostLibrary {
  completeSimple(model: Model<Api>, context: Context, options: SimpleStreamOptions): Promise<AssistantMessage>;
  convertToLlm(messages: AgentMessage[]): Message[];
}

export async function libraryOf(host: Host): Promise<HostLibrary> {
  const { completeSimple } = await import(HOST_PATHS[host].ai);
  const { convertToLlm } = await import(HOST_PATHS[host].library);
  return { completeSimple, convertToLlm };
}

/** What would go over the wire; throws where pi-ai cannot build it. */
export async function payloadOf(
  library: HostLibrary,
  model: Model<Api>,
  messages: readonly AgentMessage[],
  tools: Context["tools"] = [],
): Promise<unknown> {
  let payload: unknown;
  const reply = await library.completeSimple(
    model,
    { systemPrompt: "You are a coding agent.", messages: library.convertToLlm([...messages]), tools },
    {
      apiKey: "key",
      maxRetries: 0,
      onPayload: (built: unknown) => {
        payload = built;
        throw new Error("captured");
      },
    },
  );
  if (payload === undefined) throw new Error(`no payload was built: ${reply.errorMessage}`);
  return payload;
}

const base64 = (value: string) => Buffer.from(value).toString("base64");

/** The session as if its first model spoke `api`, with reasoning, signatures and ids as that one gives them. */
export function spokenBy(api: Protocol, messages: readonly AgentMessage[]): AgentMessage[] {
  // Some replies are of another model, whose ids and signatures have another form.
  const other: Protocol = api === "openai-responses" ? "anthropic-messages" : "openai-responses";
  const ids = new Map<string, string>();
  let count = 0;
  const speaker = (message: AssistantMessage): Protocol => (message.model === "other-2" ? other : api);
  return messages.map((message): AgentMessage => {
    if (isToolResult(message)) {
      const content = message.content.map((block) =>
        block.type === "text" && block.text.trim() === "" ? { ...block, text: "ok" } : block,
      );
      const toolCallId = ids.get(message.toolCallId) ?? message.toolCallId;
      return { ...message, toolCallId, content: content.length > 0 ? content : [{ type: "text", text: "ok" }] };
    }
    if (!isAssistant(message)) return message;
    const by = speaker(message);
    const content = message.content.map((block) => {
      count += 1;
      if (block.type === "thinking") return thinkingOf(by, block, count);
      if (block.type === "text") return spokenText(by, block, count);
      ids.set(block.id, idOf(by, count));
      return callOf(by, block, idOf(by, count), count);
    });
    const { provider, id } = MODELS[by];
    return { ...message, api: by, provider, model: id, content };
  });
}

function idOf(api: Protocol, count: number): string {
  if (api === "openai-responses") return `call_${count}|fc_${count}`;
  return api === "mistral-conversations" ? `call${String(count).padStart(5, "0")}` : `toolu_${count}`;
}

function thinkingOf(api: Protocol, block: ThinkingContent, count: number): ThinkingContent {
  const thinking = block.thinking.trim() === "" ? "Hm." : block.thinking;
  const isSigned = block.thinkingSignature !== undefined;
  switch (api) {
    case "anthropic-messages":
      return block.redacted
        ? block
        : { ...block, thinking, ...(isSigned ? { thinkingSignature: base64(`s${count}`) } : {}) };
    case "bedrock-converse-stream":
      return { type: "thinking", thinking, ...(isSigned ? { thinkingSignature: base64(`s${count}`) } : {}) };
    case "openai-responses": {
      const item = { type: "reasoning", id: `rs_${count}`, summary: [], encrypted_content: base64(`e${count}`) };
      return { type: "thinking", thinking, thinkingSignature: JSON.stringify(item) };
    }
    case "openai-completions":
      return { type: "thinking", thinking, thinkingSignature: "reasoning_content" };
    case "google-generative-ai":
      return { type: "thinking", thinking, ...(isSigned ? { thinkingSignature: base64(`thought${count}`) } : {}) };
    case "mistral-conversations":
      return { type: "thinking", thinking };
  }
}

function spokenText(api: Protocol, { text, ...rest }: TextContent, count: number): TextContent {
  if (api === "openai-responses")
    return { ...rest, text, textSignature: JSON.stringify({ v: 1, id: `msg_a${count}` }) };
  const { textSignature: _none, ...plain } = rest;
  return api === "google-generative-ai" && count % 3 === 0
    ? { ...plain, text, textSignature: base64(`text${count}`) }
    : { ...plain, text };
}

function callOf(api: Protocol, block: ToolCall, id: string, count: number): ToolCall {
  const { thoughtSignature: _none, ...plain } = block;
  const signed = (signature: string) => ({ ...plain, id, thoughtSignature: signature });
  if (api === "google-generative-ai" && count % 2 === 0) return signed(base64(`call${count}`));
  const isDetailed = api === "openai-completions" && block.thoughtSignature !== undefined;
  return isDetailed
    ? signed(JSON.stringify({ type: "reasoning.encrypted", id, data: base64(`d${count}`) }))
    : { ...plain, id };
}
