import { expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { CacheBreakpoints } from "./breakpoints.ts";
import { markOf } from "./prompt-marks.ts";

const user = (text: string, timestamp: number): AgentMessage => ({ role: "user", content: text, timestamp });

function result(text: string, timestamp: number): AgentMessage {
  const content = [{ type: "text" as const, text }];
  return { role: "toolResult", toolCallId: `c${timestamp}`, toolName: "read", content, isError: false, timestamp };
}

function after(...prompts: AgentMessage[][]): number[] {
  const ends = new CacheBreakpoints();
  for (const prompt of prompts) ends.requestLeaves(prompt.map(markOf));
  return [...ends.lengths];
}

const first = [user("a", 1)];
const second = [...first, result("an output", 2)];
const third = [...second, result("another output", 3)];

test("every prompt that the last one begins with has left its end", () => {
  expect(after()).toEqual([]);
  expect(after(first, second, third)).toEqual([1, 2, 3]);
});

test("what was replaced takes the ends at and behind it along", () => {
  const condensed = [...first, result("a stub", 2), result("another output", 3), user("b", 4)];
  expect(after(first, second, third, condensed)).toEqual([1, 4]);
});

test("so does a message that is gone, or another one in its place", () => {
  expect(after(first, second, third, [...first, result("another output", 3)])).toEqual([1, 2]);
  expect(after(first, second, third, second)).toEqual([1, 2]);
  expect(after(first, second, [user("c", 9)])).toEqual([1]);
});

test("none is left of a cache that is cold", () => {
  const ends = new CacheBreakpoints();
  ends.requestLeaves(second.map(markOf));
  ends.clear();
  expect([...ends.lengths]).toEqual([]);
});
