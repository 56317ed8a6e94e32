import { expect, test } from "bun:test";
import { callOfRecord } from "../session/index-calls.ts";
import type { ChainCompressionEntry, ToolCallRecord } from "../types.ts";
import { FULL_BODIES, renderChains } from "./chains.ts";

test("the lines of an old chain keep the end of a path and the outcome", () => {
  const base = { resultText: "x".repeat(2000), isError: false, turnIndex: 0, timestamp: 1, resultTimestamp: 2 };
  const records: ToolCallRecord[] = [
    {
      ...base,
      toolCallId: "c1",
      toolName: "read",
      args: { path: `/home/${"folder/".repeat(20)}cart.ts` },
      outcome: "52 lines",
    },
    {
      ...base,
      toolCallId: "c2",
      toolName: "bash",
      args: { command: `npm test -- ${"name ".repeat(40)}` },
      outcome: "exit code 1",
    },
  ];
  const calls = new Map(
    records.map((record, i) => {
      const call = callOfRecord(record, `t${i + 1}`);
      return [call.occurrenceKey, call] as const;
    }),
  );
  const keys = [...calls.keys()];
  const chains = new Map(
    Array.from({ length: 2 * FULL_BODIES }, (_, i): [string, ChainCompressionEntry] => [
      `b${i}`,
      {
        blockId: `b${i}`,
        startUserTimestamp: i,
        finalAssistantTimestamp: i,
        droppedToolCallIds: ["c1", "c2"],
        droppedOccurrenceKeys: keys,
        toolRefs: ["t1", "t2"],
        compressedAt: 0,
      },
    ]),
  );
  const none = {
    choices: new Map(),
    duplicates: new Map(),
    summaries: new Map(),
    legacySummaries: [],
    purged: new Set<string>(),
  };
  const state = { ...none, calls, chains, pointers: new Map(), bareIds: new Set<string>(), journal: [] };
  const [first, ...rest] = renderChains(state, { findOriginal: () => undefined, protectTags: false });
  expect([first, ...rest].filter((chain) => chain?.level === "terse")).toHaveLength(FULL_BODIES);
  const lines = first?.body.split("\n") ?? [];
  expect(lines[0]).toMatch(/^- t1 read ….*\/cart\.ts, 52 lines$/);
  expect(lines[1]).toMatch(/^- t2 bash npm test .*…, exit code 1$/);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(70);
  expect(rest.at(-1)?.body).toContain("2,000 chars");
});

test("a result without a record is named by the id of its call, or by its key where the server gave no id", () => {
  const state = {
    ...{ choices: new Map(), duplicates: new Map(), summaries: new Map(), legacySummaries: [] },
    ...{ calls: new Map(), pointers: new Map(), purged: new Set<string>(), bareIds: new Set<string>(), journal: [] },
  };
  const found = (toolCallId: string) => {
    const entry: ChainCompressionEntry = {
      ...{ blockId: "b1", startUserTimestamp: 1, finalAssistantTimestamp: 3, toolRefs: ["t1"], compressedAt: 0 },
      ...{ droppedToolCallIds: [toolCallId], droppedOccurrenceKeys: [`${toolCallId}@2`] },
    };
    const content = [{ type: "text" as const, text: "done" }];
    const result = { role: "toolResult" as const, toolName: "bash", content, isError: false, timestamp: 2, toolCallId };
    const original = { message: result, args: { command: "npm test" }, keys: [`${toolCallId}@2`, toolCallId] };
    const sources = { findOriginal: () => original, protectTags: false };
    return renderChains({ ...state, chains: new Map([["b1", entry]]) }, sources)[0]?.body;
  };
  expect(found("c1")).toBe("- c1 bash npm test, 4 chars, ok");
  expect(found("")).toBe("- @2 bash npm test, 4 chars, ok");
});
