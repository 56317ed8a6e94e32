import { describe, expect, test } from "bun:test";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { parseSession } from "../replay/session-file.ts";
import { Answers } from "./answers.ts";
import { changesNothing } from "./calls.ts";
import { RecordedFiles } from "./recorded-files.ts";

const CWD = "/repo";

type Turn = [name: string, args: Record<string, unknown>, output: string, isError?: boolean];

/** A session of one call a reply. */
function recorded(...turns: Turn[]): SessionEntry[] {
  const messages = turns.flatMap(([name, args, output, isError = false], i) => [
    { role: "assistant", content: [{ type: "toolCall", id: `c${i}`, name, arguments: args }], stopReason: "toolUse" },
    { role: "toolResult", toolCallId: `c${i}`, toolName: name, content: [{ type: "text", text: output }], isError },
  ]);
  const lines = messages.map((message, i) =>
    JSON.stringify({
      type: "message",
      id: `e${i}`,
      parentId: i > 0 ? `e${i - 1}` : null,
      message: { ...message, timestamp: i },
    }),
  );
  return parseSession([`{"type":"session","version":3,"id":"s","cwd":"${CWD}"}`, ...lines].join("\n"), "test").entries;
}

/** Answers as they are after the first `turns` of a session. */
function answersAfter(
  turns: number,
  entries: SessionEntry[],
): (name: string, args: object) => Promise<[string, boolean]> {
  const answers = new Answers(new RecordedFiles(entries, turns * 2, CWD), CWD, undefined);
  return async (name, args) => {
    const { text, known } = await answers.answer({ name, arguments: { ...args } });
    return [text, known];
  };
}

const read = (path: string, output: string, range: object = {}): Turn => ["read", { path, ...range }, output];

