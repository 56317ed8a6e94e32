import { describe, expect, test } from "bun:test";
import { protectionOf } from "../capture/protection.ts";
import { DEFAULT_CONFIG } from "../config.ts";
import type { ContextPruneConfig } from "../types.ts";
import { withProject } from "./project-settings.ts";

/** What holds where the user's settings are `own` and the project's `project`. */
function merged(own: Partial<ContextPruneConfig>, project: Partial<ContextPruneConfig>) {
  const user = { ...DEFAULT_CONFIG, ...own };
  return withProject(user, { ...user, ...project }, "/p/settings.json");
}

describe("a project's summariser", () => {
  test.each<[own: string, project: string, used: string]>([
    ["default", "none", "none"],
    ["a/big", "none", "none"],
    ["a/big", "default", "default"],
    ["a/big", "a/small", "a/small"],
    ["a/big", "a/small/deep:low", "a/small/deep:low"],
    ["a/big", "b/small", "a/big"],
    ["a/big", "a2/small", "a/big"],
    ["default", "b/small", "default"],
    ["none", "default", "none"],
    ["none", "b/small", "none"],
    ["none", "none", "none"],
  ])("where the user has %s and the project %s it is %s", (own, project, used) => {
    const { config, warnings } = merged({ summarizerModel: own }, { summarizerModel: project });
    expect(config.summarizerModel).toBe(used);
    expect(warnings).toHaveLength(own === project ? 0 : 1);
    if (used !== project) expect(warnings[0]).toContain("cannot send tool output");
  });
});

describe("protection", () => {
  test("adds up", () => {
    const { config, warnings } = merged(
      { protectedTools: ["todo"], protectedPaths: ["**/.env"] },
      { protectedTools: ["plan", "todo"], protectedPaths: [] },
    );
    expect(config.protectedTools).toEqual(["todo", "plan"]);
    expect(config.protectedPaths).toEqual(["**/.env"]);
    expect(warnings).toEqual([
      "/p/settings.json changes your contextPrune settings: protectedTools is todo, plan, yours todo.",
    ]);
  });

  test("has no exceptions but the user's", () => {
    const own = { protectedPaths: ["**/.env", "!docs/**"] };
    const { config, warnings } = merged(own, { protectedPaths: ["!**/.env", " !*", "!docs/**", "*.key"] });
    expect(config.protectedPaths).toEqual(["**/.env", "!docs/**", "*.key"]);
    expect(protectionOf(config, "/p")({ toolName: "read", args: { path: ".env" } })).toBe(true);
    expect(warnings[0]).toBe(
      "/p/settings.json: contextPrune.protectedPaths has exceptions. A project cannot take files out of protection; ignoring !**/.env, !*.",
    );
  });

  test("is not weakened by a list tool of the project: what the user protects gives way to no later result", () => {
    const own = { protectedTools: ["jira_*"], protectedPaths: ["**/.env"] };
    const { config } = merged(own, { listTools: ["*"] });
    const { subjectOf } = protectionOf(config, "/p");
    const of = (toolName: string, args = {}) => subjectOf?.({ toolName, args });
    expect([of("jira_get"), of("question")]).toEqual([undefined, undefined]);
    expect(of("read", { path: ".env" })).not.toEqual(of("read", { path: "a.ts" }));
    expect(of("read", { path: "a/.env" })).not.toEqual(of("read", { path: "b/.env" }));
  });

  test("is not turned off, nor made to last shorter", () => {
    const own = { protectTags: true, turnProtection: { enabled: true, turns: 6 } };
    const { config, warnings } = merged(own, { protectTags: false, turnProtection: { enabled: false, turns: 1 } });
    expect(config).toEqual({ ...DEFAULT_CONFIG, ...own });
    expect(warnings).toEqual([]);
  });

  test("can be turned on", () => {
    const project = { protectTags: true, turnProtection: { enabled: true, turns: 2 } };
    const { config, warnings } = merged({}, project);
    expect(config).toMatchObject(project);
    expect(warnings[0]).toContain("protectTags");
  });
});

test.each<[string, Partial<ContextPruneConfig>]>([
  ["spillThreshold", { spillThreshold: 4_096 }],
  ["spillPreviewBytes", { spillPreviewBytes: 0 }],
  ["autoBudgetThreshold", { autoBudgetThreshold: 0.5 }],
  ["autoBudgetTokens", { autoBudgetTokens: 2_000 }],
  ["budgetTurnDelta", { budgetTurnDelta: 0.1 }],
])("a change of %s holds and is told", (key, project) => {
  const { config, warnings } = merged({}, project);
  expect(config).toMatchObject(project);
  expect(warnings).toEqual([expect.stringContaining(`changes your contextPrune settings: ${key} is `)]);
});

test("a change of anything else is nobody's business", () => {
  expect(merged({}, { minBatchChars: 7, pruneOn: "on-demand", enabled: false }).warnings).toEqual([]);
});
