import { describe, expect, test } from "bun:test";
import { outline } from "./outline.ts";
import type { Room } from "./room.ts";

const ROOM: Room = { lines: 12, chars: 700 };

function lines(path: string, text: string, firstLine?: number, room = ROOM): string[] {
  return outline(path, text, room, firstLine);
}

describe("definitions by language", () => {
  test("TypeScript: exports, other top-level names, members; no calls, no statements", () => {
    const text = `import { a } from "../summary/a.js";

export function createApp(opts: Options): App {
  doThing(() => {
  if (x) {
  }
}
const local = (1 + 2) * 3;
export class Foo extends Bar {
  private count = 0;
  constructor(x: number) {
  }
  async start(): Promise<void> {
  }
  private stop(
}
export type Kind = "a" | "b";
export * from "../summary/other.js";
`;
    expect(lines("src/app.ts", text)).toEqual([
      "L3 export function createApp(opts: Options): App { doThing(() => { if (x) { } }",
      "L8 const local = (1 + 2) * 3;",
      "L9 export class Foo extends Bar",
      "L11 constructor(x: number) { }",
      "L13 async start(): Promise<void> { }",
      "L15 private stop(",
      'L17 export type Kind = "a" | "b";',
      'L18 export * from "../summary/other.js";',
    ]);
  });

  test("TypeScript: what is exported and defined elsewhere is told from definitions, also where names are packed", () => {
    const functions = Array.from({ length: 40 }, (_, i) => `export function parsePart${i}(text: string) {\n}\n`).join(
      "",
    );
    const lists = 'export { extractText };\nexport type { Part } from "./part.js";\nexport * from "./all.js";\n';
    const packed = lines("a.ts", `${lists}${functions}`, 1, { lines: 12, chars: 2_000 }).join("\n");
    expect(packed).toStartWith("exports: L1 export { extractText }, L2 export type { Part }");
    expect(packed).toContain('L3 export * from "./all.js", L4 parsePart0(');
    expect(lines("a.ts", lists)).toContain("L1 export { extractText };");
  });

  const cases: [path: string, text: string, found: string[]][] = [
    [
      "a.py",
      "import os\nLIMIT = 3\nclass Foo(Base):\n    def run(self, x):\n        pass\nasync def main() -> None:\n    pass\n",
      [
        "L2 LIMIT = 3",
        "L3 class Foo(Base): def run(self, x): pass",
        "L4 def run(self, x): pass",
        "L6 async def main() -> None: pass",
      ],
    ],
    [
      "a.go",
      "package a\nfunc New(x int) *T {\n}\nfunc (t *T) Close() error {\n}\ntype T struct {\n",
      ["L2 func New(x int) *T { }", "L4 func (t *T) Close() error { }", "L6 type T struct"],
    ],
    [
      "a.rs",
      "use x;\npub async fn run(a: u8) -> R {\nstruct P {\nimpl P {\n    pub fn new() -> Self {\n",
      ["L2 pub async fn run(a: u8) -> R", "L3 struct P", "L4 impl P", "L5 pub fn new() -> Self"],
    ],
    [
      "A.java",
      "package a;\npublic final class A {\n    private int x;\n    public static int size(List<String> a) {\n        return foo(a);\n    }\n}\n",
      ["L2 public final class A", "L4 public static int size(List<String> a) { return foo(a); }"],
    ],
    [
      "a.c",
      "#include <x.h>\n#define MAX 3\nstatic int parse(char *s)\n{\n  return go(s);\n}\nint main(int argc, char **argv) {\n",
      ["L2 #define MAX 3", "L3 static int parse(char *s)", "L7 int main(int argc, char **argv)"],
    ],
    ["a.md", "# Title\ntext\n```sh\n# not a heading\n```\n## Use\n", ["L1 # Title", "L6 ## Use"]],
    ["a.yaml", "name: x\njobs:\n  build: 1\non: [push]\n", ["L1 name: x", "L2 jobs", "L4 on: [push]"]],
    ["a.toml", "[package]\nname = 'x'\n", ["L1 [package]", "L2 name = 'x'"]],
    ["a.sh", "set -e\nrun() {\n  x\n}\nROOT=/a\n", ["L2 run()", "L5 ROOT=/a"]],
    ["a.sql", "select 1;\nCREATE TABLE users (\n id int\n);\n", ["L2 CREATE TABLE users ("]],
  ];
  for (const [path, text, found] of cases) {
    test(path, () => {
      const result = lines(path, text);
      expect(result.slice(0, found.length)).toEqual(found);
    });
  }
});

describe("room", () => {
  const names = Array.from({ length: 120 }, (_, i) => `export function handler${i}(request: Request): Response {\n}\n`);

  test("packs names where lines do not fit, and says how many are missing", () => {
    const result = lines("a.ts", names.join(""));
    expect(result[0]).toStartWith("exports: L1 handler0(), L3 handler1(), ");
    expect(result.join("\n").length).toBeLessThanOrEqual(ROOM.chars);
    const hidden = Number(/… (\d+) more$/.exec(result.at(-1) ?? "")?.[1]);
    const shown = result.join(" ").match(/handler/g)?.length ?? 0;
    expect(shown + hidden).toBe(120);
  });

  test("names what a file offers before what it keeps to itself", () => {
    const many = Array.from({ length: 100 }, (_, i) => `function helper${i}() {\n}\n`).join("");
    const result = lines("a.ts", `${many}export class Last {\n}\n`);
    expect(result[0]).toBe("exports: L201 class Last");
    expect(result[1]).toStartWith("local: L1 helper0(), ");
  });

  test("counts lines from where the read began", () => {
    expect(lines("a.ts", "x\nexport const a = 1;\n", 100)[0]).toBe("L101 export const a = 1;");
  });

  test("adds a note left in the code, and the ends of a file that defines next to nothing", () => {
    expect(lines("a.ts", "export const a = 1;\n\n  // TODO missing error handler\n")).toContain(
      "L3 TODO missing error handler",
    );
    expect(lines("a.ts", "run();\nexport const a = 1;\nstop();\n")).toEqual([
      "L2 export const a = 1;",
      "L1 run();",
      "L3 stop();",
    ]);
  });
});

describe("other files", () => {
  test("JSON: keys and values in brief; an array: its length and first element", () => {
    expect(lines("package.json", '{"name":"pi","deps":{"a":1,"b":2},"files":["x"],"private":true,"n":null}')).toEqual([
      'JSON object: name "pi", deps {a, b}, files [1], private true, n null',
    ]);
    expect(lines("a.json", '[{"id":1},{"id":2}]')).toEqual(["JSON array of 2, first: id 1"]);
    expect(lines("a.json", "[1, 2, 3]")).toEqual(["JSON array of 3: 1, 2, 3"]);
  });

  test("JSON that is cut off: its keys by line", () => {
    expect(lines("a.json", '{\n  "name": "pi",\n  "scripts": {\n    "x": 1,\n')).toContain('L3 "scripts":');
  });

  test("anything else: first and last lines with words in them", () => {
    const text = Array.from({ length: 50 }, (_, i) => `row ${i + 1}`).join("\n");
    expect(lines("data.csv", `${text}\n-----\n\n`)).toEqual([
      "L1 row 1",
      "L2 row 2",
      "L3 row 3",
      "L48 row 48",
      "L49 row 49",
      "L50 row 50",
    ]);
  });

  test("a log: its errors", () => {
    const text = Array.from({ length: 50 }, (_, i) => `row ${i + 1}`);
    text[20] = "ERROR disk full";
    expect(lines("run.log", text.join("\n"))).toContain("L21 ERROR disk full");
  });
});
