/**
 * A model that says what a script tells it to, for in-process sessions and for the real command line.
 *
 * Runs on both hosts, so it takes from them only what it is handed.
 */
import { randomUUID } from "node:crypto";
import type {
  Api,
  AssistantMessage,
  AssistantMessageEventStream,
  Context,
  Message,
  Model,
  SimpleStreamOptions,
  Tool,
  ToolCall,
  Usage,
} from "@mariozechner/pi-ai";
import type { ProviderConfig } from "@mariozechner/pi-coding-agent";

export const SCRIPTED_PROVIDER = "scripted";
export const SCRIPTED_API = "scripted-api";
/** Model ids that a script has where it names none: the session's model, and a cheap one for summaries. */
export const MAIN_MODEL = "main";
export const SUMMARY_MODEL = "sum";

/** A model to register; what is left out is taken from `main` of the default models. */
export interface ScriptedModel {
  id: string;
  /** The protocol that its requests are said to be for; the one of the first model holds for all. */
  api?: string;
  contextWindow?: number;
  maxTokens?: number;
  reasoning?: boolean;
  input?: ("text" | "image")[];
  /** USD per million tokens. */
  cost?: { input: number; output: number; cacheRead: number; cacheWrite: number };
}

export interface ScriptedCall {
  name: string;
  arguments: Record<string, unknown>;
  /** Made up where missing, and then never the same twice. */
  id?: string;
}

/** One reply. The order of its blocks is thinking, text, calls. */
export interface ScriptedReply {
  text?: string;
  thinking?: string;
  thinkingSignature?: string;
  calls?: ScriptedCall[];
  /** `toolUse` with calls and `stop` without, unless said otherwise. */
  stopReason?: "stop" | "length" | "toolUse" | "error" | "aborted";
  errorMessage?: string;
  /** Tokens that the provider reports. What is missing is estimated at four characters a token, with a prompt cache. */
  usage?: Partial<Pick<Usage, "input" | "output" | "cacheRead" | "cacheWrite">>;
  /** Milliseconds before the stream says anything. */
  delayMs?: number;
  /** Milliseconds before each word of the text; the stream opens at once. */
  dripMs?: number;
}

/** A reply for the requests that match: all of the conditions that are given must hold. */
export interface ScriptRule<R = ScriptedReply> {
  model?: string;
  /** Regular expression that the text of the last user message matches. */
  lastUser?: string;
  /** Regular expression that the system prompt matches. */
  system?: string;
  reply: R;
  /** How often the rule applies; without a limit where missing. */
  times?: number;
}

/** What the models say. Without functions in it, it can be handed to another process as JSON. */
export interface Script<R = ScriptedReply> {
  models?: ScriptedModel[];
  /** Replies of the first model, one after the other. */
  replies?: R[];
  /** Replies of the other models by id, one after the other. */
  repliesOf?: Record<string, R[]>;
  /**
   * Looked at before the lists, in this order: `system` tells the requests of a summariser that uses the session's own
   * model from those of the session.
   */
  rules?: ScriptRule<R>[];
  /** What any model says when nothing else is left for it. Without it such a request ends in an error. */
  otherwise?: R;
}

/** A request as it came to the provider. */
export interface ScriptedRequest {
  model: string;
  systemPrompt: string;
  /** The messages without system ones, which only one host puts there. */
  messages: Message[];
  /** All messages in order, system ones included. */
  transcript: Message[];
  /** Names of the tools that the model may call. */
  tools: string[];
  reasoning?: string;
  maxTokens?: number;
  cacheRetention?: string;
  sessionId?: string;
  /** When it came, ms since the epoch. */
  at: number;
}

/** Answers a request; a thrown error becomes an errored reply. */
export type Responder = (request: ScriptedRequest, signal?: AbortSignal) => ScriptedReply | Promise<ScriptedReply>;

/** A reply, or a function that makes one of the request it answers. */
export type Reply = ScriptedReply | Responder;

/** What is needed of the host's pi-ai; handed in because each host has its own. */
export interface StreamMaker {
  createAssistantMessageEventStream(): AssistantMessageEventStream;
}

