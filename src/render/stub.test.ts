import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { IMAGE_CHARS } from "../transcript/messages.ts";
import type { ToolCallRecord } from "../types.ts";
import { callStub, duplicateStub, isWorthwhile, recordChars, spillStub } from "./stub.ts";

function record(change: Partial<ToolCallRecord> = {}): ToolCallRecord {
  return {
    toolCallId: "c1",
    toolName: "read",
    args: { path: "src/app.ts" },
    resultText: "x".repeat(14_203),
    isError: false,
    turnIndex: 0,
    timestamp: 1,
    outcome: "ok",
    ...change,
  };
}

function indexed(change: Partial<ToolCallRecord> = {}, shortId = "t12") {
  return { occurrenceKey: "c1@2", shortId, record: record(change) };
}

describe("callStub", () => {
  test("reads as the design has it", () => {
    const text = "- exports createApp() and DEFAULT_PORT = 3000\n- line 88: TODO missing error handler";
    expect(callStub(indexed(), { text })).toBe(
      `[t12 condensed: read src/app.ts, 14,203 chars, ok. Full output: context_tree_query t12]
- exports createApp() and DEFAULT_PORT = 3000
- line 88: TODO missing error handler`,
    );
  });

  test("is its header alone where nothing is to be said", () => {
    const header = "[t12 condensed: read src/app.ts, 14,203 chars, ok. Full output: context_tree_query t12]";
    expect(callStub(indexed(), undefined)).toBe(header);
    expect(callStub(indexed(), { text: "  \n" })).toBe(header);
  });

  test("points to the call that carries the text of the batch", () => {
    expect(callStub(indexed(), { text: "", carriedBy: "t14" })).toEndWith("]\nSummarized together with t14.");
  });

  test.each<[string, Partial<ToolCallRecord>]>([
    ["exit code 1", { outcome: "exit code 1" }],
    ["error: ENOENT", { isError: true, outcome: "error: ENOENT" }],
  ])("says %s", (outcome, change) => {
    expect(callStub(indexed(change), undefined)).toContain(`chars, ${outcome}. Full output`);
  });

  test("a record without an outcome, as earlier releases wrote it, still says whether it failed", () => {
    expect(callStub(indexed({ outcome: undefined }), undefined)).toContain("14,203 chars, ok.");
    expect(callStub(indexed({ outcome: undefined, isError: true }), undefined)).toContain("14,203 chars, error.");
  });

  test("names the size of the original where the record does not hold its text", () => {
    expect(callStub(indexed({ resultText: "", resultChars: 70_000 }), undefined)).toContain(", 70,000 chars, ");
  });

  test("names images", () => {
    expect(callStub(indexed({ resultImages: 1 }), undefined)).toContain("14,203 chars and 1 image, ok");
    expect(callStub(indexed({ resultText: "", resultImages: 3 }), undefined)).toContain("0 chars and 3 images, ok");
  });

  test("says who, what and how it ended in its first 200 characters, on one well-formed line", () => {
    const words = fc.oneof(
      fc.string({ unit: "binary", maxLength: 400 }),
      fc.string({ unit: "grapheme", maxLength: 90 }),
    );
    const subject = fc.record({
      number: fc.integer({ min: 1, max: 99_999 }),
      toolName: fc.constantFrom("read", "bash", "grep", "edit", "mcp__tickets__search"),
      args: fc.oneof(
        words.map((path) => ({ path })),
        words.map((command) => ({ command })),
        fc.tuple(words, words).map(([query, body]) => ({ query, body, depth: 2 })),
      ),
      resultChars: fc.integer({ min: 0, max: 9_999_999 }),
      outcome: fc.constantFrom("ok", "exit code 127", "1,204 matches (limit reached)", `error: ${"e".repeat(200)}`),
    });
    fc.assert(
      fc.property(subject, ({ number, outcome, ...change }) => {
        const stub = callStub(indexed({ ...change, outcome }, `t${number}`), undefined);
        const header =
          /^\[(t\d+) condensed: (\S+).*, ([\d,]+) chars, (.+)\. Full output: context_tree_query (t\d+)\]$/u;
        const [, ref, tool, chars, shown, hint] = header.exec(stub) ?? [];
        expect({ ref, tool, chars, hint }).toEqual({
          ref: `t${number}`,
          tool: change.toolName,
          chars: change.resultChars.toLocaleString("en-US"),
          hint: `t${number}`,
        });
        expect(outcome.startsWith(shown?.replace(/…$/, "") ?? "?")).toBe(true);
        expect(stub.indexOf(". Full output:")).toBeLessThanOrEqual(200);
        expect(stub).not.toMatch(/\p{Surrogate}/u);
      }),
    );
  });
});

