/** Summarisers that are down for long, and back: how often a dead one is asked, who steps in, and what a cancel leaves. */
import { afterEach, describe, expect, setSystemTime, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { Api, AssistantMessage, Context, Model, SimpleStreamOptions } from "@mariozechner/pi-ai";
import { PROBE_COOLDOWN_MS } from "../src/engine/summarizer-policy.ts";
import type { HostSnapshot } from "../src/host/host.ts";
import type { ReplyStream } from "../src/summarizer.ts";
import { extractToolResultText, isToolResult, textOf } from "../src/transcript/messages.ts";
import { TEST_SETTINGS } from "./support/folders.ts";
import { until } from "./support/hosts.ts";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "./support/simulated-session.ts";

type State = "works" | "waits" | { errorMessage: string };

const NO_COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const USAGE = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost: NO_COST };

function assistant(
  timestamp: number,
  content: AssistantMessage["content"],
  stopReason: AssistantMessage["stopReason"],
  errorMessage?: string,
): AssistantMessage {
  const source = { api: "a", provider: "prov", model: "m", usage: USAGE };
  return { role: "assistant", content, ...source, stopReason, errorMessage, timestamp };
}

/** Models that work, fail or wait, as a test says. */
class Models {
  readonly asked: { name: string; text: string; signal: AbortSignal | undefined }[] = [];
  readonly states = new Map<string, State>();
  private readonly waiting: (() => void)[] = [];

  private readonly known = ["main", "cheap"].map((id): Model<Api> => {
    const fields: unknown = {
      id,
      provider: "prov",
      contextWindow: 100_000,
      maxTokens: 4_000,
      reasoning: false,
      cost: NO_COST,
    };
    return fields as Model<Api>;
  });

  private readonly streamSimple = (model: Model<Api>, context: Context, options?: SimpleStreamOptions): ReplyStream => {
    const text = textOf(context.messages[0]?.content ?? "");
    this.asked.push({ name: model.id, text, signal: options?.signal });
    const reply = this.reply(model.id, text);
    return {
      async *[Symbol.asyncIterator]() {
        yield { type: "start" as const, partial: await reply };
      },
      result: () => reply,
    };
  };

  private async reply(id: string, text: string): Promise<AssistantMessage> {
    const state = this.states.get(id) ?? "works";
    if (state === "waits") await new Promise<void>((resolve) => void this.waiting.push(resolve));
    if (typeof state === "object") return assistant(1, [], "error", state.errorMessage);
    const [, path = ""] = /"path":"([^"]+)"/.exec(text) ?? [];
    return assistant(1, [{ type: "text", text: `[1] ${path} by ${id}` }], "stop");
  }

  /** Lets the call go that has waited longest. */
  release(): void {
    this.waiting.shift()?.();
  }

  host(): Pick<HostSnapshot, "model" | "models"> {
    const registry: unknown = {
      find: (_provider: string, id: string) => this.known.find((model) => model.id === id),
      getAvailable: () => this.known,
      hasConfiguredAuth: () => true,
      streamSimple: this.streamSimple,
    };
    return { model: this.known[0], models: registry as HostSnapshot["models"] };
  }

  count(name: string): number {
    return this.asked.filter((call) => call.name === name).length;
  }
}

/** A run of the agent with one turn: a prompt, a call, a closing reply. */
function run(n: number): AgentMessage[] {
  const start = n * 1_000;
  const content = [{ type: "text" as const, text: `line of file ${n}\n`.repeat(500) }];
  const call = { type: "toolCall" as const, id: `c${n}`, name: "read", arguments: { path: `f${n}.ts` } };
  return [
    { role: "user", content: "go", timestamp: start },
    assistant(start + 1, [call], "toolUse"),
    { role: "toolResult", toolCallId: `c${n}`, toolName: "read", content, isError: false, timestamp: start + 2 },
    assistant(start + 3, [{ type: "text", text: "done" }], "stop"),
  ];
}

class Trial {
  readonly models = new Models();
  readonly session: SimulatedSession;
  private runs = 0;

  constructor(settings: Settings, usage?: HostSnapshot["usage"]) {
    const models = { ...this.models.host(), ...(usage ? { usage } : {}) };
    // Every result stands by itself, to be looked at.
    const agentDir = agentDirWith({
      ...TEST_SETTINGS,
      pruneOn: "agent-message",
      ...settings,
      chainCompression: { enabled: false },
    });
    this.session = new SimulatedSession(agentDir, new EntryTree(), false, models);
    if (usage) this.session.host.usage = usage;
  }

