/** All that differs between the hosts, and all that is read from their contexts. */
import { type Api, type Context, type Model, type SimpleStreamOptions, streamSimple } from "@mariozechner/pi-ai";
import {
  type ContextUsage,
  type ExtensionAPI,
  type ExtensionContext,
  type ExtensionUIContext,
  getAgentDir,
  type ModelRegistry,
} from "@mariozechner/pi-coding-agent";
import type { EntrySource } from "./session/branch.js";
import type { ReplyStream, SummaryModel } from "./summarizer.js";
import type { SummaryRequest } from "./summary/prompt.js";
import type { ContextPruneConfig } from "./types.js";

/** Characters a token is taken to hold when a request is fitted into a window: low, so that it fits. */
const CHARS_PER_TOKEN = 2.5;
const MAX_ANSWER_TOKENS = 16_384;

/** What the handlers read of a session: it stays readable after the session has been replaced. */
export interface SessionReader extends EntrySource {
  getSessionId(): string;
  getSessionDir(): string;
  getSessionFile(): string | undefined;
  getHeader(): { parentSession?: string } | null;
}

/** Everything a handler needs of its context, read before its first `await`, since a context goes stale. */
export interface HostSnapshot {
  session: SessionReader;
  models: ModelRegistry;
  model: Model<Api> | undefined;
  ui: Pick<ExtensionUIContext, "notify"> | undefined;
  agentDir: string;
  cwd: string;
  projectTrusted: boolean;
  /** Ends when the user ends the run; `undefined` while the agent is idle. */
  signal: AbortSignal | undefined;
  /** Size of the context as the host knows it; to be asked before the first `await`. */
  usage(): ContextUsage | undefined;
}

/**
 * What a handler needs of its context, or `undefined` where the session has been replaced: the older host runs the
 * events that were still queued then, with a context that throws when it is read.
 */
export function readContext(ctx: ExtensionContext): HostSnapshot | undefined {
  try {
    return snapshot(ctx);
  } catch {
    return undefined;
  }
}

function snapshot(ctx: ExtensionContext): HostSnapshot {
  return {
    session: ctx.sessionManager,
    models: ctx.modelRegistry,
    model: ctx.model,
    ui: ctx.hasUI ? ctx.ui : undefined,
    agentDir: getAgentDir(),
    cwd: ctx.cwd,
    projectTrusted: isProjectTrusted(ctx),
    signal: ctx.signal,
    usage: () => ctx.getContextUsage(),
  };
}

/** Appends a custom entry to the session. Throws once the session has been replaced. */
export function appenderOf(pi: ExtensionAPI): (customType: string, data: unknown) => void {
  return (customType, data) => pi.appendEntry(customType, data);
}

/** Only the newer host asks the user whether a project may bring its own settings. */
function isProjectTrusted(ctx: object): boolean {
  return !("isProjectTrusted" in ctx) || typeof ctx.isProjectTrusted !== "function" || ctx.isProjectTrusted() !== false;
}

/** The summariser that the settings name, or why there is none. */
export type SummarizerChoice =
  | { kind: "digest" }
  | { kind: "model"; model: SummaryModel }
  | { kind: "missing"; reason: string };

export function chooseSummarizer(
  config: Pick<ContextPruneConfig, "summarizerModel" | "summarizerThinking">,
  host: HostSnapshot,
): SummarizerChoice {
  const name = config.summarizerModel;
  if (name === "none") return { kind: "digest" };
  const slash = name.indexOf("/");
  const model = name === "default" ? host.model : host.models.find(name.slice(0, slash), name.slice(slash + 1));
  if (!model) {
    const reason = name === "default" ? "the session has no model" : `summarizerModel names an unknown model: ${name}`;
    return { kind: "missing", reason };
  }
  return { kind: "model", model: bindModel(model, config, host.models) };
}

function bindModel(
  model: Model<Api>,
  { summarizerThinking }: Pick<ContextPruneConfig, "summarizerThinking">,
  models: ModelRegistry,
): SummaryModel {
  const answerTokens = Math.min(model.maxTokens || MAX_ANSWER_TOKENS, MAX_ANSWER_TOKENS);
  const inputTokens = Math.max(1_000, model.contextWindow - answerTokens);
  const thinks = model.reasoning && summarizerThinking !== "default" && summarizerThinking !== "off";
  return {
    name: `${model.provider}/${model.id}`,
    maxInputChars: Math.floor(inputTokens * CHARS_PER_TOKEN),
    open: (request, signal) =>
      openStream(model, models, request, {
        signal,
        maxTokens: answerTokens,
        maxRetries: 1,
        cacheRetention: "none",
        // "off" must not be passed on: some serialisers take it for a level.
        ...(thinks ? { reasoning: summarizerThinking } : {}),
      }),
  };
}

/** Calls a model as the host itself does: keys, headers and custom providers are the registry's business. */
async function openStream(
  model: Model<Api>,
  models: ModelRegistry,
  request: SummaryRequest,
  options: SimpleStreamOptions,
): Promise<ReplyStream> {
  const context: Context = {
    systemPrompt: request.systemPrompt,
    messages: [{ role: "user", content: [{ type: "text", text: request.text }], timestamp: Date.now() }],
  };
  if (streamsItself(models)) return models.streamSimple(model, context, options);
  const auth = await models.getApiKeyAndHeaders(model);
  if (!auth.ok) throw new Error(auth.error);
  return streamSimple(model, context, { ...options, apiKey: auth.apiKey, headers: auth.headers });
}

/** The newer host's registry streams through the provider that the model belongs to, custom ones included. */
function streamsItself(models: object): models is { streamSimple: typeof streamSimple } {
  return "streamSimple" in models && typeof models.streamSimple === "function";
}
