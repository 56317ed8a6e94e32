import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { cpuMs } from "../../test/support/cpu-time.ts";
import { estimateMessageTokens, estimateTextTokens, estimateTokens, IMAGE_TOKENS } from "./tokens.ts";

const USAGE = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

function reply(
  content: Extract<AgentMessage, { role: "assistant" }>["content"],
  stopReason: "stop" | "aborted" = "stop",
): AgentMessage {
  const from = { api: "anthropic-messages" as const, provider: "p", model: "m" };
  return { role: "assistant", content, ...from, usage: USAGE, stopReason, timestamp: 2 };
}

describe("tokens of a text", () => {
  test.each([
    ["code", "const port = Number(process.env.PORT ?? 3000);\n", 3.3, 4],
    ["accents", "déjà vu, naïve façade, größer", 3.3, 4],
    ["Cyrillic", "исправленаошибка", 2, 2.6],
    ["Chinese", "修复登录测试然后提交", 1, 1.5],
    ["Japanese", "テストを修正してください", 1, 1.5],
    ["Korean", "테스트를고쳐주세요", 1, 1.5],
    ["emoji", "🧪🚀🎉", 0.7, 1.2],
  ])("%s: characters a token", (_name, text, least, most) => {
    const long = text.repeat(100);
    const ratio = long.length / estimateTextTokens(long);
    expect(ratio).toBeGreaterThanOrEqual(least);
    expect(ratio).toBeLessThanOrEqual(most);
  });

  test("add up, and an empty text has none", () => {
    expect(estimateTextTokens("")).toBe(0);
    expect(estimateTextTokens("abc修复")).toBeCloseTo(estimateTextTokens("abc") + estimateTextTokens("修复"), 10);
  });

  test("are counted in one pass", () => {
    const text = "x = y + z; // 注释\n".repeat(100_000);
    expect(cpuMs(() => estimateTextTokens(text))).toBeLessThan(500);
  });
});

describe("tokens of a message", () => {
  const text = "word ".repeat(740);
  const tokens = 1_000;

  test("are its text and a little more", () => {
    const message: AgentMessage = { role: "user", content: [{ type: "text", text }], timestamp: 1 };
    expect(estimateMessageTokens(message)).toBeCloseTo(tokens + 4, 5);
    expect(estimateMessageTokens({ ...message, content: text })).toBeCloseTo(tokens + 4, 5);
  });

  test("count images flat", () => {
    const image = { type: "image" as const, data: "A".repeat(1_000_000), mimeType: "image/png" };
    const message: AgentMessage = {
      role: "toolResult",
      toolCallId: "c1",
      toolName: "read",
      content: [image, image],
      isError: false,
      timestamp: 1,
    };
    expect(estimateMessageTokens(message)).toBe(2 * IMAGE_TOKENS + 4);
  });

  test("count thinking and the arguments of calls", () => {
    const call = { type: "toolCall" as const, id: "c1", name: "write", arguments: { path: "a", content: text } };
    expect(estimateMessageTokens(reply([call]))).toBeGreaterThan(tokens);
    expect(estimateMessageTokens(reply([{ type: "thinking", thinking: text }]))).toBeCloseTo(tokens + 4, 5);
  });

  test("are none where a provider is sent nothing", () => {
    const hidden: AgentMessage = {
      role: "bashExecution",
      command: "ls",
      output: text,
      exitCode: 0,
      cancelled: false,
      truncated: false,
      excludeFromContext: true,
      timestamp: 1,
    };
    expect(estimateMessageTokens(reply([{ type: "text", text }], "aborted"))).toBe(0);
    expect(estimateMessageTokens(hidden)).toBe(0);
    expect(estimateMessageTokens({ ...hidden, excludeFromContext: false })).toBeGreaterThan(tokens);
  });

  test("of a conversation are those of its messages", () => {
    const summary: AgentMessage = { role: "compactionSummary", summary: text, tokensBefore: 1, timestamp: 1 };
    const notice: AgentMessage = { role: "custom", customType: "x", content: text, display: true, timestamp: 1 };
    expect(estimateTokens([summary, notice])).toBeCloseTo(
      estimateMessageTokens(summary) + estimateMessageTokens(notice),
      10,
    );
    expect(estimateTokens([])).toBe(0);
  });
});
