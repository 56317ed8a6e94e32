import { expect, test } from "bun:test";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { progressOf } from "./decision.ts";

const LIFETIME_MS = 300_000;
const USAGE = {
  ...{ input: 10, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 10 },
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};
const FROM = { api: "anthropic-messages", provider: "p", usage: USAGE } as const;

const entry = (at: number) => ({ id: `e${at}`, parentId: null, timestamp: new Date(at).toISOString() });
const user = (at: number): SessionEntry => ({
  ...{ ...entry(at), type: "message" },
  message: { role: "user", content: "go on", timestamp: at },
});
const reply = (at: number, model = "m"): SessionEntry => ({
  ...{ ...entry(at), type: "message" },
  message: { role: "assistant", ...FROM, model, content: [], stopReason: "stop", timestamp: at },
});
const compaction = (at: number): SessionEntry => ({
  ...{ ...entry(at), type: "compaction" },
  ...{ summary: "so far", firstKeptEntryId: "e0", tokensBefore: 1 },
});

test.each<[string, SessionEntry[], [number, number, number, number]]>([
  ["nothing yet", [], [0, 0, 0, 0]],
  ["a message of the user opens a turn", [user(0)], [1, 0, 0, 0]],
  ["each reply is a request of the turn", [user(0), reply(1), reply(2)], [1, 2, 2, 0]],
  ["the next turn counts its requests anew", [user(0), reply(1), reply(2), user(3), reply(4)], [2, 3, 1, 0]],
  ["the first request of all is not cold", [compaction(0), user(1), reply(400_000)], [1, 1, 1, 0]],
  ["the first request after a compaction is cold", [reply(1), compaction(2), reply(3), reply(4)], [0, 3, 3, 1]],
  ["the first request to another model is cold", [reply(1), reply(2, "n"), reply(3, "n")], [0, 3, 3, 1]],
  ["a request within the lifetime is not cold", [reply(1), reply(1 + LIFETIME_MS)], [0, 2, 2, 0]],
  ["a request after the lifetime is cold", [reply(1), reply(2 + LIFETIME_MS)], [0, 2, 2, 1]],
])("progress of a branch: %s", (_, entries, [userTurns, requests, requestsThisTurn, coldRequests]) => {
  const expected = { userTurns, requests, requestsThisTurn, coldRequests };
  expect(progressOf(entries, LIFETIME_MS)).toMatchObject(expected);
});
