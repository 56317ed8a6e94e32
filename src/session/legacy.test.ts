import { describe, expect, test } from "bun:test";
import { splitLegacySummary } from "./legacy.ts";

const REFS = [
  { shortId: "t1", toolCallId: "c1" },
  { shortId: "t2", toolCallId: "c2" },
];
const FOOTER = "\n\n---\n**Summarized tool refs**: `t1`, `t2`\nUse `context_tree_query` with these refs.";

describe("splitLegacySummary", () => {
  test("gives each call its list item, without mark and footer", () => {
    expect(splitLegacySummary(`\n- \`t1\` read: three exports \n\n- \`t2\` bash: passed${FOOTER}`, REFS)).toEqual([
      "read: three exports",
      "bash: passed",
    ]);
  });

  test("an item keeps its further lines, lists in it included", () => {
    const text = `- \`t1\` read:\n  - createApp()\n- PORT\n- \`t2\` bash: passed${FOOTER}`;
    expect(splitLegacySummary(text, REFS)[0]).toBe("read:\n  - createApp()\n- PORT");
  });

  test("items are told apart by their refs, not by their order", () => {
    expect(splitLegacySummary(`- \`t2\` second\n- \`t1\` first${FOOTER}`, REFS)).toEqual(["first", "second"]);
  });

  test("where one call has no item, the last call takes the whole text", () => {
    const body = "- `t1` read: three exports\nand all tests passed";
    expect(splitLegacySummary(`${body}${FOOTER}`, REFS)).toEqual([undefined, body]);
  });

  test("text without items goes to the last call, without the footer", () => {
    expect(splitLegacySummary(`Both files export functions.${FOOTER}`, REFS)).toEqual([
      undefined,
      "Both files export functions.",
    ]);
  });
});
