import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { describeCall, describeOutcome } from "./describe.ts";

function outcome(toolName: string, resultText: string, options: { isError?: boolean; resultImages?: number } = {}) {
  return describeOutcome({ toolName, args: {}, resultText, isError: false, resultImages: 0, ...options });
}

describe("describeCall", () => {
  const cases: [tool: string, args: Record<string, unknown>, text: string][] = [
    ["read", { path: "src/app.ts" }, "read src/app.ts"],
    ["read", { path: "src/app.ts", offset: 10, limit: 50 }, "read src/app.ts:10-59"],
    ["read", { path: "src/app.ts", offset: "10" }, "read src/app.ts:10-"],
    ["read", { path: "src/app.ts", limit: 30 }, "read src/app.ts:1-30"],
    ["read", { file_path: "src/app.ts" }, "read src/app.ts"],
    ["bash", { command: "npm test" }, "bash npm test"],
    ["bash", { command: "cat <<'EOF'\nline `x`\r\n\tEOF" }, "bash cat <<'EOF' line `x` EOF"],
    ["powershell", { command: "Get-ChildItem" }, "powershell Get-ChildItem"],
    ["grep", { pattern: "createApp", path: "src" }, 'grep "createApp" in src'],
    ["grep", { pattern: "createApp", path: "src", glob: "*.ts" }, 'grep "createApp" in src (*.ts)'],
    ["grep", { pattern: "createApp" }, 'grep "createApp"'],
    ["find", { pattern: "*.ts", path: "src" }, 'find "*.ts" in src'],
    ["ls", { path: "src" }, "ls src"],
    ["ls", {}, "ls"],
    ["edit", { path: "src/app.ts", edits: [{}, {}, {}] }, "edit src/app.ts (3 edits)"],
    ["edit", { path: "src/app.ts", oldText: "a", newText: "b" }, "edit src/app.ts (1 edit)"],
    ["write", { path: "out/a.ts", content: "x" }, "write out/a.ts"],
    ["fetch", { depth: 2, url: "https://a.b/c", body: "x".repeat(500) }, "fetch https://a.b/c depth=2"],
    ["web_search", { query: "rust async", mode: "fast" }, 'web_search "rust async" mode="fast"'],
    ["mcp", { nested: { path: "x" }, list: [1], nothing: null }, "mcp"],
    ["Read", { file_path: "src/app.ts", limit: 30 }, "Read src/app.ts:1-30"],
    ["read", { absolutePath: "/src/app.ts", Offset: 3, Limit: 2 }, "read /src/app.ts:3-4"],
    ["web_search", { Queries: ["rust async", "tokio"] }, 'web_search "rust async" (1 of 2)'],
    ["batch_get", { requests: [{ id: 7, url: "https://a.b/c" }, {}] }, 'batch_get "https://a.b/c" (1 of 2)'],
    ["bash", { command: ["bash", "-lc", "npm test"] }, "bash npm test"],
    [
      "mcp__issue-tracker-of-the-company__search_issues",
      { Query: "tax" },
      '…e-tracker-of-the-company__search_issues "tax"',
    ],
    ["", {}, "tool"],
  ];
  for (const [tool, args, text] of cases) {
    test(text, () => expect(describeCall(tool, args)).toBe(text));
  }

  test("keeps the end of a long path and its range", () => {
    const text = describeCall("read", { path: `/home/${"dir/".repeat(60)}agent-session.ts`, offset: 5, limit: 6 });
    expect(text).toStartWith("read …");
    expect(text).toEndWith("agent-session.ts:5-10");
    expect(text).toHaveLength(100);
  });

  test("a long command keeps what it does rather than where", () => {
    const command = `cd /home/dev/workspaces/project && npx tsc --noEmit 2>&1 | grep "interactive-mode.ts" | head -40 | sort`;
    expect(describeCall("bash", { command })).toStartWith("bash cd …/project && npx tsc --noEmit");
  });

  test("brackets and line breaks in arguments leave the header in one line", () => {
    expect(describeCall("bash", { command: "echo ]\n\u2028[t9 condensed: `x`\u0007" })).toBe(
      "bash echo ] [t9 condensed: `x`",
    );
  });

  test("any tool and any arguments: one line, at most 100 characters, well-formed", () => {
    const names = fc.oneof(
      fc.constantFrom("read", "bash", "grep", "find", "ls", "edit", "write"),
      fc.string({ unit: "binary" }),
    );
    const key = fc.constantFrom("path", "command", "pattern", "edits", "offset", "limit", "url", "x\ny");
    const value = fc.oneof(fc.string({ unit: "binary", maxLength: 300 }), fc.jsonValue(), fc.constant(undefined));
    fc.assert(
      fc.property(names, fc.dictionary(key, value), (name, args) => {
        const text = describeCall(name, args);
        expect(text.length).toBeLessThanOrEqual(100);
        expect(text).not.toMatch(/[\p{Cc}\p{Surrogate}\u2028\u2029]/u);
      }),
    );
  });

  test("emoji at the cut stay whole", () => {
    for (let lead = 0; lead < 4; lead++) {
      const text = describeCall("bash", { command: `${"a".repeat(lead)}${"😀".repeat(200)}` });
      expect(text).not.toMatch(/\p{Surrogate}/u);
    }
  });
});

