import { describe, expect, test } from "bun:test";
import { DEFAULT_CONFIG } from "../config.ts";
import { createProtection, protectionOf, unknownTools } from "./protection.ts";

const CWD = "/work/app";
const HOME = "/home/dev";

function protects(protectedPaths: string[], cwd = CWD) {
  const isProtected = createProtection({ protectedTools: [], protectedPaths, cwd, home: HOME });
  return (path: string) => isProtected({ toolName: "read", args: { path } });
}

describe("protected tools", () => {
  const protectedTools = ["todowrite", "mcp__jira__*", "Task{Create,Update}"];
  const isProtected = createProtection({ protectedTools, protectedPaths: [], cwd: CWD });

  test.each(["todowrite", "TodoWrite", "mcp__jira__get_issue", "MCP__Jira__", "TaskCreate", "taskupdate"])(
    "may be named in any case or by a glob: %s",
    (toolName) => expect(isProtected({ toolName, args: {} })).toBe(true),
  );

  test.each(["todo", "todowrite2", "mcp__jira", "mcp__slack__post", "TaskList", ""])("others are not: %s", (toolName) =>
    expect(isProtected({ toolName, args: {} })).toBe(false),
  );

  test("a name or glob that fits no registered tool is found", () => {
    expect(unknownTools(["Read", "mcp__*", "todoreed"], ["read", "mcp__a__b"])).toEqual(["todoreed"]);
    expect(unknownTools(["mcp__*"], ["read"])).toEqual(["mcp__*"]);
  });

  test("nothing is protected by default", () => {
    const none = createProtection({ protectedTools: [], protectedPaths: [], cwd: CWD });
    expect(none({ toolName: "read", args: { path: "AGENTS.md" } })).toBe(false);
  });
});

describe("the default pattern for skills", () => {
  const isProtected = protects(["**/skills/**/*.md"]);

  test.each([
    [".pi/skills/deploy/SKILL.md"],
    ["./.pi/skills/deploy/SKILL.md"],
    ["/work/app/.pi/skills/deploy/SKILL.md"],
    ["/home/dev/.pi/agent/skills/deploy/SKILL.md"],
    ["~/.pi/agent/skills/deploy/SKILL.md"],
    ["@~/.pi/agent/skills/deploy/SKILL.md"],
    ["@.pi/skills/deploy/SKILL.md"],
    ["@/work/app/.pi/skills/deploy/SKILL.md"],
    ["src/../.pi/skills/deploy/SKILL.md"],
    ["/work/app/src/../.pi//skills/./deploy/SKILL.md"],
    ["../app/.pi/skills/deploy/SKILL.md"],
    [".pi\\skills\\deploy\\SKILL.md"],
    ["C:\\Users\\dev\\.pi\\skills\\deploy\\SKILL.md"],
    ["file:///work/app/.pi/skills/deploy/SKILL.md"],
    ["file:///C:/Users/dev/.pi/skills/deploy/SKILL.md"],
    ["@file:///home/dev/my%20notes/skills/a%20b.md"],
    ["skills/SKILL.md"],
    [".pi/skills/deploy/skill.md"],
    [".pi/skills/de\u00A0ploy/SKILL.md"],
    [" .pi/skills/deploy/SKILL.md\n"],
  ])("protects %s", (path) => {
    expect(isProtected(path)).toBe(true);
  });

  test.each([
    [".pi/skills/deploy/run.sh"],
    ["skills.md"],
    ["src/skillset/a.md"],
    ["skills/../README.md"],
    ["https://example.org/skills/a.md"],
    [""],
    ["@"],
    ["~"],
    [`skills/${"x".repeat(5000)}.md`],
  ])("leaves %s alone", (path) => {
    expect(isProtected(path)).toBe(false);
  });
});

