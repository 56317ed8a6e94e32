import { describe, expect, test } from "bun:test";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import {
  CUSTOM_TYPE_CHAIN,
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_DIAGNOSTIC,
  CUSTOM_TYPE_FRONTIER,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_STATS,
  CUSTOM_TYPE_SUMMARY,
} from "../types.ts";
import { type OwnEntry, readOwnEntry } from "./entries.ts";

const BASE = { id: "e1", parentId: null, timestamp: "2026-01-01T00:00:00.500Z" };

function read(customType: string, data: unknown): OwnEntry | undefined {
  return readOwnEntry({ type: "custom", ...BASE, customType, data });
}

function readMessage(content: unknown, details: unknown, customType = CUSTOM_TYPE_SUMMARY): OwnEntry | undefined {
  const entry: unknown = { type: "custom_message", ...BASE, customType, content, details, display: false };
  return readOwnEntry(entry as SessionEntry);
}

/** `value` without one of its fields. */
function without(value: object, field: string): object {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== field));
}

const RECORD = {
  toolCallId: "c1",
  toolName: "read",
  args: { path: "a.ts" },
  resultText: "text",
  isError: false,
  turnIndex: 0,
  timestamp: 10,
};
const REF = { shortId: "t1", toolCallId: "c1" };
const SUMMARY = {
  text: "whole",
  parts: [{ shortId: "t1", occurrenceKey: "c1@11", text: "part" }],
  occurrenceKeys: ["c1@11"],
  model: "p/m",
};
const ALIAS = { newToolCallId: "c2", originalToolCallId: "c1" };
const FRONTIER = {
  lastAttemptedToolCallId: "c1",
  attemptedBatchCount: 1,
  attemptedToolCallCount: 1,
  rawCharCount: 10,
  summaryCharCount: 5,
  outcome: "summarized",
};
const CHAIN = {
  blockId: "b7",
  startUserTimestamp: 1,
  finalAssistantTimestamp: 9,
  droppedToolCallIds: ["c1", "c2"],
  toolRefs: ["t1", "t2"],
  compressedAt: 10,
};
const STATS = { totalInputTokens: 1, totalOutputTokens: 2, totalCost: 0.5, callCount: 3, failedCallCount: 1 };
const DIAGNOSTIC = { kind: "error", detail: "what" };

/** Each type with its smallest valid data and the fields that it cannot do without. */
const TYPES: [string, object, string[]][] = [
  [CUSTOM_TYPE_SUMMARY, SUMMARY, ["text", "parts", "occurrenceKeys", "model"]],
  [CUSTOM_TYPE_DEDUP_ALIAS, ALIAS, ["newToolCallId", "originalToolCallId"]],
  [
    CUSTOM_TYPE_FRONTIER,
    FRONTIER,
    [
      "lastAttemptedToolCallId",
      "attemptedBatchCount",
      "attemptedToolCallCount",
      "rawCharCount",
      "summaryCharCount",
      "outcome",
    ],
  ],
  [
    CUSTOM_TYPE_CHAIN,
    CHAIN,
    ["blockId", "startUserTimestamp", "finalAssistantTimestamp", "droppedToolCallIds", "toolRefs", "compressedAt"],
  ],
  [CUSTOM_TYPE_STATS, STATS, ["totalInputTokens", "totalOutputTokens", "totalCost", "callCount"]],
  [CUSTOM_TYPE_DIAGNOSTIC, DIAGNOSTIC, ["kind", "detail"]],
];

describe("entries of others", () => {
  test("are not ours, whatever they hold", () => {
    expect(read("other-extension", { toolCalls: [] })).toBeUndefined();
    expect(read("context-prune-flush-metrics", {})).toBeUndefined();
    expect(readMessage("text", { toolCallRefs: [REF] }, "other")).toBeUndefined();
  });

  test("a message of the conversation is not ours", () => {
    expect(
      readOwnEntry({ type: "message", ...BASE, message: { role: "user", content: "x", timestamp: 1 } }),
    ).toBeUndefined();
  });

  test("the type of ours as a message of the conversation counts for summaries alone", () => {
    expect(readMessage("text", { toolCallRefs: [REF] }, CUSTOM_TYPE_INDEX)).toBeUndefined();
  });
});

