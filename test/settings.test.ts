/** Every setting of the table changes what the product does. */

import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { Api, AssistantMessage, AssistantMessageEvent, Model, SimpleStreamOptions } from "@mariozechner/pi-ai";
import { describeReport } from "../src/commands/report.ts";
import { SETTINGS, type SettingKey } from "../src/config.ts";
import { emptyReport } from "../src/flush.ts";
import type { HostSnapshot } from "../src/host/host.ts";
import type { ReplyStream } from "../src/summarizer.ts";
import { isRecord } from "../src/text/json.ts";
import { extractToolResultText, isToolResult } from "../src/transcript/messages.ts";
import { segment } from "../src/ui/status-line.ts";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "./support/simulated-session.ts";

const USAGE = { input: 10, output: 5, cacheRead: 0, cacheWrite: 0, totalTokens: 15 };
const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const IMAGE = { type: "image" as const, data: "iVBORw0KGgo=", mimeType: "image/png" };

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

let clock = 1_800_000_000_000;
const tick = () => {
  clock += 1_000;
  return clock;
};

function user(text: string): AgentMessage {
  return { role: "user", content: [{ type: "text", text }], timestamp: tick() };
}

function reply(
  content: AssistantMessage["content"],
  stopReason: AssistantMessage["stopReason"],
  totalTokens = 15,
): AssistantMessage {
  const usage = { ...USAGE, totalTokens, cost: COST };
  return { role: "assistant", content, api: "a", provider: "p", model: "main", usage, stopReason, timestamp: tick() };
}

interface CallOptions {
  name?: string;
  args?: Record<string, string>;
  text?: string;
  isError?: boolean;
  images?: number;
}

let nextId = 0;

/** One tool turn: the call and its result. */
function turn(options: CallOptions = {}): AgentMessage[] {
  nextId += 1;
  const { name = "read", args = { path: `src/file${nextId}.ts` }, isError = false, images = 0 } = options;
  const text = options.text ?? `line of ${nextId}\n`.repeat(300);
  const id = `call_${nextId}`;
  const content = [{ type: "text" as const, text }, ...Array.from({ length: images }, () => IMAGE)];
  return [
    reply([{ type: "toolCall", id, name, arguments: args }], "toolUse"),
    { role: "toolResult", toolCallId: id, toolName: name, content, isError, timestamp: tick() },
  ];
}

function closing(text = "Done.", thinking = false): AgentMessage {
  const thought = { type: "thinking" as const, thinking: "Hm.", thinkingSignature: "sig" };
  return reply([...(thinking ? [thought] : []), { type: "text", text }], "stop");
}

/** `count` chains of one turn each. */
function chains(count: number, options?: CallOptions): AgentMessage[] {
  return Array.from({ length: count }, () => [user("go"), ...turn(options), closing("Done.", true)]).flat();
}

/** A summariser that answers as `answer` says; it counts its calls and the most that ran at once. */
class FakeModel {
  calls: SimpleStreamOptions[] = [];
  most = 0;
  private running = 0;

  constructor(private readonly answer: () => Promise<string | undefined>) {}

  get host(): Pick<HostSnapshot, "model" | "models"> {
    const model = {
      provider: "p",
      id: "main",
      reasoning: true,
      contextWindow: 100_000,
      maxTokens: 4_000,
      input: ["text"],
    };
    const models = {
      find: () => model,
      getAvailable: () => [model],
      hasConfiguredAuth: () => true,
      streamSimple: (_model: unknown, _context: unknown, options: SimpleStreamOptions) => this.stream(options),
    };
    // The product uses a few members of the two; a whole registry would bring keys and files.
    return { model: model as unknown as Model<Api>, models: models as unknown as HostSnapshot["models"] };
  }

  private stream(options: SimpleStreamOptions): ReplyStream {
    this.calls.push(options);
    this.running += 1;
    this.most = Math.max(this.most, this.running);
    const message = this.answer().then((text) => {
      this.running -= 1;
      return reply([{ type: "text", text: text ?? "" }], "stop");
    });
    return {
      async *[Symbol.asyncIterator](): AsyncIterator<AssistantMessageEvent> {
        const partial = await message;
        yield { type: "start", partial };
      },
      result: () => message,
    };
  }
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 30));
const SUMMARY = "[1] Read the file.";

