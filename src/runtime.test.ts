import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type {
  Api,
  AssistantMessage,
  AssistantMessageEvent,
  Context,
  Model,
  SimpleStreamOptions,
} from "@mariozechner/pi-ai";
import { until } from "../test/support/hosts.ts";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "../test/support/simulated-session.ts";
import type { HostSnapshot } from "./host/host.ts";
import type { PrunerStatus } from "./runtime.ts";
import type { ReplyStream } from "./summarizer.ts";
import { extractToolResultText, isToolResult } from "./transcript/messages.ts";
import {
  CUSTOM_TYPE_DIAGNOSTIC,
  CUSTOM_TYPE_FRONTIER,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_STATS,
  CUSTOM_TYPE_SUMMARY,
  type IndexEntryData,
  QUERY_TOOL_NAME,
} from "./types.ts";

const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0.5 };
const USAGE = { input: 100, output: 10, cacheRead: 0, cacheWrite: 0, totalTokens: 110, cost: COST };

const folders: string[] = [];

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "pi-condense-runtime-"));
  folders.push(folder);
  return folder;
}

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function assistant(
  timestamp: number,
  content: AssistantMessage["content"],
  stopReason: AssistantMessage["stopReason"],
): AssistantMessage {
  const source = { api: "a", provider: "prov", model: "m", usage: USAGE };
  return { role: "assistant", content, ...source, stopReason, timestamp };
}

/** One run of the agent: a prompt, a turn for each id, a closing reply. Times begin at `start`. */
function run(start: number, ids: readonly string[], toolName = "read"): AgentMessage[] {
  let clock = start;
  const turns = ids.flatMap((id): AgentMessage[] => {
    const content = [{ type: "text" as const, text: `line of ${id}\n`.repeat(500) }];
    const result = { role: "toolResult" as const, toolCallId: id, toolName, content, isError: false };
    return [
      assistant(++clock, [{ type: "toolCall", id, name: toolName, arguments: { path: `${id}.ts` } }], "toolUse"),
      { ...result, timestamp: ++clock },
    ];
  });
  const prompt: AgentMessage = { role: "user", content: "go", timestamp: start };
  return [prompt, ...turns, assistant(++clock, [{ type: "text", text: "done" }], "stop")];
}

/** A summariser whose replies a test gives, at once or later. */
class Summariser {
  readonly requests: Context[] = [];
  /** Signals of the requests, in their order. */
  readonly signals: (AbortSignal | undefined)[] = [];
  /** Settles the calls in the order in which they came; later ones are answered at once where it is a message. */
  private readonly waiting: ((message: AssistantMessage) => void)[] = [];
  private automatic: (() => AssistantMessage) | undefined;

  readonly model = Summariser.asModel({ id: "sum", provider: "prov", contextWindow: 100_000, maxTokens: 4_000 });

  readonly models: HostSnapshot["models"] = Summariser.asModels({
    find: () => undefined,
    getAvailable: () => [],
    hasConfiguredAuth: () => true,
    streamSimple: (_model: Model<Api>, context: Context, options?: SimpleStreamOptions): ReplyStream => {
      this.requests.push(context);
      this.signals.push(options?.signal);
      const message = new Promise<AssistantMessage>((resolve) => {
        if (this.automatic) resolve(this.automatic());
        else this.waiting.push(resolve);
      });
      return {
        async *[Symbol.asyncIterator](): AsyncIterator<AssistantMessageEvent> {
          const partial = await message;
          yield { type: "start", partial };
        },
        result: () => message,
      };
    },
  });

  /** Answers every call from now on, and those that wait. */
  answer(text: string, stopReason: AssistantMessage["stopReason"] = "stop"): void {
    this.automatic = () => assistant(1, text ? [{ type: "text", text }] : [], stopReason);
    for (const settle of this.waiting.splice(0)) settle(this.automatic());
  }

  /** Answers the call that has waited longest. */
  answerNext(text: string): void {
    this.waiting.shift()?.(assistant(1, [{ type: "text", text }], "stop"));
  }

  private static asModel(fields: object): Model<Api> {
    return fields as Model<Api>;
  }

  private static asModels(fields: object): HostSnapshot["models"] {
    return fields as HostSnapshot["models"];
  }
}

