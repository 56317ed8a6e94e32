import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { cpuMs } from "../../test/support/cpu-time.ts";
import type { CapturedToolCall } from "../types.ts";
import { digestBatch, digestCall, MAX_DIGEST } from "./digest.ts";

function call(
  toolName: string,
  args: Record<string, unknown>,
  resultText: string,
  rest: Partial<CapturedToolCall> = {},
): CapturedToolCall {
  return {
    occurrenceKey: "call@1",
    toolCallId: "call",
    toolName,
    args,
    content: [{ type: "text", text: resultText }],
    resultText,
    resultImages: 0,
    isError: false,
    resultTimestamp: 1,
    ...rest,
  };
}

function bash(resultText: string, command = "npm test", rest: Partial<CapturedToolCall> = {}): string {
  return digestCall(call("bash", { command }, resultText, rest));
}

function failed(output: string, code = 1, command = "npm test"): string {
  return bash(`${output}\n\nCommand exited with code ${code}`, command, { isError: true });
}

/** `n` lines that tell nothing. */
function filler(n: number, words = "compiling module number"): string[] {
  return Array.from({ length: n }, (_, i) => `${words} ${i + 1}`);
}

describe("read", () => {
  const source = filler(60, "  // comment").concat("export function createApp(opts) {", ...filler(60, "  body"));

  test("outlines code with the line numbers of the file", () => {
    expect(digestCall(call("read", { path: "src/app.ts" }, source.join("\n")))).toContain(
      "L61 export function createApp(opts)",
    );
    const part = digestCall(call("read", { path: "src/app.ts", offset: 1000, limit: 121 }, source.join("\n")));
    expect(part).toContain("L1060 export function createApp(opts)");
  });

  test("keeps the notice that more lines remain", () => {
    const notice = "[345 more lines in file. Use offset=122 to continue.]";
    const digest = digestCall(call("read", { path: "src/app.ts", limit: 121 }, `${source.join("\n")}\n\n${notice}`));
    expect(digest.split("\n").at(-1)).toBe(notice);
    expect(digest.split(notice)).toHaveLength(2);
  });

  test("an error: its text", () => {
    const text = "ENOENT: no such file or directory, access '/x/y.ts'";
    expect(digestCall(call("read", { path: "/x/y.ts" }, text, { isError: true }))).toBe(text);
  });

  test("an image: the note that it can be had again", () => {
    const digest = digestCall(call("read", { path: "a.png" }, "Read image file [image/png]", { resultImages: 1 }));
    expect(digest).toBe("1 image (recoverable with the ref)\nRead image file [image/png]");
  });

  test("an empty file: nothing", () => {
    expect(digestCall(call("read", { path: "a.ts" }, ""))).toBe("");
  });
});

