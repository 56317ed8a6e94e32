import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { finishedCall } from "../test/support/calls.ts";
import { EntryTree } from "../test/support/simulated-session.ts";
import { DEFAULT_CONFIG } from "./config.ts";
import {
  addReports,
  batchesToSummarize,
  commitFlush,
  emptyReport,
  type FlushReport,
  prepareFlush,
  type Summarize,
} from "./flush.ts";
import { ToolCallIndexer } from "./indexer.ts";
import { buildRenderPlan, type PlanOptions } from "./render/plan.ts";
import type { BatchSummary } from "./summarizer.ts";
import {
  type CapturedBatch,
  type CapturedToolCall,
  type ChainCompressionConfig,
  CUSTOM_TYPE_CHAIN,
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_DIAGNOSTIC,
  CUSTOM_TYPE_FRONTIER,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_STATS,
  CUSTOM_TYPE_SUMMARY,
  type ResultContent,
} from "./types.ts";

const CONFIG = { ...DEFAULT_CONFIG, minBatchChars: 0 };
const CHAINS = { chains: { messages: [], isProtected: () => false }, isRecovery: () => false };
/** Nothing has changed while the summaries were made. */
const UNCHANGED = { isCurrent: () => true, isCurrentRange: () => true, now: 0 };
const PLAN_OPTIONS: PlanOptions = {
  ...DEFAULT_CONFIG,
  locateBlob: () => undefined,
  findOriginal: () => undefined,
  stripFinalAssistantThinking: true,
};
/** Long enough for any stub to be worth its while, in words that no other output has. */
const LONG = 3000;

interface Output {
  text?: string;
  chars?: number;
  isError?: boolean;
  content?: ResultContent;
}

/** A finished call; its id tells its content unless another one is given. */
function call(toolCallId: string, { text = toolCallId, chars = LONG, isError = false, content }: Output = {}) {
  const resultText = `${text} `.repeat(Math.ceil(chars / (text.length + 1))).slice(0, chars);
  const resultTimestamp = Number(toolCallId.replace(/\D/g, "")) || 1;
  const captured: CapturedToolCall = {
    occurrenceKey: `${toolCallId}@${resultTimestamp}`,
    toolCallId,
    toolName: "read",
    args: { path: "a.ts" },
    content: content ?? [{ type: "text", text: resultText }],
    resultText: content ? "" : resultText,
    resultImages: content?.length ?? 0,
    isError,
    resultTimestamp,
  };
  return captured;
}

function batch(...toolCalls: CapturedToolCall[]): CapturedBatch {
  return { turnIndex: 0, timestamp: 1, assistantText: "", toolCalls };
}

const SHORT: Summarize = async ({ toolCalls }) => summaryOf(toolCalls.map((c) => `about ${c.toolCallId}`));

function summaryOf(texts: readonly string[]): BatchSummary {
  return { whole: texts.join("\n"), texts, model: "p/m" };
}

function unsplittable(whole: string): Summarize {
  return async () => ({ whole, texts: undefined, model: "p/m" });
}

/** One summary after the other, `null` for a failure. */
function inTurn(...summaries: (Summarize | null)[]): Summarize {
  const left = [...summaries];
  return async (captured) => (await left.shift()?.(captured)) ?? null;
}

/** A session file, its index, and what each flush appends to it. */
class Session {
  readonly tree = new EntryTree();
  readonly indexer = new ToolCallIndexer();
  appended: { customType: string; data: unknown }[] = [];

  constructor() {
    this.indexer.reconstructFromSession([], []);
  }

  readonly append = (customType: string, data: unknown): void => {
    this.appended.push({ customType, data });
    this.tree.appendCustom(customType, data);
  };

  async flush(
    batches: readonly CapturedBatch[],
    summarize: Summarize = SHORT,
    config: Partial<typeof CONFIG> = {},
    messages: AgentMessage[] = [],
  ): Promise<FlushReport> {
    const { indexer, append } = this;
    this.appended = [];
    const prepared = await prepareFlush(batches, {
      indexer,
      config: { ...CONFIG, ...config },
      summarize,
      ...CHAINS,
      chains: { ...CHAINS.chains, messages },
    });
    const before = this.tree.getEntries().length;
    const isCurrent = (key: string) => !indexer.isSummarized(key);
    const report = commitFlush(prepared, { ...UNCHANGED, indexer, append, isCurrent });
    for (const entry of this.tree.getEntries().slice(before)) indexer.fold(entry);
    return report;
  }

  get types(): string[] {
    return this.appended.map((entry) => entry.customType);
  }

  /** Data of the entries of one type. */
  data(customType: string): unknown[] {
    return this.appended.flatMap((entry) => (entry.customType === customType ? [entry.data] : []));
  }

  /** What stands in for a result from now on. */
  stub(key: string): string | undefined {
    return buildRenderPlan(this.indexer.committed(), PLAN_OPTIONS).replacements.get(key)?.text;
  }

  condensed(...calls: CapturedToolCall[]): boolean[] {
    return calls.map(({ occurrenceKey }) => this.stub(occurrenceKey) !== undefined);
  }
}

