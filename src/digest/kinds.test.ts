/** What the digest of each kind of output has to say; every case is made up. */
import { describe, expect, test } from "bun:test";
import type { CapturedToolCall } from "../types.ts";
import { digestCall } from "./digest.ts";

function digest(
  toolName: string,
  args: Record<string, unknown>,
  resultText: string,
  rest: Partial<CapturedToolCall> = {},
) {
  const content = [{ type: "text" as const, text: resultText }];
  const base = { occurrenceKey: "c@1", toolCallId: "c", toolName, args, content, resultText, resultImages: 0 };
  return digestCall({ ...base, isError: false, resultTimestamp: 1, ...rest });
}

const bash = (command: string, text: string, isError = false) => digest("bash", { command }, text, { isError });
const filler = (n: number, words = "compiling module number") =>
  Array.from({ length: n }, (_, i) => `${words} ${i + 1}`);

describe("changes of files, whatever the tool and its arguments are called", () => {
  const before = "function total(items) {\n  let sum = 0;\n  return sum;\n}";
  const after = "function total(items) {\n  let sum = 0;\n  for (const item of items) sum += item;\n  return sum;\n}";
  const sketch = 'in total(): added "for (const item of items) sum += item;"';
  test.each<[string, Record<string, unknown>]>([
    ["edit", { path: "cart.ts", edits: [{ oldText: before, newText: after }] }],
    ["Edit", { file_path: "cart.ts", old_string: before, new_string: after }],
    ["str_replace_editor", { command: "str_replace", path: "cart.ts", old_str: before, new_str: after }],
    ["replace_file_content", { TargetFile: "cart.ts", TargetContent: before, ReplacementContent: after }],
    [
      "multi_replace",
      { TargetFile: "cart.ts", ReplacementChunks: [{ TargetContent: before, ReplacementContent: after }] },
    ],
  ])("%s", (toolName, args) => {
    expect(digest(toolName, args, "Done.")).toBe(sketch);
  });

  test("a patch names the file of each hunk that is not the first one's", () => {
    const input = [
      "*** Begin Patch",
      "*** Update File: src/a.ts",
      "@@ function total(items) {",
      "   let sum = 0;",
      "-  return sum;",
      "+  return sum + tax;",
      "*** Add File: src/b.ts",
      "+export const tax = 3;",
      "*** End Patch",
    ];
    expect(digest("apply_patch", { input: input.join("\n") }, "Success.")).toBe(
      '2 → 2 lines: "return sum;" → "return sum + tax;"\nsrc/b.ts 0 → 1 line: added "export const tax = 3;"',
    );
  });

  test("a long line is quoted from a little before the place where it changes", () => {
    const line = (name: string) => `import { alpha, beta, gamma, delta, ${name}, omega } from "../letters/greek.js";`;
    expect(digest("edit", { path: "a.ts", oldText: line("eta"), newText: line("theta") }, "ok")).toMatch(
      /^"….{0,14}eta, omega .*" → "….{0,14}theta, omega /,
    );
  });

  test("an edit whose reply quotes the file says what was changed, not what the file is", () => {
    const reply = `The file has been updated:\n${filler(60, "1\tconst quoted =").join("\n")}`;
    expect(digest("Edit", { file_path: "cart.ts", old_string: before, new_string: after }, reply)).toBe(sketch);
  });

  test("a file that was written is outlined as a read of it would be, parameters included", () => {
    const body = "  work();\n".repeat(12);
    const content = Array.from(
      { length: 15 },
      (_, i) => `export function step${i}(input: string, times = 2) {\n${body}}\n`,
    );
    const text = digest("Write", { file_path: "steps.ts", content: content.join("") }, "File created.");
    expect(text).toStartWith("wrote 210 lines:\nexports: L1 step0(input, times), L15 step1(input, times), ");
  });

  test("sections of a document say how long they are", () => {
    const content = `# Guide\n${"words\n".repeat(30)}## Use\n${"more words\n".repeat(60)}`;
    expect(digest("write", { path: "guide.md", content }, "ok")).toBe(
      "wrote 92 lines:\nL1 # Guide (30 lines)\nL32 ## Use (60 lines)\nL2 words\nL3 words\nL92 more words",
    );
  });

  test("functions of up to five lines stand whole", () => {
    const source = `export function add(a: number, b: number) {\n  return a + b;\n}\nexport function long() {\n${"  work();\n".repeat(60)}}\n`;
    expect(digest("read", { path: "math.ts" }, source)).toStartWith(
      "L1 export function add(a: number, b: number) { return a + b; }\nL4 export function long()",
    );
  });

  test("JSON says its keys one level down while they are few", () => {
    const many = Object.fromEntries(filler(40).map((words) => [words, 1]));
    const value = {
      name: "shop",
      scripts: { build: "tsc", test: "bun test" },
      many,
      rows: [{ id: 1, price: 2 }],
      empty: {},
    };
    expect(digest("read", { path: "package.json" }, JSON.stringify(value))).toBe(
      'JSON object: name "shop", scripts {build, test}, many {40}, rows [1 of {id, price}], empty {0}',
    );
  });
});

