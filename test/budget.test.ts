/** Budgets: a context that has grown too large is condensed at once, before the next request, and only then. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { AssistantMessage, Message, ToolResultMessage } from "@mariozechner/pi-ai";
import type { ContextUsage, ExtensionUIContext } from "@mariozechner/pi-coding-agent";
import { extractToolResultText } from "../src/transcript/messages.ts";
import { CUSTOM_TYPE_FRONTIER } from "../src/types.ts";
import { bigText } from "./support/fixtures/big-output.ts";
import { createFolders, type PiFolders } from "./support/folders.ts";
import {
  HOSTS,
  type HostSession,
  type HostSessionOptions,
  openSession,
  PRODUCT_ENTRY,
  type Reply,
  supportPath,
  until,
} from "./support/hosts.ts";
import type { ScriptedReply, ScriptedRequest } from "./support/script.ts";
import { agentDirWith, type Settings, SimulatedSession } from "./support/simulated-session.ts";
import { checkTranscript } from "./support/transcript.ts";

setDefaultTimeout(120_000);

const WINDOW = 200_000;
const BIG_OUTPUT = supportPath("fixtures/big-output.ts");
/** Of each result: a thousandth of the window, so that the steps of the script are those of the figures. */
const RESULT_BYTES = 3_000;
const NOTHING_LEFT = /budget reached, but nothing/;
const COMPACTING = /budget reached — compacting/;

/** A reply for which the provider reports `share` of the window. No two replies fall into one millisecond. */
function using(share: number, reply: ScriptedReply): ScriptedReply {
  const usage = { input: Math.round(share * WINDOW), output: 0, cacheRead: 0, cacheWrite: 0 };
  return { delayMs: 5, ...reply, usage };
}

/** The turn number `n` of a run: one call. */
function turn(share: number, n: number): ScriptedReply {
  return using(share, {
    calls: [{ id: `call_${n}`, name: "big_output", arguments: { bytes: RESULT_BYTES, seed: n } }],
  });
}

function turns(...shares: number[]): ScriptedReply[] {
  return shares.map((share, n) => turn(share, n));
}

/** Turns with results that are too small to be condensed. */
function smallTurns(...shares: number[]): ScriptedReply[] {
  return shares.map((share, n) =>
    using(share, { calls: [{ id: `call_${n}`, name: "big_output", arguments: { bytes: 100, seed: n } }] }),
  );
}

/** A user interface that keeps the notices and does nothing else. */
function recordingUi(notices: string[]): ExtensionUIContext {
  // The newer host copies it, so what is asked of it must be there by name.
  const known: Record<PropertyKey, unknown> = {
    notify: (message: string) => void notices.push(message),
    getAllThemes: () => [],
    // biome-ignore lint/suspicious/noThenProperty: nobody may take it for a promise.
    then: undefined,
  };
  const ui = new Proxy(known, { get: (target, name) => (name in target ? target[name] : () => undefined) });
  return ui as unknown as ExtensionUIContext;
}

