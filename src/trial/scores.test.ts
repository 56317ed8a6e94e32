import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { parseSession } from "../replay/session-file.ts";
import { estimateOf } from "./estimate.ts";
import { pickMoments } from "./moments.ts";
import { isSame, scoresOf, shareOf } from "./scores.ts";
import { StateFile } from "./state-file.ts";
import { systemPromptOf, toolsOf } from "./tools.ts";
import { armsOf, CONDENSED, type Moment, type Outcome, type Run } from "./types.ts";

const ARMS = armsOf([{ name: CONDENSED }]);

const call = (tool: string, target: string, exact?: boolean): Outcome => ({
  kind: "call",
  tool,
  target,
  args: "{}",
  exact,
});

function run(outcome: Outcome, more: Partial<Run> = {}): Run {
  return { outcome, requests: 1, promptTokens: 100, outputTokens: 10, cost: 0.1, lookups: [], madeUp: [], ...more };
}

const moment = (index: number, kind: Moment["kind"]): Moment => ({
  index,
  kind,
  rawTokens: 1_000,
  condensedTokens: 100,
});

describe("shares", () => {
  test("carry Wilson's interval", () => {
    const { low, high } = shareOf(8, 10);
    expect([low.toFixed(3), high.toFixed(3)]).toEqual(["0.490", "0.943"]);
    expect(shareOf(0, 10)).toMatchObject({ low: 0 });
    expect(shareOf(0, 10).high.toFixed(3)).toBe("0.278");
    expect(shareOf(0, 0)).toMatchObject({ low: 0, high: 1 });
  });

  test("lie within their interval, which grows narrower with more runs", () => {
    fc.assert(
      fc.property(fc.nat(200), fc.nat(200), (hits, misses) => {
        const of = hits + misses;
        fc.pre(of > 0);
        const { low, high } = shareOf(hits, of);
        expect(low).toBeWithin(0, hits / of + 1e-9);
        expect(high).toBeWithin(hits / of - 1e-9, 1 + 1e-9);
        const more = shareOf(hits * 4, of * 4);
        expect(more.high - more.low).toBeLessThan(high - low);
      }),
    );
  });
});

test("runs are compared by tool and file, a command by its programs", () => {
  expect(isSame(call("edit", "a.ts"), call("edit", "a.ts"))).toBe(true);
  expect(isSame(call("edit", "a.ts"), call("write", "a.ts"))).toBe(false);
  expect(isSame(call("bash", "npm test -- a"), call("bash", "npm test"))).toBe(true);
  expect(isSame(call("bash", "npm test"), call("bash", "git commit"))).toBe(false);
  expect(isSame({ kind: "text", text: "a" }, { kind: "text", text: "b" })).toBe(true);
  expect(isSame({ kind: "limit" }, { kind: "limit" })).toBe(false);
});

test("moments that want reading are those where the condensed context leads elsewhere", () => {
  const moments = [moment(5, "use"), moment(3, "random"), moment(1, "random")];
  const edit = run(call("edit", "a.ts", true));
  const runs = moments.flatMap(({ index }) => [
    { index, arm: "raw", run: edit },
    { index, arm: "raw again", run: run(call("edit", "b.ts")) },
    {
      index,
      arm: "condensed",
      run: index === 1 ? edit : index === 3 ? run(call("edit", "a.ts", false)) : run(call("bash", "ls")),
    },
  ]);
  const { complete, agreements, figures, differences } = scoresOf(moments, ARMS, runs);
  expect(complete).toBe(3);
  expect(agreements.condensed).toMatchObject({
    all: { hits: 2, of: 3 },
    random: { hits: 2, of: 2 },
    use: { hits: 0, of: 1 },
  });
  expect(agreements["raw again"]).toMatchObject({ all: { hits: 0, of: 3 } });
  expect(figures.condensed).toMatchObject({ exact: { hits: 1, of: 2 }, promptTokens: 100 });
  expect(differences.map((one) => one.moment.index)).toEqual([3, 5]);
  expect(scoresOf(moments, ARMS, runs.slice(0, 4)).complete).toBe(1);
});