const DEFAULT_MODELS: readonly [Required<ScriptedModel>, Required<ScriptedModel>] = [
  {
    id: MAIN_MODEL,
    api: SCRIPTED_API,
    contextWindow: 200_000,
    maxTokens: 8000,
    reasoning: true,
    input: ["text", "image"],
    cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
  },
  {
    id: SUMMARY_MODEL,
    api: SCRIPTED_API,
    contextWindow: 100_000,
    maxTokens: 4000,
    reasoning: false,
    input: ["text"],
    cost: { input: 0.1, output: 0.4, cacheRead: 0.01, cacheWrite: 0.125 },
  },
];

/** The models of a script, complete; the first one is the session's. */
export function modelsOf(script: {
  models?: ScriptedModel[];
}): [Required<ScriptedModel>, ...Required<ScriptedModel>[]] {
  const [first, ...others] = script.models ?? [];
  if (!first) return [...DEFAULT_MODELS];
  const complete = (model: ScriptedModel) => ({ ...DEFAULT_MODELS[0], ...model });
  return [complete(first), ...others.map(complete)];
}

/** The messages of a transcript without system ones. */
export function withoutSystem(transcript: readonly Message[]): Message[] {
  return transcript.filter((message) => asSystem(message) === undefined);
}

/** A responder that goes through a script once. What is added to `mainReplies` later is taken from there in its turn. */
export function scriptResponder(script: Script<Reply>, mainReplies: Reply[] = [...(script.replies ?? [])]): Responder {
  const main = modelsOf(script)[0].id;
  const others = Object.entries(script.repliesOf ?? {}).map(([id, replies]): [string, Reply[]] => [id, [...replies]]);
  const queues = new Map([[main, mainReplies], ...others]);
  const rules = (script.rules ?? []).map((rule) => ({ ...rule, left: rule.times ?? Number.POSITIVE_INFINITY }));
  return (request, signal) => {
    const rule = rules.find((candidate) => candidate.left > 0 && ruleMatches(candidate, request));
    if (rule) rule.left--;
    const reply = rule?.reply ?? queues.get(request.model)?.shift() ?? script.otherwise;
    if (!reply) throw new Error(`The script has no reply left for model "${request.model}"`);
    return typeof reply === "function" ? reply(request, signal) : reply;
  };
}

/** Configuration for `pi.registerProvider(SCRIPTED_PROVIDER, …)`; every request goes to `onRequest`, then to `responder`. */
export function scriptedProvider(
  maker: StreamMaker,
  models: readonly Required<ScriptedModel>[],
  responder: Responder,
  onRequest: (request: ScriptedRequest) => void,
): ProviderConfig {
  const caches = new Map<string, string[]>();
  const streamSimple = (model: Model<Api>, context: Context, options?: SimpleStreamOptions) => {
    const stream = maker.createAssistantMessageEventStream();
    const request = recordRequest(model, context, options);
    const draft: AssistantMessage = {
      role: "assistant",
      content: [],
      api: model.api,
      provider: model.provider,
      model: model.id,
      usage: estimateUsage(request, model, caches),
      stopReason: "stop",
      timestamp: Date.now(),
    };
    const signal = options?.signal;
    const finish = (stopReason: "error" | "aborted", errorMessage: string) => {
      const error: AssistantMessage = { ...draft, stopReason, errorMessage };
      stream.push({ type: "error", reason: stopReason, error });
      stream.end(error);
    };
    const run = async () => {
      onRequest(request);
      await options?.onResponse?.({ status: 200, headers: {} }, model);
      const reply = await responder(request, signal);
      await pause(reply.delayMs, signal);
      await play(stream, draft, reply, model, signal);
    };
    // The host reads the stream after it got it, as it does with a real provider.
    queueMicrotask(() => {
      run().catch((error: unknown) => {
        if (signal?.aborted) finish("aborted", "Request was aborted");
        else finish("error", error instanceof Error ? error.message : String(error));
      });
    });
    return stream;
  };
  return {
    baseUrl: "http://127.0.0.1:9",
    apiKey: "scripted-key",
    api: models[0]?.api ?? SCRIPTED_API,
    streamSimple,
    models: models.map((model) => ({ ...model, name: model.id })),
  };
}

