import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { PROPERTY_RUNS } from "../test/support/property-runs.ts";
import { EntryTree } from "../test/support/simulated-session.ts";
import { captureUnindexedBatchesFromSession } from "./batch-capture.ts";
import { contentHash } from "./capture/duplicates.ts";
import { DEFAULT_CONFIG } from "./config.ts";
import { commitFlush, prepareFlush } from "./flush.ts";
import { type AppendEntry, type BatchMember, type IndexableBatch, ToolCallIndexer } from "./indexer.ts";
import { buildRenderPlan, type PlanOptions } from "./render/plan.ts";
import { messagesInContext } from "./session/branch.ts";
import type { BatchSummary } from "./summarizer.ts";
import {
  type CapturedToolCall,
  CUSTOM_TYPE_CHAIN,
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_FRONTIER,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_SUMMARY,
  type FrontierEntryData,
} from "./types.ts";

const PLAN_OPTIONS: PlanOptions = {
  ...DEFAULT_CONFIG,
  locateBlob: () => undefined,
  findOriginal: () => undefined,
  stripFinalAssistantThinking: true,
};

function captured(toolCallId: string, resultTimestamp: number, text = `output of ${toolCallId}`): CapturedToolCall {
  return {
    occurrenceKey: `${toolCallId}@${resultTimestamp}`,
    toolCallId,
    toolName: "read",
    args: { path: "a.ts" },
    content: [{ type: "text", text }],
    resultText: text,
    resultImages: 0,
    isError: false,
    resultTimestamp,
  };
}

/** A reply that makes the call. */
function callMessage(id: string, args: ToolCall["arguments"]): AgentMessage {
  const zero = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const usage = { ...zero, totalTokens: 0, cost: { ...zero, total: 0 } };
  const content = [{ type: "toolCall" as const, id, name: "read", arguments: args }];
  const source = { api: "a", provider: "p", model: "m", usage, stopReason: "toolUse" as const, timestamp: 1 };
  return { role: "assistant", content, ...source };
}

function member(toolCallId: string, resultTimestamp: number, text?: string): BatchMember {
  const call = captured(toolCallId, resultTimestamp, text);
  return { call, outcome: "ok", contentHash: contentHash(call) };
}

function batchOf(...members: BatchMember[]): IndexableBatch {
  const texts = members.map((_, i) => `summary ${i}`);
  const summary = { content: { kind: "split" as const, whole: texts.join("\n"), texts }, model: "none" };
  return { turnIndex: 0, timestamp: 1, members, summary };
}

const COUNTS = { attemptedBatchCount: 1, attemptedToolCallCount: 1, rawCharCount: 0, summaryCharCount: 0 };

function frontier(change: Partial<FrontierEntryData> = {}): FrontierEntryData {
  return { lastAttemptedToolCallId: "c1", ...COUNTS, outcome: "summarized", ...change };
}

/** A record as releases before occurrence keys wrote it. */
function legacyRecord(toolCallId: string, resultText = "old output") {
  return { toolCallId, toolName: "read", args: {}, resultText, isError: false, turnIndex: 0, timestamp: 1 };
}

function addBatch(indexer: ToolCallIndexer, batch: IndexableBatch, append: AppendEntry): string[] {
  return indexer.addBatches([batch], append)[0] ?? [];
}

/** A session file with an index that follows it live, entry by entry. */
class LiveIndex {
  readonly indexer = new ToolCallIndexer({ all: () => this.tree.getEntries(), branch: () => this.tree.branch() });

  constructor(readonly tree = new EntryTree()) {
    this.indexer.reconstructFromSession(tree.getEntries(), tree.branch());
  }

  /** Appends an entry and folds it, as the host does for what the extension appends. */
  readonly append = (customType: string, data: unknown): void => {
    const entry = this.tree.getEntry(this.tree.appendCustom(customType, data));
    if (entry) this.indexer.fold(entry);
  };

  add(...members: BatchMember[]): string[] {
    return this.indexer.addBatches([batchOf(...members)], this.append)[0] ?? [];
  }

  repeat(of: BatchMember, toolCallId: string, resultTimestamp: number): string | undefined {
    const call = captured(toolCallId, resultTimestamp);
    return this.indexer.registerDuplicate({ call, contentHash: of.contentHash }, of.call, this.append);
  }

