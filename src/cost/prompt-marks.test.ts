import { expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { estimateMessageTokens } from "../transcript/tokens.ts";
import { PromptMarks } from "./prompt-marks.ts";

test("a message is estimated once while its place, time and size stay, and anew where one of them changes", () => {
  let reads = 0;
  const message = (text: string, timestamp: number): AgentMessage => ({
    role: "user",
    timestamp,
    get content() {
      reads += 1;
      return text;
    },
  });
  const marks = new PromptMarks();
  const readsOf = (rendered: readonly AgentMessage[]) => {
    marks.of(rendered);
    const before = reads;
    const tokens = marks.tokensAt(rendered, 0);
    const made = reads - before;
    expect(tokens).toBe(rendered[0] ? estimateMessageTokens(rendered[0]) : 0);
    return made;
  };
  const first = [message("a text of the user", 1)];
  expect(readsOf(first)).toBe(1);
  expect(readsOf(first)).toBe(0);
  // The next request brings a fresh copy of the same message.
  expect(readsOf([message("a text of the user", 1)])).toBe(0);
  expect(readsOf([message("a longer text of the user", 1)])).toBe(1);
  expect(readsOf([message("a longer text of the user", 2)])).toBe(1);
  expect(readsOf([])).toBe(0);
});
