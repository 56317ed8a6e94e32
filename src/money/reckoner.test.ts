import { afterEach, beforeEach, describe, expect, setSystemTime, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "../../test/support/simulated-session.ts";
import { runCommand } from "../commands/index.ts";
import { PRICE_PROFILES, type Rates } from "../cost/prices.ts";
import { CostMeter } from "../replay/costs.ts";
import { isAssistant, isToolResult } from "../transcript/messages.ts";
import { QUERY_TOOL_NAME } from "../types.ts";
import { type Bill, emptyBill, totalsOf } from "./bill.ts";
import { Reckoner } from "./reckoner.ts";

const RATES: Rates = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 };
const NOTHING = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
/** Tokens that a provider counts for one that is estimated, and for system prompt and tools. */
const FACTOR = 1.17;
const BASE = 9_000;

let clock = Date.UTC(2026, 0, 5);
beforeEach(() => {
  clock = Date.UTC(2026, 0, 5);
});
afterEach(() => setSystemTime());

function tick(ms = 5_000): number {
  clock += ms;
  setSystemTime(new Date(clock));
  return clock;
}

const meter = () => {
  const cache = PRICE_PROFILES.get("anthropic-5m");
  if (!cache) throw new Error("no such profile");
  return new CostMeter({ scaleOf: () => ({ factor: FACTOR, baseTokens: BASE }), cache, costOfModel: () => RATES });
};

/** A session whose provider counts and charges what is sent, beside a raw one that is charged too. */
class BilledSession {
  readonly sent = meter();
  readonly raw = meter();
  readonly session: SimulatedSession;

  constructor(settings: Settings) {
    this.session = new SimulatedSession(agentDirWith({ summarizerModel: "none", ...settings }), new EntryTree());
  }

  user(text = "go on", pauseMs = 5_000): void {
    this.session.add({ role: "user", content: text, timestamp: tick(pauseMs) });
  }

  /** One request and its reply. @param isExtra a raw session would not have sent it */
  async reply(content: AssistantMessage["content"], isExtra = false): Promise<void> {
    const { raw, sent } = await this.session.request();
    const isAsking = content.some((block) => block.type === "toolCall");
    const draft: AssistantMessage = {
      role: "assistant",
      content,
      api: "a",
      provider: "p",
      model: "m",
      stopReason: isAsking ? "toolUse" : "stop",
      timestamp: tick(),
      usage: { ...NOTHING, output: 150, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } },
    };
    this.sent.request(sent, draft);
    if (!isExtra) this.raw.request(withoutRecoveries(raw), draft);
    const { read, write, tokens, cost, outputCost } = this.sent.requests.at(-1) ?? fail();
    const total = cost + outputCost;
    const usage = {
      input: tokens - read - write,
      output: 150,
      cacheRead: read,
      cacheWrite: write,
      totalTokens: tokens + 150,
      // Split as a host records it, so that prices can be read off.
      cost: { input: 0, output: outputCost, cacheRead: (read * 0.3) / 1e6, cacheWrite: (write * 3.75) / 1e6, total },
    };
    this.session.add({ ...draft, usage });
  }

  async turn(
    id: string,
    chars: number,
    name = "read",
    args: Record<string, string | string[]> = { path: `src/${id}.ts` },
  ): Promise<void> {
    await this.reply([{ type: "toolCall", id, name, arguments: args }], name === QUERY_TOOL_NAME);
    const text = `${id} line of the file\n`.repeat(Math.ceil(chars / 22)).slice(0, chars);
    this.session.add({
      role: "toolResult",
      toolCallId: id,
      toolName: name,
      content: [{ type: "text", text }],
      isError: false,
      timestamp: tick(),
    });
    await this.session.pruner.turnEnded(this.session.host);
  }

  async close(): Promise<void> {
    await this.reply([{ type: "text", text: "Done." }]);
    await this.session.pruner.turnEnded(this.session.host);
  }

  /** A prompt, some turns, a closing reply. */
  async run(name: string, turns: number, chars = 12_000): Promise<void> {
    this.user(`work on ${name}`);
    for (let i = 0; i < turns; i++) await this.turn(`${name}${i}`, chars);
    await this.close();
  }

  bill(): Bill {
    const { tree, pruner } = this.session;
    const reckoner = new Reckoner({
      reader: tree,
      config: () => pruner.settings,
      costOfModel: () => RATES,
      windowOf: () => undefined,
    });
    return { ...reckoner.follow(tree.getEntries()) };
  }

  truth(): { paid: number; raw: number; sentTokens: number; rawTokens: number } {
    const cost = ({ requests }: CostMeter) => requests.reduce((sum, r) => sum + r.cost + r.outputCost, 0);
    const tokens = ({ requests }: CostMeter) => requests.reduce((sum, r) => sum + r.tokens, 0);
    return { paid: cost(this.sent), raw: cost(this.raw), sentTokens: tokens(this.sent), rawTokens: tokens(this.raw) };
  }
}