describe("test runs", () => {
  const colour = (code: number, text: string) => `\u001b[${code}m${text}\u001b[39m`;

  test("colours hide neither the summary nor what has passed", () => {
    const output = [
      ...filler(40).map((words) => `${colour(32, "✓")} rejects an error in ${words}`),
      `${colour(2, " Test Files ")} ${colour(32, "1 passed")}`,
      `${colour(2, "      Tests ")} ${colour(32, "10 passed")}`,
    ];
    const text = bash("npx vitest run", output.join("\n"));
    expect(text).toContain("L42 Tests 10 passed");
    expect(text).not.toContain("rejects an error in compiling module number 20");
  });

  test.each([
    ["ok 3 - reports a failed upload"],
    ["✓ throws an error for bad input"],
    ["tests/test_io.py::test_error_is_raised PASSED [ 42%]"],
    ["test io::fails_on_missing_file ... ok"],
  ])("no error: %s", (line) => {
    const output = [...filler(40), line, ...filler(40, "bundling chunk")];
    expect(bash("run-tests", output.join("\n"))).not.toContain(line.slice(0, 20));
  });

  test.each([
    [
      "vitest",
      [" FAIL  cart.test.ts > total > adds the tax", "AssertionError: expected 3 to be 4", " ❯ cart.test.ts:12:5"],
      ["adds the tax", "expected 3 to be 4"],
    ],
    [
      "jest",
      ["  ● total › adds the tax", "", "    expect(received).toBe(expected)", "", "    Expected: 4", "    Received: 3"],
      ["adds the tax", "Expected: 4 Received: 3"],
    ],
    [
      "bun",
      [
        "12 |   expect(total()).toBe(4);",
        "error: expect(received).toBe(expected)",
        "",
        "Expected: 4",
        "Received: 3",
        "(fail) total > adds the tax [0.3ms]",
      ],
      ["adds the tax", "Expected: 4 Received: 3"],
    ],
    [
      "pytest",
      ["E       assert 3 == 4", "FAILED tests/test_cart.py::test_tax - assert 3 == 4"],
      ["test_tax", "assert 3 == 4"],
    ],
    ["go", ["--- FAIL: TestTax (0.00s)", "    cart_test.go:9: got 3, want 4"], ["TestTax", "got 3, want 4"]],
    [
      "cargo",
      ["test cart::tax ... FAILED", "thread 'cart::tax' panicked at src/cart.rs:9:5:"],
      ["cart::tax", "panicked at src/cart.rs"],
    ],
  ])("%s: the failing test and its assertion", (_runner, lines, wanted) => {
    const output = [...filler(60), ...lines, ...filler(60, "closing handle")];
    const text = bash("run-tests", `${output.join("\n")}\n\nCommand exited with code 1`, true);
    for (const part of wanted) expect(text).toContain(part);
  });

  test.each([
    [
      [
        "npm error code ERESOLVE",
        "npm error ERESOLVE unable to resolve dependency tree",
        "npm error A complete log of this run can be found in: /x",
      ],
      "unable to resolve dependency tree",
    ],
    [
      ['npm error Missing script: "biuld"', "npm error A complete log of this run can be found in: /x"],
      'Missing script: "biuld"',
    ],
    [["npm ERR! code E404", "npm ERR! 404 Not Found - GET https://registry/left-padd"], "404 Not Found"],
  ])("npm's own failure keeps its cause", (lines, cause) => {
    const output = [...filler(60), ...lines];
    expect(bash("npm install", `${output.join("\n")}\n\nCommand exited with code 1`, true)).toContain(cause);
  });

  test.each([
    ["tsc", (file: string, i: number) => `${file}.ts(${i},5): error TS2304: Cannot find name 'x${i}'.`, "ts"],
    ["tsc --pretty", (file: string, i: number) => `${file}.ts:${i}:5 - error TS2304: Cannot find name 'x${i}'.`, "ts"],
    ["gcc", (file: string, i: number) => `${file}.c:${i}:5: error: 'x${i}' undeclared`, "c"],
    ["cargo", (file: string, i: number) => `error[E0425]: cannot find value x${i}\n --> ${file}.rs:${i}:5`, "rs"],
    ["go build", (file: string, i: number) => `${file}.go:${i}:5: undefined: x${i}`, "go"],
  ])("%s: errors by file", (command, line, extension) => {
    const output = Array.from({ length: 40 }, (_, i) => line(i < 30 ? "src/a" : "src/b", i + 1));
    expect(bash(command, `${output.join("\n")}\n\nCommand exited with code 1`, true)).toStartWith(
      `40 errors in 2 files: src/a.${extension}: 30, src/b.${extension}: 10\n`,
    );
  });
});

