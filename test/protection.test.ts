/** Output that is protected without being asked for: instructions, skills, lists and answers, on both hosts. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ExtensionFactory } from "@mariozechner/pi-coding-agent";
import { extractToolResultText } from "../src/transcript/messages.ts";
import { HOSTS, openSession, PRODUCT_ENTRY, type Reply } from "./support/hosts.ts";
import type { ScriptedRequest } from "./support/script.ts";

setDefaultTimeout(120_000);

const RULES = (name: string) =>
  `# ${name}\n${Array.from({ length: 120 }, (_, i) => `- rule ${i} of ${name}: check before you write`).join("\n")}\n`;
const SETTINGS = { contextPrune: { summarizerModel: "none", pruneOn: "agent-message" } };

const call = (id: string, name: string, args: Record<string, unknown>) => ({ id, name, arguments: args });
const says = (text: string): Reply => ({ text });

function textsOf(request: ScriptedRequest | undefined): Record<string, string> {
  const results = (request?.messages ?? []).flatMap((m) => (m.role === "toolResult" ? [m] : []));
  return Object.fromEntries(results.map((m) => [m.toolCallId, extractToolResultText(m)]));
}

/** A tool that returns the text which it is given. */
function echoTool(name: string): ExtensionFactory {
  return (pi) =>
    pi.registerTool({
      name,
      label: name,
      description: name,
      parameters: { type: "object", properties: { text: { type: "string" } } } as never,
      execute: async (_id, params) => ({
        content: [{ type: "text", text: (params as { text: string }).text }],
        details: {},
      }),
    });
}

describe.each(HOSTS)("on the %s host", (host) => {
  test("instruction files stay whole, by whatever tool they are read", async () => {
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      settings: SETTINGS,
      files: { "api/AGENTS.md": RULES("api"), "CLAUDE.md": RULES("claude"), "notes.md": RULES("notes") },
      replies: [
        {
          calls: [
            call("r1", "read", { path: "CLAUDE.md" }),
            call("b1", "bash", { command: "cd api && cat AGENTS.md" }),
            call("b2", "bash", { command: "cat notes.md" }),
          ],
        },
        ...[says("One."), says("Two."), says("Three.")],
      ],
    });
    try {
      for (const prompt of ["one", "two", "three"]) await session.prompt(prompt);
      const texts = textsOf(session.requests.at(-1));
      expect(texts.r1).toContain("- rule 119 of claude");
      expect(texts.b1).toContain("- rule 119 of api");
      expect(texts.b2).toStartWith("[t1 condensed: ");
    } finally {
      await session.close();
    }
  });

  test("of a protected file that is read again and again one copy is sent, and earlier ones can be asked back", async () => {
    const skill = ".pi/skills/x/SKILL.md";
    const rounds = Array.from({ length: 6 }, (_, i): Reply[] => [
      { calls: [call(`r${i}`, "read", { path: skill }), call(`b${i}`, "bash", { command: `seq ${i} 900` })] },
      says("ok"),
    ]);
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      settings: {
        contextPrune: { ...SETTINGS.contextPrune, chainCompression: { rollingWindow: 1, batchSize: 0 } },
      },
      files: { [skill]: RULES("skill") },
      replies: [
        ...rounds.flat(),
        { calls: [call("q", "context_tree_query", { toolCallIds: ["r0"] })] },
        ...[says("end"), says("end")],
      ],
    });
    try {
      for (let i = 0; i < 7; i++) await session.prompt(`task ${i}`);
      const before = session.requests.at(-2);
      expect(JSON.stringify(before?.messages).split("- rule 119 of skill")).toHaveLength(2);
      expect(textsOf(session.requests.at(-1)).q).toContain("- rule 119 of skill");
      expect(session.errors).toEqual([]);
    } finally {
      await session.close();
    }
  });

  test("the newest list stays, and every answer of the user", async () => {
    const list = (n: number) =>
      Array.from({ length: n }, (_, i) => `[ ] task number ${i} of the whole list`).join("\n");
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      settings: { contextPrune: { ...SETTINGS.contextPrune, chainCompression: { enabled: false }, minBatchChars: 0 } },
      factories: [echoTool("todo_write"), echoTool("ask_user")],
      replies: [
        { calls: [call("w1", "todo_write", { text: list(20) }), call("a1", "ask_user", { text: "Port 4711." })] },
        { calls: [call("w2", "todo_write", { text: list(25) }), call("a2", "ask_user", { text: "Never 4712." })] },
        { calls: [call("b1", "bash", { command: "seq 1 900" })] },
        ...[says("One."), says("Two."), says("Three.")],
      ],
    });
    try {
      for (const prompt of ["one", "two", "three"]) await session.prompt(prompt);
      const texts = textsOf(session.requests.at(-1));
      expect(texts.w1).toMatch(/^\[todo_write.*: the newest output stands whole further on\./);
      expect(texts.w2).toBe(list(25));
      expect(texts).toMatchObject({ a1: "Port 4711.", a2: "Never 4712." });
      expect(texts.b1).toStartWith("[t1 condensed: ");
    } finally {
      await session.close();
    }
  });
});