function ruleMatches(rule: ScriptRule<unknown>, request: ScriptedRequest): boolean {
  if (rule.model !== undefined && rule.model !== request.model) return false;
  if (rule.system !== undefined && !new RegExp(rule.system, "u").test(request.systemPrompt)) return false;
  if (rule.lastUser === undefined) return true;
  const last = request.messages.findLast((message) => message.role === "user");
  return last !== undefined && new RegExp(rule.lastUser, "u").test(textOfMessage(last));
}

function textOfMessage(message: Message): string {
  if (typeof message.content === "string") return message.content;
  return message.content.map((block) => (block.type === "text" ? block.text : "")).join("\n");
}

/** Streams the reply block by block, a whole block a delta unless it drips. Throws when the signal ends it. */
async function play(
  stream: AssistantMessageEventStream,
  draft: AssistantMessage,
  reply: ScriptedReply,
  model: Model<Api>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const content = contentOf(reply);
  const partial: AssistantMessage = { ...draft, content: [] };
  stream.push({ type: "start", partial: { ...partial } });
  for (const [contentIndex, block] of content.entries()) {
    const show = (shown: AssistantMessage["content"][number]) => {
      partial.content = [...content.slice(0, contentIndex), shown];
      return { contentIndex, partial: { ...partial } };
    };
    if (block.type === "text") {
      stream.push({ type: "text_start", ...show({ ...block, text: "" }) });
      let text = "";
      for (const delta of reply.dripMs === undefined ? [block.text] : block.text.split(/(?<=\s)/u)) {
        await pause(reply.dripMs, signal);
        text += delta;
        stream.push({ type: "text_delta", delta, ...show({ ...block, text }) });
      }
      stream.push({ type: "text_end", content: block.text, ...show(block) });
    } else if (block.type === "thinking") {
      stream.push({ type: "thinking_start", ...show({ ...block, thinking: "" }) });
      stream.push({ type: "thinking_delta", delta: block.thinking, ...show(block) });
      stream.push({ type: "thinking_end", content: block.thinking, ...show(block) });
    } else {
      stream.push({ type: "toolcall_start", ...show({ ...block, arguments: {} }) });
      stream.push({ type: "toolcall_delta", delta: JSON.stringify(block.arguments), ...show(block) });
      stream.push({ type: "toolcall_end", toolCall: block, ...show(block) });
    }
  }
  const reason = reply.stopReason ?? (reply.calls?.length ? "toolUse" : "stop");
  const message: AssistantMessage = {
    ...draft,
    content,
    stopReason: reason,
    usage: usageOf(draft, reply, content, model),
  };
  if (reason === "error" || reason === "aborted") {
    const error: AssistantMessage = { ...message, errorMessage: reply.errorMessage ?? `Scripted ${reason}` };
    stream.push({ type: "error", reason, error });
    stream.end(error);
  } else {
    stream.push({ type: "done", reason, message });
    stream.end(message);
  }
}

function contentOf(reply: ScriptedReply): AssistantMessage["content"] {
  const content: AssistantMessage["content"] = [];
  if (reply.thinking !== undefined) {
    const signature = reply.thinkingSignature === undefined ? {} : { thinkingSignature: reply.thinkingSignature };
    content.push({ type: "thinking", thinking: reply.thinking, ...signature });
  }
  if (reply.text !== undefined) content.push({ type: "text", text: reply.text });
  for (const call of reply.calls ?? []) {
    const args = structuredClone(call.arguments) as ToolCall["arguments"];
    content.push({ type: "toolCall", id: call.id ?? `call-${randomUUID()}`, name: call.name, arguments: args });
  }
  return content;
}

