import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import {
  type CaptureOptions,
  captureBatch,
  captureOccurrences,
  captureOversized,
  captureUnindexedBatches,
  captureUnindexedBatchesFromSession,
  extractToolResultText,
} from "./batch-capture.ts";

const IMAGE = { type: "image", data: "AAAA", mimeType: "image/png" } as const;

function user(timestamp: number): AgentMessage {
  return { role: "user", content: [{ type: "text", text: "go" }], timestamp };
}

function notice(timestamp: number): AgentMessage {
  return { role: "custom", customType: "other", content: "by the way", display: true, timestamp };
}

function call(id: string, args: ToolCall["arguments"] = {}): ToolCall {
  return { type: "toolCall", id, name: "read", arguments: args };
}

function assistant(
  timestamp: number,
  content: AssistantMessage["content"],
  stopReason: AssistantMessage["stopReason"] = "toolUse",
): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp };
}

/** An assistant message with these calls. */
function calls(timestamp: number, ...ids: string[]): AssistantMessage {
  return assistant(
    timestamp,
    ids.map((id) => call(id)),
  );
}

function closing(timestamp: number): AssistantMessage {
  return assistant(timestamp, [{ type: "text", text: "done" }], "stop");
}

function result(toolCallId: string, timestamp: number, toolName = "read"): ToolResultMessage {
  const content = [{ type: "text" as const, text: `output of ${toolCallId}` }];
  return { role: "toolResult", toolCallId, toolName, content, isError: false, timestamp };
}

function options(overrides: Partial<CaptureOptions> = {}): CaptureOptions {
  return {
    frontierKey: undefined,
    isDealtWith: () => false,
    isExempt: () => false,
    batchingMode: "turn",
    ...overrides,
  };
}

/** Occurrence keys of each pending batch. */
function pending(messages: readonly AgentMessage[], overrides: Partial<CaptureOptions> = {}): string[][] {
  const batches = captureUnindexedBatches(messages, options(overrides));
  return batches.map((batch) => batch.toolCalls.map((captured) => captured.occurrenceKey));
}

describe("captureBatch", () => {
  const message = assistant(10, [
    { type: "thinking", thinking: "secret" },
    { type: "text", text: "I look." },
    call("c1", { path: "a.ts" }),
    call("c2", { path: "b.ts" }),
  ]);

  test("gives the calls in the order of their results, each with its own arguments", () => {
    const batch = captureBatch({ message, toolResults: [result("c2", 11), result("c1", 12)], turnIndex: 3 });
    expect(batch.toolCalls.map(({ occurrenceKey, args }) => ({ occurrenceKey, args }))).toEqual([
      { occurrenceKey: "c2@11", args: { path: "b.ts" } },
      { occurrenceKey: "c1@12", args: { path: "a.ts" } },
    ]);
  });

  test("tells what the assistant wrote, without its thinking, and where the turn stands", () => {
    const batch = captureBatch({ message, toolResults: [result("c1", 11)], turnIndex: 3 });
    expect(batch).toMatchObject({ turnIndex: 3, timestamp: 10, assistantText: "I look." });
  });

  test("leaves out a call that has no result", () => {
    const batch = captureBatch({ message, toolResults: [result("c2", 11)], turnIndex: 0 });
    expect(batch.toolCalls.map((captured) => captured.toolCallId)).toEqual(["c2"]);
  });

  test("holds everything of the result", () => {
    const content = [{ type: "text" as const, text: "a" }, IMAGE, { type: "text" as const, text: "b" }];
    const [captured] = captureBatch({
      message,
      toolResults: [{ ...result("c1", 11), content, isError: true }],
      turnIndex: 0,
    }).toolCalls;
    expect(captured).toEqual({
      occurrenceKey: "c1@11",
      toolCallId: "c1",
      toolName: "read",
      args: { path: "a.ts" },
      content,
      resultText: "a\nb",
      resultImages: 1,
      isError: true,
      resultTimestamp: 11,
    });
  });

  test("its text is the one that relocation and recovery take", () => {
    const content = [{ type: "text" as const, text: "a" }, IMAGE, { type: "text" as const, text: "" }];
    const toolResult = { ...result("c1", 11), content };
    const [captured] = captureBatch({ message, toolResults: [toolResult], turnIndex: 0 }).toolCalls;
    expect(captured?.resultText).toBe(extractToolResultText(toolResult));
  });
});