describe("bash", () => {
  test("a short output stands as it is, blank lines left out", () => {
    expect(bash("one\r\n\r\ntwo\r\n")).toBe("one\ntwo");
    expect(bash("[]")).toBe("[]");
  });

  test("a failed run of tests: failures, summary and end", () => {
    const output = [
      ...filler(80, "✓ handles error case"),
      "✗ parses dates",
      "AssertionError: expected 3 to equal 4",
      "    at Object.<anonymous> (src/date.test.ts:12:5)",
      ...filler(80, "✓ more"),
      "Tests: 1 failed, 160 passed, 161 total",
      "Time: 3.2 s",
    ];
    const digest = failed(output.join("\n"));
    expect(digest).toContain("L81 ✗ parses dates");
    expect(digest).toContain("L82 AssertionError: expected 3 to equal 4 @ src/date.test.ts:12:5");
    expect(digest).toContain("L164 Tests: 1 failed, 160 passed, 161 total");
    expect(digest).toContain("L165 Time: 3.2 s");
    expect(digest).not.toContain("Command exited");
    expect(digest).not.toContain("handles error case");
  });

  test("a run that passed shows its summary, and takes no zero for an error", () => {
    const output = [...filler(100), "12 passed, 0 failed", "0 errors, 0 warnings", "Done in 2.1s"];
    const digest = bash(output.join("\n"));
    expect(digest).toContain("L101 12 passed, 0 failed");
    expect(digest).toContain("L103 Done in 2.1s");
  });

  test("errors of one kind take one line, so that another kind is seen", () => {
    const output = Array.from(
      { length: 200 },
      (_, i) => `src/a${i}.ts(${i},5): error TS2339: Property 'x${i}' is missing`,
    );
    output.splice(150, 0, "src/b.ts(9,1): error TS1005: ';' expected.");
    const digest = failed(output.join("\n"), 2, "npx tsc");
    expect(digest).toContain("L1 src/a0.ts(0,5): error TS2339: Property 'x0' is missing (1 of 200)");
    expect(digest).toContain("L151 src/b.ts(9,1): error TS1005: ';' expected.");
  });

  for (const [name, separator] of [
    ["among lines", "\n"],
    ["in one line", " "],
  ] as const) {
    test(`a unique error at character 4,100 of 5,000 is found ${name}`, () => {
      const noise = `all is well here${separator}`;
      const head = noise.repeat(300).slice(0, 4100);
      const text = `${head}${separator}ERROR: quota XK-4711 exhausted${separator}${noise.repeat(60)}`.slice(0, 5000);
      expect(bash(text)).toContain("ERROR: quota XK-4711 exhausted");
      expect(bash(text, "npm test", { isError: true })).toContain("ERROR: quota XK-4711 exhausted");
      expect(digestCall(call("mcp_run", {}, text))).toContain("ERROR: quota XK-4711 exhausted");
    });
  }

  test("an error inside one unbroken word is found too", () => {
    expect(bash(`${"x".repeat(4100)}UNIQUE_ERROR_77${"y".repeat(885)}`)).toContain("UNIQUE_ERROR_77");
  });

  test("of one giant line: beginning, end, and the error between", () => {
    const text = `START ${"lorem ipsum ".repeat(40_000)} fatal: disk gone ${"dolor sit ".repeat(40_000)} END`;
    const digest = bash(text);
    expect(digest).toContain("L1 START lorem");
    expect(digest).toContain("fatal: disk gone");
    expect(digest).toEndWith("END");
  });

  test("the notice with the file of the full output survives whole, however long, before any status", () => {
    const path = `/tmp/${"very long [folder]/".repeat(60)}pi-bash-12ab.log`;
    const notice = `[Showing lines 3001-5000 of 5000 (50.0KB limit). Full output: ${path}]`;
    for (const end of ["", "\n\nCommand exited with code 1", "\n\nCommand timed out after 5 seconds"]) {
      const digest = bash(`${filler(2000).join("\n")}\n\n${notice}${end}`, "make", { isError: end !== "" });
      expect(digest.split("\n").at(-1)).toBe(notice);
      expect(digest.split(path)).toHaveLength(2);
    }
  });

  test("so does one that another tool or the command itself printed", () => {
    const own = "Full output: /tmp/a b/run.log";
    const digest = bash([...filler(50), own, ...filler(200)].join("\n"));
    expect(digest.split("\n")).toContain(own);
    const saved = `Output too large. Full output saved to /tmp/${"x".repeat(300)}.txt`;
    expect(digestCall(call("agent", {}, `${filler(100).join("\n")}\n${saved}`))).toContain(
      saved.slice(saved.indexOf("Full")),
    );
    const json = `{"log":"Full output: /tmp/run.log","rest":"${"z".repeat(5000)}"}`;
    expect(digestCall(call("agent", {}, json)).split("\n")).toContain("Full output: /tmp/run.log");
  });

  test("a command that says nothing but its status", () => {
    expect(failed("(no output)")).toBe("");
    expect(bash("Command aborted", "sleep 9", { isError: true })).toBe("");
    expect(bash("(no output)")).toBe("(no output)");
  });

  test("progress lines and colours leave no control characters", () => {
    const digest = bash(`${filler(100).join("\n")}\n\u001b[31mfailed\u001b[0m: 10%\r20%\r30%\n`);
    expect(digest).toContain("failed: 10% 20% 30%");
    expect(digest.replaceAll("\n", "")).not.toMatch(/\p{Cc}/u);
  });

  test("a command that only shows a file gives its outline", () => {
    const text = [...filler(40, "//"), "export const answer = 42;", ...filler(40, "//")].join("\n");
    expect(bash(text, "cd /x && cat src/a.ts")).toStartWith("L41 export const answer = 42;");
    expect(bash(text, "sed -n '200,280p' src/a.ts")).toStartWith("L240 export const answer = 42;");
    expect(bash(text, "cat src/a.ts | wc -l")).not.toContain("L41");
  });

  test("a diff: files with added and removed lines", () => {
    const diff = (path: string) => [
      `diff --git a/${path} b/${path}`,
      `--- a/${path}`,
      `+++ b/${path}`,
      "@@ -1,9 +1,9 @@",
      "-old value",
      "+new value",
      "+more",
    ];
    const digest = bash([...diff("src/a.ts"), ...diff("src/b.ts"), ...filler(60, " context")].join("\n"), "git diff");
    expect(digest).toStartWith("diff of 2 files: src/a.ts +2 -1, src/b.ts +2 -1");
    expect(digest).toContain("L5 -old value");
  });

  test("a search: matches by file, also without line numbers or without file names", () => {
    const long = Array.from({ length: 30 }, (_, i) => `src/${i < 20 ? "a" : "b"}.ts:${i + 1}:const found = ${i};`);
    expect(bash(long.join("\n"), "grep -rn found src")).toStartWith("2 files: src/a.ts: 20, src/b.ts: 10\n");
    const bare = long.map((line) => line.replace(/:\d+:/, ":"));
    expect(bash(bare.join("\n"), "rg found")).toContain("src/b.ts: const found = 20;");
    const single = long.map((line) => line.replace(/^[^:]+:/, ""));
    expect(bash(single.join("\n"), "grep -n found src/a.ts")).toStartWith("30 matches\nL1 const found = 0;");
  });

  test("a search: what is no match stands before the matches", () => {
    const lines = filler(30, "src/a.ts:7: found").concat("grep: src/b: Permission denied");
    expect(bash(lines.join("\n"), "grep -rn found src")).toStartWith("grep: src/b: Permission denied\nsrc/a.ts: 30\n");
  });

  test("a log with times of day is not taken for matches", () => {
    const log = filler(60).map((line, i) => `10:${10 + (i % 50)}:07 ${i === 30 ? "ERROR lost connection" : line}`);
    expect(bash(log.join("\n"), "cat-log")).toContain("L31 10:40:07 ERROR lost connection");
  });
});

