import { beforeAll, describe, expect, test } from "bun:test";
import type { Api, AssistantMessage, Context, Model, SimpleStreamOptions } from "@mariozechner/pi-ai";
import { HOST_PATHS, HOSTS } from "../../test/support/host-paths.ts";
import type { ModelChoice, ReplyStream } from "../summarizer.ts";
import type { ContextPruneConfig } from "../types.ts";
import type { HostSnapshot } from "./host.ts";
import { chooseSummarizer, thinkingOf } from "./models.ts";

type Models = HostSnapshot["models"];
type Choice = Pick<ContextPruneConfig, "summarizerModel" | "summarizerThinking">;

const REQUEST = { systemPrompt: "condense", text: "the calls" };
const SIGNAL = new AbortController().signal;

function model(id: string, change: object = {}): Model<Api> {
  const fields = { id, name: id, provider: "prov", api: "test-api", baseUrl: "http://127.0.0.1:9", input: ["text"] };
  const limits = { contextWindow: 100_000, maxTokens: 4_000, reasoning: false };
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const made: unknown = { ...fields, ...limits, cost, ...change };
  return made as Model<Api>;
}

interface Sent {
  model: Model<Api>;
  context: Context;
  options: SimpleStreamOptions;
}

/** A registry as the newer host has it: it streams by itself. */
function streamingRegistry(known: readonly Model<Api>[] = [], withoutKey: readonly Model<Api>[] = []) {
  const sent: Sent[] = [];
  const stream: ReplyStream = {
    async *[Symbol.asyncIterator]() {},
    result: () => new Promise<AssistantMessage>(() => {}),
  };
  const registry: unknown = {
    find: (provider: string, id: string) => known.find((one) => one.provider === provider && one.id === id),
    getAvailable: () => known,
    hasConfiguredAuth: (one: Model<Api>) => !withoutKey.includes(one),
    streamSimple: (one: Model<Api>, context: Context, options: SimpleStreamOptions) => {
      sent.push({ model: one, context, options });
      return stream;
    },
  };
  return { models: registry as Models, sent, stream };
}

function choose(change: Partial<Choice>, session: Model<Api> | undefined, models: Models) {
  const config = { summarizerModel: "default", summarizerThinking: "default" as const, ...change };
  return chooseSummarizer(config, { model: session, models });
}

function chosen(change: Partial<Choice>, session: Model<Api> | undefined, models: Models): ModelChoice {
  const choice = choose(change, session, models);
  if (choice.kind !== "model") throw new Error(`chose ${choice.kind}`);
  return choice.models;
}

/** Opens a request to the session's model and gives what was sent. */
async function send(change: Partial<Choice>, session: Model<Api>): Promise<Sent> {
  const { models, sent } = streamingRegistry();
  await chosen(change, session, models).configured.open(REQUEST, SIGNAL);
  const [only, ...others] = sent;
  if (!only || others.length > 0) throw new Error(`${sent.length} requests`);
  return only;
}