function sessionWith(settings: Settings, summariser?: Summariser, tree = new EntryTree()): SimulatedSession {
  const models = summariser && { model: summariser.model, models: summariser.models };
  // A flush at a moment that is known, whatever it costs.
  return new SimulatedSession(
    agentDirWith({ pruneOn: "agent-message", summarizerModel: "default", ...settings }),
    tree,
    false,
    models,
  );
}

function typesIn(tree: EntryTree): string[] {
  return tree.getEntries().flatMap((entry) => (entry.type === "custom" ? [entry.customType] : []));
}

function count(tree: EntryTree, customType: string): number {
  return typesIn(tree).filter((type) => type === customType).length;
}

/** First words of each result that a request carries. */
async function resultsSent(session: SimulatedSession): Promise<string[]> {
  const { sent } = await session.request();
  return sent.filter(isToolResult).map((message) => extractToolResultText(message).split(" ").slice(0, 2).join(" "));
}

function statusOf({ pruner, host }: SimulatedSession): PrunerStatus | undefined {
  return pruner.status(host);
}

/** Waits until the flush that runs in the background is over. */
async function landed(session: SimulatedSession): Promise<void> {
  await until(() => statusOf(session)?.flushing === false);
}

const DIGEST: Settings = { summarizerModel: "none" };

describe("requests", () => {
  test("carry stubs in place, on the host's own messages", async () => {
    const session = sessionWith(DIGEST);
    await session.play(run(1, ["c1"]));
    const messages = structuredClone(session.messages());
    const [, , hostResult] = messages;
    expect(await session.pruner.renderRequest(session.host, messages)).toBeUndefined();
    expect(messages[2]).toBe(hostResult);
    expect(JSON.stringify(hostResult)).toContain("[t1 condensed: read c1.ts, ");
  });

  test("stay raw where nothing has been closed yet", async () => {
    const session = sessionWith(DIGEST);
    const requests = await session.play(run(1, ["c1", "c2"]).slice(0, -1));
    for (const { raw, sent } of requests) expect(sent).toEqual(raw);
    expect(typesIn(session.tree)).toEqual([]);
  });

  test("carry the recovery tool's own output as it is", async () => {
    const session = sessionWith(DIGEST);
    await session.play(run(1, ["c1"], QUERY_TOOL_NAME));
    expect(await resultsSent(session)).toEqual(["line of"]);
  });

  test("are not needed for a flush: the end of a turn does", async () => {
    const session = sessionWith(DIGEST);
    for (const message of run(1, ["c1"])) session.add(message);
    await session.pruner.turnEnded(session.host);
    expect(count(session.tree, CUSTOM_TYPE_FRONTIER)).toBe(1);
  });

  test("leave what stands behind the last closing reply to the next one, after a restart too", async () => {
    const tree = new EntryTree();
    const open = run(100, ["c2", "c3"]).slice(0, -1);
    for (const message of [...run(1, ["c1"]), ...open]) tree.appendMessage(message);
    const session = sessionWith(DIGEST, undefined, tree);
    expect(await resultsSent(session)).toEqual(["[t1 condensed:", "line of", "line of"]);
  });

  test("give a flush that was cut short its frontier", async () => {
    const session = sessionWith(DIGEST);
    await session.play(run(1, ["c1"]));
    const tree = new EntryTree();
    for (const entry of session.tree.getEntries()) {
      if (entry.type === "message") tree.appendMessage(entry.message);
      else if (entry.type === "custom" && entry.customType !== CUSTOM_TYPE_FRONTIER)
        tree.appendCustom(entry.customType, entry.data);
    }
    const again = sessionWith(DIGEST, undefined, tree);
    expect(await resultsSent(again)).toEqual(["[t1 condensed:"]);
    expect(count(tree, CUSTOM_TYPE_INDEX)).toBe(1);
    expect(count(tree, CUSTOM_TYPE_FRONTIER)).toBe(1);
  });

  test("find pending output again after a restart", async () => {
    const tree = new EntryTree();
    for (const message of run(1, ["c1"])) tree.appendMessage(message);
    expect(await resultsSent(sessionWith(DIGEST, undefined, tree))).toEqual(["[t1 condensed:"]);
  });

  test("are raw before the place of a flush in the tree, and condensed again behind it", async () => {
    const session = sessionWith(DIGEST);
    await session.play(run(1, ["c1"]));
    const condensed = (await session.request()).sent;
    const tip = session.tree.getLeafId();
    const [, , result] = session.tree.getEntries();
    session.tree.moveTo(result?.id ?? null);
    expect(await resultsSent(session)).toEqual(["line of"]);
    session.tree.moveTo(tip);
    expect((await session.request()).sent).toEqual(condensed);
  });

  test("of two sessions in one process have nothing in common", async () => {
    const [one, other] = [sessionWith(DIGEST), sessionWith(DIGEST)];
    await one.play(run(1, ["c1"]));
    await other.play(run(1, ["c9"]).slice(0, -1));
    expect(await resultsSent(one)).toEqual(["[t1 condensed:"]);
    expect(await resultsSent(other)).toEqual(["line of"]);
    expect(other.state().indexer.refs()).toEqual([]);
  });
});