describe("what is protected while the summaries are made", () => {
  const [kept, other, repeat] = [call("c1"), call("c2"), call("c3", { text: "c1" })];

  async function commit(summarize: Summarize, batches = [batch(kept, other)]) {
    const { indexer, tree, append } = new Session();
    const prepared = await prepareFlush(batches, { indexer, config: CONFIG, summarize, ...CHAINS });
    const isProtected = ({ args, toolName }: Pick<CapturedToolCall, "args" | "toolName">) =>
      toolName === "read" && args === kept.args;
    const report = commitFlush(prepared, { ...UNCHANGED, indexer, append, isProtected });
    for (const entry of tree.getEntries()) indexer.fold(entry);
    return { indexer, tree, report };
  }

  test("stays as it is, while the rest of its batch is condensed", async () => {
    const { indexer, report } = await commit(SHORT);
    expect([indexer.isSummarized("c1@1"), indexer.isSummarized("c2@2")]).toEqual([false, true]);
    expect(indexer.committed().summaries.get("c2@2")?.text).toBe("about c2");
    expect(report.condensed).toBe(1);
  });

  test("with one text for the whole batch, the batch waits for the next flush", async () => {
    const { indexer, tree } = await commit(unsplittable("both"));
    expect(indexer.isSummarized("c2@2")).toBe(false);
    expect(JSON.stringify(tree.getEntries())).not.toContain("both");
  });

  test("leaves a batch that failed as one that failed", async () => {
    const { indexer, report } = await commit(inTurn(null));
    expect(indexer.isSummarized("c2@2")).toBe(false);
    expect(report).toMatchObject({ condensed: 0, failed: 1 });
  });

  test("with one text for the whole batch, a repeat that stays holds nothing up", async () => {
    const spared = { ...call("c5", { text: "c2" }), args: kept.args };
    const { indexer } = await commit(unsplittable("both"), [batch(other), batch(call("c4"), spared)]);
    expect(["c2@2", "c4@4", "c5@5"].map((key) => indexer.isSummarized(key))).toEqual([true, true, false]);
  });

  test("what repeats it has nothing to point to, and waits", async () => {
    const { indexer } = await commit(SHORT, [batch(kept, other), batch(repeat)]);
    expect(indexer.isSummarized("c3@3")).toBe(false);
    expect(indexer.frontierKey()).toBe("c2@2");
  });
});

describe("summaries", () => {
  test.each([
    ["of each call", async () => summaryOf(["\u001b[31mred\u202e [t9 condensed: x]"])],
    ["of the whole batch", unsplittable("\u001b[31mred\u202e [t9 condensed: x]")],
  ] as [string, Summarize][])("%s are stored without escapes and imitations", async (_, summarize) => {
    const session = new Session();
    await session.flush([batch(call("c1"))], summarize);
    expect(session.indexer.committed().summaries.get("c1@1")?.text).toBe("red [quoted: t9 condensed: x]");
    expect(session.data(CUSTOM_TYPE_SUMMARY)).toMatchObject([{ parts: [{ text: "red [quoted: t9 condensed: x]" }] }]);
  });
});

describe("entries that would not be read back", () => {
  test("are not written; what they are about is told once and left alone for good", async () => {
    const session = new Session();
    const broken: CapturedToolCall = { ...call("c1"), toolCallId: JSON.parse("7") };
    const report = await session.flush([batch(broken), batch(call("c2"))]);
    expect(report.condensed).toBe(1);
    expect(session.data(CUSTOM_TYPE_DIAGNOSTIC)).toEqual([{ kind: "refused-entry", detail: "c1@1" }]);
    const again = new ToolCallIndexer();
    again.reconstructFromSession(session.tree.getEntries(), session.tree.branch());
    for (const indexer of [session.indexer, again]) {
      expect(indexer.isSkipped("c1@1")).toBe(true);
      expect(indexer.isSummarized("c2@2")).toBe(true);
      expect(indexer.takeInvalid()).toEqual([]);
    }
  });
});

describe("entries", () => {
  test("come as summaries and index, aliases, statistics, and the frontier last", async () => {
    const { indexer } = new Session();
    const appended: string[] = [];
    const append = (customType: string) => void appended.push(customType);
    const batches = [batch(call("c1")), batch(call("c2")), batch(call("c3", { text: "c1" }))];
    const prepared = await prepareFlush(batches, { indexer, config: CONFIG, summarize: SHORT, ...CHAINS });
    const saveStats = () => append(CUSTOM_TYPE_STATS);
    commitFlush(prepared, { ...UNCHANGED, indexer, append, saveStats });
    expect(appended).toEqual([
      CUSTOM_TYPE_SUMMARY,
      CUSTOM_TYPE_INDEX,
      CUSTOM_TYPE_DEDUP_ALIAS,
      CUSTOM_TYPE_STATS,
      CUSTOM_TYPE_FRONTIER,
    ]);
  });

  test("are not appended before all summaries are there", async () => {
    const { indexer } = new Session();
    let asked = 0;
    const summarize: Summarize = async (captured) => {
      asked += 1;
      return SHORT(captured);
    };
    await prepareFlush([batch(call("c1")), batch(call("c2"))], { indexer, config: CONFIG, summarize, ...CHAINS });
    expect(asked).toBe(2);
    expect(indexer.refs()).toEqual([]);
  });

  test("are none where nothing is pending, ten times over", async () => {
    const session = new Session();
    for (let i = 0; i < 10; i++) {
      expect(await session.flush([])).toEqual(emptyReport());
      expect(session.appended).toEqual([]);
    }
  });

  test("a flush that was cut short before its frontier gets it with the next one, even if nothing is pending", async () => {
    const session = new Session();
    const first = batch(call("c1"));
    const prepared = await prepareFlush([first], {
      indexer: session.indexer,
      config: CONFIG,
      summarize: SHORT,
      ...CHAINS,
    });
    const crash = (customType: string, data: unknown) => {
      if (customType === CUSTOM_TYPE_FRONTIER) throw new Error("disk full");
      session.append(customType, data);
    };
    expect(() => commitFlush(prepared, { ...UNCHANGED, indexer: session.indexer, append: crash })).toThrow("disk full");
    for (const entry of session.tree.getEntries()) session.indexer.fold(entry);
    expect(session.stub("c1@1")).toBeUndefined();

    await session.flush([]);
    expect(session.types).toEqual([CUSTOM_TYPE_FRONTIER]);
    expect(session.stub("c1@1")).toContain("about c1");
    await session.flush([]);
    expect(session.appended).toEqual([]);
  });
});