  /** Plays runs of one turn each, and waits for the flush behind each. */
  async play(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      await this.session.play(run(++this.runs));
      await this.landed();
    }
  }

  async landed(): Promise<void> {
    await until(() => this.session.pruner.status(this.session.host)?.flushing === false);
  }

  /** For each result of a request: who has summarised it, or `raw`, or what stands there instead. */
  async results(): Promise<string[]> {
    const { sent } = await this.session.request();
    return sent.filter(isToolResult).map((message) => {
      const text = extractToolResultText(message);
      const [, by] = /^\[t\d+ condensed: [^\n]*\]\nf\d+\.ts by (\w+)$/.exec(text) ?? [];
      return by ?? (text.startsWith("line of file ") ? "raw" : text.startsWith("[t") ? "digest" : text.slice(0, 40));
    });
  }
}

const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

afterEach(() => {
  setSystemTime();
});

describe("ten runs with a dead summariser that is the session's own model", () => {
  test("ask it once a run, leave everything raw, tell it once; when it works, all of it is condensed at once", async () => {
    const { models, session, ...trial } = makeTrial({});
    models.states.set("main", { errorMessage: "connect ECONNREFUSED" });
    await trial.play(10);
    // The summary that is made ahead in the first run, and a probe in each flush after that.
    expect(models.count("main")).toBe(10);
    expect(await trial.results()).toEqual(times(10, "raw"));
    expect(session.notices).toEqual([
      expect.stringMatching(/^pruner: no summary from prov\/main: connect ECONNREFUSED/),
    ]);

    models.states.set("main", "works");
    await trial.play(1);
    expect(await trial.results()).toEqual(times(11, "main"));
    expect(session.notices).toHaveLength(1);
  });
});

describe("ten runs with a dead summariser that is not the session's own model", () => {
  test("ask it once; the session's model steps in until a probe behind the cooldown finds it back", async () => {
    setSystemTime(new Date(1_000_000));
    const { models, session, ...trial } = makeTrial({ summarizerModel: "prov/cheap" });
    models.states.set("cheap", { errorMessage: "503 unavailable" });
    await trial.play(10);
    expect([models.count("cheap"), models.count("main")]).toEqual([1, 10]);
    expect(await trial.results()).toEqual(times(10, "main"));

    setSystemTime(new Date(1_000_000 + PROBE_COOLDOWN_MS - 1));
    await trial.play(1);
    expect(models.count("cheap")).toBe(1);
    setSystemTime(new Date(1_000_000 + PROBE_COOLDOWN_MS));
    await trial.play(2);
    expect(models.count("cheap")).toBe(2);
    models.states.set("cheap", "works");
    await trial.play(1);
    expect(models.count("cheap")).toBe(2);
    setSystemTime(new Date(1_000_000 + 3 * PROBE_COOLDOWN_MS));
    await trial.play(2);
    expect(await trial.results()).toEqual([...times(14, "main"), "cheap", "cheap"]);
    expect(session.notices).toEqual([expect.stringContaining("no summary from prov/cheap: 503")]);
  });

  test("/pruner now asks it again at once", async () => {
    const { models, session, ...trial } = makeTrial({ summarizerModel: "prov/cheap" });
    models.states.set("cheap", { errorMessage: "503 unavailable" });
    models.states.set("main", { errorMessage: "503 unavailable" });
    await trial.play(1);
    models.states.clear();
    const report = await session.pruner.flushNow(session.host);
    expect(report).toMatchObject({ condensed: 1, failed: 0 });
    expect(await trial.results()).toEqual(["cheap"]);
  });
});

describe("a summariser that refuses its key", () => {
  test.each<[string, Settings, string]>([
    ["the session's own", {}, "main"],
    ["another one", { summarizerModel: "prov/cheap" }, "cheap"],
  ])("is asked once in ten runs, with one notice that says what to do: %s", async (_which, settings, name) => {
    const { models, session, ...trial } = makeTrial(settings);
    models.states.set(name, { errorMessage: "401 invalid x-api-key" });
    await trial.play(10);
    expect(models.asked.map((call) => call.name)).toEqual([name]);
    expect(await trial.results()).toEqual(times(10, "raw"));
    expect(session.notices).toEqual([
      expect.stringMatching(new RegExp(`^pruner: no summary from prov/${name}: 401 .*summarizerModel.*/pruner model`)),
    ]);
  });
});

describe("a summariser that failed is asked again", () => {
  test("as soon as a setting has changed, however it failed", async () => {
    const { models, session, ...trial } = makeTrial({});
    models.states.set("main", { errorMessage: "401 invalid x-api-key" });
    await trial.play(1);
    models.states.clear();
    session.pruner.changeSettings(session.host, { summarizerThinking: "low" });
    await trial.play(1);
    expect(await trial.results()).toEqual(["main", "main"]);
  });

  test("as soon as the user asks for it, also for what has failed ahead of a flush", async () => {
    const { models, session } = makeTrial({});
    models.states.set("main", { errorMessage: "connect ECONNREFUSED" });
    await session.play(run(1).slice(0, 3));
    await until(() => session.notices.length === 1);
    session.add(assistant(1_500, [{ type: "toolCall", id: "next", name: "read", arguments: {} }], "toolUse"));
    models.states.clear();
    expect(await session.pruner.flushNow(session.host)).toMatchObject({ condensed: 1, failed: 0 });
  });
});

