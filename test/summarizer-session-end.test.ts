/** A session that ends while a summary is being made: what a flush waits for is kept, all else is dropped, nothing crashes. */
import { afterAll, afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { SHUTDOWN_WAIT_MS } from "../src/runtime.ts";
import { extractToolResultText } from "../src/transcript/messages.ts";
import { CUSTOM_TYPE_FRONTIER, CUSTOM_TYPE_INDEX, CUSTOM_TYPE_STATS, CUSTOM_TYPE_SUMMARY } from "../src/types.ts";
import { createFolders, type PiFolders } from "./support/folders.ts";
import { HOSTS, type HostSession, openSession, PRODUCT_ENTRY, type Reply, until } from "./support/hosts.ts";
import { type PiRun, parseLines, runPi } from "./support/print-mode.ts";
import { recordingUi } from "./support/recording-ui.ts";
import type { ScriptedReply, ScriptedRequest } from "./support/script.ts";

setDefaultTimeout(120_000);

const SUMMARY_MS = 500;
const FILES = {
  "a.ts": Array.from({ length: 150 }, (_, i) => `export const a${i} = ${i};`).join("\n"),
  "b.ts": Array.from({ length: 150 }, (_, i) => `export const b${i} = ${i};`).join("\n"),
};
const SETTINGS = { contextPrune: { summarizerModel: "scripted/sum", pruneOn: "agent-message" } };
const read = (path: string): ScriptedReply => ({ calls: [{ name: "read", arguments: { path } }] });

/** Kinds of our own entries in a session file, or in what is held of it. */
function ownEntries(entries: readonly unknown[]): string[] {
  return (entries as SessionEntry[]).flatMap((entry) =>
    entry.type === "custom" && entry.customType.startsWith("context-prune-") ? [entry.customType] : [],
  );
}

function ownEntriesIn(file: string | undefined): string[] {
  return file === undefined ? [] : ownEntries(parseLines(readFileSync(file, "utf8")));
}

const FLUSHED = [CUSTOM_TYPE_SUMMARY, CUSTOM_TYPE_INDEX, CUSTOM_TYPE_STATS, CUSTOM_TYPE_FRONTIER];

describe.each(HOSTS)("on the %s host, 10 ms into a summary of 500 ms,", (host) => {
  let session: HostSession;
  let notices: string[] = [];
  afterEach(async () => {
    await session.close();
    notices = [];
  });

  /** Ends how the agent's run ends: only a closing reply starts a flush, which then waits for the summary. */
  async function startWith(
    ending: ScriptedReply,
  ): Promise<{ signals: (AbortSignal | undefined)[]; summaries: ScriptedRequest[] }> {
    const signals: (AbortSignal | undefined)[] = [];
    const summaries: ScriptedRequest[] = [];
    const summary: Reply = (request, signal) => {
      summaries.push(request);
      signals.push(signal);
      const name = JSON.stringify(request.messages).includes("b149") ? "b" : "a";
      return { text: `[1] Constants of ${name}.`, delayMs: SUMMARY_MS };
    };
    session = await openSession(host, {
      ui: recordingUi(notices),
      extensionPaths: [PRODUCT_ENTRY],
      files: FILES,
      settings: SETTINGS,
      replies: [read("a.ts"), ending],
      script: { rules: [{ model: "sum", reply: summary }] },
    });
    await session.prompt("read a");
    await until(() => summaries.length === 1);
    await sleep(10);
    return { signals, summaries };
  }

  const firstPrompt = () =>
    session.branch().find((entry) => entry.type === "message" && entry.message.role === "user")?.id ?? "";

  const ends: [string, () => Promise<void>][] = [
    ["/new", () => session.newSession()],
    ["/reload", () => session.session.reload()],
    ["/fork", () => session.fork(firstPrompt())],
  ];

  /** The session goes on, and condenses what comes. */
  async function expectAtWork(summaries: readonly ScriptedRequest[]): Promise<void> {
    const before = summaries.length;
    const frontiers = ownEntries(session.branch()).filter((type) => type === CUSTOM_TYPE_FRONTIER).length;
    // The older host forgets its working folder when nothing is left before the place of a fork.
    session.reply(read(join(session.folders.cwd, "b.ts")), { text: "Seen b." }, { text: "Done." });
    await session.prompt("read b");
    await until(() => ownEntries(session.branch()).filter((type) => type === CUSTOM_TYPE_FRONTIER).length > frontiers);
    expect(summaries.length).toBeGreaterThan(before);
    await session.prompt("and now?");
    const texts = (session.requests.findLast(({ model }) => model === "main")?.messages ?? []).flatMap((message) =>
      message.role === "toolResult" ? [extractToolResultText(message)] : [],
    );
    expect(texts.at(-1)).toMatch(/^\[t\d+ condensed: read \S*b\.ts, [\s\S]*Constants of b\.$/);
    expect(session.errors).toEqual([]);
    expect(notices).toEqual([]);
  }

  test.each(ends)("%s waits for the flush, whose entries go to its own session", async (name, end) => {
    const { summaries } = await startWith({ text: "Seen a." });
    const file = session.sessionFile;
    expect(ownEntriesIn(file)).toEqual([]);
    await end();
    expect(ownEntriesIn(file)).toEqual(FLUSHED);
    if (name !== "/reload") expect(ownEntries(session.branch())).toEqual([]);
    await sleep(SUMMARY_MS);
    expect(ownEntriesIn(file)).toEqual(FLUSHED);
    if (name !== "/reload") expect(ownEntries(session.branch())).toEqual([]);
    await expectAtWork(summaries);
    expect(summaries).toHaveLength(2);
  });

  test.each(ends)("%s drops one that no flush waits for, and ends its call", async (name, end) => {
    const { signals, summaries } = await startWith({ stopReason: "error", errorMessage: "the line is down" });
    const file = session.sessionFile;
    const startedAt = performance.now();
    await end();
    expect(signals[0]?.aborted).toBe(true);
    // Nobody has waited for it, however slow the machine is.
    if (performance.now() - startedAt < SUMMARY_MS) await sleep(SUMMARY_MS);
    const late = ownEntriesIn(file).filter((type) => type !== CUSTOM_TYPE_STATS);
    expect(late).toEqual([]);
    if (name !== "/reload") expect(ownEntries(session.branch())).toEqual([]);
    await expectAtWork(summaries);
  });
});

describe("print mode", () => {
  const opened: PiFolders[] = [];
  afterAll(() => {
    for (const folders of opened) folders.remove();
  });

  /** Runs both hosts at once, since they have to wait. */
  function printWith(summary: ScriptedReply, kept = true): Promise<PiRun[]> {
    return Promise.all(
      HOSTS.map(async (host) => {
        const folders = createFolders(FILES);
        opened.push(folders);
        const run = await runPi(host, {
          folders,
          prompts: ["read a"],
          settings: SETTINGS,
          script: { replies: [read("a.ts"), { text: "Seen a." }], repliesOf: { sum: [summary] } },
          session: kept ? undefined : "none",
          timeoutMs: 90_000,
        });
        expect([host, run.stderr]).toEqual([host, ""]);
        expect([host, run.code]).toEqual([host, 0]);
        expect([host, run.stdout]).toEqual([host, "Seen a.\n"]);
        expect(run.requests.filter(({ model }) => model === "sum")).toHaveLength(kept ? 1 : 0);
        return run;
      }),
    );
  }

  test("waits at its end for a summary of 500 ms, on both hosts", async () => {
    for (const run of await printWith({ text: "[1] Constants of a.", delayMs: SUMMARY_MS })) {
      expect(ownEntries(run.entries)).toEqual(FLUSHED);
    }
  });

  test("asks for no summary without a session file, on both hosts", async () => {
    for (const run of await printWith({ text: "[1] Constants of a.", delayMs: 60_000 }, false)) {
      expect(run.sessionFile).toBeUndefined();
    }
  });

  test(`gives up a summary of a minute within ${SHUTDOWN_WAIT_MS / 1000} s, on both hosts`, async () => {
    for (const run of await printWith({ text: "[1] Constants of a.", delayMs: 60_000 })) {
      // The rest is the start of the process on a slow machine.
      expect(run.elapsedMs).toBeLessThan(SHUTDOWN_WAIT_MS + 25_000);
      expect(run.elapsedMs).toBeGreaterThan(SHUTDOWN_WAIT_MS);
      expect(ownEntries(run.entries).filter((type) => type !== CUSTOM_TYPE_STATS)).toEqual([]);
    }
  });
});
