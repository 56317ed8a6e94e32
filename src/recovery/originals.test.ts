import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ToolCall } from "@mariozechner/pi-ai";
import { DEFAULT_MAX_BYTES, DEFAULT_MAX_LINES } from "@mariozechner/pi-coding-agent";
import fc from "fast-check";
import { EntryTree } from "../../test/support/simulated-session.ts";
import { contentHash } from "../capture/duplicates.ts";
import { ToolCallIndexer } from "../indexer.ts";
import {
  CUSTOM_TYPE_CHAIN,
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_FRONTIER,
  CUSTOM_TYPE_INDEX,
  type ResultContent,
  type ToolCallRecord,
} from "../types.ts";
import { pageOf, type RecoveredOutput, recover } from "./originals.ts";

setDefaultTimeout(60_000);

const IMAGE = { type: "image" as const, data: "AAAA", mimeType: "image/png" };

function record(toolCallId: string, change: Partial<ToolCallRecord> = {}): ToolCallRecord {
  const base = { toolCallId, toolName: "read", args: { path: "a.ts" }, isError: false, turnIndex: 0, timestamp: 1 };
  return { ...base, resultText: `text of ${toolCallId}`, resultTimestamp: 2, ...change };
}

/** A session file with results and records, and what it answers. */
class Session {
  readonly tree = new EntryTree();
  readonly blobs = new Map<string, string>();

  result(toolCallId: string, timestamp: number, content: ResultContent): this {
    const message = { role: "toolResult" as const, toolCallId, toolName: "read", content, isError: false, timestamp };
    this.tree.appendMessage(message);
    return this;
  }

  index(shortId: string, one: ToolCallRecord): this {
    const { toolCallId, resultTimestamp } = one;
    const ref = { shortId, toolCallId, resultTimestamp };
    this.tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [one], refs: [ref] });
    return this;
  }

  ask(name: string) {
    const indexer = new ToolCallIndexer();
    const entries = this.tree.getEntries();
    indexer.reconstructFromSession(entries, this.tree.branch());
    const dropped = new Set([...indexer.chains().values()].flatMap((chain) => chain.droppedToolCallIds));
    return recover(name, {
      indexer,
      entries,
      readBlob: (path) => this.blobs.get(path),
      isInContext: ({ toolCallId }) => !dropped.has(toolCallId),
    });
  }

  /** Outputs that the name stands for. */
  found(name: string): Pick<RecoveredOutput, "name" | "text" | "images" | "note">[] {
    const recovery = this.ask(name);
    if (recovery.kind !== "found") throw new Error(recovery.message);
    return recovery.outputs.map(({ name: shown, text, images, note }) => ({ name: shown, text, images, note }));
  }

  missing(name: string): string {
    const recovery = this.ask(name);
    return recovery.kind === "missing" ? recovery.message : "found";
  }
}

describe("names", () => {
  const session = new Session().index("t1", record("toolu_1")).index("t12", record("toolu_2"));

  test.each(["t12", "T12", " t12\n", "`t12`", "[t12]", "**t12**", "<t12>", '"t12"', "t12.", "#t12:"])(
    "%p is t12",
    (name) => {
      expect(session.found(name)).toMatchObject([{ name: "t12", text: "text of toolu_2" }]);
    },
  );

  test("a raw tool call id names its result, under its ref", () => {
    expect(session.found("toolu_2")).toMatchObject([{ name: "t12", text: "text of toolu_2" }]);
  });

  test.each(["t123", "t2", "at12", "12", "t", ""])("%p is not t12", (name) => {
    expect(session.ask(name).kind).toBe("missing");
  });

  test("an id that was used again gives every occurrence, each under its own ref", () => {
    const reused = new Session()
      .index("t1", record("c1", { resultText: "first" }))
      .index("t2", record("c1", { resultText: "second", resultTimestamp: 9 }));
    expect(reused.found("c1")).toMatchObject([
      { name: "t1", text: "first" },
      { name: "t2", text: "second" },
    ]);
    expect(reused.found("t2")).toHaveLength(1);
  });

  test("a ref that two processes gave answers for both results", () => {
    const twice = new Session().index("t1", record("c1")).index("t1", record("c2"));
    expect(twice.found("t1").map(({ text }) => text)).toEqual(["text of c1", "text of c2"]);
  });

  test("the ref of a repeat gives what it repeats", () => {
    const repeated = new Session().index("t1", record("c1"));
    repeated.tree.appendCustom(CUSTOM_TYPE_DEDUP_ALIAS, {
      newToolCallId: "c2",
      newResultTimestamp: 5,
      originalToolCallId: "c1",
      originalResultTimestamp: 2,
      shortId: "t2",
    });
    expect(repeated.found("t2")).toMatchObject([{ name: "t2", text: "text of c1" }]);
  });
});

