import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { cut, cutStart, flatten, numberArg, oneLine, sliceText, stringArg } from "./text.ts";

/** UTF-8 has no lone surrogates, so that only a well-formed text survives the round trip. */
function isWellFormed(text: string): boolean {
  return Buffer.from(text, "utf8").toString("utf8") === text;
}

describe("cutting", () => {
  test("moves a bound that would split a pair inwards", () => {
    expect(sliceText("a😀b", 0, 2)).toBe("a");
    expect(sliceText("a😀b", 2, 4)).toBe("b");
    expect(sliceText("a😀b", 1, 3)).toBe("😀");
  });

  test("marks a cut and keeps the limit", () => {
    expect(cut("abcdef", 6)).toBe("abcdef");
    expect(cut("abcdef", 4)).toBe("abc…");
    expect(cutStart("abcdef", 4)).toBe("…def");
    expect(cut("abc", 0)).toBe("");
  });

  test("well-formed in, well-formed out, within the limit", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 60 }), fc.integer({ min: 0, max: 40 }), (text, max) => {
        for (const result of [cut(text, max), cutStart(text, max), oneLine(text, max)]) {
          expect(result.length).toBeLessThanOrEqual(max);
          expect(isWellFormed(result)).toBe(true);
        }
      }),
    );
  });
});

describe("flattening", () => {
  test("takes out escape sequences, control characters and line breaks", () => {
    expect(flatten("\u001b[31mred\u001b[0m\ttext\r\nnext\u0000end")).toBe("red text next end");
    expect(flatten("\u001b]8;;https://a.b\u0007link\u001b]8;;\u0007")).toBe("link");
    expect(flatten("\u001b]0;a window's title\u0007text\u001b]2;cut off\nnext")).toBe("text next");
  });

  test("replaces lone surrogates", () => {
    expect(flatten("a\ud83d b")).toBe("a\ufffd b");
  });

  test("looks past leading blanks, however many", () => {
    expect(oneLine(`${" ".repeat(5000)}word`, 10)).toBe("word");
    expect(oneLine(" \n\t", 10)).toBe("");
  });

  test("says so where it has not looked at the rest", () => {
    expect(oneLine(`a${" ".repeat(500)}b`, 20)).toBe("a…");
  });
});

describe("arguments", () => {
  test("strings: the first that is there and not blank", () => {
    expect(stringArg({ path: " ", file_path: "a.ts" }, "path", "file_path")).toBe("a.ts");
    expect(stringArg({ path: 7 }, "path")).toBeUndefined();
  });

  test("numbers: also written as a string, but whole and positive", () => {
    expect(numberArg({ offset: "12" }, "offset")).toBe(12);
    for (const offset of [0, -1, 1.5, "x", Number.NaN, null, {}]) {
      expect(numberArg({ offset }, "offset")).toBeUndefined();
    }
  });
});