describe("grep, find, ls", () => {
  test("grep: matches for each file, the folder named once, one match of each file first", () => {
    const folder = "packages/agent/src/";
    const matches = Array.from(
      { length: 60 },
      (_, i) => `${folder}${i % 3 === 0 ? "a" : "b"}.ts:${i + 1}: found(${i})`,
    );
    const digest = digestCall(call("grep", { pattern: "found" }, `${matches.join("\n")}\n${folder}c.ts-1- context`));
    const [first, ...rest] = digest.split("\n");
    expect(first).toBe(`2 files in ${folder}: b.ts: 40, a.ts: 20`);
    expect(rest[0]).toBe("a.ts:1: found(0)");
    expect(rest[1]).toBe("b.ts:2: found(1)");
  });

  test("grep: keeps the notice of its limit", () => {
    const notice = "[100 matches limit reached. Use limit=200 for more, or refine pattern]";
    const text = `${filler(100, "src/a.ts:1: x").join("\n")}\n\n${notice}`;
    expect(digestCall(call("grep", { pattern: "x" }, text))).toEndWith(notice);
  });

  test("nothing found: the header says it", () => {
    expect(digestCall(call("grep", { pattern: "x" }, "No matches found"))).toBe("");
    expect(digestCall(call("find", { pattern: "x" }, "No files found matching pattern"))).toBe("");
    expect(digestCall(call("ls", {}, "(empty directory)"))).toBe("");
  });

  test("find: kinds, then a share of names for each folder", () => {
    const paths = Array.from(
      { length: 200 },
      (_, i) => `${["core", "ui", "lib/deep"][i % 3]}/file${i}.${i % 10 ? "ts" : "md"}`,
    );
    const digest = digestCall(call("find", { pattern: "*" }, paths.join("\n")));
    expect(digest).toStartWith("200 entries: 180 .ts, 20 .md\n");
    for (const folder of ["core/ 67: file0.md", "ui/ 67: file1.ts", "lib/deep/ 66: file2.ts"]) {
      expect(digest).toContain(folder);
    }
    expect(digest).toContain(" more");
  });

  test("ls: names, as many as there is room for", () => {
    const names = Array.from({ length: 300 }, (_, i) => (i % 10 === 0 ? `dir${i}/` : `file ${i}.ts`));
    const digest = digestCall(call("ls", {}, names.join("\n")));
    expect(digest).toStartWith("300 entries: 270 .ts, 30 folders\n");
    expect(digest).toContain("dir0/, file 1.ts");
  });

  test("ls -l in a shell: names and sizes", () => {
    const rows = Array.from({ length: 40 }, (_, i) => `-rw-r--r-- 1 me me ${i}00 Dec  8 10:00 file${i}.ts`);
    const text = `total 99\ndrwxr-xr-x 2 me me 4096 Dec  8 10:00 sub\n${rows.join("\n")}`;
    expect(bash(text, "ls -la")).toContain("sub/, file0.ts 000, file1.ts 100");
  });
});

