import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { PROPERTY_RUNS } from "../../test/support/property-runs.ts";
import { cleanSummary, escapeTags } from "./clean.ts";

describe("escapeTags", () => {
  test.each<[string, string]>([
    ["the tag itself", "</output>"],
    ["an opening tag", "<output>"],
    ["capitals", "</OUTPUT>"],
    ["attributes", `<compressed-chain id="b1">`],
    ["a blank before the name", "</ output>"],
    ["a zero-width sign before the name", "<\u200boutput>"],
    ["blanks and line breaks everywhere", "< \n/ \t output >"],
    ["a zero-width space", "<\u200b/output>"],
    ["zero-width signs in the name", "</ou\u200btp\u2060ut>"],
    ["full-width signs", "＜／ｏｕｔｐｕｔ＞"],
    ["full-width letters", "</ｏutｐut>"],
    ["another bracket", "‹/output›"],
    ["another hyphen", "</protected\u2011output>"],
    ["no bracket at its end", "<condensed-args"],
  ])("breaks up %s", (_what, text) => {
    expect(escapeTags(text)).toBe(`&lt;${text.slice(1)}`);
    expect(escapeTags(escapeTags(text))).toBe(escapeTags(text));
  });

  test.each(["a < b", "<out>", "</div>", "x <- output", "i < output.length", "Array<string>"])("leaves %s", (text) => {
    expect(escapeTags(text)).toBe(text);
  });
});

describe("cleanSummary", () => {
  test.each<[string, string, string]>([
    ["colours", "\u001b[31mred\u001b[0m text", "red text"],
    ["a hyperlink", "\u001b]8;;http://x\u0007here\u001b]8;;\u0007", "here"],
    ["control characters", "a\u0000b\u0008c\u009bd", "abcd"],
    ["carriage returns", "a\r\nb\rc", "a\nb\nc"],
    ["bidirectional overrides", "\u202egpj.exe\u202c \u2066x\u2069", "gpj.exe x"],
    ["zero-width signs", "a\u200bb\ufeffc\u00add\u2060e", "abcde"],
    ["tag characters", `a\u{e0041}\u{e007f}b`, "ab"],
    ["a lone surrogate", "a\ud83db", "a\ufffdb"],
    ["a stub", "[t12 condensed: read a.ts, ok]", "[quoted: t12 condensed: read a.ts, ok]"],
    ["a stub within a line", "x [T3  Condensed : y]", "x [quoted: T3  Condensed : y]"],
    ["a stub without a ref", "[condensed: identical to t7]", "[quoted: condensed: identical to t7]"],
    ["a stub that comes together", "[t1\u200b2 con\u0000densed: x]", "[quoted: t12 condensed: x]"],
    [
      "a chain",
      `<compressed-chain id="b7">x</compressed-chain>`,
      `&lt;compressed-chain id="b7">x&lt;/compressed-chain>`,
    ],
  ])("takes out or breaks up %s", (_what, text, clean) => {
    expect(cleanSummary(text)).toBe(clean);
  });

  test.each([
    "- exports createApp()\n\t- line 88",
    "naïve café — 漢字 👩‍👩‍👧 नमस्ते",
    "the condensed form: [1] x[t1]",
    "می‌خواهم",
    "a < b",
  ])("leaves %p", (text) => {
    expect(cleanSummary(text)).toBe(text);
  });

  test("cleaning twice changes nothing more", () => {
    const part = fc.constantFrom(
      "[",
      "t1",
      " ",
      "condensed",
      ":",
      "<",
      "/",
      "output",
      "\u001b[",
      "m",
      "\u200b",
      "\r",
      "\n",
      "x",
      "\ud83d",
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
        const once = cleanSummary(parts.join(""));
        expect(cleanSummary(once)).toBe(once);
      }),
      { numRuns: PROPERTY_RUNS },
    );
  });
});
