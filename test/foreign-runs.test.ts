/** Runs that another extension's message opens, and chains whose closing reply is gone. */
import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { CUSTOM_TYPE_CHAIN, CUSTOM_TYPE_DIAGNOSTIC } from "../src/types.ts";
import { agentDirWith, EntryTree, SimulatedSession } from "./support/simulated-session.ts";

const AGENT_DIR = agentDirWith({
  pruneOn: "agent-message",
  summarizerModel: "none",
  chainCompression: { rollingWindow: 0, batchSize: 0 },
});
const ZERO = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const SOURCE = { api: "a", provider: "p", model: "m", usage: { ...ZERO, totalTokens: 0, cost: { ...ZERO, total: 0 } } };

/** A call, its result and the closing reply, from `at` on. */
function run(at: number): AgentMessage[] {
  const toolCall = { type: "toolCall" as const, id: `c${at}`, name: "read", arguments: { path: `f${at}` } };
  const text = `${at}: a line of output\n`.repeat(200);
  return [
    { role: "assistant", content: [toolCall], ...SOURCE, stopReason: "toolUse", timestamp: at + 1 },
    {
      role: "toolResult",
      toolCallId: `c${at}`,
      toolName: "read",
      content: [{ type: "text", text }],
      isError: false,
      timestamp: at + 2,
    },
    { role: "assistant", content: [{ type: "text", text: "done" }], ...SOURCE, stopReason: "stop", timestamp: at + 3 },
  ];
}

async function play(session: SimulatedSession, messages: readonly AgentMessage[]): Promise<void> {
  for (const message of messages) {
    if (message.role === "assistant") await session.request();
    session.add(message);
    await session.pruner.turnEnded(session.host);
  }
}

function notice(session: SimulatedSession, at: number, content: unknown = `go ${at}`): void {
  session.tree.appendOther({ type: "custom_message", customType: "other", content, display: true }, at);
}

describe("runs that another extension opens", () => {
  test("are compressed as chains, and the messages that opened them stay", async () => {
    const session = new SimulatedSession(AGENT_DIR);
    for (const at of [100, 200, 300]) {
      notice(session, at, at === 200 ? [{ type: "text", text: "go 200" }] : `go ${at}`);
      await play(session, run(at));
    }
    notice(session, 400);
    await session.pruner.flushNow(session.host, { compactAll: true });
    const { sent } = await session.request();
    const flat = JSON.stringify(sent);
    expect(flat.match(/<compressed-chain/g)).toHaveLength(3);
    for (const at of [100, 200, 300, 400]) expect(flat).toContain(`go ${at}`);
    expect((await session.restart().request()).sent).toEqual(sent);
  });

  test("the run that goes on is left open", async () => {
    const session = new SimulatedSession(AGENT_DIR);
    notice(session, 100);
    await play(session, run(100));
    await session.pruner.flushNow(session.host, { compactAll: true });
    expect(JSON.stringify((await session.request()).sent)).not.toContain("<compressed-chain");
  });
});

test("a chain whose closing reply is gone stays as it is, and a diagnostic says so", async () => {
  const session = new SimulatedSession(AGENT_DIR);
  for (const at of [100, 200, 300]) {
    await play(session, [{ role: "user", content: `task ${at}`, timestamp: at }, ...run(at)]);
  }
  await play(session, [{ role: "user", content: "next", timestamp: 400 }]);
  await session.pruner.flushNow(session.host, { compactAll: true });
  const chains = session.tree.getEntries().filter((e) => e.type === "custom" && e.customType === CUSTOM_TYPE_CHAIN);
  expect(chains.length).toBeGreaterThanOrEqual(2);

  const gone = session.tree.getEntries().find((e) => e.type === "message" && e.message.timestamp === 203);
  const lines = session.tree.lines().flatMap((line) => {
    if (line.includes(`"id":"${gone?.id}"`)) return [];
    return [line.replace(`"parentId":"${gone?.id}"`, `"parentId":"${gone?.parentId}"`)];
  });
  const damaged = new SimulatedSession(AGENT_DIR, new EntryTree().read(lines));
  await damaged.request();
  const told = damaged.tree
    .getEntries()
    .flatMap((e) => (e.type === "custom" && e.customType === CUSTOM_TYPE_DIAGNOSTIC ? [e.data] : []));
  expect(JSON.stringify(told)).toContain("end-not-found");
});
