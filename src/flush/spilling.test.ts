import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { EntryTree } from "../../test/support/simulated-session.ts";
import { contentHash } from "../capture/duplicates.ts";
import { ToolCallIndexer } from "../indexer.ts";
import { blobDirFor, blobPathFor, headPreview } from "../spill.ts";
import { extractToolResultText, occurrenceKey } from "../transcript/messages.ts";
import {
  type CapturedBatch,
  type CapturedToolCall,
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_INDEX,
  type IndexEntryData,
} from "../types.ts";
import { type SpillDeps, spillOversized } from "./spilling.ts";

const LINES = Array.from({ length: 3_000 }, (_, i) => `${i + 1}: a line of the output — with a dash`);
const TEXT = LINES.join("\n");

let sessionDir: string;
let blobDir: string;
let tree: EntryTree;
let indexer: ToolCallIndexer;
let deps: SpillDeps;

beforeEach(() => {
  sessionDir = fs.mkdtempSync(join(tmpdir(), "pi-condense-oversized-"));
  blobDir = blobDirFor(sessionDir, "session");
  tree = new EntryTree(sessionDir);
  indexer = new ToolCallIndexer();
  indexer.reconstructFromSession([], []);
  let folded = 0;
  deps = {
    indexer,
    append: (customType, data) => void tree.appendCustom(customType, data),
    sync: () => {
      const entries = tree.getEntries();
      for (const entry of entries.slice(folded)) indexer.fold(entry);
      folded = entries.length;
    },
    blobDir,
    config: { dedupByContentHash: true, spillPreviewBytes: 2_048 },
  };
});

afterEach(() => fs.rmSync(sessionDir, { recursive: true }));

function captured(toolCallId: string, text = TEXT, more: Partial<CapturedToolCall> = {}): CapturedToolCall {
  const content = more.content ?? [{ type: "text", text }];
  const call = { toolCallId, toolName: "fetch", args: { url: "https://x.test/a" }, isError: false, ...more };
  const resultTimestamp = more.resultTimestamp ?? 1_000;
  const resultText = extractToolResultText({ content });
  const resultImages = content.length - content.filter((block) => block.type === "text").length;
  const key = occurrenceKey(toolCallId, resultTimestamp);
  return { ...call, content, resultText, resultImages, resultTimestamp, occurrenceKey: key };
}

function batch(...toolCalls: CapturedToolCall[]): CapturedBatch {
  return { turnIndex: 3, timestamp: 990, assistantText: "Fetching.", toolCalls };
}

function customs(): { type: string; data: unknown }[] {
  return tree
    .getEntries()
    .flatMap((entry) => (entry.type === "custom" ? [{ type: entry.customType, data: entry.data }] : []));
}

function blobs(): string[] {
  return fs.existsSync(blobDir) ? fs.readdirSync(blobDir).toSorted() : [];
}

