import { describe, expect, test } from "bun:test";
import { splitSummary } from "./split.ts";

describe("splitSummary", () => {
  test.each<[string, string]>([
    ["plain marks", "[1] first\n[2] second"],
    ["marks on lines of their own", "[1]\nfirst\n[2]\nsecond"],
    ["bold marks", "**[1]** first\n**[2]** second"],
    ["list items", "- [1] first\n- [2] second"],
    ["starred list items", "* [1] first\n* [2] second"],
    ["headings", "## [1] first\n## [2] second"],
    ["colons", "[1]: first\n[2]: second"],
    ["indentation", "  [1] first\n  [2] second"],
    ["blank lines between", "\n[1] first\n\n\n[2] second\n"],
    ["carriage returns", "[1] first\r\n[2] second\r\n"],
  ])("takes %s", (_what, text) => {
    expect(splitSummary(text, 2)).toEqual(["first", "second"]);
  });

  test("keeps the lines of a section", () => {
    expect(splitSummary("[1] read a.ts\n- exports a\n\n- line 3\n[2] ok", 2)).toEqual([
      "read a.ts\n- exports a\n\n- line 3",
      "ok",
    ]);
  });

  test("takes the shortest of sections", () => {
    expect(splitSummary("[1] a\n[2] b", 2)).toEqual(["a", "b"]);
  });

  test("leaves out what stands before the first section", () => {
    expect(splitSummary("Here is the summary:\n\n[1] first\n[2] second", 2)).toEqual(["first", "second"]);
  });

  test("marks inside a line are text", () => {
    expect(splitSummary("[1] array[2] is [2] long\n[2] second", 2)).toEqual(["array[2] is [2] long", "second"]);
  });

  test("a mark that is not the next one is text", () => {
    expect(splitSummary("[1] first\n[7] is a footnote\n[2] second", 2)).toEqual(["first\n[7] is a footnote", "second"]);
  });

  test("marks beyond the last call are its text", () => {
    expect(splitSummary("[1] first\n[2] second\n[3] more", 2)).toEqual(["first", "second\n[3] more"]);
  });

  test("tells more than nine calls apart", () => {
    const numbers = Array.from({ length: 12 }, (_, i) => `${i + 1}`);
    const text = numbers.map((n) => `[${n}] call ${n}`).join("\n");
    expect(splitSummary(text, 12)).toEqual(numbers.map((n) => `call ${n}`));
  });

  test.each<[string, string]>([
    ["a section is missing", "[1] first"],
    ["a section is empty", "[1]\n[2] second"],
    ["a section holds only blanks", "[1]  \n\n[2] second"],
    ["the sections are in another order", "[2] second\n[1] first"],
    ["they begin with another number", "[2] first\n[3] second"],
    ["there are no marks", "first\nsecond"],
    ["there is nothing", ""],
  ])("gives nothing where %s", (_why, text) => {
    expect(splitSummary(text, 2)).toBeUndefined();
  });

  test("a single call needs no mark, but may have one", () => {
    expect(splitSummary("  all of it\n", 1)).toEqual(["all of it"]);
    expect(splitSummary("[1] all of it", 1)).toEqual(["all of it"]);
  });

  test("an empty text is no section, not even for a single call", () => {
    expect(splitSummary(" \n", 1)).toBeUndefined();
    expect(splitSummary("[1]", 1)).toBeUndefined();
  });
});
