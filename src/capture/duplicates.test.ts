import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import type { ResultContent } from "../types.ts";
import { contentHash, shortHash } from "./duplicates.ts";

const text = (value: string): ResultContent[number] => ({ type: "text", text: value });
const image = (data: string, mimeType = "image/png"): ResultContent[number] => ({ type: "image", data, mimeType });

function hash(content: ResultContent, { toolName = "read", isError = false } = {}): string {
  return contentHash({ toolName, isError, content });
}

describe("contentHash", () => {
  test("is the same for the same result, and short", () => {
    expect(hash([text("abc"), image("AAAA")])).toBe(hash([text("abc"), image("AAAA")]));
    expect(hash([text("abc")])).toMatch(/^[\w-]{22}$/);
  });

  test("is what the whole hash of earlier releases says", () => {
    const whole = createHash("sha256");
    for (const part of ["tool:4:", "read", "error:5:", "false", "text:3:", "abc"])
      whole.update(part, part.includes(":") ? "utf8" : "utf16le");
    expect(shortHash(whole.digest("hex"))).toBe(hash([text("abc")]));
    expect(shortHash(hash([text("abc")]))).toBe(hash([text("abc")]));
  });

  test.each<[string, string, string]>([
    ["tool", hash([text("abc")]), hash([text("abc")], { toolName: "bash" })],
    ["error flag", hash([text("abc")]), hash([text("abc")], { isError: true })],
    ["text", hash([text("abc")]), hash([text("abd")])],
    ["last of many characters", hash([text(`${"x".repeat(1e5)}a`)]), hash([text(`${"x".repeat(1e5)}b`)])],
    ["border between two blocks", hash([text("ab"), text("c")]), hash([text("a"), text("bc")])],
    ["line break instead of a border", hash([text("a\nb")]), hash([text("a"), text("b")])],
    ["further block that is empty", hash([text("a")]), hash([text("a"), text("")])],
    ["order of blocks", hash([text("a"), image("AAAA")]), hash([image("AAAA"), text("a")])],
    ["image's bytes", hash([image("AAAA")]), hash([image("AAAB")])],
    ["image's type", hash([image("AAAA")]), hash([image("AAAA", "image/jpeg")])],
    ["image beside the text", hash([text("a")]), hash([text("a"), image("AAAA")])],
    ["half of a surrogate pair", hash([text("\ud83d")]), hash([text("\ude00")])],
    ["border between tool and text", hash([text("b")], { toolName: "a" }), hash([text("")], { toolName: "ab" })],
  ])("another %s is another hash", (_what, one, other) => {
    expect(one).not.toBe(other);
  });
});
