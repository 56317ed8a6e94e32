import { describe, expect, test } from "bun:test";
import type { CapturedBatch } from "../types.ts";
import { buildSummaryRequest } from "./prompt.ts";
import { faultOf, MAX_REPLY_CHARS, replyText, saysSomething } from "./reply.ts";
import type { TroubleKind } from "./trouble.ts";

const call = (toolCallId: string, path: string, resultText: string): CapturedBatch["toolCalls"][number] => ({
  ...{ occurrenceKey: `${toolCallId}@2`, toolCallId, toolName: "read", args: { path }, resultText },
  ...{ content: [{ type: "text", text: resultText }], resultImages: 0, isError: false, resultTimestamp: 2 },
});
const CALLS = [call("c1", "src/app.ts", "export function createApp() {}"), call("c2", "b.md", "# Setup guide")];
const REQUEST = buildSummaryRequest({ turnIndex: 0, timestamp: 1, assistantText: "", toolCalls: CALLS }, 10_000);

/** What stands in the way of a reply, as it came. */
const fault = (reply: string) => faultOf(replyText(reply), REQUEST)?.kind;

describe("replyText", () => {
  test.each<[string, string, string]>([
    ["a closed block", "<think>hm</think>\n[1] good", "[1] good"],
    ["a block of several lines with a draft", "<think>\n[1] draft\n\nhmm\n</think>\n\n[1] good", "[1] good"],
    ["other names and cases", "<Thinking>a</Thinking><REASONING>b</REASONING> good", "good"],
    ["blocks between sections", "[1] one\n<think>and now</think>\n[2] two", "[1] one\n\n[2] two"],
    ["a block within a block", "<think>a <think>b</think> c</think>good", "good"],
    ["thinking that the template opened", "The user wants it short.\n[1] draft\n</think>\n[1] good", "[1] good"],
    ["a block that never ends", "<think>Let me see what the output says and", ""],
    ["a draft in a block that never ends", "<think>\n[1] createApp", ""],
    ["a second block that never ends", "<think>a</think>[1] one\n<think>and", ""],
    ["a code fence around all of it", "```markdown\n[1] good\n```", "[1] good"],
    [
      "tags that a summary speaks of",
      "[1] strips `<think>` and `</think>` tags",
      "[1] strips `<think>` and `</think>` tags",
    ],
    ["nothing at all", "[1] a < b", "[1] a < b"],
  ])("of %s", (_what, reply, text) => {
    expect(replyText(reply)).toBe(text);
  });
});

describe("a reply is a summary where it", () => {
  test.each<[string, string]>([
    ["marks the calls", "[1] fine\n[2] two headings"],
    ["marks one of them", "[1] ok"],
    ["marks them in bold", "**[1]** fine"],
    ["has a word of theirs without a mark", "It exports createApp."],
    ["lists names as code has them", "- exports renderPage() and DEFAULT_PORT"],
    ["names their tool or their file", "Both were read; app has one function."],
    ["is in letters that cannot be compared", "两个文件都很短。"],
    ["stands behind thinking", "<think>Port 99999?</think>\n- exports createApp() and DEFAULT_PORT"],
    ["declines one call of two", "[1] fine\n[2] I can't help with that"],
    ["speaks of a refusal", "[1] the function says: I'm sorry, I can't help with that"],
    ["opens with some words of its own", "Sorry for the delay.\n[1] exports createApp()"],
    ["says that there was nothing", "[1] No output."],
  ])("%s", (_what, reply) => {
    expect(fault(reply)).toBeUndefined();
  });
});

describe("a reply is none where it", () => {
  test.each<[string, string, TroubleKind]>([
    ["is a dash", "-", "empty"],
    ["is dots", "...", "empty"],
    ["is a ruler", "---\n***", "empty"],
    ["is a mark", "[1]", "empty"],
    ["is marks", "[1]\n[2] -", "empty"],
    ["is a number", "42", "empty"],
    ["is an empty code fence", "```\n\n```", "empty"],
    ["has zero width", "\u200b\u200b\ufeff", "empty"],
    ["only thinks", "<think>createApp</think>", "empty"],
    ["only begins to think", "<think>createApp and", "empty"],
    ["declines", "I can't help with that", "refused"],
    ["declines with another apostrophe", "I’m sorry, but I can’t assist with that request about createApp.", "refused"],
    ["declines at length", "I cannot process this content as it may violate policy.", "refused"],
    ["declines behind a mark", "[1] I'm unable to summarize createApp.\n[2] As an AI, I cannot.", "refused"],
    ["declines as a list", "- Unfortunately, I cannot read app.", "refused"],
    ["declines in another language", "抱歉，我无法提供帮助。", "refused"],
    ["asks back", "Could you please provide the tool calls you would like me to summarize?", "refused"],
    [
      "repeats the instructions",
      "Answer with one section for each call, in order, each opened by its number",
      "refused",
    ],
    ["is about something else", `{"summary": "ok"}`, "refused"],
    ["is a page", "<html><body>502 Bad Gateway: app</body></html>", "refused"],
    ["is a call", `<tool_call>{"name":"read","arguments":{"path":"x"}}</tool_call>`, "refused"],
    ["announces one", "Let me check.", "refused"],
    ["lists nothing of theirs", "- It is a nice day.\n- Birds sing.", "refused"],
    ["has no end", `[1] ${"x".repeat(MAX_REPLY_CHARS)}`, "cut"],
  ])("%s", (_what, reply, kind) => {
    expect(fault(reply)).toBe(kind);
  });
});

describe("saysSomething", () => {
  test.each<[string, boolean]>([
    ["exports createApp()", true],
    ["no matches", true],
    ["None of the tests failed.", true],
    ["- ok", true],
    ["N/A", false],
    ["- None.", false],
    ["No output available.", false],
    ["…", false],
    ["I'm sorry, but I cannot summarise this.", false],
  ])("%p: %p", (section, says) => {
    expect(saysSomething(section)).toBe(says);
  });
});