describe("edit and write", () => {
  test("a short edit says what it changed, since a compressed chain leaves its call out; a short file stays in the call", () => {
    const edits = [{ oldText: "a", newText: "b" }];
    expect(digestCall(call("edit", { path: "a.ts", edits }, "Successfully replaced 1 block(s) in a.ts."))).toBe(
      '"a" → "b"',
    );
    expect(digestCall(call("write", { path: "a.ts", content: "x" }, "Successfully wrote to a.ts"))).toBe("");
    const path = `/home/dev/${"folder/".repeat(20)}a.ts`;
    expect(digestCall(call("write", { path, content: "x" }, `Successfully wrote to ${path}.`))).toBe("");
  });

  test("an answer that tells more than that it is done is digested", () => {
    const text = ["Replaced.", ...filler(40, "+ changed line"), "Error: lint failed in a.ts"].join("\n");
    expect(digestCall(call("edit", { path: "a.ts", edits: [] }, text))).toContain("Error: lint failed in a.ts");
  });

  test("a long edit: size and first changed line of each block", () => {
    const same = "const unchanged = true;\n";
    const edits = [
      { oldText: `${same}const a = 1;\n${"x\n".repeat(150)}`, newText: `${same}const a = 2;\n${"y\n".repeat(99)}` },
      { oldText: "last();", newText: "" },
    ];
    expect(digestCall(call("edit", { path: "a.ts", edits }, "Successfully replaced 2 block(s) in a.ts."))).toBe(
      '152 → 101 lines: "const a = 1;" → "const a = 2;"\n1 → 0 lines: removed "last();"',
    );
    const legacy = { path: "a.ts", oldText: "b\n".repeat(200), newText: "c\n".repeat(200) };
    expect(digestCall(call("edit", legacy, "Successfully replaced text in a.ts."))).toBe('"b" → "c"');
  });

  test("many edits: the first ones and how many more", () => {
    const edits = Array.from({ length: 20 }, (_, i) => ({
      oldText: `old line number ${i}`,
      newText: `new line number ${i}`,
    }));
    const lines = digestCall(call("edit", { path: "a.ts", edits }, "ok")).split("\n");
    expect(lines).toHaveLength(6);
    expect(lines.at(-1)).toBe("… 15 more edits");
  });

  test("a failed edit: the error text", () => {
    const text = "Could not find the exact text in src/a.ts. The old text must match exactly including all whitespace.";
    expect(digestCall(call("edit", { path: "src/a.ts", edits: [] }, text, { isError: true }))).toBe(text);
  });

  test("a long file: its outline", () => {
    const content = `export function go() {\n${"  step();\n".repeat(200)}}\n`;
    expect(digestCall(call("write", { path: "a.ts", content }, "Successfully wrote to a.ts"))).toStartWith(
      "wrote 202 lines:\nL1 export function go()\n",
    );
  });

  test("arguments of any shape do no harm", () => {
    for (const args of [{}, { edits: "x" }, { edits: [null, 1, { oldText: 1 }] }, { content: 7 }]) {
      expect(digestCall(call("edit", args, "ok"))).toBe("");
      expect(digestCall(call("write", args, "ok"))).toBe("");
    }
  });
});

describe("unknown tools", () => {
  test("JSON: keys, and what it tells of errors", () => {
    const text = JSON.stringify({ status: "partial", items: filler(300), failures: ["upload failed: checksum"] });
    const digest = digestCall(call("mcp", {}, text));
    expect(digest).toStartWith('JSON object: status "partial", items [300], failures [1]\n');
    expect(digest).toContain("upload failed: checksum");
  });

  test("text: first lines, errors, last lines", () => {
    const lines = filler(100);
    lines[50] = "Error: rate limit of 30 exceeded";
    const digest = digestCall(call("crawl", {}, lines.join("\n")));
    expect(digest).toContain("L1 compiling module number 1\n");
    expect(digest).toContain("L51 Error: rate limit of 30 exceeded");
    expect(digest).toEndWith("L100 compiling module number 100");
  });

  test("an error result begins with its text", () => {
    const digest = digestCall(
      call("mcp", {}, ["Request refused by server", ...filler(100)].join("\n"), { isError: true }),
    );
    expect(digest).toStartWith("L1 Request refused by server");
  });

  test("images without text", () => {
    expect(digestCall(call("shot", {}, "", { resultImages: 2 }))).toBe("2 images (recoverable with the ref)");
  });
});