describe.each(TYPES)("%s", (customType, data, required) => {
  test("gives its data", () => {
    const own = read(customType, data);
    expect(own).toMatchObject({ data });
    expect(own?.kind).not.toBe("invalid");
  });

  test.each(required)("is invalid without %s", (field) => {
    expect(read(customType, without(data, field))).toEqual({ kind: "invalid", customType });
  });

  test.each(required)("is invalid where %s has another type", (field) => {
    expect(read(customType, { ...data, [field]: { not: "it" } })).toEqual({ kind: "invalid", customType });
  });

  test.each([[undefined], [null], [42], ["text"], [[]], [true]])("is invalid as %p", (wrong) => {
    expect(read(customType, wrong)).toEqual({ kind: "invalid", customType });
  });

  test("keys that a later release may add do no harm", () => {
    expect(read(customType, { ...data, later: 1 })?.kind).not.toBe("invalid");
  });
});

describe(CUSTOM_TYPE_SUMMARY, () => {
  test("a part with a ref of another form makes the entry invalid", () => {
    const parts = [{ shortId: "x1", occurrenceKey: "c1@11", text: "part" }];
    expect(read(CUSTOM_TYPE_SUMMARY, { ...SUMMARY, parts })?.kind).toBe("invalid");
  });
});

describe(CUSTOM_TYPE_FRONTIER, () => {
  test("may name no result, where the first batch of all failed", () => {
    const own = read(CUSTOM_TYPE_FRONTIER, { ...FRONTIER, lastAttemptedToolCallId: null });
    expect(own?.kind).toBe("frontier");
  });

  test.each(["summarized", "skipped-oversized", "skipped-deduped", "skipped-trivial"])("knows %s", (outcome) => {
    expect(read(CUSTOM_TYPE_FRONTIER, { ...FRONTIER, outcome })?.kind).toBe("frontier");
  });

  test("no other outcome is valid", () => {
    expect(read(CUSTOM_TYPE_FRONTIER, { ...FRONTIER, outcome: "flushed" })?.kind).toBe("invalid");
  });

  test.each([
    ["negative counts", { rawCharCount: -1 }],
    ["broken counts", { attemptedBatchCount: 1.5 }],
    ["a time that is text", { lastAttemptedResultTimestamp: "11" }],
    ["skipped keys that are no texts", { skippedOccurrenceKeys: [1] }],
    ["skipped keys that are no list", { skippedOccurrenceKeys: "c1@11" }],
    ["purged keys that are no texts", { purgedOccurrenceKeys: [1] }],
    ["a pointer without a text", { pointers: [{ toolCallId: "c1", occurrenceKey: "c1@11" }] }],
  ])("%s make the entry invalid", (_what, change) => {
    expect(read(CUSTOM_TYPE_FRONTIER, { ...FRONTIER, ...change })?.kind).toBe("invalid");
  });

  test("one that an earlier release wrote is valid", () => {
    const legacy = { lastAttemptedToolName: "read", lastAttemptedTurnIndex: 0, lastAttemptedTimestamp: 10 };
    expect(read(CUSTOM_TYPE_FRONTIER, { ...FRONTIER, ...legacy })?.kind).toBe("frontier");
  });
});

describe(CUSTOM_TYPE_DEDUP_ALIAS, () => {
  test("may be one that takes effect at once, but not otherwise", () => {
    expect(read(CUSTOM_TYPE_DEDUP_ALIAS, { ...ALIAS, eager: true })).toMatchObject({ data: { eager: true } });
    expect(read(CUSTOM_TYPE_DEDUP_ALIAS, { ...ALIAS, eager: "yes" })?.kind).toBe("invalid");
  });
});

describe(CUSTOM_TYPE_CHAIN, () => {
  test("may be one that was interrupted, and one that was put back", () => {
    const states = { interrupted: true, active: false };
    expect(read(CUSTOM_TYPE_CHAIN, { ...CHAIN, ...states })).toMatchObject({ kind: "chain", data: states });
  });

  test("keeps what was protected when it was compressed, by id and by occurrence", () => {
    const protection = { protectedToolCallIds: ["c2"], protectedOccurrenceKeys: ["c2@5"] };
    expect(read(CUSTOM_TYPE_CHAIN, { ...CHAIN, ...protection })).toMatchObject({ kind: "chain", data: protection });
  });

  test.each([
    ["a block id that is a call's ref", { blockId: "t7" }],
    ["a block id without a number", { blockId: "b" }],
    ["protected ids that are no texts", { protectedToolCallIds: [1] }],
    ["dropped keys that are no list", { droppedOccurrenceKeys: "c1@2" }],
    ["a ref of another form", { toolRefs: ["x1"] }],
    ["a body of an unknown source", { bodySource: "dreamt" }],
    ["a state that is no yes or no", { active: "no" }],
  ])("%s makes the entry invalid", (_what, change) => {
    expect(read(CUSTOM_TYPE_CHAIN, { ...CHAIN, ...change })?.kind).toBe("invalid");
  });
});