describe("a summarised batch", () => {
  test("stands as stubs with their own parts", async () => {
    const session = new Session();
    await session.flush([batch(call("c1"), call("c2"))]);
    expect(session.stub("c1@1")).toEndWith("\nabout c1");
    expect(session.stub("c2@2")).toEndWith("\nabout c2");
  });

  test("is reported with its sizes, and the frontier says the same", async () => {
    const session = new Session();
    const report = await session.flush([batch(call("c1"), call("c2"))]);
    expect(report).toMatchObject({ condensed: 2, duplicates: 0, trivial: 0, oversized: 0, failed: 0, rawChars: 6000 });
    const kept = (session.stub("c1@1")?.length ?? 0) + (session.stub("c2@2")?.length ?? 0);
    // Refs are judged by their greatest length.
    expect(report.keptChars).toBeGreaterThanOrEqual(kept);
    expect(report.keptChars).toBeLessThan(kept + 40);
    expect(session.data(CUSTOM_TYPE_FRONTIER)).toEqual([
      {
        lastAttemptedToolCallId: "c2",
        lastAttemptedResultTimestamp: 2,
        attemptedBatchCount: 1,
        attemptedToolCallCount: 2,
        rawCharCount: 6000,
        summaryCharCount: report.keptChars,
        outcome: "summarized",
      },
    ]);
  });

  test("names its model and what it has cost", async () => {
    const session = new Session();
    const usage = { inputTokens: 1, outputTokens: 2, cost: 3 };
    await session.flush([batch(call("c1"))], async () => ({ ...summaryOf(["text"]), usage }));
    expect(session.data(CUSTOM_TYPE_SUMMARY)).toMatchObject([{ parts: [{ text: "text" }], model: "p/m", usage }]);
  });

  test("of images alone counts them at their price", async () => {
    const session = new Session();
    const image = { type: "image" as const, data: "AAAA", mimeType: "image/png" };
    expect(await session.flush([batch(call("c1", { content: [image] }))])).toMatchObject({ condensed: 1 });
    expect(session.stub("c1@1")).toContain("1 image");
  });

  test("a call whose stub would not be shorter stays as it is beside one that is", async () => {
    const session = new Session();
    const [long, short] = [call("c1"), call("c2", { chars: 100 })];
    expect(await session.flush([batch(long, short)])).toMatchObject({ condensed: 1, rawChars: LONG });
    expect(session.condensed(long, short)).toEqual([true, false]);
  });
});

describe("a read whose file was edited since", () => {
  const args = { path: "a.ts" };
  const edit = { ...args, edits: [{ oldText: "old", newText: "new" }] };
  const messages = [
    ...finishedCall("c1", ["read", args, "text"], 1),
    ...finishedCall("c2", ["edit", edit, "ok"], 2),
    ...finishedCall("c3", ["edit", edit, "ok"], 3),
    ...finishedCall("c4", ["read", args, "text"], 4),
  ];
  const [read, first, second, again] = [1, 2, 3, 4].map((n) =>
    n === 2 || n === 3 ? { ...call(`c${n}`), toolName: "edit", args: edit } : call(`c${n}`),
  );
  const batches = [read, first, second, again].flatMap((one) => (one ? [batch(one)] : []));

  test("names the refs of the edits, also those that the same flush gives", async () => {
    const session = new Session();
    await session.flush(batches, SHORT, {}, messages);
    expect(session.stub("c1@1")).toEndWith("\nOutdated: edited since by t2, t3.\nabout c1");
    expect(session.stub("c4@4")).toEndWith("t4]\nabout c4");
  });

  test("is told from a later result under the same id", async () => {
    const session = new Session();
    await session.flush(batches.slice(0, 2), SHORT, {}, [
      ...messages,
      ...finishedCall("c1", ["read", args, "text"], 9),
    ]);
    expect(session.stub("c1@1")).toContain("\nOutdated: edited since by t2");
  });

  test("says it as of its flush, whatever comes later", async () => {
    const session = new Session();
    await session.flush(batches.slice(0, 2), SHORT, {}, messages.slice(0, 4));
    const stub = session.stub("c1@1");
    expect(stub).toEndWith("\nOutdated: edited since by t2.\nabout c1");
    await session.flush(batches.slice(2), SHORT, {}, messages);
    expect(session.stub("c1@1")).toBe(stub);
  });

  test("counts edits that have no ref, and gives the others the refs that they would have had", async () => {
    const session = new Session();
    await session.flush(batches.slice(0, 2), SHORT, {}, messages);
    expect(session.stub("c1@1")).toContain("Outdated: edited since by t2, 1 other call.");
    await session.flush(batches.slice(2), SHORT, {}, messages);
    expect(session.stub("c3@3")).toStartWith("[t3 condensed: ");
  });

  test("is named in front of a summary that stands for several calls", async () => {
    const session = new Session();
    await session.flush([batch(...batches.flatMap((one) => one.toolCalls))], unsplittable("all of it"), {}, messages);
    expect(session.stub("c4@4")).toEndWith("]\nt1 is outdated: edited since by t2, t3.\nall of it");
  });
});