  frontier(change: Partial<FrontierEntryData> = {}): void {
    this.append(CUSTOM_TYPE_FRONTIER, frontier(change));
  }

  moveTo(id: string | null): void {
    this.tree.moveTo(id);
    this.indexer.resetBranch(this.tree.branch());
  }

  /** What a second process makes of the file. */
  reload(): LiveIndex {
    return new LiveIndex(this.tree.reload());
  }
}

/** Everything that the index answers, in a form that can be compared. */
function stateOf(indexer: ToolCallIndexer, keys: readonly string[]) {
  const { summaries, legacySummaries } = indexer.committed();
  const known = indexer.refs().sort();
  const { replacements } = buildRenderPlan(indexer.committed(), PLAN_OPTIONS);
  return {
    plan: keys.map((key) => replacements.get(key)),
    summaries: [...summaries].sort(),
    legacySummaries,
    refs: known.map((ref) => [ref, indexer.resolve(ref)]),
    frontier: indexer.frontier(),
    uncommitted: indexer.hasUncommitted(),
    calls: keys.map((key) => ({
      key,
      summarized: indexer.isSummarized(key),
      skipped: indexer.isSkipped(key),
      ref: indexer.refOf(key),
      record: indexer.getRecord(key),
    })),
  };
}

describe("names that a damaged or forged file holds", () => {
  test("the highest names of the schema do not use up those that follow", () => {
    const live = new LiveIndex();
    const { toolCalls, refs } = {
      toolCalls: [legacyRecord("old")],
      refs: [{ shortId: "t9999999", toolCallId: "old" }],
    };
    live.append(CUSTOM_TYPE_INDEX, { toolCalls, refs });
    const chain = { startUserTimestamp: 1, finalAssistantTimestamp: 2, droppedToolCallIds: [], toolRefs: [] };
    live.append(CUSTOM_TYPE_CHAIN, { ...chain, blockId: "b9999999", compressedAt: 0 });
    expect(live.add(member("c1", 1))).toEqual(["t1"]);
    live.frontier();
    expect(live.indexer.mintBlockId()).toBe("b1");
    const again = live.reload();
    expect(again.indexer.resolve("t1")).toEqual(["c1@1"]);
    expect(again.indexer.resolve("t9999999")).toEqual(["old"]);
    expect(again.indexer.takeInvalid()).toEqual([]);
  });

  test("thousands of records without refs are numbered in linear time", () => {
    const live = new LiveIndex();
    const toolCalls = Array.from({ length: 20_000 }, (_, i) => legacyRecord(`c${i}`, "x"));
    live.append(CUSTOM_TYPE_INDEX, { toolCalls, refs: [] });
    const start = performance.now();
    const { indexer } = live.reload();
    expect(performance.now() - start).toBeLessThan(2_000);
    expect(indexer.resolve("t20000")).toEqual(["c19999"]);
  });
});

