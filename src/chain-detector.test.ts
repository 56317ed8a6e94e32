import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { sessionArbitrary } from "../test/support/generate.ts";
import { PROPERTY_RUNS } from "../test/support/property-runs.ts";
import { detectChains } from "./chain-detector.ts";
import { isAssistant, resultKeys } from "./transcript/messages.ts";
import { CUSTOM_TYPE_SUMMARY } from "./types.ts";

const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: COST };

function user(timestamp: number): AgentMessage {
  return { role: "user", content: [{ type: "text", text: "go" }], timestamp };
}

/** An assistant message; calls are written as `id` or `id:tool`. */
function turn(
  timestamp: number,
  calls: string[],
  stopReason: AssistantMessage["stopReason"] = "toolUse",
): AgentMessage {
  const content = calls.map((call) => {
    const [id = "", name = "read"] = call.split(":");
    return { type: "toolCall" as const, id, name, arguments: { path: `${id}.md` } };
  });
  const source = { api: "a", provider: "p", model: "m", usage: USAGE };
  return { role: "assistant", content, ...source, stopReason, timestamp };
}

function reply(timestamp: number, stopReason: AssistantMessage["stopReason"] = "stop"): AgentMessage {
  const source = { api: "a", provider: "p", model: "m", usage: USAGE };
  return { role: "assistant", content: [{ type: "text", text: "done" }], ...source, stopReason, timestamp };
}

function result(timestamp: number, toolCallId: string, toolName = "read"): AgentMessage {
  const content = [{ type: "text" as const, text: "out" }];
  return { role: "toolResult", toolCallId, toolName, content, isError: false, timestamp };
}

function notice(timestamp: number, customType = "other-extension"): AgentMessage {
  return { role: "custom", customType, content: "notice", display: true, timestamp };
}

/** The bounds of the chains: `start-end`, interrupted ones with a `!`. */
function bounds(messages: AgentMessage[]): string[] {
  return detectChains(messages).map(
    (range) =>
      `${range.startUserTimestamp}-${range.finalAssistantTimestamp}${range.interrupted ? "!" : ""} ${range.occurrenceKeys.join(" ")}`,
  );
}

describe("closed chains", () => {
  test("hold all between the opening message and the closing reply", () => {
    const messages = [user(1), turn(2, ["a", "b"]), result(3, "a"), result(4, "b"), turn(5, ["c"]), result(6, "c")];
    expect(detectChains([...messages, reply(7)])).toEqual([
      {
        startUserTimestamp: 1,
        finalAssistantTimestamp: 7,
        middleToolCallIds: ["a", "b", "c"],
        protectedToolCallIds: [],
        occurrenceKeys: ["a@3", "b@4", "c@6"],
        protectedOccurrenceKeys: [],
        interrupted: false,
      },
    ]);
  });

  test("the open chain is left out", () => {
    const messages = [user(1), turn(2, ["a"]), result(3, "a")];
    expect(detectChains(messages)).toEqual([]);
    expect(bounds([...messages, reply(4), user(5), turn(6, ["b"]), result(7, "b")])).toEqual(["1-4 a@3"]);
  });

  test("talk without a tool call is no chain", () => {
    expect(bounds([user(1), reply(2), user(3), turn(4, ["a"]), result(5, "a"), reply(6)])).toEqual(["3-6 a@5"]);
    expect(bounds([user(1), turn(2, ["a"], "error"), reply(3)])).toEqual([]);
  });

  test("a reply that ended by its length, by an error or by an abort closes nothing", () => {
    for (const stopReason of ["length", "error", "aborted"] as const) {
      const messages = [user(1), turn(2, ["a"]), result(3, "a"), reply(4, stopReason)];
      expect(bounds(messages)).toEqual([]);
      expect(bounds([...messages, turn(5, ["b"]), result(6, "b"), reply(7)])).toEqual(["1-7 a@3 b@6"]);
    }
  });

  test("results of an aborted reply stand in the range, but are no occurrences: no provider gets them", () => {
    const messages = [user(1), turn(2, ["x"], "aborted"), result(3, "x"), turn(4, ["a"]), result(5, "a"), reply(6)];
    const [range] = detectChains(messages);
    expect(range?.middleToolCallIds).toEqual(["x", "a"]);
    expect(range?.occurrenceKeys).toEqual(["a@5"]);
  });

  test("an id that is used again names another occurrence", () => {
    const first = [user(1), turn(2, ["a"]), result(3, "a"), reply(4)];
    const second = [user(5), turn(6, ["a"]), result(7, "a"), turn(8, ["a"]), result(9, "a"), reply(10)];
    expect(bounds([...first, ...second])).toEqual(["1-4 a@3", "5-10 a@7 a@9"]);
  });

  test("a second result for one call is none", () => {
    expect(bounds([user(1), turn(2, ["a"]), result(3, "a"), result(4, "a"), reply(5)])).toEqual(["1-5 a@3"]);
  });
});