function fail(): never {
  throw new Error("no request was metered");
}

function withoutRecoveries(messages: readonly AgentMessage[]): AgentMessage[] {
  return messages.filter((message) => {
    if (isToolResult(message)) return message.toolName !== QUERY_TOOL_NAME;
    return !(isAssistant(message) && message.content.some((b) => b.type === "toolCall" && b.name === QUERY_TOOL_NAME));
  });
}

function expectTrue(billed: BilledSession, within = 0.02): Bill {
  const bill = billed.bill();
  const truth = billed.truth();
  expect(bill.repliesCost).toBeCloseTo(truth.paid, 6);
  expect(bill.sentTokens).toBeCloseTo(truth.sentTokens, 0);
  expect(Math.abs(bill.rawCost - truth.raw) / truth.raw).toBeLessThan(within);
  expect(Math.abs(bill.rawTokens - truth.rawTokens) / truth.rawTokens).toBeLessThan(within);
  return bill;
}

describe("the bill agrees with what a raw session is charged", () => {
  test("and is that of a raw session while nothing is condensed", async () => {
    const billed = new BilledSession({ pruneOn: "on-demand" });
    for (const name of ["a", "b", "c"]) await billed.run(name, 5);
    const bill = expectTrue(billed, 1e-6);
    expect(bill.condensedRequests).toBe(0);
    expect(bill.rawCost).toBe(bill.repliesCost);
  });

  test.each(["agent-message", "every-turn", "cache-aware"] as const)("with %s, rewrites counted", async (pruneOn) => {
    const billed = new BilledSession({ pruneOn });
    for (const name of ["a", "b", "c", "d", "e", "f"]) await billed.run(name, 6);
    const bill = expectTrue(billed);
    expect(bill.condensedRequests).toBeGreaterThan(5);
    expect(bill.rewrites.cost).toBeGreaterThan(0);
  });

  test("after pauses that leave the cache cold", async () => {
    const billed = new BilledSession({ pruneOn: "agent-message" });
    for (const name of ["a", "b", "c", "d"]) {
      await billed.run(name, 5);
      billed.user("later", 20 * 60_000);
      await billed.close();
    }
    expectTrue(billed);
  });

  test("with chains and arguments that are condensed", async () => {
    const billed = new BilledSession({
      pruneOn: "agent-message",
      condenseArgs: { enabled: true, minStringChars: 500 },
      chainCompression: { enabled: true, rollingWindow: 1, batchSize: 0 },
    });
    for (const name of ["a", "b", "c", "d", "e"]) {
      billed.user(`work on ${name}`);
      await billed.turn(`${name}r`, 15_000);
      await billed.turn(`${name}w`, 1_000, "write", { path: `${name}.ts`, content: `text of ${name}\n`.repeat(500) });
      await billed.close();
    }
    expectTrue(billed);
  });

  test("with output in a script that is not Latin", async () => {
    const billed = new BilledSession({ pruneOn: "agent-message" });
    for (const name of ["日本", "русский", "中文"]) await billed.run(name, 5);
    expectTrue(billed);
  });

  test("with output that is asked back", async () => {
    const billed = new BilledSession({ pruneOn: "agent-message" });
    for (const name of ["a", "b"]) await billed.run(name, 5);
    billed.user();
    await billed.turn("q1", 12_000, QUERY_TOOL_NAME, { toolCallIds: ["t1"] });
    await billed.turn("c0", 4_000);
    await billed.close();
    const bill = expectTrue(billed);
    expect(bill.recoveries.count).toBe(1);
    expect(bill.recoveries.cost).toBeGreaterThan(0);
  });
});

