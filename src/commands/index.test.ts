import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "../../test/support/simulated-session.ts";
import { findSetting } from "../config.ts";
import type { HostSnapshot } from "../host/host.ts";
import { FORMER_NAMES } from "../settings/former.ts";
import { isToolResult } from "../transcript/messages.ts";
import { estimateTokens } from "../transcript/tokens.ts";
import { CUSTOM_TYPE_FRONTIER, CUSTOM_TYPE_STATS } from "../types.ts";
import { change } from "../ui/paint.ts";
import { completeCommand, runCommand, SUBCOMMANDS } from "./index.ts";
import type { CommandResult } from "./types.ts";

const DIGEST: Settings = { workingSet: null, summarizerModel: "none" };

function assistant(
  timestamp: number,
  content: AssistantMessage["content"],
  stopReason: AssistantMessage["stopReason"],
): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp };
}

/** A prompt, a turn with one call for each id, a closing reply. Times begin at `start`. */
function run(
  start: number,
  ids: readonly string[],
  text = (id: string) => `line of ${id}\n`.repeat(250),
): AgentMessage[] {
  const results = ids.map((id, i): AgentMessage => {
    const content = [{ type: "text" as const, text: text(id) }];
    return { role: "toolResult", toolCallId: id, toolName: "read", content, isError: false, timestamp: start + 2 + i };
  });
  const calls = ids.map((id) => ({ type: "toolCall" as const, id, name: "read", arguments: { path: `${id}.ts` } }));
  return [
    { role: "user", content: "go", timestamp: start },
    assistant(start + 1, calls, "toolUse"),
    ...results,
    assistant(start + 90, [{ type: "text", text: "done" }], "stop"),
  ];
}

async function sessionWith(settings: Settings, ...runs: AgentMessage[][]): Promise<SimulatedSession> {
  const session = new SimulatedSession(agentDirWith(settings));
  for (const messages of runs) await session.play(messages);
  return session;
}

function say({ pruner, host }: SimulatedSession, text: string): Promise<CommandResult> {
  return runCommand(pruner, host, text);
}

function settingsIn(session: SimulatedSession): unknown {
  return JSON.parse(readFileSync(join(session.agentDir, "settings.json"), "utf8")).contextPrune;
}

const ON_DEMAND: Settings = { ...DIGEST, pruneOn: "on-demand" };

describe("on and off", () => {
  test("say what the next request is, and it is so", async () => {
    const session = await sessionWith({ ...DIGEST, workingSet: null }, run(1, ["c1"]));
    expect(await say(session, "off")).toEqual({ message: expect.stringMatching(/off.*raw/), type: "info" });
    const { raw, sent } = await session.request();
    expect(sent).toEqual(raw);
    expect(await say(session, "on")).toEqual({ message: expect.stringContaining("on"), type: "info" });
    expect((await session.request()).sent).not.toEqual(raw);
  });

  test("are saved beside the other settings", async () => {
    const session = await sessionWith(DIGEST);
    await say(session, "off");
    expect(settingsIn(session)).toEqual({ ...DIGEST, enabled: false });
  });

  test("said twice are still true", async () => {
    const session = await sessionWith(DIGEST);
    expect((await say(session, "on")).type).toBe("info");
    expect((await say(session, "on")).type).toBe("info");
    expect(session.pruner.settings.enabled).toBe(true);
  });

  test("change nothing where the settings file does not parse, and say so", async () => {
    const session = await sessionWith(DIGEST);
    const file = join(session.agentDir, "settings.json");
    writeFileSync(file, "{ broken");
    expect(await say(session, "off")).toEqual({ message: expect.stringContaining(file), type: "error" });
    expect(session.pruner.settings.enabled).toBe(true);
    expect(readFileSync(file, "utf8")).toBe("{ broken");
  });

  test("tell where the project's settings have the last word", async () => {
    const session = await sessionWith(DIGEST);
    mkdirSync(join(session.agentDir, "project/.pi"), { recursive: true });
    const cwd = join(session.agentDir, "project");
    writeFileSync(join(cwd, ".pi/settings.json"), JSON.stringify({ contextPrune: { enabled: true } }));
    const host = { ...session.host, cwd, projectTrusted: true };
    expect(await runCommand(session.pruner, host, "off")).toEqual({
      message: expect.stringContaining("project"),
      type: "warning",
    });
    expect(session.pruner.settings.enabled).toBe(true);
  });
});

