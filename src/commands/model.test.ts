import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Api, Model } from "@mariozechner/pi-ai";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "../../test/support/simulated-session.ts";
import type { HostSnapshot } from "../host/host.ts";
import { CUSTOM_TYPE_STATS } from "../types.ts";
import { completeCommand, runCommand } from "./index.ts";
import type { CommandResult } from "./types.ts";

function model(id: string, change: object = {}): Model<Api> {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const fields = { id, provider: "prov", cost, contextWindow: 100_000, maxTokens: 4_000, reasoning: false, ...change };
  return fields as unknown as Model<Api>;
}

const MAIN = model("main");
const THINKER = model("org/thinker:free", { reasoning: true });
const KEYLESS = model("keyless");

function sessionWith(settings: Settings, tree = new EntryTree()): SimulatedSession {
  const known = [MAIN, THINKER, KEYLESS];
  const registry: unknown = {
    find: (provider: string, id: string) => known.find((one) => one.provider === provider && one.id === id),
    getAvailable: () => known.filter((one) => one !== KEYLESS),
    hasConfiguredAuth: (one: Model<Api>) => one !== KEYLESS,
  };
  return new SimulatedSession(agentDirWith(settings), tree, false, {
    model: MAIN,
    models: registry as HostSnapshot["models"],
  });
}

const say = ({ pruner, host }: SimulatedSession, text: string): Promise<CommandResult> =>
  runCommand(pruner, host, text);

function saved(session: SimulatedSession): unknown {
  return JSON.parse(readFileSync(join(session.agentDir, "settings.json"), "utf8")).contextPrune;
}

describe("/pruner model", () => {
  test("shows the model that is chosen, and what it is called", async () => {
    expect((await say(sessionWith({}), "model")).message).toMatch(/summarizerModel is auto: mechanical digest/);
    const chosen = sessionWith({ summarizerModel: "prov/org/thinker:free" });
    expect((await say(chosen, "model")).message).toContain("prov/org/thinker:free");
  });

  test("chooses one, which holds at once and later", async () => {
    const session = sessionWith({});
    const { message, type } = await say(session, "model prov/org/thinker:free:low");
    expect(type).toBe("info");
    expect(message).toContain("summarizerModel is now prov/org/thinker:free:low");
    expect(saved(session)).toEqual({ summarizerModel: "prov/org/thinker:free:low" });
    expect(session.pruner.settings.summarizerModel).toBe("prov/org/thinker:free:low");
  });

  test.each<[string, string, RegExp]>([
    ["one that nobody knows, with the nearest", "prov/mian", /unknown model: prov\/mian.*prov\/main/],
    ["one that has no key", "prov/keyless", /no key for summarizerModel prov\/keyless/],
    ["what is no name", "thinker", /provider\/model/],
  ])("refuses %s, and changes nothing", async (_what, name, reason) => {
    const session = sessionWith({});
    const { message, type } = await say(session, `model ${name}`);
    expect([type, message]).toEqual(["warning", expect.stringMatching(reason)]);
    expect(saved(session)).toEqual({});
  });

  test("is completed from the models that are available", () => {
    const { pruner } = sessionWith({});
    const models = () => ["prov/main", "prov/org/thinker:free"];
    const complete = (prefix: string) => completeCommand(pruner, prefix, models)?.map(({ value }) => value);
    expect(complete("model ")).toEqual(["auto", "default", "none", ...models()].map((name) => `model ${name}`));
    expect(complete("model THINK")).toEqual(["model prov/org/thinker:free"]);
  });
});

describe("/pruner thinking", () => {
  test.each<[string, Settings, RegExp]>([
    ["the session's model, which does not", {}, /summarizerThinking is default\. prov\/main does not think\./],
    [
      "a model that does",
      { summarizerModel: "prov/org/thinker:free", summarizerThinking: "low" },
      /prov\/org\/thinker:free thinks at level low\./,
    ],
    [
      "a level that the model lacks",
      { summarizerModel: "prov/org/thinker:free", summarizerThinking: "xhigh" },
      /is xhigh\. .* thinks at level high\./,
    ],
    [
      "a level in the model's name",
      { summarizerModel: "prov/org/thinker:free:minimal", summarizerThinking: "high" },
      /thinks at level minimal, as its name in summarizerModel says\./,
    ],
    ["no model", { summarizerModel: "none" }, /No model is chosen/],
  ])("shows what comes of it with %s", async (_what, settings, expected) => {
    expect((await say(sessionWith(settings), "thinking")).message).toMatch(expected);
  });

  test("is set, and says what comes of it", async () => {
    const session = sessionWith({ summarizerModel: "prov/org/thinker:free" });
    expect(await say(session, "thinking HIGH")).toEqual({
      message: "summarizerThinking is now high. prov/org/thinker:free thinks at level high.",
      type: "info",
    });
    expect(saved(session)).toEqual({ summarizerModel: "prov/org/thinker:free", summarizerThinking: "high" });
  });

  test("refuses a level that there is not", async () => {
    const session = sessionWith({});
    expect((await say(session, "thinking hard")).type).toBe("warning");
    expect(saved(session)).toEqual({});
  });

  test("is completed from the levels", () => {
    const { pruner } = sessionWith({});
    const complete = (prefix: string) => completeCommand(pruner, prefix)?.map(({ value }) => value);
    expect(complete("thinking ")).toEqual(
      ["default", "off", "minimal", "low", "medium", "high", "xhigh"].map((level) => `thinking ${level}`),
    );
    expect(complete("thinking me")).toEqual(["thinking medium"]);
  });
});

describe("/pruner stats", () => {
  const totals = {
    totalInputTokens: 34_567,
    totalOutputTokens: 1_234,
    totalCost: 0.0246,
    callCount: 12,
    failedCallCount: 2,
  };

  test("shows calls, failed ones, tokens and cost, as the session's file has them", async () => {
    const tree = new EntryTree();
    tree.appendCustom(CUSTOM_TYPE_STATS, { ...totals, callCount: 5 });
    tree.appendCustom(CUSTOM_TYPE_STATS, totals);
    const { message, type } = await say(sessionWith({}, tree), "stats");
    expect(type).toBe("info");
    expect(message).toStartWith(
      "Summariser: 12 calls, 2 failed; 34,567 tokens in, 1,234 out; $0.0246, $0.0021 a call.\n",
    );
  });

  test("says so where there was none, and appends nothing", async () => {
    const session = sessionWith({});
    expect((await say(session, "stats")).message).toBe("The summariser has not been called in this session.");
    expect(session.tree.getEntries()).toEqual([]);
  });
});
