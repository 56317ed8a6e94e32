/** Output that is finished and stays all the same, images, and a name that another extension has, on both hosts. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import { extractToolResultText, textOf } from "../src/transcript/messages.ts";
import { shotData } from "./support/fixtures/shot-tool.ts";
import {
  HOSTS,
  type HostSession,
  openSession,
  PRODUCT_ENTRY,
  type Reply,
  supportPath,
  until,
} from "./support/hosts.ts";
import { recordingUi } from "./support/recording-ui.ts";
import type { ScriptedCall, ScriptedRequest } from "./support/script.ts";
import type { Settings } from "./support/simulated-session.ts";
import { checkTranscript } from "./support/transcript.ts";

setDefaultTimeout(120_000);

const NO_CHAINS = { enabled: false };
/** The smallest working set: of what the model has answered, it holds only what a failed edit is about. */
const FAILED_EDITS_ONLY = { workingSet: 1 };
const EVERY_CHAIN = { rollingWindow: 0, batchSize: 0 };
const SHOT_TOOL = supportPath("fixtures/shot-tool.ts");
const LINES = (name: string) => Array.from({ length: 200 }, (_, i) => `${name} has line ${i}`).join("\n");
const TAGGED = "<protect>The port is 4711.\nNever 4712.</protect>";
const FILES = {
  "a.txt": LINES("a"),
  "b.txt": LINES("b"),
  "tagged.txt": `${LINES("a")}\n${TAGGED}\n${LINES("b")}`,
};

/** What `history` gives of a result that nothing keeps: the older host may send one request while the flush runs. */
const STUB_SOON = /^raw( raw)?( stub)+$/;

const calls = (...list: [string, ScriptedCall["arguments"], string][]): Reply => ({
  calls: list.map(([name, args, id]) => ({ name, arguments: args, id })),
});
const says = (text: string): Reply => ({ text });

function resultOf(request: ScriptedRequest | undefined, id: string): ToolResultMessage | undefined {
  return request?.messages.find((m): m is ToolResultMessage => m.role === "toolResult" && m.toolCallId === id);
}

