import { expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { callOfRecord, callsOf } from "./index-calls.ts";
import { findHeld, isGone } from "./lean-records.ts";
import { hashOfResult } from "./originals.ts";

const ZERO = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const SOURCE = { api: "a", provider: "p", model: "m", usage: { ...ZERO, totalTokens: 0, cost: { ...ZERO, total: 0 } } };

function result(text: string): Extract<AgentMessage, { role: "toolResult" }> {
  const content = [{ type: "text" as const, text }];
  return { role: "toolResult", toolCallId: "c1", toolName: "write", content, isError: false, timestamp: 2 };
}

/** A turn that writes `text`, and what came of it. */
function turn(text: string): SessionEntry[] {
  const call = { type: "toolCall" as const, id: "c1", name: "write", arguments: { path: "a.ts", content: text } };
  const asked: AgentMessage = { role: "assistant", content: [call], ...SOURCE, stopReason: "toolUse", timestamp: 1 };
  return [asked, result(`wrote ${text}`)].map((message, i) => {
    return { type: "message", id: `${text}${i}`, parentId: null, timestamp: "", message };
  });
}

function held(text: string) {
  const data = {
    toolCalls: [{ contentHash: hashOfResult(result(`wrote ${text}`)), outcome: "done" }],
    refs: [{ shortId: "t1", toolCallId: "c1", resultTimestamp: 2 }],
  };
  return callsOf({ data }).calls;
}

test.each(["one", "two"])("of several results of one key, a record has the one of its content: %s", (text) => {
  const [call] = held(text);
  findHeld([...turn("one"), ...turn("two")], call ? [call] : []);
  expect(call?.record).toMatchObject({
    toolCallId: "c1",
    toolName: "write",
    args: { path: "a.ts", content: text },
    resultText: "",
    resultChars: `wrote ${text}`.length,
    // The call's own time: results of one turn may come at different ones.
    timestamp: 1,
    resultTimestamp: 2,
    outcome: "done",
    change: "wrote 1 line",
  });
  expect(call && isGone(call.record)).toBe(false);
});

test("a result has the call of its own path, where two processes wrote by turns", () => {
  const paths = ["one", "two"].map((text) => {
    const [asked, came] = turn(text);
    return asked && came ? { asked, came: { ...came, parentId: asked.id } } : undefined;
  });
  const entries = [...paths.flatMap((path) => path?.asked ?? []), ...paths.flatMap((path) => path?.came ?? [])];
  for (const text of ["one", "two"]) {
    const [call] = held(text);
    findHeld(entries, call ? [call] : []);
    expect(call?.record.args).toEqual({ path: "a.ts", content: text });
  }
});

test("a record whose message is gone says so, and is looked for once", () => {
  const calls = held("one");
  let looks = 0;
  const data = { toolCalls: [{ contentHash: "h" }], refs: [{ shortId: "t1", toolCallId: "c1", resultTimestamp: 2 }] };
  const [call] = callsOf({ data }, (wanted) => {
    looks += 1;
    findHeld([], [wanted, ...calls]);
  }).calls;
  expect(call && [isGone(call.record), isGone(call.record)]).toEqual([true, true]);
  expect(looks).toBe(1);
});

test("a call by another ref has the same record", () => {
  const record = {
    toolCallId: "c1",
    toolName: "x",
    args: {},
    resultText: "text",
    isError: false,
    turnIndex: 0,
    timestamp: 1,
  };
  const call = callOfRecord(record, "t1").named("t2");
  expect([call.shortId, call.record, call.contentHash]).toEqual(["t2", record, undefined]);
});
