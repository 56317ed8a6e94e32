import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ToolCall } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import fc from "fast-check";
import { HeldLines } from "./held-lines.ts";
import { recordedUses, totalUses, UseCounter } from "./use-counter.ts";
import { UseFinder } from "./uses.ts";

let clock = 0;

function user(content: string): AgentMessage {
  return { role: "user", content, timestamp: ++clock };
}

function call(name: string, args: ToolCall["arguments"], id = `c${clock}`, text = ""): AgentMessage {
  const counts = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
  const usage = { ...counts, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
  const from = { api: "openai-completions" as const, provider: "p", model: "m" };
  const said = text === "" ? [] : [{ type: "text" as const, text }];
  const content = [...said, { type: "toolCall" as const, id, name, arguments: args }];
  return { role: "assistant", content, ...from, usage, stopReason: "toolUse", timestamp: ++clock };
}

function result(toolCallId: string, text: string, toolName = "read"): AgentMessage {
  const content = [{ type: "text" as const, text }];
  return { role: "toolResult", toolCallId, toolName, content, isError: false, timestamp: ++clock };
}

/** What the last of the messages uses. */
function usesOfLast(...messages: AgentMessage[]) {
  const finder = new UseFinder();
  const last = messages.map((message) => finder.add(message)).at(-1);
  if (!last) throw new Error("the last message is no reply");
  return last;
}

const READ = [call("read", { path: "src/a.ts" }, "r"), result("r", "  1\tconst answer = 42;\n  2\tconst b = 1;")];

describe("a reply uses", () => {
  test("a result of which it replaces a line, numbered or not", () => {
    const { uses, edits } = usesOfLast(...READ, call("edit", { path: "src/a.ts", oldText: "  const answer = 42;\n" }));
    expect(edits).toBe(1);
    expect(uses).toMatchObject([
      { tool: "edit", isEdit: true, age: 1, lines: ["const answer = 42;"], origin: { kind: "result", tool: "read" } },
    ]);
    expect(uses[0]?.origin).toMatchObject({ file: "src/a.ts", chars: 39 });
    expect(uses[0]?.origin.key).toStartWith("r@");
  });

  test.each([
    ["old_string", { file_path: "x", old_string: "const answer = 42;" }],
    ["edits[]", { path: "x", edits: [{ oldText: "const answer = 42;", newText: "" }] }],
    ["TargetContent", { TargetFile: "x", TargetContent: "const answer = 42;" }],
    ["the removed lines of a patch", { patchText: "*** Begin Patch\n@@\n-const answer = 42;\n+const answer = 43;" }],
    ["the context lines of a patch", { input: "--- a\n+++ b\n@@ -1 +1 @@\n const answer = 42;\n+more" }],
    ["a patch within a command", { command: "apply_patch <<'E'\n*** Begin Patch\n@@\n-const answer = 42;\nE" }],
  ])("what an edit names by %s, whatever the tool is called", (_name, args) => {
    expect(usesOfLast(...READ, call("anything", args))).toMatchObject({ edits: 1, uses: [{ isEdit: true }] });
  });

  test("25 characters where it replaces nothing, and 12 where it does", () => {
    const output = result("r", "twelve chars\nthis line is twenty-five!");
    const before = [call("bash", { command: "ls" }, "r"), output];
    expect(usesOfLast(...before, call("bash", { command: "twelve chars" })).uses).toEqual([]);
    expect(usesOfLast(...before, call("bash", { command: "this line is twenty-five!" })).uses).toHaveLength(1);
    expect(usesOfLast(...before, call("edit", { oldText: "twelve chars" })).uses).toHaveLength(1);
    expect(usesOfLast(...before, call("edit", { oldText: "eleven char" })).uses).toEqual([]);
  });

  test("no line that the user or a reply has said", () => {
    const edit = call("edit", { oldText: "const answer = 42;" });
    expect(usesOfLast(user("Look at\nconst answer = 42;"), ...READ, edit).uses).toEqual([]);
    expect(usesOfLast(...READ, call("ls", {}, "l", "I see\nconst answer = 42;"), edit).uses).toEqual([]);
  });

  test("arguments of an earlier call, the newest first", () => {
    const write = call("write", { path: "b.ts", content: "const answer = 42;\n" }, "w");
    const { uses } = usesOfLast(...READ, write, result("w", "ok"), call("edit", { oldText: "const answer = 42;" }));
    expect(uses).toMatchObject([{ age: 1, origin: { kind: "arguments", tool: "write", file: "b.ts" } }]);
    expect(uses[0]?.origin.key).toStartWith("w@");
  });

  test("what is nested to any depth", () => {
    let args: ToolCall["arguments"] = { oldText: "const answer = 42;" };
    for (let depth = 0; depth < 100_000; depth++) args = { edits: [args] };
    expect(usesOfLast(...READ, call("edit", args)).uses).toHaveLength(1);
  });
});

describe("lines held by a request", () => {
  const piece = fc.constantFrom("const answer = 42;", "const answer = 4", "return 1234567;", "\n", " ", "é𝒳\ud800");
  const text = fc.array(piece, { maxLength: 8 }).map((parts) => parts.join(""));

  test("are those that one of its texts contains, whatever the request before was", () => {
    const lines = ["const answer = 42;", "return 1234567;", "answer = 42;x", "const answer = 42;return"];
    fc.assert(
      fc.property(fc.array(fc.array(text, { maxLength: 5 }), { maxLength: 5 }), (requests) => {
        const held = new HeldLines(lines);
        for (const texts of requests) {
          held.update(texts.map((part, i) => (i % 2 === 0 ? user(part) : result("x", part))));
          for (const line of lines) expect(held.has(line)).toBe(texts.some((part) => part.includes(line)));
        }
      }),
    );
  });
});

describe("the counter", () => {
  const edit = call("edit", { oldText: "const answer = 42;" });
  const messages = [...READ, edit];
  const entries = messages.map((message, i): SessionEntry => {
    return { type: "message", id: `${i}`, parentId: null, timestamp: "", message };
  });

  test("finds missed what no message of the request holds any more", () => {
    const counter = new UseCounter(recordedUses(entries));
    const whole = counter.request(2, messages.slice(0, 2));
    const condensed = counter.request(2, [...messages.slice(0, 1), result("r", "[t1 condensed]")]);
    const elsewhere = counter.request(2, [user("x"), result("q", "if (x) { const answer = 42; }")]);
    expect([whole, condensed, elsewhere].map(({ missedEdits }) => missedEdits)).toEqual([0, 1, 0]);
    expect(totalUses([whole, condensed])).toMatchObject({
      uses: 2,
      misses: 1,
      edits: 2,
      missedEdits: 1,
      byTool: { read: { uses: 2, misses: 1 } },
      byAge: { "1": { uses: 2, misses: 1 }, "33+": { uses: 0, misses: 0 } },
    });
  });
});
