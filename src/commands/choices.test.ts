import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { scratchFolder } from "../../test/support/folders.ts";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "../../test/support/simulated-session.ts";
import { DEFAULT_CONFIG } from "../config.ts";
import { isToolResult, textOf } from "../transcript/messages.ts";
import { completeCommand, runCommand } from "./index.ts";

function assistant(
  timestamp: number,
  content: AssistantMessage["content"],
  stopReason: AssistantMessage["stopReason"],
): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp };
}

/** A prompt, a turn with one call for each id, a closing reply. */
function run(start: number, ids: readonly string[], lines = 250): AgentMessage[] {
  const calls = ids.map((id) => ({ type: "toolCall" as const, id, name: "read", arguments: { path: `${id}.ts` } }));
  return [
    { role: "user", content: "go", timestamp: start },
    assistant(start + 1, calls, "toolUse"),
    ...ids.map((id, i): AgentMessage => {
      const content = [{ type: "text" as const, text: bodyOf(id, lines) }];
      return {
        role: "toolResult",
        toolCallId: id,
        toolName: "read",
        content,
        isError: false,
        timestamp: start + 2 + i,
      };
    }),
    assistant(start + 90, [{ type: "text", text: "done" }], "stop"),
  ];
}

function bodyOf(id: string, lines = 250): string {
  return `line of ${id}\n`.repeat(lines);
}

const DIGEST: Settings = { summarizerModel: "none", pruneOn: "agent-message" };
const CHAINS: Settings = {
  ...DIGEST,
  chainCompression: { ...DEFAULT_CONFIG.chainCompression, rollingWindow: 0, batchSize: 0 },
};
const ON_DEMAND: Settings = { ...DIGEST, pruneOn: "on-demand" };

async function sessionWith(settings: Settings, ...runs: AgentMessage[][]): Promise<SimulatedSession> {
  const session = new SimulatedSession(agentDirWith(settings));
  for (const messages of runs) await session.play(messages);
  return session;
}

const say = ({ pruner, host }: SimulatedSession, text: string) => runCommand(pruner, host, text);

async function sentText(session: SimulatedSession, id: string): Promise<string | undefined> {
  const { sent } = await session.request();
  const result = sent.find((message) => isToolResult(message) && message.toolCallId === id);
  return result && isToolResult(result) ? textOf(result.content) : undefined;
}

async function wholeText(session: SimulatedSession): Promise<string> {
  const { sent } = await session.request();
  return sent.map((message) => ("content" in message ? textOf(message.content) : "")).join("\n");
}

/** The session, a second process on its file, and a fork of it. */
async function everywhere(session: SimulatedSession, check: (one: SimulatedSession) => Promise<void>): Promise<void> {
  await check(session);
  await check(session.restart());
  const leaf = session.tree.getLeafId() ?? "";
  await check(new SimulatedSession(session.agentDir, session.tree.fork(leaf, "fork")));
}

describe("keep", () => {
  test("brings a condensed result back word for word, in a restart and a fork too; restore undoes it", async () => {
    const session = await sessionWith(DIGEST, run(1, ["c1", "c2"]));
    expect(await sentText(session, "c1")).toStartWith("[t1 condensed");
    expect(await say(session, "keep T1")).toEqual({ message: expect.stringContaining("t1 (read c1.ts"), type: "info" });
    await everywhere(session, async (one) => {
      expect(await sentText(one, "c1")).toBe(bodyOf("c1"));
      expect(await sentText(one, "c2")).toStartWith("[t2 condensed");
    });
    await say(session, "restore t1");
    await everywhere(session, async (one) => expect(await sentText(one, "c1")).toStartWith("[t1 condensed"));
  });

  test("holds for a result that no flush has dealt with, through every trigger", async () => {
    const session = await sessionWith(ON_DEMAND, run(1, ["c1", "c2"]));
    const list = await say(session, "keep");
    expect(list.message).toContain("t1  read c1.ts");
    await say(session, "keep t1");
    expect((await say(session, "now")).message).toStartWith("Condensed 1 result:");
    await everywhere(session, async (one) => {
      expect(await sentText(one, "c1")).toBe(bodyOf("c1"));
      expect(await sentText(one, "c2")).toStartWith("[t2 condensed");
    });
    expect((await say(session.restart(), "keep")).message).toContain("There is no result to keep");
  });

  test("stands word for word in a compressed chain, whether it was kept before or after", async () => {
    const session = await sessionWith(CHAINS, run(1, ["c1", "c2"]));
    await say(session, "keep t2");
    await session.play(run(10_000, ["c3", "c5"]));
    await session.play(run(20_000, ["c4"]));
    expect(session.state().indexer.chains().size).toBeGreaterThan(0);
    await say(session, "keep t3");
    await everywhere(session, async (one) => {
      const text = await wholeText(one);
      expect(text).toContain('<compressed-chain id="b1"');
      expect(text).toContain(`<protected-output tool="read">\n${bodyOf("c2")}`);
      expect(text).toContain(`<protected-output tool="read">\n${bodyOf("c3")}`);
      expect(text).not.toContain(bodyOf("c1"));
    });
    await say(session, "restore t2");
    expect(await wholeText(session)).not.toContain(bodyOf("c2"));
  });

  test("holds for a result that is to be spilled", async () => {
    const session = new SimulatedSession(agentDirWith(ON_DEMAND), new EntryTree(scratchFolder("sessions")));
    await session.play(run(1, ["c1", "c2"], 500));
    await say(session, "keep c1");
    await say(session, "spillThreshold 4096");
    expect(await sentText(session, "c1")).toBe(bodyOf("c1", 500));
    expect(await sentText(session, "c2")).toContain("preview of the first");
  });

  test("is undone by a move to where it was not said", async () => {
    const session = await sessionWith(DIGEST, run(1, ["c1"]));
    const before = session.tree.getLeafId();
    await say(session, "keep t1");
    session.tree.moveTo(before);
    session.pruner.treeMoved();
    expect(await sentText(session, "c1")).toStartWith("[t1 condensed");
  });
});