function session(settings: Settings, options: { tree?: EntryTree; model?: FakeModel } = {}): SimulatedSession {
  const agentDir = agentDirWith({
    workingSet: null,
    summarizerModel: "none",
    minBatchChars: 0,
    pruneOn: "agent-message",
    ...settings,
  });
  return new SimulatedSession(agentDir, options.tree ?? new EntryTree(), false, options.model?.host);
}

/** What the last request of a conversation carries. */
async function sent(settings: Settings, messages: readonly AgentMessage[]): Promise<string> {
  const requests = await session(settings).play(messages);
  return JSON.stringify(requests.at(-1)?.sent);
}

/** The same conversation under two values of a setting. */
async function twice(
  messages: readonly AgentMessage[],
  first: Settings,
  second: Settings,
): Promise<[unknown, unknown]> {
  return [await sent(first, messages), await sent(second, messages)];
}

async function flushedWith(
  settings: Settings,
  model: FakeModel,
  messages: readonly AgentMessage[],
): Promise<SimulatedSession> {
  const played = session({ summarizerModel: "p/main", pruneOn: "on-demand", ...settings }, { model });
  for (const message of messages) played.add(message);
  played.add(user("next"));
  await played.pruner.flushNow(played.host);
  return played;
}

/** A summariser that never speaks, given up by the one limit or the other: the notice says which. */
async function givenUp(settings: Settings): Promise<string[]> {
  const model = new FakeModel(() => new Promise(() => undefined));
  return (await flushedWith(settings, model, chains(1))).notices;
}

/** Whether a usage figure at the end of a turn in the middle of a run makes the next request smaller. */
async function budgetFlush(settings: Settings, tokens: readonly number[]): Promise<boolean> {
  const played = session({ pruneOn: "on-demand", ...settings });
  played.add(user("go"));
  let usage: { tokens: number; contextWindow: number; percent: number | null } | undefined;
  played.host.usage = () => usage;
  for (const figure of tokens) {
    for (const message of turn()) played.add(message);
    usage = { tokens: figure, contextWindow: 100_000, percent: null };
    await played.pruner.turnEnded(played.host);
    await played.request();
  }
  const { sent: messages } = await played.request();
  return messages.filter(isToolResult).some((message) => extractToolResultText(message).startsWith("[t"));
}

async function spilled(settings: Settings, chars: number): Promise<{ files: number; stub: string }> {
  const dir = mkdtempSync(join(tmpdir(), "pi-condense-settings-"));
  folders.push(dir);
  const played = session({ pruneOn: "on-demand", ...settings }, { tree: new EntryTree(dir) });
  const messages = [user("go"), ...turn({ name: "fetch", text: "long line of a page\n".repeat(chars / 20) })];
  for (const message of messages) played.add(message);
  const { sent: rendered } = await played.request();
  const stub = rendered.filter(isToolResult).map(extractToolResultText).join();
  const blobs = readdirSync(dir).flatMap((name) => readdirSync(join(dir, name)));
  return { files: blobs.length, stub: stub.replaceAll(dir, "") };
}

async function concurrency(summarizerConcurrency: number): Promise<number> {
  const model = new FakeModel(async () => {
    await soon();
    return SUMMARY;
  });
  await flushedWith({ summarizerConcurrency }, model, [user("go"), ...turn(), ...turn(), ...turn(), closing()]);
  return model.most;
}

async function reasoning(summarizerThinking: Settings["summarizerThinking"]): Promise<unknown> {
  const model = new FakeModel(async () => SUMMARY);
  await flushedWith({ summarizerThinking }, model, chains(1));
  return model.calls[0]?.reasoning;
}

async function fusedCalls(fuseRangeSummary: boolean): Promise<number> {
  const model = new FakeModel(async () => SUMMARY);
  const chainCompression = { rollingWindow: 0, batchSize: 0, fuseRangeSummary };
  await flushedWith({ chainCompression }, model, [user("go"), ...turn(), ...turn(), closing()]);
  return model.calls.length;
}

async function compressed(chainCompression: Settings["chainCompression"], count: number): Promise<number> {
  const played = session({ chainCompression });
  await played.play(chains(count));
  return played.state().indexer.chains().size;
}

const OPEN_RUN = [...chains(1), user("go"), ...turn({ name: "grep" }), ...turn()];
const LONG = "x".repeat(3_000);
const FAILED = [
  ...[
    user("go"),
    ...turn({ name: "edit", args: { path: "a.ts", oldText: LONG }, text: "Could not find it", isError: true }),
  ],
  ...[closing(), ...chains(3)],
];
const APART = { chainCompression: { enabled: false } };