test("a batch gives one text for each call, in order", () => {
  const toolCalls = [call("bash", {}, "one"), call("read", { path: "a" }, ""), call("mcp", {}, "three")];
  expect(digestBatch({ turnIndex: 0, timestamp: 1, assistantText: "", toolCalls })).toEqual(["one", "", "three"]);
});

describe("any result", () => {
  const tool = fc.constantFrom("read", "bash", "grep", "find", "ls", "edit", "write", "mcp");
  const path = fc.constantFrom("a.ts", "a.py", "a.go", "a.rs", "a.java", "a.md", "a.json", "a.yml", "a.log", "a");
  const word = fc.oneof(
    fc.constantFrom(
      "error",
      "failed",
      "12 passed",
      "src/a.ts:12: x",
      "export const a = 1",
      "# head",
      "\t",
      "漢字",
      "👩‍👩‍👧",
      "\ud83d",
    ),
    fc.constantFrom(
      "diff --git a/x b/y",
      "@@ -1 +1 @@",
      "+a",
      "-b",
      "{",
      "}",
      '"k": 1',
      "[",
      "-rw-r--r-- 1 a a 1 Dec 1 1 b",
    ),
    fc.string({ unit: "binary", maxLength: 12 }),
  );
  const separator = fc.constantFrom("\n", "\r\n", " ", "", "\r");
  const text = fc
    .tuple(fc.array(word, { maxLength: 400 }), separator, fc.integer({ min: 1, max: 4 }))
    .map(([words, by, times]) => words.join(by).repeat(times));

  test("is well-formed also where a place stands beside half a surrogate pair", () => {
    const body = "src/a.ts:12: x\nerror\nerror\nerror\nerror\nfailed\n\ud83d".repeat(2);
    expect(digestCall(call("mcp", {}, body))).toContain("failed @ \ufffdsrc/a.ts:12");
  });

  test("gives a digest that is bounded, well-formed and always the same", () => {
    fc.assert(
      fc.property(
        tool,
        path,
        text,
        fc.boolean(),
        fc.integer({ min: 0, max: 3 }),
        (name, file, body, isError, images) => {
          const args = { path: file, command: `cat ${file}`, content: body, edits: [{ oldText: body, newText: file }] };
          const result = call(name, args, body, { isError, resultImages: images });
          const digest = digestCall(result);
          expect(digest.length).toBeLessThanOrEqual(MAX_DIGEST.chars);
          const lines = digest.split("\n");
          expect(lines.length).toBeLessThanOrEqual(MAX_DIGEST.lines);
          for (const line of lines) {
            expect(line.length).toBeLessThanOrEqual(160);
            expect(line).not.toMatch(/[\p{Cc}\p{Surrogate}]/u);
          }
          expect(digestCall(structuredClone(result))).toBe(digest);
        },
      ),
    );
  });

  test("takes time in proportion to its length, whatever the text", () => {
    const pieces = [
      "a",
      " ",
      "\n",
      "error\n",
      "error ",
      "(<",
      "aaa bbb ",
      ":1",
      "[",
      "1,",
      "\u001b[",
      "src/a/b.ts\n",
      "```\n",
    ];
    pieces.push(
      "Full output: /",
      "0 errors ",
      "no a errors",
      "  public static x ",
      "TODO ",
      'File "',
      "😀",
      "export ",
      "+a\n",
    );
    for (const piece of pieces) {
      const large = piece.repeat(Math.ceil(300_000 / piece.length));
      for (const name of ["read", "bash", "grep", "find", "mcp"]) {
        const used = cpuMs(() => digestCall(call(name, { path: "a.ts", command: "grep x" }, large)));
        expect(used).toBeLessThan(2000);
      }
    }
  });

  test("is left as it was", () => {
    const result = call("edit", { path: "a", edits: [{ oldText: "a".repeat(500), newText: "b" }] }, "ok");
    const before = structuredClone(result);
    Object.freeze(result.args);
    digestCall(Object.freeze(result));
    expect(result).toEqual(before);
  });
});