describe("patterns", () => {
  test.each([
    ["AGENTS.md", "AGENTS.md", true],
    ["AGENTS.md", "packages/a/AGENTS.md", true],
    ["AGENTS.md", "/elsewhere/AGENTS.md", true],
    ["AGENTS.md", "AGENTS.md.bak", false],
    ["AGENTS.md", "AGENTS.md/x", false],
    ["*.lock", "a/b/bun.lock", true],
    ["*.lock", "a/b/.lock", true],
    ["docs/*.md", "docs/a.md", true],
    ["docs/*.md", "/work/app/docs/a.md", true],
    ["docs/*.md", "../app/docs/a.md", true],
    ["docs/*.md", "@docs/a.md", true],
    ["AGENTS.md", "@AGENTS.md", true],
    ["docs/*.md", "docs/sub/a.md", false],
    ["docs/*.md", "other/docs/a.md", false],
    ["docs/*.md", "/elsewhere/docs/a.md", false],
    ["docs/*.md", "/docs/a.md", false],
    ["./docs/*.md", "docs/a.md", true],
    ["./AGENTS.md", "AGENTS.md", true],
    ["./AGENTS.md", "packages/AGENTS.md", false],
    ["../notes/*.md", "../notes/a.md", true],
    ["../notes/*.md", "/work/notes/a.md", true],
    ["../notes/*.md", "notes/a.md", false],
    ["~/notes/**", "~/notes/x/a.md", true],
    ["~/notes/**", "/home/dev/notes/a.md", true],
    ["~/notes/**", "notes/a.md", false],
    ["/etc/*.conf", "/etc/a.conf", true],
    ["/etc/*.conf", "etc/a.conf", false],
    ["docs/", "docs/a/b.txt", true],
    ["docs/", "src/docs.txt", false],
    ["docs\\guide\\*.md", "docs/guide/a.md", true],
    ["skills\\**\\*.md", "skills/a/b.md", true],
    ["C:\\notes\\*.md", "c:/notes/a.md", true],
    ["src/{a,b}.ts", "src/b.ts", true],
    ["!(draft)*.md", "plan.md", true],
    ["caf\u00e9/*.md", "cafe\u0301/a.md", true],
    ["app/[id]/*.md", "app/[id]/a.md", true],
    ["app/\\[id\\]/*.md", "app/[id]/a.md", true],
    ["\\[id\\].md", "app/[id].md", true],
  ])("%s and %s: %p", (pattern, path, expected) => {
    expect(protects([pattern])(path)).toBe(expected);
  });

  test("a pattern with an exclamation mark takes something out again", () => {
    const isProtected = protects(["**/skills/**/*.md", "!**/skills/huge/**"]);
    expect(isProtected("skills/a/SKILL.md")).toBe(true);
    expect(isProtected("skills/huge/SKILL.md")).toBe(false);
    expect(protects(["!*.md"])("a.txt")).toBe(false);
  });

  test("a folder whose name looks like a glob is taken literally", () => {
    const isProtected = protects(["./docs/*.md"], "/work/[app] (1)");
    expect(isProtected("docs/a.md")).toBe(true);
    expect(isProtected("/work/[app] (1)/docs/a.md")).toBe(true);
    expect(isProtected("/work/a 1/docs/a.md")).toBe(false);
  });

  test("a file is found in a working folder that lies in the pattern's folder", () => {
    const isProtected = protects(["**/skills/**/*.md"], "/home/dev/.pi/skills/deploy");
    expect(isProtected("SKILL.md")).toBe(true);
    expect(isProtected("./notes/more.md")).toBe(true);
    expect(isProtected("../../other.md")).toBe(false);
  });

  test("the working folder may be written with backslashes", () => {
    const isProtected = protects(["docs/*.md"], "C:\\work\\app");
    expect(isProtected("docs\\a.md")).toBe(true);
    expect(isProtected("C:\\work\\app\\docs\\a.md")).toBe(true);
    expect(isProtected("D:\\docs\\a.md")).toBe(false);
  });

  test("one that cannot be read throws nothing and leaves the others in force", () => {
    const broken = ["[", "(", "{a,b", "**/[z-a]", "", "  ", "!", "x".repeat(70_000)];
    const isProtected = protects([...broken, "AGENTS.md"]);
    expect(isProtected("src/app.ts")).toBe(false);
    expect(isProtected("AGENTS.md")).toBe(true);
  });
});

describe("arguments", () => {
  const isProtected = createProtection({ protectedTools: [], protectedPaths: ["AGENTS.md"], cwd: CWD, home: HOME });

  test.each([
    [{ path: "AGENTS.md" }],
    [{ file_path: "AGENTS.md" }],
    [{ filePath: "a/AGENTS.md" }],
    [{ filename: "AGENTS.md" }],
    [{ file: "AGENTS.md" }],
    [{ paths: ["src/app.ts", "AGENTS.md"] }],
    [{ files: [{ path: "src/app.ts" }, { path: "AGENTS.md" }] }],
    [{ requests: [{ target_file: "AGENTS.md" }] }],
    [{ uri: "file:///work/app/AGENTS.md" }],
    [{ resource: "file:///work/app/AGENTS.md" }],
    [{ notebook_path: "a/AGENTS.md" }],
    [{ relative_workspace_path: "AGENTS.md" }],
    [{ targetFile: "AGENTS.md" }],
    [{ uri: "AGENTS.md" }],
    [{ command: "cat AGENTS.md" }],
    [{ command: "cd packages/api && head -n 40 'AGENTS.md' | grep -v TODO" }],
    [{ command: "pwd; sed -n 1,80p ~/app/AGENTS.md" }],
    [{ cmd: "Get-Content .\\AGENTS.md" }],
    [{ command: 'for i in 1; do /bin/cat 2>/dev/null "AGENTS.md"; done'.replace("do ", "do\n") }],
  ])("are searched in any tool: %j", (args) => {
    expect(isProtected({ toolName: "fetch_files", args })).toBe(true);
  });

  test.each([
    [{ command: "git add AGENTS.md" }],
    [{ command: "cat > AGENTS.md <<EOF\nAGENTS.md\nEOF" }],
    [{ command: "cat notes.md # no AGENTS" }],
    [{ command: "cat src/app.ts >> AGENTS.md" }],
    [{ content: "AGENTS.md" }],
    [{ path: 5, file: null, paths: [undefined] }],
    [{}],
    [{ a: { b: { c: { d: { e: { f: { g: { path: "AGENTS.md" } } } } } } } }],
  ])("that name no such file protect nothing: %j", (args) => {
    expect(isProtected({ toolName: "bash", args })).toBe(false);
  });

  test("that are no object protect nothing", () => {
    const args: Record<string, unknown> = JSON.parse("null");
    expect(isProtected({ toolName: "read", args })).toBe(false);
  });
});