describe("listings and states", () => {
  test("ls -R keeps names with their folders, and the count", () => {
    const output = [
      ".:",
      "Makefile",
      "src",
      "",
      "./src:",
      "main",
      "util",
      "",
      "./src/util:",
      ...filler(80, "some_long_name_of_a_part").map((p) => p.replace(" ", "_")),
    ];
    const text = bash("ls -R", output.join("\n"));
    expect(text).toContain("entries");
    expect(text).toContain("Makefile");
    expect(text).toContain("src/util/");
  });

  test("find keeps names without an extension", () => {
    const output = filler(60, "bin").map((name) => name.replace(" ", "-"));
    expect(bash("find bin -type f", output.join("\n"))).toStartWith("60 entries");
  });

  test.each([
    [
      "long",
      "git status",
      [
        "On branch main",
        "Your branch is ahead of 'origin/main' by 2 commits.",
        "",
        "Changes to be committed:",
        '  (use "git restore --staged <file>..." to unstage)',
        "\tnew file:   src/tax.ts",
        "",
        "Changes not staged for commit:",
        ...filler(60, "\tmodified:   src/part"),
        "",
        "Untracked files:",
        "\tnotes.txt",
      ],
    ],
    [
      "short",
      "cd /x && git status --short --branch",
      ["## main...origin/main [ahead 2]", "A  src/tax.ts", ...filler(60, " M src/part"), "?? notes.txt"],
    ],
  ])("git status by kind: %s", (_form, command, lines) => {
    const text = bash(command, lines.join("\n"));
    expect(text).toContain("branch main");
    expect(text).toContain("ahead");
    expect(text).toMatch(/^staged, new(?: file)? 1: src\/tax\.ts$/m);
    expect(text).toMatch(/^modified 60: src\/part 1, /m);
    expect(text).toContain("untracked 1: notes.txt");
  });

  test.each<[string, string, Record<string, unknown>]>([
    ["boxes", filler(30, "[x] finished task").concat("[-] write the report", "[ ] send the report").join("\n"), {}],
    [
      "JSON",
      JSON.stringify([
        ...filler(30, "finished task").map((content) => ({ content, status: "completed" })),
        { content: "write the report", status: "in_progress" },
        { content: "send the report", status: "pending" },
      ]),
      {},
    ],
    [
      "arguments",
      `Todos have been modified. ${"Keep using the list. ".repeat(40)}`,
      {
        todos: [
          ...filler(30, "finished task").map((content) => ({ content, status: "completed" })),
          { content: "write the report", status: "in_progress" },
          { content: "send the report", status: "pending" },
        ],
      },
    ],
  ])("a todo list by state: %s", (_form, text, args) => {
    expect(digest("todowrite", args, text)).toStartWith(
      "32 entries: 1 in progress, 1 open, 30 done\nin progress: write the report\nopen: send the report\ndone: finished task 1, ",
    );
  });
});