describe("addBatches", () => {
  test("appends the summary, then the index", () => {
    const { indexer } = new LiveIndex();
    const appended: string[] = [];
    indexer.addBatches([batchOf(member("c1", 2))], (customType) => appended.push(customType));
    expect(appended).toEqual([CUSTOM_TYPE_SUMMARY, CUSTOM_TYPE_INDEX]);
  });

  test("the entries hold all that a later release needs, and no more", () => {
    const { indexer } = new LiveIndex();
    const appended: unknown[] = [];
    const [first, second] = [member("c1", 2), member("c2", 3)];
    const usage = { inputTokens: 5, outputTokens: 1, cost: 0.1 };
    const content = { kind: "split" as const, whole: "all", texts: ["one", "two"] };
    addBatch(
      indexer,
      { turnIndex: 4, timestamp: 1, members: [first, second], summary: { content, model: "p/m", usage } },
      (_type, data) => appended.push(data),
    );
    const recordOf = ({ call, contentHash: hash }: BatchMember) => ({
      toolCallId: call.toolCallId,
      toolName: "read",
      args: { path: "a.ts" },
      resultText: call.resultText,
      isError: false,
      turnIndex: 4,
      timestamp: 1,
      resultTimestamp: call.resultTimestamp,
      contentHash: hash,
    });
    expect(JSON.parse(JSON.stringify(appended))).toEqual([
      {
        text: "",
        parts: [
          { shortId: "t1", occurrenceKey: "c1@2", text: "one" },
          { shortId: "t2", occurrenceKey: "c2@3", text: "two" },
        ],
        occurrenceKeys: ["c1@2", "c2@3"],
        model: "p/m",
        usage,
      },
      {
        toolCalls: [recordOf(first), recordOf(second)],
        refs: [
          { shortId: "t1", toolCallId: "c1", resultTimestamp: 2 },
          { shortId: "t2", toolCallId: "c2", resultTimestamp: 3 },
        ],
      },
    ]);
  });

  test("a summary that could not be split is one part, with the call that carries it", () => {
    const { indexer } = new LiveIndex();
    const appended: unknown[] = [];
    const content = { kind: "whole" as const, whole: "all", carrier: 1 };
    addBatch(
      indexer,
      { ...batchOf(member("c1", 2), member("c2", 3), member("c3", 4)), summary: { content, model: "p/m" } },
      (_type, data) => appended.push(data),
    );
    expect(appended[0]).toMatchObject({
      parts: [{ shortId: "t2", occurrenceKey: "c2@3", text: "all" }],
      occurrenceKeys: ["c1@2", "c2@3", "c3@4"],
    });
  });

  test("a text that has been written to a blob, or stands in a message of the branch, is not stored again", () => {
    const { indexer, tree } = new LiveIndex();
    const held = member("c2", 3);
    const { call } = held;
    const source = { toolCallId: "c2", toolName: "read", isError: false, timestamp: 3 };
    tree.appendMessage(callMessage("c2", { path: "a.ts" }));
    tree.appendMessage({ role: "toolResult", ...source, content: [{ type: "text", text: call.resultText }] });
    indexer.reconstructFromSession(tree.getEntries(), tree.branch());
    const spill = { spillPath: "/blobs/c1.txt", spillBytes: 9, spillLines: 1, resultPreview: "out" };
    const members: BatchMember[] = [{ ...member("c1", 2), spill }, member("c2", 3), member("c4", 5)];
    const appended: unknown[] = [];
    addBatch(indexer, { turnIndex: 0, timestamp: 1, members, backfilled: true }, (_type, data) => appended.push(data));
    expect(appended).toMatchObject([
      {
        toolCalls: [
          { resultText: "", resultChars: "output of c1".length, ...spill },
          { contentHash: held.contentHash },
          { resultText: "output of c4" },
        ],
        refs: [{ shortId: "t1" }, { shortId: "t2", toolCallId: "c2", resultTimestamp: 3 }, { shortId: "t3" }],
        backfilled: true,
      },
    ]);
    expect(JSON.stringify(appended).match(/output of/g)).toHaveLength(1);
  });

  test("a record is whole where the call stands with other arguments in the branch, or not at all", () => {
    for (const args of [{ path: "b.ts" }, undefined]) {
      const { indexer, tree } = new LiveIndex();
      const { call } = member("c2", 3);
      if (args) tree.appendMessage(callMessage("c2", args));
      const source = { toolCallId: "c2", toolName: "read", isError: false, timestamp: 3 };
      tree.appendMessage({ role: "toolResult", ...source, content: [{ type: "text", text: call.resultText }] });
      const appended: unknown[] = [];
      addBatch(indexer, { turnIndex: 0, timestamp: 1, members: [member("c2", 3)] }, (_type, data) =>
        appended.push(data),
      );
      expect(appended).toMatchObject([{ toolCalls: [{ args: { path: "a.ts" }, resultText: "output of c2" }] }]);
    }
  });

  test("counts images, and only where there are some", () => {
    const { indexer } = new LiveIndex();
    const appended: unknown[] = [];
    const withImages = member("c1", 2);
    withImages.call.resultImages = 1;
    indexer.addBatches([batchOf(withImages, member("c2", 3))], (_type, data) => appended.push(data));
    const [, index] = appended;
    expect(index).toMatchObject({ toolCalls: [{ resultImages: 1 }, {}] });
    expect(JSON.stringify(index).match(/resultImages/g)).toHaveLength(1);
  });
});

