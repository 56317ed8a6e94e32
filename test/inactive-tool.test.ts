/** A model that is not given the recovery tool for a while, on both hosts. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ExtensionFactory } from "@mariozechner/pi-coding-agent";
import { extractToolResultText } from "../src/transcript/messages.ts";
import { HOSTS, openSession, PRODUCT_ENTRY } from "./support/hosts.ts";
import type { ScriptedRequest } from "./support/script.ts";

setDefaultTimeout(120_000);

/** Takes all tools but pi's own away, and gives them back, as a plan mode does. */
const planMode: ExtensionFactory = (pi) => {
  const own = ["read", "bash", "edit", "write"];
  pi.registerCommand("plan", { description: "plan", handler: async () => pi.setActiveTools(own) });
  pi.registerCommand("work", {
    description: "work",
    handler: async () => pi.setActiveTools([...own, "context_tree_query"]),
  });
};

const run = (id: string) => [{ calls: [{ name: "bash", arguments: { command: "seq 1 900" }, id }] }, { text: id }];

function stubs(request: ScriptedRequest | undefined): string[] {
  const results = (request?.messages ?? []).flatMap((m) => (m.role === "toolResult" ? [m] : []));
  return results.filter((m) => extractToolResultText(m).startsWith("[t")).map((m) => m.toolCallId);
}

describe.each(HOSTS)("on the %s host", (host) => {
  test("nothing new is condensed meanwhile, what stands stays, and afterwards it goes on", async () => {
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      factories: [planMode],
      settings: { contextPrune: { summarizerModel: "none", pruneOn: "every-turn", dedupByContentHash: false } },
      replies: [...run("one"), ...run("two"), ...run("three"), { text: "four" }],
    });
    try {
      await session.prompt("first");
      await session.prompt("/plan");
      await session.prompt("second");
      expect(session.requests.at(-1)?.tools).not.toContain("context_tree_query");
      expect(stubs(session.requests.at(-1))).toEqual(["one"]);
      await session.prompt("/pruner now");
      await session.prompt("/work");
      await session.prompt("third");
      await session.prompt("fourth");
      expect(stubs(session.requests.at(-1))).toEqual(["one", "two", "three"]);
      expect(session.errors).toEqual([]);
    } finally {
      await session.close();
    }
  });
});