test("what is to be removed from a list is completed by name", async () => {
  const { pruner } = await sessionWith({ ...DIGEST, protectedTools: ["todoread", "todowrite", "plan"] });
  const values = (text: string) => completeCommand(pruner, text)?.map(({ value }) => value);
  expect(values("protected-tools re")).toEqual(["protected-tools remove"]);
  expect(values("protected-tools remove todo")).toEqual([
    "protected-tools remove todoread",
    "protected-tools remove todowrite",
  ]);
  expect(values("protected-tools remove plan, todow")).toEqual(["protected-tools remove plan, todowrite"]);
});

describe("former names", () => {
  test.each([
    ["prune-on on-demand", "pruneOn", "pruneOn is now on-demand"],
    ["batching agent-message", "batchingMode", "batchingMode is now agent-message"],
    ["min-batch-chars 2000", "minBatchChars", "minBatchChars is now 2000"],
    ["dedup status", "dedupByContentHash", "dedupByContentHash is on"],
    ["recovery-grace 5", "recoveryGraceTurns", "recoveryGraceTurns is now 5"],
    ["SPILL-THRESHOLD 100000", "spillThreshold", "spillThreshold is now 100000"],
    ["turn-protection on", "turnProtection.enabled", "turnProtection.enabled is now on"],
  ])("/pruner %s is answered as %s", async (text, key, answer) => {
    const { message, type } = await say(await sessionWith(DIGEST), text);
    expect(type).toBe("info");
    expect(message).toStartWith(`/pruner ${text.split(" ")[0]} is called /pruner ${key} now.\n${answer}`);
  });

  test("in a settings file are told with the present ones", async () => {
    const settings = { ...DIGEST, dedup: false, remindUnprunedCount: true, "min-batch-chars": 3 } as Settings;
    const [notice] = new SimulatedSession(agentDirWith(settings)).notices;
    expect(notice).toContain("contextPrune.dedup is called dedupByContentHash now.");
    expect(notice).toContain("contextPrune.remindUnprunedCount is not needed any more");
    expect(notice).toContain("contextPrune.min-batch-chars is called minBatchChars now.");
  });

  test("lead to settings that there are", () => {
    for (const key of Object.values(FORMER_NAMES)) if (key !== null) expect(findSetting(key)).toBeDefined();
  });
});