function recordRequest(model: Model<Api>, context: Context, options: SimpleStreamOptions | undefined): ScriptedRequest {
  const transcript = context.messages.map(copyMessage);
  const prompts: string[] = context.systemPrompt ? [context.systemPrompt] : [];
  const tools = new Set((context.tools ?? []).map((tool) => tool.name));
  for (const message of transcript) {
    const system = asSystem(message);
    if (!system) continue;
    prompts.push(...system.texts);
    for (const tool of system.removed) tools.delete(tool);
    for (const tool of system.added) tools.add(tool);
  }
  return {
    model: model.id,
    systemPrompt: prompts.join("\n\n"),
    messages: withoutSystem(transcript),
    transcript,
    tools: [...tools],
    reasoning: options?.reasoning,
    maxTokens: options?.maxTokens,
    cacheRetention: options?.cacheRetention,
    sessionId: options?.sessionId,
    at: Date.now(),
  };
}

/** One host sends prompt and tools as messages of a role that the other one's types do not know. */
interface SystemShape {
  role: string;
  content?: string | { type: string; text: string }[];
  sections?: Record<string, string | null>;
  toolsAdded?: Pick<Tool, "name">[];
  toolsRemoved?: { name: string }[];
}

function asSystem(message: { role: string }): { texts: string[]; added: string[]; removed: string[] } | undefined {
  if (message.role !== "system") return undefined;
  const { content, sections, toolsAdded, toolsRemoved } = message as SystemShape;
  const text = typeof content === "string" ? content : (content ?? []).map((block) => block.text).join("\n");
  return {
    texts: [text, ...Object.values(sections ?? {})].filter((part): part is string => Boolean(part)),
    added: (toolsAdded ?? []).map((tool) => tool.name),
    removed: (toolsRemoved ?? []).map((tool) => tool.name),
  };
}

function copyMessage(message: Message): Message {
  // Tool schemas in system messages hold what no structured clone can copy.
  const isSystem = asSystem(message) !== undefined;
  return isSystem ? (JSON.parse(JSON.stringify(message)) as Message) : structuredClone(message);
}

/** Input side of the usage: what the request before this one already held counts as read from the cache. */
function estimateUsage(request: ScriptedRequest, model: Model<Api>, caches: Map<string, string[]>): Usage {
  const parts = [
    request.systemPrompt,
    request.tools.join(),
    ...request.messages.map((message) => JSON.stringify(message)),
  ];
  const tokens = (list: readonly string[]) => Math.ceil(list.reduce((sum, part) => sum + part.length, 0) / 4);
  const before = caches.get(model.id);
  const cached = request.cacheRetention !== "none";
  if (cached) caches.set(model.id, parts);
  const same = cached && before ? parts.findIndex((part, index) => part !== before[index]) : 0;
  const cacheRead = tokens(same < 0 ? parts : parts.slice(0, same));
  const rest = Math.max(0, tokens(parts) - cacheRead);
  return priced({ input: cached ? 0 : rest, output: 0, cacheRead, cacheWrite: cached ? rest : 0 }, model);
}

function usageOf(
  draft: AssistantMessage,
  reply: ScriptedReply,
  content: AssistantMessage["content"],
  model: Model<Api>,
): Usage {
  const { input, cacheRead, cacheWrite } = draft.usage;
  const output = Math.ceil(JSON.stringify(content).length / 4);
  // Whoever scripts the input means the whole of it, unless the cache is scripted too.
  const estimate =
    reply.usage?.input === undefined ? { input, cacheRead, cacheWrite } : { cacheRead: 0, cacheWrite: 0 };
  return priced({ input: 0, output, ...estimate, ...reply.usage }, model);
}

type Tokens = Pick<Usage, "input" | "output" | "cacheRead" | "cacheWrite">;

function priced(tokens: Tokens, model: Model<Api>): Usage {
  const price = (kind: keyof Tokens) => (tokens[kind] * model.cost[kind]) / 1_000_000;
  const cost = {
    input: price("input"),
    output: price("output"),
    cacheRead: price("cacheRead"),
    cacheWrite: price("cacheWrite"),
  };
  const totalTokens = tokens.input + tokens.output + tokens.cacheRead + tokens.cacheWrite;
  return {
    ...tokens,
    totalTokens,
    cost: { ...cost, total: cost.input + cost.output + cost.cacheRead + cost.cacheWrite },
  };
}

/** Waits; rejects as soon as the signal ends it, also when there is nothing to wait for. */
async function pause(ms: number | undefined, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  if (ms === undefined) return;
  await new Promise<void>((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new Error("Request was aborted"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