describe("a summary that could not be split", () => {
  test("goes whole to the last call, and the others point to it", async () => {
    const session = new Session();
    await session.flush([batch(call("c1"), call("c2"), call("c3"))], unsplittable("all of it"));
    expect(session.stub("c1@1")).toEndWith("\nSummarized together with t3.");
    expect(session.stub("c2@2")).toEndWith("\nSummarized together with t3.");
    expect(session.stub("c3@3")).toEndWith("\nall of it");
  });

  test("goes to the last call that is condensed at all", async () => {
    const session = new Session();
    const [first, second, small] = [call("c1"), call("c2"), call("c3", { chars: 50 })];
    await session.flush([batch(first, second, small)], unsplittable("all of it"));
    expect(session.stub("c1@1")).toEndWith("\nSummarized together with t2.");
    expect(session.stub("c2@2")).toEndWith("\nall of it");
    expect(session.condensed(small)).toEqual([false]);
  });

  test("is named by the ref that its stub shows, also on a second branch of the file", async () => {
    const session = new Session();
    const root = session.tree.appendMessage({ role: "user", content: "go", timestamp: 1 });
    const calls = [call("c1"), call("c2")];
    for (let i = 0; i < 2; i++) {
      session.tree.moveTo(root);
      session.indexer.resetBranch(session.tree.branch());
      await session.flush([batch(...calls)], unsplittable("all of it"));
    }
    const [, ref] = /Summarized together with (t\d+)\./.exec(session.stub("c1@1") ?? "") ?? [];
    expect(session.stub("c2@2")).toStartWith(`[${ref} condensed: `);
  });

  test("is discarded where no call has room for it, though all of them together had", async () => {
    const session = new Session();
    const calls = [call("c1", { chars: 1000 }), call("c2", { chars: 1000 }), call("c3", { chars: 1000 })];
    expect(await session.flush([batch(...calls)], unsplittable("x".repeat(1200)))).toMatchObject({ oversized: 3 });
    expect(session.condensed(...calls)).toEqual([false, false, false]);
  });
});

describe("a summary of one call", () => {
  test("stands with it, split or not, and counts as summarised", async () => {
    for (const summarize of [SHORT, unsplittable("about c1")]) {
      const session = new Session();
      expect(await session.flush([batch(call("c1"))], summarize)).toMatchObject({ condensed: 1 });
      expect(session.stub("c1@1")).toEndWith("\nabout c1");
      expect(session.data(CUSTOM_TYPE_FRONTIER)).toMatchObject([{ outcome: "summarized" }]);
    }
  });
});

describe("a batch that is still at work", () => {
  const held = (...calls: CapturedToolCall[]): CapturedBatch => ({ ...batch(...calls), held: true });

  test("stays as it is, unasked and not named as skipped, and no frontier passes it", async () => {
    const session = new Session();
    const calls = [call("c1"), call("c2"), call("c3")];
    const [first, second, third] = calls.map((one) => batch(one));
    if (!first || !second || !third) throw new Error("no batches");
    const asked: string[] = [];
    const summarize: Summarize = async (captured) => {
      asked.push(...captured.toolCalls.map((one) => one.toolCallId));
      return SHORT(captured);
    };
    const report = await session.flush([first, held(...second.toolCalls), third], summarize);
    expect(asked).toEqual(["c1", "c3"]);
    expect(report).toMatchObject({ condensed: 2, failed: 0, trivial: 0, oversized: 0 });
    expect(session.condensed(...calls)).toEqual([true, false, true]);
    expect(session.indexer.frontierKey()).toBe("c1@1");
    expect(session.indexer.isSkipped("c2@2")).toBe(false);
  });

  test("alone is nothing to append", async () => {
    const session = new Session();
    await session.flush([held(call("c1"))]);
    expect(session.appended).toEqual([]);
  });
});

describe("a batch whose arguments are what is large", () => {
  const write = (toolCallId: string, isError = false): CapturedToolCall => ({
    ...call(toolCallId, { text: "written", chars: 40, isError }),
    toolName: "write",
    args: { path: "a.ts", content: "line of a file\n".repeat(200) },
  });

  test("is indexed without asking the summariser", async () => {
    const session = new Session();
    const summarize = () => {
      throw new Error("asked");
    };
    await session.flush([batch(write("c1"))], summarize, { minBatchChars: 1000 });
    expect(session.types).toEqual([CUSTOM_TYPE_SUMMARY, CUSTOM_TYPE_INDEX, CUSTOM_TYPE_FRONTIER]);
    expect(session.data(CUSTOM_TYPE_SUMMARY)).toMatchObject([{ model: "none" }]);
    expect(session.indexer.getRecord("c1@1")?.args).toEqual(write("c1").args);
  });

  test("has the digest of each short result beside them", async () => {
    const session = new Session();
    const beside = call("c2", { text: "a line of output\n", chars: 300 });
    await session.flush([batch(write("c1"), beside)], SHORT, { minBatchChars: 1000 });
    const parts = [
      { occurrenceKey: "c1@1", text: expect.stringContaining("line of a file") },
      { occurrenceKey: "c2@2", text: expect.stringContaining("a line of output") },
    ];
    expect(session.data(CUSTOM_TYPE_SUMMARY)).toMatchObject([{ model: "none", parts }]);
  });

  test("is indexed without asking the summariser where its result is empty, whatever the least size", async () => {
    const session = new Session();
    const summarize = () => {
      throw new Error("asked");
    };
    const silent = { ...write("c1"), content: [], resultText: "" };
    await session.flush([batch(silent)], summarize);
    expect(session.types).toEqual([CUSTOM_TYPE_SUMMARY, CUSTOM_TYPE_INDEX, CUSTOM_TYPE_FRONTIER]);
    const idle = { ...silent, args: {} };
    expect(await new Session().flush([batch(idle)], summarize)).toMatchObject({ trivial: 1 });
  });

  test("is trivial where arguments are not condensed, or are too small as well", async () => {
    const off = { ...DEFAULT_CONFIG.condenseArgs, enabled: false };
    for (const config of [{ minBatchChars: 1000, condenseArgs: off }, { minBatchChars: 10_000 }]) {
      const session = new Session();
      expect(await session.flush([batch(write("c1"))], SHORT, config)).toMatchObject({ trivial: 1 });
    }
  });
});

