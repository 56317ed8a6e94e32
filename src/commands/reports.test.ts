import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Api, AssistantMessage, Model } from "@mariozechner/pi-ai";
import type { ModelRegistry, SessionEntry } from "@mariozechner/pi-coding-agent";
import { agentDirWith, EntryTree, SimulatedSession } from "../../test/support/simulated-session.ts";
import { DEFAULT_CONFIG } from "../config.ts";
import type { HostSnapshot, Registration } from "../host/host.ts";
import { blobDirFor, blobPathFor, writeSpill } from "../spill.ts";
import { CUSTOM_TYPE_FRONTIER, CUSTOM_TYPE_INDEX } from "../types.ts";
import { cacheShare } from "../ui/usage-model.ts";
import { runCommand, SUBCOMMANDS } from "./index.ts";
import { describeReport } from "./report.ts";
import { nextTrigger } from "./status.ts";

function reply(cacheRead: number, input: number): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input, output: 1, cacheRead, cacheWrite: 0, totalTokens: input + cacheRead + 1, cost };
  const content = [{ type: "text" as const, text: "so" }];
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason: "stop", timestamp: 1 };
}

function branchOf(...items: (AssistantMessage | { rawCharCount: number; summaryCharCount: number })[]): SessionEntry[] {
  const tree = new EntryTree();
  for (const item of items) {
    if ("role" in item) tree.appendMessage(item);
    else {
      const counts = { attemptedBatchCount: 1, attemptedToolCallCount: 1, outcome: "summarized", ...item };
      tree.appendCustom(CUSTOM_TYPE_FRONTIER, { lastAttemptedToolCallId: "c1", ...counts });
    }
  }
  return tree.branch();
}

function model(provider: string, id: string, cacheRead = 0.3): Model<Api> {
  const cost = { input: 3, output: 15, cacheRead, cacheWrite: 3.75 };
  const limits = { contextWindow: 200_000, maxTokens: 8_000 };
  return { provider, id, name: id, api: "a", baseUrl: "", reasoning: false, input: ["text"], cost, ...limits };
}

/** The part of a registry that is asked. */
function registryOf(models: readonly Model<Api>[], hasKey = true): ModelRegistry {
  return {
    find: (provider: string, id: string) => models.find((m) => m.provider === provider && m.id === id),
    getAvailable: () => models,
    hasConfiguredAuth: () => hasKey,
  } as unknown as ModelRegistry;
}

function sessionWith(settings: Parameters<typeof agentDirWith>[0], tree = new EntryTree()): SimulatedSession {
  return new SimulatedSession(agentDirWith(settings), tree);
}

async function say(session: SimulatedSession, text: string, host: Partial<HostSnapshot> = {}) {
  return runCommand(session.pruner, { ...session.host, ...host }, text);
}

describe("cacheShare", () => {
  test("is unknown where the provider tells nothing of a cache", () => {
    expect(cacheShare(branchOf(reply(0, 100), reply(0, 200)))).toBeUndefined();
    expect(cacheShare([])).toBeUndefined();
  });

  test("looks at the last five prompts, weighed by their size", () => {
    const old = reply(0, 1_000_000);
    const share = cacheShare(
      branchOf(old, reply(900, 100), reply(900, 100), reply(900, 100), reply(900, 100), reply(2_700, 300)),
    );
    expect(share).toEqual({ mean: 0.9, shares: [0.9, 0.9, 0.9, 0.9, 0.9], fallen: false });
  });

  test("has fallen where the last prompt was hardly read from the cache that stood before", () => {
    expect(cacheShare(branchOf(reply(900, 100), reply(100, 900)))?.fallen).toBe("unexplained");
    expect(cacheShare(branchOf(reply(100, 900), reply(100, 900)))?.fallen).toBe(false);
    expect(cacheShare(branchOf(reply(900, 100), reply(700, 300)))?.fallen).toBe(false);
  });

  test("has not fallen where all that stood before was read, and much is new", () => {
    expect(cacheShare(branchOf(reply(900, 100), reply(1_000, 6_000)))?.fallen).toBe(false);
    expect(cacheShare(branchOf(reply(900, 100), reply(400, 6_000)))?.fallen).toBe("unexplained");
  });
});