describe("reconstructFromSession", () => {
  test("starts over: nothing of another session is left", () => {
    const live = new LiveIndex();
    const first = member("c1", 2);
    live.add(first);
    live.repeat(first, "c2", 3);
    live.frontier();
    live.append(CUSTOM_TYPE_FRONTIER, "broken");
    live.indexer.mintBlockId();
    live.indexer.reconstructFromSession([], []);
    expect(stateOf(live.indexer, ["c1@2", "c2@3"])).toEqual(stateOf(new LiveIndex().indexer, ["c1@2", "c2@3"]));
    expect(live.indexer.resolve("c1")).toEqual([]);
    expect(live.indexer.takeInvalid()).toEqual([]);
    expect(live.indexer.addBatches([batchOf(member("c9", 9))], () => {})).toEqual([["t1"]]);
    expect(live.indexer.mintBlockId()).toBe("b1");
  });
});

describe("fold", () => {
  test("passes over what others have written", () => {
    const live = new LiveIndex();
    live.append("other-extension", { toolCalls: [legacyRecord("c1")] });
    const id = live.tree.appendMessage({ role: "user", content: "go", timestamp: 1 });
    const entry = live.tree.getEntry(id);
    if (entry) live.indexer.fold(entry);
    expect(live.indexer.getRecord("c1")).toBeUndefined();
    expect(live.indexer.takeInvalid()).toEqual([]);
  });
});

describe("until a frontier stands behind it", () => {
  test("a batch is known but changes no render", () => {
    const live = new LiveIndex();
    live.add(member("c1", 2));
    expect(live.indexer.isSummarized("c1@2")).toBe(true);
    expect(live.indexer.committed().calls.size).toBe(0);
    expect(live.indexer.hasUncommitted()).toBe(true);
  });

  test("its epoch stays, and its content is no original for repeats", () => {
    const live = new LiveIndex();
    const { epoch } = live.indexer;
    const added = member("c1", 2);
    live.add(added);
    live.repeat(added, "c2", 3);
    expect(live.indexer.epoch).toBe(epoch);
    expect(live.indexer.findByHash(added.contentHash)).toBeUndefined();
    live.frontier();
    expect(live.indexer.epoch).not.toBe(epoch);
    expect(live.indexer.findByHash(added.contentHash)?.occurrenceKey).toBe("c1@2");
  });

  test("its refs answer already, since they have been given", () => {
    const live = new LiveIndex();
    live.add(member("c1", 2));
    expect(live.indexer.resolve("t1")).toEqual(["c1@2"]);
    expect(live.indexer.getRecord("c1@2")?.resultText).toBe("output of c1");
  });

  test("the same holds for a second process", () => {
    const live = new LiveIndex();
    live.add(member("c1", 2));
    expect(stateOf(live.reload().indexer, ["c1@2"])).toEqual(stateOf(live.indexer, ["c1@2"]));
  });
});

describe("frontierKey", () => {
  test("is the occurrence of the last frontier", () => {
    const live = new LiveIndex();
    expect(live.indexer.frontierKey()).toBeUndefined();
    live.frontier({ lastAttemptedResultTimestamp: 2 });
    live.frontier({ lastAttemptedToolCallId: "c2", lastAttemptedResultTimestamp: 5 });
    expect(live.indexer.frontierKey()).toBe("c2@5");
    expect(live.indexer.frontier()).toMatchObject({ lastAttemptedToolCallId: "c2" });
  });

  test("is the bare id where an earlier release wrote it", () => {
    const live = new LiveIndex();
    live.frontier();
    expect(live.indexer.frontierKey()).toBe("c1");
  });

  test("is none where the first batch of all failed", () => {
    const live = new LiveIndex();
    live.frontier({ lastAttemptedToolCallId: null });
    expect(live.indexer.frontierKey()).toBeUndefined();
  });
});