describe("now", () => {
  test("tells how many results it has condensed, and from what size to what", async () => {
    const session = await sessionWith(ON_DEMAND, run(1, ["c1", "c2"]));
    const { message, type } = await say(session, "now");
    expect(type).toBe("info");
    const [, from, to] = /^Condensed 2 results: ([\d,]+) to ([\d,]+) characters\.$/.exec(message) ?? [];
    expect(Number(from?.replace(",", ""))).toBe(2 * 250 * "line of c1\n".length);
    const { sent } = await session.request();
    const kept = sent.filter(isToolResult).reduce((sum, result) => sum + JSON.stringify(result.content).length, 0);
    expect(Number(to?.replace(",", ""))).toBeLessThan(kept);
    expect(Number(to?.replace(",", ""))).toBeGreaterThan(kept / 2);
  });

  test("tells of duplicates", async () => {
    const session = await sessionWith(
      ON_DEMAND,
      run(1, ["c1", "c2"], () => "the same\n".repeat(300)),
    );
    expect((await say(session, "now")).message).toStartWith("Condensed 1 result and 1 duplicate: ");
  });

  test("tells where there is nothing to do, and why; also the second time", async () => {
    const session = await sessionWith(ON_DEMAND, run(1, ["c1"]));
    await say(session, "now");
    for (let i = 0; i < 3; i++) {
      expect(await say(session, "now")).toEqual({
        message: expect.stringMatching(/^Nothing to condense: .*answered/),
        type: "info",
      });
    }
    const frontiers = session.tree
      .getEntries()
      .filter((entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER);
    expect(frontiers).toHaveLength(1);
  });

  test("does nothing to what the model has not answered, and says so", async () => {
    const session = await sessionWith(ON_DEMAND, run(1, ["c1"]).slice(0, -1));
    expect((await say(session, "now")).message).toContain("answered");
    const { raw, sent } = await session.request();
    expect(sent).toEqual(raw);
  });

  test("tells of results that are too small", async () => {
    const session = await sessionWith(
      ON_DEMAND,
      run(1, ["c1", "c2"], (id) => id),
    );
    expect(await say(session, "now")).toEqual({
      message: "Nothing condensed. Left as they are: 2 results too small.",
      type: "info",
    });
  });

  test("works in the midst of a run", async () => {
    const session = await sessionWith(ON_DEMAND, run(1, ["c1"]), run(100, ["c2"]).slice(0, 2));
    expect((await say(session, "now")).message).toStartWith("Condensed 1 result: ");
  });

  test("says that the pruner is off, and does nothing", async () => {
    const session = await sessionWith({ ...ON_DEMAND, enabled: false }, run(1, ["c1"]));
    expect(await say(session, "now")).toEqual({ message: expect.stringContaining("off"), type: "warning" });
    expect(session.tree.getEntries().some((entry) => entry.type === "custom")).toBe(false);
  });
});

describe("status", () => {
  test("tells when, by what model, how much is condensed and how much is pending", async () => {
    const session = await sessionWith(ON_DEMAND, run(1, ["c1", "c2"]));
    const before = await say(session, "status");
    expect(before.type).toBe("info");
    for (const part of ["Pruner on", "on-demand", "none", "0 calls", "Pending: 2 results"]) {
      expect(before.message).toContain(part);
    }
    await say(session, "now");
    const after = (await say(session, "status")).message;
    expect(after).toContain("Condensed: 2 calls, ");
    expect(after).toContain("Pending: 0 results");
  });

  test("names the tokens that the next request is shorter by", async () => {
    const session = await sessionWith(DIGEST, run(1, ["c1"]));
    const { raw, sent } = await session.request();
    const before = estimateTokens(raw.filter(isToolResult));
    const after = estimateTokens(sent.filter(isToolResult));
    expect(before).toBeGreaterThan(after);
    expect((await say(session, "status")).message).toContain(`${change({ before, after })} tokens in each request`);
  });

  test("tells what the summariser has cost, failed calls too, and only where it has been asked", async () => {
    const tree = new EntryTree();
    const stats = { totalInputTokens: 1257, totalOutputTokens: 27, totalCost: 0.5, callCount: 1, failedCallCount: 1 };
    tree.appendCustom(CUSTOM_TYPE_STATS, stats);
    const session = new SimulatedSession(agentDirWith(DIGEST), tree);
    expect((await say(session, "status")).message).toContain(
      "Summariser: 1 call (1 failed), 1,257 tokens in, 27 out, $0.50.",
    );
    tree.appendCustom(CUSTOM_TYPE_STATS, { ...stats, failedCallCount: 0 });
    const again = new SimulatedSession(agentDirWith(DIGEST), tree);
    expect((await say(again, "status")).message).toContain("Summariser: 1 call, 1,257");
    expect((await say(await sessionWith(DIGEST), "status")).message).not.toContain("Summariser:");
  });

  test("appends nothing", async () => {
    const session = await sessionWith(ON_DEMAND, run(1, ["c1"]));
    await say(session, "status");
    expect(session.tree.getEntries().some((entry) => entry.type === "custom")).toBe(false);
  });
});

describe("help", () => {
  test.each(["help", "", "  "])("%p lists every subcommand with its line of help", async (text) => {
    const { message, type } = await say(await sessionWith(DIGEST), text);
    expect(type).toBe("info");
    const lines = message.split("\n");
    // The last one tells of the settings.
    expect(lines.pop()).toStartWith("/pruner <setting> [value] ");
    expect(lines).toHaveLength(SUBCOMMANDS.length);
    for (const [i, { name, help }] of SUBCOMMANDS.entries()) {
      expect(lines[i]).toStartWith(`/pruner ${name} `);
      expect(lines[i]).toEndWith(`  ${help}`);
    }
    // One column.
    expect(new Set(lines.map((line, i) => line.length - (SUBCOMMANDS[i]?.help.length ?? 0))).size).toBe(1);
  });
});

describe("what cannot be understood", () => {
  test("an unknown subcommand gets the nearest one and the list", async () => {
    const { message, type } = await say(await sessionWith(DIGEST), "staus");
    expect(type).toBe("warning");
    expect(message).toContain("Unknown: /pruner staus. Did you mean /pruner status?");
    expect(message).toContain("/pruner help");
  });

  test("one that resembles none gets the list alone", async () => {
    const { message } = await say(await sessionWith(DIGEST), "xyzzyxyzzy");
    expect(message).not.toContain("Did you mean");
    expect(message).toContain("/pruner help");
  });

  test.each(["on", "off", "now", "status", "help"])(
    "%s with an argument prints its usage and does nothing",
    async (name) => {
      const session = await sessionWith(ON_DEMAND, run(1, ["c1"]));
      expect(await say(session, `${name} please`)).toEqual({ message: `Usage: /pruner ${name}`, type: "warning" });
      expect(settingsIn(session)).toEqual(ON_DEMAND);
      expect(session.tree.getEntries().some((entry) => entry.type === "custom")).toBe(false);
    },
  );

  test("case and blanks do not matter", async () => {
    expect((await say(await sessionWith(DIGEST), "  STATUS  ")).message).toStartWith("This session: ");
  });
});

test("an error in a subcommand is told and not thrown", async () => {
  const session = await sessionWith({ pruneOn: "on-demand", summarizerModel: "prov/m" }, run(1, ["c1"]));
  const models: unknown = {
    find: () => {
      throw new Error("registry is broken");
    },
  };
  const host = { ...session.host, models: models as HostSnapshot["models"] };
  expect(await runCommand(session.pruner, host, "now")).toEqual({ message: "registry is broken", type: "error" });
});

test("a session that could not be read is told of by every subcommand that needs it, and none throws", async () => {
  class Unreadable extends EntryTree {
    override getEntries = (): never => {
      throw new Error("cannot read");
    };
  }
  const session = new SimulatedSession(agentDirWith(DIGEST), new Unreadable());
  for (const text of ["now", "status"]) {
    expect(await say(session, text)).toEqual({ message: expect.stringContaining("session"), type: "warning" });
  }
});

describe("completions", () => {
  async function complete(prefix: string): Promise<string[] | undefined> {
    const { pruner } = await sessionWith(DIGEST);
    return completeCommand(pruner, prefix)?.map((item) => item.value);
  }

  test("offer every subcommand at first, each with its help", async () => {
    expect(await complete("")).toEqual(SUBCOMMANDS.map((command) => command.name));
    const { pruner } = await sessionWith(DIGEST);
    expect(completeCommand(pruner, "statu")).toEqual([
      { value: "status", label: "status", description: expect.stringContaining("pending") },
    ]);
  });

  test("go by what has been typed, in any case", async () => {
    expect(await complete("of")).toEqual(["off"]);
    expect(await complete("ST")).toEqual(["status", "stats", "stateTools"]);
  });

  test("offer what a subcommand takes", async () => {
    // A host puts the value in the place of all that stands behind the command.
    const actions = ["protected-tools add", "protected-tools remove", "protected-tools clear"];
    expect(await complete("protected-tools ")).toEqual(actions);
    expect(await complete("protected-tools re")).toEqual(["protected-tools remove"]);
  });

  test("offer keys of settings in any case, and their presets", async () => {
    expect(await complete("PRUNEO")).toEqual(["pruneOn"]);
    expect(await complete("pruneOn on-d")).toEqual(["pruneOn on-demand"]);
    expect(await complete("enabled ")).toEqual(["enabled on", "enabled off"]);
  });

  test("offer the models that can summarise", async () => {
    const { pruner } = await sessionWith(DIGEST);
    const models = () => ["anthropic/haiku", "openai/mini"];
    const names = (prefix: string) => completeCommand(pruner, prefix, models)?.map((item) => item.value);
    expect(names("model mi")).toEqual(["model openai/mini"]);
    expect(names("summarizerModel ")).toContain("summarizerModel anthropic/haiku");
  });

  test("offer nothing where nothing fits, nor behind a subcommand without arguments", async () => {
    expect(await complete("xyz")).toBeUndefined();
    expect(await complete("status ")).toBeUndefined();
    expect(await complete("unknown arg")).toBeUndefined();
  });
});
