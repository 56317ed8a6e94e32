import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import { deepFreeze } from "../../test/support/generate.ts";
import { QUERY_TOOL_NAME } from "../types.ts";
import { type AgeingInput, judgeAge } from "./expiry.ts";

const LONG = "x".repeat(600);
const CONFIG: AgeingInput["config"] = {
  purgeErrors: { enabled: true, cooldownTurns: 2, minArgChars: 500 },
  condenseArgs: { enabled: true, minStringChars: 400 },
  recoveryGraceTurns: 3,
};

let clock = 0;

function user(): AgentMessage {
  return { role: "user", content: "go on", timestamp: ++clock };
}

function reply(content: AssistantMessage["content"], stopReason: AssistantMessage["stopReason"]): AgentMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const source = { api: "anthropic-messages", provider: "anthropic", model: "m" };
  return { role: "assistant", content, ...source, usage, stopReason, timestamp: ++clock };
}

/** A call with its result, whose key is `<id>@<timestamp>`. */
function turn(
  name: string,
  args: ToolCall["arguments"],
  options: { isError?: boolean; text?: string; id?: string } = {},
) {
  const id = options.id ?? `c${clock}`;
  const call = reply([{ type: "toolCall", id, name, arguments: args }], "toolUse");
  const content = [{ type: "text" as const, text: options.text ?? LONG }];
  const timestamp = ++clock;
  const result: AgentMessage = {
    role: "toolResult",
    toolCallId: id,
    toolName: name,
    content,
    isError: options.isError ?? false,
    timestamp,
  };
  return { messages: [call, result], key: `${id}@${timestamp}` };
}

/** The ageing of what the model has gone on from. */
function judge(messages: AgentMessage[], options: Partial<AgeingInput> = {}) {
  return judgeUnanswered([...messages, reply([{ type: "text", text: "Done." }], "stop")], options);
}

function judgeUnanswered(messages: AgentMessage[], options: Partial<AgeingInput> = {}) {
  return judgeAge({
    messages: deepFreeze(messages),
    config: CONFIG,
    hasBlobs: true,
    isRecovery: ({ toolName }) => toolName === QUERY_TOOL_NAME || toolName === "blob",
    isSpilled: () => false,
    superseded: new Set(),
    isAged: () => false,
    isHere: () => true,
    ...options,
  });
}

const users = (count: number) => Array.from({ length: count }, user);
const failedEdit = () =>
  turn("edit", { path: "a.ts", oldText: LONG, newText: "b" }, { isError: true, text: "no such text" });

describe("spilled calls", () => {
  test("have their arguments condensed with the next flush once they are answered", () => {
    const { messages, key } = turn("run", { command: LONG });
    const answered = [user(), ...messages, reply([], "stop")];
    const isSpilled = (asked: string) => asked === key;
    expect(judge(answered, { isSpilled }).purgedOccurrenceKeys).toEqual([key]);
    expect(judgeUnanswered([user(), ...messages], { isSpilled }).purgedOccurrenceKeys).toEqual([]);
    expect(judge(answered).purgedOccurrenceKeys).toEqual([]);
    const config = { ...CONFIG, condenseArgs: { ...CONFIG.condenseArgs, enabled: false } };
    expect(judge(answered, { config, isSpilled }).purgedOccurrenceKeys).toEqual([]);
  });
});

describe("failed calls", () => {
  test("are purged once so many user turns have passed", () => {
    const { messages, key } = failedEdit();
    expect(judge([user(), ...messages]).purgedOccurrenceKeys).toEqual([]);
    expect(judge([user(), ...messages, ...users(1)]).purgedOccurrenceKeys).toEqual([]);
    expect(judge([user(), ...messages, ...users(2)]).purgedOccurrenceKeys).toEqual([key]);
    const config = { ...CONFIG, purgeErrors: { ...CONFIG.purgeErrors, cooldownTurns: 0 } };
    expect(judge([user(), ...messages], { config }).purgedOccurrenceKeys).toEqual([key]);
  });

  test("are left alone where that is off, they did not fail, are short, or have been purged", () => {
    const failed = failedEdit();
    const old = [user(), ...failed.messages, ...users(5)];
    const config = { ...CONFIG, purgeErrors: { ...CONFIG.purgeErrors, enabled: false } };
    expect(judge(old, { config }).purgedOccurrenceKeys).toEqual([]);
    expect(judge(old, { isAged: (key) => key === failed.key }).purgedOccurrenceKeys).toEqual([]);
    const fine = turn("edit", { path: "a.ts", oldText: LONG });
    const short = turn("edit", { path: LONG, oldText: "x".repeat(499) }, { isError: true });
    expect(judge([user(), ...fine.messages, ...short.messages, ...users(5)]).purgedOccurrenceKeys).toEqual([]);
  });

  test("a result without its call has no arguments to purge, and an id that is used again names another call", () => {
    const first = turn("edit", { oldText: "short" }, { isError: true, id: "same" });
    const second = turn("edit", { oldText: LONG }, { isError: true, id: "same" });
    const orphan = failedEdit().messages.slice(1);
    expect(judge([...first.messages, ...second.messages, ...orphan, ...users(3)]).purgedOccurrenceKeys).toEqual([
      second.key,
    ]);
  });

  test("of an aborted reply are passed over: no provider sees them", () => {
    const { messages } = failedEdit();
    const [call, result] = messages;
    const aborted = { ...call, stopReason: "aborted" } as AgentMessage;
    expect(judge(result ? [aborted, result, ...users(3)] : []).purgedOccurrenceKeys).toEqual([]);
  });
});

