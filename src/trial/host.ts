/** The host as a trial uses it, outside of any session: its models, how they are called, and its own tools. */
import {
  type Api,
  type Context,
  clampThinkingLevel,
  type Model,
  type SimpleStreamOptions,
  streamSimple,
} from "@mariozechner/pi-ai";
import * as library from "@mariozechner/pi-coding-agent";
import { findModel, type NamedModel } from "../host/models.ts";
import { ReplayInputError } from "../replay/session-file.ts";
import { isRecord } from "../text/json.ts";
import { nearest } from "../text/nearest.ts";
import type { TrialHost, TrialModel, TrialRequest, TrialTool } from "./types.ts";

/** Tokens that one answer may take; thinking counts among them with some providers. */
const MAX_ANSWER_TOKENS = 8_192;
const ANSWER_SHARE = 0.2;
/** A reply that takes longer is given up. */
const TIMEOUT_MS = 5 * 60_000;

/** What both hosts' registries have. */
type Registry = Pick<library.ModelRegistry, "find" | "getAvailable" | "getApiKeyAndHeaders" | "hasConfiguredAuth">;

/** Binds the host whose packages this process has loaded. */
export function bindHost(): TrialHost {
  return {
    name: `pi ${library.VERSION}`,
    model: async (name) => bindModel(name, await createRegistry()),
    tools: hostTools,
  };
}

/**
 * The registry that a session of this host would have, but for the models of extensions. The older host makes it of an
 * `AuthStorage`, the newer one of a `ModelRuntime`; neither host has the other's class.
 */
async function createRegistry(): Promise<Registry> {
  const { ModelRuntime, AuthStorage, ModelRegistry } = library as unknown as Record<string, HostClass | undefined>;
  if (ModelRegistry && ModelRuntime?.create) {
    const runtime: unknown = await ModelRuntime.create({ allowModelNetwork: false });
    return new ModelRegistry(runtime) as Registry;
  }
  if (ModelRegistry?.create && AuthStorage?.create) return ModelRegistry.create(AuthStorage.create()) as Registry;
  throw new ReplayInputError(`pi ${library.VERSION} gives no access to its models. This program knows 0.73 and 1.6.`);
}

interface HostClass {
  new (...args: unknown[]): unknown;
  create?(...args: unknown[]): unknown;
}

function bindModel(name: string, registry: Registry): TrialModel {
  const named = findModel(name, registry);
  if (!named) {
    const known = registry.getAvailable().map(({ provider, id }) => `${provider}/${id}`);
    const close = nearest(name, known);
    const hint = close.length > 0 ? `Nearest: ${close.join(", ")}.` : `${known.length} models have a key.`;
    const extensions = "Models that an extension brings cannot be tried.";
    throw new ReplayInputError(`There is no model ${name}. ${hint} See \`pi --list-models\`. ${extensions}`);
  }
  const { model } = named;
  if (!registry.hasConfiguredAuth(model)) {
    throw new ReplayInputError(
      `There is no key for ${name}. Start pi and use /login, or set the key of ${model.provider}.`,
    );
  }
  return {
    name: `${model.provider}/${model.id}${named.level ? `:${named.level}` : ""}`,
    cost: model.cost,
    contextWindow: model.contextWindow,
    ask: (request, signal) => ask(named, registry, request, signal),
  };
}

async function ask({ model, level }: NamedModel, registry: Registry, request: TrialRequest, signal: AbortSignal) {
  const context = {
    systemPrompt: request.systemPrompt,
    messages: library.convertToLlm([...request.messages]),
    // The schemas are plain JSON, which is all that a provider is sent.
    tools: request.tools as unknown as Context["tools"],
  };
  const share = model.contextWindow > 0 ? Math.floor(model.contextWindow * ANSWER_SHARE) : MAX_ANSWER_TOKENS;
  const reasoning = reasoningFor(model, level);
  const options: SimpleStreamOptions = {
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    maxTokens: Math.min(model.maxTokens || MAX_ANSWER_TOKENS, MAX_ANSWER_TOKENS, share),
    // The raw context is sent twice, and every step sends the ones before it again.
    cacheRetention: "short",
    ...(reasoning === undefined ? {} : { reasoning }),
  };
  if ("streamSimple" in registry && typeof registry.streamSimple === "function") {
    return (registry.streamSimple as typeof streamSimple)(model, context, options).result();
  }
  const auth = await registry.getApiKeyAndHeaders(model);
  if (!auth.ok) throw new ReplayInputError(auth.error);
  return streamSimple(model, context, { ...options, apiKey: auth.apiKey, headers: auth.headers as never }).result();
}

/** "off" is never passed on: some serialisers take it for a level. */
function reasoningFor(model: Model<Api>, level: NamedModel["level"]): SimpleStreamOptions["reasoning"] {
  if (!model.reasoning || level === undefined || level === "off") return undefined;
  const supported = clampThinkingLevel(model, level === "max" ? "xhigh" : level);
  return supported === "off" ? undefined : supported;
}

function hostTools(cwd: string): TrialTool[] {
  const makers = [
    library.createReadToolDefinition,
    library.createBashToolDefinition,
    library.createEditToolDefinition,
    library.createWriteToolDefinition,
    library.createGrepToolDefinition,
    library.createFindToolDefinition,
    library.createLsToolDefinition,
  ];
  return makers.flatMap((make) => {
    const { name, description, parameters }: { name: string; description: string; parameters: unknown } = make(cwd);
    return isRecord(parameters) ? [{ name, description, parameters }] : [];
  });
}