describe("protectTags", () => {
  const kept = "<protect>keep this</protect>";
  const tagged = call("c1", { text: `${kept}\n${"x".repeat(2900)}`, chars: 2900 });

  test("keeps what a tool has marked below the summary, word for word", async () => {
    const session = new Session();
    await session.flush([batch(tagged, call("c2"))], SHORT, { protectTags: true });
    expect(session.stub("c1@1")).toContain("about c1\n");
    expect(session.stub("c1@1")).toContain("keep this");
    expect(session.stub("c2@2")).not.toContain("keep this");
  });

  test("leaves a batch as it is whose summary could not be split, since the mark would be lost", async () => {
    const session = new Session();
    const calls = [tagged, call("c2")];
    expect(await session.flush([batch(...calls)], unsplittable("both"), { protectTags: true })).toMatchObject({
      oversized: 2,
    });
    expect(session.condensed(...calls)).toEqual([false, false]);
  });

  test("is off by default: marks are text like any other", async () => {
    const session = new Session();
    await session.flush([batch(tagged, call("c2"))]);
    expect(session.stub("c1@1")).not.toContain("keep this");
    const other = new Session();
    expect(await other.flush([batch(tagged, call("c2"))], unsplittable("both"))).toMatchObject({ condensed: 2 });
  });
});

describe("batchesToSummarize", () => {
  test("names what a flush asks for: no repeats, nothing small, nothing at work", async () => {
    const session = new Session();
    const config = { ...CONFIG, minBatchChars: 1000 };
    await session.flush([batch(call("c1"))]);
    const same = call("c2", { text: "c1" });
    const pending = [
      batch(same),
      batch(call("c3"), call("c4", { text: "c1" })),
      batch(call("c5", { chars: 50 })),
      { ...batch(call("c6")), held: true },
      batch(call("c7")),
    ];
    const asked: CapturedBatch[] = [];
    const summarize: Summarize = async (captured) => {
      asked.push(captured);
      return SHORT(captured);
    };
    const named = batchesToSummarize(pending, session.indexer, config);
    await session.flush(pending, summarize, config);
    expect(named.map((one) => one.toolCalls.map((c) => c.toolCallId))).toEqual([["c3"], ["c7"]]);
    expect(asked).toEqual(named);
  });
});

describe("a trivial batch", () => {
  test("is left as it is, without asking the summariser", async () => {
    const session = new Session();
    const report = await session.flush(
      [batch(call("c1", { chars: 999 }))],
      () => {
        throw new Error("asked");
      },
      { minBatchChars: 1000 },
    );
    expect(report).toEqual({ ...emptyReport(), trivial: 1 });
    expect(session.data(CUSTOM_TYPE_FRONTIER)).toMatchObject([
      { lastAttemptedToolCallId: "c1", outcome: "skipped-trivial" },
    ]);
    expect(session.types).toEqual([CUSTOM_TYPE_FRONTIER]);
  });

  test("is one below minBatchChars; a batch that reaches it is not", async () => {
    const session = new Session();
    const report = await session.flush([batch(call("c1", { chars: 1000 }))], SHORT, { minBatchChars: 1000 });
    expect(report).toMatchObject({ trivial: 0, condensed: 1 });
  });

  test("is judged by the whole of it", async () => {
    const session = new Session();
    const calls = [call("c1", { chars: 900 }), call("c2", { chars: 900 })];
    expect(await session.flush([batch(...calls)], SHORT, { minBatchChars: 1500 })).toMatchObject({ condensed: 2 });
  });
});

describe("a result below 800 characters", () => {
  test("stays whole beside a long one, and can be asked for by its ref", async () => {
    const session = new Session();
    const calls = [call("c1", { chars: 799 }), call("c2", { chars: 800 })];
    expect(await session.flush([batch(...calls)])).toMatchObject({ condensed: 1 });
    expect(session.condensed(...calls)).toEqual([false, true]);
    expect(session.indexer.resolve("t1")).toEqual(["c1@1"]);
  });
});

describe("an oversized summary", () => {
  const tooLong = unsplittable("x".repeat(5000));

  test("is discarded, and the results stay", async () => {
    const session = new Session();
    const one = call("c1");
    expect(await session.flush([batch(one)], tooLong)).toEqual({ ...emptyReport(), oversized: 1 });
    expect(session.condensed(one)).toEqual([false]);
    expect(session.types).toEqual([CUSTOM_TYPE_FRONTIER]);
    expect(session.data(CUSTOM_TYPE_FRONTIER)).toMatchObject([
      { lastAttemptedToolCallId: "c1", outcome: "skipped-oversized", attemptedBatchCount: 1 },
    ]);
  });

  test("is discarded also where it is split", async () => {
    const session = new Session();
    const calls = [call("c1"), call("c2")];
    const summarize = async () => summaryOf(["x".repeat(2900), "y".repeat(2900)]);
    expect(await session.flush([batch(...calls)], summarize)).toMatchObject({ oversized: 2, condensed: 0 });
    expect(session.condensed(...calls)).toEqual([false, false]);
  });

  test("behind a batch that failed is remembered by its keys, so that it is not paid for again", async () => {
    const session = new Session();
    const [failing, large] = [batch(call("c1")), batch(call("c2"))];
    await session.flush([failing, large], inTurn(null, tooLong));
    expect(session.data(CUSTOM_TYPE_FRONTIER)).toMatchObject([
      { lastAttemptedToolCallId: null, skippedOccurrenceKeys: ["c2@2"], outcome: "skipped-oversized" },
    ]);
    expect(session.indexer.isSkipped("c2@2")).toBe(true);
    expect(session.indexer.isSkipped("c1@1")).toBe(false);
  });
});