/** For each setting, what comes of two of its values. */
const EFFECTS: Record<SettingKey, () => Promise<[unknown, unknown]>> = {
  enabled: () => twice(chains(1), { enabled: true }, { enabled: false }),
  pruneOn: () => twice(OPEN_RUN, { pruneOn: "agent-message" }, { pruneOn: "every-turn" }),
  contextTagTools: () =>
    twice(
      [user("go"), ...turn(), ...turn({ name: "tag", text: "ok" }), ...turn()],
      { pruneOn: "on-context-tag", contextTagTools: ["tag"] },
      { pruneOn: "on-context-tag", contextTagTools: ["other"] },
    ),
  batchingMode: async () => {
    const run = [user("go"), ...turn(), ...turn(), closing()];
    const entries = async (batchingMode: Settings["batchingMode"]) => {
      const played = session({ batchingMode });
      await played.play(run);
      const frontiers = played.tree
        .getEntries()
        .filter((e) => e.type === "custom" && e.customType.endsWith("frontier"));
      return frontiers.map((entry) =>
        entry.type === "custom" && isRecord(entry.data) ? entry.data.attemptedBatchCount : 0,
      );
    };
    return [await entries("turn"), await entries("agent-message")];
  },
  summarizerModel: () => twice(chains(1), { summarizerModel: "none" }, { summarizerModel: "default" }),
  summarizerThinking: async () => [await reasoning("default"), await reasoning("high")],
  summarizerIdleTimeoutMs: async () => [
    await givenUp({ summarizerIdleTimeoutMs: 1_000, summarizerMaxTimeoutMs: 60_000 }),
    await givenUp({ summarizerIdleTimeoutMs: 60_000, summarizerMaxTimeoutMs: 1_000 }),
  ],
  summarizerMaxTimeoutMs: async () => [
    await givenUp({ summarizerIdleTimeoutMs: 60_000, summarizerMaxTimeoutMs: 1_000 }),
    await givenUp({ summarizerIdleTimeoutMs: 60_000, summarizerMaxTimeoutMs: 2_000 }),
  ],
  summarizerConcurrency: async () => [await concurrency(1), await concurrency(3)],
  minBatchChars: () => twice(chains(1), { minBatchChars: 0 }, { minBatchChars: 100_000 }),
  dedupByContentHash: () =>
    twice(
      chains(2, { text: "the very same\n".repeat(200) }),
      { ...APART, dedupByContentHash: true },
      { ...APART, dedupByContentHash: false },
    ),
  protectedTools: () => twice(chains(1), {}, { protectedTools: ["read"] }),
  stateTools: () => twice(chains(1), {}, { stateTools: ["read"] }),
  listTools: () => twice(chains(1), {}, { listTools: ["read"] }),
  protectedPaths: () => twice(chains(1), {}, { protectedPaths: ["src/**"] }),
  "chainCompression.enabled": async () => [
    await compressed({ enabled: true, rollingWindow: 0, batchSize: 0 }, 3),
    await compressed({ enabled: false, rollingWindow: 0, batchSize: 0 }, 3),
  ],
  "chainCompression.rollingWindow": async () => [
    await compressed({ rollingWindow: 1, batchSize: 0 }, 5),
    await compressed({ rollingWindow: 3, batchSize: 0 }, 5),
  ],
  "chainCompression.batchSize": async () => [
    await compressed({ rollingWindow: 1, batchSize: 0 }, 4),
    await compressed({ rollingWindow: 1, batchSize: 8 }, 4),
  ],
  "chainCompression.stripFinalAssistantThinking": () =>
    twice(
      chains(3),
      { chainCompression: { rollingWindow: 1, batchSize: 0, stripFinalAssistantThinking: true } },
      { chainCompression: { rollingWindow: 1, batchSize: 0, stripFinalAssistantThinking: false } },
    ),
  "chainCompression.fuseRangeSummary": async () => [await fusedCalls(true), await fusedCalls(false)],
  "condenseArgs.enabled": () =>
    twice(
      chains(1, { name: "write", args: { path: "a.ts", content: LONG }, text: "ok" }),
      { condenseArgs: { enabled: true } },
      { condenseArgs: { enabled: false } },
    ),
  "condenseArgs.minStringChars": () =>
    twice(
      chains(1, { name: "write", args: { path: "a.ts", content: LONG }, text: "ok" }),
      { condenseArgs: { minStringChars: 400 } },
      { condenseArgs: { minStringChars: 4_000 } },
    ),
  "purgeErrors.enabled": () =>
    twice(FAILED, { ...APART, purgeErrors: { enabled: true } }, { ...APART, purgeErrors: { enabled: false } }),
  "purgeErrors.cooldownTurns": () =>
    twice(FAILED, { ...APART, purgeErrors: { cooldownTurns: 1 } }, { ...APART, purgeErrors: { cooldownTurns: 50 } }),
  "purgeErrors.minArgChars": () =>
    twice(FAILED, { ...APART, purgeErrors: { minArgChars: 500 } }, { ...APART, purgeErrors: { minArgChars: 5_000 } }),
  workingSet: () =>
    twice(OPEN_RUN, { pruneOn: "every-turn", workingSet: null }, { pruneOn: "every-turn", workingSet: 24 }),
  recoveryGraceTurns: () => {
    const asked = turn({ name: "context_tree_query", args: { toolCallIds: "t1" } });
    const messages = [...chains(1), user("again"), ...asked, closing(), ...chains(2)];
    return twice(messages, { ...APART, recoveryGraceTurns: 1 }, { ...APART, recoveryGraceTurns: 50 });
  },
  "turnProtection.enabled": () =>
    twice(chains(2), { turnProtection: { enabled: false } }, { turnProtection: { enabled: true } }),
  "turnProtection.turns": () =>
    twice(
      chains(4),
      { ...APART, turnProtection: { enabled: true, turns: 1 } },
      { ...APART, turnProtection: { enabled: true, turns: 3 } },
    ),
  protectTags: () => {
    const text = `${"a line\n".repeat(400)}<protect>keep 4711</protect>\n${"a line\n".repeat(400)}`;
    return twice(chains(1, { text }), { protectTags: true }, { protectTags: false });
  },
  maxImagesPerRequest: () =>
    twice(
      [user("go"), ...turn({ images: 3 }), ...turn({ images: 3 })],
      { maxImagesPerRequest: null },
      { maxImagesPerRequest: 2 },
    ),
  spillThreshold: async () => [
    (await spilled({ spillThreshold: 10_000 }, 20_000)).files,
    (await spilled({ spillThreshold: 65_536 }, 20_000)).files,
  ],
  spillPreviewBytes: async () => [
    (await spilled({ spillThreshold: 10_000, spillPreviewBytes: 100 }, 20_000)).stub.length,
    (await spilled({ spillThreshold: 10_000, spillPreviewBytes: 2_048 }, 20_000)).stub.length,
  ],
  autoBudgetThreshold: async () => [
    await budgetFlush({ autoBudgetThreshold: 0.5 }, [10_000, 60_000]),
    await budgetFlush({ autoBudgetThreshold: 0.9 }, [10_000, 60_000]),
  ],
  budgetTurnDelta: async () => [
    await budgetFlush({ budgetTurnDelta: 0.15 }, [10_000, 12_000, 40_000]),
    await budgetFlush({ budgetTurnDelta: 0.9 }, [10_000, 12_000, 40_000]),
  ],
  autoBudgetTokens: async () => [
    await budgetFlush({ autoBudgetTokens: 50_000 }, [10_000, 60_000]),
    await budgetFlush({ autoBudgetTokens: 90_000 }, [10_000, 60_000]),
  ],
  showPruneStatusLine: async () => {
    const line = async (showPruneStatusLine: boolean) => {
      const played = session({ showPruneStatusLine });
      await played.play(chains(1));
      return segment(played.pruner);
    };
    return [await line(true), await line(false)];
  },
  quietOversizedSkips: async () => {
    const report = { ...emptyReport(), oversized: 2 };
    return [
      describeReport(report, { quietOversizedSkips: false }),
      describeReport(report, { quietOversizedSkips: true }),
    ];
  },
};

describe("each setting of the table", () => {
  test("is told apart by nothing else: the same settings give the same request", async () => {
    const [first, second] = await twice(OPEN_RUN, {}, {});
    expect(first).toEqual(second);
  });

  for (const { key } of SETTINGS) {
    test(`${key} changes what happens`, async () => {
      const effect = Object.entries(EFFECTS).find(([name]) => name === key)?.[1];
      const [first, second] = effect ? await effect() : [0, 0];
      expect(first).not.toEqual(second);
    }, 30_000);
  }
});
