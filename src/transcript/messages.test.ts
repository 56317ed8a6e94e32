import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolResultMessage } from "@mariozechner/pi-ai";
import {
  contentChars,
  countImages,
  extractToolResultText,
  IMAGE_CHARS,
  isAnswer,
  isClosingReply,
  isText,
  lastAnswerIndex,
  occurrenceKey,
  textOf,
  toolCallsOf,
} from "./messages.ts";

type Content = AssistantMessage["content"];
type StopReason = AssistantMessage["stopReason"];

const IMAGE = { type: "image", data: "AAAA", mimeType: "image/png" } as const;
const TEXT: Content[number] = { type: "text", text: "hi" };
const TWELVE = { type: "text", text: "twelve chars" } as const;
const THINKING: Content[number] = { type: "thinking", thinking: "hm" };
const CALL: Content[number] = { type: "toolCall", id: "c1", name: "read", arguments: {} };

function assistant(stopReason: StopReason, content: Content = [TEXT]): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp: 1 };
}

function result(content: ToolResultMessage["content"]): ToolResultMessage {
  return { role: "toolResult", toolCallId: "c1", toolName: "read", content, isError: false, timestamp: 2 };
}

const USER: AgentMessage = { role: "user", content: "go", timestamp: 0 };

describe("isAnswer", () => {
  test.each<[StopReason, boolean]>([
    ["stop", true],
    ["toolUse", true],
    ["length", true],
    ["error", false],
    ["aborted", false],
  ])("a reply that ended by %s: %p", (stopReason, expected) => {
    expect(isAnswer(assistant(stopReason))).toBe(expected);
  });

  test("a user message is none", () => {
    expect(isAnswer(USER)).toBe(false);
  });
});

describe("isClosingReply", () => {
  test.each<[StopReason, boolean]>([
    ["stop", true],
    ["length", false],
    ["error", false],
    ["aborted", false],
  ])("a text-only reply that ended by %s: %p", (stopReason, expected) => {
    expect(isClosingReply(assistant(stopReason))).toBe(expected);
  });

  test("a reply with a call closes nothing, whatever it says it ended by", () => {
    expect(isClosingReply(assistant("toolUse", [TEXT, CALL]))).toBe(false);
    expect(isClosingReply(assistant("stop", [TEXT, CALL]))).toBe(false);
  });
});

describe("toolCallsOf", () => {
  test("gives the calls in order, without text and thinking", () => {
    const second = { ...CALL, id: "c2" };
    expect(toolCallsOf(assistant("toolUse", [THINKING, CALL, TEXT, second])).map((call) => call.id)).toEqual([
      "c1",
      "c2",
    ]);
  });

  test("tolerates a message whose content is no list, as other extensions write it", () => {
    expect(toolCallsOf(Object.assign(assistant("stop"), { content: "plain" }))).toEqual([]);
  });
});

describe("extractToolResultText", () => {
  test("joins text blocks by a line break and leaves images out", () => {
    expect(extractToolResultText(result([{ type: "text", text: "a" }, IMAGE, { type: "text", text: "b" }]))).toBe(
      "a\nb",
    );
  });

  test("keeps every character of a single block", () => {
    const text = " \r\n\u0000 \ud83d\ude00 \n";
    expect(extractToolResultText(result([{ type: "text", text }]))).toBe(text);
  });

  test("is empty for an image alone, for no blocks, and for content that is no list", () => {
    expect(extractToolResultText(result([IMAGE]))).toBe("");
    expect(extractToolResultText(result([]))).toBe("");
    expect(extractToolResultText(Object.assign(result([]), { content: undefined }))).toBe("");
  });
});

describe("isText", () => {
  test("takes a text block with a text, and nothing that merely looks like one", () => {
    expect(isText(TEXT)).toBe(true);
    expect(isText({ type: "text" })).toBe(false);
    expect(isText(Object.assign({ type: "text" }, { text: 7 }))).toBe(false);
    expect(isText(Object.assign({ type: "caption" }, { text: "hi" }))).toBe(false);
  });
});

describe("textOf", () => {
  test("takes plain text as it is", () => {
    expect(textOf("plain")).toBe("plain");
  });

  test("thinking is no text", () => {
    expect(textOf([THINKING, TEXT])).toBe("hi");
  });
});

describe("sizes", () => {
  test("text counts by its characters, an image at its flat price, other blocks not at all", () => {
    const blocks: readonly { type: string }[] = [{ type: "audio" }, IMAGE, IMAGE, ...result([TWELVE]).content];
    expect(contentChars(blocks)).toBe(12 + 2 * IMAGE_CHARS);
  });

  test("images are counted", () => {
    expect(countImages([IMAGE, { type: "text" }, IMAGE])).toBe(2);
  });
});

describe("occurrenceKey", () => {
  test("holds id and time; the bare id where no time is known", () => {
    expect(occurrenceKey("c1", 5)).toBe("c1@5");
    expect(occurrenceKey("c1", 0)).toBe("c1@0");
    expect(occurrenceKey("c1")).toBe("c1");
  });
});

describe("lastAnswerIndex", () => {
  test("passes over errored replies", () => {
    expect(lastAnswerIndex([USER, assistant("stop"), USER, assistant("error")])).toBe(1);
  });

  test("is -1 where the model has said nothing yet", () => {
    expect(lastAnswerIndex([USER, assistant("aborted")])).toBe(-1);
  });
});
