import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { DEFAULT_CONFIG } from "./config.ts";
import { DEFAULT_PROFILE } from "./cost/prices.ts";
import type { Moment, Notice, SessionModel, Summarizer } from "./engine/environment.ts";
import { MemorySession } from "./session/memory-session.ts";
import { SessionEngine } from "./session-engine.ts";
import type { BatchSummary } from "./summarizer.ts";
import { extractToolResultText, isToolResult } from "./transcript/messages.ts";
import type { CapturedBatch, ContextPruneConfig } from "./types.ts";

const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: COST };
const FROM = { api: "a", provider: "p", model: "main", usage: USAGE };

let clock = 1;
const user = (content: string): AgentMessage => ({ role: "user", content, timestamp: clock++ });
const closing = (): AssistantMessage => ({
  role: "assistant",
  content: [{ type: "text", text: "done" }],
  ...FROM,
  stopReason: "stop",
  timestamp: clock++,
});

function turn(id: string, chars: number): AgentMessage[] {
  const arguments_ = { path: `${id}.txt` };
  const content = [{ type: "text" as const, text: `${id} `.repeat(chars / 3) }];
  return [
    {
      role: "assistant",
      content: [{ type: "toolCall", id, name: "read", arguments: arguments_ }],
      ...FROM,
      stopReason: "toolUse",
      timestamp: clock++,
    },
    { role: "toolResult", toolCallId: id, toolName: "read", content, isError: false, timestamp: clock++ },
  ];
}

/** A summariser whose replies come when the test says so. */
class HeldSummarizer {
  private readonly open: (() => void)[] = [];
  readonly summarizer: Summarizer = {
    kind: "model",
    isOptional: false,
    summaryShare: 0.1,
    priceOf: () => 0,
    isAvailable: () => true,
    flushBegins: () => undefined,
    forgive: () => undefined,
    summarize: (batch, { signal }) =>
      new Promise((resolve) => {
        this.open.push(() => resolve(summaryOf(batch)));
        signal.addEventListener("abort", () => resolve(null), { once: true });
      }),
    fuse: () => Promise.resolve(null),
  };

  async answer(): Promise<void> {
    for (const reply of this.open.splice(0)) reply();
    await soon();
  }
}

function summaryOf({ toolCalls }: CapturedBatch): BatchSummary {
  const texts = toolCalls.map(({ toolCallId }) => `what ${toolCallId} said`);
  return { whole: texts.join("\n"), texts, model: "held" };
}

/** Lets everything happen that waits for nothing. */
const soon = () => new Promise<void>((resolve) => setTimeout(resolve, 5));

/** An engine on a session in memory; waits come to an end when the test says so. */
class Played {
  readonly session = new MemorySession();
  readonly notices: Notice[] = [];
  readonly errors: unknown[] = [];
  readonly engine: SessionEngine;
  usage: ContextUsage | undefined;
  model: SessionModel | undefined;
  signal: AbortSignal | undefined;
  private readonly waits: AbortController[] = [];
  private readonly config: ContextPruneConfig;

  constructor(
    settings: Partial<ContextPruneConfig>,
    private readonly summarizer: () => Summarizer,
  ) {
    this.config = { ...DEFAULT_CONFIG, enabled: true, minBatchChars: 100, ...settings };
    this.engine = new SessionEngine({
      reader: this.session,
      append: (customType, data) => this.session.appendCustom(customType, data),
      clock: {
        now: () => clock,
        after: () => {
          const wait = new AbortController();
          this.waits.push(wait);
          return wait.signal;
        },
      },
      settings: () => this.config,
      tell: (notice) => void this.notices.push(notice),
      onPaid: () => undefined,
      onChange: () => undefined,
      onCommit: () => undefined,
      onError: (error) => void this.errors.push(error),
    });
  }

  add(...messages: AgentMessage[]): void {
    for (const message of messages) {
      const id = this.session.newId();
      this.session.append({ type: "message", id, parentId: null, timestamp: new Date(0).toISOString(), message });
    }
  }

  moment(): Moment {
    const { usage, model, signal, summarizer } = this;
    return { cwd: "/work", usage: () => usage, model, signal, summarizer };
  }

  turnEnds(): Promise<void> {
    return this.engine.turnEnded(this.moment());
  }

  request(): Promise<AgentMessage[]> {
    return this.engine.requestLeaves(this.moment(), structuredClone([...this.engine.view().messages()]));
  }

  /** Every wait that has begun comes to its end. */
  async timeOut(): Promise<void> {
    for (const wait of this.waits.splice(0)) wait.abort();
    await soon();
  }
}

const condensedIn = (sent: readonly AgentMessage[]) =>
  sent
    .filter(isToolResult)
    .filter((result) => extractToolResultText(result).startsWith("[t"))
    .map(({ toolCallId }) => toolCallId);

const window = (contextWindow: number): SessionModel => ({
  name: "p/main",
  contextWindow,
  cache: DEFAULT_PROFILE,
  rates: () => DEFAULT_PROFILE.rates,
});