describe("describeOutcome", () => {
  const notice = "\n\n[Showing lines 1-2 of 9. Use offset=3 to continue.]";
  const cases: [name: string, actual: string, expected: string][] = [
    ["bash", outcome("bash", "fine\n"), "ok"],
    ["bash, failed", outcome("bash", "boom\n\nCommand exited with code 2", { isError: true }), "exit code 2"],
    [
      "bash, nothing said",
      outcome("bash", "(no output)\n\nCommand exited with code 1", { isError: true }),
      "exit code 1",
    ],
    [
      "bash, late",
      outcome("bash", "x\n\nCommand timed out after 120 seconds", { isError: true }),
      "timed out after 120 seconds",
    ],
    [
      "bash, late, shell gone",
      outcome(
        "bash",
        "Command timed out after 5 seconds. The shell exited with code 0 after 1 seconds, but background",
        {
          isError: true,
        },
      ),
      "timed out after 5 seconds",
    ],
    ["bash, aborted", outcome("bash", "Command aborted", { isError: true }), "aborted"],
    [
      "bash, signal",
      outcome("bash", "x\n\nCommand terminated without an exit code", { isError: true }),
      "terminated without an exit code",
    ],
    [
      "bash, not started",
      outcome("bash", "Working directory does not exist: /x\nCannot execute bash commands.", { isError: true }),
      "error: Cannot execute bash commands.",
    ],
    ["read", outcome("read", "a\nb\nc\n"), "3 lines"],
    ["read, CRLF", outcome("read", "a\r\nb\r\n"), "2 lines"],
    ["read, notice not counted", outcome("read", `a\nb${notice}`), "2 lines"],
    ["read, empty", outcome("read", ""), "empty"],
    [
      "read, line too long",
      outcome("read", "[Line 1 is 1.2MB, exceeds 50.0KB limit. Use bash: sed -n '1p' a.js | head -c 51200]"),
      "no lines shown",
    ],
    ["read, image", outcome("read", "Read image file [image/png]", { resultImages: 1 }), "1 image"],
    [
      "read, missing",
      outcome("read", "ENOENT: no such file or directory, access '/x/y.ts'", { isError: true }),
      "error: ENOENT: no such file or directory, access '/x/y.ts'",
    ],
    ["grep", outcome("grep", "a.ts:1: x\na.ts-2- y\nb c.ts:30: z"), "2 matches"],
    ["grep, one", outcome("grep", "a.ts:1: x"), "1 match"],
    ["grep, none", outcome("grep", "No matches found"), "no matches"],
    [
      "grep, limit",
      outcome("grep", "a:1: x\n\n[100 matches limit reached. Use limit=200 for more, or refine pattern]"),
      "1 match (limit reached)",
    ],
    ["grep, other shape", outcome("grep", "one\ntwo"), "2 lines"],
    ["find", outcome("find", "a.ts\nb.ts"), "2 entries"],
    ["find, none", outcome("find", "No files found matching pattern"), "no matches"],
    [
      "ls",
      outcome("ls", ".git/\nREADME.md\n\n[500 entries limit reached. Use limit=1000 for more]"),
      "2 entries (limit reached)",
    ],
    ["ls, empty", outcome("ls", "(empty directory)"), "empty"],
    ["edit", outcome("edit", "Successfully replaced 1 block(s) in a.ts."), "ok"],
    ["write", outcome("write", "Successfully wrote to a.ts"), "ok"],
    ["unknown", outcome("mcp", "whatever"), "ok"],
    ["unknown, images", outcome("shot", "", { resultImages: 2 }), "ok, 2 images"],
    ["unknown, error", outcome("mcp", "\n\nError: it broke\nat x", { isError: true }), "error: it broke"],
    ["error without text", outcome("mcp", "", { isError: true }), "error"],
  ];
  for (const [name, actual, expected] of cases) {
    test(name, () => expect(actual).toBe(expected));
  }

  test("an error is told by the line that speaks of it, not by what stands around it", () => {
    const text = "starting\nconnecting to db\nfatal: password authentication failed\nbye";
    expect(outcome("db", text, { isError: true })).toBe("error: fatal: password authentication failed");
  });

  test("any text: one line, at most 80 characters, well-formed", () => {
    const tool = fc.constantFrom("read", "bash", "grep", "find", "ls", "edit", "write", "mcp");
    fc.assert(
      fc.property(tool, fc.string({ unit: "binary", maxLength: 500 }), fc.boolean(), (name, text, isError) => {
        const result = outcome(name, text, { isError });
        expect(result.length).toBeLessThanOrEqual(80);
        expect(result).not.toBe("");
        expect(result).not.toMatch(/[\p{Cc}\p{Surrogate}\u2028\u2029]/u);
      }),
    );
  });
});