describe("captureUnindexedBatches", () => {
  test("gives a batch for each turn, in order", () => {
    const messages = [user(1), calls(2, "c1", "c2"), result("c1", 3), result("c2", 4), calls(5, "c3"), result("c3", 6)];
    expect(pending([...messages, closing(7)])).toEqual([["c1@3", "c2@4"], ["c3@6"]]);
  });

  test("numbers turns by their assistant messages", () => {
    const messages = [user(1), closing(2), user(3), calls(4, "c1"), result("c1", 5), closing(6)];
    expect(captureUnindexedBatches(messages, options()).map((batch) => batch.turnIndex)).toEqual([1]);
  });

  test("a turn's number does not depend on where the frontier stands", () => {
    const messages = [user(1), calls(2, "c1"), result("c1", 3), calls(4, "c2"), result("c2", 5), closing(6)];
    const [batch] = captureUnindexedBatches(messages, options({ frontierKey: "c1@3" }));
    expect(batch?.turnIndex).toBe(1);
  });

  test("nothing is pending in a conversation without results", () => {
    expect(pending([])).toEqual([]);
    expect(pending([user(1), closing(2)])).toEqual([]);
  });

  describe("frontier", () => {
    test("in the middle of a turn does not shift which call a result of the same id answers", () => {
      const message = assistant(2, [call("", { path: "a.ts" }), call("", { path: "b.md" })], "toolUse");
      const messages = [user(1), message, result("", 3), result("", 4), closing(5)];
      const paths = (frontierKey?: string) =>
        captureUnindexedBatches(messages, options({ frontierKey })).flatMap(({ toolCalls }) =>
          toolCalls.map(({ args }) => args.path),
        );
      expect(paths()).toEqual(["a.ts", "b.md"]);
      expect(paths("@3")).toEqual(["b.md"]);
    });

    const messages = [user(1), calls(2, "c1", "c2"), result("c1", 3), result("c2", 4), calls(5, "c3"), result("c3", 6)];
    const conversation = [...messages, closing(7)];

    test("starts behind the occurrence that it names, also in the middle of a turn", () => {
      expect(pending(conversation, { frontierKey: "c1@3" })).toEqual([["c2@4"], ["c3@6"]]);
      expect(pending(conversation, { frontierKey: "c2@4" })).toEqual([["c3@6"]]);
      expect(pending(conversation, { frontierKey: "c3@6" })).toEqual([]);
    });

    test("starts behind the bare id that earlier releases wrote", () => {
      expect(pending(conversation, { frontierKey: "c2" })).toEqual([["c3@6"]]);
    });

    test("an occurrence names its own place, not a later one with the same id", () => {
      const reused = [...conversation, user(8), calls(9, "c1"), result("c1", 10), closing(11)];
      expect(pending(reused, { frontierKey: "c1@3" })).toEqual([["c2@4"], ["c3@6"], ["c1@10"]]);
    });

    test("one that is no longer in the context leaves everything pending", () => {
      expect(pending(conversation, { frontierKey: "gone@1" })).toEqual([["c1@3", "c2@4"], ["c3@6"]]);
    });

    test("the rest of a turn keeps the turn's arguments and text", () => {
      const turn = assistant(5, [{ type: "text", text: "I look." }, call("c1"), call("c2", { path: "b.ts" })]);
      const [batch] = captureUnindexedBatches(
        [user(1), calls(2, "c0"), result("c0", 3), turn, result("c1", 6), result("c2", 7), closing(8)],
        options({ frontierKey: "c1@6" }),
      );
      expect(batch).toMatchObject({ timestamp: 5, assistantText: "I look." });
      expect(batch?.toolCalls[0]?.args).toEqual({ path: "b.ts" });
    });
  });

  describe("what the model has not answered", () => {
    const turn = [user(1), calls(2, "c1"), result("c1", 3)];

    test("is not pending", () => {
      expect(pending(turn)).toEqual([]);
      expect(pending([...turn, closing(4)])).toEqual([["c1@3"]]);
    });

    test("stays so after an errored or aborted reply", () => {
      expect(pending([...turn, assistant(4, [], "error")])).toEqual([]);
      expect(pending([...turn, assistant(4, [], "aborted"), user(5)])).toEqual([]);
    });

    test("is answered by a reply that ran into its limit", () => {
      expect(pending([...turn, assistant(4, [{ type: "text", text: "cut" }], "length")])).toEqual([["c1@3"]]);
    });

    test("waits alone: the turns before it are pending", () => {
      expect(pending([...turn, calls(4, "c2"), result("c2", 5)])).toEqual([["c1@3"]]);
    });

    test("waits where a user message came instead of an answer", () => {
      expect(pending([...turn, user(4)])).toEqual([]);
    });
  });

  test("can be asked for before it is answered, for summaries that are made ahead", () => {
    const messages = [user(1), calls(2, "c1"), result("c1", 3), calls(4, "c2"), result("c2", 5)];
    expect(pending(messages, { unseenToo: true })).toEqual([["c1@3"], ["c2@5"]]);
  });

  test("the last user turns can be left alone", () => {
    const messages = [
      user(1),
      calls(2, "c1"),
      result("c1", 3),
      closing(4),
      user(5),
      calls(6, "c2"),
      result("c2", 7),
      closing(8),
      user(9),
      closing(10),
    ];
    expect(pending(messages, { protectedTurns: 0 })).toEqual([["c1@3"], ["c2@7"]]);
    expect(pending(messages, { protectedTurns: 1 })).toEqual([["c1@3"], ["c2@7"]]);
    expect(pending(messages, { protectedTurns: 2 })).toEqual([["c1@3"]]);
    expect(pending(messages, { protectedTurns: 3 })).toEqual([]);
    expect(pending(messages, { protectedTurns: 9 })).toEqual([]);
    const asked = [...messages, user(11)];
    expect(pending(asked, { protectedTurns: 3 })).toEqual([["c1@3"]]);
    const behindCompaction = messages.slice(1);
    expect(pending(behindCompaction, { protectedTurns: 2 })).toEqual([["c1@3"]]);
    expect(pending(behindCompaction, { protectedTurns: 3 })).toEqual([]);
  });

  test("what is still at work stands in a batch of its own, in its place", () => {
    const messages = [calls(2, "c1", "c2", "c3"), result("c1", 3), result("c2", 4), result("c3", 5), closing(6)];
    const isHeld = (key: string) => key === "c2@4";
    expect(pending([user(1), ...messages], { isHeld })).toEqual([["c1@3"], ["c2@4"], ["c3@5"]]);
    const batches = captureUnindexedBatches([user(1), ...messages], options({ isHeld }));
    expect(batches.map((batch) => batch.held ?? false)).toEqual([false, true, false]);
    expect(pending([user(1), ...messages], { isHeld, batchingMode: "agent-message" })).toEqual([
      ["c1@3"],
      ["c2@4"],
      ["c3@5"],
    ]);
  });

  test("results of errored and aborted assistants are ignored, since their calls are never sent", () => {
    const broken = (stopReason: "error" | "aborted", id: string, at: number) => [
      assistant(at, [call(id)], stopReason),
      result(id, at + 1),
    ];
    const messages = [user(1), ...broken("error", "c1", 2), ...broken("aborted", "c2", 4), closing(6)];
    expect(pending(messages)).toEqual([]);
  });

  test("results without a call of the message before them are ignored", () => {
    expect(pending([user(1), calls(2, "c1"), result("c1", 3), result("stray", 4), closing(5)])).toEqual([["c1@3"]]);
    expect(pending([result("stray", 1), closing(2)])).toEqual([]);
  });

  test("an id that a later turn uses again is another occurrence", () => {
    const messages = [user(1), calls(2, "c1"), result("c1", 3), calls(4, "c1"), result("c1", 5), closing(6)];
    expect(pending(messages)).toEqual([["c1@3"], ["c1@5"]]);
    expect(pending(messages, { isDealtWith: (key) => key === "c1@3" })).toEqual([["c1@5"]]);
  });

  test("results of one turn with one id and one time are told apart by their position", () => {
    const turn = [calls(2, "", "", "c3", ""), result("", 3), result("", 3), result("c3", 3), result("", 4)];
    expect(pending([user(1), ...turn, closing(5)])).toEqual([["@3", "#2@3", "c3@3", "@4"]]);
  });

  test("a key is left out also where its second result stands in another turn", () => {
    const messages = [user(1), calls(2, "c1"), result("c1", 3), calls(4, "c1"), result("c1", 3), closing(5)];
    expect(pending(messages)).toEqual([]);
  });

  test("what has been dealt with is left out, and a turn without anything else gives no batch", () => {
    const messages = [user(1), calls(2, "c1"), result("c1", 3), calls(4, "c2", "c3")];
    const rest = [result("c2", 5), result("c3", 6), closing(7)];
    const dealtWith = new Set(["c1@3", "c2@5"]);
    expect(pending([...messages, ...rest], { isDealtWith: (key) => dealtWith.has(key) })).toEqual([["c3@6"]]);
  });

  test("exempt calls are left out, by tool and by arguments", () => {
    const message = assistant(2, [call("c1"), call("c2", { path: "a.ts" }), call("c3", { path: "SKILL.md" })]);
    const turn = [message, result("c1", 3, "context_tree_query"), result("c2", 4), result("c3", 5)];
    const isExempt: CaptureOptions["isExempt"] = ({ toolName, args }) =>
      toolName === "context_tree_query" || args.path === "SKILL.md";
    expect(pending([user(1), ...turn, closing(6)], { isExempt })).toEqual([["c2@4"]]);
  });

  test("steering and notices between the messages of a run change nothing", () => {
    const messages = [
      user(1),
      calls(2, "c1", "c2"),
      result("c1", 3),
      notice(4),
      result("c2", 5),
      user(6),
      calls(7, "c3"),
      result("c3", 8),
      notice(9),
      closing(10),
    ];
    expect(pending(messages)).toEqual([["c1@3", "c2@5"], ["c3@8"]]);
  });

  test("does not touch the messages", () => {
    const messages = [user(1), calls(2, "c1"), result("c1", 3), closing(4)];
    const before = structuredClone(messages);
    pending(messages, { batchingMode: "agent-message" });
    expect(messages).toEqual(before);
  });

  describe('batchingMode "agent-message"', () => {
    const runs = [
      user(1),
      assistant(2, [{ type: "text", text: "First." }, call("c1"), call("c2")]),
      result("c1", 3),
      result("c2", 3),
      calls(4, "c3"),
      result("c3", 5),
      assistant(6, [{ type: "text", text: "Then." }, call("c4")]),
      result("c4", 7),
      closing(8),
      user(9),
      calls(10, "c5"),
      result("c5", 11),
      closing(12),
      user(13),
      calls(14, "c6"),
      result("c6", 15),
      closing(16),
    ];

    test("joins the turns up to a closing reply", () => {
      expect(pending(runs, { batchingMode: "agent-message" })).toEqual([
        ["c1@3", "c2@3", "c3@5", "c4@7"],
        ["c5@11"],
        ["c6@15"],
      ]);
    });

    test("a joined batch holds what the assistant wrote in each turn, and the first turn's time", () => {
      const [batch] = captureUnindexedBatches(runs, options({ batchingMode: "agent-message" }));
      expect(batch).toMatchObject({ turnIndex: 0, timestamp: 2, assistantText: "First.\nThen." });
    });

    test("steering does not end a run", () => {
      const messages = [user(1), calls(2, "c1"), result("c1", 3), user(4), calls(5, "c2"), result("c2", 6), closing(7)];
      expect(pending(messages, { batchingMode: "agent-message" })).toEqual([["c1@3", "c2@6"]]);
    });

    test("runs stay apart behind a frontier in the first of them", () => {
      const behind = { batchingMode: "agent-message", frontierKey: "c1@3" } as const;
      expect(pending(runs, behind)).toEqual([["c2@3", "c3@5", "c4@7"], ["c5@11"], ["c6@15"]]);
    });
  });
});

