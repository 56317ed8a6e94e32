/** What the model has asked back stays for its grace, then gives way to one line, on both hosts and without a summary. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import { extractToolResultText } from "../src/transcript/messages.ts";
import { CUSTOM_TYPE_FRONTIER } from "../src/types.ts";
import { bigLine } from "./support/fixtures/big-output.ts";
import {
  HOSTS,
  type HostSession,
  openSession,
  PRODUCT_ENTRY,
  type Reply,
  supportPath,
  until,
} from "./support/hosts.ts";
import type { ScriptedRequest } from "./support/script.ts";
import { checkTranscript } from "./support/transcript.ts";

setDefaultTimeout(120_000);

const GRACE = 2;
const FILE = Array.from({ length: 200 }, (_, i) => `export const value${i} = ${i * i};`).join("\n");

const call = (name: string, args: Record<string, unknown>, id: string): Reply => ({
  calls: [{ name, arguments: args, id }],
});
const query = (id: string): Reply => call("context_tree_query", { toolCallIds: ["t1"] }, id);

function textOfResult(request: ScriptedRequest | undefined, id: string): string | undefined {
  const result = request?.messages.find((m): m is ToolResultMessage => m.role === "toolResult" && m.toolCallId === id);
  return result && extractToolResultText(result);
}

describe.each(HOSTS)("recovery grace on the %s host", (host) => {
  const open: HostSession[] = [];
  afterEach(async () => {
    for (const session of open.splice(0)) await session.close();
  });

  async function start(replies: Reply[]): Promise<HostSession> {
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY, supportPath("fixtures/big-output.ts")],
      files: { "values.ts": FILE },
      settings: {
        contextPrune: {
          summarizerModel: "scripted/sum",
          pruneOn: "agent-message",
          recoveryGraceTurns: GRACE,
          chainCompression: { enabled: false },
        },
      },
      script: { replies, rules: [{ model: "sum", reply: { text: "[1] A short summary." } }] },
    });
    open.push(session);
    return session;
  }

  const frontiers = (session: HostSession) =>
    session.branch().filter((entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER).length;

  /** Prompts, and waits for the flush that the closing reply calls for. */
  async function promptAndFlush(session: HostSession, text: string): Promise<void> {
    const before = frontiers(session);
    await session.prompt(text);
    await until(() => frontiers(session) > before);
  }

  const main = (session: HostSession) => session.requests.filter(({ model }) => model === "main");
  const asked = (session: HostSession) => session.requests.filter(({ model }) => model === "sum");

  function expectClean(session: HostSession): void {
    expect(session.errors).toEqual([]);
    for (const { messages } of session.requests) expect(checkTranscript(messages)).toEqual([]);
    expect(session.session.messages.filter((m) => m.role === "assistant" && m.stopReason === "error")).toEqual([]);
  }

  test("a query is verbatim for its turns and one line after; asking again works, and no summary is asked for", async () => {
    const session = await start([
      call("read", { path: "values.ts" }, "read"),
      { text: "One." },
      query("first"),
      { text: "Two." },
      call("bash", { command: "seq 1 800" }, "b3"),
      { text: "Three." },
      call("bash", { command: "seq 2 800" }, "b4"),
      { text: "Four." },
      query("second"),
      { text: "Five." },
    ]);
    await promptAndFlush(session, "one");
    await session.prompt("two");
    // Nothing was pending: a query alone is no reason to flush.
    expect(frontiers(session)).toBe(1);
    await promptAndFlush(session, "three");
    await promptAndFlush(session, "four");
    await session.prompt("five");
    expectClean(session);

    const texts = main(session).map((request) => textOfResult(request, "first"));
    expect(textOfResult(main(session)[2], "read")).toStartWith("[t1 condensed: read values.ts, ");
    const whole = texts[3] ?? "";
    expect(whole).toEndWith(FILE);
    const pointer = "[was shown here; ask again: context_tree_query t1]";
    expect(texts).toEqual([undefined, undefined, undefined, whole, whole, whole, whole, whole, pointer, pointer]);
    expect(textOfResult(main(session)[9], "second")).toBe(whole);

    expect(asked(session)).toHaveLength(3);
    expect(
      asked(session)
        .slice(1)
        .some(({ messages }) => JSON.stringify(messages).includes("value199")),
    ).toBe(false);
  });

  test("so is a read of a blob that the extension has written", async () => {
    const path = (request: ScriptedRequest) => /is in (\S+\.txt):/.exec(textOfResult(request, "big") ?? "")?.[1] ?? "";
    const session = await start([
      call("big_output", { bytes: 100_000, seed: 7 }, "big"),
      { text: "One." },
      (request) => ({
        calls: [{ name: "read", arguments: { path: path(request), offset: 1000, limit: 600 }, id: "blob" }],
      }),
      { text: "Two." },
      call("bash", { command: "seq 1 800" }, "b3"),
      { text: "Three." },
      call("bash", { command: "seq 2 800" }, "b4"),
      { text: "Four." },
      (request) => ({
        calls: [{ name: "read", arguments: { path: path(request), offset: 1000, limit: 5 }, id: "again" }],
      }),
      { text: "Five." },
    ]);
    await session.prompt("one");
    await session.prompt("two");
    await promptAndFlush(session, "three");
    await promptAndFlush(session, "four");
    await session.prompt("five");
    expectClean(session);

    const requests = main(session);
    const texts = requests.map((request) => textOfResult(request, "blob"));
    const whole = texts[3] ?? "";
    expect(whole).toContain(bigLine(1_100, 7));
    expect(texts.slice(4, 8)).toEqual([whole, whole, whole, whole]);
    expect(texts[8]).toMatch(/^\[was shown here; the file can be read again: read .+\.txt.*\]$/);
    expect(texts[9]).toBe(texts[8]);
    expect(textOfResult(requests[9], "again")).toStartWith(bigLine(1_000, 7));
    expect(asked(session)).toHaveLength(2);
    expect(asked(session).some(({ messages }) => JSON.stringify(messages).includes("of seed 7"))).toBe(false);
  });
});
