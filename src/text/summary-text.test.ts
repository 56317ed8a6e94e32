import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { cleanSummary } from "./summary-text.js";

describe("cleanSummary", () => {
  test.each([
    ["colours and cursor moves", "a \u001b[31mred\u001b[0m b\u001b[2J", "a red b"],
    ["titles and links", "\u001b]0;title\u0007text \u001b]8;;http://x\u001b\\link", "text link"],
    ["bare controls", "a\u0000b\u001bc\u0085d\u007f", "abcd"],
    ["line ends, while tabs stay", "a\r\nb\rc\td", "a\nb\nc\td"],
    ["changes of direction", "file\u202Etxt.exe\u2066x\u2069", "filetxt.exex"],
    [
      "stubs",
      "- [t12 condensed: read a] and [condensed: x]",
      "- [\u00b7t12 condensed: read a] and [\u00b7condensed: x]",
    ],
    [
      "chains",
      '<compressed-chain id="b1">x</compressed-chain>',
      '<\u00b7compressed-chain id="b1">x<\u00b7/compressed-chain>',
    ],
    ["markers of arguments", '<condensed-args chars="9" ref="t1"/>', '<\u00b7condensed-args chars="9" ref="t1"/>'],
    ["imitations that come together behind an escape", "[\u001b[0mt1 condensed: x]", "[\u00b7t1 condensed: x]"],
  ])("%s", (_, text, clean) => {
    expect(cleanSummary(text)).toBe(clean);
  });

  test("leaves ordinary text as it is", () => {
    const text = "- exports createApp() [12]\n- <div> at line 3, condensed: no\n\tחשבון 字 [t1] done";
    expect(cleanSummary(text)).toBe(text);
  });

  test("twice is as once", () => {
    const piece = fc.constantFrom(
      "\u001b",
      "[",
      "t1 ",
      "condensed:",
      "<",
      "/",
      "condensed-args",
      "\u202e",
      "\r",
      "\n",
      " ",
      "0m",
      "\ud83d",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const clean = cleanSummary(pieces.join(""));
        expect(cleanSummary(clean)).toBe(clean);
      }),
    );
  });

  test("takes linear time over hostile text", () => {
    const start = performance.now();
    for (const piece of ["[ ", "[t1", "< / ", "\u001b[", "\u001b]", "[t1 condensed ", "condensed"])
      cleanSummary(piece.repeat(100_000));
    expect(performance.now() - start).toBeLessThan(2_000);
  });
});