describe("a batch that fails", () => {
  test("stays pending, and nothing is appended where nothing else was done", async () => {
    const session = new Session();
    expect(await session.flush([batch(call("c1"), call("c2"))], inTurn(null))).toEqual({ ...emptyReport(), failed: 2 });
    expect(session.appended).toEqual([]);
  });

  test("stops the frontier before it, while later successes are kept", async () => {
    const session = new Session();
    const calls = [call("c1"), call("c2"), call("c3")];
    const batches = calls.map((one) => batch(one));
    expect(await session.flush(batches, inTurn(SHORT, null, SHORT))).toMatchObject({ condensed: 2, failed: 1 });
    expect(session.condensed(...calls)).toEqual([true, false, true]);
    expect(session.indexer.frontierKey()).toBe("c1@1");
    expect(session.data(CUSTOM_TYPE_FRONTIER)).toMatchObject([
      { attemptedBatchCount: 2, attemptedToolCallCount: 2, outcome: "summarized" },
    ]);
  });

  test("stops the frontier where it is the first of several that fail", async () => {
    const session = new Session();
    const batches = ["c1", "c2", "c3", "c4", "c5"].map((id) => batch(call(id)));
    await session.flush(batches, inTurn(SHORT, SHORT, null, SHORT, null));
    expect(session.indexer.frontierKey()).toBe("c2@2");
  });

  test("leaves the frontier where an earlier flush has put it", async () => {
    const session = new Session();
    await session.flush([batch(call("c1"))]);
    await session.flush([batch(call("c2")), batch(call("c3"))], inTurn(null, SHORT));
    expect(session.indexer.frontierKey()).toBe("c1@1");
  });

  test("as the first of all leaves no frontier to start from", async () => {
    const session = new Session();
    await session.flush([batch(call("c1")), batch(call("c2"))], inTurn(null, SHORT));
    expect(session.data(CUSTOM_TYPE_FRONTIER)).toMatchObject([{ lastAttemptedToolCallId: null }]);
    expect(session.indexer.frontierKey()).toBeUndefined();
  });

  test("names trivial batches behind it as skipped, not those before it", async () => {
    const session = new Session();
    const tiny = (id: string) => batch(call(id, { chars: 50 }));
    await session.flush([tiny("c1"), batch(call("c2")), tiny("c3")], inTurn(null), { minBatchChars: 100 });
    expect(session.data(CUSTOM_TYPE_FRONTIER)).toMatchObject([
      { lastAttemptedToolCallId: "c1", skippedOccurrenceKeys: ["c3@3"] },
    ]);
  });

  test("an exception of the summariser ends the flush without any entry", async () => {
    const session = new Session();
    const summarize = () => Promise.reject(new Error("boom"));
    await expect(session.flush([batch(call("c1"))], summarize)).rejects.toThrow("boom");
    expect(session.appended).toEqual([]);
  });
});

describe("repeats", () => {
  test("of an indexed result point to it and are not summarised", async () => {
    const session = new Session();
    await session.flush([batch(call("c1"))]);
    const report = await session.flush([batch(call("c2", { text: "c1" }))], () => {
      throw new Error("asked");
    });
    expect(report).toEqual({ ...emptyReport(), duplicates: 1 });
    expect(session.types).toEqual([CUSTOM_TYPE_DEDUP_ALIAS, CUSTOM_TYPE_FRONTIER]);
    expect(session.data(CUSTOM_TYPE_FRONTIER)).toMatchObject([
      { lastAttemptedToolCallId: "c2", outcome: "skipped-deduped" },
    ]);
    expect(session.stub("c2@2")).toContain("t2 condensed: identical to t1");
  });

  test("within one flush point to the first of them", async () => {
    const session = new Session();
    const seen: string[][] = [];
    const summarize: Summarize = async (captured) => {
      seen.push(captured.toolCalls.map((one) => one.toolCallId));
      return SHORT(captured);
    };
    const repeat = (id: string) => call(id, { text: "same" });
    await session.flush([batch(repeat("c1"), repeat("c2")), batch(repeat("c3"), call("c4"))], summarize);
    expect(seen).toEqual([["c1"], ["c4"]]);
    expect(session.stub("c2@2")).toContain("identical to t1");
    expect(session.stub("c3@3")).toContain("identical to t1");
  });

  test("with another error flag are none", async () => {
    const session = new Session();
    const report = await session.flush([
      batch(call("c1", { text: "same" })),
      batch(call("c2", { text: "same", isError: true })),
    ]);
    expect(report).toMatchObject({ condensed: 2, duplicates: 0 });
  });

  test("too short for a pointer to them are left in their batch", async () => {
    const session = new Session();
    const tiny = (id: string) => call(id, { text: "same", chars: 60 });
    const report = await session.flush([batch(tiny("c1")), batch(tiny("c2"))], SHORT, { minBatchChars: 100 });
    expect(report).toMatchObject({ duplicates: 0, trivial: 2 });
  });

  test("are not looked for where the setting is off", async () => {
    const session = new Session();
    await session.flush([batch(call("c1"))]);
    const report = await session.flush([batch(call("c2", { text: "c1" }))], SHORT, { dedupByContentHash: false });
    expect(report).toMatchObject({ duplicates: 0, condensed: 1 });
  });

  test("whose original failed wait with it", async () => {
    const session = new Session();
    const same = (id: string) => call(id, { text: "same" });
    const batches = [batch(same("c1")), batch(same("c2"), call("c3"))];
    const report = await session.flush(batches, inTurn(null, SHORT));
    expect(report).toMatchObject({ duplicates: 0, condensed: 1, failed: 1 });
    expect(session.indexer.isSummarized("c2@2") || session.indexer.isSkipped("c2@2")).toBe(false);

    await session.flush([batch(same("c1")), batch(same("c2"))]);
    expect(session.stub("c2@2")).toContain("identical to t");
  });

  test("whose original is trivial have no stub that would point to it", async () => {
    const session = new Session();
    const same = (id: string) => call(id, { text: "same", chars: 900 });
    const report = await session.flush([batch(same("c1")), batch(same("c2"))], SHORT, { minBatchChars: 1000 });
    expect(report).toMatchObject({ duplicates: 0 });
    expect(session.condensed(same("c1"), same("c2"))).toEqual([false, false]);
  });

  test("whose original got no shorter have no stub that would point to it", async () => {
    const session = new Session();
    const same = (id: string) => call(id, { text: "same" });
    await session.flush([batch(same("c1")), batch(same("c2"))], unsplittable("x".repeat(5000)));
    expect(session.types).toEqual([CUSTOM_TYPE_FRONTIER]);
  });

  test("give back what they repeat", async () => {
    const session = new Session();
    await session.flush([batch(call("c1")), batch(call("c2", { text: "c1" }))]);
    expect(session.indexer.getRecord("c2@2")?.resultText).toBe(call("c1").resultText);
  });
});

