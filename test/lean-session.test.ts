/** What a session file holds of condensed output: each text once, in the message that it came in. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { generateConversation } from "../bench/conversation.ts";
import { recover, sourcesOf } from "../src/recovery/originals.ts";
import { extractToolResultText, isToolResult, resultKeysIn } from "../src/transcript/messages.ts";
import { CUSTOM_TYPE_INDEX, type IndexEntryData } from "../src/types.ts";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "./support/simulated-session.ts";

const SETTINGS: Settings = { pruneOn: "agent-message", summarizerModel: "none", workingSet: null };
const ZERO = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const SOURCE = { api: "a", provider: "p", model: "m", usage: { ...ZERO, totalTokens: 0, cost: { ...ZERO, total: 0 } } };

/** A run that writes a long file and reads it back. */
function run(at: number, text = `${at}: a line of output\n`.repeat(300)): AgentMessage[] {
  const call = (id: string, name: string, args: Record<string, string | number>) => ({
    type: "toolCall" as const,
    id: `${id}${at}`,
    name,
    arguments: args,
  });
  const result = (id: string, toolName: string, output: string, timestamp: number): AgentMessage => ({
    role: "toolResult",
    toolCallId: `${id}${at}`,
    toolName,
    content: [{ type: "text", text: output }],
    isError: false,
    timestamp,
  });
  const path = `src/file${at}.ts`;
  const calls = [call("w", "write", { path, content: text }), call("r", "read", { path, offset: 1 })];
  return [
    { role: "user", content: `task ${at}`, timestamp: at },
    { role: "assistant", content: calls, ...SOURCE, stopReason: "toolUse", timestamp: at + 1 },
    result("w", "write", `written ${at}, ${"well ".repeat(100)}`, at + 2),
    result("r", "read", text, at + 3),
    { role: "assistant", content: [{ type: "text", text: "done" }], ...SOURCE, stopReason: "stop", timestamp: at + 4 },
  ];
}

async function condensed(messages: readonly AgentMessage[], settings: Settings = SETTINGS): Promise<SimulatedSession> {
  const session = new SimulatedSession(agentDirWith(settings));
  await session.play(messages);
  await session.pruner.flushNow(session.host);
  return session;
}

function records(session: SimulatedSession): IndexEntryData["toolCalls"] {
  return session.tree
    .getEntries()
    .flatMap((entry) => (entry.type === "custom" && entry.customType === CUSTOM_TYPE_INDEX ? [entry.data] : []))
    .flatMap((data) => (data as IndexEntryData).toolCalls);
}

function answersOf(session: SimulatedSession, name: string) {
  const found = recover(name, sourcesOf(session.state()));
  return found.kind === "found" ? found.outputs : found.message;
}

/** Every result of the session by the ref that stands for it. */
function expectAllAnswers(session: SimulatedSession, messages: readonly AgentMessage[]): void {
  const { indexer } = session.state();
  const keyOf = resultKeysIn(messages);
  for (const message of messages.filter(isToolResult)) {
    const ref = indexer.refOf(keyOf(message));
    if (ref === undefined) continue;
    const outputs = answersOf(session, ref);
    const given = typeof outputs === "string" ? outputs : outputs.map(({ name, text, note }) => ({ name, text, note }));
    expect(given).toEqual([{ name: ref, text: extractToolResultText(message), note: undefined }]);
  }
}

/** The session as its file would be with some lines changed or taken out. */
function reread(session: SimulatedSession, change: (line: string) => string[]): SimulatedSession {
  return new SimulatedSession(session.agentDir, new EntryTree().read(session.tree.lines().flatMap(change)));
}

function parentOf(session: SimulatedSession, find: (entry: SessionEntry) => boolean): SessionEntry {
  const entry = session.tree.getEntries().find(find);
  if (!entry) throw new Error("no such entry");
  return entry;
}

