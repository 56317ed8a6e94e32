/** Replies and outputs that are made to keep a pattern busy: twice the text must not take four times the work. */
import { describe, expect, test } from "bun:test";
import { cleanSummary, escapeTags } from "../text/clean.ts";
import type { CapturedToolCall } from "../types.ts";
import { buildRangeRequest, buildSummaryRequest } from "./prompt.ts";
import { faultOf, replyText, saysSomething } from "./reply.ts";
import { splitSummary } from "./split.ts";
import { troubleOf } from "./trouble.ts";
import { unsupportedClaims } from "./unsupported-claims.ts";

const call = (resultText: string): CapturedToolCall => ({
  ...{ occurrenceKey: "c1@2", toolCallId: "c1", toolName: "bash", args: { command: "x" }, resultText },
  ...{ content: [], resultImages: 0, isError: false, resultTimestamp: 2 },
});
const batchOf = (text: string) => ({ turnIndex: 0, timestamp: 1, assistantText: "", toolCalls: [call(text)] });

const SMALL = unsupportedClaims(batchOf("a/b 123"));
const REQUEST = buildSummaryRequest(batchOf("a/b 123"), 10_000);

const READERS: readonly [string, (text: string) => unknown][] = [
  ["the search for unsupported claims", (text) => SMALL(text)],
  [
    "the search for unsupported claims, the output as hostile",
    (text) => unsupportedClaims(batchOf(text))(text.slice(0, 200)),
  ],
  ["splitting", (text) => splitSummary(text, 3)],
  ["reading a reply", (text) => replyText(text)],
  ["judging a reply", (text) => faultOf(text, REQUEST)],
  ["judging a section", (text) => saysSomething(text)],
  ["cleaning", (text) => cleanSummary(text)],
  ["breaking up tags", (text) => escapeTags(text)],
  ["a request", (text) => buildSummaryRequest(batchOf(text), 10_000)],
  ["a request to fuse", (text) => buildRangeRequest([text, text], 10_000)],
  ["sorting trouble", (text) => troubleOf(text)],
];

const UNITS = [
  ..."-A1/\\._*#[ \t\n,:~@`<>'",
  "[1]",
  "[1]\n",
  "- [1] ",
  "1,",
  "123,",
  "1.2",
  "a/",
  "a.b/",
  "/..",
  "../",
  "C:",
  "\\\\",
  "a-",
  "<think>",
  "</think>",
  "<think> ",
  " </think>",
  "```\n",
  "\n```",
  "sorry ",
  "no data ",
  "< ",
  "<\u200b",
  "<o u t",
  "</",
  "[t1 ",
  "[t1 condensed",
  "\u001b[",
  "\u001b]",
  "\u001b[1;",
  "\u001b]8;;",
  "\u001b;;a",
  "\u0000",
  "\u202e",
  "\u200b",
  "\u0301",
  "\ud83d",
  "; data=",
  "漢",
];

/** Milliseconds of the fastest of three runs. */
function fastest(run: () => unknown): number {
  const times = Array.from({ length: 3 }, () => {
    const startedAt = performance.now();
    run();
    return performance.now() - startedAt;
  });
  return Math.min(...times);
}

describe.each(READERS)("%s takes time in proportion to the text", (_name, read) => {
  test.each(UNITS.map((unit) => [JSON.stringify(unit), unit] as const))("of %s", (_shown, unit) => {
    const text = (chars: number) => `x${unit.repeat(Math.ceil(chars / unit.length))}!`;
    const [short, long] = [text(8_000), text(64_000)];
    // Quick is good enough: what is quadratic takes a second and more here.
    const quick = fastest(() => read(long));
    if (quick < 150) return;
    expect(quick / fastest(() => read(short))).toBeLessThan(24);
  });
});

test("many figures and paths in a reply to a long output take no more than the work that is set apart", () => {
  const output = Array.from({ length: 200_000 }, (_, i) => `${i} a${i}/b`).join("\n");
  const reply = Array.from({ length: 9_000 }, (_, i) => `9${i}77 q${i}/z.ts`).join(" ");
  const check = unsupportedClaims(batchOf(output));
  expect(check(reply.slice(0, 50_000)).length).toBeGreaterThan(1_000);
  const startedAt = performance.now();
  // The work is used up by now: nothing more is searched.
  expect(check(reply.slice(50_000, 100_000)).length).toBeGreaterThan(1_000);
  expect(performance.now() - startedAt).toBeLessThan(2_000);
});

test("arguments that are nested very deep stand in no one's way", () => {
  let args: Record<string, unknown> = {};
  for (let i = 0; i < 200_000; i++) args = { a: args };
  const deep = { ...batchOf("output"), toolCalls: [{ ...call("output"), args }] };
  expect(buildSummaryRequest(deep, 10_000).text).toContain("<output>\noutput\n</output>");
  expect(unsupportedClaims(deep)("see made/up.ts")).toEqual(["made/up.ts"]);
});
