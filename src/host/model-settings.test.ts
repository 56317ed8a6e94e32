import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Api, Model } from "@mariozechner/pi-ai";
import { scratchFolder } from "../../test/support/folders.ts";
import { SimulatedSession } from "../../test/support/simulated-session.ts";
import { runCommand } from "../commands/index.ts";
import { loadSettings } from "./settings-file.ts";

function load(user: object, model: { provider: string; id: string } | undefined, project?: object) {
  const agentDir = scratchFolder("agent");
  const cwd = scratchFolder("project");
  writeFileSync(join(agentDir, "settings.json"), JSON.stringify({ contextPrune: user }));
  if (project) {
    mkdirSync(join(cwd, ".pi"));
    writeFileSync(join(cwd, ".pi/settings.json"), JSON.stringify({ contextPrune: project }));
  }
  return loadSettings({ agentDir, cwd, projectTrusted: true, model });
}

const OPUS = { provider: "anthropic", id: "claude-opus-4" };

describe("settings by model", () => {
  test.each<[pattern: string, provider: string, id: string, applies: boolean]>([
    ["anthropic/claude-opus-4", "anthropic", "claude-opus-4", true],
    ["anthropic/*", "anthropic", "claude-opus-4", true],
    ["*/claude-*", "Anthropic", "Claude-Opus-4", true],
    ["openrouter/*", "openrouter", "anthropic/claude-opus-4", true],
    ["openrouter/anthropic/*", "openrouter", "anthropic/claude-opus-4", true],
    ["openrouter/openai/*", "openrouter", "anthropic/claude-opus-4", false],
    ["anthropic/claude", "anthropic", "claude-opus-4", false],
  ])("of %s hold for %s/%s: %p", (pattern, provider, id, applies) => {
    const models = { [pattern]: { minBatchChars: 5, chainCompression: { rollingWindow: 9 } } };
    const { config, warnings, byModel } = load({ minBatchChars: 7, models }, { provider, id });
    expect(warnings).toEqual([]);
    expect(config.minBatchChars).toBe(applies ? 5 : 7);
    expect(config.chainCompression.rollingWindow).toBe(applies ? 9 : 3);
    expect([...(byModel?.keys() ?? [])]).toEqual(applies ? ["minBatchChars", "chainCompression.rollingWindow"] : []);
  });

  test("of a later pattern go before those of an earlier one", () => {
    const models = { "anthropic/*": { minBatchChars: 5 }, "*/claude-opus-4": { minBatchChars: 6 } };
    expect(load({ models }, OPUS).config.minBatchChars).toBe(6);
  });

  test("that cannot be used are told, for models that are not chosen too", () => {
    const models = { "other/*": { nosuch: 1, minBatchChars: "x" }, opus: { enabled: false } };
    const { warnings } = load({ models }, OPUS);
    expect(warnings.join("\n")).toContain('contextPrune.models names "opus", which is no provider/model');
    expect(warnings.join("\n")).toContain("other/*: contextPrune.nosuch is not a setting");
    expect(warnings.join("\n")).toContain("contextPrune.minBatchChars is");
    expect(load({ models: [] }, OPUS).warnings[0]).toContain("is not an object with a model for each key");
  });

  test("of a project are under the same rules as its other settings", () => {
    const own = { summarizerModel: "none", protectedTools: ["todo"] };
    const models = { "anthropic/*": { summarizerModel: "evil/model", protectedTools: [], stateTools: [] } };
    const { config, projectNotices = [] } = load(own, OPUS, { models });
    expect(config.summarizerModel).toBe("none");
    expect(config.protectedTools).toEqual(["todo"]);
    expect(config.stateTools).toContain("ask_user");
    expect(projectNotices.join("\n")).toContain("cannot send tool output");
    const allowed = { models: { "anthropic/*": { summarizerModel: "cheap/*" } } };
    expect(load(allowed, OPUS, { models }).config.summarizerModel).toBe("cheap/*");
  });

  test("follow the model of a session, and are shown where they apply", async () => {
    const agentDir = scratchFolder("agent");
    const models = { "anthropic/*": { enabled: false } };
    writeFileSync(
      join(agentDir, "settings.json"),
      JSON.stringify({ contextPrune: { summarizerModel: "none", models } }),
    );
    const session = new SimulatedSession(agentDir);
    expect(session.pruner.settings.enabled).toBe(true);
    session.host = { ...session.host, model: OPUS as Model<Api> };
    await session.request();
    expect(session.pruner.settings.enabled).toBe(false);
    const shown = await runCommand(session.pruner, session.host, "enabled");
    expect(shown.message).toContain('For this model contextPrune.models["anthropic/*"] holds.');
    const saved = await runCommand(session.pruner, session.host, "enabled on");
    expect(saved).toEqual({
      message: expect.stringContaining('models["anthropic/*"] keeps enabled at off'),
      type: "warning",
    });
    session.host = { ...session.host, model: { provider: "local", id: "x" } as Model<Api> };
    await session.request();
    expect(session.pruner.settings.enabled).toBe(true);
  });
});