describe("duplicateStub", () => {
  test("names both refs, what is repeated, and where it is", () => {
    expect(duplicateStub({ shortId: "t12", original: indexed({}, "t7") })).toBe(
      "[t12 condensed: identical to t7 (read src/app.ts, 14,203 chars). Full output: context_tree_query t7]",
    );
  });

  test("does without a ref of its own where an earlier release gave none", () => {
    expect(duplicateStub({ shortId: undefined, original: indexed({}, "t7") })).toStartWith(
      "[condensed: identical to t7 (",
    );
  });
});

describe("spillStub", () => {
  const spilled = indexed({
    resultText: "",
    resultChars: 70_000,
    spillPath: "/sessions/s-blobs/c1.txt",
    spillBytes: 71_234,
    spillLines: 1_500,
    resultPreview: "first line\nsecond line",
  });

  test("holds tool, arguments, size, lines, ref, preview, path and hint", () => {
    const stub = spillStub(spilled, "/sessions/s-blobs/c1.txt");
    for (const part of [
      "t12",
      "read src/app.ts",
      "71,234 bytes",
      "1,500 lines",
      "context_tree_query t12",
      "first line\nsecond line",
      "/sessions/s-blobs/c1.txt",
      "read this file (offset/limit supported) to access the full output",
    ]) {
      expect(stub).toContain(part);
    }
  });

  test.each<[string, Partial<ToolCallRecord>]>([
    ["a line that read refuses", { spillLongestLine: 60_000 }],
    ["one line, in a record that does not say how long it is", { spillBytes: 232_000, spillLines: 1 }],
  ])("of %s names the way that works", (_what, change) => {
    const { record: base } = spilled;
    const stub = spillStub({ ...spilled, record: { ...base, ...change } }, "/sessions/s-blobs/c1.txt");
    expect(stub).toContain("The whole output is in /sessions/s-blobs/c1.txt, with lines too long for read");
    expect(stub).toContain("use context_tree_query t12 with a pattern");
    expect(stub).not.toContain("offset/limit supported");
    const repeat = duplicateStub(
      { shortId: "t13", original: { ...spilled, record: { ...base, ...change } } },
      "/b.txt",
    );
    expect(repeat).toContain("use context_tree_query t12 with a pattern");
  });

  test("names the file where it is now, and none where it is gone", () => {
    expect(spillStub(spilled, "/moved/c1.txt")).not.toContain("/sessions/");
    const gone = spillStub(spilled, undefined);
    expect(gone).not.toContain("/sessions/");
    expect(gone).not.toContain("read this file");
    expect(gone).toContain("context_tree_query t12");
  });
});

describe("sizes", () => {
  test("of a record are those of its text and its images", () => {
    expect(recordChars(record({ resultText: "12345" }))).toBe(5);
    expect(recordChars(record({ resultText: "", resultChars: 70_000 }))).toBe(70_000);
    expect(recordChars(record({ resultText: "12345", resultImages: 2 }))).toBe(5 + 2 * IMAGE_CHARS);
  });

  test("a stub that is as long as its original is never worth it, nor one that saves next to nothing", () => {
    expect(isWorthwhile(100, 100)).toBe(false);
    expect(isWorthwhile(99, 100)).toBe(false);
    expect(isWorthwhile(0, 0)).toBe(true);
    expect(isWorthwhile(50, 100)).toBe(true);
  });
});