describe("what is protected by default", () => {
  const isProtected = protectionOf(DEFAULT_CONFIG, CWD);

  test.each<[string, Record<string, unknown>]>([
    ["read", { path: "AGENTS.md" }],
    ["read", { path: "packages/api/AGENTS.override.md" }],
    ["view_file", { target_file: "/home/dev/CLAUDE.md" }],
    ["bash", { command: "cat CLAUDE.md" }],
    ["bash", { command: "cat ~/.pi/agent/skills/deploy/SKILL.md" }],
    ["read", { path: ".pi/SYSTEM.md" }],
    ...["todo", "todoread", "todowrite", "todo_read", "todo_write", "TodoWrite", "TaskCreate", "TaskUpdate"].map(
      (name): [string, Record<string, unknown>] => [name, {}],
    ),
    ...["question", "questionnaire", "ask_user", "skill", "memory", "memory_search", "update_plan"].map(
      (name): [string, Record<string, unknown>] => [name, {}],
    ),
  ])("%s %j", (toolName, args) => {
    expect(isProtected({ toolName, args })).toBe(true);
  });

  test.each<[string, Record<string, unknown>]>([
    ["read", { path: "README.md" }],
    ["bash", { command: "npm test" }],
    ["grep", { pattern: "AGENTS.md" }],
    ["subagent", { task: "read AGENTS.md" }],
  ])("not %s %j", (toolName, args) => {
    expect(isProtected({ toolName, args })).toBe(false);
  });

  test("nothing is, where the settings are emptied", () => {
    const none = { protectedTools: [], stateTools: [], listTools: [], protectedPaths: [] };
    expect(protectionOf(none, CWD)({ toolName: "todo", args: { path: "AGENTS.md" } })).toBe(false);
  });
});

describe("subjects", () => {
  const { subjectOf } = protectionOf(DEFAULT_CONFIG, CWD);

  test("a list tool has one, in any case", () => {
    expect(subjectOf?.({ toolName: "TodoWrite", args: { a: 1 } })).toEqual({ name: "todowrite", isList: true });
    expect(subjectOf?.({ toolName: "todowrite", args: { b: 2 } })).toEqual({ name: "todowrite", isList: true });
  });

  test("the same part of a file is one, however its path is spelled", () => {
    const read = (args: Record<string, unknown>) => subjectOf?.({ toolName: "read", args });
    expect(read({ path: "./AGENTS.md" })).toEqual(read({ path: "/work/app/AGENTS.md" }));
    expect(read({ path: "AGENTS.md" })).not.toEqual(read({ path: "AGENTS.md", offset: 100 }));
    expect(read({ path: "AGENTS.md" })).not.toEqual(read({ path: "api/AGENTS.md" }));
  });

  test("answers, steps of a list and what is not protected have none", () => {
    for (const toolName of ["question", "todo", "read"]) expect(subjectOf?.({ toolName, args: {} })).toBeUndefined();
  });
});

describe("patterns that could take long", () => {
  const stars = "*a*a*a*a*b";

  test.each([
    [stars, "a".repeat(200)],
    ["**/a/**/a/**/a/**/*a*a*b", `${"a/".repeat(400)}${"a".repeat(200)}`],
    ["+(*a)b", "a".repeat(200)],
    ["*(a|aa)*(a|aa)b", "a".repeat(200)],
    ["{*a*,*b*}{*a*,*b*}*c", "a".repeat(200)],
    ["{src/**,docs/**/*a*a*b}", "src/a".repeat(90)],
    ["?".repeat(300), "a".repeat(200)],
  ])("%s are quick", (pattern, path) => {
    const started = performance.now();
    protects([pattern])(path);
    protects([pattern])(`/${path}`);
    expect(performance.now() - started).toBeLessThan(200);
  });

  test("protect at least what they match, and take out nothing as exceptions", () => {
    expect(protects([stars])("xayaazab")).toBe(true);
    expect(protects([stars])("c")).toBe(false);
    expect(protects(["*.md", `!${stars}.md`])("aaaaab.md")).toBe(true);
  });
});