describe(CUSTOM_TYPE_STATS, () => {
  test("those of an earlier release have no failed calls", () => {
    const legacy = { ...without(STATS, "failedCallCount"), chainsCompressed: 0, rangesSummarized: 0 };
    expect(read(CUSTOM_TYPE_STATS, legacy)).toMatchObject({
      kind: "stats",
      data: { callCount: 3, failedCallCount: 0 },
    });
  });

  test.each(["totalInputTokens", "totalOutputTokens", "totalCost", "callCount"])(
    "a negative %s is invalid",
    (field) => {
      expect(read(CUSTOM_TYPE_STATS, { ...STATS, [field]: -1 })?.kind).toBe("invalid");
    },
  );
});

describe(CUSTOM_TYPE_INDEX, () => {
  test("gives records and refs", () => {
    expect(read(CUSTOM_TYPE_INDEX, { toolCalls: [RECORD], refs: [REF] })).toEqual({
      kind: "index",
      data: { toolCalls: [RECORD], refs: [REF] },
      rejected: 0,
    });
  });

  test.each(Object.keys(RECORD))("a record without %s is left out, the others stay", (field) => {
    const own = read(CUSTOM_TYPE_INDEX, { toolCalls: [without(RECORD, field), RECORD], refs: [] });
    expect(own).toEqual({ kind: "index", data: { toolCalls: [RECORD], refs: [] }, rejected: 1 });
  });

  test.each([
    ["arguments that are a list", { args: ["a"] }],
    ["arguments that are nothing", { args: null }],
    ["a text that is a number", { resultText: 5 }],
    ["an error flag that is a text", { isError: "false" }],
    ["a time that is a text", { resultTimestamp: "11" }],
    ["a negative number of images", { resultImages: -1 }],
    ["an outcome that is a number", { outcome: 1 }],
    ["a hash that is a number", { contentHash: 1 }],
  ])("a record with %s is left out", (_what, change) => {
    expect(read(CUSTOM_TYPE_INDEX, { toolCalls: [{ ...RECORD, ...change }], refs: [] })).toMatchObject({
      data: { toolCalls: [] },
      rejected: 1,
    });
  });

  test.each([[null], ["text"], [7], [[]]])("%p is no record", (wrong) => {
    expect(read(CUSTOM_TYPE_INDEX, { toolCalls: [wrong, RECORD], refs: [] })).toMatchObject({
      data: { toolCalls: [RECORD] },
      rejected: 1,
    });
  });

  test.each([
    ["of another form", { shortId: "x1" }],
    ["without a number", { shortId: "t" }],
    ["with a line break behind it", { shortId: "t1\n" }],
    ["with a number beyond all counting", { shortId: `t${"9".repeat(400)}` }],
    ["without an id", { toolCallId: undefined }],
  ])("a ref %s is left out, the others stay", (_what, change) => {
    const own = read(CUSTOM_TYPE_INDEX, { toolCalls: [RECORD], refs: [{ ...REF, ...change }, REF] });
    expect(own).toMatchObject({ data: { toolCalls: [RECORD], refs: [REF] } });
  });

  test("refs that are no list leave the records", () => {
    expect(read(CUSTOM_TYPE_INDEX, { toolCalls: [RECORD], refs: { t1: "c1" } })).toMatchObject({
      data: { toolCalls: [RECORD], refs: [] },
    });
  });

  test.each([
    ["nothing", undefined],
    ["null", null],
    ["a text", "text"],
    ["a list", []],
    ["an object without records", {}],
    ["an object whose records are a text", { toolCalls: "c1" }],
    ["an object whose records are no list", { toolCalls: { 0: RECORD } }],
  ])("%s is invalid", (_what, wrong) => {
    expect(read(CUSTOM_TYPE_INDEX, wrong)).toEqual({ kind: "invalid", customType: CUSTOM_TYPE_INDEX });
  });

  describe("with records whose rest stands in messages", () => {
    const HELD = { contentHash: "h", outcome: "12 lines" };

    test("is read as it stands", () => {
      const data = { toolCalls: [HELD, RECORD], refs: [REF, REF] };
      expect(read(CUSTOM_TYPE_INDEX, data)).toEqual({ kind: "index", data, rejected: 0 });
    });

    test("gives those whose refs name them, each with its own, and the others behind them", () => {
      const last = { ...REF, shortId: "t9" };
      const given = {
        toolCalls: [RECORD, HELD, { ...HELD, outcome: 1 }, HELD],
        refs: [REF, { not: "one" }, REF, last],
      };
      const data = { toolCalls: [HELD, RECORD], refs: [last, REF, REF] };
      expect(read(CUSTOM_TYPE_INDEX, given)).toEqual({ kind: "index", data, rejected: 2 });
    });

    test("gives none where it cannot be told which ref is whose", () => {
      const given = { toolCalls: [HELD, RECORD], refs: [REF] };
      expect(read(CUSTOM_TYPE_INDEX, given)).toMatchObject({ data: { toolCalls: [RECORD] }, rejected: 1 });
    });

    test.each(["toolCallId", "resultText", "args"])("a record that has lost its %s is not one of them", (field) => {
      const broken = without({ ...RECORD, contentHash: "h" }, field);
      expect(read(CUSTOM_TYPE_INDEX, { toolCalls: [broken], refs: [REF] })).toMatchObject({ rejected: 1 });
    });
  });

  test("keys that mean something to JavaScript are arguments like any other, and change nothing else", () => {
    const args: unknown = JSON.parse('{"__proto__": {"isError": true}, "constructor": "x", "toString": 1}');
    const own = read(CUSTOM_TYPE_INDEX, JSON.parse(JSON.stringify({ toolCalls: [{ ...RECORD, args }], refs: [] })));
    const [record] = own?.kind === "index" ? own.data.toolCalls.filter((one) => "toolName" in one) : [];
    expect(Object.keys(record?.args ?? {})).toEqual(["__proto__", "constructor", "toString"]);
    expect(record?.isError).toBe(false);
    expect({}).not.toHaveProperty("isError");
  });

  test("only a true backfilled is one", () => {
    const data = { toolCalls: [], refs: [] };
    expect(read(CUSTOM_TYPE_INDEX, { ...data, backfilled: true })).toMatchObject({ data: { backfilled: true } });
    expect(read(CUSTOM_TYPE_INDEX, { ...data, backfilled: "yes" })).toEqual({ kind: "index", data, rejected: 0 });
  });
});

