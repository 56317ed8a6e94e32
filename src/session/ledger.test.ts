import { describe, expect, test } from "bun:test";
import type { ChainCompressionEntry, FrontierEntryData, SummaryEntryData, ToolCallRecord } from "../types.ts";
import type { OwnEntry } from "./entries.ts";
import { callOfRecord, type IndexedCall } from "./index-calls.ts";
import { BranchLedger } from "./ledger.ts";

function record(toolCallId: string, change: Partial<ToolCallRecord> = {}): ToolCallRecord {
  const base = { toolCallId, toolName: "read", args: {}, resultText: "text", isError: false, turnIndex: 0 };
  return { ...base, timestamp: 1, resultTimestamp: 2, ...change };
}

/** The ref that a call has in its entry: `c1` has `t1`. */
function refOf(toolCallId: string): string {
  return `t${toolCallId.slice(1)}`;
}

function indexed(one: ToolCallRecord): IndexedCall {
  return callOfRecord(one, refOf(one.toolCallId));
}

/** An index entry, each record with its ref. */
function index(...toolCalls: ToolCallRecord[]): OwnEntry {
  const refs = toolCalls.map(({ toolCallId, resultTimestamp }) => ({
    shortId: refOf(toolCallId),
    toolCallId,
    resultTimestamp,
  }));
  return { kind: "index", data: { toolCalls, refs }, rejected: 0 };
}

function alias(newToolCallId: string, originalToolCallId: string, eager?: true): OwnEntry {
  const times = { newResultTimestamp: 2, originalResultTimestamp: 2 };
  return { kind: "alias", data: { newToolCallId, originalToolCallId, shortId: refOf(newToolCallId), ...times, eager } };
}

function frontier(change: Partial<FrontierEntryData> = {}): OwnEntry {
  const counts = { attemptedBatchCount: 1, attemptedToolCallCount: 1, rawCharCount: 0, summaryCharCount: 0 };
  return { kind: "frontier", data: { lastAttemptedToolCallId: "c1", ...counts, outcome: "summarized", ...change } };
}

function summary(parts: [string, string, string][], occurrenceKeys: string[]): OwnEntry {
  const data: SummaryEntryData = {
    text: "whole",
    parts: parts.map(([shortId, occurrenceKey, text]) => ({ shortId, occurrenceKey, text })),
    occurrenceKeys,
    model: "p/m",
  };
  return { kind: "summary", data };
}

function legacySummary(text: string, ...ids: string[]): OwnEntry {
  const refs = ids.map((toolCallId, i) => ({ shortId: `t${i + 1}`, toolCallId, resultTimestamp: 2 }));
  return { kind: "legacy-summary", text, refs, timestamp: 1 };
}

/** A ledger with `entries` folded in, in a file that holds nothing else but what is given. */
function ledgerOf(
  entries: readonly OwnEntry[],
  file: { originals?: readonly IndexedCall[]; refs?: Readonly<Record<string, string>> } = {},
) {
  const ledger = new BranchLedger({
    originalOf: (key) => file.originals?.find((call) => call.occurrenceKey === key),
    refOf: (key) => file.refs?.[key],
  });
  const changed = entries.map((entry) => ledger.fold(entry));
  return { ledger, changed };
}

const C1 = record("c1", { contentHash: "hash" });
const C2 = record("c2");

describe("before a frontier", () => {
  const entries = [summary([["t1", "c1@2", "part"]], ["c1@2"]), index(C1), legacySummary("text", "c1")];

  test("nothing takes effect", () => {
    const { ledger, changed } = ledgerOf(entries);
    expect(changed).toEqual([false, false, false]);
    expect(ledger.calls.size + ledger.summaries.size + ledger.legacySummaries.length).toBe(0);
    expect(ledger.findByHash("hash")).toBeUndefined();
  });

  test("what has been written is known, so that it is not taken up again", () => {
    const { ledger } = ledgerOf(entries);
    expect(ledger.has("c1@2")).toBe(true);
    expect(ledger.has("c1")).toBe(false);
    expect(ledger.hasUncommitted()).toBe(true);
  });
});