describe("a compressed chain", () => {
  const CHAIN = { blockId: "b3", startUserTimestamp: 1, finalAssistantTimestamp: 9, compressedAt: 10 };

  test.each(["b3", "B3", "`b3`", "[b3]"])(
    "%p gives every output that it stands for, in the order of the calls",
    (name) => {
      const session = new Session().index("t1", record("c1")).index("t2", record("c2"));
      session.tree.appendCustom(CUSTOM_TYPE_CHAIN, {
        ...CHAIN,
        droppedToolCallIds: ["c2", "c1"],
        droppedOccurrenceKeys: ["c2@2", "c1@2"],
        toolRefs: ["t2", "t1"],
      });
      const counts = { attemptedBatchCount: 1, attemptedToolCallCount: 2, rawCharCount: 0, summaryCharCount: 0 };
      const frontier = { lastAttemptedToolCallId: "c2", ...counts, outcome: "summarized" };
      session.tree.appendCustom(CUSTOM_TYPE_FRONTIER, frontier);
      expect(session.found(name)).toMatchObject([
        { name: "t2", text: "text of c2" },
        { name: "t1", text: "text of c1" },
      ]);
    },
  );

  test("answers also for what an earlier release dropped without a record, from the session's own message", () => {
    const session = new Session().result("c1", 2, [{ type: "text", text: "raw" }, IMAGE]);
    session.tree.appendCustom(CUSTOM_TYPE_CHAIN, { ...CHAIN, droppedToolCallIds: ["c1"], toolRefs: [] });
    expect(session.found("c1")).toMatchObject([{ name: "c1", text: "raw", images: [IMAGE] }]);
  });
});

describe("arguments", () => {
  function made(toolCallId: string, args: ToolCall["arguments"]): AgentMessage {
    const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
    const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
    const content = [{ type: "toolCall" as const, id: toolCallId, name: "read", arguments: args }];
    const source = { api: "a", provider: "p", model: "m", usage };
    return { role: "assistant", content, ...source, stopReason: "toolUse", timestamp: 1 };
  }

  test("of a repeat are its own, though its output is that of the original", () => {
    const session = new Session();
    session.tree.appendMessage(made("c2", { path: "b.ts" }));
    session.result("c2", 5, [{ type: "text", text: "text of c1" }]).index("t1", record("c1"));
    session.tree.appendCustom(CUSTOM_TYPE_DEDUP_ALIAS, {
      newToolCallId: "c2",
      newResultTimestamp: 5,
      originalToolCallId: "c1",
      originalResultTimestamp: 2,
      shortId: "t2",
    });
    const recovery = session.ask("t2");
    expect(recovery.kind === "found" && recovery.outputs[0]).toMatchObject({
      args: { path: "b.ts" },
      text: "text of c1",
    });
  });
});

describe("what cannot be found", () => {
  const session = new Session()
    .result("toolu_raw", 5, [{ type: "text", text: "raw" }])
    .index("t7", record("toolu_7"))
    .index("t12", record("toolu_12"));

  test("an unknown ref is told the valid forms and the nearest known ones", () => {
    const message = session.missing("t13");
    expect(message).toContain('Unknown ref "t13"');
    expect(message).toContain("[t12 condensed: …]");
    expect(message).toContain("raw tool call ids");
    expect(message).toMatch(/Nearest known: t12/);
  });

  test("a name that resembles none is told of the last refs", () => {
    expect(session.missing("the output of the build")).toMatch(/t7, t12\.$/);
  });

  test("a result that stands in the context as it is is told apart from an unknown one", () => {
    expect(session.missing("toolu_raw")).toContain("not condensed");
    expect(session.missing("toolu_raw")).not.toContain("Unknown");
    expect(session.missing("toolu_none")).not.toContain("not condensed");
  });

  test("where nothing has been condensed, that is said", () => {
    expect(new Session().missing("t1")).toContain("nothing has been condensed");
  });
});