describe("refs", () => {
  test("count up through batches and repeats", () => {
    const live = new LiveIndex();
    const first = member("c1", 2);
    expect(live.add(first, member("c2", 3))).toEqual(["t1", "t2"]);
    expect(live.repeat(first, "c3", 4)).toBe("t3");
    expect(live.add(member("c4", 5))).toEqual(["t4"]);
  });

  test("go on where they stood after a reload", () => {
    const live = new LiveIndex();
    const first = member("c1", 2);
    live.add(first);
    live.repeat(first, "c2", 3);
    expect(live.reload().add(member("c3", 4))).toEqual(["t3"]);
  });

  test("are not given again on another branch of the file, live or reloaded", () => {
    const live = new LiveIndex();
    const root = live.tree.appendMessage({ role: "user", content: "go", timestamp: 1 });
    live.add(member("c1", 2));
    live.moveTo(root);
    expect(live.add(member("c2", 3))).toEqual(["t2"]);
    live.moveTo(root);
    expect(live.reload().add(member("c3", 4))).toEqual(["t3"]);
  });

  test("still answer on a branch that does not hold them", () => {
    const live = new LiveIndex();
    const root = live.tree.appendMessage({ role: "user", content: "go", timestamp: 1 });
    live.add(member("c1", 2));
    live.frontier();
    live.moveTo(root);
    expect(live.indexer.resolve("t1")).toEqual(["c1@2"]);
    expect(live.indexer.getRecord("c1@2")?.resultText).toBe("output of c1");
  });

  test("of chains are not given to calls", () => {
    const live = new LiveIndex();
    live.append(CUSTOM_TYPE_INDEX, { toolCalls: [], refs: [{ shortId: "b7", toolCallId: "c1", resultTimestamp: 2 }] });
    expect(live.add(member("c2", 3))).toEqual(["t8"]);
  });

  test("that two processes gave at once name both results", () => {
    const file = new EntryTree();
    const [one, other] = [new LiveIndex(file), new LiveIndex(file)];
    one.add(member("c1", 2));
    other.add(member("c2", 3));
    const { indexer } = new LiveIndex(file);
    expect(indexer.resolve("t1")).toEqual(["c1@2", "c2@3"]);
    expect(indexer.addBatches([batchOf(member("c3", 4))], () => {})).toEqual([["t2"]]);
  });

  test("a result keeps its first ref where two branches hold it", () => {
    const live = new LiveIndex();
    const root = live.tree.appendMessage({ role: "user", content: "go", timestamp: 1 });
    live.add(member("c1", 2));
    live.moveTo(root);
    expect(live.add(member("c1", 2), member("c2", 3))).toEqual(["t1", "t2"]);
    expect(live.indexer.resolve("t1")).toEqual(["c1@2"]);
    expect(live.reload().indexer.refOf("c1@2")).toBe("t1");
  });
});

describe("block ids", () => {
  function chain(blockId: string) {
    const range = { startUserTimestamp: 1, finalAssistantTimestamp: 9, droppedToolCallIds: ["c1"], toolRefs: ["t1"] };
    return { blockId, ...range, compressedAt: 10, protectedToolCallIds: ["c1"] };
  }

  test("are not given twice, on another branch and after a reload either", () => {
    const live = new LiveIndex();
    const root = live.tree.appendMessage({ role: "user", content: "go", timestamp: 1 });
    expect(live.indexer.mintBlockId()).toBe("b1");
    live.indexer.registerChain(chain("b1"), live.append);
    live.moveTo(root);
    expect(live.indexer.mintBlockId()).toBe("b2");
    expect(live.reload().indexer.mintBlockId()).toBe("b2");
  });

  test("name chains of their own branch, with all that was written down", () => {
    const live = new LiveIndex();
    const root = live.tree.appendMessage({ role: "user", content: "go", timestamp: 1 });
    live.append(CUSTOM_TYPE_CHAIN, chain("b1"));
    expect([...live.reload().indexer.chains()]).toEqual([["b1", chain("b1")]]);
    live.moveTo(root);
    expect(live.indexer.chains().size).toBe(0);
  });
});

