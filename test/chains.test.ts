/** Compressed chains on both hosts: format, protection, recovery, restart and moves in the tree. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import type { Message } from "@mariozechner/pi-ai";
import { extractToolResultText, isToolResult, textOf } from "../src/transcript/messages.ts";
import { TODO_TEXT } from "./support/fixtures/todo-tool.ts";
import { type HostSession, openSession } from "./support/hosts.ts";
import { createFolders, HOSTS, type PiFolders, PRODUCT_ENTRY, runPi, supportPath } from "./support/print-mode.ts";
import type { ScriptedCall, ScriptedReply } from "./support/script.ts";
import { checkTranscript } from "./support/transcript.ts";

const TIMEOUT = 120_000;
const TODO_TOOL = supportPath("fixtures/todo-tool.ts");
const CHAINS = { rollingWindow: 1, batchSize: 1 };
const SETTINGS = {
  contextPrune: {
    summarizerModel: "none",
    pruneOn: "agent-message",
    protectedTools: ["todoread"],
    chainCompression: CHAINS,
  },
};
const FILES = Object.fromEntries(
  [0, 1, 2].map((n) => [
    `mod${n}.ts`,
    Array.from({ length: 150 }, (_, i) => `export const v${n}_${i} = ${i};`).join("\n"),
  ]),
);

const call = (name: string, args: ScriptedCall["arguments"] = {}): ScriptedCall => ({ name, arguments: args });
const PROMPTS = ["one", "two", "three", "four"];
const REPLIES: ScriptedReply[] = [
  { calls: [call("read", { path: "mod0.ts" }), call("todoread")] },
  { calls: [call("bash", { command: "echo tiny" })] },
  { text: "First done.", thinking: "That was easy." },
  { calls: [call("read", { path: "mod1.ts" })] },
  { text: "Second done." },
  { calls: [call("read", { path: "mod0.ts" }), call("bash", { command: "cat missing.txt" })] },
  { text: "Third done." },
  { text: "Fourth done." },
];

const opened: PiFolders[] = [];
afterAll(() => {
  for (const folders of opened) folders.remove();
});

function folders(): PiFolders {
  const made = createFolders(FILES);
  opened.push(made);
  return made;
}

/** Texts of the compressed chains in a request. */
function chainsIn(messages: readonly Message[] | undefined): string[] {
  const texts = (messages ?? []).flatMap((message) => (message.role === "user" ? [textOf(message.content)] : []));
  return texts.filter((text) => text.startsWith("<compressed-chain "));
}

describe.each(HOSTS)("chains on %s", (host) => {
  test(
    "are compressed in the specified format with protected output inside, answer for every call, and survive a restart",
    async () => {
      const place = folders();
      const first = await runPi(host, {
        folders: place,
        prompts: PROMPTS,
        script: { replies: REPLIES },
        settings: SETTINGS,
        extensions: [TODO_TOOL],
      });
      expect(first.code).toBe(0);
      const last = first.requests.at(-1)?.messages ?? [];
      expect(checkTranscript(last)).toEqual([]);
      const [b1 = "", b2 = "", ...more] = chainsIn(last);
      expect(more).toEqual([]);
      expect(b1).toStartWith('<compressed-chain id="b1" tools="t1,t4">\n- t1 read mod0.ts, ');
      expect(b1).toContain("\n- t4 bash echo tiny, 5 chars");
      expect(b1).toEndWith(
        `\n\n<protected-output tool="todoread">\n${TODO_TEXT}\n</protected-output>\n</compressed-chain>`,
      );
      expect(b2).toStartWith('<compressed-chain id="b2" tools="t2">\n- t2 read mod1.ts, ');
      expect(JSON.stringify(last)).not.toContain("export const v1_149");
      expect(JSON.stringify(last)).not.toContain("That was easy.");
      expect(last.filter((m) => m.role === "user").map((m) => textOf(m.content))).toEqual([
        "one",
        b1,
        "two",
        b2,
        "three",
        "four",
      ]);
      // The newest closed chain stands, its own repeat of a file condensed.
      expect(last.filter(isToolResult).map(extractToolResultText)[0]).toStartWith("[t3 condensed: identical to t1 ");

      const asks = ["t1", "t2", "t4", "b1"].map((ref) => ({
        calls: [call("context_tree_query", { toolCallIds: [ref] })],
      }));
      const second = await runPi(host, {
        folders: place,
        session: "continue",
        prompts: ["five"],
        script: { replies: [...asks, { text: "All there." }] },
        extensions: [TODO_TOOL],
      });
      const before = JSON.stringify(last);
      expect(JSON.stringify(second.requests[0]?.messages.slice(0, last.length))).toBe(before);
      const answers = (second.requests.at(-1)?.messages ?? []).filter(isToolResult).slice(-4);
      const bodies = answers.map((answer) => answer.content.slice(1).map((block) => textOf([block])));
      expect(bodies[0]).toEqual([FILES["mod0.ts"] ?? ""]);
      expect(bodies[1]).toEqual([FILES["mod1.ts"] ?? ""]);
      expect(bodies[2]).toEqual(["tiny\n"]);
      expect(bodies[3]).toContain("tiny\n");
      expect(bodies[3]).toContain(FILES["mod0.ts"] ?? "");
    },
    TIMEOUT,
  );

  describe("in one process", () => {
    let session: HostSession | undefined;
    afterEach(() => session?.close());

    test(
      "stand raw before the entry that compressed them, and compressed again behind it; decompress and recompress",
      async () => {
        session = await openSession(host, {
          extensionPaths: [PRODUCT_ENTRY, TODO_TOOL],
          files: FILES,
          settings: SETTINGS,
          replies: [...REPLIES, ...Array.from({ length: 6 }, (_, i) => ({ text: `Again ${i}.` }))],
        });
        const lastChains = () =>
          chainsIn(session?.requests.at(-1)?.messages).map((text) => /id="(b\d+)"/.exec(text)?.[1]);
        for (const prompt of PROMPTS) await session.prompt(prompt);
        expect(lastChains()).toEqual(["b1", "b2"]);

        const branch = session.branch();
        const end = branch.at(-1)?.id ?? "";
        const closing = branch.find(
          (e) => e.type === "message" && e.message.role === "assistant" && textOf(e.message.content) === "First done.",
        );
        await session.session.navigateTree(closing?.id ?? "", { summarize: false });
        await session.prompt("from there");
        expect(lastChains()).toEqual([]);
        await session.session.navigateTree(end, { summarize: false });
        await session.prompt("and back");
        expect(lastChains()).toEqual(["b1", "b2"]);

        await session.prompt("/pruner decompress b1");
        await session.prompt("raw?");
        expect(lastChains()).toEqual(["b2"]);
        expect(JSON.stringify(session.requests.at(-1)?.messages)).toContain("That was easy.");
        await session.prompt("/pruner recompress b1");
        await session.prompt("and now?");
        expect(lastChains()).toEqual(["b1", "b2"]);
        expect(session.errors).toEqual([]);
      },
      TIMEOUT,
    );
  });
});
