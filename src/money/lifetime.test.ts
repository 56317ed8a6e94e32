import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scratchFolder } from "../../test/support/folders.ts";
import { agentDirWith, EntryTree, SimulatedSession } from "../../test/support/simulated-session.ts";
import { runCommand } from "../commands/index.ts";
import { DEFAULT_CONFIG } from "../config.ts";
import { lifetimeOf, sessionFiles } from "./lifetime.ts";

const OPTIONS = { config: () => DEFAULT_CONFIG, costOfModel: () => undefined, windowOf: () => undefined };

function header(more: Record<string, unknown> = {}): string {
  return JSON.stringify({
    type: "session",
    version: 3,
    id: "s",
    cwd: "/",
    timestamp: "2026-01-05T00:00:00.000Z",
    ...more,
  });
}

/** A reply that read so many tokens and cost a dollar. */
function reply(id: string, parentId: string | null, at: string, tokens = 1_000): string {
  const cost = { input: 0, output: 0, cacheRead: 1, cacheWrite: 0, total: 1 };
  const usage = { input: 0, output: 0, cacheRead: tokens, cacheWrite: 0, totalTokens: tokens, cost };
  const from = { api: "a", provider: "p", model: "m", stopReason: "stop", content: [{ type: "text", text: "so" }] };
  const message = { role: "assistant", ...from, usage, timestamp: Date.parse(at) };
  return JSON.stringify({ type: "message", id, parentId, timestamp: at, message });
}

function stats(id: string, parentId: string, at: string, cost: number): string {
  const data = { totalInputTokens: 10, totalOutputTokens: 1, totalCost: cost, callCount: 1, failedCallCount: 0 };
  return JSON.stringify({ type: "custom", id, parentId, timestamp: at, customType: "context-prune-stats", data });
}

const T = (minute: number) => `2026-01-05T00:0${minute}:00.000Z`;

function machine(): string {
  const root = scratchFolder("sessions");
  mkdirSync(join(root, "--one--"));
  mkdirSync(join(root, "--two--"));
  const parent = [header(), reply("a", null, T(1)), stats("b", "a", T(2), 0.5)];
  writeFileSync(join(root, "--one--", "1.jsonl"), parent.join("\n"));
  const fork = { parentSession: join(root, "--one--", "1.jsonl"), timestamp: T(3), id: "fork" };
  const forked = [header(fork), ...parent.slice(1), reply("c", "b", T(4)), stats("d", "c", T(5), 0.7)];
  writeFileSync(join(root, "--two--", "2.jsonl"), forked.join("\n"));
  writeFileSync(join(root, "--two--", "3.jsonl"), [header(), reply("a", null, T(1)), '{"type":"mess'].join("\n"));
  writeFileSync(join(root, "--two--", "4.jsonl"), "no session\n");
  writeFileSync(join(root, "--two--", "5.jsonl"), [header(), stats("a", "x", T(1), 1), "{ damaged", "{}"].join("\n"));
  return root;
}

describe("all sessions", () => {
  test("are added up, what a fork has of its parent once; others beside them, damaged ones named", async () => {
    const root = machine();
    const files = sessionFiles([root, join(root, "--two--"), "/no/such/folder"]);
    expect(files).toHaveLength(5);
    const told: number[] = [];
    const all = await lifetimeOf(files, OPTIONS, (done) => void told.push(done));
    expect(told).toEqual([1, 2, 3, 4, 5]);
    expect(all).toMatchObject({ sessions: 3, condensedSessions: 2, otherCost: 1, otherTokens: 1_000 });
    expect(all.unread).toEqual([join(root, "--two--", "5.jsonl")]);
    expect(all.bill).toMatchObject({ requests: 2, repliesCost: 2, sentTokens: 2_000 });
    expect(all.bill.summaries).toMatchObject({ count: 1, cost: expect.closeTo(0.7, 9) });
  });

  test("are told by /pruner stats --all, with progress in a terminal", async () => {
    const root = machine();
    const session = new SimulatedSession(agentDirWith({}), new EntryTree(root));
    const { message } = await runCommand(session.pruner, session.host, "stats --all");
    expect(message).toContain("2 condensed sessions on this machine: $2.70 instead of about $2.00 (+35%).");
    expect(message).toContain("1 other session: $1.00.");
    expect(message).toContain("Could not be read: ");
    const widgets: unknown[] = [];
    const terminal = { setWidget: (_key: string, lines: unknown) => void widgets.push(lines) };
    const said: string[] = [];
    const ui = { notify: (text: string) => void said.push(text) };
    await runCommand(session.pruner, { ...session.host, ui, terminal } as never, "stats --all");
    while (said.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(said).toEqual([message]);
    expect(widgets[0]).toEqual(["Reading the sessions on this machine: 0 of 5"]);
    expect(widgets.at(-1)).toBeUndefined();
  });

  test("are none on a new machine", async () => {
    const session = new SimulatedSession(agentDirWith({}));
    const { message } = await runCommand(session.pruner, session.host, "stats --all");
    expect(message).toBe("No session on this machine has been condensed yet.");
    expect((await runCommand(session.pruner, session.host, "stats --al")).message).toBe("Usage: /pruner stats [--all]");
  });
});