describe("records of earlier releases without a ref", () => {
  function legacyFile(): EntryTree {
    const tree = new EntryTree();
    tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [legacyRecord("s1"), legacyRecord("s2")], refs: [] });
    tree.appendCustom(CUSTOM_TYPE_INDEX, {
      toolCalls: [legacyRecord("c1")],
      refs: [{ shortId: "t2", toolCallId: "c1" }],
    });
    tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [legacyRecord("s3")], refs: [] });
    return tree;
  }

  const refsOf = ({ indexer }: LiveIndex) => ["s1", "s2", "s3", "c1"].map((key) => indexer.refOf(key));

  test("take the lowest numbers that nobody has, in the order of the file", () => {
    const live = new LiveIndex(legacyFile());
    expect(refsOf(live)).toEqual(["t1", "t3", "t4", "t2"]);
    live.frontier();
    expect(live.indexer.committed().calls.get("s2")?.shortId).toBe("t3");
  });

  test("keep them when new refs are given and the file is read again", () => {
    const live = new LiveIndex(legacyFile());
    expect(live.add(member("new", 9))).toEqual(["t5"]);
    const again = live.reload();
    expect(refsOf(again)).toEqual(refsOf(live));
    expect(again.indexer.resolve("t5")).toEqual(["new@9"]);
    expect(again.add(member("newer", 10))).toEqual(["t6"]);
  });

  test("answer to the refs that a summary message gave them", () => {
    const tree = new EntryTree();
    tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [legacyRecord("c1")], refs: [] });
    const details = { toolCallRefs: [{ shortId: "t9", toolCallId: "c1" }] };
    const entry = { type: "custom_message", customType: CUSTOM_TYPE_SUMMARY, content: "text", display: false, details };
    const { indexer } = new LiveIndex(tree);
    indexer.reconstructFromSession(
      [...tree.getEntries(), JSON.parse(JSON.stringify({ ...entry, id: "m", parentId: "e1", timestamp: "2026" }))],
      tree.branch(),
    );
    expect(indexer.refOf("c1")).toBe("t9");
    expect(indexer.addBatches([batchOf(member("c2", 3))], () => {})).toEqual([["t10"]]);
  });
});

describe("repeats", () => {
  test("give the record of their original", () => {
    const live = new LiveIndex();
    const first = member("c1", 2, "the text");
    live.add(first);
    live.repeat(first, "c2", 3);
    live.frontier();
    expect(live.indexer.getRecord("c2@3")?.resultText).toBe("the text");
    expect(live.indexer.resolve("t2")).toEqual(["c2@3"]);
    expect(live.indexer.isSummarized("c2@3")).toBe(true);
  });

  test("that are too big to be sent take effect at once", () => {
    const live = new LiveIndex();
    const first = member("c1", 2, "the text");
    live.add(first);
    live.frontier();
    const repeat = { call: captured("c2", 3), contentHash: first.contentHash, eager: true as const };
    live.indexer.registerDuplicate(repeat, first.call, live.append);
    for (const { indexer } of [live, live.reload()]) {
      expect(indexer.committed().duplicates.get("c2@3")).toMatchObject({ eager: true, shortId: "t2" });
    }
    live.repeat(first, "c3", 4);
    live.frontier();
    expect(live.indexer.committed().duplicates.get("c3@4")?.eager).toBe(false);
  });

  test("of a repeat are repeats of its original", () => {
    const live = new LiveIndex();
    const first = member("c1", 2, "the text");
    live.add(first);
    live.repeat(first, "c2", 3);
    live.repeat({ ...first, call: captured("c2", 3) }, "c3", 4);
    live.frontier();
    const original = live.indexer.committed().duplicates.get("c3@4")?.original;
    expect(original?.occurrenceKey).toBe("c1@2");
    expect(live.reload().indexer.committed().duplicates.get("c3@4")?.original.occurrenceKey).toBe("c1@2");
  });

  test("of what nobody knows are left out", () => {
    const live = new LiveIndex();
    live.append(CUSTOM_TYPE_DEDUP_ALIAS, { newToolCallId: "c2", originalToolCallId: "lost" });
    live.frontier();
    expect(live.indexer.committed().duplicates.size).toBe(0);
    expect(live.indexer.getRecord("c2")).toBeUndefined();
  });

  test("without a ref of their own, as earlier releases wrote them, answer by their id", () => {
    const live = new LiveIndex();
    live.append(CUSTOM_TYPE_INDEX, {
      toolCalls: [legacyRecord("c1")],
      refs: [{ shortId: "t1", toolCallId: "c1" }],
    });
    live.append(CUSTOM_TYPE_DEDUP_ALIAS, { newToolCallId: "c2", newResultTimestamp: 5, originalToolCallId: "c1" });
    expect(live.indexer.resolve("c2")).toEqual(["c2@5"]);
    expect(live.indexer.refOf("c2@5")).toBeUndefined();
    expect(live.add(member("c3", 6))).toEqual(["t2"]);
  });
});