test("what the model has not answered does not age, however many turns have passed", () => {
  const failed = turn("bash", { command: LONG }, { isError: true });
  const recovered = turn(QUERY_TOOL_NAME, { toolCallIds: ["t1"] });
  const messages = [...failed.messages, ...recovered.messages, user(), user(), user(), user()];
  const { purgedOccurrenceKeys, pointers } = judgeUnanswered(messages);
  expect({ purgedOccurrenceKeys, pointers }).toEqual({ purgedOccurrenceKeys: [failed.key], pointers: [] });
});

describe("recovered output", () => {
  const query = (args: ToolCall["arguments"] = { toolCallIds: ["t1", "t4"] }, text = LONG) =>
    turn(QUERY_TOOL_NAME, args, { text });

  test("gives way to one line once it has had its user turns", () => {
    const { messages, key } = query();
    expect(judge([user(), ...messages, ...users(2)]).pointers).toEqual([]);
    expect(judge([user(), ...messages, ...users(3)]).pointers).toEqual([
      {
        toolCallId: key.split("@")[0] ?? "",
        occurrenceKey: key,
        text: `[was shown here; ask again: ${QUERY_TOOL_NAME} t1, t4]`,
      },
    ]);
    expect(judge([user(), ...messages, ...users(3)], { isAged: () => true }).pointers).toEqual([]);
    // A fork would not know what stands on another branch.
    expect(judge([user(), ...messages, ...users(3)], { isHere: (name) => name === "t1" }).pointers).toEqual([]);
  });

  test("says how to read a blob again", () => {
    const { messages } = turn("blob", { path: "/s/x-blobs/c1.txt" });
    const [pointer] = judge([user(), ...messages, ...users(3)]).pointers;
    expect(pointer?.text).toStartWith("[was shown here; the file can be read again: blob ");
    expect(pointer?.text).not.toContain("\n");
  });

  test("stays where the line would not be shorter", () => {
    expect(judge([user(), ...query(undefined, "short").messages, ...users(9)]).pointers).toEqual([]);
  });

  test("of odd arguments gives one line all the same", () => {
    const odd: ToolCall["arguments"][] = [
      {},
      { toolCallIds: "t1" },
      { toolCallIds: [1, null] },
      { toolCallIds: Array<string>(500).fill("t1") },
    ];
    for (const args of odd) {
      const [pointer] = judge([user(), ...query(args).messages, ...users(3)]).pointers;
      expect(pointer?.text).toMatch(/^\[was shown here; ask again: .{0,100}\]$/);
    }
  });

  test("that failed is no failed call to be purged", () => {
    const failed = turn(QUERY_TOOL_NAME, { toolCallIds: [LONG] }, { isError: true });
    const { purgedOccurrenceKeys, pointers } = judge([user(), ...failed.messages, ...users(3)]);
    expect(purgedOccurrenceKeys).toEqual([]);
    expect(pointers).toEqual([]);
  });
});

describe("protected output that came again", () => {
  test("gives way to a pointer that names the call, where that is shorter", () => {
    const { messages, key } = turn("read", { path: "AGENTS.md" }, { id: "r1" });
    const superseded = new Set([key]);
    const [pointer] = judge([user(), ...messages], { superseded }).pointers;
    expect(pointer?.occurrenceKey).toBe(key);
    expect(pointer?.text).toBe(
      `[read AGENTS.md: the newest output stands whole further on. This one: context_tree_query ${key}]`,
    );
    const short = turn("todoread", {}, { text: "No todos" });
    expect(judge([user(), ...short.messages], { superseded: new Set([short.key]) }).pointers).toEqual([]);
  });
});
