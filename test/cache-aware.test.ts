/** `pruneOn: cache-aware` through the product's own handlers: when it condenses, what it says, what it leaves alone. */
import { afterAll, beforeEach, describe, expect, setSystemTime, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { statusOf } from "../src/commands/status.ts";
import { PRICE_PROFILES } from "../src/cost/prices.ts";
import { SYSTEM_CLOCK } from "../src/engine/environment.ts";
import { PromptCache } from "../src/engine/prompt-cache.ts";
import { SessionState } from "../src/engine/session-state.ts";
import { sessionModel } from "../src/host/session-model.ts";
import { HostSummarizers } from "../src/host/summarizers.ts";
import { extractToolResultText, isToolResult } from "../src/transcript/messages.ts";
import { CUSTOM_TYPE_FRONTIER, CUSTOM_TYPE_SUMMARY } from "../src/types.ts";
import { TEST_SETTINGS } from "./support/folders.ts";
import { createFolders, HOSTS, type PiRun, runPi } from "./support/print-mode.ts";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "./support/simulated-session.ts";
import { type ModelName, WalkModels, walkModel } from "./support/walk-models.ts";

const START = 1_800_000_000_000;
const MINUTE = 60_000;
const USAGE = { input: 10, output: 5, cacheRead: 0, cacheWrite: 0, totalTokens: 15 };
const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const KEPT = "keep";

let now = START;
let nextId = 0;
beforeEach(() => wait(0, START));
afterAll(() => void setSystemTime());

/** Lets time pass; the process and the messages go by one clock. */
function wait(ms: number, from = now): number {
  now = from + ms;
  setSystemTime(new Date(now));
  return now;
}

function user(text = "go on"): AgentMessage {
  return { role: "user", content: [{ type: "text", text }], timestamp: wait(1_000) };
}

function reply(content: AssistantMessage["content"], stopReason: AssistantMessage["stopReason"]): AgentMessage {
  const usage = { ...USAGE, cost: COST };
  const from = { api: "a", provider: "p", model: "main" };
  return { role: "assistant", content, ...from, usage, stopReason, timestamp: wait(1_000) };
}

const closing = () => reply([{ type: "text", text: "Done." }], "stop");

/** One tool turn, its calls side by side. */
function turn(...outputs: (number | [chars: number, tool: string])[]): AgentMessage[] {
  const calls = outputs.map((output) => {
    const [chars, name] = typeof output === "number" ? [output, "read"] : output;
    nextId += 1;
    const text = `line of ${nextId}\n`.repeat(Math.ceil(chars / 12)).slice(0, chars);
    return { id: `call_${nextId}`, name, path: `src/file${nextId}.ts`, text };
  });
  return [
    reply(
      calls.map(({ id, name, path }) => ({ type: "toolCall" as const, id, name, arguments: { path } })),
      "toolUse",
    ),
    ...calls.map(({ id, name, text }): AgentMessage => {
      const content = [{ type: "text" as const, text }];
      return { role: "toolResult", toolCallId: id, toolName: name, content, isError: false, timestamp: wait(1_000) };
    }),
  ];
}

function session(settings: Settings = {}, tree = new EntryTree()): SimulatedSession {
  const own = { summarizerModel: "none", pruneOn: "cache-aware" as const, protectedTools: [KEPT], ...settings };
  return new SimulatedSession(agentDirWith({ ...TEST_SETTINGS, ...own }), tree, false);
}

/** Plays messages as the host would, the request before each reply included. */
async function play(played: SimulatedSession, messages: readonly AgentMessage[]): Promise<void> {
  for (const message of messages) {
    setSystemTime(new Date(message.timestamp));
    if (message.role === "assistant") await played.request();
    played.add(message);
    if (message.role === "assistant" || isToolResult(message)) await played.pruner.turnEnded(played.host);
  }
  setSystemTime(new Date(now));
}

async function stubs(played: SimulatedSession): Promise<number> {
  const { sent } = await played.request();
  return sent.filter(isToolResult).filter((message) => extractToolResultText(message).startsWith("[t")).length;
}

const frontiers = (played: SimulatedSession) =>
  played.tree
    .getEntries()
    .flatMap((e) => (e.type === "custom" && e.customType === CUSTOM_TYPE_FRONTIER ? [e.data] : []));
const status = (played: SimulatedSession) => statusOf(played.pruner, played.host).message;

/** A small result before much that stays: to take it out would write all of that anew. */
const COSTLY = () => [user(), ...turn(3_000, [60_000, KEPT]), closing(), user()];

describe("with a warm cache", () => {
  test("what costs more than it is expected to save waits, and the prompt stays as it is", async () => {
    const played = session();
    await play(played, COSTLY());
    expect(await stubs(played)).toBe(0);
    expect(frontiers(played)).toEqual([]);
    expect(status(played)).toContain("Last decision: waited, because it does not pay yet");
    const said =
      /expected to save ([\d,]+) tokens of input and .* above ([\d,]+) tokens of input: that cost with a margin/.exec(
        status(played),
      );
    const [now = 0, needed = 0] = (said ?? []).slice(1).map((figure) => Number(figure.replaceAll(",", "")));
    expect(now).toBeGreaterThan(0);
    expect(needed).toBeGreaterThan(now);
  });

  test("what saves more than it costs goes, and status says why", async () => {
    const played = session();
    await play(played, [user(), ...turn(40_000), ...turn(200), closing(), user()]);
    expect(await stubs(played)).toBe(1);
    expect(frontiers(played)).toHaveLength(1);
    expect(status(played)).toContain("Last decision: ");
  });

  test("a result is never taken before the model has answered it", async () => {
    const played = session();
    await play(played, [user(), ...turn(200_000)]);
    expect(await stubs(played)).toBe(0);
  });
});

describe("what waited goes for nothing", () => {
  test("once the provider has forgotten the prompt", async () => {
    const played = session();
    await play(played, COSTLY());
    wait(4 * MINUTE);
    expect(await stubs(played)).toBe(0);
    wait(6 * MINUTE);
    expect(await stubs(played)).toBe(1);
    expect(frontiers(played)).toHaveLength(1);
    expect(status(played)).toContain("Last decision: condensed, because the prompt cache is cold");
  });

  test("when the session is taken up again", async () => {
    const played = session();
    await play(played, COSTLY());
    expect(await stubs(played.restart())).toBe(1);
  });

  test("when the model is another one", async () => {
    const played = session();
    await play(played, COSTLY());
    const cost = PRICE_PROFILES.get("anthropic-5m")?.rates;
    Object.assign(played.host, {
      model: { provider: "p", id: "other", contextWindow: 200_000, maxTokens: 8_000, cost },
    });
    expect(await stubs(played)).toBe(1);
  });

  test("when the window is nearly full, whatever it costs", async () => {
    const played = session();
    await play(played, COSTLY());
    played.host.usage = () => ({ tokens: 172_000, contextWindow: 200_000, percent: 86 });
    expect(await stubs(played)).toBe(1);
    expect(status(played)).toContain("Last decision: condensed, because the window is nearly full");
  });
});

test("chains come along when the cache is cold, however few there are, and not before", async () => {
  const settings = { chainCompression: { rollingWindow: 1, batchSize: 10 } };
  const played = session(settings);
  const chain = () => [user(), ...turn(3_000), ...turn(3_000), closing()];
  // What stands behind the first chain would all have to be written anew.
  await play(played, [...chain(), user("a long text ".repeat(8_000)), ...chain(), ...chain(), user()]);
  const before = played.state().indexer.chains().size;
  wait(10 * MINUTE);
  await played.request();
  expect(before).toBe(0);
  expect(played.state().indexer.chains().size).toBe(2);
});

/**
 * A prompt cache beside a session that condenses nothing by itself, and the question whether to.
 * @param isPaid the summaries are there already
 */
function asking(played: SimulatedSession, isPaid = true) {
  const state = new SessionState(played.tree);
  const cache = new PromptCache({ ...SYSTEM_CLOCK, now: () => now }, state);
  const model = sessionModel(played.host.model, undefined);
  const summarizers = new HostSummarizers({ clock: SYSTEM_CLOCK, tell: () => {}, onError: () => {} });
  const ask = () => {
    const isProtected = () => false;
    state.sync();
    const messages = state.messages();
    const pending = state.pending(messages, { batchingMode: "turn", protectedTurns: 0, isProtected });
    const unpaid = isPaid ? [] : pending;
    const inUse = new Map<string, number>();
    const question = { messages, pending, inUse, unpaid, isProtected, render: () => messages, usage: undefined, model };
    const config = played.pruner.settings;
    return cache.decide({ ...question, summarizer: summarizers.choose(config, played.host), config });
  };
  return { cache, ask, model };
}

test("a flush of which nothing comes is not made again for the same results", async () => {
  const played = session({ pruneOn: "on-demand" });
  await play(played, [user(), ...turn(40_000), closing(), user()]);
  const { cache, ask } = asking(played);
  expect(ask()?.flush).toBe(true);
  cache.flushed({ condensed: 0, duplicates: 0, chains: 0 });
  expect(ask()).toBeUndefined();
  await play(played, [...turn(40_000), closing(), user()]);
  expect(ask()?.flush).toBe(true);
});

test("summaries that are still to be made are part of the price: where they do not pay, a digest does", async () => {
  const played = session({ pruneOn: "on-demand", summarizerModel: "default" });
  await play(played, [user(), ...turn(40_000), closing(), user()]);
  const model = walkModel("cheap reads, dear writes");
  if (!model) throw new Error("it is there");
  played.host = { ...played.host, model };
  const decisionWhere = (isPaid: boolean) => asking(played, isPaid).ask();
  // 40,000 characters are some 10,000 tokens to read at 3 a million, more than the few requests to come would save.
  expect(decisionWhere(true)).toMatchObject({ flush: true });
  expect(decisionWhere(true)?.digest).toBeUndefined();
  expect(decisionWhere(false)).toMatchObject({ flush: true, digest: true });
});

test("where a provider finds only near ends of earlier prompts, a deep change costs the whole prompt", async () => {
  const played = session({ pruneOn: "on-demand" });
  const long = user("a long text ".repeat(5_000));
  const small = Array.from({ length: 15 }, () => turn(300)).flat();
  await play(played, [long, ...turn(40_000), ...small, closing(), user()]);
  const priceWith = (api: string) => {
    const cost = PRICE_PROFILES.get("anthropic-5m")?.rates;
    Object.assign(played.host, { model: { provider: "p", id: "main", api, contextWindow: 200_000, cost } });
    const { cache, ask, model } = asking(played);
    cache.requestLeaves(played.state().messages(), model);
    return ask()?.price ?? 0;
  };
  const anywhere = priceWith("openai-completions");
  expect(anywhere).toBeGreaterThan(0);
  for (const api of ["anthropic-messages", "bedrock-converse-stream"]) {
    expect(priceWith(api)).toBeGreaterThan(3 * anywhere);
  }
});

test("a provider that keeps prompts for an hour is asked no sooner", async () => {
  const before = process.env.PI_CACHE_RETENTION;
  process.env.PI_CACHE_RETENTION = "long";
  try {
    const played = session();
    const cost = PRICE_PROFILES.get("anthropic-5m")?.rates;
    const model = { provider: "p", id: "main", api: "openai-completions", contextWindow: 200_000, cost };
    Object.assign(played.host, { model });
    await play(played, COSTLY());
    wait(50 * MINUTE);
    expect(await stubs(played)).toBe(0);
    wait(61 * MINUTE);
    expect(await stubs(played)).toBe(1);
  } finally {
    if (before === undefined) delete process.env.PI_CACHE_RETENTION;
    else process.env.PI_CACHE_RETENTION = before;
  }
});

test("a restart renders what was sent, and what was sent is what a summary stands for", async () => {
  const played = session();
  await play(played, [user(), ...turn(40_000), closing(), user()]);
  const { sent } = await played.request();
  const again = await played.restart().request();
  expect(again.sent).toEqual(sent);
  expect(played.tree.getEntries().some((e) => e.type === "custom" && e.customType === CUSTOM_TYPE_SUMMARY)).toBe(true);
});

describe.each(HOSTS)("on the command line of the %s host", (host) => {
  test("what waited in one process goes when the next one takes the session up, and the prompt is stable from there", async () => {
    const lines = (word: string, count: number) => `${`The ${word} jumps over the lazy dog.\n`.repeat(count)}`;
    const folders = createFolders({ "notes.md": lines("fox", 90), "kept.md": lines("cat", 2_000) });
    try {
      const read = (path: string, id: string) => ({ name: "read", arguments: { path }, id });
      const contextPrune = { summarizerModel: "none", pruneOn: "cache-aware", protectedPaths: ["**/kept.md"] };
      const first = await runPi(host, {
        folders,
        prompts: ["look", "and now?"],
        settings: { contextPrune },
        script: {
          replies: [{ calls: [read("notes.md", "c1"), read("kept.md", "c2")] }, { text: "A fox." }, { text: "Done." }],
        },
      });
      const second = await runPi(host, {
        folders,
        session: "continue",
        prompts: ["go on", "and on"],
        script: { replies: [{ text: "Yes." }, { text: "Yes." }] },
      });
      for (const { code, stderr } of [first, second]) expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      const results = ({ requests }: PiRun, i: number) =>
        requests.at(i)?.messages.filter(isToolResult).map(extractToolResultText) ?? [];
      expect(results(first, -1)[0]).toStartWith("The fox jumps");
      expect(results(second, 0)[0]).toStartWith("[t1 condensed: read notes.md");
      expect(results(second, 0)[1]).toStartWith("The cat jumps");
      const before = second.requests[0]?.messages ?? [];
      expect(second.requests[1]?.messages.slice(0, before.length)).toEqual(before);
      const frontiersWritten = second.entries.flatMap((entry) =>
        entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER ? [entry.data] : [],
      );
      expect(frontiersWritten).toHaveLength(1);
    } finally {
      folders.remove();
    }
  }, 60_000);
});

test("summaries are made ahead where a flush is to be expected, and where their price would not come back they are not", async () => {
  /** Summaries that have been asked for after one small turn of a new session, by a model of those prices. */
  const asked = async (name: ModelName) => {
    const models = new WalkModels(true);
    const settings = { summarizerModel: "default", pruneOn: "cache-aware" as const };
    const host = { model: walkModel(name), models: models.registry };
    const played = new SimulatedSession(agentDirWith({ ...TEST_SETTINGS, ...settings }), new EntryTree(), false, host);
    await play(played, [user(), ...turn(4_000)]);
    await new Promise((resolve) => setTimeout(resolve, 5));
    return models.unanswered;
  };
  expect(await asked("free")).toBe(0);
  expect(await asked("cheap reads, dear writes")).toBe(0);
});