describe("chooseSummarizer", () => {
  const cheap = model("cheap");
  const keyless = model("keyless");
  const { models } = streamingRegistry([cheap, model("org/deep/model"), model("odd:low"), keyless], [keyless]);

  test("takes the digest for none, also in a session without a model", () => {
    expect(choose({ summarizerModel: "none" }, undefined, models)).toEqual({ kind: "digest" });
  });

  test("takes the session's model by default, and no other beside it", () => {
    const { configured, session } = chosen({}, model("main"), models);
    expect(configured.name).toBe("prov/main");
    expect(session).toBeUndefined();
  });

  test("takes a model by provider and id, an id with slashes too, with the session's to step in", () => {
    const { configured, session } = chosen({ summarizerModel: "prov/cheap" }, model("main"), models);
    expect([configured.name, session?.name]).toEqual(["prov/cheap", "prov/main"]);
    expect(chosen({ summarizerModel: "prov/org/deep/model" }, undefined, models).configured.name).toBe(
      "prov/org/deep/model",
    );
  });

  test("reads a thinking level behind the id, unless the id itself ends so", async () => {
    const thinker = model("thinker", { reasoning: true });
    const { models: known, sent } = streamingRegistry([thinker, model("odd:low", { reasoning: true })]);
    await chosen({ summarizerModel: "prov/thinker:low" }, undefined, known).configured.open(REQUEST, SIGNAL);
    await chosen({ summarizerModel: "prov/odd:low" }, undefined, known).configured.open(REQUEST, SIGNAL);
    expect(sent.map((one) => [one.model.id, one.options.reasoning])).toEqual([
      ["thinker", "low"],
      ["odd:low", undefined],
    ]);
  });

  test.each<[string, string, string | undefined]>([
    ["vendor/deep:free", "vendor/deep:free", undefined],
    ["vendor/deep:free:high", "vendor/deep:free", "high"],
    ["vendor/deep:free:off", "vendor/deep:free", undefined],
    ["vendor/deep:free:max", "vendor/deep:free", "high"],
    ["vendor/deep:free:xhigh", "vendor/deep:free", "high"],
    ["low", "low", undefined],
  ])("tells id and level of prov/%s apart", async (name, id, reasoning) => {
    const known = [model("vendor/deep:free", { reasoning: true }), model("low", { reasoning: true })];
    const { models: registry, sent } = streamingRegistry(known);
    const change = { summarizerModel: `prov/${name}`, summarizerThinking: "medium" as const };
    await chosen(change, undefined, registry).configured.open(REQUEST, SIGNAL);
    // What the name says comes before the setting.
    const expected = name === id ? "medium" : reasoning;
    expect(sent.map((one) => [one.model.id, one.options.reasoning])).toEqual([[id, expected]]);
  });

  test("the level of the configured model is not the session's model's", async () => {
    const { models: registry, sent } = streamingRegistry([model("thinker", { reasoning: true })]);
    const main = model("main", { reasoning: true });
    await chosen({ summarizerModel: "prov/thinker:high" }, main, registry).session?.open(REQUEST, SIGNAL);
    expect(sent[0]?.options).not.toHaveProperty("reasoning");
  });

  test("names at most a few of the nearest, and none where none is near", () => {
    const { models: registry } = streamingRegistry(Array.from({ length: 30 }, (_, i) => model(`cheap-${i}`)));
    const near = choose({ summarizerModel: "prov/cheap-" }, undefined, registry);
    expect(near.kind === "missing" && near.reason.match(/prov\/cheap-\d/g)?.length).toBeLessThan(6);
    const far = choose({ summarizerModel: "xxxxxxxx/yyyyyyyyyyyyyyyyyyyy" }, undefined, registry);
    expect(far).toEqual({ kind: "missing", reason: expect.not.stringContaining("Nearest") });
  });

  test.each<[string, Partial<Choice>, Model<Api> | undefined, RegExp]>([
    ["the session has no model", {}, undefined, /no model/],
    ["the model is unknown", { summarizerModel: "prov/cheep" }, model("main"), /prov\/cheep.*Nearest: prov\/cheap/],
    ["the model has no key", { summarizerModel: "prov/keyless" }, model("main"), /no key.*prov\/keyless/],
  ])("says why there is none where %s, and where to set it", (_why, change, session, reason) => {
    const choice = choose(change, session, models);
    expect(choice).toEqual({ kind: "missing", reason: expect.stringMatching(reason) });
    expect(choice.kind === "missing" && choice.reason).toMatch(/\/pruner model|summarizerModel/);
  });
});