describe("the original", () => {
  test("of an empty output is empty, even where nothing else of it is left", () => {
    expect(new Session().index("t1", record("c1", { resultText: "" })).found("t1")).toEqual([
      { name: "t1", text: "", images: [], note: undefined },
    ]);
  });

  test("comes from the record, without looking any further", () => {
    const session = new Session().result("c1", 2, [{ type: "text", text: "other" }]).index("t1", record("c1"));
    expect(session.found("t1")).toEqual([{ name: "t1", text: "text of c1", images: [], note: undefined }]);
  });

  test("has its images from the session's own message", () => {
    const session = new Session()
      .result("c1", 2, [{ type: "text", text: "text of c1" }, IMAGE, IMAGE])
      .index("t1", record("c1", { resultImages: 2 }));
    expect(session.found("t1")).toMatchObject([{ text: "text of c1", images: [IMAGE, IMAGE] }]);
  });

  test("of an image alone is that image", () => {
    const session = new Session()
      .result("c1", 2, [IMAGE])
      .index("t1", record("c1", { resultText: "", resultImages: 1 }));
    expect(session.found("t1")).toMatchObject([{ text: "", images: [IMAGE] }]);
  });

  test("is that of its own occurrence, not of another with the same id", () => {
    const session = new Session()
      .result("c1", 2, [{ type: "text", text: "first" }])
      .result("c1", 9, [{ type: "text", text: "second" }, IMAGE])
      .index("t1", record("c1", { resultText: "", resultImages: 1, resultTimestamp: 9 }));
    expect(session.found("t1")).toMatchObject([{ text: "second", images: [IMAGE] }]);
  });

  describe("of a spilled result", () => {
    const spilled = record("c1", { resultText: "", spillPath: "/blobs/c1.txt", resultPreview: "prev" });

    test("comes from the blob", () => {
      const session = new Session().result("c1", 2, [{ type: "text", text: "raw" }]).index("t1", spilled);
      session.blobs.set("/blobs/c1.txt", "whole blob");
      expect(session.found("t1")).toMatchObject([{ text: "whole blob" }]);
    });

    const hash = contentHash({ toolName: "read", isError: false, content: [{ type: "text", text: "body" }] });
    const hashed = { ...spilled, contentHash: hash, spillBytes: 4 };

    test.each(["bodY", "short"])(
      "comes from the session where the blob was changed to %p, and that is said",
      (text) => {
        const session = new Session().result("c1", 2, [{ type: "text", text: "body" }]).index("t1", hashed);
        session.blobs.set("/blobs/c1.txt", text);
        expect(session.found("t1")).toMatchObject([
          { text: "body", note: expect.stringContaining("has been changed") },
        ]);
      },
    );

    test("comes from the blob with a note where nothing is left to compare it with", () => {
      const session = new Session().index("t1", hashed);
      session.blobs.set("/blobs/c1.txt", "bodY");
      expect(session.found("t1")).toMatchObject([{ text: "bodY", note: expect.stringContaining("may have been") }]);
      session.blobs.set("/blobs/c1.txt", "body");
      expect(session.found("t1")).toMatchObject([{ text: "body", note: undefined }]);
    });

    test("comes from the session where the blob is gone", () => {
      const session = new Session().result("c1", 2, [{ type: "text", text: "raw" }]).index("t1", spilled);
      expect(session.found("t1")).toMatchObject([{ text: "raw", note: undefined }]);
    });

    test("is its preview, with a note, where both are gone", () => {
      const [output] = new Session().index("t1", spilled).found("t1");
      expect(output).toMatchObject({ text: "prev", note: expect.stringContaining("preview") });
    });
  });

  test("asking changes nothing, however often", () => {
    const session = new Session().result("c1", 2, [IMAGE]).index("t1", record("c1", { resultImages: 1 }));
    const before = JSON.stringify(session.tree.getEntries());
    expect(session.found("t1")).toEqual(session.found("t1"));
    expect(JSON.stringify(session.tree.getEntries())).toBe(before);
  });
});

