import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { agentDirWith, EntryTree, SimulatedSession } from "../../test/support/simulated-session.ts";
import { changedSettings, DEFAULT_CONFIG, parseSetting } from "../config.ts";
import { runCommand } from "./index.ts";
import { SHOWN } from "./types.ts";

const place = mkdtempSync(join(tmpdir(), "pi-condense-replay-"));
afterAll(() => rmSync(place, { recursive: true }));

const USAGE = { input: 100, output: 5, cacheRead: 0, cacheWrite: 0, totalTokens: 105 };
const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };

function message(role: "user" | "assistant", text: string, timestamp: number): AgentMessage {
  const content = [{ type: "text" as const, text }];
  if (role === "user") return { role, content, timestamp };
  const from = { api: "a", provider: "p", model: "m" };
  return { role, content, ...from, usage: { ...USAGE, cost: COST }, stopReason: "stop", timestamp };
}

function session(settings: Parameters<typeof agentDirWith>[0]): SimulatedSession {
  const tree = new EntryTree(place);
  for (let i = 0; i < 3; i++) {
    tree.appendMessage(message("user", "go on", 1_000 + i * 2_000));
    tree.appendMessage(message("assistant", "Done.", 2_000 + i * 2_000));
  }
  return new SimulatedSession(agentDirWith(settings), tree);
}

describe("/pruner replay", () => {
  test("says that there is nothing where the session has no file", async () => {
    const { pruner, host } = session({});
    rmSync(join(place, "simulated.jsonl"), { force: true });
    expect(await runCommand(pruner, host, "replay")).toEqual({
      message: "There is nothing to replay: this session has no file yet.",
      type: "warning",
    });
  });

  test("shows the table of the command line for the session's file", async () => {
    const { pruner, host, tree } = session({ summarizerModel: "none" });
    const header = JSON.stringify({
      type: "session",
      version: 3,
      id: "simulated",
      timestamp: "2026-01-01",
      cwd: place,
    });
    writeFileSync(join(place, "simulated.jsonl"), `${[header, ...tree.lines()].join("\n")}\n`);
    const { message: text, type } = await runCommand(pruner, host, "replay");
    expect(type).toBe("info");
    expect(text).toStartWith("simulated.jsonl: 3 requests");
    expect(text).toContain("summarizerModel=none");
    expect(text).not.toContain("jsonl: 0%");
  }, 30_000);

  test("says what is wrong with a file that cannot be replayed", async () => {
    const { pruner, host } = session({});
    writeFileSync(join(place, "simulated.jsonl"), "no session\n");
    const { message: text, type } = await runCommand(pruner, host, "replay");
    expect(type).toBe("warning");
    expect(text).toStartWith("The session could not be replayed: ");
    expect(text).toContain("simulated.jsonl");
    expect(text).not.toContain("jsonl: 0%");
  }, 30_000);

  test("shows how far it is, and gives the host's prices of the session's models", async () => {
    const { pruner, host, tree } = session({ summarizerModel: "none" });
    const header = { type: "session", version: 3, id: "simulated", timestamp: "2026-01-01", cwd: place };
    writeFileSync(join(place, "simulated.jsonl"), `${[JSON.stringify(header), ...tree.lines()].join("\n")}\n`);
    const shown: unknown[] = [];
    const terminal = { setWidget: (_key: string, lines: unknown) => shown.push(lines) };
    const models = {
      find: (provider: string, id: string) =>
        provider === "p" && id === "m"
          ? { provider, id, cost: { input: 2, output: 10, cacheRead: 0.2, cacheWrite: 2.5 } }
          : undefined,
    };
    // Only what the command asks for stands in for the host's.
    const { promise, resolve } = Promise.withResolvers<string>();
    const given = { ...host, terminal, models, ui: { notify: resolve } } as unknown as typeof host;
    // The host takes prompts meanwhile.
    expect(await runCommand(pruner, given, "replay")).toEqual(SHOWN);
    const text = await promise;
    expect(shown[0]).toEqual(["Replaying this session: 0%"]);
    expect(shown.at(-1)).toBeUndefined();
    expect(text).toContain("in USD");
  }, 30_000);

  test("gives the settings that differ in a form that the command line reads", () => {
    expect(changedSettings(DEFAULT_CONFIG)).toEqual([]);
    const protectedTools = ["a", "b"];
    const changes = changedSettings({
      ...DEFAULT_CONFIG,
      minBatchChars: 2_000,
      autoBudgetThreshold: 0.8,
      protectedTools,
    });
    const given = changes.map((change) => change.split("="));
    expect(given.map(([key = "", value = ""]) => [key, parseSetting(key, value)])).toEqual([
      ["minBatchChars", { ok: true, value: 2_000 }],
      ["protectedTools", { ok: true, value: protectedTools }],
      ["autoBudgetThreshold", { ok: true, value: 0.8 }],
    ]);
  });
});