describe("off", () => {
  test("makes the next request raw, and on brings back what was there", async () => {
    const session = sessionWith(DIGEST);
    await session.play(run(1, ["c1"]));
    const condensed = await session.request();
    session.pruner.changeSettings(session.host, { enabled: false });
    const { raw, sent } = await session.request();
    expect(sent).toEqual(raw);
    session.pruner.changeSettings(session.host, { enabled: true });
    expect((await session.request()).sent).toEqual(condensed.sent);
  });

  test("appends nothing and asks nobody", async () => {
    const summariser = new Summariser();
    const session = sessionWith({ enabled: false, pruneOn: "every-turn" }, summariser);
    await session.play(run(1, ["c1", "c2"]));
    expect(typesIn(session.tree)).toEqual([]);
    expect(summariser.requests).toEqual([]);
  });

  test("in the midst of a flush leaves the request raw when the summary comes", async () => {
    const summariser = new Summariser();
    const session = sessionWith({}, summariser);
    await session.play(run(1, ["c1"]));
    session.pruner.changeSettings(session.host, { enabled: false });
    summariser.answer("[1] short");
    await landed(session);
    const { raw, sent } = await session.request();
    expect(sent).toEqual(raw);
  });

  test("is kept for the next session of the same user", async () => {
    const session = sessionWith(DIGEST);
    session.pruner.changeSettings(session.host, { enabled: false });
    expect(session.restart().pruner.settings.enabled).toBe(false);
  });
});

describe("settings", () => {
  test("that are wrong are told once, with key and what is used instead", async () => {
    const session = sessionWith({ ...DIGEST, minBatchChars: -5 });
    await session.play(run(1, ["c1"]));
    expect(session.notices).toEqual([expect.stringContaining("minBatchChars")]);
    expect(session.pruner.settings.minBatchChars).toBe(1000);
  });

  test("in a file that does not parse are told of, and the defaults hold", () => {
    const agentDir = temporaryFolder();
    writeFileSync(join(agentDir, "settings.json"), "{ broken");
    const session = new SimulatedSession(agentDir);
    expect(session.notices).toEqual([expect.stringContaining("settings.json")]);
    expect(session.pruner.settings.enabled).toBe(true);
  });
});

describe("pruneOn", () => {
  test("on-demand waits for the user", async () => {
    const session = sessionWith({ ...DIGEST, pruneOn: "on-demand" });
    await session.play(run(1, ["c1"]));
    expect(await resultsSent(session)).toEqual(["line of"]);
    expect(await session.pruner.flushNow(session.host)).toMatchObject({ condensed: 1 });
    expect(await resultsSent(session)).toEqual(["[t1 condensed:"]);
  });

  test("every-turn condenses what has been answered in the midst of a run", async () => {
    const session = sessionWith({ ...DIGEST, pruneOn: "every-turn", workingSet: null });
    await session.play(run(1, ["c1", "c2"]).slice(0, -1));
    expect(await resultsSent(session)).toEqual(["[t1 condensed:", "line of"]);
  });

  test("on-context-tag waits for a call of such a tool", async () => {
    const session = sessionWith({ ...DIGEST, pruneOn: "on-context-tag", contextTagTools: ["tag"] });
    await session.play(run(1, ["c1"]));
    expect(await resultsSent(session)).toEqual(["line of"]);
    await session.play(run(100, ["c2"], "tag"));
    expect((await resultsSent(session))[0]).toBe("[t1 condensed:");
  });
});

