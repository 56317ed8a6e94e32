import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import { deepFreeze } from "../../test/support/generate.js";
import { heldReads } from "./in-use.js";

const CWD = "/repo";

let clock = 0;

function assistant(content: AssistantMessage["content"], stopReason: AssistantMessage["stopReason"]): AgentMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const source = { api: "anthropic-messages", provider: "anthropic", model: "m" };
  return { role: "assistant", content, ...source, usage, stopReason, timestamp: ++clock };
}

/** A call and its result; the result's id is `<name><number>`. */
function turn(name: string, args: ToolCall["arguments"], isError = false): AgentMessage[] {
  const id = `${name}${clock}`;
  const call = assistant([{ type: "toolCall", id, name, arguments: args }], "toolUse");
  const content = [{ type: "text" as const, text: "text" }];
  return [call, { role: "toolResult", toolCallId: id, toolName: name, content, isError, timestamp: ++clock }];
}

const read = (path: string) => turn("read", { path });
const edit = (path: string, isError: boolean) => turn("edit", { path, oldText: "a", newText: "b" }, isError);
const user = (): AgentMessage => ({ role: "user", content: "go", timestamp: ++clock });
const closing = () => assistant([{ type: "text", text: "Done." }], "stop");

/** Positions of the held results in the messages. */
function held(messages: AgentMessage[]): number[] {
  const keys = heldReads(deepFreeze(messages), CWD);
  return messages.flatMap((m, i) => (m.role === "toolResult" && keys.has(`${m.toolCallId}@${m.timestamp}`) ? [i] : []));
}

describe("heldReads", () => {
  test("holds the reads of a file on which an edit has failed, before and behind it", () => {
    expect(held([user(), ...read("a.ts"), ...read("b.ts"), ...edit("a.ts", true), ...read("a.ts")])).toEqual([2, 8]);
  });

  test("goes on holding them when a later edit succeeds, since the chain is still about that file", () => {
    expect(held([user(), ...read("a.ts"), ...edit("a.ts", true), ...edit("a.ts", false)])).toEqual([2]);
  });

  test("a failed write counts alike; other tools and edits that went well do not", () => {
    expect(held([user(), ...read("a.ts"), ...turn("write", { path: "a.ts", content: "x" }, true)])).toEqual([2]);
    expect(held([user(), ...read("a.ts"), ...turn("bash", { command: "false", path: "a.ts" }, true)])).toEqual([]);
    expect(held([user(), ...read("a.ts"), ...edit("a.ts", false)])).toEqual([]);
    expect(held([user(), ...turn("grep", { path: "a.ts" }), ...edit("a.ts", true)])).toEqual([]);
  });

  test.each([
    ["a.ts", "./a.ts"],
    ["src/../a.ts", "/repo/a.ts"],
    ["/repo/a.ts", "a.ts"],
    ["@a.ts", "a.ts"],
  ])("finds the file however its path is spelled: %s and %s", (one, other) => {
    expect(held([user(), ...read(one), ...edit(other, true)])).toEqual([2]);
  });

  test("lets go when the chain is closed, and not when a user only steers it", () => {
    const chain = [user(), ...read("a.ts"), ...edit("a.ts", true)];
    expect(held([...chain, user()])).toEqual([2]);
    expect(held([...chain, closing()])).toEqual([]);
    expect(held([...chain, closing(), user(), ...read("a.ts")])).toEqual([]);
  });

  test("passes over what names no file, and results without their call", () => {
    expect(held([user(), ...turn("read", {}), ...turn("edit", { path: 5 }, true), ...edit("a.ts", true)])).toEqual([]);
    expect(held([user(), ...read("a.ts").slice(1), ...edit("a.ts", true)])).toEqual([]);
  });
});
