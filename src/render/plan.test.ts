import { describe, expect, test } from "bun:test";
import { EntryTree } from "../../test/support/simulated-session.ts";
import { DEFAULT_CONFIG } from "../config.ts";
import { ToolCallIndexer } from "../indexer.ts";
import { IMAGE_CHARS } from "../transcript/messages.ts";
import {
  CUSTOM_TYPE_CHAIN,
  CUSTOM_TYPE_CHOICE,
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_FRONTIER,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_SUMMARY,
  type ResultChoice,
  type ToolCallRecord,
} from "../types.ts";
import { buildRenderPlan, type PlanOptions, type RenderPlan } from "./plan.ts";
import { callStub, recordChars } from "./stub.ts";

const PLAN_OPTIONS: PlanOptions = {
  ...DEFAULT_CONFIG,
  locateBlob: () => undefined,
  findOriginal: () => undefined,
  stripFinalAssistantThinking: true,
};

function record(toolCallId: string, change: Partial<ToolCallRecord> = {}): ToolCallRecord {
  const base = { toolCallId, toolName: "read", args: { path: "a.ts" }, isError: false, turnIndex: 0, timestamp: 1 };
  return { ...base, resultText: "x".repeat(3000), resultTimestamp: 2, ...change };
}

/** What a session file with an entry for each pair comes to. */
function stateOf(...entries: [string, unknown][]) {
  const tree = new EntryTree();
  for (const [customType, data] of entries) tree.appendCustom(customType, data);
  const indexer = new ToolCallIndexer();
  indexer.reconstructFromSession(tree.getEntries(), tree.branch());
  return indexer.committed();
}

function planOf(...entries: [string, unknown][]): RenderPlan {
  return buildRenderPlan(stateOf(...entries), PLAN_OPTIONS);
}

/** Results with a stub of their own, and their characters before and after. */
function totalsOf(...entries: [string, unknown][]) {
  const { calls, duplicates, pointers } = stateOf(...entries);
  const { replacements } = planOf(...entries);
  const totals = { count: 0, raw: 0, kept: 0 };
  for (const key of [...calls.keys(), ...duplicates.keys()]) {
    const record = (calls.get(key) ?? duplicates.get(key)?.original)?.record;
    const text = replacements.get(key)?.text;
    if (!record || text === undefined || pointers.has(key)) continue;
    totals.count += 1;
    totals.raw += recordChars(record);
    totals.kept += text.length;
  }
  return totals;
}

function index(...toolCalls: ToolCallRecord[]): [string, unknown] {
  const refs = toolCalls.map(({ toolCallId, resultTimestamp }) => ({
    shortId: `t${toolCallId.slice(1)}`,
    toolCallId,
    resultTimestamp,
  }));
  return [CUSTOM_TYPE_INDEX, { toolCalls, refs }];
}

function summary(text: string, shortId: string, occurrenceKey: string): [string, unknown] {
  const parts = [{ shortId, occurrenceKey, text }];
  return [CUSTOM_TYPE_SUMMARY, { text, parts, occurrenceKeys: [occurrenceKey], model: "none" }];
}

const COUNTS = { attemptedBatchCount: 1, attemptedToolCallCount: 1, rawCharCount: 0, summaryCharCount: 0 };
const FRONTIER: [string, unknown] = [
  CUSTOM_TYPE_FRONTIER,
  { lastAttemptedToolCallId: "c1", ...COUNTS, outcome: "summarized" },
];