describe("a summary that is under way", () => {
  test("holds up neither the turn nor the next request, which goes out raw", async () => {
    const summariser = new Summariser();
    const session = sessionWith({}, summariser);
    await session.play(run(1, ["c1"]));
    expect(summariser.requests).toHaveLength(1);
    expect(await resultsSent(session)).toEqual(["line of"]);
    expect(statusOf(session)).toMatchObject({ flushing: true, pendingCalls: 1 });
  });

  test("is used from the request after it on", async () => {
    const summariser = new Summariser();
    const session = sessionWith({}, summariser);
    await session.play(run(1, ["c1"]));
    summariser.answer("[1] what c1 said");
    await landed(session);
    const { sent } = await session.request();
    expect(extractToolResultText(sent.filter(isToolResult)[0] ?? { content: [] })).toEndWith("\nwhat c1 said");
    expect(statusOf(session)).toMatchObject({ flushing: false, pendingCalls: 0, condensedCalls: 1 });
  });

  test("is joined by a second trigger", async () => {
    const summariser = new Summariser();
    const session = sessionWith({}, summariser);
    await session.play(run(1, ["c1"]));
    const [one, other] = [session.pruner.flushNow(session.host), session.pruner.flushNow(session.host)];
    summariser.answer("[1] short");
    expect(await one).toMatchObject({ condensed: 1 });
    expect(await other).toEqual(await one);
    expect(summariser.requests).toHaveLength(1);
  });

  test("is dropped where the session has been replaced meanwhile", async () => {
    const summariser = new Summariser();
    const session = sessionWith({}, summariser);
    await session.play(run(1, ["c1"]));
    session.pruner.startSession(session.host);
    summariser.answer("[1] short");
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(typesIn(session.tree)).toEqual([]);
    expect(session.notices).toEqual([]);
  });

  test("is dropped with those of the same flush that were there already", async () => {
    const summariser = new Summariser();
    const session = sessionWith({ summarizerConcurrency: 1 }, summariser);
    await session.play(run(1, ["c1", "c2"]));
    summariser.answerNext("[1] short");
    await until(() => summariser.requests.length === 2);
    session.pruner.startSession(session.host);
    expect(summariser.signals[1]?.aborted).toBe(true);
    summariser.answerNext("[1] short");
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(typesIn(session.tree)).toEqual([]);
    expect(statusOf(session)).toMatchObject({ flushing: false, pendingCalls: 2 });
  });

  test("is dropped for what a move in the tree has taken away, and kept for the rest", async () => {
    const summariser = new Summariser();
    const session = sessionWith({ pruneOn: "on-demand", summarizerConcurrency: 2 }, summariser);
    await session.play(run(1, ["c1"]));
    const between = session.tree.getLeafId();
    await session.play(run(100, ["c2"]));
    const flushed = session.pruner.flushNow(session.host);
    session.tree.moveTo(between);
    summariser.answer("[1] short");
    expect(await flushed).toMatchObject({ condensed: 1 });
    const indexed = session.tree.branch().flatMap((entry) => {
      const own = entry.type === "custom" && entry.customType === CUSTOM_TYPE_INDEX;
      return own ? (entry.data as IndexEntryData).refs.map((ref) => ref.toolCallId) : [];
    });
    expect(indexed).toEqual(["c1"]);
    expect(await resultsSent(session)).toEqual(["[t1 condensed:"]);
  });

  test("is waited for at the end of the session", async () => {
    const summariser = new Summariser();
    const session = sessionWith({}, summariser);
    await session.play(run(1, ["c1"]));
    let ended = false;
    const ending = session.pruner.endSession().then(() => {
      ended = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(ended).toBe(false);
    summariser.answer("[1] short");
    await ending;
    expect(typesIn(session.tree)).toEqual([
      CUSTOM_TYPE_SUMMARY,
      CUSTOM_TYPE_INDEX,
      CUSTOM_TYPE_STATS,
      CUSTOM_TYPE_FRONTIER,
    ]);
  });
});

test("each closing reply starts its flush, also where several have one time or none", async () => {
  for (const time of [7, Number.NaN]) {
    const session = sessionWith(DIGEST);
    const at = (id: string) => JSON.parse(JSON.stringify(run(1, [id]).map((m) => ({ ...m, timestamp: time }))));
    await session.play(at("c1"));
    await session.play(at("c2"));
    expect(session.state().indexer.refs()).toEqual(["t1", "t2"]);
  }
});

describe("a session without a file", () => {
  class Unkept extends EntryTree {
    override getSessionFile = (): string | undefined => undefined;
  }

  test.each(["agent-message", "every-turn", "on-context-tag", "cache-aware"] as const)(
    "asks for no summary that only a later prompt would use: %s",
    async (pruneOn) => {
      const summariser = new Summariser();
      const session = sessionWith({ pruneOn, autoBudgetTokens: 1_000 }, summariser, new Unkept());
      for (const message of run(1, ["c1"])) {
        session.add(message);
        if (message.role !== "user") await session.pruner.turnEnded(session.host);
      }
      expect(summariser.requests).toHaveLength(0);
    },
  );

  test("condenses at the next prompt, and waits for nothing at its end", async () => {
    const summariser = new Summariser();
    const session = sessionWith({}, summariser, new Unkept());
    await session.play(run(1, ["c1"]));
    expect(summariser.requests).toHaveLength(1);
    summariser.answer("[1] short");
    await landed(session);
    expect(await resultsSent(session)).toEqual(["[t1 condensed:"]);

    const other = new Summariser();
    const ended = sessionWith({}, other, new Unkept());
    await ended.play(run(1, ["c1"]));
    await ended.pruner.endSession();
    expect(other.signals[0]?.aborted).toBe(true);
  });
});

describe("a flush at a request", () => {
  test("condenses what the session holds, not what another extension has made of it", async () => {
    const session = sessionWith(DIGEST);
    for (const message of run(1, ["c1"])) session.add(message);
    const changed = structuredClone(session.messages()).map((message) =>
      message.role === "toolResult" ? { ...message, content: [{ type: "text" as const, text: "cut" }] } : message,
    );
    await session.pruner.renderRequest(session.host, changed);
    expect(session.state().indexer.getRecord("c1@3")?.resultChars).toBe("line of c1\n".length * 500);
  });

  test("takes what the request holds where the session file lags behind", async () => {
    const session = sessionWith(DIGEST);
    await session.pruner.renderRequest(session.host, run(1, ["c1"]));
    expect(session.state().indexer.getRecord("c1@3")?.resultText).toBe("line of c1\n".repeat(500));
  });
});

describe("a budget", () => {
  const OVER = { tokens: 90_000, contextWindow: 100_000, percent: 90 };
  const BUDGET: Settings = { pruneOn: "on-demand", autoBudgetThreshold: 0.8 };
  /** Three turns, the last of which nobody has answered. */
  const OPEN_RUN = run(1, ["c1", "c2", "c3"]).slice(0, -1);

  test("that is reached in the midst of a run has what is answered condensed, whatever pruneOn says", async () => {
    const session = sessionWith({ ...DIGEST, ...BUDGET });
    for (const message of OPEN_RUN) session.add(message);
    session.host.usage = () => OVER;
    await session.pruner.turnEnded(session.host);
    expect(await resultsSent(session)).toEqual(["[t1 condensed:", "[t2 condensed:", "line of"]);
    expect(session.notices).toEqual([expect.stringContaining("2 pending turns")]);
  });

  test("that is not reached does nothing", async () => {
    const session = sessionWith({ ...DIGEST, ...BUDGET });
    for (const message of OPEN_RUN) session.add(message);
    session.host.usage = () => ({ ...OVER, tokens: 79_999 });
    await session.pruner.turnEnded(session.host);
    expect(await resultsSent(session)).toEqual(["line of", "line of", "line of"]);
    expect(session.notices).toEqual([]);
  });

  test("is off by default, however full the window is", async () => {
    const session = sessionWith({ ...DIGEST, pruneOn: "on-demand" });
    for (const message of OPEN_RUN) session.add(message);
    session.host.usage = () => ({ ...OVER, tokens: 100_000 });
    await session.pruner.turnEnded(session.host);
    expect(await resultsSent(session)).toEqual(["line of", "line of", "line of"]);
  });

  test("holds up the next request until its summaries are there, and only that flush does", async () => {
    const summariser = new Summariser();
    const session = sessionWith({ ...BUDGET, summarizerConcurrency: 2 }, summariser);
    for (const message of OPEN_RUN) session.add(message);
    session.host.usage = () => OVER;
    await session.pruner.turnEnded(session.host);
    let left = false;
    const leaving = resultsSent(session).then((results) => {
      left = true;
      return results;
    });
    await until(() => summariser.requests.length === 2);
    expect(left).toBe(false);
    summariser.answerNext("[1] short");
    summariser.answerNext("[1] short");
    expect(await leaving).toEqual(["[t1 condensed:", "[t2 condensed:", "line of"]);

    session.host.usage = () => undefined;
    session.add(assistant(90, [{ type: "text", text: "done" }], "stop"));
    void session.pruner.flushNow(session.host);
    expect((await resultsSent(session)).at(-1)).toBe("line of");
    expect(summariser.requests).toHaveLength(3);
  });

  test("lets the request go when the user ends the run", async () => {
    const summariser = new Summariser();
    const session = sessionWith(BUDGET, summariser);
    for (const message of OPEN_RUN) session.add(message);
    session.host.usage = () => OVER;
    await session.pruner.turnEnded(session.host);
    const controller = new AbortController();
    session.host.signal = controller.signal;
    const leaving = resultsSent(session);
    controller.abort();
    expect(await leaving).toEqual(["line of", "line of", "line of"]);
  });

  test("says nothing where every turn is condensed anyway", async () => {
    const session = sessionWith({ ...DIGEST, ...BUDGET, pruneOn: "every-turn" });
    for (const message of OPEN_RUN) session.add(message);
    session.host.usage = () => OVER;
    await session.pruner.turnEnded(session.host);
    expect(await resultsSent(session)).toEqual(["[t1 condensed:", "[t2 condensed:", "line of"]);
    expect(session.notices).toEqual([]);
  });

  test("does not fire twice on one figure, but again with a newer one", async () => {
    const summariser = new Summariser();
    summariser.answer("", "error");
    const session = sessionWith(BUDGET, summariser);
    for (const message of OPEN_RUN) session.add(message);
    session.host.usage = () => OVER;
    for (let i = 0; i < 3; i++) {
      await session.pruner.turnEnded(session.host);
      await session.request();
    }
    expect(summariser.requests).toHaveLength(2);
    for (const message of run(100, ["c4"])) session.add(message);
    await session.pruner.turnEnded(session.host);
    await landed(session);
    expect(summariser.requests.length).toBeGreaterThan(2);
  });

  test("with nothing left to condense is told once and disturbs nobody", async () => {
    const session = sessionWith({ ...DIGEST, ...BUDGET });
    session.host.usage = () => OVER;
    await session.play(run(1, ["c1"]));
    await session.play(run(100, []));
    await session.play(run(200, []));
    expect(session.notices.filter((notice) => notice.includes("nothing"))).toHaveLength(1);
  });
});

describe("oversized output", () => {
  const SPILL: Settings = { ...DIGEST, pruneOn: "on-demand", spillThreshold: 5000 };

  test("goes to a file before the first request that would carry it", async () => {
    const dir = temporaryFolder();
    const session = sessionWith(SPILL, undefined, new EntryTree(dir));
    const requests = await session.play(run(1, ["c1"]).slice(0, 3));
    const [result] = requests.at(-1)?.sent.filter(isToolResult) ?? [];
    const stub = extractToolResultText(result ?? { content: [] });
    const path = /The whole output is in (\S+):/.exec(stub)?.[1] ?? "";
    expect(path).toStartWith(dir);
    expect(readFileSync(path, "utf8")).toBe("line of c1\n".repeat(500));
  });

  test("goes there also where the request comes before anything else", async () => {
    const session = sessionWith(SPILL, undefined, new EntryTree(temporaryFolder()));
    for (const message of run(1, ["c1"]).slice(0, 3)) session.add(message);
    expect(await resultsSent(session)).toEqual(["[t1 condensed:"]);
  });

  test("stays in the context where it cannot be written, and that is told once", async () => {
    const dir = temporaryFolder();
    // A file where the folder would have to be.
    writeFileSync(join(dir, "simulated-blobs"), "");
    const session = sessionWith(SPILL, undefined, new EntryTree(dir));
    await session.play(run(1, ["c1", "c2"]));
    expect(await resultsSent(session)).toEqual(["line of", "line of"]);
    expect(session.notices).toEqual([expect.stringContaining("stays in the context")]);
  });

  test("stays in the context of a session that is not kept", async () => {
    const session = sessionWith(SPILL);
    await session.play(run(1, ["c1"]));
    expect(await resultsSent(session)).toEqual(["line of"]);
    expect(session.notices).toEqual([]);
  });
});

test("a long session without a model compresses its closed chains and has nothing to tell", async () => {
  const session = sessionWith(DIGEST);
  for (let i = 0; i < 9; i++) await session.play(run(1 + 10_000 * i, [`c${i}`, `d${i}`]));
  expect(statusOf(session)?.chains).toBeGreaterThan(0);
  expect(session.notices).toEqual([]);
});

describe("after the end of the session", () => {
  test("nothing is appended, and requests go out raw", async () => {
    const session = sessionWith(DIGEST);
    await session.play(run(1, ["c1"]).slice(0, -1));
    await session.pruner.endSession();
    const [, , , closing] = run(1, ["c1"]);
    if (closing) session.add(closing);
    await session.pruner.turnEnded(session.host);
    const { raw, sent } = await session.request();
    expect(sent).toEqual(raw);
    expect(typesIn(session.tree)).toEqual([]);
  });

  test("ending it again does no harm", async () => {
    const session = sessionWith(DIGEST);
    await session.pruner.endSession();
    await session.pruner.endSession();
    expect(statusOf(session)).toBeUndefined();
  });
});

describe("a summariser in trouble", () => {
  test("whose model refuses one batch twice is not asked for it again: the digest ends that", async () => {
    const summariser = new Summariser();
    summariser.answer("I can't help with that.");
    const session = sessionWith({}, summariser);
    for (const [i, id] of ["c1", "c2", "c3"].entries()) {
      await session.play(run(100 * i + 1, [id]));
      await landed(session);
    }
    const asked = (id: string) => summariser.requests.filter((r) => JSON.stringify(r).includes(`line of ${id}`)).length;
    expect([asked("c1"), asked("c2")]).toEqual([2, 2]);
    expect(session.state().indexer.refs()).toEqual(["t1", "t2"]);
    await session.play(run(401, ["c4"]));
    await landed(session);
    expect(asked("c1")).toBe(2);
  });

  test.each<[string, string, AssistantMessage["stopReason"]]>([
    ["an errored reply", "", "error"],
    ["a reply that was cut", "[1] half", "length"],
    ["an empty reply", "", "stop"],
  ])(
    "%s leaves the results raw and pending, and the next closing reply tries again",
    async (_what, text, stopReason) => {
      const summariser = new Summariser();
      summariser.answer(text, stopReason);
      const session = sessionWith({}, summariser);
      await session.play(run(1, ["c1"]));
      await landed(session);
      expect(await resultsSent(session)).toEqual(["line of"]);
      expect(statusOf(session)?.pendingCalls).toBe(1);
      expect(count(session.tree, CUSTOM_TYPE_FRONTIER)).toBe(0);

      summariser.answer("[1] short");
      await session.play(run(100, ["c2"]));
      await landed(session);
      expect((await resultsSent(session))[0]).toBe("[t1 condensed:");
      await session.play(run(200, []));
      await landed(session);
      expect(await resultsSent(session)).toEqual(["[t1 condensed:", "[t2 condensed:"]);
    },
  );

  test("is not asked again for the same closing reply, however many requests follow", async () => {
    const summariser = new Summariser();
    summariser.answer("", "error");
    const session = sessionWith({}, summariser);
    await session.play(run(1, ["c1"]));
    await landed(session);
    for (let i = 0; i < 5; i++) await session.request();
    expect(summariser.requests).toHaveLength(1);
  });

  test("is told once, with its name, though it fails again and again", async () => {
    const summariser = new Summariser();
    summariser.answer("", "error");
    const session = sessionWith({}, summariser);
    for (let i = 0; i < 4; i++) {
      await session.play(run(1 + 100 * i, [`c${i}`]));
      await landed(session);
    }
    expect(session.notices).toEqual([expect.stringContaining("prov/sum")]);
  });

  test("has its spending counted, failed calls too, also after a restart", async () => {
    const summariser = new Summariser();
    summariser.answer("", "error");
    const session = sessionWith({}, summariser);
    await session.play(run(1, ["c1"]));
    await landed(session);
    const spent = { callCount: 1, failedCallCount: 1, totalInputTokens: 100, totalOutputTokens: 10, totalCost: 0.5 };
    expect(statusOf(session)?.stats).toEqual(spent);
    expect(statusOf(session.restart())?.stats).toEqual(spent);
  });

  test("that is no model at all is nothing to tell where there is nothing to condense", async () => {
    const session = sessionWith({});
    await session.play(run(1, []));
    await session.play(run(100, []));
    expect(session.notices).toEqual([]);
  });

  test("that is no model at all is told once and leaves everything raw and pending", async () => {
    const session = sessionWith({});
    for (const start of [1, 100, 200]) await session.play(run(start, [`c${start}`]));
    expect(session.notices).toEqual([expect.stringContaining("no model")]);
    expect(await resultsSent(session)).toEqual(["line of", "line of", "line of"]);
    expect(statusOf(session)?.pendingCalls).toBe(3);
    expect(typesIn(session.tree)).toEqual([]);
  });

  test("that is unknown is told once, with the name that was set", async () => {
    const session = sessionWith({ summarizerModel: "prov/lost" }, new Summariser());
    await session.play(run(1, ["c1"]));
    await session.play(run(100, ["c2"]));
    expect(session.notices).toEqual([expect.stringContaining("prov/lost")]);
  });
});

describe("trouble in the extension itself", () => {
  /** A session file that takes no entries of extensions. */
  class FullDisk extends EntryTree {
    override appendCustom(): string {
      throw new Error("disk full");
    }
  }

  test("leaves the request as it is, with one notice", async () => {
    const session = sessionWith(DIGEST, undefined, new FullDisk());
    const requests = [...(await session.play(run(1, ["c1"]))), ...(await session.play(run(100, ["c2"])))];
    for (const { raw, sent } of requests) expect(sent).toEqual(raw);
    expect(session.notices).toEqual([expect.stringContaining("disk full")]);
  });

  test("is written down once, however often it comes", async () => {
    class Flaky extends EntryTree {
      broken = false;
      override getLeafId = (): string | null => {
        if (this.broken) throw new Error("cannot read the leaf");
        return this.getEntries().at(-1)?.id ?? null;
      };
    }
    const tree = new Flaky();
    const session = sessionWith(DIGEST, undefined, tree);
    tree.broken = true;
    for (const message of run(1, ["c1"])) session.add(message);
    for (let i = 0; i < 3; i++) {
      const { raw, sent } = await session.request();
      expect(sent).toEqual(raw);
    }
    expect(session.notices).toEqual([expect.stringContaining("cannot read the leaf")]);
    expect(count(tree, CUSTOM_TYPE_DIAGNOSTIC)).toBe(1);
  });

  test("without a user interface is silent and harms nobody", async () => {
    const session = sessionWith(DIGEST, undefined, new FullDisk());
    const host = { ...session.host, ui: undefined };
    for (const message of run(1, ["c1"])) session.add(message);
    await session.pruner.turnEnded(host);
    expect(await session.pruner.renderRequest(host, session.messages())).toBeUndefined();
  });

  test("in reading the session is told, and requests go out raw", async () => {
    class Unreadable extends EntryTree {
      override getEntries = (): never => {
        throw new Error("cannot read");
      };
    }
    const session = sessionWith(DIGEST, undefined, new Unreadable());
    for (const message of run(1, ["c1"])) session.add(message);
    await session.pruner.turnEnded(session.host);
    const { raw, sent } = await session.request();
    expect(sent).toEqual(raw);
    expect(session.notices).toEqual([expect.stringContaining("cannot read")]);
  });
});

describe("entries of an unknown shape", () => {
  function damaged(): EntryTree {
    const tree = new EntryTree();
    tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: "?" });
    tree.appendCustom(CUSTOM_TYPE_INDEX, null);
    return tree;
  }

  test("give one notice and one diagnostic, and the rest works", async () => {
    const session = sessionWith(DIGEST, undefined, damaged());
    expect(session.notices).toEqual([expect.stringContaining(CUSTOM_TYPE_INDEX)]);
    expect(count(session.tree, CUSTOM_TYPE_DIAGNOSTIC)).toBe(1);
    await session.play(run(1, ["c1"]));
    expect(await resultsSent(session)).toEqual(["[t1 condensed:"]);
  });

  test("are not written down again after a restart", () => {
    const session = sessionWith(DIGEST, undefined, damaged());
    expect(count(session.restart().tree, CUSTOM_TYPE_DIAGNOSTIC)).toBe(1);
  });
});