describe("resolve", () => {
  test("an id that was used again names every occurrence, in the order of the file", () => {
    const live = new LiveIndex();
    live.add(member("c1", 2));
    live.add(member("c1", 9));
    expect(live.indexer.resolve("c1")).toEqual(["c1@2", "c1@9"]);
  });

  test("what nobody knows names nothing", () => {
    expect(new LiveIndex().indexer.resolve("t1")).toEqual([]);
  });
});

describe("a move of the leaf", () => {
  test("hides what the branch does not hold, and shows it again on the way back", () => {
    const live = new LiveIndex();
    const root = live.tree.appendMessage({ role: "user", content: "go", timestamp: 1 });
    live.add(member("c1", 2));
    live.frontier({ skippedOccurrenceKeys: ["c9@9"] });
    const tip = live.tree.getLeafId();
    const before = stateOf(live.indexer, ["c1@2", "c9@9"]);

    live.moveTo(root);
    expect(live.indexer.committed().calls.size).toBe(0);
    expect(live.indexer.isSummarized("c1@2")).toBe(false);
    expect(live.indexer.isSkipped("c9@9")).toBe(false);
    expect(live.indexer.frontierKey()).toBeUndefined();

    live.moveTo(tip);
    expect(stateOf(live.indexer, ["c1@2", "c9@9"])).toEqual(before);
  });

  test("begins another epoch", () => {
    const live = new LiveIndex();
    const { epoch } = live.indexer;
    live.moveTo(null);
    expect(live.indexer.epoch).not.toBe(epoch);
  });

  test("content of another branch is no original for repeats here", () => {
    const live = new LiveIndex();
    const root = live.tree.appendMessage({ role: "user", content: "go", timestamp: 1 });
    const elsewhere = member("c1", 2);
    live.add(elsewhere);
    live.frontier();
    live.moveTo(root);
    expect(live.indexer.findByHash(elsewhere.contentHash)).toBeUndefined();
  });
});

describe("takeInvalid", () => {
  test("names each type once, and forgets what it has named", () => {
    const tree = new EntryTree();
    tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [{ not: "one" }], refs: [] });
    tree.appendCustom(CUSTOM_TYPE_INDEX, "broken");
    tree.appendCustom(CUSTOM_TYPE_FRONTIER, {});
    const { indexer } = new LiveIndex(tree);
    expect(indexer.takeInvalid().sort()).toEqual([CUSTOM_TYPE_FRONTIER, CUSTOM_TYPE_INDEX]);
    expect(indexer.takeInvalid()).toEqual([]);
  });

  test("names a type of which one record alone is bad, and none where all are good", () => {
    const tree = new EntryTree();
    tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [legacyRecord("c1")], refs: [] });
    expect(new LiveIndex(tree).indexer.takeInvalid()).toEqual([]);
    tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [{ not: "one" }], refs: [] });
    expect(new LiveIndex(tree).indexer.takeInvalid()).toEqual([CUSTOM_TYPE_INDEX]);
  });

  test("the good record beside a bad one still works", () => {
    const tree = new EntryTree();
    tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [{ not: "one" }, legacyRecord("c1")], refs: [] });
    expect(new LiveIndex(tree).indexer.getRecord("c1")?.resultText).toBe("old output");
  });
});