describe("what has changed while the summaries were made", () => {
  async function commit(isCurrent: (key: string) => boolean) {
    const session = new Session();
    const { indexer, append } = session;
    const batches = [batch(call("c1")), batch(call("c2"), call("c3"))];
    const prepared = await prepareFlush(batches, { indexer, config: CONFIG, summarize: SHORT, ...CHAINS });
    const report = commitFlush(prepared, { ...UNCHANGED, indexer, append, isCurrent });
    return { session, report };
  }

  test("a batch that has lost a call is passed over whole", async () => {
    const { session, report } = await commit((key) => key !== "c3@3");
    expect(report).toMatchObject({ condensed: 1 });
    expect(session.data(CUSTOM_TYPE_FRONTIER)).toMatchObject([{ lastAttemptedToolCallId: "c1" }]);
  });

  test("nothing is appended where every batch has gone", async () => {
    const { session, report } = await commit(() => false);
    expect(report).toEqual(emptyReport());
    expect(session.appended).toEqual([]);
  });
});

describe("closed chains", () => {
  const ALL: ChainCompressionConfig = {
    enabled: true,
    rollingWindow: 0,
    batchSize: 0,
    stripFinalAssistantThinking: true,
    fuseRangeSummary: true,
  };

  function assistant(timestamp: number, ids: readonly string[]): AssistantMessage {
    const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
    const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
    const content: AssistantMessage["content"] = [
      { type: "text", text: "Well." },
      ...ids.map((id) => ({ type: "toolCall" as const, id, name: "read", arguments: { path: "a.ts" } })),
    ];
    const source = { api: "a", provider: "p", model: "m", usage };
    return { role: "assistant", content, ...source, stopReason: ids.length > 0 ? "toolUse" : "stop", timestamp };
  }

  /** A chain that opens at `start` and makes these calls in one turn. */
  function chainOf(start: number, toolCalls: readonly CapturedToolCall[]): AgentMessage[] {
    const results = toolCalls.map(({ toolCallId, toolName, content, isError, resultTimestamp }): AgentMessage => {
      return { role: "toolResult", toolCallId, toolName, content, isError, timestamp: resultTimestamp ?? 0 };
    });
    const made = assistant(
      start + 1,
      toolCalls.map((one) => one.toolCallId),
    );
    return [{ role: "user", content: "go", timestamp: start }, made, ...results, assistant(start + 90, [])];
  }

  /** Flushes these batches, each a chain of its own, behind which the user has spoken again. */
  async function flushChains(
    batches: readonly CapturedBatch[],
    options: {
      session?: Session;
      summarize?: Summarize;
      fuse?: (summaries: readonly string[]) => Promise<string | null>;
      isCurrentRange?: () => boolean;
      config?: Partial<ChainCompressionConfig>;
      /** Time of a chain's opening, by its number. */
      startOf?: (i: number) => number;
    } = {},
  ) {
    const { session = new Session(), summarize = SHORT, fuse, isCurrentRange = () => true, config } = options;
    const { startOf = (i) => 1000 * (i + 1) } = options;
    const messages = batches.flatMap((captured, i) => chainOf(startOf(i), captured.toolCalls));
    messages.push({ role: "user", content: "and now?", timestamp: 99_000 });
    const { indexer, append } = session;
    const pending = batches.filter(({ toolCalls }) =>
      toolCalls.every((one) => !indexer.isSummarized(one.occurrenceKey)),
    );
    const prepared = await prepareFlush(pending, {
      indexer,
      config: { ...CONFIG, chainCompression: { ...ALL, ...config } },
      summarize,
      chains: { messages, isProtected: () => false, all: true, fuse },
      isRecovery: () => false,
    });
    session.appended = [];
    const report = commitFlush(prepared, { ...UNCHANGED, indexer, append, isCurrentRange });
    return { session, report };
  }

  test("are compressed in the same flush, with the refs that it has given, behind the summaries", async () => {
    const { session, report } = await flushChains([batch(call("c1"), call("c2")), batch(call("c3", { text: "c1" }))]);
    expect(report).toMatchObject({ condensed: 2, duplicates: 1, chains: 2 });
    expect(session.types).toEqual([
      CUSTOM_TYPE_SUMMARY,
      CUSTOM_TYPE_INDEX,
      CUSTOM_TYPE_DEDUP_ALIAS,
      CUSTOM_TYPE_CHAIN,
      CUSTOM_TYPE_CHAIN,
      CUSTOM_TYPE_FRONTIER,
    ]);
    expect(session.data(CUSTOM_TYPE_CHAIN)).toMatchObject([
      { blockId: "b1", toolRefs: ["t1", "t2"], droppedOccurrenceKeys: ["c1@1", "c2@2"] },
      { blockId: "b2", toolRefs: ["t3"], droppedOccurrenceKeys: ["c3@3"] },
    ]);
  });

  test("name also the calls that no summary stands for by refs", async () => {
    const { session } = await flushChains([batch(call("c1"), call("c2"))], {
      summarize: unsplittable("x".repeat(9000)),
    });
    expect(session.types).toEqual([CUSTOM_TYPE_INDEX, CUSTOM_TYPE_CHAIN, CUSTOM_TYPE_FRONTIER]);
    expect(session.data(CUSTOM_TYPE_INDEX)).toMatchObject([{ refs: [{ shortId: "t1" }, { shortId: "t2" }] }]);
    expect(session.data(CUSTOM_TYPE_CHAIN)).toMatchObject([{ toolRefs: ["t1", "t2"] }]);
  });

  test("stand raw where a batch of theirs has failed, and the others do not", async () => {
    const batches = [batch(call("c1")), batch(call("c2"))];
    const { session, report } = await flushChains(batches, { summarize: inTurn(SHORT, null) });
    expect(report).toMatchObject({ chains: 1, failed: 1 });
    expect(session.data(CUSTOM_TYPE_CHAIN)).toMatchObject([{ droppedOccurrenceKeys: ["c1@1"] }]);
  });

  test("stand raw where they have left the context meanwhile", async () => {
    const { report } = await flushChains([batch(call("c1"))], { isCurrentRange: () => false });
    expect(report).toMatchObject({ condensed: 1, chains: 0 });
  });

  test("stand raw where the setting is off", async () => {
    const { session } = await flushChains([batch(call("c1"))], { config: { enabled: false } });
    expect(session.types).not.toContain(CUSTOM_TYPE_CHAIN);
  });

  test("have the summaries of this flush and of earlier ones fused, in the order of the calls", async () => {
    const session = new Session();
    const [first, second] = [call("c1"), call("c2")];
    await session.flush([batch(first)]);
    const asked: (readonly string[])[] = [];
    const fuse = async (summaries: readonly string[]) => {
      asked.push(summaries);
      return "fused";
    };
    const messages = [...chainOf(1000, [first, second]), ...chainOf(3000, []).slice(0, 1)];
    const { indexer, append } = session;
    const prepared = await prepareFlush([batch(second)], {
      indexer,
      config: { ...CONFIG, chainCompression: ALL },
      summarize: SHORT,
      chains: { messages, isProtected: () => false, all: true, fuse },
      isRecovery: () => false,
    });
    session.appended = [];
    commitFlush(prepared, { ...UNCHANGED, indexer, append });
    expect(asked).toEqual([["about c1", "about c2"]]);
    expect(session.data(CUSTOM_TYPE_CHAIN)).toMatchObject([{ rangeSummaryText: "fused", bodySource: "fused" }]);
  });

  test("with one time each have a fused text of their own", async () => {
    const fuse = async (summaries: readonly string[]) => summaries.join(" and ");
    const batches = [batch(call("c1"), call("c2")), batch(call("c3"), call("c4"))];
    const { session } = await flushChains(batches, { fuse, startOf: () => 1000 });
    expect(session.data(CUSTOM_TYPE_CHAIN)).toMatchObject([
      { rangeSummaryText: "about c1 and about c2" },
      { rangeSummaryText: "about c3 and about c4" },
    ]);
  });

  test("whose summary stands with one call alone need no fusing", async () => {
    const asked: (readonly string[])[] = [];
    const fuse = async (summaries: readonly string[]) => {
      asked.push(summaries);
      return "fused";
    };
    const { session } = await flushChains([batch(call("c1"), call("c2"))], { summarize: unsplittable("both"), fuse });
    expect(asked).toEqual([]);
    expect(session.data(CUSTOM_TYPE_CHAIN)).toHaveLength(1);
  });
});