describe("a session of release 1.0.0", () => {
  const folder = join(import.meta.dir, "fixtures", "sessions");
  const lines = readFileSync(join(folder, "1.0.0.jsonl"), "utf8").split("\n");
  const { settings, sent, answers } = JSON.parse(readFileSync(join(folder, "1.0.0.json"), "utf8"));
  const open = () => new SimulatedSession(agentDirWith(settings), new EntryTree().read(lines));

  test("is sent as that release sent it", async () => {
    expect((await open().request()).sent).toEqual(sent);
  });

  test("answers for every ref", () => {
    const session = open();
    expect(session.state().indexer.takeInvalid()).toEqual([]);
    const given = Object.fromEntries(
      Object.keys(answers).map((ref) => {
        const outputs = answersOf(session, ref);
        if (typeof outputs === "string") return [ref, outputs];
        return [ref, outputs.map(({ text, args, images }) => ({ text, args, images: images.length }))];
      }),
    );
    expect(given).toEqual(answers);
  });
});

describe("a record", () => {
  const MESSAGES = [...run(100), ...run(200)];

  test("holds neither text nor long arguments that a message of the branch holds", async () => {
    const session = await condensed(MESSAGES);
    expect(records(session)).toHaveLength(4);
    for (const record of records(session)) {
      expect(record).toMatchObject({ contentHash: expect.stringMatching(/^[\w-]{22}$/) });
      expect(JSON.stringify(record).length).toBeLessThan(100);
    }
  });

  test("answers with the whole text and the whole arguments, also after a restart and in a fork", async () => {
    const session = await condensed(MESSAGES);
    const leaf = session.tree.getLeafId() ?? "";
    const fork = new SimulatedSession(session.agentDir, session.tree.fork(leaf, "fork"));
    for (const one of [session, session.restart(), fork]) {
      expectAllAnswers(one, MESSAGES);
      const [written] = answersOf(one, "t1");
      expect(written).toMatchObject({
        args: { path: "src/file100.ts", content: `100: a line of output\n`.repeat(300) },
      });
    }
    expect((await fork.request()).sent).toEqual((await session.request()).sent);
  });

  test("whose message is gone says so, and gives no other text", async () => {
    const session = await condensed(MESSAGES);
    const gone = parentOf(session, (e) => e.type === "message" && e.message.timestamp === 103);
    const without = reread(session, (line) =>
      line.includes(`"id":"${gone.id}"`)
        ? []
        : [line.replace(`"parentId":"${gone.id}"`, `"parentId":"${gone.parentId}"`)],
    );
    const [output] = answersOf(without, "t2");
    expect(output).toMatchObject({ text: "", note: expect.stringContaining("is gone from the session file") });
  });

  test("whose message was changed says so, and gives no other text", async () => {
    const session = await condensed(MESSAGES);
    const changed = reread(session, (line) => [
      line.includes('"toolCallId":"r100"') && line.includes('"toolResult"')
        ? line.replace("line of output", "lime of output")
        : line,
    ]);
    const [output] = answersOf(changed, "t2");
    expect(output).toMatchObject({ text: "", note: expect.stringContaining("has been changed") });
  });

  test("carries the text where the file has not got the message", async () => {
    const session = new SimulatedSession(agentDirWith(SETTINGS));
    await session.pruner.renderRequest(session.host, [...run(100), { role: "user", content: "next", timestamp: 200 }]);
    const [written, read] = records(session).filter((record) => "toolName" in record);
    expect(read?.resultText).toBe("100: a line of output\n".repeat(300));
    expect(written?.args).toEqual({ path: "src/file100.ts", content: "100: a line of output\n".repeat(300) });
  });

  test("carries what a tool marked to be kept", async () => {
    const text = `${"filler\n".repeat(200)}<protect>4711</protect>`;
    const session = await condensed(run(100, text));
    expect(records(session).map((record) => "toolName" in record && record.resultText === text)).toEqual([false, true]);
  });
});

test("what is added is at most a fifth of a long session's messages", async () => {
  const messages = generateConversation(300);
  const session = await condensed(messages);
  const sizes = { message: 0, custom: 0 };
  for (const line of session.tree.lines()) {
    const type: "message" | "custom" = JSON.parse(line).type;
    sizes[type] += line.length;
  }
  expect(session.state().indexer.refs().length).toBeGreaterThan(50);
  expect(sizes.custom / sizes.message).toBeLessThan(0.2);
  expectAllAnswers(session, messages);
});
