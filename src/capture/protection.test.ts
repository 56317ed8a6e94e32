import { describe, expect, test } from "bun:test";
import { createProtection } from "./protection.js";

const CWD = "/work/app";
const HOME = "/home/dev";

function protects(protectedPaths: string[], cwd = CWD) {
  const isProtected = createProtection({ protectedTools: [], protectedPaths, cwd, home: HOME });
  return (path: string) => isProtected({ toolName: "read", args: { path } });
}

describe("protected tools", () => {
  const isProtected = createProtection({ protectedTools: ["todowrite"], protectedPaths: [], cwd: CWD });

  test("are named exactly, in pi's own spelling", () => {
    expect(isProtected({ toolName: "todowrite", args: {} })).toBe(true);
    for (const toolName of ["TodoWrite", "todo", "todowrite2", ""]) {
      expect(isProtected({ toolName, args: {} })).toBe(false);
    }
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
  ])("are searched in any tool: %j", (args) => {
    expect(isProtected({ toolName: "fetch_files", args })).toBe(true);
  });

  test.each([
    [{ command: "rm AGENTS.md" }],
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