describe("buildRenderPlan", () => {
  test("has nothing to do in a session without entries", () => {
    const plan = planOf();
    expect(plan.isEmpty).toBe(true);
    expect(plan.replacements.has("c1@2")).toBe(false);
    expect(totalsOf()).toEqual({ count: 0, raw: 0, kept: 0 });
  });

  test("replaces an indexed result by its stub with its summary", () => {
    const one = record("c1");
    const entries = [summary("what it said", "t1", "c1@2"), index(one), FRONTIER];
    const plan = planOf(...entries);
    const text = callStub({ shortId: "t1", record: one }, { text: "what it said" });
    expect(plan.isEmpty).toBe(false);
    expect(plan.replacements.get("c1@2")).toEqual({ occurrenceKey: "c1@2", text, eager: false, savedArguments: 0 });
    expect(plan.replacements.get("c1@3")).toBeUndefined();
    expect(plan.replacements.get("c1")).toBeUndefined();
    expect(totalsOf(...entries)).toEqual({ count: 1, raw: 3000, kept: text.length });
  });

  test("leaves out a stub that would be no shorter than its original", () => {
    const entries = [index(record("c1", { resultText: "x".repeat(60) })), FRONTIER];
    expect(planOf(...entries).replacements.has("c1@2")).toBe(false);
    expect(totalsOf(...entries)).toEqual({ count: 0, raw: 0, kept: 0 });
  });

  test("leaves out a stub whose summary makes it longer than its original", () => {
    const long = summary("y".repeat(3000), "t1", "c1@2");
    expect(planOf(long, index(record("c1")), FRONTIER).replacements.has("c1@2")).toBe(false);
  });

  test("counts an image at its price", () => {
    expect(totalsOf(index(record("c1", { resultText: "", resultImages: 1 })), FRONTIER)).toMatchObject({
      count: 1,
      raw: IMAGE_CHARS,
    });
  });

  test("points from a repeat to its original", () => {
    const alias = { newToolCallId: "c2", newResultTimestamp: 5, originalToolCallId: "c1", originalResultTimestamp: 2 };
    const entry: [string, unknown] = [CUSTOM_TYPE_DEDUP_ALIAS, { ...alias, shortId: "t2" }];
    const entries = [index(record("c1")), entry, FRONTIER];
    expect(planOf(...entries).replacements.get("c2@5")?.text).toContain("t2 condensed: identical to t1 (");
    expect(totalsOf(...entries).count).toBe(2);
  });

  test("says where the blob of a spilled result is now, and so does a repeat of it", () => {
    const spill = { spillPath: "/old/c1.txt", spillBytes: 70_000, spillLines: 3, resultPreview: "head" };
    const spilled = record("c1", { resultText: "", resultChars: 70_000, ...spill });
    const alias = { newToolCallId: "c2", newResultTimestamp: 5, originalToolCallId: "c1", originalResultTimestamp: 2 };
    const entry: [string, unknown] = [CUSTOM_TYPE_DEDUP_ALIAS, { ...alias, shortId: "t2", eager: true }];
    const locateBlob = ({ spillPath }: ToolCallRecord) => (spillPath === "/old/c1.txt" ? "/new/c1.txt" : undefined);
    const { replacements } = buildRenderPlan(stateOf(index(spilled), entry), { ...PLAN_OPTIONS, locateBlob });
    expect(replacements.get("c1@2")).toMatchObject({ eager: true, text: expect.stringContaining("/new/c1.txt") });
    expect(replacements.get("c2@5")).toMatchObject({ eager: true, text: expect.stringContaining("/new/c1.txt") });
  });

  test("counts no result that a pointer stands for", () => {
    const pointers = [{ toolCallId: "c1", occurrenceKey: "c1@2", text: "[was shown here]" }];
    const frontier: [string, unknown] = [CUSTOM_TYPE_FRONTIER, { ...Object(FRONTIER[1]), pointers }];
    const entries = [index(record("c1"), record("c2")), frontier];
    expect(planOf(...entries).replacements.get("c1@2")?.text).toBe("[was shown here]");
    expect(totalsOf(...entries)).toMatchObject({ count: 1, raw: 3000 });
  });

  test("knows which replacements go by the bare id of an earlier release", () => {
    const bare = record("c1", { resultTimestamp: undefined });
    const plan = planOf(index(bare, record("c2")), FRONTIER);
    expect(plan.replacements.has("c1")).toBe(true);
    expect(plan.replacements.has("c2@2")).toBe(true);
    expect([...plan.bareIds]).toEqual(["c1"]);
  });

  test("says the same each time it is asked, whatever is asked first", () => {
    const entries = [summary("text", "t1", "c1@2"), index(record("c1"), record("c2")), FRONTIER];
    const [one, other] = [planOf(...entries), planOf(...entries)];
    const whole = ["c1@2", "c2@2"].map((key) => other.replacements.get(key));
    for (const key of ["c2@2", "c1@2", "c1@2"]) {
      expect(one.replacements.get(key)).toEqual(other.replacements.get(key));
    }
    expect(["c1@2", "c2@2"].map((key) => one.replacements.get(key))).toEqual(whole);
  });
});

