import { describe, expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseSession, ReplayInputError, readSessionFile } from "./session-file.ts";

const HEADER = { type: "session", version: 3, id: "s1", timestamp: "2026-01-01T00:00:00.000Z", cwd: "/repo" };
const V1_HEADER = { type: "session", id: "s1", timestamp: "2026-01-01T00:00:00.000Z", cwd: "/repo" };
const TIME = "2026-01-01T00:00:01.000Z";

function jsonl(...lines: unknown[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

function user(text: string, rest: object = {}) {
  return { type: "message", timestamp: TIME, message: { role: "user", content: text, timestamp: 5 }, ...rest };
}

function problem(text: string): string {
  try {
    parseSession(text, "x.jsonl");
  } catch (error) {
    if (error instanceof ReplayInputError) return error.message;
    throw error;
  }
  return "";
}

describe("a session file", () => {
  test("of the newest format is taken as it is", () => {
    const entries = [user("a", { id: "1", parentId: null }), user("b", { id: "2", parentId: "1" })];
    const session = parseSession(jsonl(HEADER, ...entries), "x.jsonl");
    expect(session).toMatchObject({ id: "s1", cwd: "/repo" });
    expect(session.entries).toMatchObject(entries);
  });

  test("of the first format gets ids in a row, and its compactions the id of what they kept", () => {
    // The place of the first kept entry is counted from the header on: 2 is "b".
    const compaction = { type: "compaction", timestamp: TIME, summary: "s", firstKeptEntryIndex: 2, tokensBefore: 9 };
    const { entries } = parseSession(jsonl(V1_HEADER, user("a"), user("b"), compaction), "x.jsonl");
    expect(entries.map(({ parentId }) => parentId)).toEqual([null, entries[0]?.id ?? "", entries[1]?.id ?? ""]);
    expect(entries[2]).toMatchObject({ firstKeptEntryId: entries[1]?.id });
  });

  test("of the second format has its hook messages renamed", () => {
    const hook = { role: "hookMessage", customType: "x", content: "c", display: true, timestamp: 5 };
    const entry = { type: "message", id: "1", parentId: null, timestamp: TIME, message: hook };
    const { entries } = parseSession(jsonl({ ...HEADER, version: 2 }, entry), "x.jsonl");
    expect(entries[0]).toMatchObject({ message: { role: "custom", content: "c" } });
  });

  test("may have blank lines, a byte order mark, and messages without a time", () => {
    const message = { role: "user", content: "a" };
    const entry = { type: "message", id: "1", parentId: null, timestamp: TIME, message };
    const { entries } = parseSession(`\uFEFF${jsonl(HEADER)}\n\n${jsonl(entry)}\n`, "x.jsonl");
    expect(entries[0]).toMatchObject({ message: { timestamp: Date.parse(TIME) } });
  });

  test.each([
    ["empty", "", "x.jsonl: the file is empty."],
    ["blank", "\n \n", "x.jsonl: the file is empty."],
    ["other JSON", '{"a":1}\n', "no pi session"],
    ["no JSON", "hello\n", "no pi session"],
    ["a list", "[1,2]\n", "no pi session"],
    ["a corrupt line", `${jsonl(HEADER)}{"type":\n${jsonl(user("a"))}`, "x.jsonl, line 2: not valid JSON. Remove or"],
    [
      "a cut last line",
      `${jsonl(HEADER, user("a", { id: "1", parentId: null }))}{"ty`,
      "line 3: not valid JSON. It is",
    ],
    ["no object", `${jsonl(HEADER)}42\n`, "line 2: not valid JSON"],
    ["no type", jsonl(HEADER, { id: "1", parentId: null }), "line 2: an entry without a type"],
    ["no id", jsonl(HEADER, user("a")), "line 2: an entry without an id"],
    ["no role", jsonl(HEADER, { type: "message", id: "1", parentId: null, message: {} }), "line 2: a message without"],
    [
      "no content",
      jsonl(HEADER, { type: "message", id: "1", parentId: null, message: { role: "assistant" } }),
      "line 2: a message of role assistant without content",
    ],
  ])("that is %s is refused with the place", (_name, text, expected) => {
    expect(problem(text)).toContain(expected);
  });

  test("that is missing, or a folder, is refused", () => {
    const folder = mkdtempSync(join(tmpdir(), "pi-condense-replay-test-"));
    expect(() => readSessionFile(join(folder, "none.jsonl"))).toThrow("there is no such file");
    expect(() => readSessionFile(folder)).toThrow("this is a folder");
    writeFileSync(join(folder, "a.jsonl"), jsonl(HEADER));
    expect(readSessionFile(join(folder, "a.jsonl")).entries).toEqual([]);
  });
});
