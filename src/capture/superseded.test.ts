import { expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { DEFAULT_CONFIG } from "../config.ts";
import { protectionOf } from "./protection.ts";
import { SupersededScan, supersededKeys } from "./superseded.ts";

const isProtected = protectionOf(DEFAULT_CONFIG, "/work/app");

interface Step {
  tool: string;
  args: ToolCall["arguments"];
  text: string;
  isError?: boolean;
}

/** A conversation of one call a turn, whose results have the keys `c0@0`, `c1@1` and so on. */
function conversation(steps: readonly Step[]): AgentMessage[] {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  return steps.flatMap(({ tool, args, text, isError = false }, i): AgentMessage[] => {
    const content: AssistantMessage["content"] = [{ type: "toolCall", id: `c${i}`, name: tool, arguments: args }];
    return [
      { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason: "toolUse", timestamp: i },
      {
        role: "toolResult",
        toolCallId: `c${i}`,
        toolName: tool,
        content: [{ type: "text", text }],
        isError,
        timestamp: i,
      },
    ];
  });
}

const superseded = (...steps: Step[]) => [...supersededKeys(conversation(steps), isProtected)];
const read = (text: string, path = "AGENTS.md"): Step => ({ tool: "read", args: { path }, text });

test("a second reading leaves only the newest, whatever it gives", () => {
  expect(superseded(read("one"), read("two"), read("three"))).toEqual(["c0@0", "c1@1"]);
  expect(superseded(read("one"), read("two", "api/AGENTS.md"))).toEqual([]);
});

test("the same text by another tool is a second reading", () => {
  expect(superseded(read("rules"), { tool: "bash", args: { command: "cat AGENTS.md" }, text: "rules" })).toEqual([
    "c0@0",
  ]);
  expect(superseded(read("rules"), { tool: "bash", args: { command: "head AGENTS.md" }, text: "ru" })).toEqual([]);
});

test("a note that nothing has changed replaces no file, while a list may become short", () => {
  const rules = read("rule\n".repeat(50));
  expect(superseded(rules, read("File unchanged since your last read."))).toEqual([]);
  expect(superseded(rules, read("File unchanged."), rules)).toEqual(["c0@0"]);
  const list = (text: string): Step => ({ tool: "todowrite", args: {}, text });
  expect(superseded(list("task\n".repeat(50)), list("No todos"))).toEqual(["c0@0"]);
});

test("a failed reading neither replaces nor gives way", () => {
  expect(superseded(read("one"), { ...read("no such file"), isError: true })).toEqual([]);
  expect(superseded({ ...read("no such file"), isError: true }, read("one"))).toEqual([]);
});

test("of whole lists the newest stays, of answers and steps each", () => {
  const list = (text: string): Step => ({ tool: "todowrite", args: { todos: [text] }, text });
  expect(superseded(list("a"), list("a b"), list("a b c"))).toEqual(["c0@0", "c1@1"]);
  const answer = (text: string): Step => ({ tool: "question", args: { question: "Go on?" }, text });
  expect(superseded(answer("yes"), answer("no"))).toEqual([]);
  const step = (text: string): Step => ({ tool: "todo", args: { action: "add", text }, text: `Added ${text}` });
  expect(superseded(step("a"), step("b"))).toEqual([]);
});

test("what is not protected is left alone", () => {
  expect(superseded(read("x", "src/a.ts"), read("x", "src/a.ts"))).toEqual([]);
});

const step = fc.record({
  tool: fc.constantFrom("read", "todowrite", "bash"),
  args: fc.constantFrom<Step["args"]>({ path: "AGENTS.md" }, { path: "CLAUDE.md" }, { command: "cat AGENTS.md" }),
  text: fc.constantFrom("a", "b", "c"),
  isError: fc.boolean(),
});

test("the newest of each text is never given up", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      const gone = supersededKeys(conversation(steps), isProtected);
      const last = steps.findLastIndex(({ isError }) => !isError);
      expect(gone.has(`c${last}@${last}`)).toBe(false);
      for (const [i, { isError }] of steps.entries()) if (isError) expect(gone.has(`c${i}@${i}`)).toBe(false);
    }),
  );
});

test("a conversation that is asked about while it grows, shrinks or becomes another gives the same as from scratch", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), fc.array(fc.nat({ max: 24 }), { maxLength: 8 }), (steps, ends) => {
      const scan = new SupersededScan();
      const messages = conversation(steps);
      const other = conversation(steps.toReversed());
      for (const end of ends) {
        for (const part of [messages.slice(0, end), messages, other.slice(0, end)]) {
          expect([...scan.keysIn(part, isProtected)]).toEqual([...supersededKeys(part, isProtected)]);
        }
      }
    }),
  );
});