/** How a result stands in each request that holds it: `raw` or `stub`. */
function history(requests: readonly ScriptedRequest[], id: string): string {
  return requests
    .flatMap((request) => {
      const result = resultOf(request, id);
      return result ? [/^\[t\d+ condensed: /.test(extractToolResultText(result)) ? "stub" : "raw"] : [];
    })
    .join(" ");
}

function chainsIn(request: ScriptedRequest | undefined): string[] {
  const texts = (request?.messages ?? []).flatMap((m) => (m.role === "user" ? [textOf(m.content)] : []));
  return texts.filter((text) => text.startsWith("<compressed-chain "));
}

/** Names of the images of a request, oldest first. */
function shotsIn(request: ScriptedRequest | undefined): number[] {
  const known = Array.from({ length: 20 }, (_, n) => shotData(n));
  return (request?.messages ?? []).flatMap(({ content }) =>
    typeof content === "string"
      ? []
      : content.flatMap((block) => (block.type === "image" ? [known.indexOf(block.data)] : [])),
  );
}

describe.each(HOSTS)("on the %s host", (host) => {
  const open: HostSession[] = [];
  let notices: string[] = [];
  const closeAll = async () => {
    for (const session of open.splice(0)) await session.close();
  };
  afterEach(async () => {
    await closeAll();
    notices = [];
  });

  /** Opens a session; one that the same test had open before is closed. */
  async function start(contextPrune: Settings, replies: Reply[], extensions: string[] = []): Promise<HostSession> {
    await closeAll();
    const session = await openSession(host, {
      extensionPaths: [...extensions, PRODUCT_ENTRY, SHOT_TOOL],
      files: FILES,
      settings: { contextPrune: { summarizerModel: "none", pruneOn: "agent-message", ...contextPrune } },
      ui: recordingUi(notices),
      replies,
    });
    open.push(session);
    return session;
  }

  async function play(contextPrune: Settings, prompts: string[], replies: Reply[]): Promise<HostSession> {
    const session = await start(contextPrune, replies);
    for (const prompt of prompts) await session.prompt(prompt);
    expectClean(session);
    return session;
  }

  function expectClean(session: HostSession): void {
    expect(session.errors).toEqual([]);
    for (const { messages } of session.requests) expect(checkTranscript(messages)).toEqual([]);
    expect(session.session.messages.filter((m) => m.role === "assistant" && m.stopReason === "error")).toEqual([]);
  }

  const entries = (session: HostSession, customType: string) =>
    session.branch().filter((entry) => entry.type === "custom" && entry.customType === customType).length;

  describe("turn protection", () => {
    const prompts = ["one", "two", "three", "four"];
    const replies = () =>
      prompts.flatMap((_, n) => [calls(["bash", { command: `seq ${n} 900` }, `b${n}`]), says(`Done ${n}.`)]);

    test("leaves the output of the last user turns alone", async () => {
      const settings = { turnProtection: { enabled: true, turns: 2 }, chainCompression: NO_CHAINS };
      const { requests } = await play(settings, prompts, replies());
      expect(requests).toHaveLength(8);
      // Flushes come at the end of a turn, which is then the latest of those that are protected.
      expect(history(requests, "b0")).toBe("raw raw raw raw raw stub stub");
      expect(history(requests, "b1")).toBe("raw raw raw raw raw");
      const without = await play({ chainCompression: NO_CHAINS }, prompts, replies());
      expect(history(without.requests, "b0")).toMatch(STUB_SOON);
    });

    test("keeps their chains as they are", async () => {
      const settings = { turnProtection: { enabled: true, turns: 2 }, chainCompression: EVERY_CHAIN };
      const { requests } = await play(settings, prompts, replies());
      expect(history(requests, "b1")).toBe("raw raw raw raw raw");
      expect(chainsIn(requests.at(-1))).toHaveLength(1);
    });
  });

  describe("text between <protect> and </protect>", () => {
    const replies = () => [
      calls(["bash", { command: "cat tagged.txt" }, "cat"]),
      says("Done."),
      calls(["bash", { command: "seq 1 900" }, "b"]),
      says("Done."),
      says("Done."),
    ];
    const prompts = ["one", "two", "three"];

    test("survives the stub", async () => {
      const { requests } = await play({ protectTags: true, chainCompression: NO_CHAINS }, prompts, replies());
      const result = resultOf(requests.at(-1), "cat");
      expect(result && extractToolResultText(result)).toStartWith("[t1 condensed: bash cat tagged.txt, ");
      expect(result && extractToolResultText(result)).toEndWith(`\n${TAGGED}`);
      const off = await play({ chainCompression: NO_CHAINS }, prompts, replies());
      expect(JSON.stringify(off.requests.at(-1)?.messages)).not.toContain("Never 4712.");
    });

    test("survives where the result is large enough to be spilled", async () => {
      const settings = {
        protectTags: true,
        spillThreshold: 4_096,
        spillPreviewBytes: 300,
        chainCompression: NO_CHAINS,
      };
      const { requests } = await play(settings, prompts, replies());
      expect(extractToolResultText(resultOf(requests.at(-1), "cat") ?? { content: [] })).toEndWith(`\n${TAGGED}`);
    });

    test("is not sent to a summariser", async () => {
      const session = await openSession(host, {
        extensionPaths: [PRODUCT_ENTRY],
        files: FILES,
        settings: {
          contextPrune: {
            summarizerModel: "scripted/sum",
            pruneOn: "agent-message",
            protectTags: true,
            chainCompression: NO_CHAINS,
          },
        },
        script: { replies: replies(), rules: [{ model: "sum", reply: { text: "[1] Lines of a and b." } }] },
      });
      open.push(session);
      await session.prompt("one");
      await until(() => entries(session, "context-prune-frontier") > 0);
      await session.prompt("two");
      const asked = session.requests
        .filter(({ model }) => model === "sum")
        .map(({ messages }) => JSON.stringify(messages));
      expect(asked[0]).toContain("b has line 199");
      expect(asked.join()).not.toContain("Never 4712.");
      const main = session.requests.filter(({ model }) => model === "main").at(-1);
      const stub = extractToolResultText(resultOf(main, "cat") ?? { content: [] });
      expect(stub).toEndWith(`]\nLines of a and b.\n${TAGGED}`);
    });

    test("survives in a compressed chain", async () => {
      const { requests } = await play({ protectTags: true, chainCompression: EVERY_CHAIN }, prompts, replies());
      const [chain = ""] = chainsIn(requests.at(-1));
      expect(chain).toContain("bash cat tagged.txt");
      expect(chain).toContain(TAGGED);
      expect(chain).not.toContain("a has line 150");
    });
  });

  describe("the read of a file after a failed edit", () => {
    const settings = { ...FAILED_EDITS_ONLY, pruneOn: "every-turn" as const, chainCompression: NO_CHAINS };
    const edit = (id: string, oldText: string) =>
      calls(["edit", { path: "./a.txt", edits: [{ oldText, newText: "changed" }] }, id]);

    test("stays while its chain is open, though every turn flushes, and goes when it is closed", async () => {
      const { requests, folders } = await play(
        settings,
        ["fix it", "and now?", "and then?"],
        [
          calls(["read", { path: "a.txt" }, "ra"], ["read", { path: "b.txt" }, "rb"]),
          edit("e1", "no such text"),
          calls(["bash", { command: "seq 1 900" }, "b1"]),
          calls(["bash", { command: "seq 2 900" }, "b2"]),
          edit("e2", "a has line 7\n"),
          says("Fixed."),
          says("Now."),
          says("Then."),
        ],
      );
      expect(readFileSync(join(folders.cwd, "a.txt"), "utf8")).toContain("a has line 6\nchangeda has line 8");
      expect(requests).toHaveLength(8);
      expect(history(requests, "ra")).toBe("raw raw raw raw raw stub stub");
      expect(history(requests, "rb")).toMatch(STUB_SOON);
      expect(history(requests, "b1")).toMatch(STUB_SOON);
    });

    test("read again after the edit has failed, it is kept, also where the same text was condensed before", async () => {
      const { requests } = await play(
        settings,
        ["look", "fix it", "and now?", "and then?"],
        [
          calls(["read", { path: "a.txt" }, "r0"]),
          says("Seen."),
          edit("e1", "no such text"),
          calls(["read", { path: "a.txt" }, "r1"]),
          calls(["bash", { command: "seq 1 900" }, "b1"]),
          calls(["bash", { command: "seq 2 900" }, "b2"]),
          edit("e2", "a has line 7\n"),
          says("Fixed."),
          says("Now."),
          says("Then."),
        ],
      );
      expect(history(requests, "r0")).toMatch(STUB_SOON);
      expect(history(requests, "r1")).toBe("raw raw raw raw stub stub");
      expect(history(requests, "b1")).toMatch(STUB_SOON);
    });
  });

  describe("a budget", () => {
    const full = { usage: { input: 190_000 }, delayMs: 5 };
    const look = (n: number): Reply => ({
      calls: [{ name: "read", arguments: { path: "a.txt", offset: n }, id: `r${n}` }],
      ...full,
    });
    const replies = () => [
      calls(["read", { path: "a.txt" }, "r0"]),
      calls(["edit", { path: "a.txt", edits: [{ oldText: "no such text", newText: "" }] }, "e1"]),
      ...[1, 2, 3].map(look),
      { text: "Done.", ...full },
      says("Then."),
    ];
    const budget = { pruneOn: "on-demand" as const, autoBudgetThreshold: 0.8 };
    const said = (text: RegExp) => notices.filter((notice) => text.test(notice)).length;

    test("has nothing to do about results that are kept, and says so once", async () => {
      const settings = { ...budget, protectedPaths: ["**/a.txt"] };
      const { requests } = await play(settings, ["go", "and then?"], replies());
      expect(history(requests, "r0")).toBe("raw raw raw raw raw raw");
      expect(history(requests, "r3")).toBe("raw raw");
      expect(said(/compacting/)).toBe(0);
      expect(said(/nothing that is finished is left/)).toBe(1);
    });

    test("takes what a failed edit holds", async () => {
      const { requests } = await play({ ...budget, ...FAILED_EDITS_ONLY }, ["go", "and then?"], replies());
      // The edit has failed by the second of them, and the run is closed by the fifth.
      expect(history(requests, "r0")).toMatch(/^raw raw( raw)?( stub)+$/);
      expect(history(requests, "r1")).toMatch(STUB_SOON);
    });
  });

  test("the text of a blob that was read again is not stored a second time with its chain", async () => {
    const blobPath = (request: ScriptedRequest) =>
      /is in (\S+\.txt):/.exec(extractToolResultText(resultOf(request, "cat") ?? { content: [] }))?.[1] ?? "";
    const session = await play(
      { spillThreshold: 4_096, spillPreviewBytes: 300, chainCompression: EVERY_CHAIN },
      ["one", "two", "three", "four"],
      [
        calls(["bash", { command: "cat a.txt b.txt" }, "cat"]),
        says("One."),
        (request) => ({ calls: [{ name: "read", arguments: { path: blobPath(request) }, id: "again" }] }),
        says("Two."),
        calls(["bash", { command: "seq 1 900" }, "b"]),
        says("Three."),
        calls(["context_tree_query", { toolCallIds: ["t3"] }, "q"]),
        says("Four."),
      ],
    );
    const last = session.requests.at(-1);
    expect(chainsIn(last).join("\n")).toMatch(/^- t3 read \S+\.txt, /m);
    expect(extractToolResultText(resultOf(last, "q") ?? { content: [] })).toContain("b has line 199");
    const file = session.branch().map((entry) => (entry.type === "custom" ? JSON.stringify(entry) : ""));
    expect(file.filter((line) => line.includes("b has line 199"))).toEqual([]);
  });

  describe("images", () => {
    test("a result with images is condensed with a note, and comes back with them", async () => {
      const { requests } = await play(
        { minBatchChars: 0, chainCompression: NO_CHAINS },
        ["one", "two"],
        [
          calls(["shot", { n: 1, text: FILES["a.txt"] }, "s1"], ["shot", { n: 2 }, "s2"]),
          says("Done."),
          calls(
            ["context_tree_query", { toolCallIds: ["t1"] }, "q1"],
            ["context_tree_query", { toolCallIds: ["t2"] }, "q2"],
          ),
          says("Done."),
        ],
      );
      expect(shotsIn(requests[1])).toEqual([1, 2]);
      expect(shotsIn(requests[2])).toEqual([]);
      expect(extractToolResultText(resultOf(requests[2], "s1") ?? { content: [] })).toMatch(
        /^\[t1 condensed: shot .*\d chars and 1 image, ok\b.* Full output: context_tree_query t[12]\]/,
      );
      expect(extractToolResultText(resultOf(requests[2], "s2") ?? { content: [] })).toMatch(
        /^\[t2 condensed: shot .*0 chars and 1 image, ok\b.* Full output: context_tree_query t[12]\]/,
      );
      expect(shotsIn(requests[3])).toEqual([1, 2]);
      expect(resultOf(requests[3], "q1")?.content.map((block) => block.type)).toEqual(["text", "text", "image"]);
      expect(extractToolResultText(resultOf(requests[3], "q1") ?? { content: [] })).toEndWith(FILES["a.txt"] ?? "");
    });

    test("no request holds more than maxImagesPerRequest, also while nothing else is done", async () => {
      const shots = Array.from({ length: 7 }, (_, n) => calls(["shot", { n }, `s${n}`]));
      const { requests } = await play({ enabled: false, maxImagesPerRequest: 4 }, ["go"], [...shots, says("Done.")]);
      expect(requests.map(shotsIn)).toEqual([
        [],
        [0],
        [0, 1],
        [0, 1, 2],
        [0, 1, 2, 3],
        [2, 3, 4],
        [2, 3, 4, 5],
        [4, 5, 6],
      ]);
      expect(extractToolResultText(resultOf(requests.at(-1), "s0") ?? { content: [] })).toStartWith(
        "[an image stood here",
      );
      const without = await play({ enabled: false }, ["go"], [...shots, says("Done.")]);
      expect(shotsIn(without.requests.at(-1))).toEqual([0, 1, 2, 3, 4, 5, 6]);
    });
  });

  describe("another extension with a tool of the name", () => {
    const OTHER = supportPath("fixtures/other-query-tool.ts");
    const TAKEN = /another extension provides the tool context_tree_query/;
    const replies = () => [
      calls(["read", { path: "a.txt" }, "r1"]),
      says("One."),
      calls(["context_tree_query", {}, "q1"]),
      says("Two."),
      says("Three."),
    ];
    afterEach(() => {
      delete process.env.OTHER_TOOL_LATE;
    });

    test.each(["0", "1"])("that was there first (late: %s): said once, and nothing is condensed", async (late) => {
      process.env.OTHER_TOOL_LATE = late;
      const session = await start({ pruneOn: "every-turn" }, replies(), [OTHER]);
      for (const prompt of ["one", "two", "three"]) await session.prompt(prompt);
      const { requests } = session;
      expect(requests).toHaveLength(5);
      expect(extractToolResultText(resultOf(requests.at(-1), "q1") ?? { content: [] })).toBe("The other tool answers.");
      expect(history(requests, "r1")).toBe("raw raw raw raw");
      await session.prompt("/pruner now");
      expect(notices.at(-1)).toMatch(TAKEN);
      // Once by itself, and once in answer to the command.
      expect(notices.filter((notice) => TAKEN.test(notice))).toHaveLength(2);
      expect(session.branch().filter((entry) => entry.type === "custom")).toEqual([]);
      expect(session.errors).toEqual([]);
    });

    test("that came later has no say: the first one of a name answers", async () => {
      process.env.OTHER_TOOL_LATE = "1";
      const session = await openSession(host, {
        extensionPaths: [PRODUCT_ENTRY, OTHER],
        files: FILES,
        settings: { contextPrune: { summarizerModel: "none", chainCompression: NO_CHAINS } },
        ui: recordingUi(notices),
        replies: replies(),
      });
      open.push(session);
      for (const prompt of ["one", "two"]) await session.prompt(prompt);
      expect(history(session.requests, "r1")).toBe("raw stub stub");
      expect(entries(session, "context-prune-index")).toBe(1);
      expect(notices.filter((notice) => TAKEN.test(notice))).toEqual([]);
    });
  });
});