describe("a budget that is exceeded while a flush runs", () => {
  test("is answered by a flush of its own, which the next request waits for", async () => {
    const held = new HeldSummarizer();
    const settings = { pruneOn: "agent-message", batchingMode: "agent-message", budgetTurnDelta: 0.15 } as const;
    const played = new Played({ ...settings, summarizerModel: "p/cheap" }, () => held.summarizer);
    const at = (tokens: number) => ({ tokens, contextWindow: 64_000, percent: 0 });
    played.usage = at(1_000);
    played.add(user("go"), ...turn("c1", 9_000));
    await played.turnEnds();
    played.add(closing());
    await played.turnEnds();
    expect(played.engine.isFlushing).toBe(true);
    played.add(user("next"), ...turn("c2", 30_000));
    await played.turnEnds();
    played.usage = at(20_000);
    played.add(...turn("c3", 900));
    await played.turnEnds();
    const request = played.request();
    await held.answer();
    await held.answer();
    await held.answer();
    expect(condensedIn(await request)).toEqual(["c1", "c2"]);
    expect(played.errors).toEqual([]);
  });
});

describe("a context that does not fit the window while a model makes summaries", () => {
  async function started() {
    const held = new HeldSummarizer();
    const played = new Played(
      { pruneOn: "agent-message", batchingMode: "turn", summarizerModel: "p/cheap" },
      () => held.summarizer,
    );
    played.add(user("go"), ...turn("c1", 60_000), closing());
    await played.turnEnds();
    expect(played.engine.isFlushing).toBe(true);
    played.add(user("next"));
    played.model = window(8_000);
    return played;
  }

  test("waits no longer than it is allowed to, then is condensed without the model", async () => {
    const played = await started();
    let hasLeft = false;
    const request = played.request().finally(() => {
      hasLeft = true;
    });
    await soon();
    expect(hasLeft).toBe(false);
    await played.timeOut();
    expect(condensedIn(await request)).toEqual(["c1"]);
  });

  test("leaves at once where the person ends the run", async () => {
    const played = await started();
    const key = new AbortController();
    played.signal = key.signal;
    const request = played.request();
    await soon();
    key.abort();
    expect(JSON.stringify(await request)).not.toContain("condensed");
  });
});

describe("with a model whose thinking is bound to what stands before it", () => {
  const thinking = { type: "thinking" as const, thinking: "hm", thinkingSignature: "c2ln" };
  const thought = (messages: AgentMessage[]): AgentMessage[] =>
    messages.map((m) => (m.role === "assistant" ? { ...m, content: [thinking, ...m.content] } : m));

  async function sent(bindsThinking: boolean): Promise<{ open: string[]; closed: string[] }> {
    const settings = { pruneOn: "every-turn", summarizerModel: "none", workingSet: null } as const;
    const played = new Played(settings, () => ({ kind: "digest" }));
    played.model = { ...window(200_000), bindsThinking };
    played.add(user("go"));
    for (const id of ["c1", "c2"]) {
      played.add(...thought(turn(id, 9_000)));
      await played.turnEnds();
    }
    const open = condensedIn(await played.request());
    played.add(closing());
    await played.turnEnds();
    played.add(user("next"));
    return { open, closed: condensedIn(await played.request()) };
  }

  test("nothing of an open run changes, and all of it once it is closed", async () => {
    expect(await sent(true)).toEqual({ open: [], closed: ["c1", "c2"] });
  });

  test("with any other model a run is condensed while it is open", async () => {
    expect((await sent(false)).open).toEqual(["c1"]);
  });
});

test("compressing all chains while a flush runs compresses them once that is done", async () => {
  const held = new HeldSummarizer();
  const chainCompression = { ...DEFAULT_CONFIG.chainCompression, enabled: true, rollingWindow: 0, batchSize: 100 };
  const played = new Played(
    { pruneOn: "agent-message", summarizerModel: "p/cheap", chainCompression },
    () => held.summarizer,
  );
  for (const id of ["c1", "c2", "c3"]) played.add(user(`read ${id}`), ...turn(id, 9_000), closing());
  played.add(user("more"));
  await played.turnEnds();
  expect(played.engine.isFlushing).toBe(true);
  const compact = played.engine.flushNow(played.moment(), { compactAll: true });
  await held.answer();
  await held.answer();
  expect(await compact).toMatchObject({ condensed: 3, chains: 3 });
});

test("a summariser that cannot even be chosen ends no process and no request", async () => {
  const played = new Played({ pruneOn: "agent-message", batchingMode: "agent-message" }, () => {
    throw new Error("the registry is broken");
  });
  played.add(user("go"), ...turn("c1", 9_000), closing());
  await played.turnEnds();
  played.add(user("next"));
  await soon();
  expect(played.errors.map(String)).toEqual(["Error: the registry is broken"]);
  expect(condensedIn(await played.request())).toEqual([]);
});
