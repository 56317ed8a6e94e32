import { describe, expect, test } from "bun:test";
import { cpuMs } from "../../test/support/cpu-time.ts";
import type { CapturedToolCall } from "../types.ts";
import { unsupportedClaims } from "./unsupported-claims.ts";

function call(toolName: string, args: Record<string, unknown>, resultText: string): CapturedToolCall {
  return {
    occurrenceKey: "c1@2",
    toolCallId: "c1",
    toolName,
    args,
    content: [{ type: "text", text: resultText }],
    resultText,
    resultImages: 0,
    isError: false,
    resultTimestamp: 2,
  };
}

const SOURCE = `import { helper } from "./lib/helper.js";
export const DEFAULT_PORT = 3000;
// See docs/guide/setup.md and https://example.com/docs/v2/start
${"const filler = 1;\n".repeat(137)}`;

const CALLS = [
  call("read", { path: "src/server/app.ts", offset: 40 }, SOURCE),
  call(
    "bash",
    { command: "npm test" },
    "Tests: 14203 passed, 12 failed in 1,250 ms\nFAIL C:\\repo\\test\\a.test.ts:118\n",
  ),
  call("ls", { path: "packages/core/src" }, "index.ts\nparser/lexer.ts\nREADME.md\n"),
  call(
    "grep",
    { pattern: "TODO", path: "/home/u/work" },
    "/home/u/work/src/x.ts:120: TODO\n/home/u/work/src/y.ts:145: TODO\n",
  ),
  call("bash", { command: "curl -s localhost:8080/api/users" }, '{"GET":1,"POST":2,"PUT":3,"version":"1.24.3"}\n'),
];

const unsupported = unsupportedClaims({ assistantText: "", toolCalls: CALLS });

describe("a correct summary is not rejected for", () => {
  test.each<[string, string]>([
    ["paths as they stand", "- src/server/app.ts imports ./lib/helper.js; see docs/guide/setup.md"],
    ["a URL", "- https://example.com/docs/v2/start is named, and http://localhost:8080/api/users is asked"],
    ["a path at the end of a sentence", "It imports lib/helper.js. It is in src/server/app.ts."],
    ["a path in backticks, bold or brackets", "`src/server/app.ts` **src/server/app.ts** (src/server/app.ts)"],
    ["a path with a line", "TODO in /home/u/work/src/x.ts:120 and src/y.ts:145"],
    ["a path that is shortened at its head", "…/src/x.ts, .../src/x.ts, ~/work/src/y.ts, ./src/x.ts"],
    ["a path that is shortened in its middle", "/home/…/src/x.ts and /home/u/.../src/y.ts"],
    [
      "a path with the other kind of slash",
      "C:/repo/test/a.test.ts fails, so test/a.test.ts; also src\\server\\app.ts",
    ],
    ["a folder and the name that was listed in it", "packages/core/src/index.ts, packages/core/src/parser/lexer.ts"],
    ["words with slashes that are no path", "and/or, read/write, 12 req/s, N/A, GET/POST/PUT"],
    ["counts in slashes", "12/14203 failed, 3/5 files, 24/7"],
    ["counts below a hundred", "3 files, 99 warnings, 42 lines, 12.5 s"],
    ["counts of lines and characters", `${SOURCE.split("\n").length - 1} lines, ${SOURCE.length} characters`],
    ["numbers with separators that the output lacks", "14,203 passed, 14_203 passed"],
    ["numbers without separators that the output has", "took 1250 ms"],
    ["numbers in a list", "TODOs at lines 120, 145, and 120,145; port 3000."],
    ["numbers in a range", "lines 120-145"],
    ["versions", "version 1.24.3, v1.24.3"],
    ["numbers in arguments", "from line 40; port 8080"],
    ["other scripts next to a path", "读取src/server/app.ts文件,端口3000。"],
    ["nothing at all", ""],
  ])("%s", (_what, summary) => {
    expect(unsupported(summary)).toEqual([]);
  });

  test("what the summariser was shown beside the output", () => {
    const shown = "HEAD\n[… 48,230 characters not shown …]\nTAIL";
    const batch = { assistantText: "", toolCalls: CALLS };
    expect(unsupportedClaims(batch, shown)("48,230 characters were not shown")).toEqual([]);
    expect(unsupported("48,230 characters were not shown")).toEqual(["48,230"]);
  });
});

describe("a claim that stands nowhere in the batch is found", () => {
  test.each<[string, string, string[]]>([
    ["a path", "it is in src/made/up.ts", ["src/made/up.ts"]],
    ["a path whose folder and name stand in different places", "see lib/app.ts", ["lib/app.ts"]],
    [
      "a path in a folder that was listed, with a name that was not",
      "packages/core/src/lost.ts",
      ["packages/core/src/lost.ts"],
    ],
    [
      "a path without an extension",
      "in /usr/local/nowhere and made/up/folder",
      ["/usr/local/nowhere", "made/up/folder"],
    ],
    ["a hidden folder", "see .github/made-up", [".github/made-up"]],
    ["a Windows path", "C:\\repo\\made\\up.ts", ["C:\\repo\\made\\up.ts"]],
    ["a number", "port 4711 is open", ["4711"]],
    ["a number with separators", "98,765 tests", ["98,765"]],
    ["a version", "version 9.87.6", ["9.87.6"]],
    ["a number in a list", "lines 120, 146", ["146"]],
    ["a number behind a path", "src/server/app.ts:731", ["731"]],
    ["several, in their order", "made/up.ts:731, then 999", ["made/up.ts", "731", "999"]],
  ])("%s", (_what, summary, expected) => {
    expect(unsupported(summary)).toEqual(expected);
  });
});

test("many sections of a large batch are checked in little time", () => {
  const large = Array.from({ length: 40 }, (_, i) =>
    call("bash", { command: `run ${i}` }, `line ${i} of /a/b.ts\n`.repeat(3_000)),
  );
  const used = cpuMs(() => {
    const check = unsupportedClaims({ assistantText: "", toolCalls: large });
    for (let i = 0; i < 40; i++) expect(check(`see ../a/b.ts:3,000 and lib/${i}.ts`)).toEqual([`lib/${i}.ts`]);
  });
  expect(used).toBeLessThan(5_000);
});