describe("interrupted chains", () => {
  test("end where the next user message comes before any closing reply", () => {
    const messages = [user(1), turn(2, ["a"]), result(3, "a"), user(4), turn(5, ["b"]), result(6, "b"), reply(7)];
    expect(bounds(messages)).toEqual(["1-2! a@3", "4-7 b@6"]);
    expect(bounds(messages.slice(0, 4))).toEqual(["1-2! a@3"]);
  });

  test("end with their last assistant message, whatever became of it", () => {
    const messages = [user(1), turn(2, ["a"]), result(3, "a"), reply(4, "aborted"), user(5), reply(6)];
    expect(bounds(messages)).toEqual(["1-4! a@3"]);
  });

  test("are none without a result", () => {
    expect(bounds([user(1), turn(2, ["a"]), user(3), turn(4, ["b"]), result(5, "b"), reply(6)])).toEqual(["3-6 b@5"]);
    expect(bounds([user(1), turn(2, ["a"], "aborted"), result(3, "a"), user(4), reply(5)])).toEqual([]);
  });

  test("a message before a late result is steering: no chain ends between a call and its result", () => {
    const before = [user(1), turn(2, ["a", "b"]), result(3, "a"), user(4)];
    expect(bounds(before)).toEqual([]);
    expect(bounds([...before, result(5, "b"), turn(6, ["c"]), result(7, "c"), reply(8)])).toEqual(["1-8 a@3 b@5 c@7"]);
    expect(bounds([...before, turn(5, ["c"]), result(6, "c"), reply(7)])).toEqual(["1-2! a@3", "4-7 c@6"]);
    expect(bounds([...before, result(5, "z"), turn(6, ["c"]), result(7, "c"), reply(8)])).toEqual([
      "1-2! a@3",
      "4-8 c@7",
    ]);
    expect(bounds([...before, user(5), turn(6, ["c"]), result(7, "c"), reply(8)])).toEqual(["1-2! a@3", "5-8 c@7"]);
  });
});

describe("messages of other extensions", () => {
  const run = [turn(12, ["a"]), result(13, "a"), reply(14)];

  test("open a chain at the start of the context and behind a closing reply", () => {
    expect(bounds([notice(11), ...run])).toEqual(["11-14 a@13"]);
    expect(bounds([user(1), reply(2), notice(11), ...run])).toEqual(["11-14 a@13"]);
    expect(bounds([notice(9), notice(11), ...run])).toEqual(["9-14 a@13"]);
  });

  test("leave the opening to a user message that follows them", () => {
    expect(bounds([user(1), reply(2), notice(3), user(11), ...run])).toEqual(["11-14 a@13"]);
  });

  test("are notices within a run, between turns and between a call and its result", () => {
    const middle = [turn(2, ["a", "b"]), notice(3), result(4, "a"), notice(5), result(6, "b"), notice(7)];
    expect(bounds([user(1), ...middle, turn(8, ["c"]), result(9, "c"), notice(10), reply(11), notice(12)])).toEqual([
      "1-11 a@4 b@6 c@9",
    ]);
  });

  test("open nothing within a run that has lost its head", () => {
    const compacted: AgentMessage = { role: "compactionSummary", summary: "s", tokensBefore: 1, timestamp: 1 };
    const cut = [compacted, turn(2, ["a"]), notice(3), result(4, "a"), notice(5), turn(6, ["b"]), result(7, "b")];
    expect(bounds([...cut, reply(8), user(11), ...run])).toEqual(["11-14 a@13"]);
  });

  test("a user message in a run without a head opens a chain, unless results are still to come", () => {
    expect(bounds([turn(2, ["x"]), result(3, "x"), user(11), ...run])).toEqual(["11-14 a@13"]);
    expect(bounds([turn(2, ["x"]), user(3), result(4, "x"), turn(5, ["y"]), result(6, "y"), reply(7)])).toEqual([]);
  });

  test("our own summary messages of earlier releases neither open nor end anything", () => {
    const own = notice(5, CUSTOM_TYPE_SUMMARY);
    expect(bounds([own, ...run])).toEqual([]);
    expect(bounds([user(1), turn(2, ["a"]), result(3, "a"), own, reply(6), own, user(11), ...run])).toEqual([
      "1-6 a@3",
      "11-14 a@13",
    ]);
  });

  test("commands of the user change nothing", () => {
    const command: AgentMessage = {
      role: "bashExecution",
      command: "ls",
      output: "",
      exitCode: 0,
      cancelled: false,
      truncated: false,
      timestamp: 5,
    };
    expect(bounds([command, user(11), command, turn(12, ["a"]), command, result(13, "a"), reply(14)])).toEqual([
      "11-14 a@13",
    ]);
  });
});