describe("texts with a shape of their own", () => {
  test("sections are told apart, each with its size and its end", () => {
    const output = ["=== versions ===", "node 20.6", "=== build ===", ...filler(60), "=== disk ===", "40 GB free"];
    const text = bash('echo "=== versions ==="; node -v', output.join("\n"));
    expect(text).toContain("L1 versions (1 line)\nL2 node 20.6\nL3 build (60 lines)");
    expect(text).toContain("L64 disk (1 line)\nL65 40 GB free");
  });

  test.each([
    [
      "Markdown",
      `# Setup\n${"words\n".repeat(40)}## Install\n${"words\n".repeat(40)}## Use\n`,
      ["# Setup", "## Install", "## Use"],
    ],
    [
      "HTML",
      `<!DOCTYPE html><html><head><title>Shop API</title></head><h1 class="x">Orders</h1>${"<p>words</p>".repeat(200)}<h2>Refunds</h2>`,
      ["title: Shop API", "h1: Orders", "h2: Refunds"],
    ],
  ])("a page by its headings: %s", (_kind, text, wanted) => {
    const found = digest("fetch", { url: "https://shop.example" }, text);
    for (const heading of wanted) expect(found).toContain(heading);
  });

  const source = [...filler(40, "//"), "export const answer = 42;", ...filler(40, "//")];
  const numbered = (from: number, mark: string) =>
    source.map((line, i) => `${String(from + i).padStart(6)}${mark}${line}`);
  test.each([
    ["cat -n src/a.ts", numbered(1, "\t"), 41],
    ["nl -ba src/a.ts | sed -n '200,280p'", numbered(200, "\t"), 240],
    ["sed -n 200,280p src/a.ts", source, 240],
    ["cat src/a.ts | head -90", source, 41],
    ['grep -n -A 80 "// 1" src/a.ts', source.map((line, i) => `${i + 7}${i === 0 ? ":" : "-"}${line}`), 47],
  ])("a part of a file is outlined as a read is: %s", (command, lines, at) => {
    expect(bash(command, lines.join("\n"))).toStartWith(`L${at} export const answer = 42;`);
  });

  test("so is a read whose lines carry their numbers", () => {
    expect(digest("read", { file_path: "src/a.ts" }, numbered(100, "→").join("\n"))).toStartWith(
      "L140 export const answer = 42;",
    );
  });

  test("a job's id and the path of its output stay whole", () => {
    const path = `/tmp/jobs/${"deep/".repeat(30)}b7.output`;
    const text = bash(
      "npm run dev",
      [...filler(40), "Command running in background with ID: b7", `Output is being written to: ${path}`].join("\n"),
    );
    expect(text).toContain("with ID: b7");
    expect(text).toContain(path);
  });

  test.each(["subagent", "Task", "Agent"])("the report of %s keeps its closing prose", (toolName) => {
    const closing = [
      "The tax is added twice.",
      `It happens in ${"cart.ts and ".repeat(40)}order.ts.`,
      "Remove the second call.",
    ];
    const text = digest(toolName, { prompt: "find it" }, `${filler(300).join("\n")}\n\n${closing.join("\n")}`);
    expect(text).toEndWith(closing.join("\n"));
    expect(text.length).toBeLessThan(1_600);
  });
});

test("hostile text takes time in proportion to its length, for every kind of output", () => {
  const pieces = [
    "=== a ===\n",
    "--- a",
    "[x] a\n",
    "- [ ",
    "npm error ",
    "a.ts:1:1: error\n",
    "a.ts(1,1",
    "<h1>",
    "<title",
    "--> a:1:1\n",
    "1\ta\n",
    "● ›",
    "::a FAILED ",
    "job id ",
    "output written ",
    "*** Begin Patch\n@@\n",
    "--- a\n+++ b\n",
    "\tmodified: ",
    "## a [",
    "\u001b]",
    "(",
    "foo(",
    "{\n",
    "│  ",
  ];
  for (const piece of pieces) {
    const large = piece.repeat(Math.ceil(200_000 / piece.length));
    for (const [name, args] of [
      ["bash", { command: "git status" }],
      ["bash", { command: "ls -R" }],
      ["bash", { command: "cat -n a.ts" }],
      ["bash", { command: large }],
      ["Task", {}],
      ["fetch", {}],
      ["Edit", { file_path: "a.ts", old_string: large, new_string: `${large}x` }],
      ["write", { path: "a.ts", content: large }],
      ["apply_patch", { input: large }],
    ] as const) {
      const start = performance.now();
      digest(name, args, large);
      expect(performance.now() - start).toBeLessThan(1500);
    }
  }
}, 60_000);
