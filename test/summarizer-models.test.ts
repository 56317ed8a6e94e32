/** Which model is asked and how, through the registries of both hosts. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ExtensionContext } from "@mariozechner/pi-coding-agent";
import { extractToolResultText } from "../src/transcript/messages.ts";
import { CUSTOM_TYPE_FRONTIER } from "../src/types.ts";
import { HOSTS, type HostSession, openSession, PRODUCT_ENTRY, type Reply, until } from "./support/hosts.ts";
import { recordingUi } from "./support/recording-ui.ts";
import type { ScriptedRequest } from "./support/script.ts";
import type { Settings } from "./support/simulated-session.ts";

setDefaultTimeout(60_000);

const FILES = { "a.ts": Array.from({ length: 90 }, (_, i) => `const a${i} = "a";`).join("\n") };
const MODELS = [
  { id: "main", reasoning: true },
  { id: "plain", reasoning: false, maxTokens: 2_000 },
  { id: "org/deep:free", reasoning: true },
];
const READ: Reply = { calls: [{ name: "read", arguments: { path: "a.ts" } }] };

describe.each(HOSTS)("on the %s host", (host) => {
  const open: HostSession[] = [];
  let notices: string[] = [];
  let registry: ExtensionContext["modelRegistry"] | undefined;
  afterEach(async () => {
    for (const session of open.splice(0)) await session.close();
    notices = [];
  });

  async function start(settings: Settings): Promise<HostSession> {
    const session = await openSession(host, {
      ui: recordingUi(notices),
      extensionPaths: [PRODUCT_ENTRY],
      factories: [
        (pi) => {
          pi.on("session_start", (_event, ctx) => {
            registry = ctx.modelRegistry;
          });
        },
      ],
      files: FILES,
      settings: { contextPrune: { pruneOn: "agent-message", ...settings } },
      script: {
        models: MODELS,
        rules: [{ system: "^You condense", reply: { text: "[1] Ninety constants." } }],
        replies: [READ, { text: "Seen." }, { text: "Done." }, { text: "Done again." }],
      },
    });
    open.push(session);
    return session;
  }

  const flushed = (session: HostSession) =>
    session.branch().some((entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER);
  const summaries = (session: HostSession) =>
    session.requests.filter(({ systemPrompt }) => systemPrompt.startsWith("You condense"));

  /** Condenses one result and gives the request that was made for it, if any. */
  async function condense(settings: Settings): Promise<ScriptedRequest | undefined> {
    const session = await start(settings);
    await session.prompt("read a");
    await until(() => flushed(session));
    await session.prompt("and now?");
    const result = session.requests.at(-1)?.messages.find((message) => message.role === "toolResult");
    expect(result && extractToolResultText(result)).toStartWith("[t1 condensed: read a.ts, ");
    expect(notices).toEqual([]);
    expect(session.errors).toEqual([]);
    expect(summaries(session).length).toBeLessThan(2);
    return summaries(session)[0];
  }

  test.each<[string, Settings, string, string | undefined]>([
    ["default", {}, "main", undefined],
    ["default, thinking", { summarizerThinking: "low" }, "main", "low"],
    ["default, thinking beyond what it has", { summarizerThinking: "xhigh" }, "main", "high"],
    ["default, thinking off", { summarizerThinking: "off" }, "main", undefined],
    ["a model by its name", { summarizerModel: "scripted/plain" }, "plain", undefined],
    ["a model that does not think", { summarizerModel: "scripted/plain:high" }, "plain", undefined],
    ["a name with slash and colon", { summarizerModel: "scripted/org/deep:free" }, "org/deep:free", undefined],
    ["such a name with a level", { summarizerModel: "scripted/org/deep:free:medium" }, "org/deep:free", "medium"],
    [
      "such a name with off",
      { summarizerModel: "scripted/org/deep:free:off", summarizerThinking: "high" },
      "org/deep:free",
      undefined,
    ],
  ])("%s is asked as it should be", async (_which, settings, model, reasoning) => {
    const request = await condense(settings);
    expect(request?.model).toBe(model);
    expect(request?.reasoning).toBe(reasoning);
    expect(request?.cacheRetention).toBe("none");
    expect(request?.sessionId).toBeUndefined();
    expect(request?.tools).toEqual([]);
    expect(request?.maxTokens).toBe(model === "plain" ? 2_000 : 8_000);
    expect(request?.messages.map(({ role }) => role)).toEqual(["user"]);
  });

  test("none asks nobody", async () => {
    expect(await condense({ summarizerModel: "none" })).toBeUndefined();
  });

  test.each<[string, () => string, RegExp]>([
    [
      "that nobody knows is told of once, with the nearest names",
      () => "scripted/org/deep:fre",
      /^pruner: summarizerModel names an unknown model: scripted\/org\/deep:fre\. Nearest: .*scripted\/org\/deep:free.*\/pruner model/,
    ],
    [
      "without a key is told of once, with the setting",
      () => {
        const keyless = registry?.getAll().find((model) => !registry?.hasConfiguredAuth(model));
        if (!keyless) throw new Error("every model has a key");
        return `${keyless.provider}/${keyless.id}`;
      },
      /^pruner: there is no key for summarizerModel \S+\. Use \/login for \S+, or \/pruner model/,
    ],
  ])("a model %s, and nobody is asked", async (_which, name, notice) => {
    const probe = await start({});
    const summarizerModel = name();
    await probe.close();
    open.pop();
    const session = await start({ summarizerModel });
    for (const prompt of ["read a", "and now?", "and then?"]) await session.prompt(prompt);
    expect(notices).toEqual([expect.stringMatching(notice)]);
    expect(notices[0]).toContain(summarizerModel);
    expect(summaries(session)).toEqual([]);
    const result = session.requests.at(-1)?.messages.find((message) => message.role === "toolResult");
    expect(result && extractToolResultText(result)).toContain('const a89 = "a";');
  });
});