describe("summary message of an earlier release", () => {
  test("gives its text, its refs and its time", () => {
    const refs = [{ ...REF, resultTimestamp: 11 }];
    expect(readMessage("text", { toolCallRefs: refs, toolNames: ["read"] })).toEqual({
      kind: "legacy-summary",
      text: "text",
      refs,
      timestamp: Date.parse(BASE.timestamp),
    });
  });

  test.each([
    ["content that is no text", 7, { toolCallRefs: [REF] }],
    ["no details", "text", undefined],
    ["details that are a text", "text", "t1"],
    ["no refs", "text", {}],
    ["refs that are no list", "text", { toolCallRefs: REF }],
    ["no valid ref", "text", { toolCallRefs: [{ shortId: "t1" }, null] }],
  ])("with %s is invalid", (_what, content, details) => {
    expect(readMessage(content, details)).toEqual({ kind: "invalid", customType: CUSTOM_TYPE_SUMMARY });
  });

  test("loses only its bad refs", () => {
    expect(readMessage("text", { toolCallRefs: [{ shortId: "?" }, REF] })).toMatchObject({ refs: [REF] });
  });
});

describe("what the person says of a result", () => {
  const read = (data: unknown) =>
    readOwnEntry({ type: "custom", customType: "context-prune-choice", data, id: "e", parentId: null, timestamp: "" });
  const good = { occurrenceKey: "c1@5", shortId: "t3", choice: "keep" };

  test("is read back, and any other shape is left out", () => {
    for (const choice of ["keep", "drop", null]) expect(read({ ...good, choice })?.kind).toBe("choice");
    for (const bad of [{ choice: "hide" }, { shortId: "x" }, { shortId: "t99999999" }, { occurrenceKey: 5 }]) {
      expect(read({ ...good, ...bad })?.kind).toBe("invalid");
    }
    expect(read(undefined)?.kind).toBe("invalid");
  });
});