describe("a request to the summariser", () => {
  test("is one user message under the system prompt", async () => {
    const { context } = await send({}, model("main"));
    expect(context.systemPrompt).toBe("condense");
    expect(context.messages).toMatchObject([{ role: "user", content: [{ type: "text", text: "the calls" }] }]);
  });

  test("carries the caller's signal", async () => {
    expect((await send({}, model("main"))).options.signal).toBe(SIGNAL);
  });

  test("leaves the session's prompt cache alone", async () => {
    const { options } = await send({}, model("main"));
    expect(options.cacheRetention).toBe("none");
    expect(options).not.toHaveProperty("sessionId");
  });

  test.each(["default", "off"] as const)("never names a thinking level for %s", async (summarizerThinking) => {
    const { options } = await send({ summarizerThinking }, model("main", { reasoning: true }));
    expect(options).not.toHaveProperty("reasoning");
  });

  test("names the thinking level that is set, and only to a model that thinks", async () => {
    const thinking = { summarizerThinking: "low" as const };
    expect((await send(thinking, model("main", { reasoning: true }))).options.reasoning).toBe("low");
    expect((await send(thinking, model("main"))).options).not.toHaveProperty("reasoning");
  });

  test.each<[string, object, Choice["summarizerThinking"], string | undefined]>([
    ["a level beyond what the model has", {}, "xhigh", "high"],
    ["no thinking, of a model that cannot do without", { thinkingLevelMap: { off: null } }, "off", "minimal"],
    ["the default of such a model", { thinkingLevelMap: { off: null, minimal: null, low: null } }, "default", "medium"],
    ["a level that the model leaves out", { thinkingLevelMap: { minimal: null } }, "minimal", "low"],
    [
      "no level that the model has",
      { thinkingLevelMap: { minimal: null, low: null, medium: null, high: null } },
      "low",
      undefined,
    ],
  ])("takes the nearest for %s", async (_what, change, summarizerThinking, expected) => {
    const { options } = await send({ summarizerThinking }, model("main", { reasoning: true, ...change }));
    expect(options.reasoning).toBe(expected as typeof options.reasoning);
    expect("reasoning" in options).toBe(expected !== undefined);
  });

  test("is tried once more at most, and waits no longer for that than a little", async () => {
    const { options } = await send({}, model("main"));
    expect(options.maxRetries).toBe(1);
    expect(options.maxRetryDelayMs).toBeLessThan(20_000);
  });

  test("has a usual window where the model does not say", () => {
    const { models } = streamingRegistry();
    const { maxInputTokens } = chosen({}, model("main", { contextWindow: 0, maxTokens: 0 }), models).configured;
    expect(maxInputTokens).toBeGreaterThan(50_000);
  });

  test("leaves room for the answer in the model's window", async () => {
    const { models } = streamingRegistry();
    const small = model("small", { contextWindow: 32_768, maxTokens: 32_768 });
    const { options } = await send({}, small);
    const inputTokens = chosen({}, small, models).configured.maxInputTokens;
    expect(options.maxTokens).toBeGreaterThan(0);
    expect(inputTokens + (options.maxTokens ?? 0)).toBeLessThanOrEqual(32_768);
    expect(inputTokens).toBeGreaterThan(10_000);
  });

  test("asks for no longer an answer than the model can give", async () => {
    expect((await send({}, model("main", { maxTokens: 4_000 }))).options.maxTokens).toBe(4_000);
  });

  test("gives the stream of the host", async () => {
    const { models, stream } = streamingRegistry();
    expect(await chosen({}, model("main"), models).configured.open(REQUEST, SIGNAL)).toBe(stream);
  });
});

/** What is used of a host's pi-ai. */
interface PiAi {
  getProviders(): string[];
  getModels(provider: string): Model<Api>[];
  getSupportedThinkingLevels(model: Model<Api>): string[];
  completeSimple(model: Model<Api>, context: object, options: object): Promise<{ errorMessage?: string }>;
}

const LEVELS = ["default", "off", "minimal", "low", "medium", "high", "xhigh"] as const;
/** How the serialisers say that a model is not to think. */
const NO_THINKING = /disabled|"none"|"off"|thinkingBudget":0|enable_thinking":false|"thinking":false|"effort":null/;
const JWT = `x.${btoa(JSON.stringify({ "https://api.openai.com/auth": { chatgpt_account_id: "a" } }))}.y`;

