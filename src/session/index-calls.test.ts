import { describe, expect, test } from "bun:test";
import type { IndexEntryData, SummaryToolCallRef, ToolCallRecord } from "../types.ts";
import { callsOf } from "./index-calls.ts";

function record(toolCallId: string, resultTimestamp?: number): ToolCallRecord {
  const base = { toolName: "read", args: {}, resultText: "text", isError: false, turnIndex: 0, timestamp: 1 };
  return { toolCallId, ...base, ...(resultTimestamp === undefined ? {} : { resultTimestamp }) };
}

function ref(shortId: string, toolCallId: string, resultTimestamp?: number): SummaryToolCallRef {
  return { shortId, toolCallId, ...(resultTimestamp === undefined ? {} : { resultTimestamp }) };
}

/** Keys and refs of the calls, and of the names. */
function read(data: IndexEntryData) {
  const { calls, names } = callsOf({ data });
  const brief = ({ occurrenceKey, shortId }: { occurrenceKey: string; shortId: string }) => [occurrenceKey, shortId];
  return { calls: calls.map(brief), names: names.map(brief) };
}

describe("callsOf", () => {
  test("gives each record the ref at its place", () => {
    const both = [
      ["a@1", "t1"],
      ["b", "t2"],
    ];
    const data = { toolCalls: [record("a", 1), record("b")], refs: [ref("t1", "a", 1), ref("t2", "b")] };
    expect(read(data)).toEqual({ calls: both, names: both });
  });

  test("finds the ref that stands elsewhere, and keeps those of records that are not there", () => {
    const data = { toolCalls: [record("a", 1), record("b", 2)], refs: [ref("t2", "b", 2), ref("t3", "gone", 3)] };
    expect(read(data)).toEqual({
      calls: [
        ["a@1", ""],
        ["b@2", "t2"],
      ],
      names: [
        ["b@2", "t2"],
        ["gone@3", "t3"],
      ],
    });
  });

  test("of two refs for one occurrence the last holds, whatever the order of the records", () => {
    const twice = { toolCalls: [record("a", 1), record("a", 1)], refs: [ref("t1", "a", 1), ref("t2", "a", 1)] };
    expect(read(twice).calls).toEqual([
      ["a@1", "t2"],
      ["a@1", "t2"],
    ]);
  });

  test("an id that looks like a key is the key", () => {
    const data = { toolCalls: [record("a@1")], refs: [ref("t1", "a", 1)] };
    expect(read(data).calls).toEqual([["a@1", "t1"]]);
  });

  test("is worked out once for an entry", () => {
    const own = { data: { toolCalls: [record("a", 1)], refs: [] } };
    expect(callsOf(own)).toBe(callsOf(own));
  });
});
