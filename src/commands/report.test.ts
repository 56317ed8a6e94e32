import { describe, expect, test } from "bun:test";
import { emptyReport, type FlushReport } from "../flush.ts";
import { describeReport } from "./report.ts";

function told(report: Partial<FlushReport>) {
  return describeReport({ ...emptyReport(), ...report });
}

describe("describeReport", () => {
  test("tells what was condensed, and from what size to what", () => {
    expect(told({ condensed: 2, rawChars: 14_203, keptChars: 820 })).toEqual({
      message: "Condensed 2 results: 14,203 to 820 characters.",
      type: "info",
    });
  });

  test("tells of duplicates", () => {
    expect(told({ condensed: 1, duplicates: 1, rawChars: 9, keptChars: 1 }).message).toStartWith(
      "Condensed 1 result and 1 duplicate: ",
    );
    expect(told({ duplicates: 2 }).message).toBe("Condensed 2 duplicates.");
  });

  test("that there was nothing to do is no warning", () => {
    expect(told({})).toEqual({ message: expect.stringMatching(/^Nothing to condense: /), type: "info" });
  });

  test.each<[Partial<FlushReport>, string]>([
    [{ trivial: 1 }, "Nothing condensed. Left as they are: 1 result too small."],
    [{ oversized: 1 }, "Nothing condensed. Left as they are: 1 result not made shorter by a summary."],
    [
      { trivial: 2, oversized: 3 },
      "Nothing condensed. Left as they are: 2 results too small, 3 results not made shorter by a summary.",
    ],
  ])("tells of what was left: %j", (report, message) => {
    expect(told(report)).toEqual({ message, type: "info" });
  });

  test("that the summariser failed is a warning where nothing else came of it", () => {
    expect(told({ failed: 1 })).toEqual({
      message: expect.stringMatching(/^Nothing condensed: the summariser failed; 1 result /),
      type: "warning",
    });
    expect(told({ failed: 2, trivial: 1 }).message).toContain("1 result too small");
  });

  test("that it failed for some is told beside what was condensed", () => {
    expect(told({ condensed: 1, failed: 1, rawChars: 9, keptChars: 1 }).message).toMatch(
      /^Condensed 1 result: 9 to 1 characters\. The summariser failed for 1 result, /,
    );
  });
});
