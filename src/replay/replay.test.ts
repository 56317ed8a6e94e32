import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { workload } from "../../bench/workloads.ts";
import { PRICE_PROFILES } from "../cost/prices.ts";
import { reportsOf } from "./figures.ts";
import { type Assumptions, replaySession } from "./replay.ts";
import { configWith, parseAssignments } from "./settings.ts";

const TOKENS_1000 = "word ".repeat(740);

/** A reply that says what its request has used, at 2 USD for a million input tokens. */
function reply(timestamp: number, input: number, cacheRead: number, text = "done"): AgentMessage {
  const counts = { input, output: 10, cacheRead, cacheWrite: 0, totalTokens: input + cacheRead + 10 };
  const cost = { input: input * 2e-6, output: 80e-6, cacheRead: cacheRead * 0.2e-6, cacheWrite: 0, total: 0 };
  const from = { api: "openai-completions" as const, provider: "p", model: "m" };
  const content = [{ type: "text" as const, text }];
  return { role: "assistant", content, ...from, usage: { ...counts, cost }, stopReason: "stop", timestamp };
}

function user(timestamp: number, content = TOKENS_1000): AgentMessage {
  return { role: "user", content, timestamp };
}

function session(messages: readonly AgentMessage[]) {
  const entries = messages.map((message, i): SessionEntry => {
    const timestamp = new Date(message.timestamp).toISOString();
    return { type: "message", id: `e${i}`, parentId: i === 0 ? null : `e${i - 1}`, timestamp, message };
  });
  return { id: "s1", cwd: "/repo", entries };
}

function variant(settings: string) {
  return { name: settings, config: configWith(parseAssignments(`summarizerModel=none,${settings}`)) };
}

const ASSUMPTIONS: Assumptions = { summaryRatio: 0.08, summarizerPrice: 0.2 };

async function report(settings: string, of = workload("short"), assumptions = ASSUMPTIONS) {
  const replay = await replaySession(of, [variant(settings)], assumptions);
  const [first] = reportsOf(replay, assumptions);
  if (!first) throw new Error("no report");
  return { replay, report: first };
}