/** Calls whose results stand as stubs in a request, and those that stand raw, by their numbers. */
function split(request: ScriptedRequest | undefined): { stubs: number[]; raw: number[] } {
  const parts: { stubs: number[]; raw: number[] } = { stubs: [], raw: [] };
  for (const message of request?.messages ?? []) {
    if (message.role !== "toolResult") continue;
    const n = Number(message.toolCallId.replace("call_", ""));
    const text = extractToolResultText(message);
    if (text === bigText(RESULT_BYTES, n)) parts.raw.push(n);
    else if (/^\[t\d+ condensed: big_output\b/.test(text)) parts.stubs.push(n);
    else throw new Error(`neither raw nor a stub: ${text.slice(0, 100)}`);
  }
  return parts;
}

/** Number of stubs in each request. */
function stubCounts(requests: readonly ScriptedRequest[]): number[] {
  return requests.filter(({ model }) => model === "main").map((request) => split(request).stubs.length);
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

describe.each(HOSTS)("budgets on the %s host", (host) => {
  const open: HostSession[] = [];
  const made: PiFolders[] = [];
  let notices: string[] = [];

  afterEach(async () => {
    for (const session of open.splice(0)) await session.close();
    for (const folders of made.splice(0)) folders.remove();
    notices = [];
  });

  /** Budgets alone decide in these tests: no other trigger flushes. */
  async function start(contextPrune: Settings, options: HostSessionOptions): Promise<HostSession> {
    const session = await openSession(host, {
      settings: { contextPrune: { pruneOn: "on-demand", summarizerModel: "none", ...contextPrune } },
      ui: recordingUi(notices),
      ...options,
      // Slow handlers come before the product's, which wait for them where the host does.
      extensionPaths: [...(options.extensionPaths ?? []), PRODUCT_ENTRY, BIG_OUTPUT],
    });
    open.push(session);
    return session;
  }

  /** One run of the agent. */
  async function run(contextPrune: Settings, replies: Reply[], options: HostSessionOptions = {}): Promise<HostSession> {
    const session = await start(contextPrune, { replies, ...options });
    await session.prompt("go");
    expectClean(session);
    return session;
  }

  function expectClean(session: HostSession): void {
    expect(session.errors).toEqual([]);
    for (const { messages } of session.requests) expect(checkTranscript(messages)).toEqual([]);
    expect(session.session.messages.filter((m) => m.role === "assistant" && m.stopReason === "error")).toEqual([]);
  }

  function frontiers(session: HostSession): number {
    return session.branch().filter((entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER)
      .length;
  }

  const noticed = (pattern: RegExp) => notices.filter((notice) => pattern.test(notice)).length;

  async function freshFolders(): Promise<PiFolders> {
    const folders = createFolders();
    made.push(folders);
    return folders;
  }

  test.each(["on-demand", "agent-message", "on-context-tag"] as const)(
    "a ramp flushes at the first turn at the threshold, and each turn that is still above it (%s)",
    async (pruneOn) => {
      const shares = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2];
      const session = await run({ autoBudgetThreshold: 0.8, pruneOn }, [
        ...turns(...shares),
        using(0.2, { text: "Done." }),
      ]);
      const { requests } = session;
      expect(requests).toHaveLength(shares.length + 1);
      // Request n follows reply n - 1, whose own result nobody has seen.
      expect(stubCounts(requests)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9, 10, 11]);
      expect(split(requests[8])).toEqual({ stubs: range(0, 7), raw: [7] });
      expect(noticed(COMPACTING)).toBe(5);
      expect(frontiers(session)).toBe(pruneOn === "agent-message" ? 6 : 5);
    },
  );

  test("after a flush the ramp goes on from lower usage, and the next flush comes when it is back", async () => {
    const shares = [0.6, 0.7, 0.8, 0.3, 0.4, 0.5, 0.6, 0.7, 0.79, 0.85, 0.4];
    const session = await run({ autoBudgetThreshold: 0.8 }, [...turns(...shares), using(0.5, { text: "Done." })]);
    expect(stubCounts(session.requests)).toEqual([0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 9, 9]);
    expect(frontiers(session)).toBe(2);
    expect(noticed(COMPACTING)).toBe(2);
    expect(notices).toHaveLength(2);
  });

  test("with a slow handler of another extension no figure counts twice", async () => {
    process.env.SLOW_HANDLER_MS = "120";
    try {
      const shares = [0.6, 0.7, 0.8, 0.3, 0.4, 0.9, 0.3, 0.4, 0.5];
      const session = await run({ autoBudgetThreshold: 0.8 }, [...turns(...shares), using(0.5, { text: "Done." })], {
        extensionPaths: [supportPath("slow-handler.ts")],
      });
      expect(stubCounts(session.requests)).toEqual([0, 0, 0, 2, 2, 2, 5, 5, 5, 5]);
      expect(frontiers(session)).toBe(2);
      expect(notices).toHaveLength(2);
    } finally {
      delete process.env.SLOW_HANDLER_MS;
    }
  });

  test.each([["0"], ["120"]])(
    "a figure whose flush freed nothing is not judged again by the next event (handlers take %s ms)",
    async (ms) => {
      process.env.SLOW_HANDLER_MS = ms;
      try {
        const session = await start(
          { autoBudgetThreshold: 0.8 },
          {
            replies: [...smallTurns(0.1, 0.85, 0.86, 0.87), using(0.9, { text: "Done." })],
            extensionPaths: [supportPath("slow-handler.ts")],
          },
        );
        await session.prompt("go");
        expectClean(session);
        // Each figure finds one result; a second look at it would find none, and say so.
        expect(frontiers(session)).toBe(4);
        expect(noticed(NOTHING_LEFT)).toBe(0);
      } finally {
        delete process.env.SLOW_HANDLER_MS;
      }
    },
  );

  test("every-turn flushes once a turn, whatever the budget says", async () => {
    const session = await run({ autoBudgetThreshold: 0.5, pruneOn: "every-turn" }, [
      ...turns(0.4, 0.6, 0.8, 0.9),
      using(0.5, { text: "Done." }),
    ]);
    expect(stubCounts(session.requests)).toEqual([0, 0, 1, 2, 3]);
    expect(frontiers(session)).toBe(4);
    expect(notices).toEqual([]);
  });

  test("above the budget the next request waits for the flush of every-turn too", async () => {
    const session = await run(
      { autoBudgetThreshold: 0.8, pruneOn: "every-turn", summarizerModel: "scripted/sum" },
      [...turns(0.4, 0.9), using(0.5, { text: "Done." })],
      { script: { rules: [{ model: "sum", reply: { text: "[1] Numbered lines of one seed.", delayMs: 400 } }] } },
    );
    const main = session.requests.filter(({ model }) => model === "main");
    expect(split(main[2])).toEqual({ stubs: [0], raw: [1] });
  });

  test("a jump of the delta flushes, one below it does not", async () => {
    const shares = [0.3, 0.4, 0.54, 0.7, 0.75, 0.8];
    const session = await run({ budgetTurnDelta: 0.15 }, [...turns(...shares), using(0.3, { text: "Done." })]);
    expect(stubCounts(session.requests)).toEqual([0, 0, 0, 0, 3, 3, 3]);
    expect(frontiers(session)).toBe(1);
  });

  test("the first figure of a session is no jump", async () => {
    const session = await run({ budgetTurnDelta: 0.15 }, [...turns(0.9, 0.95, 0.99), using(0.9, { text: "Done." })]);
    expect(stubCounts(session.requests)).toEqual([0, 0, 0, 0]);
    expect(notices).toEqual([]);
  });

  test("a number of tokens flushes", async () => {
    const shares = [0.1, 0.24, 0.26, 0.1, 0.2];
    const session = await run({ autoBudgetTokens: WINDOW / 4 }, [...turns(...shares), using(0.2, { text: "Done." })]);
    expect(stubCounts(session.requests)).toEqual([0, 0, 0, 2, 2, 2]);
    expect(frontiers(session)).toBe(1);
  });

  test("no budget, no flush", async () => {
    const session = await run({}, [...turns(0.5, 0.9, 1.2), using(1.2, { text: "Done." })]);
    expect(stubCounts(session.requests)).toEqual([0, 0, 0, 0]);
    expect(frontiers(session)).toBe(0);
    expect(notices).toEqual([]);
  });

  test("a session that is above its budget when it is opened is flushed before its first request", async () => {
    const folders = await freshFolders();
    const before = await run({}, [...turns(0.7, 0.8), using(0.9, { text: "Done." })], { folders });
    const sessionFile = before.sessionFile;
    await open.pop()?.close();
    expect(stubCounts(before.requests)).toEqual([0, 0, 0]);

    const after = await run({ autoBudgetThreshold: 0.8 }, [using(0.2, { text: "Going on." })], {
      folders,
      sessionFile,
    });
    expect(split(after.requests[0])).toEqual({ stubs: [0, 1], raw: [] });
    expect(frontiers(after)).toBe(1);
  });

  test("a reopened session measures its first jump from the figure that it ended with", async () => {
    const folders = await freshFolders();
    const before = await run({}, [...turns(0.2, 0.3), using(0.3, { text: "Done." })], { folders });
    await open.pop()?.close();
    const { sessionFile } = before;
    const replies = [turn(0.44, 2), turn(0.6, 3), using(0.3, { text: "Done." })];
    const after = await run({ budgetTurnDelta: 0.15 }, replies, { folders, sessionFile });
    expect(stubCounts(after.requests)).toEqual([0, 0, 3]);
  });

  test("a flush that came last before the end is not called for again by the same figure", async () => {
    const folders = await freshFolders();
    const settings = { autoBudgetThreshold: 0.8, pruneOn: "agent-message" } as const;
    const before = await run(settings, [turn(0.3, 0), using(0.9, { text: "Done." })], { folders });
    await open.pop()?.close();
    const { sessionFile } = before;
    notices = [];
    const after = await run(settings, [using(0.1, { text: "Going on." })], { folders, sessionFile });
    expect(split(after.requests[0])).toEqual({ stubs: [0], raw: [] });
    expect(notices).toEqual([]);
  });

  test("that there is nothing to free is said once", async () => {
    const session = await start({ autoBudgetThreshold: 0.8 }, { script: { otherwise: using(0.9, { text: "Hm." }) } });
    for (const text of ["one", "two", "three", "four"]) await session.prompt(text);
    expectClean(session);
    expect(noticed(NOTHING_LEFT)).toBe(1);
    expect(notices).toHaveLength(1);
    expect(frontiers(session)).toBe(0);
  });

  test("an unseen result is no reason to say that nothing is left, and is not touched", async () => {
    const session = await run({ autoBudgetThreshold: 0.8 }, [...turns(0.9, 0.3), using(0.3, { text: "Done." })]);
    expect(stubCounts(session.requests)).toEqual([0, 0, 0]);
    expect(frontiers(session)).toBe(0);
  });

  test("a move in the tree resets what a jump is measured from", async () => {
    const session = await start(
      { budgetTurnDelta: 0.15 },
      { replies: [turn(0.6, 0), using(0.6, { text: "One." }), using(0.1, { text: "Two." })] },
    );
    await session.prompt("first");
    const place = session.sessionManager.getLeafId() ?? "";
    await session.prompt("second");
    await session.session.navigateTree(place);
    await session.settle();
    session.reply(turn(0.65, 1), turn(0.81, 2), using(0.3, { text: "Three." }));
    await session.prompt("instead");
    expectClean(session);
    // From 0.1 on the path that was left to 0.6 on this one is no jump; from 0.65 to 0.81 is one.
    expect(stubCounts(session.requests).slice(-3)).toEqual([0, 0, 2]);
  });

  test("after a compaction the figure is unknown: it fires nothing, and the one before it is kept", async () => {
    const session = await start(
      { budgetTurnDelta: 0.15 },
      {
        settings: {
          contextPrune: { pruneOn: "on-demand", summarizerModel: "none", budgetTurnDelta: 0.15 },
          compaction: { enabled: false, keepRecentTokens: 10 },
        },
        script: {
          rules: [{ system: "summariz", reply: { text: "A summary." } }],
          replies: [...turns(0.3, 0.4), using(0.5, { text: "One." })],
        },
      },
    );
    await session.prompt("first");
    await session.session.compact();
    await session.settle();
    expect(session.session.getContextUsage()?.tokens).toBeNull();
    session.reply(turn(0.6, 2), turn(0.7, 3), using(0.3, { text: "Two." }));
    await session.prompt("second");
    expectClean(session);
    expect(frontiers(session)).toBe(0);
    expect(notices).toEqual([]);

    await session.session.compact();
    await session.settle();
    session.reply(turn(0.46, 4), using(0.4, { text: "Three." }));
    await session.prompt("third");
    expectClean(session);
    expect(notices).toHaveLength(1);
  });

  test("in the middle of a run the next request waits for the model's summaries, and the run is the same", async () => {
    const shares = [0.3, 0.5, 0.7, 0.85, 0.4];
    const replies = [...turns(...shares), using(0.5, { text: "Done." })];
    const summary = { text: "[1] Numbered lines of one seed.", delayMs: 400 };
    const session = await run(
      { autoBudgetThreshold: 0.8, summarizerModel: "scripted/sum", batchingMode: "turn" },
      replies,
      { script: { repliesOf: { sum: [summary, summary, summary] } } },
    );
    const main = session.requests.filter(({ model }) => model === "main");
    expect(session.requests.filter(({ model }) => model === "sum")).toHaveLength(3);
    expect(stubCounts(main)).toEqual([0, 0, 0, 0, 3, 3]);
    expect(split(main[4])).toEqual({ stubs: [0, 1, 2], raw: [3] });
    expect(JSON.stringify(main[4]?.messages)).toContain("Numbered lines of one seed.");
    expect(JSON.stringify(main[4]?.messages).length).toBeLessThan(JSON.stringify(main[3]?.messages).length);
    expect(frontiers(session)).toBe(1);

    const plain = await openSession(host, { folders: session.folders, extensionPaths: [BIG_OUTPUT], replies });
    open.push(plain);
    await plain.prompt("go");
    expect(plain.requests).toHaveLength(main.length);
    const roles = (requests: readonly ScriptedRequest[]) => requests.map(({ messages }) => messages.map((m) => m.role));
    expect(roles(main)).toEqual(roles(plain.requests));
  });

  test("the request also waits while a handler of another extension is slow", async () => {
    process.env.SLOW_HANDLER_MS = "120";
    try {
      const summary = { text: "[1] Numbered lines of one seed.", delayMs: 400 };
      const session = await run(
        { autoBudgetThreshold: 0.8, summarizerModel: "scripted/sum" },
        [...turns(0.3, 0.5, 0.85, 0.4), using(0.5, { text: "Done." })],
        { extensionPaths: [supportPath("slow-handler.ts")], script: { repliesOf: { sum: [summary, summary] } } },
      );
      expect(stubCounts(session.requests)).toEqual([0, 0, 0, 2, 2]);
    } finally {
      delete process.env.SLOW_HANDLER_MS;
    }
  });

  test("what the end of one run has begun, the first request of the next waits for", async () => {
    const summary = { text: "[1] Numbered lines of one seed.", delayMs: 400 };
    const session = await start(
      { autoBudgetThreshold: 0.8, pruneOn: "agent-message", summarizerModel: "scripted/sum" },
      {
        replies: [turn(0.3, 0), using(0.9, { text: "One." }), using(0.2, { text: "Two." })],
        script: { repliesOf: { sum: [summary] } },
      },
    );
    await session.prompt("first");
    await session.prompt("second");
    expectClean(session);
    expect(stubCounts(session.requests)).toEqual([0, 0, 1]);
    expect(noticed(COMPACTING)).toBe(1);
    expect(frontiers(session)).toBe(1);
  });

  test("space is freed also where no model gives a summary", async () => {
    const down = { stopReason: "error" as const, errorMessage: "503 overloaded" };
    const session = await run(
      { autoBudgetThreshold: 0.8, summarizerModel: "scripted/sum" },
      [...turns(0.3, 0.85, 0.3), using(0.3, { text: "Done." })],
      {
        script: {
          rules: [
            { model: "sum", reply: down },
            { system: "condense the finished tool calls", reply: down },
          ],
        },
      },
    );
    const main = session.requests.filter(({ systemPrompt }) => !systemPrompt.includes("condense the finished"));
    expect(stubCounts(main)).toEqual([0, 0, 1, 1]);
    expect(frontiers(session)).toBe(1);
  });

  test("the user can end the wait", async () => {
    const order: string[] = [];
    const ended = Promise.withResolvers<void>();
    const session = await start(
      { autoBudgetThreshold: 0.8, summarizerModel: "scripted/sum" },
      {
        replies: [...turns(0.3, 0.9), using(0.3, { text: "Never." })],
        script: {
          repliesOf: {
            sum: [
              async () => {
                await Promise.race([ended.promise, Bun.sleep(5_000)]);
                order.push("summary");
                return { text: "[1] Numbered lines of one seed." };
              },
            ],
          },
        },
      },
    );
    const running = session.session.prompt("go");
    await until(() => session.requests.some(({ model }) => model === "sum"));
    await session.session.abort();
    await running;
    order.push("run");
    ended.resolve();
    await until(() => order.length === 2);
    expect(order).toEqual(["run", "summary"]);
    expect(session.errors).toEqual([]);
  });

  test("results too small to be worth a summary are no news at each turn", async () => {
    const small = smallTurns(0.85, 0.86, 0.87, 0.88, 0.89);
    const session = await start({ autoBudgetThreshold: 0.8 }, { replies: [...small, using(0.9, { text: "Done." })] });
    await session.prompt("go");
    expectClean(session);
    expect(notices.length).toBeLessThanOrEqual(1);
  });

  test("a budget that found nothing does not make later requests wait", async () => {
    const done: string[] = [];
    const third = Promise.withResolvers<void>();
    const session = await run(
      { autoBudgetThreshold: 0.8, pruneOn: "every-turn", summarizerModel: "scripted/sum" },
      [
        turn(0.9, 0),
        turn(0.3, 1),
        () => {
          done.push("request");
          third.resolve();
          return using(0.3, { text: "Done." });
        },
      ],
      {
        script: {
          rules: [
            {
              model: "sum",
              reply: async () => {
                await Promise.race([third.promise, Bun.sleep(3_000)]);
                done.push("summary");
                return { text: "[1] Numbered lines of one seed." };
              },
            },
          ],
        },
      },
    );
    await until(() => frontiers(session) > 0);
    expect(done[0]).toBe("request");
  });

  test("an oversized result that was spilled does not count at its full size", async () => {
    const spilled: ScriptedReply = using(0.2, {
      calls: [{ id: "call_big", name: "big_output", arguments: { bytes: 1_000_000 } }],
    });
    const session = await start(
      { autoBudgetThreshold: 0.8 },
      { replies: [turn(0.1, 0), spilled, using(0.2, { text: "Done." })] },
    );
    await session.prompt("go");
    expectClean(session);
    expect(notices).toEqual([]);
    expect(frontiers(session)).toBe(0);
  });
});

describe("budgets on a simulated session", () => {
  const NONE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  let now = 1_772_000_000_000;

  function assistant(content: AssistantMessage["content"], stopReason: "stop" | "toolUse"): AssistantMessage {
    now += 10;
    return {
      role: "assistant",
      content,
      api: "scripted-api",
      provider: "scripted",
      model: "main",
      usage: { ...NONE, totalTokens: 0, cost: { ...NONE, total: 0 } },
      stopReason,
      timestamp: now,
    };
  }

  /** Plays turns, each with the usage that the host gives at its end, and tells how many stubs the next request has. */
  async function play(settings: Settings, figures: (number | null | undefined)[]): Promise<number[]> {
    const agentDir = agentDirWith({ summarizerModel: "none", pruneOn: "on-demand", ...settings });
    const session = new SimulatedSession(agentDir);
    session.add({ role: "user", content: "go", timestamp: now });
    const counts: number[] = [];
    for (const [n, tokens] of figures.entries()) {
      const usage: ContextUsage | undefined =
        tokens === undefined
          ? undefined
          : { tokens, contextWindow: WINDOW, percent: tokens && (100 * tokens) / WINDOW };
      const id = `call_${n}`;
      session.add(assistant([{ type: "toolCall", id, name: "big_output", arguments: {} }], "toolUse"));
      now += 10;
      const content: ToolResultMessage["content"] = [{ type: "text", text: bigText(RESULT_BYTES, n) }];
      session.add({
        role: "toolResult",
        toolCallId: id,
        toolName: "big_output",
        content,
        isError: false,
        timestamp: now,
      });
      session.host.usage = () => usage;
      await session.pruner.turnEnded(session.host);
      const { sent } = await session.request();
      counts.push(split({ messages: sent as Message[] } as ScriptedRequest).stubs.length);
    }
    return counts;
  }

  const share = (value: number) => value * WINDOW;

  test.each([[null], [undefined]])("usage of %p fires nothing and keeps the figure before it", async (unknown) => {
    expect(await play({ budgetTurnDelta: 0.15 }, [share(0.5), unknown, share(0.6)])).toEqual([0, 0, 0]);
    expect(await play({ budgetTurnDelta: 0.15 }, [share(0.5), unknown, share(0.65)])).toEqual([0, 0, 2]);
    const all = { autoBudgetThreshold: 0.1, budgetTurnDelta: 0.1, autoBudgetTokens: 1_000 };
    expect(await play(all, [unknown, unknown, unknown])).toEqual([0, 0, 0]);
  });

  test("an exact jump counts, in spite of rounding", async () => {
    expect(await play({ budgetTurnDelta: 0.15 }, [share(0.2), share(0.35)])).toEqual([0, 1]);
    expect(await play({ budgetTurnDelta: 0.15 }, [share(0.2), share(0.35) - 1])).toEqual([0, 0]);
  });

  test("an exact threshold counts", async () => {
    expect(await play({ autoBudgetThreshold: 0.8 }, [0, share(0.8) - 1, share(0.8)])).toEqual([0, 0, 2]);
    expect(await play({ autoBudgetTokens: 50_000 }, [0, 49_999, 50_000])).toEqual([0, 0, 2]);
  });

  test("either trigger is enough", async () => {
    const both = { autoBudgetThreshold: 0.8, budgetTurnDelta: 0.15 };
    expect(await play(both, [share(0.2), share(0.4), share(0.5), share(0.6), share(0.81)])).toEqual([0, 1, 1, 1, 4]);
  });
});