test("a fall of the cache reads is put down to what stands before it", () => {
  const flush = { rawCharCount: 4_400, summaryCharCount: 400 };
  const [high, low] = [reply(900, 100), reply(100, 900)];
  expect(cacheShare(branchOf(high, flush, low))?.fallen).toBe("flush");
  expect(cacheShare(branchOf(high, flush, low, high, flush, low))?.fallen).toBe("flushes");
  expect(cacheShare(branchOf(high, { ...low, timestamp: high.timestamp + 6 * 60_000 }))?.fallen).toBe("cold");
  expect(cacheShare(branchOf(high, { ...low, model: "another" }))?.fallen).toBe("cold");
});

describe("nextTrigger", () => {
  const usage = () => ({ tokens: 84_000, contextWindow: 200_000, percent: 42 });

  test("names the event, and the nearest budget in tokens", () => {
    const closing = { ...DEFAULT_CONFIG, pruneOn: "agent-message" as const };
    expect(nextTrigger(closing, { usage })).toBe("the next closing reply (84,000 of 200,000 tokens now)");
    expect(nextTrigger(DEFAULT_CONFIG, { usage })).toStartWith(
      "as soon as condensing saves clearly more than it costs (84,000",
    );
    const config = { ...closing, autoBudgetThreshold: 0.8, autoBudgetTokens: 150_000, budgetTurnDelta: 0.1 };
    expect(nextTrigger(config, { usage })).toBe(
      "the next closing reply, or 150,000 tokens in the context, or a turn that adds 20,000 tokens (84,000 of 200,000 tokens now)",
    );
  });

  test("is none while the pruner is off, and does without figures that nobody knows", () => {
    expect(nextTrigger({ ...DEFAULT_CONFIG, enabled: false }, { usage })).toContain("off");
    const unknown = () => ({ tokens: null, contextWindow: 200_000, percent: null });
    expect(nextTrigger({ ...DEFAULT_CONFIG, pruneOn: "on-demand" }, { usage: unknown })).toBe("/pruner now");
    expect(nextTrigger({ ...DEFAULT_CONFIG, autoBudgetThreshold: 0.5 }, { usage: () => undefined })).toBe(
      "as soon as condensing saves clearly more than it costs",
    );
  });
});

describe("status", () => {
  const session = model("one", "big");
  const cheap = model("two", "small");

  test("names a summariser at another provider, and that tool output goes there", async () => {
    const host = { model: session, models: registryOf([session, cheap]) };
    const other = sessionWith({ summarizerModel: "two/small" });
    expect((await say(other, "status", host)).message).toContain(
      "Summaries by two/small, at another provider than the session's (one): tool output is sent to two.",
    );
    const own = await say(sessionWith({ summarizerModel: "default" }), "status", host);
    expect(own.message).toContain("Summaries by one/big.");
    const auto = await say(sessionWith({}), "status", host);
    expect(auto.message).toContain("Summaries by mechanical digests, or one/big where it costs little.");
  });

  test("tells what summaries cost where the session's own model has no prices", async () => {
    const tree = new EntryTree();
    tree.appendMessage(reply(900, 100));
    const stats = { totalInputTokens: 1, totalOutputTokens: 1, totalCost: 0.1, callCount: 1, failedCallCount: 0 };
    tree.appendCustom("context-prune-stats", stats);
    const { message } = await say(sessionWith({}, tree), "status", { model: session, models: registryOf([session]) });
    expect(message).toStartWith("This session: 1,002 prompt tokens instead of about 1,000 (±0%).\n");
    expect(message).toContain("1 call of the summariser ($0.10)");
  });

  test("warns where cache reads have fallen", async () => {
    const tree = new EntryTree();
    for (const message of [reply(900, 100), reply(0, 1_000)]) tree.appendMessage(message);
    const answer = await say(sessionWith({}, tree), "status");
    expect(answer.type).toBe("warning");
    expect(answer.message).toContain("Prompt cache: 45% of the last 2 prompts was read from it (90%, 0%).");
    expect(answer.message).toContain("Cache reads have fallen without a flush.");
  });
});