describe("a replay", () => {
  test("prices the raw session as it was recorded", async () => {
    const recorded = session([user(0), reply(1_000, 3_000, 0), user(2_000), reply(3_000, 1_010, 3_000)]);
    const { report: figures } = await report("enabled=off", recorded);
    expect(figures.requests).toBe(2);
    expect(figures.calibration).toMatchObject({ recordedTokens: 7_010, errorPct: 0 });
    // 3,000 and 1,010 tokens at 2 USD and 3,000 at 0.2 USD a million
    expect(figures.raw.cost).toBeCloseTo(0.00862, 4);
    expect(figures.raw.readTokens).toBeCloseTo(3_000, -1);
    expect(figures.raw.writeTokens).toBeCloseTo(4_010, -1);
    expect(figures.settings.replay).toMatchObject({ currency: "USD", prices: "recorded", answersCost: 0.00016 });
  });

  test("with the extension off is the raw session", async () => {
    const { report: figures } = await report("enabled=off");
    expect(figures.ratio).toBe(1);
    expect(figures.pruned).toEqual({ ...figures.raw, summarizerCost: 0, flushes: 0 });
  });

  test("counts flushes, and charges the extension's tool to every prompt", async () => {
    const { report: figures } = await report("pruneOn=agent-message");
    expect(figures.pruned.flushes).toBe(3);
    const { report: idle } = await report("pruneOn=on-demand");
    expect(idle.pruned.flushes).toBe(0);
    expect(idle.pruned.meanTokens - idle.raw.meanTokens).toBe(350);
    expect(idle.pruned.peakTokens - figures.pruned.peakTokens).toBeGreaterThan(1_000);
  });

  test("says of each flush why it was made", async () => {
    const reasonsOf = async (settings: string) => {
      const { report: figures } = await report(settings, workload("idle gaps"));
      return new Set(figures.rows.map(({ flush }) => flush));
    };
    expect(await reasonsOf("pruneOn=cache-aware")).toEqual(new Set([null, "pays", "cold-cache"]));
    expect(await reasonsOf("pruneOn=agent-message")).toEqual(new Set([null, "agent-message"]));
  });

  test("pays for summaries that were made ahead of a flush that never came", async () => {
    // Without its last message, a reply, the session ends in the middle of a run.
    const { entries, ...rest } = workload("short");
    const cut = entries.slice(0, -1);
    const { report: whole } = await report("pruneOn=agent-message,summarizerModel=default,workingSet=off", {
      ...rest,
      entries,
    });
    const { report: broken } = await report("pruneOn=agent-message,summarizerModel=default,workingSet=off", {
      ...rest,
      entries: cut,
    });
    expect(broken.pruned.flushes).toBe(whole.pruned.flushes - 1);
    expect(broken.pruned.summarizerCost).toBeGreaterThan(whole.pruned.summarizerCost * 0.8);
  });

  test("pays for summaries, and not for digests", async () => {
    const { report: digests } = await report("pruneOn=every-turn");
    const { report: summaries } = await report("pruneOn=every-turn,summarizerModel=default");
    expect(digests.pruned.summarizerCost).toBe(0);
    expect(summaries.pruned.summarizerCost).toBeGreaterThan(0);
    expect(summaries.settings.replay).toMatchObject({ summaries: "ratio", summaryRatio: 0.08 });
  });

  test("finds the cache cold after a pause that outlasts it", async () => {
    const messages = (pause: number) => [user(0), reply(1_000, 0, 0), user(pause), reply(pause + 1_000, 0, 0)];
    const { report: warm } = await report("enabled=off", session(messages(200_000)));
    const { report: cold } = await report("enabled=off", session(messages(400_000)));
    expect(warm.raw.readTokens).toBeGreaterThan(3_000);
    expect(cold.raw.readTokens).toBe(0);
  });

  test("lets the host compact where the context outgrows the window", async () => {
    const assumptions: Assumptions = { ...ASSUMPTIONS, contextWindow: 40_000, rawCompactions: "simulated" };
    const { report: figures } = await report("pruneOn=every-turn", workload("interrupted"), assumptions);
    expect(figures.raw.compactions).toBeGreaterThan(3);
    expect(figures.pruned.compactions).toBeLessThan(figures.raw.compactions);
    expect(figures.raw.peakTokens).toBeLessThan(40_000);
  });

  test("reads a session that ran with the extension as the raw one it stands for", async () => {
    const plain = workload("short");
    const own: SessionEntry = {
      type: "custom",
      id: "own",
      parentId: plain.entries.at(-1)?.id ?? null,
      timestamp: new Date(0).toISOString(),
      customType: "context-prune-frontier",
      data: {},
    };
    const { report: figures } = await report("pruneOn=every-turn", { ...plain, entries: [...plain.entries, own] });
    const { report: expected } = await report("pruneOn=every-turn", plain);
    expect(figures).toEqual(expected);
  });

  test("follows the branch that leads to the last entry", async () => {
    const first = session([user(0), reply(1_000, 0, 0), user(2_000), reply(3_000, 0, 0)]);
    // The second question was asked anew from the first answer on.
    const again = session([user(4_000, "short")]).entries.map((entry) => ({ ...entry, id: "x", parentId: "e1" }));
    const last = session([reply(5_000, 0, 0)]).entries.map((entry) => ({ ...entry, id: "y", parentId: "x" }));
    const { report: figures } = await report("enabled=off", {
      ...first,
      entries: [...first.entries, ...again, ...last],
    });
    expect(figures.requests).toBe(2);
  });

  test("passes over replies that no provider has worked on", async () => {
    const broken = { ...reply(1_500, 0, 0), stopReason: "aborted" } as AgentMessage;
    const { report: figures } = await report(
      "enabled=off",
      session([user(0), broken, user(1_600), reply(2_000, 9, 0)]),
    );
    expect(figures.requests).toBe(1);
  });

  test.each(["anthropic-5m", "read-0.05", "read-0.025", "read-0.5"])(
    "condenses where that pays at the prices of %s",
    async (name) => {
      const assumptions: Assumptions = {
        ...ASSUMPTIONS,
        profile: PRICE_PROFILES.get(name),
        rawCompactions: "simulated",
      };
      const { report: figures } = await report("pruneOn=cache-aware", workload("idle gaps"), assumptions);
      expect(figures.ratio).toBeLessThan(0.35);
      expect(figures.pruned.compactions).toBe(0);
    },
  );

  test("tells how far it is", async () => {
    const told: number[] = [];
    await replaySession(workload("short"), [variant("pruneOn=every-turn")], ASSUMPTIONS, (share) => told.push(share));
    expect(told).toEqual(told.toSorted((a, b) => a - b));
    expect(told[0]).toBeLessThan(0.1);
    expect(told.at(-1)).toBe(1);
  });
});