test("moments are the same for the same seed, half of them with uses as far as there are any", () => {
  const candidates = Array.from({ length: 40 }, (_, index) => ({
    index,
    rawTokens: 2,
    condensedTokens: 1,
    uses: index % 8 === 0,
  }));
  const picked = pickMoments(candidates, { points: 8, seed: 1 });
  expect(picked).toEqual(pickMoments(candidates, { points: 8, seed: 1 }));
  expect(picked).not.toEqual(pickMoments(candidates, { points: 8, seed: 2 }));
  expect(picked.filter(({ kind }) => kind === "use")).toHaveLength(4);
  expect(new Set(picked.map(({ index }) => index)).size).toBe(8);
  const many = pickMoments(candidates, { points: 30, seed: 1 });
  expect([many.length, many.filter(({ kind }) => kind === "use").length]).toEqual([30, 5]);
  expect(pickMoments(candidates, { points: 100, seed: 1 })).toHaveLength(40);
});

test("the cost is told for what is still to be made, the second raw run from the cache of the first", () => {
  const rates = { input: 1_000, output: 0, cacheRead: 100, cacheWrite: 1_000 };
  const all = estimateOf([moment(1, "use")], ARMS, rates, () => false);
  // 4,000 tokens raw with what stands before them, written once and read once; 3,100 condensed.
  expect(all).toMatchObject({ runs: 3, least: 4 + 0.4 + 3.1 });
  expect(all.usual).toBeGreaterThan(all.least);
  expect(all.most).toBeGreaterThan(all.usual);
  expect(estimateOf([moment(1, "use")], ARMS, rates, (_, arm) => arm !== "condensed").least).toBeCloseTo(3.1);
});

test("tools and prompts are the recorded ones, else the host's, else what the calls show", () => {
  const recordedTool = { name: "read", description: "of the session", parameters: { type: "object" } };
  const calls = [
    { type: "toolCall", id: "1", name: "read", arguments: { path: "a" } },
    { type: "toolCall", id: "2", name: "edit", arguments: {} },
    { type: "toolCall", id: "3", name: "own", arguments: { n: 1, list: [{ a: "x" }], odd: null } },
    { type: "toolCall", id: "4", name: "own", arguments: { n: 2, list: [], odd: "y", more: true } },
    { type: "toolCall", id: "5", name: "context_tree_query", arguments: {} },
  ];
  const lines = [
    { type: "session", version: 3, id: "s", cwd: "/repo" },
    {
      type: "message",
      id: "a",
      parentId: null,
      message: { role: "system", content: "Be good.", sections: { x: "<x>1</x>" }, toolsAdded: [recordedTool, 7] },
    },
    { type: "message", id: "b", parentId: "a", message: { role: "assistant", content: calls } },
  ];
  const { entries } = parseSession(lines.map((line) => JSON.stringify(line)).join("\n"), "test");
  const hostTool = { name: "edit", description: "of the host", parameters: {} };
  const [read, edit, own, ...others] = toolsOf(entries, [hostTool, { ...recordedTool, description: "of the host" }]);
  expect([read, edit, others]).toEqual([recordedTool, hostTool, []]);
  expect(own?.parameters).toEqual({
    type: "object",
    properties: {
      n: { type: "number" },
      list: { type: "array", items: { type: "object", properties: { a: { type: "string" } }, required: ["a"] } },
      odd: {},
      more: { type: "boolean" },
    },
    required: ["n", "list", "odd"],
  });
  expect(systemPromptOf(entries, "/repo")).toBe("Be good.\n\n<x>1</x>");
  expect(systemPromptOf([], "/repo")).toContain("/repo");
});

test("a file of finished runs is taken up again, with what was torn left out, and never that of another trial", () => {
  const folder = mkdtempSync(join(tmpdir(), "pi-condense-state-"));
  const path = join(folder, "state");
  const finished = { index: 1, arm: "raw", run: run({ kind: "limit" }) };
  StateFile.open(path, "one").add(finished);
  writeFileSync(path, `${readFileSync(path, "utf8")}{"index":2,"arm":"ra`);
  const again = StateFile.open(path, "one");
  again.add({ ...finished, index: 3 });
  expect(StateFile.open(path, "one").runs.map(({ index }) => index)).toEqual([1, 3]);
  expect(again.has(2, "raw")).toBe(false);
  expect(() => StateFile.open(path, "two")).toThrow("not the file of this trial");
  expect(() => StateFile.open(join(folder, "none", "state"), "one")).toThrow("--state");
  rmSync(folder, { recursive: true });
});
