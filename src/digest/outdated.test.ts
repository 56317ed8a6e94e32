import { describe, expect, test } from "bun:test";
import type { ToolCall } from "@mariozechner/pi-ai";
import { finishedCall } from "../../test/support/calls.ts";
import { changesSince, describeChanges } from "./outdated.ts";

type Call = readonly [name: string, args: ToolCall["arguments"], isError?: boolean];

/** Positions of the calls that have changed what the first call shows. */
function changesOfFirst(...calls: Call[]): number[] {
  const messages = calls.flatMap(([name, args, isError], i) => finishedCall(`c${i}`, [name, args, "text"], i, isError));
  return (changesSince(messages).get("c0@0") ?? []).map((key) => Number(key.split("@")[1]));
}

const read = ["read", { path: "src/a.ts" }] as const;
const pair = { oldText: "a", newText: "b" };

describe("changesSince", () => {
  test.each<[string, Call]>([
    ["an edit", ["edit", { path: "src/a.ts", edits: [pair] }]],
    [
      "an edit by another name and path",
      ["str_replace", { file_path: "/repo/src/a.ts", old_string: "a", new_string: "b" }],
    ],
    ["a write", ["write", { path: "./src/a.ts", content: "x" }]],
    ["a patch", ["apply_patch", { input: "*** Begin Patch\n*** Update File: src/a.ts\n@@\n-a\n+b\n*** End Patch" }]],
    [
      "a patch in a command",
      [
        "bash",
        { command: "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: src/a.ts\n@@\n-a\n+b\n*** End Patch\nEOF" },
      ],
    ],
  ])("%s of the file counts", (_what, call) => {
    expect(changesOfFirst(read, call)).toEqual([1]);
    expect(changesOfFirst(["bash", { command: "cd /repo && sed -n '5,20p' src/a.ts" }], call)).toEqual([1]);
  });

  test.each<[string, Call]>([
    ["one that failed", ["edit", { path: "src/a.ts", edits: [pair] }, true]],
    ["one of a file of the same name", ["edit", { path: "test/a.ts", edits: [pair] }]],
    ["another read", ["read", { path: "src/a.ts" }]],
  ])("%s does not", (_what, call) => {
    expect(changesOfFirst(read, call)).toEqual([]);
  });

  test("only what came later counts, and a written file grows old as a read one does", () => {
    expect(changesOfFirst(["edit", { path: "a.ts", edits: [pair] }], ["read", { path: "a.ts" }])).toEqual([]);
    const write: Call = ["write", { path: "a.ts", content: "x" }];
    expect(changesOfFirst(write, ["edit", { path: "a.ts", edits: [pair] }], write)).toEqual([1, 2]);
  });
});

test("describeChanges names refs, the last ones of many, and counts what has none", () => {
  const refOf = (key: string) => (key === "new" ? undefined : key);
  expect(describeChanges(undefined, refOf)).toBeUndefined();
  expect(describeChanges(["t1", "t2"], refOf)).toBe("edited since by t1, t2");
  expect(describeChanges(["t1", "new"], refOf)).toBe("edited since by t1, 1 other call");
  expect(describeChanges(["new", "new"], refOf)).toBe("edited since by 2 calls");
  expect(describeChanges(["t1", "t2", "t3", "t4", "t5", "t6"], refOf)).toBe(
    "edited since by t3, t4, t5, t6, 2 other calls",
  );
});
