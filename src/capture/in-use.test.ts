import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { deepFreeze } from "../../test/support/generate.ts";
import { type InUseQuestion, roomFor, WorkingSet } from "./in-use.ts";

const CWD = "/repo";
const QUESTION: InUseQuestion = { cwd: CWD, requests: 8, maxChars: 1_000_000, isCondensed: () => false };

let clock = 0;

function assistant(content: AssistantMessage["content"], stopReason: AssistantMessage["stopReason"]): AgentMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const source = { api: "anthropic-messages", provider: "anthropic", model: "m" };
  return { role: "assistant", content, ...source, usage, stopReason, timestamp: ++clock };
}

/** A call and its result. */
function turn(name: string, args: ToolCall["arguments"], { isError = false, text = "text" } = {}): AgentMessage[] {
  const id = `${name}${clock}`;
  const call = assistant([{ type: "toolCall", id, name, arguments: args }], "toolUse");
  const content = [{ type: "text" as const, text }];
  return [call, { role: "toolResult", toolCallId: id, toolName: name, content, isError, timestamp: ++clock }];
}

const read = (path: string, part = {}) => turn("read", { path, ...part });
const edit = (path: string, isError = false) => turn("edit", { path, oldText: "a", newText: "b" }, { isError });
const write = (path: string) => turn("write", { path, content: "x" });
const bash = (command: string) => turn("bash", { command });
const others = (count: number) => Array.from({ length: count }, () => bash("true")).flat();
const user = (): AgentMessage => ({ role: "user", content: "go", timestamp: ++clock });
const closing = () => assistant([{ type: "text", text: "Done." }], "stop");

/** Positions in the messages of the results in use. */
function inUse(messages: AgentMessage[], question: Partial<InUseQuestion> = {}, set = new WorkingSet()): number[] {
  const found = set.of(deepFreeze(messages), { ...QUESTION, ...question });
  return messages.flatMap((m, i) =>
    m.role === "toolResult" && found.has(`${m.toolCallId}@${m.timestamp}`) ? [i] : [],
  );
}

describe("what is in use", () => {
  test("is about an edited file that was touched a short while ago", () => {
    const start = [user(), ...read("a.ts"), ...edit("a.ts")];
    expect(inUse([...start, ...others(6)])).toEqual([2, 4, 16]);
    expect(inUse([...start, ...others(8)])).toEqual([20]);
    expect(inUse([...start, ...others(6), ...bash("grep -n x src/../a.ts"), ...others(5)])).toContain(2);
  });

  test("of a file that was only read, an eighth as long, a 24th where prices decide", () => {
    expect(inUse([user(), ...read("a.ts"), ...others(1)], { requests: 16 })).toContain(2);
    expect(inUse([user(), ...read("a.ts"), ...others(2)], { requests: 16 })).not.toContain(2);
    expect(inUse([user(), ...read("a.ts"), ...others(1)], { requests: 16, isPriced: true })).not.toContain(2);
  });

  test("gives way to newer content of its file", () => {
    expect(inUse([user(), ...edit("a.ts"), ...read("a.ts"), ...write("a.ts"), ...others(3)])).toEqual([6, 12]);
    expect(inUse([user(), ...edit("a.ts"), ...read("a.ts"), ...others(3)])).toEqual([4, 10]);
  });

  test("a part of a file replaces the same part alone", () => {
    const part = { offset: 10, limit: 20 };
    const messages = [
      user(),
      ...edit("a.ts"),
      ...read("a.ts", part),
      ...read("a.ts", { offset: 50 }),
      ...read("a.ts", part),
    ];
    expect(inUse([...messages, ...others(3)])).toEqual([2, 6, 8, 14]);
  });

  test("a failed reading replaces nothing", () => {
    const failed = turn("read", { path: "a.ts" }, { isError: true });
    expect(inUse([user(), ...edit("a.ts"), ...failed, ...others(3)])).toContain(2);
  });

  test("ends a run after the one that touched the file", () => {
    const run = [user(), ...edit("a.ts"), closing()];
    expect(inUse([...run, user(), closing()])).toEqual([]);
    expect(inUse([...run, user(), ...others(1)])).toContain(2);
  });

  test("leaves out what is condensed, and holds longer what was read once more after that", () => {
    const messages = [user(), ...read("a.ts"), ...others(3), ...read("a.ts"), ...others(3)];
    const first = messages[2];
    const isCondensed = (key: string) => key.endsWith(`@${first?.timestamp}`);
    expect(inUse(messages)).toEqual([16]);
    expect(inUse(messages, { isCondensed })).toEqual([10, 16]);
  });

  test("takes no more than its room: the oldest and the largest go first", () => {
    const large = turn("read", { path: "a.ts", offset: 1 }, { text: "x".repeat(900) });
    const messages = [user(), ...read("a.ts", { offset: 2 }), ...large, ...edit("a.ts")];
    expect(inUse(messages)).toEqual([2, 4, 6]);
    expect(inUse(messages, { maxChars: 300 })).toEqual([2, 6]);
    expect(inUse(messages, { maxChars: 60 })).toEqual([6]);
    expect(roomFor(32_000)).toBe(32_000);
    expect(roomFor(1_000_000)).toBe(roomFor());
  });

  test("knows files by arguments of any name, by commands and by patches", () => {
    const patch = "*** Begin Patch\n*** Update File: a.ts\n@@\n-old\n+new\n*** End Patch";
    const calls = [
      turn("replace_file_content", { TargetFile: "/repo/a.ts", TargetContent: "old", ReplacementContent: "new" }),
      turn("apply_patch", { patchText: patch }),
      turn("edit", { file_path: "./a.ts", edits: [{ oldText: "old", newText: "new" }] }),
    ];
    for (const call of calls)
      expect(inUse([user(), ...read("a.ts", { limit: 9 }), ...call, ...others(5)])).toContain(2);
    expect(inUse([user(), ...bash("cd lib && sed -n 1,20p a.ts"), ...edit("lib/a.ts"), ...others(5)])).toContain(2);
  });
});