const choose = (occurrenceKey: string, choice: ResultChoice): [string, unknown] => [
  CUSTOM_TYPE_CHOICE,
  { occurrenceKey, shortId: "t1", choice },
];

/** A chain of these results, which may have been put back by hand. */
const chainOf = (keys: readonly string[], more: object = {}): [string, unknown] => [
  CUSTOM_TYPE_CHAIN,
  {
    ...{ blockId: "b1", startUserTimestamp: 0, finalAssistantTimestamp: 3, toolRefs: ["t1"], compressedAt: 0 },
    ...{ droppedToolCallIds: keys.map((key) => key.split("@")[0]), droppedOccurrenceKeys: keys, ...more },
  },
];

test.each<[string, [string, unknown][], [boolean, boolean]]>([
  ["nothing: a long result has a stub, a short one none", [], [true, false]],
  ["keep: it stays as it is", [choose("c1@2", "keep")], [false, false]],
  ["drop: it goes, however short it is", [choose("c2@2", "drop")], [true, true]],
])("what the person says of a result: %s", (_, said, [long, short]) => {
  const { replacements, argumentsOf } = planOf(
    ...[index(record("c1"), record("c2", { resultText: "x".repeat(300) })), ...said, FRONTIER],
  );
  expect([replacements.has("c1@2"), replacements.has("c2@2")]).toEqual([long, short]);
  expect(argumentsOf("c1@2") !== undefined).toBe(long);
});

test("the results of a chain that was put back stand raw, but for what was spilled", () => {
  const spill = { spillPath: "/old/c3.txt", spillBytes: 70_000, spillLines: 3, resultPreview: "head" };
  const records = index(record("c1"), record("c3", { ...spill, resultText: "", resultChars: 70_000 }));
  const alias = (id: string, original: string, more: object): [string, unknown] => [
    CUSTOM_TYPE_DEDUP_ALIAS,
    {
      ...{ newToolCallId: id, newResultTimestamp: 5, shortId: `t${id.slice(1)}`, ...more },
      ...{ originalToolCallId: original, originalResultTimestamp: 2 },
    },
  ];
  const entries = [records, alias("c4", "c1", {}), alias("c5", "c3", { eager: true })];
  const keys = ["c1@2", "c3@2", "c4@5", "c5@5"];
  const stubsWith = (more: object) => {
    const { replacements } = planOf(...entries, chainOf(keys, more), FRONTIER);
    return keys.map((key) => replacements.has(key));
  };
  expect(stubsWith({})).toEqual([true, true, true, true]);
  expect(stubsWith({ active: false })).toEqual([false, true, false, true]);
});

test.each<[string, Partial<ToolCallRecord>, string[], boolean]>([
  ["go with its stub", {}, [], true],
  ["of a spilled result wait", { spillPath: "/old/c1.txt" }, [], false],
  ["of a spilled result go once they have had their time", { spillPath: "/old/c1.txt" }, ["c1@2"], true],
  ["of a failed call wait", { isError: true }, [], false],
  ["of a failed call go once they have had their time", { isError: true }, ["c1@2"], true],
])("the arguments of a call %s", (_, change, purgedOccurrenceKeys, go) => {
  const frontier: [string, unknown] = [CUSTOM_TYPE_FRONTIER, { ...Object(FRONTIER[1]), purgedOccurrenceKeys }];
  const spill = { spillBytes: 70_000, spillLines: 3, resultPreview: "head" };
  const one = record("c1", { ...("spillPath" in change ? spill : {}), ...change });
  expect(planOf(index(one), frontier).argumentsOf("c1@2") !== undefined).toBe(go);
});

