import { describe, expect, test } from "bun:test";
import { cpuMs } from "../../test/support/cpu-time.ts";
import { taggedText } from "./tags.ts";

describe("taggedText", () => {
  test("gives what stands between the marks, marks included, in order", () => {
    const text = "a\n<protect>keep\nthis</protect> b <protect>and this</protect> c";
    expect(taggedText(text)).toBe("<protect>keep\nthis</protect>\n<protect>and this</protect>");
  });

  test("each mark ends at the first end behind it", () => {
    expect(taggedText("<protect>a <protect>b</protect> c</protect>")).toBe("<protect>a <protect>b</protect>");
    expect(taggedText("</protect><protect></protect>")).toBe("<protect></protect>");
  });

  test.each([
    "",
    "plain",
    "<protect>never ended",
    "ended</protect>",
    "<protected>no</protected>",
    "<PROTECT>no</PROTECT>",
  ])("gives nothing for %j", (text) => expect(taggedText(text)).toBe(""));

  test("takes a moment on a long text of open marks", () => {
    expect(cpuMs(() => expect(taggedText("<protect>".repeat(20_000))).toBe(""))).toBeLessThan(1_000);
  });
});