describe("a failed edit", () => {
  const fails = (path: string) => edit(path, true);

  test("holds what was read of its file and written to it while the run is open, however long ago", () => {
    const start = [user(), ...read("a.ts"), ...read("b.ts"), ...others(20)];
    expect(inUse([...start, ...fails("a.ts")])).toContain(2);
    expect(inUse([...start, ...fails("a.ts"), ...others(20)])).toContain(2);
    expect(inUse([...start, ...fails("a.ts"), ...edit("a.ts"), ...others(20)])).toContain(2);
    expect(inUse([...start, ...fails("a.ts")])).not.toContain(4);
  });

  test("lets go when the run is closed, and not when a user only steers it", () => {
    const run = [user(), ...read("a.ts"), ...fails("a.ts"), ...others(20)];
    expect(inUse([...run, user()])).toContain(2);
    expect(inUse([...run, closing()])).not.toContain(2);
  });

  test.each([
    ["a.ts", "./a.ts"],
    ["src/../a.ts", "/repo/a.ts"],
    ["/repo/a.ts", "a.ts"],
    ["@a.ts", "a.ts"],
  ])("finds the file however its path is spelled: %s and %s", (one, other) => {
    expect(inUse([user(), ...read(one), ...others(20), ...fails(other)])).toContain(2);
  });
});

test("says the same whether it is asked along the way or once", () => {
  const step = fc.constantFrom<() => AgentMessage[]>(
    () => read("a.ts"),
    () => read("b.ts", { offset: 3 }),
    () => edit("a.ts"),
    () => edit("b.ts", true),
    () => write("a.ts"),
    () => [closing()],
    () => [user()],
    () => others(2),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const messages = steps.flatMap((make) => make());
      const set = new WorkingSet();
      for (let i = 0; i <= messages.length; i++) inUse(messages.slice(0, i), {}, set);
      expect(inUse(messages, {}, set)).toEqual(inUse(messages));
      // Another branch is another conversation.
      expect(inUse(messages.slice(0, 3), {}, set)).toEqual(inUse(messages.slice(0, 3)));
    }),
  );
});

describe("the chance that a call is quoted again", () => {
  const after = (messages: AgentMessage[]) => {
    const set = new WorkingSet();
    set.of(deepFreeze(messages), QUESTION);
    const first = messages[2];
    return set.chanceOf(first?.role === "toolResult" ? `${first.toolCallId}@${first.timestamp}` : "");
  };
  const files = (count: number, name = "f") => Array.from({ length: count }, (_, i) => read(`${name}${i}.ts`)).flat();

  test("falls with the requests since the last touch of its file", () => {
    expect(after([user(), ...read("a.ts"), ...others(16)])).toBeLessThan(
      after([user(), ...read("a.ts"), ...others(2)]),
    );
  });

  test("is learned from how often the session goes back to its files", () => {
    const start = () => [user(), ...read("a.ts")];
    const onward = after([...start(), ...files(12)]);
    const back = after([...start(), ...files(6), ...files(6)]);
    expect(back).toBeGreaterThan(onward * 1.5);
    // Twelve files of which none was seen before are more than nothing, and less than for good.
    expect(onward).toBeGreaterThan(0);
    expect(onward).toBeLessThan(0.1);
  });

  test("is none for what newer content has replaced", () => {
    expect(after([user(), ...read("a.ts"), ...write("a.ts")])).toBe(0);
  });
});
