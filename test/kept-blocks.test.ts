/** Images of spilled results, and blocks that are neither text nor image, on both hosts. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ExtensionFactory } from "@mariozechner/pi-coding-agent";
import { HOSTS, openSession, PRODUCT_ENTRY, type Reply } from "./support/hosts.ts";
import type { ScriptedRequest } from "./support/script.ts";

setDefaultTimeout(120_000);

const LINES = (count: number) => Array.from({ length: count }, (_, i) => `line ${i} of the output`).join("\n");
const IMAGE = { type: "image", data: "QUJD".repeat(50), mimeType: "image/png" };
const RESOURCE = { type: "resource", resource: { uri: "x://y", text: `RESOURCE ${"r".repeat(3_000)}` } };

/** A tool that returns these blocks. */
function tool(name: string, content: readonly object[]): ExtensionFactory {
  return (pi) =>
    pi.registerTool({
      name,
      label: name,
      description: name,
      parameters: { type: "object", properties: {} } as never,
      execute: async () => ({ content: content as never, details: {} }),
    });
}

function contentOf(request: ScriptedRequest | undefined, id: string): unknown[] {
  const found = request?.messages.find((m) => m.role === "toolResult" && m.toolCallId === id);
  return found && Array.isArray(found.content) ? found.content : [];
}

const calls = (name: string, id: string, args = {}): Reply => ({ calls: [{ name, arguments: args, id }] });
const says = (text: string): Reply => ({ text });

describe.each(HOSTS)("on the %s host", (host) => {
  test("a spilled result keeps its image beside the stub, byte for byte the same until the end", async () => {
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      settings: { contextPrune: { summarizerModel: "none", pruneOn: "agent-message" } },
      factories: [tool("shot", [{ type: "text", text: LINES(4_000) }, IMAGE])],
      replies: [calls("shot", "s1"), says("One."), says("Two."), says("Three.")],
    });
    try {
      for (const prompt of ["one", "two", "three"]) await session.prompt(prompt);
      const [, ...after] = session.requests.map((request) => JSON.stringify(contentOf(request, "s1")));
      expect(new Set(after).size).toBe(1);
      expect(after[0]).toMatch(/^\[\{"type":"text","text":"\[t1 condensed: shot/);
      expect(contentOf(session.requests[1], "s1")[1]).toMatchObject(IMAGE);
      expect(session.errors).toEqual([]);
    } finally {
      await session.close();
    }
  });

  test("a result with other blocks is left alone, and behind a compressed chain they can be asked back", async () => {
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      settings: { contextPrune: { summarizerModel: "none", pruneOn: "agent-message" } },
      factories: [tool("odd", [{ type: "text", text: LINES(100) }, RESOURCE])],
      replies: [
        {
          calls: [
            { name: "odd", arguments: {}, id: "o1" },
            { name: "bash", arguments: { command: "seq 1 900" }, id: "b1" },
          ],
        },
        ...[says("One."), says("Two.")],
        calls("context_tree_query", "q1", { toolCallIds: ["o1"] }),
        ...[says("Three."), says("Four.")],
      ],
    });
    try {
      for (const prompt of ["one", "two"]) await session.prompt(prompt);
      expect(JSON.stringify(contentOf(session.requests.at(-1), "o1"))).toContain("RESOURCE rrr");
      await session.prompt("/pruner chainCompression.rollingWindow 0");
      await session.prompt("/pruner compact");
      await session.prompt("three");
      expect(contentOf(session.requests.at(-1), "o1")).toEqual([]);
      expect(JSON.stringify(contentOf(session.requests.at(-1), "q1"))).toContain("RESOURCE rrr");
      expect(session.errors).toEqual([]);
    } finally {
      await session.close();
    }
  });

  test("after a refusal for size the oldest images are left out, and the session goes on", async () => {
    const images = Array.from({ length: 8 }, (_, i) => ({ ...IMAGE, data: String(i).repeat(40_000) }));
    const guard =
      (reply: Reply): Reply =>
      (request) => {
        if (JSON.stringify(request.messages).length > 200_000) throw new Error("413 Request exceeds the maximum size");
        return typeof reply === "function" ? reply(request) : reply;
      };
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      settings: { contextPrune: { summarizerModel: "none", pruneOn: "on-demand" } },
      factories: [tool("shots", [{ type: "text", text: "Eight shots." }, ...images])],
      replies: [calls("shots", "s1"), ...Array.from({ length: 3 }, () => guard(says("Seen.")))],
    });
    try {
      for (const prompt of ["look", "go on", "again"]) await session.prompt(prompt);
      const sent = (i: number) => contentOf(session.requests.at(i), "s1").filter((b) => "data" in (b as object));
      expect(sent(1)).toHaveLength(8);
      expect(sent(2)).toMatchObject(images.slice(4));
      expect(sent(3)).toEqual(sent(2));
      const last = session.branch().at(-1);
      expect(last?.type === "message" && last.message.role === "assistant" && last.message.stopReason).toBe("stop");
    } finally {
      await session.close();
    }
  });
});