describe("doctor", () => {
  const DIGEST = { summarizerModel: "none" };
  const own: Registration = { name: "pruner", path: "/x/index.ts" };
  const tool: Registration = { name: "context_tree_query", path: "/x/index.ts" };

  test("finds nothing where all is well", async () => {
    const registrations = () => ({ activeTools: ["context_tree_query"], commands: [own], tools: [tool] });
    const tree = new EntryTree(agentDirWith({}));
    const { message, type } = await say(sessionWith(DIGEST, tree), "doctor", { registrations });
    expect(message).toEndWith("Everything is as it should be.");
    expect(type).toBe("info");
    expect(message).not.toMatch(/[✗!] /);
  });

  test.each([
    ["a second pruner", [own, { name: "pruner:2", path: "/other.ts" }], [tool], "/pruner: /other.ts"],
    ["a tool of another extension", [own], [{ ...tool, path: "/other.ts" }], "belongs to another extension: /other.ts"],
    ["a tool that is missing", [own], [], "is not registered"],
  ])("finds %s", async (_what, commands, tools, part) => {
    const registrations = () => ({ activeTools: ["context_tree_query"], commands, tools });
    const { message, type } = await say(sessionWith(DIGEST), "doctor", { registrations });
    expect(message).toContain(part);
    expect(type).toBe("warning");
  });

  test("says that the model lacks the tool, and which protected tools there are none of", async () => {
    const registrations = () => ({ activeTools: ["read"], commands: [own], tools: [tool, { name: "read", path: "" }] });
    const session = sessionWith({ ...DIGEST, protectedTools: ["Read", "todoreed", "mcp__*"] });
    const { message } = await say(session, "doctor", { registrations });
    expect(message).toContain("The model is not given context_tree_query now");
    expect(message).toContain("no tool is called todoreed, mcp__*.");
  });

  test("so does the command that names them", async () => {
    const registrations = () => ({ activeTools: [], commands: [own], tools: [{ name: "read", path: "" }] });
    const session = sessionWith(DIGEST);
    const added = await say(session, "protected-tools add READ, todoreed", { registrations });
    expect(added.message).toBe("protectedTools: READ, todoreed. No tool is called todoreed now.");
    expect(added.type).toBe("warning");
    const { type } = await say(session, "protected-tools remove todoreed", { registrations });
    expect(type).toBe("info");
  });

  test("a folder that stands where the settings should is not called writable", async () => {
    const session = sessionWith(DIGEST);
    const agentDir = join(session.agentDir, "other");
    mkdirSync(join(agentDir, "settings.json"), { recursive: true });
    const { message } = await say(session, "doctor", { agentDir });
    expect(message).toContain(`${join(agentDir, "settings.json")} cannot be written`);
    const { message: nowhere } = await say(session, "doctor", {
      agentDir: join(session.agentDir, "settings.json", "x"),
    });
    expect(nowhere).toContain("cannot be written");
  });

  test("lists blob folders of deleted sessions, and removes them only after a question", async () => {
    const tree = new EntryTree(agentDirWith({}));
    const session = sessionWith(DIGEST, tree);
    const folder = blobDirFor(tree.getSessionDir(), "deleted");
    writeSpill({ path: blobPathFor(folder, "a"), text: "12345" });
    expect((await say(session, "doctor")).message).toContain(`${folder}, 1 file, 5 bytes`);
    expect((await say(session, "doctor --clean", { confirm: undefined })).message).toContain("only after a question");
    const asked: string[] = [];
    const confirm = (answer: boolean) => async (title: string, message: string) => {
      asked.push(`${title} ${message}`);
      return answer;
    };
    expect((await say(session, "doctor --clean", { confirm: confirm(false) })).message).toBe("Nothing was removed.");
    expect(existsSync(folder)).toBe(true);
    const { message } = await say(session, "doctor --clean", { confirm: confirm(true) });
    expect(message).toBe("Removed 1 folder, 5 bytes.");
    expect(asked[1]).toBe(`Remove 1 blob folder of deleted sessions, 1 file, 5 bytes? ${folder}`);
    expect(existsSync(folder)).toBe(false);
    expect((await say(session, "doctor --clean")).message).toStartWith("No blob folder");
    expect((await say(session, "doctor --all")).message).toStartWith("Usage: ");
  });

  test("finds what is wrong with the settings file, and with the model", async () => {
    const session = sessionWith(DIGEST);
    const file = join(session.agentDir, "settings.json");
    writeFileSync(file, JSON.stringify({ contextPrune: { summarizerModel: "none", minBatchChar: 5 } }));
    expect((await say(session, "doctor")).message).toContain(
      "minBatchChar is not a setting; did you mean minBatchChars?",
    );
    writeFileSync(file, "{ broken");
    expect((await say(session, "doctor")).message).toContain("is not valid JSON");
    const named = model("one", "big");
    const lost = sessionWith({ summarizerModel: "two/small" });
    expect((await say(lost, "doctor", { model: named, models: registryOf([named]) })).message).toContain(
      "✗ Summariser: no model: summarizerModel names an unknown model: two/small",
    );
    const keyless = sessionWith({});
    const { message } = await say(keyless, "doctor", { model: named, models: registryOf([named], false) });
    expect(message).toContain("no key: use /login for one");
  });

  test("notes what a project changes, which nobody needs to correct", async () => {
    const session = sessionWith({});
    mkdirSync(join(session.agentDir, ".pi"));
    const changes = { contextPrune: { spillThreshold: 70_000 } };
    writeFileSync(join(session.agentDir, ".pi", "settings.json"), JSON.stringify(changes));
    const { message } = await say(session, "doctor", { projectTrusted: true });
    expect(message).toMatch(/^! \S+settings\.json changes your contextPrune settings: spillThreshold is .*\.$/m);
    expect(message).not.toContain("Correct it");
  });

  test("finds entries that are not understood", async () => {
    const tree = new EntryTree();
    tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [{ nonsense: true }], refs: [] });
    tree.appendCustom(CUSTOM_TYPE_FRONTIER, "nonsense");
    expect((await say(sessionWith(DIGEST, tree), "doctor")).message).toContain(
      "2 entries or records of an unknown shape ignored",
    );
  });
});

