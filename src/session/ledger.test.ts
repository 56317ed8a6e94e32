import { describe, expect, test } from "bun:test";
import type { ChainCompressionEntry, FrontierEntryData, SummaryEntryData, ToolCallRecord } from "../types.js";
import type { OwnEntry } from "./entries.js";
import { BranchLedger, type DuplicateCall, type IndexedCall } from "./ledger.js";

function record(toolCallId: string, contentHash?: string): ToolCallRecord {
  const base = { toolCallId, toolName: "read", args: {}, resultText: "text", isError: false, turnIndex: 0 };
  return { ...base, timestamp: 1, resultTimestamp: 2, contentHash };
}

function indexed(toolCallId: string, contentHash?: string): IndexedCall {
  return { occurrenceKey: `${toolCallId}@2`, shortId: "t1", record: record(toolCallId, contentHash) };
}

function index(...ids: string[]): OwnEntry {
  return { kind: "index", data: { toolCalls: ids.map((id) => record(id)), refs: [] }, rejected: 0 };
}

function alias(newToolCallId: string, originalToolCallId: string): OwnEntry {
  const times = { newResultTimestamp: 2, originalResultTimestamp: 2 };
  return { kind: "alias", data: { newToolCallId, originalToolCallId, ...times } };
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

/** A ledger that knows these calls and repeats, with `entries` folded in. */
function ledgerOf(entries: readonly OwnEntry[], calls: readonly IndexedCall[], duplicates: DuplicateCall[] = []) {
  const ledger = new BranchLedger({
    callOf: (key) => calls.find((call) => call.occurrenceKey === key),
    duplicateOf: (key) => duplicates.find((duplicate) => duplicate.occurrenceKey === key),
  });
  const changed = entries.map((entry) => ledger.fold(entry));
  return { ledger, changed };
}

describe("before a frontier", () => {
  const entries = [summary([["t1", "c1@2", "part"]], ["c1@2"]), index("c1"), legacySummary("text", "c1")];

  test("nothing takes effect", () => {
    const { ledger, changed } = ledgerOf(entries, [indexed("c1", "hash")]);
    expect(changed).toEqual([false, false, false]);
    expect(ledger.calls.size + ledger.summaries.size + ledger.legacySummaries.length).toBe(0);
    expect(ledger.findByHash("hash")).toBeUndefined();
  });

  test("what has been written is known, so that it is not taken up again", () => {
    const { ledger } = ledgerOf(entries, [indexed("c1")]);
    expect(ledger.has("c1@2")).toBe(true);
    expect(ledger.has("c1")).toBe(false);
    expect(ledger.hasUncommitted()).toBe(true);
  });
});

describe("a frontier", () => {
  test("commits all that stands before it", () => {
    const call = indexed("c1", "hash");
    const { ledger, changed } = ledgerOf(
      [summary([["t1", "c1@2", "part"]], ["c1@2"]), index("c1"), frontier()],
      [call],
    );
    expect(changed.at(-1)).toBe(true);
    expect(ledger.hasUncommitted()).toBe(false);
    expect([...ledger.calls]).toEqual([["c1@2", call]]);
    expect([...ledger.summaries]).toEqual([["c1@2", { text: "part" }]]);
    expect(ledger.findByHash("hash")).toBe(call);
  });

  test("commits no entry behind it", () => {
    const { ledger } = ledgerOf([index("c1"), frontier(), index("c2")], [indexed("c1"), indexed("c2")]);
    expect([...ledger.calls.keys()]).toEqual(["c1@2"]);
    expect(ledger.hasUncommitted()).toBe(true);
  });

  test("replaces the one before it, and what was skipped stays skipped", () => {
    const second = frontier({ lastAttemptedToolCallId: "c2" });
    const { ledger } = ledgerOf([frontier({ skippedOccurrenceKeys: ["c7@9"] }), second], []);
    expect(ledger.frontier?.lastAttemptedToolCallId).toBe("c2");
    expect(ledger.skipped.has("c7@9")).toBe(true);
  });

  test("says what has had its time, for good", () => {
    const pointer = { toolCallId: "c1", occurrenceKey: "c1@2", text: "[was shown here]" };
    const { ledger } = ledgerOf([frontier({ purgedOccurrenceKeys: ["c3@2"], pointers: [pointer] }), frontier()], []);
    expect([...ledger.purged]).toEqual(["c3@2"]);
    expect([...ledger.pointers]).toEqual([["c1@2", pointer]]);
  });

  test("a record that the file does not hold is passed over", () => {
    const { ledger } = ledgerOf([index("lost"), alias("c2", "lost"), frontier()], []);
    expect(ledger.calls.size + ledger.duplicates.size).toBe(0);
    expect(ledger.has("lost@2") || ledger.has("c2@2")).toBe(false);
  });

  test("commits repeats", () => {
    const duplicate = { occurrenceKey: "c2@2", toolCallId: "c2", shortId: "t2", original: indexed("c1"), eager: false };
    const { ledger } = ledgerOf([alias("c2", "c1"), frontier()], [], [duplicate]);
    expect([...ledger.duplicates]).toEqual([["c2@2", duplicate]]);
    expect(ledger.has("c2@2")).toBe(true);
  });
});

describe("what must not wait, since it is too big to be sent", () => {
  const spilled = indexed("c1", "hash");
  spilled.record.spillPath = "/blobs/c1.txt";

  test("a spilled result takes effect at once, and is an original for repeats", () => {
    const entry: OwnEntry = {
      kind: "index",
      data: { toolCalls: [spilled.record, record("c2")], refs: [] },
      rejected: 0,
    };
    const { ledger, changed } = ledgerOf([entry], [spilled, indexed("c2")]);
    expect(changed).toEqual([true]);
    expect([...ledger.calls.keys()]).toEqual(["c1@2"]);
    expect(ledger.findByHash("hash")).toBe(spilled);
  });

  test("so does a repeat that is as big", () => {
    const duplicate = { occurrenceKey: "c2@2", toolCallId: "c2", shortId: "t2", original: spilled, eager: true };
    const data = { newToolCallId: "c2", newResultTimestamp: 2, originalToolCallId: "c1", eager: true as const };
    const { ledger, changed } = ledgerOf([{ kind: "alias", data }], [], [duplicate]);
    expect(changed).toEqual([true]);
    expect(ledger.duplicates.get("c2@2")).toBe(duplicate);
    expect(ledger.hasUncommitted()).toBe(false);
  });
});

describe("equal contents", () => {
  test("are found at the first call that has them", () => {
    const [first, second] = [indexed("c1", "hash"), indexed("c2", "hash")];
    const { ledger } = ledgerOf([index("c1"), frontier(), index("c2"), frontier()], [first, second]);
    expect(ledger.findByHash("hash")).toBe(first);
  });

  test("a record without a hash is like no other", () => {
    const { ledger } = ledgerOf([index("c1"), frontier()], [indexed("c1")]);
    expect(ledger.findByHash("")).toBeUndefined();
  });
});

describe("a summary", () => {
  test("that could not be split stands with its carrier, and the others point to it", () => {
    const { ledger } = ledgerOf([summary([["t2", "c2@2", "all"]], ["c1@2", "c2@2", "c3@2"]), frontier()], []);
    expect([...ledger.summaries]).toEqual([
      ["c1@2", { text: "", carriedBy: "t2" }],
      ["c2@2", { text: "all" }],
      ["c3@2", { text: "", carriedBy: "t2" }],
    ]);
  });

  test("written anew replaces the one of a flush that was cut short", () => {
    const lost = summary([["t1", "c1@2", "lost"]], ["c1@2"]);
    const kept = summary([["t2", "c1@2", "kept"]], ["c1@2"]);
    expect([...ledgerOf([lost, kept, frontier()], []).ledger.summaries]).toEqual([["c1@2", { text: "kept" }]]);
  });
});

describe("a summary message of an earlier release", () => {
  test("gives each call its part", () => {
    const text = "- `t1` first\n- `t2` second\n\n---\nfooter";
    const { ledger } = ledgerOf([legacySummary(text, "c1", "c2"), frontier()], []);
    expect([...ledger.summaries]).toEqual([
      ["c1@2", { text: "first" }],
      ["c2@2", { text: "second" }],
    ]);
    expect(ledger.legacySummaries).toEqual([{ text, occurrenceKeys: ["c1@2", "c2@2"] }]);
  });

  test("that cannot be split stands with the last call", () => {
    const { ledger } = ledgerOf([legacySummary("both", "c1", "c2"), frontier()], []);
    expect([...ledger.summaries]).toEqual([
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
    const { ledger, changed } = ledgerOf([index("c1"), chain()], [indexed("c1")]);
    expect(changed).toEqual([false, false]);
    expect(ledger.chains.size).toBe(0);
    ledger.fold(frontier());
    expect([...ledger.chains.keys()]).toEqual(["b1"]);
  });

  test("is put back at once by an entry of its own, and compressed again by the next", () => {
    const { ledger, changed } = ledgerOf([index("c1"), chain(), frontier(), chain({ active: false })], [indexed("c1")]);
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
  const { ledger, changed } = ledgerOf(entries, []);
  expect(changed).toEqual([false, false, false]);
  expect(ledger.hasUncommitted()).toBe(false);
});
