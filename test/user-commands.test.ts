/** Output of commands that the user has run with `!`: condensed as a tool's is, and given back by its ref. */
import { afterEach, describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { recover, sourcesOf } from "../src/recovery/originals.ts";
import type { UserCommand } from "../src/transcript/messages.ts";
import { HOSTS, type HostSession, openSession, PRODUCT_ENTRY } from "./support/hosts.ts";
import { agentDirWith, type Settings, SimulatedSession } from "./support/simulated-session.ts";

const DIGEST: Settings = { summarizerModel: "none", pruneOn: "agent-message" };
const LOG = Array.from({ length: 300 }, (_, i) => `line ${i} of the log, with é and 漢`).join("\n");
const T = 1_700_000_000_000;

function ran(at: number, fields: Partial<UserCommand> = {}): UserCommand {
  const outcome = { exitCode: 0, cancelled: false, truncated: false };
  return { role: "bashExecution", command: "npm test", output: LOG, ...outcome, timestamp: T + at, ...fields };
}

function talk(at: number): AgentMessage[] {
  const zero = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const usage = { ...zero, totalTokens: 0, cost: { ...zero, total: 0 } };
  const source = { api: "a", provider: "p", model: "m", usage, stopReason: "stop" as const };
  return [
    { role: "user", content: "what is wrong?", timestamp: T + at },
    { role: "assistant", content: [{ type: "text", text: "Nothing." }], ...source, timestamp: T + at + 1 },
  ];
}

function outputs(messages: readonly AgentMessage[]): string[] {
  return messages.flatMap((message) => (message.role === "bashExecution" ? [message.output] : []));
}

describe("the output of a command of the user", () => {
  test("stands until the model has answered, then as a stub that gives it back, also after a restart", async () => {
    const session = new SimulatedSession(agentDirWith(DIGEST));
    const [first, , last] = await session.play([ran(1), ...talk(2), ...talk(10)]);
    expect(first?.sent).toEqual(first?.raw ?? []);
    const [stub = ""] = outputs(last?.sent ?? []);
    expect(stub).toMatch(/^\[t1 condensed: bash npm test, .*, ok\. Full output: context_tree_query t1\]\n/);
    expect(last?.sent.find(({ role }) => role === "bashExecution")).toEqual({ ...ran(1), output: stub });
    const again = session.restart();
    expect((await again.request()).sent).toEqual(last?.sent ?? []);
    for (const { state } of [session, again].map((s) => ({ state: s.state() }))) {
      const found = recover("t1", sourcesOf(state));
      const [output] = found.kind === "found" ? found.outputs : [];
      expect([output?.text, output?.args]).toEqual([LOG, { command: "npm test" }]);
    }
    const entries = session.tree.getEntries().length;
    await session.pruner.flushNow(session.host);
    expect(session.tree.getEntries().length).toBe(entries);
  });

  test.each<[string, UserCommand, Settings]>([
    ["that is hidden from the model", ran(1, { excludeFromContext: true }), {}],
    ["that is short", ran(1, { output: "ok" }), {}],
    ["that has no time", ran(Number.NaN), {}],
    ["of a protected tool", ran(1), { protectedTools: ["bash"] }],
    ["of a protected file", ran(1, { command: "cat AGENTS.md" }), {}],
  ])("%s stays", async (_, command, settings) => {
    const session = new SimulatedSession(agentDirWith({ ...DIGEST, ...settings }));
    const last = (await session.play([command, ...talk(2), ...talk(10)])).at(-1);
    expect(last?.sent).toEqual(last?.raw ?? []);
  });

  test("says that the command has failed", async () => {
    const session = new SimulatedSession(agentDirWith(DIGEST));
    const last = (await session.play([ran(1, { exitCode: 2 }), ...talk(2), ...talk(10)])).at(-1);
    expect(outputs(last?.sent ?? [])[0]).toMatch(/^\[t1 condensed: bash npm test, .*error/);
  });

  test("that comes twice is a repeat", async () => {
    const session = new SimulatedSession(agentDirWith(DIGEST));
    const last = (await session.play([ran(1), ...talk(2), ran(20), ...talk(30), ...talk(40)])).at(-1);
    expect(outputs(last?.sent ?? [])[1]).toContain("identical to t1");
  });
});

describe.each(HOSTS)("on the %s host", (host) => {
  let session: HostSession;
  afterEach(() => session.close());

  test("`!command` is condensed where it stands, and asked back by its ref", async () => {
    const ask = { calls: [{ name: "context_tree_query", arguments: { toolCallIds: ["t1"] } }] };
    session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      settings: { contextPrune: DIGEST },
      replies: [{ text: "Seen." }, ask, { text: "Done." }],
    });
    await session.session.executeBash("seq 1 2000");
    await session.prompt("look");
    await session.prompt("and now?");
    const [first, second, third] = session.requests.map(({ messages }) => JSON.stringify(messages));
    expect(first).toContain("1999\\n2000");
    expect(second).toMatch(/Ran `seq 1 2000`\\n```\\n\[t1 condensed: bash seq 1 2000/);
    expect(second).not.toContain("1000\\n1001\\n1002");
    expect(third).toContain("1000\\n1001\\n1002");
    expect(session.errors).toEqual([]);
  });
});