describe("captureOversized", () => {
  const THRESHOLD = 100;

  function sized(toolCallId: string, timestamp: number, chars: number): ToolResultMessage {
    return { ...result(toolCallId, timestamp), content: [{ type: "text", text: "x".repeat(chars) }] };
  }

  function oversized(messages: readonly AgentMessage[], overrides: Partial<CaptureOptions> = {}): string[] {
    const batches = captureOversized(messages, { ...options(overrides), threshold: THRESHOLD });
    return batches.flatMap((batch) => batch.toolCalls.map((captured) => captured.occurrenceKey));
  }

  test("takes what reaches the threshold, and leaves the rest of its turn", () => {
    const sizes = [sized("c1", 3, THRESHOLD - 1), sized("c2", 4, THRESHOLD), sized("c3", 5, THRESHOLD + 1)];
    expect(oversized([user(1), calls(2, "c1", "c2", "c3"), ...sizes])).toEqual(["c2@4", "c3@5"]);
  });

  test("does not wait for an answer, nor stop at a frontier", () => {
    const messages = [user(1), calls(2, "c1"), sized("c1", 3, 200), calls(4, "c2"), sized("c2", 5, 200)];
    expect(oversized(messages, { frontierKey: "c1@3" })).toEqual(["c1@3", "c2@5"]);
  });

  test("a result with blocks of other kinds is left alone, here and by a flush", () => {
    const audio: unknown = { type: "audio", data: "AAAA", mimeType: "audio/wav" };
    const odd = sized("c1", 3, 200);
    const messages = [
      user(1),
      calls(2, "c1"),
      { ...odd, content: [...odd.content, audio as typeof IMAGE] },
      closing(4),
    ];
    expect(oversized(messages)).toEqual([]);
    expect(pending(messages)).toEqual([]);
  });

  test("goes by the text: an image does not make a result oversized", () => {
    const picture = { ...result("c1", 3), content: [IMAGE, { type: "text" as const, text: "short" }] };
    expect(oversized([user(1), calls(2, "c1"), picture])).toEqual([]);
  });

  test("leaves out what is dealt with, exempt or without a call", () => {
    const messages = [
      user(1),
      calls(2, "c1", "c2", "", ""),
      sized("c1", 3, 200),
      { ...sized("c2", 3, 200), toolName: "keep" },
      sized("", 4, 200),
      sized("", 4, 200),
      sized("stray", 5, 200),
    ];
    expect(
      oversized(messages, { isDealtWith: (key) => key === "c1@3", isExempt: ({ toolName }) => toolName === "keep" }),
    ).toEqual(["@4", "#2@4"]);
    expect(oversized(messages)).toEqual(["c1@3", "c2@3", "@4", "#2@4"]);
  });
});