describe("a live index and one read from the file", () => {
  /** What one step of a generated session does. */
  interface Step {
    kind: "turn" | "flush" | "cut" | "move";
    outputs: { text: number; chars: number; id: number }[];
    summary: "split" | "whole" | "long" | "none";
    at: number;
  }

  const step: fc.Arbitrary<Step> = fc.record({
    kind: fc.constantFrom("turn", "turn", "turn", "flush", "flush", "cut", "move"),
    outputs: fc.array(fc.record({ text: fc.nat(3), chars: fc.constantFrom(20, 400, 3000), id: fc.nat(20) }), {
      minLength: 1,
      maxLength: 3,
    }),
    summary: fc.constantFrom("split", "whole", "long", "none"),
    at: fc.nat(),
  });

  function summaryOf(kind: Step["summary"], calls: number): BatchSummary | null {
    if (kind === "none") return null;
    const whole = kind === "long" ? "long ".repeat(2000) : "short";
    return { whole, texts: kind === "whole" ? undefined : Array(calls).fill(whole), model: "p/m" };
  }

  /** Plays the steps and gives the keys of all results. */
  async function playSteps(live: LiveIndex, steps: readonly Step[], check: () => void): Promise<void> {
    let clock = 1;
    const say = (content: AssistantMessage["content"], stopReason: AssistantMessage["stopReason"]) => {
      const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
      const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
      const source = { api: "a", provider: "p", model: "m", usage };
      live.tree.appendMessage({ role: "assistant", content, ...source, stopReason, timestamp: clock++ });
    };
    for (const { kind, outputs, summary, at } of steps) {
      if (kind === "turn") {
        const ids = outputs.map((output) => `c${output.id}`);
        say(
          ids.map((id) => ({ type: "toolCall", id, name: "read", arguments: { path: "a.ts" } })),
          "toolUse",
        );
        for (const [i, { text, chars }] of outputs.entries())
          live.tree.appendMessage(resultOf(ids[i] ?? "", text, chars));
        say([{ type: "text", text: "done" }], "stop");
      } else if (kind === "move") {
        const all = live.tree.getEntries();
        live.moveTo(all[at % Math.max(1, all.length)]?.id ?? null);
      } else await flush(kind === "cut" ? at % 5 : Number.POSITIVE_INFINITY, summary);
      check();
    }

    function resultOf(toolCallId: string, text: number, chars: number): ToolResultMessage {
      const content = [{ type: "text" as const, text: `${text} `.repeat(chars).slice(0, chars) }];
      return { role: "toolResult", toolCallId, toolName: "read", content, isError: false, timestamp: clock++ };
    }

    /** A flush that is cut short after `limit` entries. */
    async function flush(limit: number, summary: Step["summary"]): Promise<void> {
      const { indexer } = live;
      const batches = captureUnindexedBatchesFromSession(live.tree.branch(), {
        frontierKey: indexer.frontierKey(),
        isDealtWith: (key) => indexer.isSummarized(key) || indexer.isSkipped(key),
        isExempt: () => false,
        batchingMode: "turn",
      });
      const config = { ...DEFAULT_CONFIG, minBatchChars: 100 };
      const chains = { messages: messagesInContext(live.tree.branch()), isProtected: () => false };
      let count = 0;
      const summarize = async ({ toolCalls }: { toolCalls: readonly unknown[] }) =>
        summaryOf(count++ === 1 ? "none" : summary, toolCalls.length);
      const prepared = await prepareFlush(batches, { indexer, config, summarize, chains, isRecovery: () => false });
      const written: [string, unknown][] = [];
      const isCurrent = (key: string) => !indexer.isSummarized(key);
      const append = (type: string, data: unknown) => written.push([type, data]);
      commitFlush(prepared, { indexer, append, isCurrent, isCurrentRange: () => true, now: 0 });
      for (const [type, data] of written.slice(0, limit)) live.append(type, data);
    }
  }

  function keysIn(tree: EntryTree): string[] {
    const messages = tree.getEntries().flatMap((e): AgentMessage[] => (e.type === "message" ? [e.message] : []));
    return messages.flatMap((m) => (m.role === "toolResult" ? [`${m.toolCallId}@${m.timestamp}`] : []));
  }

  test("come to the same state after every step", async () => {
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
        const live = new LiveIndex();
        await playSteps(live, steps, () => {
          const keys = keysIn(live.tree);
          expect(stateOf(live.reload().indexer, keys)).toEqual(stateOf(live.indexer, keys));
          compared += live.indexer.committed().calls.size + live.indexer.committed().duplicates.size;
        });
      }),
    );
    expect(compared).toBeGreaterThan(PROPERTY_RUNS);
  });

  test("never give a ref to a second result", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
        const live = new LiveIndex();
        const owners = new Map<string, string>();
        await playSteps(live, steps, () => {
          for (const ref of live.indexer.refs()) {
            const [key = "", ...others] = live.indexer.resolve(ref);
            expect(others).toEqual([]);
            expect(owners.get(ref) ?? key).toBe(key);
            owners.set(ref, key);
          }
        });
      }),
    );
  });
});