test("a file that is read again since it was condensed is a recovery; one that was not condensed is none", async () => {
  const turns = async (pruneOn: "agent-message" | "on-demand") => {
    const billed = new BilledSession({ pruneOn, dedupByContentHash: false });
    await billed.run("a", 4);
    billed.user();
    const { requests, recoveries, rawTokens } = billed.bill();
    await billed.turn("a0", 12_000);
    await billed.close();
    const after = billed.bill();
    expect(after.requests).toBe(requests + 2);
    return { count: after.recoveries.count - recoveries.count, rawTokens: after.rawTokens - rawTokens, after };
  };
  const condensed = await turns("agent-message");
  expect(condensed.count).toBe(1);
  expect(condensed.after.recoveries.cost).toBeGreaterThan(0);
  // Read twice before anything was condensed, which every-turn does right behind.
  const twice = new BilledSession({ pruneOn: "every-turn", dedupByContentHash: false });
  twice.user();
  await twice.turn("b0", 12_000);
  await twice.turn("b0", 12_000);
  await twice.turn("b1", 12_000);
  await twice.close();
  expect(twice.bill().recoveries.count).toBe(0);
  const raw = await turns("on-demand");
  expect(raw.count).toBe(0);
  // One of the two requests is left out, and the text that it got.
  expect(condensed.rawTokens).toBeLessThan(raw.rawTokens * 0.6);
});

describe("while the pruner is off", () => {
  test("requests save nothing, however much is condensed", async () => {
    const billed = new BilledSession({ pruneOn: "agent-message" });
    for (const name of ["a", "b"]) await billed.run(name, 6);
    await runCommand(billed.session.pruner, billed.session.host, "off");
    const before = billed.bill();
    for (const name of ["c", "d", "e"]) await billed.run(name, 6);
    const off = billed.bill();
    expect(off.condensedRequests).toBe(before.condensedRequests);
    expect(off.rawTokens - before.rawTokens).toBeCloseTo(off.sentTokens - before.sentTokens, 0);
    await runCommand(billed.session.pruner, billed.session.host, "on");
    for (const name of ["f", "g"]) await billed.run(name, 6);
    expectTrue(billed, 0.03);
  });
});

test("the figures are the same whether they are followed or reckoned at the end, other branches included", async () => {
  const billed = new BilledSession({ pruneOn: "agent-message" });
  const { tree, pruner } = billed.session;
  const follower = new Reckoner({
    reader: tree,
    config: () => pruner.settings,
    costOfModel: () => RATES,
    windowOf: () => undefined,
  });
  await billed.run("a", 4);
  const turning = tree.getLeafId();
  await billed.run("b", 4);
  follower.follow(tree.getEntries());
  tree.moveTo(turning);
  pruner.treeMoved();
  await billed.run("c", 4);
  expect(follower.follow(tree.getEntries())).toEqual(billed.bill());
  expectTrue(billed, 0.05);
});

test("totals are in tokens where nothing has a price, summaries among them", () => {
  const summaries = { count: 1, tokens: 30, cost: 0 };
  expect(totalsOf({ ...emptyBill(), sentTokens: 100, rawTokens: 200, summaries })).toEqual({
    unit: "tokens",
    paid: 130,
    raw: 200,
  });
  expect(totalsOf({ ...emptyBill(), repliesCost: 1, rawCost: 3, summaries: { ...summaries, cost: 0.5 } })).toEqual({
    unit: "USD",
    paid: 1.5,
    raw: 3,
  });
});