describe("answers from a recording", () => {
  test("give a file as it stood: read, edited, read again in parts", async () => {
    const entries = recorded(
      read("a.ts", "one\ntwo\nthree\nfour"),
      ["edit", { path: "a.ts", edits: [{ oldText: "two", newText: "2\n2b" }] }, "done"],
      ["edit", { path: "/repo/a.ts", oldText: "gone", newText: "x" }, "Could not find the text", true],
      ["write", { path: "b.ts", content: "all\nof b" }, "done"],
    );
    const before = answersAfter(1, entries);
    expect(await before("read", { path: "a.ts" })).toEqual(["one\ntwo\nthree\nfour", true]);
    expect((await before("read", { path: "b.ts" }))[1]).toBe(false);
    const after = answersAfter(4, entries);
    expect(await after("read", { path: "./a.ts", offset: 2, limit: 2 })).toEqual([
      "2\n2b\n\n[2 more lines in file. Use offset=4 to continue.]",
      true,
    ]);
    expect(await after("read", { path: "b.ts" })).toEqual(["all\nof b", true]);
    expect(await after("read", { path: "b.ts", offset: 9 })).toEqual([
      "Offset 9 is beyond end of file (2 lines total)",
      true,
    ]);
    expect(await after("grep", { pattern: "TWO|2", path: "a.ts", ignoreCase: true })).toEqual([
      "a.ts:2: 2\na.ts:3: 2b",
      true,
    ]);
    expect(await after("grep", { pattern: "of", glob: "*.ts" })).toEqual([
      "b.ts:2: of b\n\n[Only lines that the recording holds were searched; there may be more.]",
      false,
    ]);
  });

  test("give the same to a shell that only reads and searches", async () => {
    const after = answersAfter(1, recorded(read("src/a.ts", "one(1)\ntwo|2\nthree\nfour")));
    const bash = async (command: string) => (await after("bash", { command }))[0];
    expect(await bash("cat src/a.ts")).toBe("one(1)\ntwo|2\nthree\nfour");
    expect(await bash("cd /repo/src && sed -n '2,3p' a.ts")).toBe(
      "two|2\nthree\n\n[1 more lines in file. Use offset=4 to continue.]",
    );
    expect(await bash("head -n 1 /repo/src/a.ts 2>/dev/null")).toMatch(/^one\(1\)\n\n\[3 more/);
    expect(await bash('grep -n "one\\|two|2" src/a.ts')).toBe("a.ts:1: one(1)\na.ts:2: two|2");
    expect(await bash("grep -nE 'one|THREE' src/a.ts")).toBe("a.ts:1: one(1)");
    expect(await bash("rg -i THREE src | head -5")).toMatch(/^a\.ts:3: three\n/);
    expect(await bash("grep -n 'one(1)' src/a.ts")).toBe("a.ts:1: one(1)");
    for (const command of [
      "cat src/*.ts",
      "grep -c x src/a.ts",
      "cat src/a.ts | sort",
      "cat src/a.ts src/b.ts",
      "ls",
      "grep x",
    ]) {
      expect([command, await bash(command)]).toEqual([command, expect.stringContaining("Nothing is run here")]);
    }
  });

  test("say what they do not know", async () => {
    const part = "l3\nl4\n\n[6 more lines in file. Use offset=5 to continue.]";
    const after = answersAfter(1, recorded(read("a.ts", part, { offset: 3, limit: 2 })));
    expect(await after("read", { path: "a.ts", offset: 3, limit: 2 })).toEqual([part, true]);
    expect(await after("read", { path: "a.ts", offset: 4 })).toEqual([
      "l4\n\n[The recording does not hold the lines right after line 4.]",
      false,
    ]);
    const [text, known] = await after("read", { path: "a.ts" });
    expect([text, known]).toEqual(["[The recording does not hold line 1 of a.ts as it stood then.]", false]);
    expect((await after("bash", { command: "git status" }))[1]).toBe(false);
  });

  test("use what was read soon after, until something changes it", async () => {
    const entries = recorded(
      ["bash", { command: "npm test" }, "ok"],
      read("a.ts", "a1"),
      ["edit", { path: "b.ts", oldText: "old b", newText: "new b" }, "done"],
      read("b.ts", "new b"),
      ["bash", { command: "git checkout ." }, ""],
      read("c.ts", "c1"),
    );
    const after = answersAfter(1, entries);
    expect(await after("read", { path: "a.ts" })).toEqual(["a1", true]);
    expect((await after("read", { path: "b.ts" }))[1]).toBe(false);
    expect((await after("read", { path: "c.ts" }))[1]).toBe(false);
    const files = new RecordedFiles(entries, 2, CWD);
    expect(files.byPath.get("/repo/b.ts")?.has("old b")).toBe(true);
    expect(files.byPath.get("/repo/b.ts")?.has("new b")).toBeUndefined();
  });

  test("forget what a command may have changed", async () => {
    const turns = [read("src/a.ts", "a1"), read("src/b.ts", "b1")];
    const known = async (command: string) => {
      const after = answersAfter(3, recorded(...turns, ["bash", { command }, ""]));
      return [(await after("read", { path: "src/a.ts" }))[1], (await after("read", { path: "src/b.ts" }))[1]];
    };
    expect(await known("cat src/a.ts && grep -n x src/*.ts 2>/dev/null | head")).toEqual([true, true]);
    expect(await known("sed -i 's/x/y/' src/a.ts")).toEqual([false, true]);
    expect(await known("git stash")).toEqual([false, false]);
    expect(await known("npx prettier --write .")).toEqual([false, false]);
    const patched = answersAfter(
      3,
      recorded(...turns, ["apply_patch", { patch: "*** Update File: src/b.ts" }, "done"]),
    );
    expect((await patched("read", { path: "src/a.ts" }))[1]).toBe(true);
    expect((await patched("read", { path: "src/b.ts" }))[1]).toBe(false);
  });

  test("repeat what the same call gave, as long as nothing has changed", async () => {
    const list: Turn = ["bash", { command: "ls -la src" }, "a.ts b.ts"];
    const write: Turn = ["write", { path: "src/c.ts", content: "c" }, "done"];
    expect(await answersAfter(1, recorded(list))("bash", { command: "ls -la src" })).toEqual(["a.ts b.ts", true]);
    expect((await answersAfter(2, recorded(list, write))("bash", { command: "ls -la src" }))[1]).toBe(false);
  });
});

test("only what certainly looks counts as changing nothing", () => {
  const bash = (command: string) => changesNothing({ name: "bash", arguments: { command } });
  for (const command of ["ls", "cd /x && git log --oneline | head -3", "rg 'a > b' src; wc -l x", "git -C x status"]) {
    expect([command, bash(command)]).toEqual([command, command !== "git -C x status"]);
  }
  for (const command of [
    "npm test",
    "echo x > y",
    "cat $(rm x)",
    "find . -delete",
    "sed -i s/a/b/ x",
    "git commit",
    'ls "`rm x`"',
  ]) {
    expect([command, bash(command)]).toEqual([command, false]);
  }
  expect(changesNothing({ name: "deploy", arguments: {} })).toBe(false);
  expect(changesNothing({ name: "context_tree_query", arguments: {} })).toBe(true);
});