describe("a frontier", () => {
  test("commits all that stands before it", () => {
    const { ledger, changed } = ledgerOf([summary([["t1", "c1@2", "part"]], ["c1@2"]), index(C1), frontier()]);
    expect(changed.at(-1)).toBe(true);
    expect(ledger.hasUncommitted()).toBe(false);
    expect([...ledger.calls.values()]).toEqual([indexed(C1)]);
    expect([...ledger.summaries]).toMatchObject([["c1@2", { text: "part" }]]);
    expect(ledger.findByHash("hash")).toEqual(indexed(C1));
  });

  test("commits no entry behind it", () => {
    const { ledger } = ledgerOf([index(C1), frontier(), index(C2)]);
    expect([...ledger.calls.keys()]).toEqual(["c1@2"]);
    expect(ledger.hasUncommitted()).toBe(true);
  });

  test("replaces the one before it, and what was skipped stays skipped", () => {
    const second = frontier({ lastAttemptedToolCallId: "c2" });
    const { ledger } = ledgerOf([frontier({ skippedOccurrenceKeys: ["c7@9"] }), second]);
    expect(ledger.frontier?.lastAttemptedToolCallId).toBe("c2");
    expect(ledger.skipped.has("c7@9")).toBe(true);
  });

  test("says what has had its time, for good", () => {
    const pointer = { toolCallId: "c1", occurrenceKey: "c1@2", text: "[was shown here]" };
    const { ledger } = ledgerOf([frontier({ purgedOccurrenceKeys: ["c3@2"], pointers: [pointer] }), frontier()]);
    expect([...ledger.purged]).toEqual(["c3@2"]);
    expect([...ledger.pointers]).toEqual([["c1@2", pointer]]);
  });
});

describe("a record", () => {
  const bare: OwnEntry = { kind: "index", data: { toolCalls: [C1], refs: [] }, rejected: 0 };

  test("without a ref in its entry has the one that the file knows", () => {
    const { ledger } = ledgerOf([bare, frontier()], { refs: { "c1@2": "t7" } });
    expect(ledger.calls.get("c1@2")?.shortId).toBe("t7");
  });

  test("without any ref is passed over, and does not count as dealt with", () => {
    const { ledger } = ledgerOf([bare, frontier()]);
    expect(ledger.calls.size).toBe(0);
    expect(ledger.has("c1@2")).toBe(false);
  });

  test("written twice counts as it was written first", () => {
    const { ledger } = ledgerOf([index(C1), frontier(), index({ ...C1, outcome: "later" }), frontier()]);
    expect(ledger.calls.get("c1@2")?.record.outcome).toBeUndefined();
  });
});

describe("a repeat", () => {
  test("points to its original on the branch", () => {
    const { ledger } = ledgerOf([index(C1), alias("c2", "c1"), frontier()]);
    const expected = { occurrenceKey: "c2@2", toolCallId: "c2", shortId: "t2", original: indexed(C1), eager: false };
    expect([...ledger.duplicates]).toEqual([["c2@2", expected]]);
    expect(ledger.has("c2@2")).toBe(true);
  });

  test("of a repeat points to the original of that one", () => {
    const { ledger } = ledgerOf([index(C1), alias("c2", "c1"), alias("c3", "c2"), frontier()]);
    expect(ledger.duplicates.get("c3@2")?.original).toEqual(indexed(C1));
  });

  test("points to an original that only the file still holds", () => {
    const { ledger } = ledgerOf([alias("c2", "c1"), frontier()], { originals: [indexed(C1)] });
    expect(ledger.duplicates.get("c2@2")?.original).toEqual(indexed(C1));
  });

  test("of what nobody knows is passed over, and does not count as dealt with", () => {
    const { ledger } = ledgerOf([alias("c2", "lost"), frontier()]);
    expect(ledger.duplicates.size).toBe(0);
    expect(ledger.has("c2@2")).toBe(false);
  });
});

describe("what must not wait, since it is too big to be sent", () => {
  const spilled = record("c1", { contentHash: "hash", spillPath: "/blobs/c1.txt" });

  test("a spilled result takes effect at once, and is an original for repeats", () => {
    const { ledger, changed } = ledgerOf([index(spilled, C2)]);
    expect(changed).toEqual([true]);
    expect([...ledger.calls.keys()]).toEqual(["c1@2"]);
    expect(ledger.findByHash("hash")).toEqual(indexed(spilled));
  });

  test("so does a repeat that is as big", () => {
    const { ledger, changed } = ledgerOf([index(spilled), alias("c2", "c1", true)]);
    expect(changed).toEqual([true, true]);
    expect(ledger.duplicates.get("c2@2")?.eager).toBe(true);
    expect(ledger.hasUncommitted()).toBe(false);
  });
});

