import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
// Brings the host's own roles (custom, bashExecution, summaries) into `AgentMessage`.
import type {} from "@mariozechner/pi-coding-agent";
import fc from "fast-check";
import { deepFreeze, sessionArbitrary } from "../../test/support/generate.ts";
import { checkTranscript } from "../../test/support/transcript.ts";
import { repairTranscript } from "./repair.ts";

let clock = 0;

function user(text = "go"): AgentMessage {
  return { role: "user", content: [{ type: "text", text }], timestamp: ++clock };
}

function notice(): AgentMessage {
  return { role: "custom", customType: "other", content: "by the way", display: true, timestamp: ++clock };
}

function bash(): AgentMessage {
  const run = { command: "ls", output: "a", exitCode: 0, cancelled: false, truncated: false };
  return { role: "bashExecution", ...run, timestamp: ++clock };
}

/** An assistant message that makes calls with these ids; a closing reply without. */
function assistant(ids: readonly string[], stopReason?: AssistantMessage["stopReason"]): AgentMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const content: AssistantMessage["content"] = [
    { type: "text", text: "I look." },
    ...ids.map((id) => ({ type: "toolCall" as const, id, name: "read", arguments: {} })),
  ];
  const source = { api: "a", provider: "p", model: "m", usage };
  const reason = stopReason ?? (ids.length > 0 ? "toolUse" : "stop");
  return { role: "assistant", content, ...source, stopReason: reason, timestamp: ++clock };
}

function result(toolCallId: string): AgentMessage {
  const content = [{ type: "text" as const, text: "out" }];
  return { role: "toolResult", toolCallId, toolName: "read", content, isError: false, timestamp: ++clock };
}

/** Expects that the repair leaves these messages, the very same objects, in this order. */
function expectRepaired(messages: AgentMessage[], expected: readonly AgentMessage[]): void {
  const repaired = repairTranscript(deepFreeze(messages));
  expect(repaired.map((message) => messages.indexOf(message))).toEqual(
    expected.map((message) => messages.indexOf(message)),
  );
}

describe("a valid transcript is given back itself", () => {
  test.each<[string, AgentMessage[]]>([
    ["nothing at all", []],
    ["no calls", [user(), assistant([])]],
    ["calls with their results", [user(), assistant(["c1", "c2"]), result("c1"), result("c2"), assistant([])]],
    ["results in another order", [user(), assistant(["c1", "c2"]), result("c2"), result("c1")]],
    ["a call that still runs", [user(), assistant(["c1"])]],
    ["a call whose result never came", [user(), assistant(["c1", "c2"]), result("c1"), user()]],
    ["an id that a later turn uses again", [assistant(["c1"]), result("c1"), assistant(["c1"]), result("c1")]],
    ["two calls of a turn with one id", [assistant(["", ""]), result(""), result(""), assistant([])]],
    ["steering behind the results", [assistant(["c1"]), result("c1"), user("rather this"), assistant([])]],
    ["an errored call without a result", [user(), assistant(["c1"], "error"), user(), assistant([])]],
  ])("%s", (_what, messages) => {
    expect(repairTranscript(messages)).toBe(messages);
  });
});

describe("a result without a call", () => {
  test("at the beginning is dropped", () => {
    const [orphan, prompt] = [result("c1"), user()];
    expectRepaired([orphan, prompt], [prompt]);
  });

  test("of another id is dropped", () => {
    const [made, own, orphan] = [assistant(["c1"]), result("c1"), result("c2")];
    expectRepaired([made, own, orphan], [made, own]);
  });

  test("that comes after the next assistant message is dropped", () => {
    const [made, closing, late] = [assistant(["c1"]), assistant([]), result("c1")];
    expectRepaired([made, closing, late], [made, closing]);
  });

  test.each(["error", "aborted"] as const)("of a reply that ended by %s is dropped, the reply is not", (stopReason) => {
    const [prompt, broken, orphan, next] = [user(), assistant(["c1"], stopReason), result("c1"), user()];
    expectRepaired([prompt, broken, orphan, next], [prompt, broken, next]);
  });

  test("of a reply that ran into its limit is kept", () => {
    const messages = [assistant(["c1"], "length"), result("c1"), assistant([])];
    expect(repairTranscript(messages)).toBe(messages);
  });

  test("that is a second one for its call is dropped, the first is kept", () => {
    const [made, first, second, closing] = [assistant(["c1"]), result("c1"), result("c1"), assistant([])];
    expectRepaired([made, first, second, closing], [made, first, closing]);
  });

  test("is dropped for each call but not for the one that had an equal id", () => {
    const [made, one, two, three] = [assistant(["", ""]), result(""), result(""), result("")];
    expectRepaired([made, one, two, three], [made, one, two]);
  });
});

describe("what stands between a call and its result", () => {
  test.each([
    ["a notice of another extension", notice()],
    ["a user message", user("wait")],
    ["a command of the user", bash()],
  ])("%s goes behind the results", (_what, between) => {
    const [made, first, second, closing] = [assistant(["c1", "c2"]), result("c1"), result("c2"), assistant([])];
    expectRepaired([made, first, between, second, closing], [made, first, second, between, closing]);
    expectRepaired([made, between, first, second, closing], [made, first, second, between, closing]);
  });

  test("keeps its order", () => {
    const [made, one, out, two] = [assistant(["c1"]), notice(), result("c1"), user()];
    expectRepaired([made, one, out, two], [made, out, one, two]);
  });
});

test("every broken turn is repaired, not only the first", () => {
  const [prompt, made, one, out, closing] = [user(), assistant(["c1"]), notice(), result("c1"), assistant([])];
  const [again, two, outAgain, orphan] = [assistant(["c2"]), notice(), result("c2"), result("c9")];
  expectRepaired(
    [prompt, made, one, out, closing, again, two, outAgain, orphan],
    [prompt, made, out, one, closing, again, outAgain, two],
  );
});

test("a generated transcript becomes valid, loses nothing but results, and is left alone the second time", () => {
  fc.assert(
    fc.property(sessionArbitrary({ maxOutputChars: 50 }), (messages) => {
      const repaired = repairTranscript(messages);
      expect(checkTranscript(repaired, messages, { chargeOrphans: true })).toEqual([]);
      expect(repairTranscript(repaired)).toBe(repaired);
      const others = (list: readonly AgentMessage[]) => list.filter((message) => message.role !== "toolResult");
      expect(others(repaired)).toEqual(others(messages));
    }),
  );
});