test("all summaries are asked for at once, oldest first; their queue says how many run", async () => {
  const order: (string | undefined)[] = [];
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const session = new Session();
  const flushed = session.flush(
    ["c1", "c2", "c3"].map((id) => batch(call(id))),
    async (captured) => {
      order.push(captured.toolCalls[0]?.toolCallId);
      await held;
      return SHORT(captured);
    },
  );
  expect(order).toEqual(["c1", "c2", "c3"]);
  release();
  await flushed;
  expect(["c1@1", "c2@2", "c3@3"].map((key) => session.stub(key)?.split("\n")[1])).toEqual([
    "about c1",
    "about c2",
    "about c3",
  ]);
});

test("two flushes one after the other are told as one, and as cancelled where either was", () => {
  const one = { ...emptyReport(), condensed: 2, chains: 1, rawChars: 900, keptChars: 100 };
  const other = { ...emptyReport(), condensed: 1, failed: 3, rawChars: 50, keptChars: 20 };
  expect(addReports(one, other)).toEqual({
    ...emptyReport(),
    condensed: 3,
    chains: 1,
    failed: 3,
    rawChars: 950,
    keptChars: 120,
  });
  expect(addReports({ ...one, cancelled: true }, other).cancelled).toBe(true);
  expect(addReports(one, { ...other, cancelled: true }).cancelled).toBe(true);
});