// A quarter of 10,000 characters and the reply, of which a stub may have three.
test.each<[string, number, Partial<ToolCallRecord>, boolean]>([
  ["may be longer than the reply", 1_000, {}, true],
  ["may have so much of what the arguments lose", 2_500, {}, false],
  ["has no such room after a failed call", 300, { isError: true }, false],
  ["has no such room in a record without a time", 300, { resultTimestamp: undefined }, false],
])("the stub of a change %s: %p characters", (_, chars, change, isReplaced) => {
  const args = { path: "a.ts", content: "x".repeat(10_000) };
  const written = record("c1", { toolName: "write", args, resultText: "written", ...change });
  const key = written.resultTimestamp === undefined ? "c1" : "c1@2";
  const frontier: [string, unknown] = [CUSTOM_TYPE_FRONTIER, { ...Object(FRONTIER[1]), purgedOccurrenceKeys: [key] }];
  const { replacements } = planOf(summary("y".repeat(chars), "t1", key), index(written), frontier);
  expect(replacements.has(key)).toBe(isReplaced);
});

describe("the body of a compressed chain", () => {
  const MARKED = "<protect>keep this</protect>";
  const chain = chainOf(["c1@2"]);
  const marked = index(record("c1", { resultText: `${MARKED}${"x".repeat(3000)}` }));
  const said = summary("what it said", "t1", "c1@2");

  test.each([
    ["the result", [said, marked]],
    [
      "the summary, where the result is kept elsewhere",
      [summary(`what it said\n${MARKED}`, "t1", "c1@2"), index(record("c1"))],
    ],
  ] satisfies [string, [string, unknown][]][])("holds what is marked in %s, once", (_, entries) => {
    const plan = buildRenderPlan(stateOf(...entries, chain, FRONTIER), { ...PLAN_OPTIONS, protectTags: true });
    expect(plan.chains[0]?.body.split(MARKED)).toHaveLength(2);
  });

  test("leaves out what the person keeps, and has what was protected and is dropped", () => {
    const protectedPart = { protectedToolCallIds: ["c2"], protectedOccurrenceKeys: ["c2@2"] };
    const entries = [index(record("c1"), record("c2")), chainOf(["c1@2", "c2@2"], protectedPart)];
    const refsWith = (...said: [string, unknown][]) =>
      planOf(...entries, ...said, FRONTIER).chains.map(({ body }) => body.match(/\bt\d\b/g));
    expect(refsWith()).toEqual([["t1"]]);
    const earlier = chainOf(["c1@2", "c2@2"], { protectedToolCallIds: ["c2"] });
    expect(planOf(entries[0] ?? FRONTIER, earlier, FRONTIER).chains[0]?.body).not.toContain("t2");
    expect(refsWith(choose("c1@2", "keep"), choose("c2@2", "drop"))).toEqual([["t2"]]);
  });

  test("is made anew for other settings, and taken over for the same", () => {
    const state = stateOf(said, marked, chain, FRONTIER);
    const [config, other] = [
      { ...DEFAULT_CONFIG, protectTags: true },
      { ...DEFAULT_CONFIG, protectTags: false },
    ];
    const previous = buildRenderPlan(state, { ...PLAN_OPTIONS, ...config, config });
    const next = (settings: typeof config) =>
      buildRenderPlan(state, { ...PLAN_OPTIONS, ...settings, config: settings, previous }).chains[0];
    expect(previous.chains[0]?.body).toContain(MARKED);
    expect(next(config)).toBe(previous.chains[0]);
    expect(next(other)?.body).not.toContain(MARKED);
  });
});