describe("drop", () => {
  test("condenses a result at once, however small and protected, and restore makes it as it was", async () => {
    const session = await sessionWith({ ...DIGEST, protectedTools: ["read"] }, run(1, ["c1"], 40));
    expect(await sentText(session, "c1")).toBe(bodyOf("c1", 40));
    await say(session, "drop c1");
    await everywhere(session, async (one) => expect(await sentText(one, "c1")).toStartWith("[t1 condensed"));
    await say(session, "restore t1");
    await everywhere(session, async (one) => expect(await sentText(one, "c1")).toBe(bodyOf("c1", 40)));
  });

  test("waits until the model has answered the result", async () => {
    const session = await sessionWith({ ...DIGEST, pruneOn: "on-demand" });
    const [user, call, result, reply] = run(1, ["c1"]);
    if (!user || !call || !result || !reply) throw new Error("no run");
    for (const message of [user, call, result]) session.add(message);
    expect((await say(session, "drop c1")).message).toContain("as soon as the model has answered it");
    expect(await sentText(session, "c1")).toBe(bodyOf("c1"));
    session.add(reply);
    session.add({ role: "user", content: "and now", timestamp: 5_000 });
    expect(await sentText(session, "c1")).toStartWith("[t1 condensed");
  });

  test("leaves what else is pending to the next flush", async () => {
    const session = await sessionWith(ON_DEMAND, run(1, ["c1", "c2", "c3"]));
    await say(session, "drop c2");
    expect(await sentText(session, "c1")).toBe(bodyOf("c1"));
    expect(await sentText(session, "c2")).toContain("condensed");
    expect((await say(session, "now")).message).toStartWith("Condensed 2 results:");
  });
});

describe("names", () => {
  test("that nothing has are told, and completions offer those that fit", async () => {
    const session = await sessionWith(DIGEST, run(1, ["c1"]));
    expect((await say(session, "keep t99")).type).toBe("warning");
    expect((await say(session, "restore t1")).message).toContain("neither kept nor dropped");
    await say(session, "keep t1");
    expect(completeCommand(session.pruner, "restore ")?.map(({ value }) => value)).toEqual(["restore t1"]);
    expect((await say(session, "restore")).message).toContain("t1  read c1.ts");
  });
});

test("a chain that is put back has its results too, until it is compressed again", async () => {
  const session = await sessionWith(CHAINS, run(1, ["c1", "c2"]), run(10_000, ["c3"]), run(20_000, ["c4"]));
  expect(await wholeText(session)).toContain('<compressed-chain id="b1"');
  expect((await say(session, "decompress b1")).type).toBe("info");
  await everywhere(session, async (one) => {
    expect(await sentText(one, "c1")).toBe(bodyOf("c1"));
    expect(await sentText(one, "c2")).toBe(bodyOf("c2"));
  });
  await say(session, "recompress b1");
  const text = await wholeText(session);
  expect(text).toContain('<compressed-chain id="b1"');
  expect(text).not.toContain(bodyOf("c1"));
});