/** What the host would put on the wire, or `undefined` where it does not come to that. */
async function payloadOf(
  ai: PiAi,
  one: Model<Api>,
  summarizerThinking: Choice["summarizerThinking"],
): Promise<string | undefined> {
  const { options } = await send({ summarizerThinking }, one);
  let seen: string | undefined;
  const onPayload = (payload: unknown) => {
    seen = JSON.stringify(payload, (key, value) =>
      ["abortSignal", "cacheRetention"].includes(key) ? undefined : value,
    );
    throw new Error("seen");
  };
  const context = { systemPrompt: "s", messages: [{ role: "user", content: "t", timestamp: 1 }] };
  await ai.completeSimple(one, context, { ...options, apiKey: JWT, maxRetries: 0, onPayload }).catch(() => {});
  return seen;
}

for (const host of HOSTS) {
  describe(`the built-in models of the ${host} host`, () => {
    let ai: PiAi;
    let known: Model<Api>[];

    beforeAll(async () => {
      ai = (await import(HOST_PATHS[host].ai)) as PiAi;
      // This process has the clamp of the older host, which does not know `max` as a level.
      known = ai
        .getProviders()
        .flatMap((provider) => ai.getModels(provider))
        .filter((one) => ai.getSupportedThinkingLevels(one).some((level) => level !== "max"));
    });

    test("are asked for a level that they have, whatever is set", async () => {
      const wrong: string[] = [];
      for (const one of known) {
        const supported = ai.getSupportedThinkingLevels(one);
        for (const summarizerThinking of LEVELS) {
          const { reasoning } = (await send({ summarizerThinking }, one)).options;
          if (!supported.includes(reasoning ?? "off")) wrong.push(`${one.provider}/${one.id} ${reasoning}`);
        }
      }
      expect(wrong).toEqual([]);
    });

    test("that cannot do without thinking are shown with the level that they get", () => {
      const only = known.find((one) => one.reasoning && !ai.getSupportedThinkingLevels(one).includes("off"));
      const { models } = streamingRegistry();
      const config = { summarizerModel: "default", summarizerThinking: "off" as const };
      expect(thinkingOf(config, { model: only, models })?.level).toBe(
        ai.getSupportedThinkingLevels(only as Model<Api>)[0],
      );
    });

    test("have room for an answer beside their thinking", async () => {
      const wrong: string[] = [];
      for (const one of known.filter(({ reasoning, maxTokens }) => reasoning && maxTokens > 40_000)) {
        const sent = await payloadOf(ai, one, "high");
        const budget = /"(?:budget_tokens|thinkingBudget)":(\d+)/.exec(sent ?? "")?.[1];
        const most = /"(?:max_tokens|maxOutputTokens)":(\d+)/.exec(sent ?? "")?.[1];
        if (budget && most && Number(budget) >= Number(most)) wrong.push(`${one.provider}/${one.id} ${budget} ${most}`);
      }
      expect(wrong).toEqual([]);
    });

    test("that cannot do without thinking are not told to by any serialiser", async () => {
      const only = known.filter((one) => one.reasoning && !ai.getSupportedThinkingLevels(one).includes("off"));
      // One of each API and set of levels: the payload hangs on nothing else.
      const kinds = new Map(
        only.map((one) => [`${one.api} ${JSON.stringify([one.thinkingLevelMap, one.compat])}`, one]),
      );
      const wrong: string[] = [];
      for (const one of kinds.values()) {
        for (const summarizerThinking of ["default", "off"] as const) {
          const payload = await payloadOf(ai, one, summarizerThinking);
          if (payload !== undefined && NO_THINKING.test(payload)) wrong.push(`${one.provider}/${one.id} ${payload}`);
        }
      }
      expect(wrong).toEqual([]);
      expect(kinds.size).toBeGreaterThan(3);
    });
  });
}

describe("a request through the older host", () => {
  function open(auth: object): Promise<ReplyStream> {
    const registry: unknown = { getApiKeyAndHeaders: async () => auth };
    return chosen({}, model("main", { api: "nobody-serves-this" }), registry as Models).configured.open(
      REQUEST,
      SIGNAL,
    );
  }

  test("fails with the host's words where it refuses its key", async () => {
    await expect(open({ ok: false, error: "No key for prov" })).rejects.toThrow("No key for prov");
  });

  test("goes to the provider of the model's API", async () => {
    await expect(open({ ok: true, apiKey: "k" })).rejects.toThrow("nobody-serves-this");
  });
});
