/** Compactions that the hosts want for the size of the context, and that are not needed, in process on both. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ExtensionFactory } from "@mariozechner/pi-coding-agent";
import { estimateTokens } from "../src/transcript/tokens.ts";
import { HOSTS, type HostSession, openSession, PRODUCT_ENTRY, type Reply } from "./support/hosts.ts";
import { recordingUi } from "./support/recording-ui.ts";
import type { ScriptedRequest } from "./support/script.ts";
import type { Settings } from "./support/simulated-session.ts";

setDefaultTimeout(120_000);

const WINDOW = 60_000;
const RESERVE = 16_384;

const isSummary = ({ systemPrompt }: ScriptedRequest) => /summariz/i.test(systemPrompt);
const dump = (id: string, chars: number): Reply => ({ calls: [{ name: "dump", arguments: { chars }, id }] });
const says = (text: string): Reply => ({ text });

/** A tool that returns so many characters, never the same twice. */
const dumpTool: ExtensionFactory = (pi) => {
  let count = 0;
  pi.registerTool({
    name: "dump",
    label: "dump",
    description: "dump",
    parameters: { type: "object", properties: { chars: { type: "number" } } } as never,
    execute: async (_id, params) => {
      count += 1;
      const { chars } = params as { chars: number };
      const line = (i: number) => `row ${i} of dump ${count} has a value\n`;
      const text = Array.from({ length: Math.ceil(chars / 30) }, (_, i) => line(i))
        .join("")
        .slice(0, chars);
      return { content: [{ type: "text", text }], details: {} };
    },
  });
};

describe.each(HOSTS)("on the %s host", (host) => {
  const open: HostSession[] = [];
  const notices: string[] = [];
  afterEach(async () => {
    notices.length = 0;
    for (const session of open.splice(0)) await session.close();
  });

  async function start(replies: Reply[], contextPrune: Settings = {}, compaction = {}): Promise<HostSession> {
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      factories: [dumpTool],
      ui: recordingUi(notices),
      settings: {
        compaction: { enabled: true, reserveTokens: RESERVE, keepRecentTokens: 5_000, ...compaction },
        contextPrune: { summarizerModel: "none", pruneOn: "on-demand", ...contextPrune },
      },
      script: {
        models: [{ id: "main", contextWindow: WINDOW }],
        rules: [{ system: "summariz", reply: { text: "## Goal\nAll of it." } }],
        replies,
      },
    });
    open.push(session);
    return session;
  }

  const compactions = (session: HostSession) => session.branch().filter((entry) => entry.type === "compaction").length;

  test("a result of 1 MB that was spilled at once makes no compaction", async () => {
    const session = await start([says("Hi."), dump("d1", 1_000_000), says("One."), says("Two.")]);
    for (const prompt of ["hello", "one", "two"]) await session.prompt(prompt);
    expect(session.requests.filter(isSummary)).toEqual([]);
    expect(compactions(session)).toBe(0);
    expect(session.requests).toHaveLength(4);
    expect(session.errors).toEqual([]);
  });

  test("a context that fits once it is condensed makes none, and status counts it", async () => {
    const reads = Array.from({ length: 4 }, (_, i) => [dump(`d${i}`, 45_000), says(`Done ${i}.`)]).flat();
    const session = await start([...reads, says("Last."), says("Later.")]);
    for (let i = 0; i < 4; i++) await session.prompt(`part ${i}`);
    await session.prompt("and now");
    expect(session.requests.filter(isSummary)).toEqual([]);
    expect(compactions(session)).toBe(0);
    expect(estimateTokens(session.requests.at(-1)?.messages ?? [])).toBeLessThan(WINDOW - RESERVE);
    await session.prompt("/pruner status");
    expect(notices.at(-1)).toMatch(/Avoided: [1-9]\d* compactions?, /);
    expect(session.errors).toEqual([]);
  });

  test("what cannot be condensed is compacted, and so is what a person asks for", async () => {
    const prose = (i: number) => says(`${i}: ${"so it goes on and on. ".repeat(3_000)}`);
    const session = await start([prose(1), prose(2), prose(3), prose(4), says("Last."), says("More."), says("End.")]);
    for (let i = 0; i < 5; i++) await session.prompt(`part ${i}`);
    const before = compactions(session);
    expect(before).toBeGreaterThan(0);
    await session.prompt("small talk");
    await session.session.compact().catch(() => undefined);
    await session.settle();
    expect(session.requests.filter(isSummary).length).toBeGreaterThan(0);
    expect(session.errors).toEqual([]);
  });

  test("a compaction that a person asks for is never cancelled", async () => {
    const session = await start([dump("d1", 45_000), says("One."), dump("d2", 45_000), says("Two.")]);
    for (const prompt of ["one", "two"]) await session.prompt(prompt);
    await session.session.compact();
    await session.settle();
    expect(compactions(session)).toBe(1);
  });

  test.each([
    ["right behind one of the host that was cancelled", true],
    ["at the end of a run, where the host makes none by itself", false],
  ])("nor one %s", async (_name, enabled) => {
    const reads = Array.from({ length: 4 }, (_, i) => [dump(`d${i}`, 45_000), says(`Done ${i}.`)]).flat();
    const session = await start(reads, {}, { enabled });
    for (let i = 0; i < 4; i++) await session.prompt(`part ${i}`);
    expect(compactions(session)).toBe(0);
    expect(estimateTokens(session.session.messages)).toBeGreaterThan(WINDOW - RESERVE);
    await session.session.compact();
    await session.settle();
    expect(compactions(session)).toBe(1);
    expect(session.errors).toEqual([]);
  });
});
