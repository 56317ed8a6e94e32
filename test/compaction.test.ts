/** The hosts' own compaction of a session far larger than the window, in process on both. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import { extractToolResultText, isToolResult, textOf } from "../src/transcript/messages.ts";
import { estimateTextTokens, estimateTokens } from "../src/transcript/tokens.ts";
import { createFolders, type PiFolders } from "./support/folders.ts";
import { HOSTS, type HostSession, openSession, PRODUCT_ENTRY, type Reply } from "./support/hosts.ts";
import { fileText, type LongSessionOptions, longConversation, writeSession } from "./support/long-session.ts";
import type { ScriptedRequest } from "./support/script.ts";
import type { Settings } from "./support/simulated-session.ts";
import { checkTranscript } from "./support/transcript.ts";

setDefaultTimeout(180_000);

const WINDOW = 200_000;
const SUMMARY = "## Goal\nRefactor all modules.";
/** About 500,000 tokens, three quarters of them arguments. */
const HUGE: LongSessionOptions = { chains: 75, readChars: 6_000, writeChars: 20_000, reportedTokens: 150_000 };

/** Tokens that a request takes in all, room for its answer included. */
function tokensOf(request: ScriptedRequest | undefined): number {
  if (!request) return Number.NaN;
  return estimateTokens(request.messages) + estimateTextTokens(request.systemPrompt) + (request.maxTokens ?? 0);
}

const isSummary = ({ systemPrompt }: ScriptedRequest) => /summariz/i.test(systemPrompt);
const query = (ref: string, more: Record<string, unknown> = {}): Reply => ({
  calls: [{ name: "context_tree_query", arguments: { toolCallIds: [ref], ...more }, id: `q_${ref}` }],
});

describe.each(HOSTS)("compaction on the %s host", (host) => {
  const open: HostSession[] = [];
  const made: PiFolders[] = [];
  afterEach(async () => {
    for (const session of open.splice(0)) await session.close();
    for (const folders of made.splice(0)) folders.remove();
  });

  async function start(contextPrune: Settings, options: LongSessionOptions = HUGE, replies: Reply[] = []) {
    const folders = createFolders();
    made.push(folders);
    const messages = longConversation(options);
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      folders,
      sessionFile: await writeSession(host, folders, messages),
      settings: { contextPrune: { summarizerModel: "none", ...contextPrune } },
      script: { rules: [{ system: "summariz", reply: { text: SUMMARY } }], replies },
    });
    open.push(session);
    return { session, messages };
  }

  /** Compacts, and gives the requests that were made for it. Nothing that was in the session may change by it. */
  async function compact(session: HostSession): Promise<ScriptedRequest[]> {
    const entries = session.sessionManager.getEntries();
    const before = entries.map((entry) => JSON.stringify(entry));
    const count = session.requests.length;
    await session.session.compact();
    await session.settle();
    expect(session.errors).toEqual([]);
    expect(entries.map((entry) => JSON.stringify(entry))).toEqual(before);
    const after = session.sessionManager.getEntries();
    expect(after.slice(0, before.length).map((entry) => JSON.stringify(entry))).toEqual(before);
    expect(after.filter((entry) => entry.type === "compaction")).toHaveLength(1);
    return session.requests.slice(count).filter(isSummary);
  }

  test("without the extension's view it would not fit: the session is as large as it is meant to be", async () => {
    const { session, messages } = await start({ enabled: false });
    expect(estimateTokens(messages)).toBeGreaterThan(480_000);
    const [request] = await compact(session);
    expect(tokensOf(request)).toBeGreaterThan(1.5 * WINDOW);
  });

  test("a condensed session is summarised as it was sent, goes on, and answers for what is gone", async () => {
    const { session } = await start({}, HUGE, [
      { text: "Going on." },
      query("t1"),
      query("t2", { args: true }),
      { text: "Done." },
    ]);
    await session.prompt("go on");
    const sent = session.requests[0];
    expect(tokensOf(sent)).toBeLessThan(60_000);

    const requests = await compact(session);
    for (const request of requests) expect(tokensOf(request)).toBeLessThan(80_000);
    const [request] = requests;
    const text = request
      ? textOf(request.messages.map((m) => textOf(m.content)).map((t) => ({ type: "text", text: t })))
      : "";
    // The first chains are in it as the model knew them, with their refs.
    expect(text).toContain("Refactor module 0.");
    expect(text).toMatch(/\bt1\b.*read src\/in0\.ts/);
    expect(text).not.toContain(fileText("write", 0, 20_000).slice(-200));

    await session.prompt("and now?");
    expect(session.errors).toEqual([]);
    const last = session.requests.at(-1);
    expect(checkTranscript(last?.messages ?? [])).toEqual([]);
    expect(last?.messages[0] && textOf(last.messages[0].content)).toContain(SUMMARY);
    expect(JSON.stringify(last?.messages)).not.toContain("Refactor module 0.");
    const answers = (last?.messages ?? []).filter(isToolResult).filter((m) => m.toolName === "context_tree_query");
    const bodyOf = ({ content }: ToolResultMessage) => extractToolResultText({ content: content.slice(1) });
    expect(answers.map(bodyOf)).toEqual([fileText("read", 0, 6_000), fileText("write", 0, 20_000)]);
    expect(session.session.messages.filter((m) => m.role === "assistant" && m.stopReason === "error")).toEqual([]);
  });

  test("so is one in which nothing had been condensed yet", async () => {
    const { session } = await start({ pruneOn: "on-demand" }, HUGE, [{ text: "Going on." }]);
    const requests = await compact(session);
    expect(requests.length).toBeGreaterThan(0);
    for (const request of requests) expect(tokensOf(request)).toBeLessThan(WINDOW);
    await session.prompt("go on");
    expect(session.errors).toEqual([]);
    expect(tokensOf(session.requests.at(-1))).toBeLessThan(WINDOW);
    expect(checkTranscript(session.requests.at(-1)?.messages ?? [])).toEqual([]);
  });

  test("and one that is a single endless turn, whose beginning is summarised by itself", async () => {
    const endless = { ...HUGE, chains: 1, turnsPerChain: 75 };
    const { session } = await start({ pruneOn: "on-demand" }, endless, [{ text: "Going on." }]);
    const requests = await compact(session);
    expect(requests.length).toBeGreaterThan(0);
    for (const request of requests) expect(tokensOf(request)).toBeLessThan(WINDOW);
    const asked = requests.map(({ messages }) => JSON.stringify(messages)).join();
    expect(asked).toMatch(/PREFIX of a turn|earlier context from an ongoing conversation/);
    await session.prompt("go on");
    expect(session.errors).toEqual([]);
    expect(checkTranscript(session.requests.at(-1)?.messages ?? [])).toEqual([]);
  });
});