describe("the sentence about a flush", () => {
  const nothing = {
    condensed: 0,
    duplicates: 0,
    trivial: 0,
    oversized: 0,
    failed: 0,
    chains: 0,
    rawChars: 0,
    keptChars: 0,
  };

  test("says what was done before it was ended, and what waits", () => {
    expect(describeReport({ ...nothing, failed: 3 }, { cancelled: true })).toEqual({
      message: "Cancelled: nothing was condensed, 3 results stay pending.",
      type: "info",
    });
    const some = { ...nothing, condensed: 2, rawChars: 5_000, keptChars: 100, failed: 1 };
    expect(describeReport(some, { cancelled: true }).message).toBe(
      "Cancelled, but condensed 2 results: 5,000 to 100 characters. 1 result stays pending.",
    );
    // Too late: everything was ready.
    expect(describeReport({ ...some, failed: 0 }, { cancelled: true }).message).toStartWith("Condensed 2 results");
  });

  test("tells of chains, also where nothing else was left to do", () => {
    expect(describeReport({ ...nothing, chains: 2 }).message).toBe("Compressed 2 chains.");
  });

  test("leaves out what a summary did not make shorter, where that is wanted", () => {
    const report = { ...nothing, condensed: 1, rawChars: 10, keptChars: 1, oversized: 2 };
    expect(describeReport(report).message).toContain("2 results not made shorter");
    expect(describeReport(report, { quietOversizedSkips: true }).message).toBe(
      "Condensed 1 result: 10 to 1 characters.",
    );
  });
});

test("every command is in doc/commands.md", () => {
  const documented = readFileSync(new URL("../../doc/commands.md", import.meta.url), "utf8");
  for (const { name } of SUBCOMMANDS) expect(documented).toContain(`/pruner ${name}`);
});
