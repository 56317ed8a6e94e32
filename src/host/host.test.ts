import { describe, expect, test } from "bun:test";
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import { outletOf, readContext } from "./host.ts";

function contextWith(fields: object): ExtensionContext {
  const functions = (...names: string[]) => Object.fromEntries(names.map((name) => [name, () => undefined]));
  const sessionManager = functions(
    ...["getCwd", "getEntries", "getEntry", "getHeader"],
    ...["getLeafId", "getSessionDir", "getSessionFile", "getSessionId"],
  );
  const modelRegistry = functions("find", "getAvailable", "hasConfiguredAuth");
  const getContextUsage = () => undefined;
  const context: unknown = {
    sessionManager,
    modelRegistry,
    getContextUsage,
    cwd: "/work",
    hasUI: false,
    ui: {},
    ...fields,
  };
  return context as ExtensionContext;
}

describe("readContext", () => {
  test("has no user interface where the host has none", () => {
    const ui = { getAllThemes: () => [] };
    expect(readContext(contextWith({ hasUI: false, ui }))?.ui).toBeUndefined();
    expect(readContext(contextWith({ hasUI: true, ui }))?.ui).toBeDefined();
  });

  test.each<[string, object, boolean]>([
    ["the newer host in a terminal", { mode: "tui", hasUI: true }, true],
    ["the newer host over RPC", { mode: "rpc", hasUI: true }, false],
    ["the newer host that prints", { mode: "print", hasUI: false }, false],
    ["the older host in a terminal", { hasUI: true, ui: { getAllThemes: () => ["dark"] } }, true],
    ["the older host over RPC", { hasUI: true, ui: { getAllThemes: () => [] } }, false],
    ["the older host that prints", { hasUI: false, ui: { getAllThemes: () => [] } }, false],
  ])("tells a terminal from what is none: %s", (_what, fields, isTerminal) => {
    expect(readContext(contextWith(fields))?.terminal !== undefined).toBe(isTerminal);
  });

  test("trusts a project unless the host says otherwise; the older one never asks", () => {
    expect(readContext(contextWith({}))?.projectTrusted).toBe(true);
    expect(readContext(contextWith({ isProjectTrusted: () => true }))?.projectTrusted).toBe(true);
    expect(readContext(contextWith({ isProjectTrusted: () => false }))?.projectTrusted).toBe(false);
  });

  test("asks for the size of the context only when it is wanted", () => {
    let asked = 0;
    const usage = { tokens: 5, contextWindow: 10, percent: 50 };
    const getContextUsage = () => {
      asked += 1;
      return usage;
    };
    const host = readContext(contextWith({ getContextUsage }));
    expect(asked).toBe(0);
    expect(host?.usage()).toBe(usage);
  });

  test("gives nothing for a context that has gone stale, and throws nothing", () => {
    const stale: unknown = {
      get sessionManager(): never {
        throw new Error("this context is stale");
      },
    };
    const gaps: string[] = [];
    expect(readContext(stale as ExtensionContext, (gap) => gaps.push(gap))).toBeUndefined();
    expect(gaps).toEqual([]);
  });

  test.each<[string, object, RegExp]>([
    [
      "a function of the session",
      { sessionManager: { getEntries: () => [] } },
      /lacks .*ctx\.sessionManager\.getHeader/,
    ],
    ["the models", { modelRegistry: undefined }, /lacks ctx\.modelRegistry\.find/],
    ["the size of the context", { getContextUsage: 5 }, /lacks ctx\.getContextUsage, so nothing is condensed/],
  ])("says what a host lacks: %s", (_what, fields, expected) => {
    const gaps: string[] = [];
    expect(readContext(contextWith(fields), (gap) => gaps.push(gap))).toBeUndefined();
    expect(gaps).toEqual([expect.stringMatching(expected)]);
  });

  test("does without what only screens need", () => {
    const host = readContext(contextWith({ hasUI: true, ui: { notify: () => undefined } }));
    expect(host?.ui).toBeDefined();
    expect(host?.terminal).toBeUndefined();
  });
});

describe("outletOf", () => {
  function outletWith(fields: object) {
    const api: unknown = fields;
    return outletOf(api as ExtensionAPI);
  }

  test("appends through the host", () => {
    const appended: unknown[] = [];
    outletWith({ appendEntry: (...args: unknown[]) => void appended.push(args) }).appendEntry("some-type", { a: 1 });
    expect(appended).toEqual([["some-type", { a: 1 }]]);
  });

  test("finds the description of a tool by its name, whoever has registered it", () => {
    const outlet = outletWith({ getAllTools: () => [{ name: "read", description: "Reads" }, { name: "other" }] });
    expect(outlet.toolDescription("read")).toBe("Reads");
    expect(outlet.toolDescription("lost")).toBeUndefined();
  });

  test("tells whether the model is given a tool now", () => {
    const outlet = outletWith({
      getActiveTools: () => ["read"],
      getAllTools: () => [{ name: "read" }, { name: "bash" }],
    });
    expect([outlet.hasActiveTool("read"), outlet.hasActiveTool("bash")]).toEqual([true, false]);
  });

  test("tells other extensions what was spent", () => {
    const told: unknown[] = [];
    const emit = (...args: unknown[]) => void told.push(args);
    outletWith({ events: { emit } }).announceCost({ totalCost: 0.5, inputTokens: 10, outputTokens: 2 });
    expect(told).toEqual([
      ["cost:external", { source: "pi-condense", totalCost: 0.5, inputTokens: 10, outputTokens: 2 }],
    ]);
  });
});
