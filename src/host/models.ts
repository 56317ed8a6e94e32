/** The models of the host as summarisers: which one the settings name, and how it is called. */
import {
  type Api,
  type Context,
  clampThinkingLevel,
  getSupportedThinkingLevels,
  type Model,
  type ModelThinkingLevel,
  type SimpleStreamOptions,
  streamSimple,
} from "@mariozechner/pi-ai";
import type { ModelRegistry } from "@mariozechner/pi-coding-agent";
import type { Rates } from "../cost/prices.ts";
import type { ModelChoice, ReplyStream, SummaryModel } from "../summarizer.ts";
import type { SummaryRequest } from "../summary/prompt.ts";
import { nearest } from "../text/nearest.ts";
import type { ContextPruneConfig } from "../types.ts";
import type { HostSnapshot } from "./host.ts";

/** Tokens that an answer may take, and one with thinking, which counts among them with some providers. */
const MAX_ANSWER_TOKENS = 16_384;
const MAX_THINKING_ANSWER_TOKENS = 49_152;
/** Share of a small window that is left for the answer at most. */
const MAX_ANSWER_SHARE = 0.3;

/** What is taken for the window of a model that does not say. */
const USUAL_WINDOW = 128_000;
/** Milliseconds that a provider may ask to wait before it is tried once more; longer is trouble. */
const MAX_RETRY_DELAY_MS = 5_000;

/** `max` is the highest that a model has; only the newer host knows it as a level of its own. */
type Level = ModelThinkingLevel | "max";

const LEVELS: readonly Level[] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/** The summariser that the settings name, or why there is none. */
export type SummarizerChoice =
  | { kind: "digest" }
  | { kind: "model"; models: ModelChoice; isOptional: boolean }
  | { kind: "missing"; reason: string };

type SummarizerSettings = Pick<ContextPruneConfig, "summarizerModel" | "summarizerThinking">;

/** A model that the settings name, and the thinking level that its name carries. */
export interface NamedModel {
  model: Model<Api>;
  level?: Level;
}

/** Reads `summarizerModel` and `summarizerThinking` against the models that the host knows. */
export function chooseSummarizer(
  config: SummarizerSettings,
  host: Pick<HostSnapshot, "models" | "model">,
): SummarizerChoice {
  const { summarizerModel } = config;
  if (summarizerModel === "none") return { kind: "digest" };
  const session = host.model && bindModel({ model: host.model }, config, host.models);
  if (summarizerModel === "auto") {
    // What costs nothing in the host's table takes time, or requests of a plan.
    const isPriced = (host.model?.cost.input ?? 0) > 0;
    return session && isPriced
      ? { kind: "model", models: { configured: session }, isOptional: true }
      : { kind: "digest" };
  }
  if (summarizerModel === "default") {
    return session
      ? { kind: "model", models: { configured: session }, isOptional: false }
      : missing("the session has no model. Choose a summariser with /pruner model");
  }
  const named = findModel(summarizerModel, host.models);
  if (!named) return missing(unknownModel(summarizerModel, host.models));
  const { provider } = named.model;
  if (!host.models.hasConfiguredAuth(named.model)) {
    return missing(
      `there is no key for summarizerModel ${summarizerModel}. Use /login for ${provider}, or /pruner model`,
    );
  }
  const configured = bindModel(named, config, host.models);
  return { kind: "model", models: { configured, session }, isOptional: false };
}

/** The model of `provider/id` or `provider/id:level`; ids may hold slashes and colons themselves. */
export function findModel(name: string, models: Pick<ModelRegistry, "find">): NamedModel | undefined {
  const slash = name.indexOf("/");
  const find = (id: string) => models.find(name.slice(0, slash), id);
  const id = name.slice(slash + 1);
  const exact = find(id);
  if (exact) return { model: exact };
  const colon = id.lastIndexOf(":");
  const level = LEVELS.find((candidate) => candidate === id.slice(colon + 1));
  const model = colon < 0 || !level ? undefined : find(id.slice(0, colon));
  return model && { model, level };
}

/**
 * How much the summariser that the settings name will think: a level that it has, or `off`. `undefined` where there is
 * no model.
 */
export function thinkingOf(
  config: SummarizerSettings,
  host: Pick<HostSnapshot, "models" | "model">,
): { name: string; level: string; named: boolean } | undefined {
  const { summarizerModel } = config;
  const named = findConfigured(summarizerModel, host);
  if (!named) return undefined;
  const { model, level } = named;
  const name = `${model.provider}/${model.id}`;
  return { name, level: reasoningFor(model, level ?? config.summarizerThinking) ?? "off", named: level !== undefined };
}

/** The prices of the summariser that the settings name; `undefined` where there is no model. */
export function summarizerRates(
  { summarizerModel }: Pick<SummarizerSettings, "summarizerModel">,
  host: Pick<HostSnapshot, "models" | "model">,
): Rates | undefined {
  return findConfigured(summarizerModel, host)?.model.cost;
}

function findConfigured(
  name: string,
  { models, model }: Pick<HostSnapshot, "models" | "model">,
): NamedModel | undefined {
  if (name === "none") return undefined;
  return name === "default" || name === "auto" ? model && { model } : findModel(name, models);
}

function unknownModel(name: string, models: Pick<ModelRegistry, "getAvailable">): string {
  const known = models.getAvailable().map((model) => `${model.provider}/${model.id}`);
  const close = nearest(name, known);
  const hint = close.length > 0 ? ` Nearest: ${close.join(", ")}.` : "";
  return `summarizerModel names an unknown model: ${name}.${hint} Choose one with /pruner model`;
}

function missing(reason: string): SummarizerChoice {
  return { kind: "missing", reason };
}

function bindModel({ model, level }: NamedModel, config: SummarizerSettings, models: ModelRegistry): SummaryModel {
  const window = model.contextWindow > 0 ? model.contextWindow : USUAL_WINDOW;
  const share = Math.floor(window * MAX_ANSWER_SHARE);
  const reasoning = reasoningFor(model, level ?? config.summarizerThinking);
  const most = reasoning === undefined ? MAX_ANSWER_TOKENS : MAX_THINKING_ANSWER_TOKENS;
  const answerTokens = Math.max(256, Math.min(model.maxTokens || most, most, share));
  return {
    name: `${model.provider}/${model.id}`,
    maxInputTokens: Math.max(1_000, window - answerTokens),
    open: (request, signal) =>
      openStream(model, models, request, {
        signal,
        maxTokens: answerTokens,
        maxRetries: 1,
        maxRetryDelayMs: MAX_RETRY_DELAY_MS,
        cacheRetention: "none",
        ...(reasoning === undefined ? {} : { reasoning }),
      }),
  };
}

/**
 * The level as the host would set it for this model: some cannot do without thinking and get their least for `off`.
 * "off" itself is never passed on: some serialisers take it for a level.
 */
function reasoningFor(
  model: Model<Api>,
  level: ContextPruneConfig["summarizerThinking"] | Level,
): SimpleStreamOptions["reasoning"] {
  // The older host's clamp does not know `max`.
  const supported =
    level === "max"
      ? getSupportedThinkingLevels(model).at(-1)
      : clampThinkingLevel(model, level === "default" ? "off" : level);
  return supported === "off" ? undefined : supported;
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
