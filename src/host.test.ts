import { describe, expect, test } from "bun:test";
import type { Api, AssistantMessage, Context, Model, SimpleStreamOptions } from "@mariozechner/pi-ai";
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import { appenderOf, chooseSummarizer, type HostSnapshot, readContext } from "./host.js";
import type { ReplyStream, SummaryModel } from "./summarizer.js";
import type { ContextPruneConfig } from "./types.js";

type Models = HostSnapshot["models"];
type Choice = Pick<ContextPruneConfig, "summarizerModel" | "summarizerThinking">;

const REQUEST = { systemPrompt: "condense", text: "the calls" };

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
function streamingRegistry(known: readonly Model<Api>[] = []) {
  const sent: Sent[] = [];
  const stream: ReplyStream = {
    async *[Symbol.asyncIterator]() {},
    result: () => new Promise<AssistantMessage>(() => {}),
  };
  const registry: unknown = {
    find: (provider: string, id: string) => known.find((one) => one.provider === provider && one.id === id),
    streamSimple: (one: Model<Api>, context: Context, options: SimpleStreamOptions) => {
      sent.push({ model: one, context, options });
      return stream;
    },
  };
  return { models: registry as Models, sent, stream };
}

function choose(change: Partial<Choice>, session: Model<Api> | undefined, models: Models) {
  const host = { model: session, models };
  const config = { summarizerModel: "default", summarizerThinking: "default" as const, ...change };
  return chooseSummarizer(config, host as HostSnapshot);
}

function chosen(change: Partial<Choice>, session: Model<Api> | undefined, models: Models): SummaryModel {
  const choice = choose(change, session, models);
  if (choice.kind !== "model") throw new Error(`chose ${choice.kind}`);
  return choice.model;
}

/** Opens a request and gives what was sent. */
async function send(change: Partial<Choice>, session: Model<Api>): Promise<Sent> {
  const { models, sent } = streamingRegistry();
  await chosen(change, session, models).open(REQUEST, new AbortController().signal);
  const [only, ...others] = sent;
  if (!only || others.length > 0) throw new Error(`${sent.length} requests`);
  return only;
}

describe("chooseSummarizer", () => {
  const { models } = streamingRegistry([model("cheap"), model("org/deep/model")]);

  test("takes the digest for none, also in a session without a model", () => {
    expect(choose({ summarizerModel: "none" }, undefined, models)).toEqual({ kind: "digest" });
  });

  test("takes the session's model by default", () => {
    expect(chosen({}, model("main"), models).name).toBe("prov/main");
  });

  test("takes a model by provider and id, an id with slashes too", () => {
    expect(chosen({ summarizerModel: "prov/cheap" }, model("main"), models).name).toBe("prov/cheap");
    expect(chosen({ summarizerModel: "prov/org/deep/model" }, undefined, models).name).toBe("prov/org/deep/model");
  });

  test("says why there is none: the name of an unknown model, or that the session has none", () => {
    expect(choose({ summarizerModel: "prov/lost" }, model("main"), models)).toEqual({
      kind: "missing",
      reason: expect.stringContaining("prov/lost"),
    });
    expect(choose({}, undefined, models)).toEqual({ kind: "missing", reason: expect.stringContaining("no model") });
  });
});

describe("a request to the summariser", () => {
  test("is one user message under the system prompt", async () => {
    const { context } = await send({}, model("main"));
    expect(context.systemPrompt).toBe("condense");
    expect(context.messages).toMatchObject([{ role: "user", content: [{ type: "text", text: "the calls" }] }]);
  });

  test("carries the caller's signal", async () => {
    const { models, sent } = streamingRegistry();
    const { signal } = new AbortController();
    await chosen({}, model("main"), models).open(REQUEST, signal);
    expect(sent[0]?.options.signal).toBe(signal);
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

  test("leaves room for the answer in the model's window", async () => {
    const { models } = streamingRegistry();
    const small = model("small", { contextWindow: 32_768, maxTokens: 32_768 });
    const { options } = await send({}, small);
    const answerTokens = options.maxTokens ?? 0;
    expect(answerTokens).toBeGreaterThan(0);
    // A token holds two and a half characters or more.
    const inputTokens = chosen({}, small, models).maxInputChars / 2.5;
    expect(inputTokens + answerTokens).toBeLessThanOrEqual(32_768);
    expect(inputTokens).toBeGreaterThan(10_000);
  });

  test("asks for no longer an answer than the model can give", async () => {
    expect((await send({}, model("main", { maxTokens: 4_000 }))).options.maxTokens).toBe(4_000);
  });

  test("gives the stream of the host", async () => {
    const { models, stream } = streamingRegistry();
    expect(await chosen({}, model("main"), models).open(REQUEST, new AbortController().signal)).toBe(stream);
  });

  test("fails with the host's words where the older host refuses its key", async () => {
    const registry: unknown = { getApiKeyAndHeaders: async () => ({ ok: false, error: "No key for prov" }) };
    const { open } = chosen({}, model("main"), registry as Models);
    await expect(open(REQUEST, new AbortController().signal)).rejects.toThrow("No key for prov");
  });
});

describe("a request through the older host", () => {
  test("goes to the provider of the model's API", async () => {
    const registry: unknown = { getApiKeyAndHeaders: async () => ({ ok: true, apiKey: "k" }) };
    const { open } = chosen({}, model("main", { api: "nobody-serves-this" }), registry as Models);
    await expect(open(REQUEST, new AbortController().signal)).rejects.toThrow("nobody-serves-this");
  });
});

test("appenderOf appends through the host", () => {
  const appended: unknown[] = [];
  const api: unknown = { appendEntry: (...args: unknown[]) => void appended.push(args) };
  appenderOf(api as ExtensionAPI)("some-type", { some: "data" });
  expect(appended).toEqual([["some-type", { some: "data" }]]);
});

describe("readContext", () => {
  function contextWith(fields: object): ExtensionContext {
    const context: unknown = { sessionManager: {}, modelRegistry: {}, cwd: "/work", hasUI: true, ui: {}, ...fields };
    return context as ExtensionContext;
  }

  test("has no user interface where the host has none", () => {
    expect(readContext(contextWith({ hasUI: false }))?.ui).toBeUndefined();
    expect(readContext(contextWith({}))?.ui).toBeDefined();
  });

  test("trusts a project unless the host says otherwise; the older one never asks", () => {
    expect(readContext(contextWith({}))?.projectTrusted).toBe(true);
    expect(readContext(contextWith({ isProjectTrusted: () => true }))?.projectTrusted).toBe(true);
    expect(readContext(contextWith({ isProjectTrusted: () => false }))?.projectTrusted).toBe(false);
  });

  test("gives nothing for a context that has gone stale, and throws nothing", () => {
    const stale: unknown = {
      get sessionManager(): never {
        throw new Error("this context is stale");
      },
    };
    expect(readContext(stale as ExtensionContext)).toBeUndefined();
  });
});
