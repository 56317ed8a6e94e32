import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { ContextPruneConfig } from "../types.ts";
import { flushMark } from "./triggers.ts";

function assistant(stopReason: AssistantMessage["stopReason"], ...tools: string[]): AgentMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const content: AssistantMessage["content"] = [
    { type: "text", text: "Well." },
    ...tools.map((name) => ({ type: "toolCall" as const, id: name, name, arguments: {} })),
  ];
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp: 1 };
}

function result(toolCallId: string): AgentMessage {
  const content = [{ type: "text" as const, text: "out" }];
  return { role: "toolResult", toolCallId, toolName: toolCallId, content, isError: false, timestamp: 2 };
}

const USER: AgentMessage = { role: "user", content: "go", timestamp: 0 };
const TURN = [assistant("toolUse", "read"), result("read")];
const CLOSING = assistant("stop");

function mark(pruneOn: ContextPruneConfig["pruneOn"], ...messages: AgentMessage[]): number {
  return flushMark(messages, { pruneOn, contextTagTools: ["context_tag", "done"] });
}

describe("agent-message", () => {
  test("is the last text-only reply that ended by itself", () => {
    expect(mark("agent-message", USER, ...TURN, CLOSING)).toBe(3);
    expect(mark("agent-message", USER, CLOSING, USER, ...TURN)).toBe(1);
    expect(mark("agent-message", USER, CLOSING, USER, CLOSING)).toBe(3);
  });

  test.each(["length", "error", "aborted"] as const)("a reply that ended by %s closes nothing", (stopReason) => {
    expect(mark("agent-message", USER, ...TURN, assistant(stopReason))).toBe(-1);
  });

  test("there is none before the first reply, nor in the midst of the first run", () => {
    expect(mark("agent-message")).toBe(-1);
    expect(mark("agent-message", USER, ...TURN)).toBe(-1);
  });
});

describe("every-turn", () => {
  test("is the last finished assistant message, with or without calls", () => {
    expect(mark("every-turn", USER, ...TURN, ...TURN)).toBe(3);
    expect(mark("every-turn", USER, ...TURN, CLOSING)).toBe(3);
  });

  test("errored and aborted ones finish nothing", () => {
    expect(mark("every-turn", USER, ...TURN, assistant("error"), assistant("aborted", "read"))).toBe(1);
  });
});

describe("on-context-tag", () => {
  test("is the last message that calls one of the tools, among others or alone", () => {
    const tagged = assistant("toolUse", "read", "done");
    const turn = [tagged, result("read"), result("done")];
    expect(mark("on-context-tag", USER, ...turn, ...TURN, CLOSING)).toBe(1);
    expect(mark("on-context-tag", USER, ...turn, ...turn)).toBe(4);
  });

  test("is none without such a call, or where the call was never sent", () => {
    expect(mark("on-context-tag", USER, ...TURN, CLOSING)).toBe(-1);
    expect(mark("on-context-tag", USER, assistant("error", "context_tag"), CLOSING)).toBe(-1);
  });
});

test("on-demand is never", () => {
  expect(mark("on-demand", USER, assistant("toolUse", "context_tag"), result("context_tag"), CLOSING)).toBe(-1);
});
