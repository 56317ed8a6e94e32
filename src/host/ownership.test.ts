import { expect, test } from "bun:test";
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import { type Place, takePlace } from "./ownership.ts";

const DESCRIPTION = "Gives originals back";
const COMMAND = { name: "pruner", description: "Condense" };

interface Known {
  name: string;
  description?: string;
  sourceInfo?: { path: string };
}

/** A host on which others have registered these, and what a copy does on it. */
function play(tools: Known[], commands: Known[] = [], fields: object = {}) {
  const registered: string[] = [];
  const said: string[] = [];
  const api: unknown = {
    getAllTools: () => tools,
    getCommands: () => commands,
    registerTool: ({ name }: Known) => registered.push(`tool ${name}`),
    ...fields,
  };
  const ctx: unknown = { hasUI: true, ui: { notify: (message: string) => said.push(message) } };
  const tool: unknown = { name: "context_tree_query", description: DESCRIPTION };
  const place: Place = {
    tool: tool as Place["tool"],
    command: COMMAND,
    registerCommand: () => registered.push("command"),
    path: "/b/index.ts",
  };
  return { claim: takePlace(api as ExtensionAPI, ctx as ExtensionContext, place), registered, said };
}

const owned = (description: string) => ({
  name: "context_tree_query",
  description,
  sourceInfo: { path: "/a/index.ts" },
});

test("a copy that is alone has tool and command", () => {
  expect(play([{ name: "read" }])).toEqual({
    claim: { kind: "own" },
    registered: ["tool context_tree_query", "command"],
    said: [],
  });
});

test("a second copy registers nothing and names both paths", () => {
  const { claim, registered, said } = play([owned(DESCRIPTION)]);
  expect(claim).toEqual({ kind: "copy", owner: "/a/index.ts" });
  expect(registered).toEqual([]);
  expect(said).toEqual([expect.stringMatching(/two copies.*\/a\/index\.ts is at work.*\/b\/index\.ts stands down/)]);
});

test("a second copy is known by the command where the host leaves the tool out", () => {
  const command = { ...COMMAND, sourceInfo: { path: "/a/index.ts" } };
  expect(play([], [command]).claim).toEqual({ kind: "copy", owner: "/a/index.ts" });
});

test("beside the tool of another extension only the command is registered, and only where it is free", () => {
  const beside = play([owned("Other")]);
  expect(beside).toEqual({ claim: { kind: "foreign", owner: "/a/index.ts" }, registered: ["command"], said: [] });
  expect(play([owned("Other")], [{ name: "pruner", description: "Other" }]).registered).toEqual([]);
});

test("a host that lacks a function gets no tool, and what is missing is said", () => {
  const { claim, registered, said } = play([], [], { getAllTools: undefined });
  expect([claim, registered]).toEqual([undefined, []]);
  expect(said).toEqual([expect.stringMatching(/nothing is condensed.*getAllTools/)]);
});