describe("pageOf", () => {
  /** Every page in a row, from the start to the end. */
  function pagesOf(text: string, options: { limit?: number; share?: number } = {}): string[] {
    const pages: string[] = [];
    let offset = 0;
    do {
      const page = pageOf(text, { ...options, offset });
      expect(page).toMatchObject({ start: offset, total: text.length });
      expect(page.body).toBe(text.slice(page.start, page.end));
      if (text.length > 0) expect(page.end).toBeGreaterThan(offset);
      pages.push(page.body);
      offset = page.end;
    } while (offset < text.length);
    return pages;
  }

  test("a text that fits is one page", () => {
    expect(pageOf("a\nb\n", {})).toEqual({ body: "a\nb\n", start: 0, end: 4, total: 4 });
    expect(pageOf("", {})).toEqual({ body: "", start: 0, end: 0, total: 0 });
  });

  test("an offset behind the end is an empty page that still tells the size", () => {
    expect(pageOf("abc", { offset: 9 })).toEqual({ body: "", start: 3, end: 3, total: 3 });
  });

  test("ends behind a line break where the text has lines", () => {
    const text = Array.from({ length: 9000 }, (_, i) => `line number ${i}`).join("\n");
    const pages = pagesOf(text);
    expect(pages.length).toBeGreaterThan(2);
    for (const page of pages.slice(0, -1)) expect(page).toEndWith("\n");
    expect(pages.join("")).toBe(text);
  });

  test("holds no more lines and bytes than the host's own tools give", () => {
    for (const text of ["x\n".repeat(7000), "wide line ".repeat(30_000), "é\n".repeat(60_000)]) {
      for (const page of pagesOf(text)) {
        expect(Buffer.byteLength(page)).toBeLessThanOrEqual(DEFAULT_MAX_BYTES + 1);
        expect(page.split("\n").length).toBeLessThanOrEqual(DEFAULT_MAX_LINES + 1);
      }
    }
  });

  test("several answers share what the host's tools give", () => {
    const page = pageOf("x".repeat(200_000), { share: 5 });
    expect(page.body.length).toBe(DEFAULT_MAX_BYTES / 5);
  });

  test("a limit holds", () => {
    expect(pageOf("abcdef", { limit: 4 })).toMatchObject({ body: "abcd", end: 4 });
    expect(pageOf("abcdef", { offset: 2, limit: 3 })).toMatchObject({ body: "cde", end: 5 });
  });

  test("no page begins or ends inside a character", () => {
    const text = "a\ud83d\ude00b";
    expect(pageOf(text, { limit: 2 }).body).toBe("a");
    expect(pageOf(text, { offset: 2 }).body).toBe("\ud83d\ude00b");
    expect(pageOf(text, { offset: 1, limit: 1 }).body).toBe("\ud83d\ude00");
  });

  /** Lines of all kinds: empty, wide, in several scripts, with either line break, with halves of pairs and marks of order. */
  const piece = fc.oneof(
    fc.string({ unit: "binary", maxLength: 40 }),
    fc.constantFrom("\n", "\r\n", "\n\n", "\ufeff", "\ufffd", "\ud83d", "\ude00", "", "日本語テキスト"),
    fc.nat(4000).map((n) => "x".repeat(n)),
    fc.nat(2500).map((n) => "\n".repeat(n)),
    fc.nat(3000).map((n) => "😀".repeat(n)),
  );

  test("pages in a row join to the original, for any text and any limit", () => {
    const limits = fc.record({
      limit: fc.option(fc.integer({ min: 700, max: 60_000 }), { nil: undefined }),
      share: fc.integer({ min: 1, max: 60 }),
    });
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), limits, (pieces, options) => {
        const text = pieces.join("");
        expect(pagesOf(text, options).join("")).toBe(text);
      }),
    );
  });

  test("so they do for short texts and limits of a few characters", () => {
    const text = fc.array(fc.constantFrom("a", "\n", "\r\n", "😀", "\ud83d", "é"), { maxLength: 12 });
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 4 }), (pieces, limit) => {
        expect(pagesOf(pieces.join(""), { limit }).join("")).toBe(pieces.join(""));
      }),
    );
  });

  test("a page from any offset is the text from there on", () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 6 }), fc.nat(20_000), (pieces, offset) => {
        const text = pieces.join("");
        const page = pageOf(text, { offset });
        expect(page.body).toBe(text.slice(page.start, page.end));
        expect(Math.min(offset, text.length) - page.start).toBeOneOf([0, 1]);
        if (offset < text.length) expect(page.end).toBeGreaterThan(page.start);
      }),
    );
  });
});