describe("a result that is written", () => {
  test("stands in its blob to the byte, and its record holds preview and hash in its place", () => {
    const call = captured("call_1");
    expect(spillOversized([batch(call)], deps)).toEqual([]);

    const path = blobPathFor(blobDir, call.occurrenceKey);
    expect(fs.readFileSync(path, "utf8")).toBe(TEXT);
    expect(blobs()).toEqual([basename(path)]);
    expect(customs()).toHaveLength(1);
    expect(customs()[0]?.type).toBe(CUSTOM_TYPE_INDEX);
    const index = customs()[0]?.data as IndexEntryData | undefined;
    expect(index?.refs).toEqual([{ shortId: "t1", toolCallId: "call_1", resultTimestamp: 1_000 }]);
    expect(index?.toolCalls).toEqual([
      {
        toolCallId: "call_1",
        toolName: "fetch",
        args: { url: "https://x.test/a" },
        resultText: "",
        isError: false,
        turnIndex: 3,
        timestamp: 990,
        resultTimestamp: 1_000,
        resultChars: TEXT.length,
        contentHash: contentHash(call),
        spillPath: path,
        spillBytes: Buffer.byteLength(TEXT),
        spillLines: LINES.length,
        spillLongestLine: Math.max(...LINES.map((line) => Buffer.byteLength(line))),
        resultPreview: headPreview(TEXT, 2_048),
      },
    ]);
    expect(indexer.isSummarized(call.occurrenceKey)).toBe(true);
    expect(indexer.committed().calls.has(call.occurrenceKey)).toBe(true);
  });

  test("keeps its error flag and the number of its images", () => {
    const image = { type: "image" as const, data: "aGVsbG8=", mimeType: "image/png" };
    const call = captured("call_1", "", { isError: true, content: [{ type: "text", text: TEXT }, image] });
    spillOversized([batch(call)], deps);
    expect(indexer.getRecord(call.occurrenceKey)).toMatchObject({ isError: true, resultImages: 1 });
    expect(fs.readFileSync(blobPathFor(blobDir, call.occurrenceKey), "utf8")).toBe(TEXT);
  });

  test("has a preview of at most half its text", () => {
    deps.config.spillPreviewBytes = 65_536;
    const short = captured("call_1", TEXT.slice(0, 5_000));
    spillOversized([batch(short)], deps);
    const preview = indexer.getRecord(short.occurrenceKey)?.resultPreview ?? "";
    expect(preview).toBe(headPreview(short.resultText, 2_500));
    expect(preview.length).toBeGreaterThan(2_300);
  });

  test("has none where the settings want none", () => {
    deps.config.spillPreviewBytes = 0;
    const call = captured("call_1");
    spillOversized([batch(call)], deps);
    expect(indexer.getRecord(call.occurrenceKey)).toMatchObject({ resultPreview: "" });
  });

  test.each([
    ["a way out", "../../../etc/passwd"],
    ["a folder", "a/b"],
    ["dots", ".."],
    ["nothing", ""],
    ["a device", "CON"],
    ["very long", "x".repeat(5_000)],
    ["not ASCII", "é💥"],
    ["a null character", "call\0"],
  ])("stands in the blob folder where its id is %s", (_name, id) => {
    const call = captured(id);
    expect(spillOversized([batch(call)], deps)).toEqual([]);
    const { spillPath = "" } = indexer.getRecord(call.occurrenceKey) ?? {};
    expect(dirname(spillPath)).toBe(blobDir);
    expect(blobs()).toEqual([basename(spillPath)]);
    expect(fs.readdirSync(sessionDir)).toEqual([basename(blobDir)]);
  });

  test("each in a file of its own, in one batch or several, also under one id", () => {
    const calls = ["a", "b", "c"].map((id, i) => captured(id, `${id}${TEXT}`, { resultTimestamp: i }));
    const again = captured("a", `again${TEXT}`, { resultTimestamp: 9 });
    const [a, b, c] = calls as [CapturedToolCall, CapturedToolCall, CapturedToolCall];
    expect(spillOversized([batch(a, b), batch(c, again)], deps)).toEqual([]);
    expect(blobs()).toHaveLength(4);
    expect([...calls, again].map((call) => indexer.refOf(call.occurrenceKey))).toEqual(["t1", "t2", "t3", "t4"]);
  });

  test("is taken over where a crash left the file without a record", () => {
    const call = captured("call_1");
    const crash = { ...deps, append: () => {}, sync: () => {} };
    spillOversized([batch(call)], crash);
    expect(customs()).toEqual([]);
    const before = fs.statSync(blobPathFor(blobDir, call.occurrenceKey)).ino;
    expect(spillOversized([batch(call)], deps)).toEqual([]);
    expect(fs.statSync(blobPathFor(blobDir, call.occurrenceKey)).ino).toBe(before);
    expect(customs()).toHaveLength(1);
  });
});