describe("equal contents", () => {
  test("are found at the first call that has them", () => {
    const second = record("c2", { contentHash: "hash" });
    const { ledger } = ledgerOf([index(C1), frontier(), index(second), frontier()]);
    expect(ledger.findByHash("hash")).toEqual(indexed(C1));
  });

  test("a record without a hash is like no other", () => {
    const { ledger } = ledgerOf([index(C2), frontier()]);
    expect(ledger.findByHash("")).toBeUndefined();
  });
});

describe("a summary", () => {
  test("that could not be split stands with its carrier, and the others point to it", () => {
    const { ledger } = ledgerOf([summary([["t2", "c2@2", "all"]], ["c1@2", "c2@2", "c3@2"]), frontier()]);
    expect([...ledger.summaries]).toMatchObject([
      ["c1@2", { text: "", carriedBy: "t2" }],
      ["c2@2", { text: "all" }],
      ["c3@2", { text: "", carriedBy: "t2" }],
    ]);
  });

  test("written anew replaces the one of a flush that was cut short", () => {
    const lost = summary([["t1", "c1@2", "lost"]], ["c1@2"]);
    const kept = summary([["t2", "c1@2", "kept"]], ["c1@2"]);
    expect([...ledgerOf([lost, kept, frontier()]).ledger.summaries]).toMatchObject([["c1@2", { text: "kept" }]]);
  });
});

describe("a summary message of an earlier release", () => {
  test("gives each call its part", () => {
    const text = "- `t1` first\n- `t2` second\n\n---\nfooter";
    const { ledger } = ledgerOf([legacySummary(text, "c1", "c2"), frontier()]);
    expect([...ledger.summaries]).toMatchObject([
      ["c1@2", { text: "first" }],
      ["c2@2", { text: "second" }],
    ]);
    expect(ledger.legacySummaries).toEqual([{ text, occurrenceKeys: ["c1@2", "c2@2"] }]);
  });

  test("that cannot be split stands with the last call", () => {
    const { ledger } = ledgerOf([legacySummary("both", "c1", "c2"), frontier()]);
    expect([...ledger.summaries]).toMatchObject([
      ["c1@2", { text: "", carriedBy: "t2" }],
      ["c2@2", { text: "both" }],
    ]);
  });
});

describe("a compressed chain", () => {
  function chain(change: Partial<ChainCompressionEntry> = {}): OwnEntry {
    const range = { startUserTimestamp: 1, finalAssistantTimestamp: 9, droppedToolCallIds: ["c1"], toolRefs: ["t1"] };
    return { kind: "chain", data: { blockId: "b1", ...range, compressedAt: 10, ...change } };
  }

  test("waits for the frontier of the flush that compresses it", () => {
    const { ledger, changed } = ledgerOf([index(C1), chain()]);
    expect(changed).toEqual([false, false]);
    expect(ledger.chains.size).toBe(0);
    ledger.fold(frontier());
    expect([...ledger.chains.keys()]).toEqual(["b1"]);
  });

  test("is put back at once by an entry of its own, and compressed again by the next", () => {
    const { ledger, changed } = ledgerOf([index(C1), chain(), frontier(), chain({ active: false })]);
    expect(changed.at(-1)).toBe(true);
    expect(ledger.chains.get("b1")?.active).toBe(false);
    ledger.fold(chain({ active: true }));
    expect(ledger.chains.get("b1")?.active).toBe(true);
  });
});

test("stats, diagnostics and invalid entries change nothing", () => {
  const entries: OwnEntry[] = [
    { kind: "invalid", customType: "context-prune-index" },
    { kind: "diagnostic", data: { kind: "error", detail: "x" } },
    {
      kind: "stats",
      data: { totalInputTokens: 1, totalOutputTokens: 1, totalCost: 1, callCount: 1, failedCallCount: 0 },
    },
  ];
  const { ledger, changed } = ledgerOf(entries);
  expect(changed).toEqual([false, false, false]);
  expect(ledger.hasUncommitted()).toBe(false);
});