describe("captureOccurrences", () => {
  test("gives the calls that are named, in batches by turn, answered or not", () => {
    const messages = [user(1), calls(2, "c1", "c2"), result("c1", 3), result("c2", 3), calls(4, "c1"), result("c1", 5)];
    const batches = captureOccurrences(messages, new Set(["c1@3", "c1@5", "lost@9"]));
    expect(batches.map((batch) => batch.toolCalls.map((captured) => captured.occurrenceKey))).toEqual([
      ["c1@3"],
      ["c1@5"],
    ]);
  });
});

describe("captureUnindexedBatchesFromSession", () => {
  function branchOf(messages: readonly AgentMessage[]): SessionEntry[] {
    return messages.map((message, i) => ({
      type: "message",
      id: `e${i}`,
      parentId: i === 0 ? null : `e${i - 1}`,
      timestamp: "2026-01-01T00:00:00.000Z",
      message,
    }));
  }

  function compaction(firstKeptEntryId: string): SessionEntry {
    const timestamp = "2026-01-01T00:00:00.000Z";
    return { type: "compaction", id: "x", parentId: null, timestamp, summary: "s", firstKeptEntryId, tokensBefore: 9 };
  }

  const messages = [user(1), calls(2, "c1"), result("c1", 3), calls(4, "c2"), result("c2", 5), closing(6)];

  test("gives what the messages of the branch give", () => {
    const branch = branchOf(messages);
    expect(captureUnindexedBatchesFromSession(branch, options())).toEqual(captureUnindexedBatches(messages, options()));
  });

  test("what a compaction has cut off is not pending", () => {
    const branch = [...branchOf(messages), compaction("e3")];
    const batches = captureUnindexedBatchesFromSession(branch, options());
    expect(batches.map((batch) => batch.toolCalls.map((captured) => captured.toolCallId))).toEqual([["c2"]]);
  });
});