test("a run that ends while a flush is running is flushed behind it", async () => {
  const { models, session, ...trial } = makeTrial({});
  models.states.set("main", "waits");
  await session.play(run(1));
  await session.play(run(2));
  await until(() => models.asked.length === 2);
  models.release();
  models.release();
  await until(() => session.pruner.status(session.host)?.condensedCalls === 2);
  expect(await trial.results()).toEqual(["main", "main"]);
});

test("a call that the end of the session cuts off is counted, and has not failed", async () => {
  const { models, session } = makeTrial({});
  models.states.set("main", "waits");
  await session.play(run(1).slice(0, 3));
  await until(() => models.asked.length === 1);
  await session.pruner.endSession();
  expect(session.tree.getEntries().at(-1)).toMatchObject({
    customType: "context-prune-stats",
    data: { callCount: 1, failedCallCount: 0 },
  });
});

describe("everything down and the context over its budget", () => {
  test.each<[string, Settings, string]>([
    ["no connection", { summarizerModel: "prov/cheap" }, "connect ECONNREFUSED"],
    ["no key", { summarizerModel: "prov/cheap" }, "401 invalid x-api-key"],
    ["no connection, every-turn", { pruneOn: "every-turn" }, "connect ECONNREFUSED"],
    ["no such model", { summarizerModel: "prov/lost" }, ""],
  ])("%s: the digest frees the space before the next request leaves", async (_why, settings, errorMessage) => {
    let tokens = 1_000;
    const usage = () => ({ tokens, contextWindow: 100_000, percent: tokens / 1_000 });
    const { models, ...trial } = makeTrial({ ...settings, autoBudgetTokens: 50_000 }, usage);
    for (const name of ["main", "cheap"]) models.states.set(name, { errorMessage });
    await trial.play(2);
    expect(await trial.results()).toEqual(["raw", "raw"]);
    tokens = 60_000;
    await trial.play(1);
    expect(await trial.results()).toEqual(["digest", "digest", "digest"]);
  });
});

describe("a flush that the user ends", () => {
  test("is over within a second, keeps what was finished, asks for nothing more, and says that it was cancelled", async () => {
    const { models, session, ...trial } = makeTrial({ pruneOn: "on-demand", summarizerConcurrency: 1 });
    await trial.play(4);
    models.states.set("main", "waits");
    const flushing = session.pruner.flushNow(session.host);
    await until(() => models.asked.length === 1);
    models.release();
    await until(() => models.asked.length === 2);

    const startedAt = performance.now();
    session.pruner.cancelFlush();
    expect(await flushing).toMatchObject({ condensed: 1, failed: 3, cancelled: true });
    expect(performance.now() - startedAt).toBeLessThan(1_000);
    expect(models.asked[1]?.signal?.aborted).toBe(true);
    expect(models.asked).toHaveLength(2);
    expect(await trial.results()).toEqual(["main", "raw", "raw", "raw"]);
    expect(session.notices).toEqual([]);

    models.states.clear();
    expect(await session.pruner.flushNow(session.host)).toMatchObject({ condensed: 3, failed: 0 });
    expect(await trial.results()).toEqual(times(4, "main"));
    expect(models.asked).toHaveLength(5);
  });

  test("is not finished by a digest or by the session's model", async () => {
    let tokens = 1_000;
    const usage = () => ({ tokens, contextWindow: 100_000, percent: tokens / 1_000 });
    const { models, session, ...trial } = makeTrial(
      { summarizerModel: "prov/cheap", pruneOn: "on-demand", autoBudgetTokens: 50_000 },
      usage,
    );
    await trial.play(2);
    models.states.set("cheap", "waits");
    tokens = 60_000;
    await session.pruner.turnEnded(session.host);
    const [last] = run(50).slice(-1);
    if (last) session.add(last);
    await session.pruner.turnEnded(session.host);
    await until(() => models.asked.length === 2);
    session.pruner.cancelFlush();
    await trial.landed();
    expect(models.asked.map((call) => call.name)).toEqual(["cheap", "cheap"]);
    expect(await trial.results()).toEqual(["raw", "raw"]);
  });

  test("with nothing running it does nothing", async () => {
    const { models, session, ...trial } = makeTrial({});
    session.pruner.cancelFlush();
    await trial.play(1);
    expect(await trial.results()).toEqual(["main"]);
    expect(models.asked).toHaveLength(1);
  });
});

/** A trial in parts, so that a test names what it uses. */
function makeTrial(settings: Settings, usage?: HostSnapshot["usage"]) {
  const trial = new Trial(settings, usage);
  const { models, session } = trial;
  return {
    models,
    session,
    play: (count: number) => trial.play(count),
    landed: () => trial.landed(),
    results: () => trial.results(),
  };
}
