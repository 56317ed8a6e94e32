/**
 * Faults that need a host: kill -9 between any two writes, and other extensions that stand in the way. After each, nothing
 * is lost, the next request is valid, and nothing escapes to the host.
 */
import { afterAll, describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { extractToolResultText, isToolResult, textOf } from "../src/transcript/messages.ts";
import { bigText } from "./support/fixtures/big-output.ts";
import type { Trouble } from "./support/fixtures/troublemaker.ts";
import { type HostSessionOptions, openSession } from "./support/hosts.ts";
import { checkDroppedRecoverable, checkRecoverable } from "./support/invariants.ts";
import {
  createFolders,
  HOSTS,
  type Host,
  type PiFolders,
  type PiRun,
  PRODUCT_ENTRY,
  runPi,
  supportPath,
} from "./support/print-mode.ts";
import { recordingUi } from "./support/recording-ui.ts";
import type { ScriptedReply } from "./support/script.ts";
import { agentDirWith, EntryTree, SimulatedSession } from "./support/simulated-session.ts";
import { checkTranscript } from "./support/transcript.ts";

const TIMEOUT = 300_000;
const SETTINGS = {
  contextPrune: {
    summarizerModel: "none",
    pruneOn: "on-demand",
    chainCompression: { rollingWindow: 0, batchSize: 0 },
  },
};
const file = (name: string) => Array.from({ length: 150 }, (_, i) => `export const ${name}${i} = ${i};`).join("\n");
const FILES = { "a.ts": file("a"), "b.ts": file("b"), "c.ts": file("c") };
const read = (path: string) => ({ name: "read", arguments: { path } });
const REPLIES: ScriptedReply[] = [
  { calls: [read("a.ts"), { name: "bash", arguments: { command: "echo hi" } }] },
  { text: "One." },
  { calls: [read("b.ts"), read("a.ts")] },
  { text: "Two." },
  { calls: [read("c.ts")] },
  { text: "Three." },
];
const PROMPTS = ["one", "two", "three"];

const opened: PiFolders[] = [];
afterAll(() => {
  for (const folders of opened) folders.remove();
});

function folders(): PiFolders {
  const made = createFolders(FILES);
  opened.push(made);
  return made;
}

/** What is looked at of a process, or of a session in this one. */
type Seen = Pick<PiRun, "requests" | "entries">;

/** Sessions in this process that have been asked for, one after the other. */
let inProcess: Promise<unknown> = Promise.resolve();

/** A session in this process takes up what a killed one has left, and goes on without a word but those of its commands. */
async function goOn(host: Host, place: PiFolders, killed: PiRun, options: HostSessionOptions & { prompts: string[] }) {
  const work = inProcess.then(async (): Promise<Seen> => {
    const notices: string[] = [];
    const session = await openSession(host, {
      ...{ folders: place, sessionFile: killed.sessionFile, ui: recordingUi(notices), ...options },
      extensionPaths: [PRODUCT_ENTRY, ...(options.extensionPaths ?? [])],
    });
    try {
      for (const prompt of options.prompts) await session.prompt(prompt);
      expect(session.errors).toEqual([]);
      expect(notices.filter((notice) => !/^(?:Condensed|Compressed|Nothing) /.test(notice))).toEqual([]);
      return { requests: session.requests, entries: session.sessionManager.getEntries() };
    } finally {
      await session.close();
    }
  });
  inProcess = work.catch(() => undefined);
  return work;
}

/** The session as a process would find it, with what a request of another process has sent. */
function taken(run: Seen, place: PiFolders, sent: readonly AgentMessage[]) {
  const tree = new EntryTree(place.sessionDir).read(
    run.entries.filter((entry) => entry.type !== "session").map((entry) => JSON.stringify(entry)),
  );
  const session = new SimulatedSession(agentDirWith({ summarizerModel: "none", pruneOn: "agent-message" }), tree);
  return { session, request: { raw: session.messages(), sent: [...sent], epoch: 0 } };
}

/** The last request is valid, and each result of the session stands in it or is given back by what stands for it. */
function expectNothingLost(run: Seen, place: PiFolders): void {
  const sent = run.requests.at(-1)?.messages ?? [];
  expect(checkTranscript(sent)).toEqual([]);
  const { session, request } = taken(run, place, sent);
  const state = session.state();
  expect([...checkRecoverable(request, state), ...checkDroppedRecoverable(request, state)]).toEqual([]);
}

/** Runs `task` over `items`, two at a time. */
async function inPairs<T>(items: readonly T[], task: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const worker = async () => {
    for (const item of queue) await task(item);
  };
  await Promise.all([worker(), worker()]);
}

const preload = `--import=${supportPath("fixtures/kill-at-write.mjs")}`;

function ownEntries(entries: readonly { type: string; customType?: string }[]): string[] {
  return entries.flatMap(({ customType }) => (customType?.startsWith("context-prune-") ? [customType] : []));
}

describe.each(HOSTS)("kill -9 on %s", (host) => {
  /** A process that is killed at a write of its flush. */
  function kill(place: PiFolders, at: number, half: boolean): Promise<PiRun> {
    return runPi(host, {
      folders: place,
      prompts: [...PROMPTS, "/pruner compact", "four"],
      script: { replies: [...REPLIES, { text: "Four." }] },
      settings: SETTINGS,
      env: { NODE_OPTIONS: preload, KILL_AT: String(at), KILL_HALF: half ? "1" : "" },
      damaged: half,
    });
  }

  const PROMPTS_AFTER = ["go on", "/pruner compact", "and now?"];
  const REPLIES_AFTER = [{ text: "Going on." }, { text: "Now." }];

  test(
    "between any two writes of a flush loses nothing, and a second process completes it",
    async () => {
      const whole = await runPi(host, {
        folders: folders(),
        prompts: [...PROMPTS, "/pruner compact", "four"],
        script: { replies: [...REPLIES, { text: "Four." }] },
        settings: SETTINGS,
      });
      const writes = ownEntries(whole.entries);
      expect(new Set(writes).size).toBe(5);
      let kills = 0;
      await inPairs([...writes.keys()], async (at) => {
        const place = folders();
        const killed = await kill(place, at, false);
        // Where handlers are not awaited, a slow machine may flush before the last turn is there, and writes less.
        if (killed.code === 0 && ownEntries(killed.entries).length <= at) return;
        expect(killed.code).toBeNull();
        kills += 1;
        expect(ownEntries(killed.entries)).toHaveLength(at);
        const second = await goOn(host, place, killed, { prompts: PROMPTS_AFTER, replies: REPLIES_AFTER });
        // Without its frontier a flush changes no request.
        const first = second.requests[0]?.messages ?? [];
        expect(first.filter(isToolResult).map(extractToolResultText)).toContain(FILES["b.ts"]);
        expect(checkTranscript(first)).toEqual([]);
        expectNothingLost(second, place);
        expect(JSON.stringify(second.requests.at(-1)?.messages)).toContain("<compressed-chain ");
        expect(JSON.stringify(second.requests.at(-1)?.messages)).not.toContain("export const b149");
      });
      expect(kills).toBeGreaterThan(writes.length / 2);
    },
    TIMEOUT,
  );

  test(
    "within a write leaves a last line that ends too early: the next request is valid, and what was given back still is",
    async () => {
      const place = folders();
      const killed = await kill(place, 1, true);
      expect(killed.code).toBeNull();
      const second = await runPi(host, {
        folders: place,
        session: "continue",
        prompts: PROMPTS_AFTER,
        script: { replies: REPLIES_AFTER },
        damaged: true,
      });
      // Without a user interface a command answers on standard error.
      expect([second.code, second.stderr.replace(/^(?:Condensed|Compressed|Nothing) .*\n/gm, "")]).toEqual([0, ""]);
      const third = await runPi(host, {
        folders: place,
        session: "continue",
        prompts: ["still there?"],
        script: { replies: [{ text: "Still." }] },
        damaged: true,
      });
      expect([third.code, third.stderr]).toEqual([0, ""]);
      for (const run of [second, third]) {
        for (const { messages } of run.requests) expect(checkTranscript(messages)).toEqual([]);
      }
      const texts = (third.requests[0]?.messages ?? []).flatMap((m) => (m.role === "user" ? [textOf(m.content)] : []));
      // The older host glues the next entry to the broken line, loses both, and with them what stands before: so it does
      // with any extension, and without one.
      if (host === "new") {
        expect(texts[0]).toBe("one");
        expectNothingLost(third, place);
      }
      const { session } = taken(third, place, []);
      const everything = session.tree.getEntries().flatMap((entry) => resultText(entry));
      for (const text of Object.values(FILES)) expect(everything).toContain(text);
    },
    TIMEOUT,
  );

  function resultText(entry: SessionEntry): string[] {
    return entry.type === "message" && isToolResult(entry.message) ? [extractToolResultText(entry.message)] : [];
  }

  const BIG = 200_000;

  test(
    "between any two writes of a spill loses nothing, and a second process spills the same",
    async () => {
      const big = { name: "big_output", arguments: { bytes: BIG } };
      const tool = supportPath("fixtures/big-output.ts");
      const run = (place: PiFolders, at: number) =>
        runPi(host, {
          folders: place,
          prompts: ["one"],
          script: { replies: [{ calls: [big] }, { text: "Big." }] },
          settings: { contextPrune: { summarizerModel: "none", pruneOn: "agent-message" } },
          extensions: [tool],
          env: { NODE_OPTIONS: preload, KILL_WHAT: "blob", KILL_AT: String(at) },
        });
      // Open, write, sync, link, unlink of the file, open and sync of its folder.
      const steps = [0, 1, 2, 3, 4, 5, 6].filter((step) => step % 2 === (host === "old" ? 0 : 1));
      await inPairs(steps, async (at) => {
        const place = folders();
        const killed = await run(place, at);
        expect([at, killed.code]).toEqual([at, null]);
        expect(JSON.stringify(killed.entries)).not.toContain('"spillPath"');
        const second = await goOn(host, place, killed, {
          prompts: ["go on"],
          replies: [{ text: "Going on." }],
          extensionPaths: [tool],
        });
        expectNothingLost(second, place);
        const [result] = (second.requests[0]?.messages ?? []).filter(isToolResult);
        const stub = result ? extractToolResultText(result) : "";
        expect(stub).toContain("context_tree_query t1");
        const path = /\/\S+-blobs\/\S+?\.txt/.exec(stub)?.[0] ?? "";
        expect(await Bun.file(path).text()).toBe(bigText(BIG));
      });
    },
    TIMEOUT,
  );
});

const TROUBLES: Trouble[] = ["throw", "sleep", "drop", "empty", "reorder", "rewrite", "inject", "garbage"];
const TROUBLEMAKER = supportPath("fixtures/troublemaker.ts");

describe.each(HOSTS)("another extension on %s", (host) => {
  for (const place of ["before", "after"] as const) {
    test.each(TROUBLES)(
      `that is loaded ${place} ours and makes trouble: %s`,
      async (trouble) => {
        const folder = folders();
        const notices: string[] = [];
        const paths = place === "before" ? [TROUBLEMAKER, PRODUCT_ENTRY] : [PRODUCT_ENTRY, TROUBLEMAKER];
        const session = await openTroubled(host, folder, trouble, paths, notices);
        let sessionFile: string | undefined;
        try {
          for (const prompt of [...PROMPTS, "four"]) await session.prompt(prompt);
          sessionFile = session.sessionFile;
          const foreign = session.errors.filter(({ extensionPath }) => extensionPath !== TROUBLEMAKER);
          expect(foreign).toEqual([]);
          expect(notices.length).toBeLessThanOrEqual(1);
          expect(session.requests).toHaveLength(7);
          if (place === "before" && trouble !== "garbage") {
            for (const { messages } of session.requests) expect(problemsOf(messages)).toEqual([]);
          }
        } finally {
          await session.close();
          delete process.env.TROUBLE;
        }
        await expectUnharmed(host, folder, sessionFile);
      },
      TIMEOUT,
    );
  }

  /** What pi repairs by itself, a call without its result, is no fault of a render. */
  function problemsOf(messages: readonly AgentMessage[]): string[] {
    return checkTranscript(messages).filter((problem) => !problem.includes("has no result directly after it"));
  }

  async function openTroubled(
    on: Host,
    folder: PiFolders,
    trouble: Trouble,
    extensionPaths: string[],
    notices: string[],
  ) {
    process.env.TROUBLE = trouble;
    return openSession(on, {
      folders: folder,
      extensionPaths,
      settings: { contextPrune: { ...SETTINGS.contextPrune, pruneOn: "agent-message" } },
      replies: [...REPLIES, { text: "Four." }],
      ui: recordingUi(notices),
    });
  }

  /** With the troublemaker gone, everything is there, condensed, and given back. */
  async function expectUnharmed(on: Host, folder: PiFolders, sessionFile: string | undefined): Promise<void> {
    const session = await openSession(on, {
      folders: folder,
      extensionPaths: [PRODUCT_ENTRY],
      sessionFile,
      replies: [{ text: "Quiet again." }],
    });
    try {
      await session.prompt("quiet?");
      const sent = session.requests.at(-1)?.messages ?? [];
      expect(checkTranscript(sent)).toEqual([]);
      expect(session.errors).toEqual([]);
      const lines = session.sessionManager.getEntries().map((entry) => JSON.stringify(entry));
      const agentDir = agentDirWith({ summarizerModel: "none", pruneOn: "agent-message" });
      const simulated = new SimulatedSession(agentDir, new EntryTree(folder.sessionDir).read(lines));
      const request = { raw: simulated.messages(), sent, epoch: 0 };
      const state = simulated.state();
      expect([...checkRecoverable(request, state), ...checkDroppedRecoverable(request, state)]).toEqual([]);
      expect(JSON.stringify(sent)).toContain("context_tree_query t");
    } finally {
      await session.close();
    }
  }
});