describe("protectedTools", () => {
  const messages = [
    user(1),
    turn(2, ["a:todowrite", "b:read"]),
    result(3, "a", "todowrite"),
    result(4, "b"),
    turn(5, ["c:todowrite"]),
    result(6, "c", "todowrite"),
  ];

  test("populates protectedToolCallIds of every protected call, and nothing by default", () => {
    const [range] = detectChains([...messages, reply(7)], ["todowrite"]);
    expect(range?.protectedToolCallIds).toEqual(["a", "c"]);
    expect(range?.protectedOccurrenceKeys).toEqual(["a@3", "c@6"]);
    expect(range?.middleToolCallIds).toEqual(["a", "b", "c"]);
    for (const [plain] of [detectChains([...messages, reply(7)]), detectChains([...messages, reply(7)], [])]) {
      expect(plain?.protectedToolCallIds).toEqual([]);
      expect(plain?.protectedOccurrenceKeys).toEqual([]);
    }
  });

  test("an interrupted chain has them too", () => {
    const [range] = detectChains([...messages, user(7)], ["todowrite"]);
    expect(range).toMatchObject({ interrupted: true, protectedToolCallIds: ["a", "c"] });
    expect(range?.protectedOccurrenceKeys).toEqual(["a@3", "c@6"]);
  });

  test("the assistant branch: a call whose result never came", () => {
    const [range] = detectChains([user(1), turn(2, ["a:todowrite", "b"]), result(3, "b"), reply(4)], ["todowrite"]);
    expect(range?.protectedToolCallIds).toEqual(["a"]);
    expect(range?.protectedOccurrenceKeys).toEqual([]);
  });

  test("the toolResult branch: a result under another name than its call", () => {
    const chain = [user(1), turn(2, ["a:alias"]), result(3, "a", "todowrite"), result(4, "z", "todowrite"), reply(5)];
    const [range] = detectChains(chain, ["todowrite"]);
    expect(range?.protectedToolCallIds).toEqual(["a", "z"]);
    expect(range?.protectedOccurrenceKeys).toEqual(["a@3"]);
    const [byCall] = detectChains(chain, ["alias"]);
    expect(byCall?.protectedOccurrenceKeys).toEqual(["a@3"]);
  });

  test("may be a test of each call, with the arguments of the call that a result belongs to", () => {
    const chain = [user(1), turn(2, ["a", "b"]), result(3, "a"), turn(4, ["a:edit"]), result(5, "a", "edit"), reply(6)];
    const [range] = detectChains(chain, (call) => call.toolName === "read" && call.args.path === "a.md");
    expect(range?.protectedToolCallIds).toEqual(["a"]);
    expect(range?.protectedOccurrenceKeys).toEqual(["a@3"]);
  });
});

describe("over generated sessions", () => {
  test("chains of a prefix keep their bounds on every longer one", () => {
    fc.assert(
      fc.property(sessionArbitrary(), (messages) => {
        const all = detectChains(messages, ["todowrite", "edit"]);
        let before = 0;
        for (let length = 0; length <= messages.length; length++) {
          const found = detectChains(messages.slice(0, length), ["todowrite", "edit"]);
          expect(found.length).toBeGreaterThanOrEqual(before);
          expect(found).toEqual(all.slice(0, found.length));
          before = found.length;
        }
      }),
    );
  });

  test("chains do not overlap, and each holds the results that stand within its bounds", () => {
    let chains = 0;
    fc.assert(
      fc.property(sessionArbitrary(), (messages) => {
        const ranges = detectChains(messages);
        chains += ranges.length;
        const keys = resultKeys(messages);
        for (const [i, range] of ranges.entries()) {
          expect(range.startUserTimestamp).toBeLessThan(range.finalAssistantTimestamp);
          expect(range.startUserTimestamp).toBeGreaterThan(ranges[i - 1]?.finalAssistantTimestamp ?? 0);
          expect(messages.filter(isAssistant).some((m) => m.timestamp === range.finalAssistantTimestamp)).toBe(true);
          for (const key of range.occurrenceKeys) expect(keys.has(key)).toBe(true);
        }
      }),
    );
    expect(chains).toBeGreaterThan(PROPERTY_RUNS / 2);
  });
});