describe("a repeat", () => {
  test.each<[string, (...calls: CapturedToolCall[]) => CapturedBatch[]]>([
    ["of the same batch", (...calls) => [batch(...calls)]],
    ["of a later batch", (...calls) => calls.map((call) => batch(call))],
  ])("%s becomes an alias at once, without a second file", (_name, arrange) => {
    const [first, second] = [captured("call_1"), captured("call_2", TEXT, { args: { url: "https://x.test/b" } })];
    expect(spillOversized(arrange(first, second), deps)).toEqual([]);
    expect(blobs()).toHaveLength(1);
    expect(customs().map(({ type }) => type)).toEqual([CUSTOM_TYPE_INDEX, CUSTOM_TYPE_DEDUP_ALIAS]);
    expect(customs()[1]?.data).toEqual({
      newToolCallId: "call_2",
      newResultTimestamp: 1_000,
      originalToolCallId: "call_1",
      originalResultTimestamp: 1_000,
      contentHash: contentHash(first),
      shortId: "t2",
      eager: true,
    });
    const original = indexer.getRecord(first.occurrenceKey);
    expect(original?.spillPath).toBe(blobPathFor(blobDir, first.occurrenceKey));
    expect(indexer.getRecord(second.occurrenceKey)).toBe(original);
    expect(indexer.isSummarized(second.occurrenceKey)).toBe(true);
    expect(indexer.committed().duplicates.get(second.occurrenceKey)?.eager).toBe(true);
  });

  test("of a repeat names the first", () => {
    const calls = ["call_1", "call_2", "call_3"].map((id) => captured(id));
    spillOversized([batch(...calls)], deps);
    expect(customs()[2]?.data).toMatchObject({ newToolCallId: "call_3", originalToolCallId: "call_1" });
    expect(blobs()).toHaveLength(1);
  });

  test.each<[string, CapturedToolCall]>([
    ["another tool", captured("call_2", TEXT, { toolName: "search" })],
    ["an error", captured("call_2", TEXT, { isError: true })],
    ["another text of the same length", captured("call_2", `${TEXT.slice(0, -1)}!`)],
  ])("is none from %s", (_name, other) => {
    spillOversized([batch(captured("call_1"), other)], deps);
    expect(blobs()).toHaveLength(2);
    expect(customs().map(({ type }) => type)).toEqual([CUSTOM_TYPE_INDEX, CUSTOM_TYPE_INDEX]);
  });

  test("is written again where repeats are not looked for", () => {
    deps.config.dedupByContentHash = false;
    spillOversized([batch(captured("call_1"), captured("call_2"))], deps);
    expect(blobs()).toHaveLength(2);
    expect(customs().map(({ type }) => type)).toEqual([CUSTOM_TYPE_INDEX, CUSTOM_TYPE_INDEX]);
  });
});

describe("a result that cannot be written", () => {
  test("leaves nothing behind, and the others are written all the same", () => {
    const [first, second, third] = [captured("a", `a${TEXT}`), captured("b", `b${TEXT}`), captured("c", `c${TEXT}`)];
    fs.mkdirSync(blobPathFor(blobDir, second.occurrenceKey), { recursive: true });
    const before = blobs();
    const failures = spillOversized([batch(first, second), batch(third)], deps);
    expect(failures).toEqual([{ occurrenceKey: second.occurrenceKey, reason: expect.stringContaining(blobDir) }]);
    expect(blobs()).toEqual(
      [...before, ...[first, third].map((call) => basename(blobPathFor(blobDir, call.occurrenceKey)))].toSorted(),
    );
    expect(customs()).toHaveLength(2);
    expect(indexer.isSummarized(second.occurrenceKey)).toBe(false);
    // No ref was given for it.
    expect(indexer.refs()).toEqual(["t1", "t2"]);
  });

  test("tells one reason for all of a folder, and no content", () => {
    fs.writeFileSync(blobDir, "in the way");
    const failures = spillOversized([batch(captured("a", `a${TEXT}`), captured("b", `b${TEXT}`))], deps);
    expect(failures).toHaveLength(2);
    expect(new Set(failures.map(({ reason }) => reason)).size).toBe(1);
    expect(failures[0]?.reason).toContain(sessionDir);
    expect(failures[0]?.reason).not.toContain("a line of the output");
    expect(fs.readFileSync(blobDir, "utf8")).toBe("in the way");
    expect(customs()).toEqual([]);
  });

  test("nor what UTF-8 could not give back", () => {
    const call = captured("call_1", `${TEXT}\ud800`);
    expect(spillOversized([batch(call)], deps)).toEqual([
      { occurrenceKey: call.occurrenceKey, reason: "the text is not well-formed Unicode" },
    ]);
    expect(blobs()).toEqual([]);
    expect(customs()).toEqual([]);
  });
});

test("without results nothing is made", () => {
  expect(spillOversized([], deps)).toEqual([]);
  expect(spillOversized([batch()], deps)).toEqual([]);
  expect(fs.readdirSync(sessionDir)).toEqual([]);
});
