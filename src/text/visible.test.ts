import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { visible, visibleJson } from "./visible.ts";

const OBEYED = /(?!\n)[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

describe("shown text", () => {
  test("holds nothing that a terminal obeys", () => {
    expect(visible("a\u001b[31mred\r\n\u202eb\u009b1m")).toBe("a\\u{1b}[31mred\\u{d}\n\\u{202e}b\\u{9b}1m");
    expect(visible("Grüße, 漢字 👩‍💻")).toBe("Grüße, 漢字 👩‍💻");
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => !OBEYED.test(visible(text))));
  });

  test("means the same where it is JSON", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const json = visibleJson(JSON.stringify([text], null, 2));
        expect(JSON.parse(json)).toEqual([text]);
        expect(OBEYED.test(json)).toBe(false);
      }),
    );
  });
});
