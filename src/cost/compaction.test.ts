import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { type CompactionAnnouncement, type CompactionQuestion, CompactionWatch } from "./compaction.ts";

const WINDOW = 100_000;
const RESERVE = 16_384;
const preparation = { settings: { reserveTokens: RESERVE } };

function reply(totalTokens: number, timestamp = 1, stopReason: AssistantMessage["stopReason"] = "stop"): AgentMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: totalTokens, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens, cost };
  const content: AssistantMessage["content"] = [{ type: "text", text: "So." }];
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp };
}

/** A message of about so many tokens. */
function user(tokens: number): AgentMessage {
  return { role: "user", content: "x".repeat(tokens * 3.7), timestamp: 0 };
}

function question(tokens: number, more: Partial<CompactionQuestion> = {}): CompactionQuestion {
  const base = { reason: "threshold" as const, messages: [reply(90_000)], systemPrompt: "", window: WINDOW };
  return { ...base, rendered: [user(tokens)], reserveTokens: RESERVE, ...more };
}

describe("the reason", () => {
  const asked = { messages: [reply(90_000)], window: WINDOW, now: 1_000 };

  test.each(["manual", "threshold", "overflow"] as const)("is what the host says: %s", (reason) => {
    expect(new CompactionWatch().reasonOf({ reason, preparation }, asked)).toBe(reason);
  });

  test("where none is given, is the size right after the host has looked, and a person's will at any other time", () => {
    const watch = new CompactionWatch();
    expect(watch.reasonOf({ preparation }, asked)).toBe("manual");
    watch.hostLooks(900);
    expect(watch.reasonOf({ preparation }, asked)).toBe("threshold");
    const later = (announcement: CompactionAnnouncement, at: Partial<typeof asked> = {}) => {
      watch.hostLooks(900);
      return watch.reasonOf(announcement, { ...asked, ...at });
    };
    expect(later({ preparation }, { now: 5_000 })).toBe("manual");
    expect(later({ preparation, customInstructions: "the API" })).toBe("manual");
    expect(later({ preparation, reason: "something new" })).toBe("manual");
    expect(later({ preparation }, { window: undefined })).toBe("manual");
    expect(later({ preparation }, { messages: [reply(90_000, 1, "aborted")] })).toBe("manual");
    expect(later({ preparation: { settings: { reserveTokens: RESERVE, enabled: false } } })).toBe("manual");
    expect(later({ preparation: { settings: { reserveTokens: RESERVE, enabled: true } } })).toBe("threshold");
  });

  test("where none is given, is a person's will from the second announcement after a look on", () => {
    const watch = new CompactionWatch();
    watch.hostLooks(900);
    expect(watch.reasonOf({ preparation }, asked)).toBe("threshold");
    expect(watch.reasonOf({ preparation }, asked)).toBe("manual");
  });

  test("where none is given, is not the size while the last reply was below the threshold, nor after an error", () => {
    const watch = new CompactionWatch();
    watch.hostLooks(900);
    expect(watch.reasonOf({ preparation }, { ...asked, messages: [reply(50_000)] })).toBe("manual");
    watch.hostLooks(900);
    expect(watch.reasonOf({ preparation }, { ...asked, messages: [reply(0, 1, "error")] })).toBe("overflow");
  });
});

describe("a compaction is needless", () => {
  test("where what would be sent fits below the threshold, system prompt, tools and a margin included", () => {
    const watch = new CompactionWatch();
    expect(watch.isNeedless(question(60_000))).toBe(true);
    expect(watch.isNeedless(question(80_000))).toBe(false);
    expect(watch.isNeedless(question(60_000, { systemPrompt: "x".repeat(80_000) }))).toBe(false);
    expect(watch.isNeedless(question(60_000, { window: undefined }))).toBe(false);
    expect(watch.isNeedless(question(60_000, { reserveTokens: 50_000 }))).toBe(false);
  });

  test.each(["manual", "overflow"] as const)("never where the reason is %s, however small the context", (reason) => {
    const watch = new CompactionWatch();
    fc.assert(fc.property(fc.nat(WINDOW), (tokens) => !watch.isNeedless(question(tokens, { reason }))));
  });

  test("a second time only where a reply since the first was below the threshold", () => {
    const watch = new CompactionWatch();
    watch.avert(10);
    // The host looks again before the next prompt, and nothing has been sent meanwhile.
    expect(watch.isNeedless(question(10_000, { messages: [reply(90_000, 5)] }))).toBe(true);
    expect(watch.isNeedless(question(10_000, { messages: [reply(90_000, 5), reply(90_000, 20)] }))).toBe(false);
    const fell = [reply(90_000, 5), reply(30_000, 20), reply(90_000, 30)];
    expect(watch.isNeedless(question(10_000, { messages: fell }))).toBe(true);
    expect(watch.averted).toBe(1);
  });
});
