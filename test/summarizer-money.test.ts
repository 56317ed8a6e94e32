/** What summaries cost: every call counted once, failed ones too, whatever becomes of the session; told to whoever asks. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { CUSTOM_TYPE_FRONTIER, CUSTOM_TYPE_STATS, type StatsEntryData } from "../src/types.ts";
import { HOSTS, type HostSession, openSession, PRODUCT_ENTRY, type Reply, until } from "./support/hosts.ts";
import { recordingUi } from "./support/recording-ui.ts";
import type { ScriptedReply } from "./support/script.ts";
import type { Settings } from "./support/simulated-session.ts";

setDefaultTimeout(60_000);

const NAMES = ["a", "b", "c", "d", "e"];
const FILES = Object.fromEntries(
  NAMES.map((name) => [
    `${name}.ts`,
    Array.from({ length: 90 }, (_, i) => `const ${name}${i} = "${name}";`).join("\n"),
  ]),
);
/** USD per million tokens. */
const PRICES = { input: 1, output: 10, cacheRead: 0.1, cacheWrite: 1.25 };
const SUM = { id: "sum", contextWindow: 100_000, maxTokens: 4_000, reasoning: false, cost: PRICES };

const summary = (usage: Partial<typeof PRICES>, more: Partial<ScriptedReply> = {}): ScriptedReply => ({
  text: "[1] All the same.",
  usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, ...usage },
  ...more,
});

interface CostEvent {
  source: string;
  totalCost: number;
  inputTokens: number;
  outputTokens: number;
}

/** The figures of calls, as they have to add up. */
function totalsOf(usages: readonly Partial<typeof PRICES>[], failed: number): StatsEntryData {
  const sum = (kind: keyof typeof PRICES) => usages.reduce((total, usage) => total + (usage[kind] ?? 0), 0);
  const cost = (["input", "output", "cacheRead", "cacheWrite"] as const).reduce(
    (total, kind) => total + (sum(kind) * PRICES[kind]) / 1_000_000,
    0,
  );
  return {
    totalInputTokens: sum("input") + sum("cacheRead") + sum("cacheWrite"),
    totalOutputTokens: sum("output"),
    totalCost: expect.closeTo(cost, 9) as unknown as number,
    callCount: usages.length,
    failedCallCount: failed,
  };
}

describe.each(HOSTS)("on the %s host", (host) => {
  const open: HostSession[] = [];
  let notices: string[] = [];
  let events: CostEvent[] = [];
  afterEach(async () => {
    for (const session of open.splice(0).reverse()) await session.close();
    notices = [];
    events = [];
  });

  async function start(
    summaries: Reply[],
    more: Partial<Parameters<typeof openSession>[1]> = {},
    settings: Settings = {},
  ) {
    const session = await openSession(host, {
      ui: recordingUi(notices),
      extensionPaths: [PRODUCT_ENTRY],
      factories: [(pi) => void pi.events.on("cost:external", (event) => void events.push(event as CostEvent))],
      ...(more.folders ? {} : { files: FILES }),
      settings: { contextPrune: { summarizerModel: "scripted/sum", pruneOn: "agent-message", ...settings } },
      script: { models: [{ id: "main" }, SUM], repliesOf: { sum: summaries } },
      ...more,
    });
    open.push(session);
    return session;
  }

  const frontiers = (session: HostSession) =>
    session.branch().filter((entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER).length;

  /** A run that reads a file, and the flush behind it. */
  async function readOne(session: HostSession, name: string, fails = false): Promise<void> {
    const before = fails ? notices.length : frontiers(session);
    session.reply(
      { calls: [{ name: "read", arguments: { path: `${session.folders.cwd}/${name}.ts` } }] },
      { text: `Seen ${name}.` },
    );
    await session.prompt(`read ${name}`);
    await until(() => (fails ? notices.length : frontiers(session)) > before);
  }

  function lastStats(session: HostSession): StatsEntryData | undefined {
    const entry = session.sessionManager
      .getEntries()
      .findLast((candidate) => candidate.type === "custom" && candidate.customType === CUSTOM_TYPE_STATS);
    return entry?.type === "custom" ? (entry.data as StatsEntryData) : undefined;
  }

  /** The newer host's own entries for what extensions spend. */
  function usageEntries(session: HostSession): { kind: string; provider: string; model: string; cost: number }[] {
    type UsageShape = { kind: string; provider: string; model: string; usage: { cost: { total: number } } };
    return session.sessionManager
      .getEntries()
      .filter((entry: SessionEntry) => (entry.type as string) === "usage")
      .map((entry) => entry as unknown as UsageShape)
      .map(({ kind, provider, model, usage }) => ({ kind, provider, model, cost: usage.cost.total }));
  }

  const FIRST = { input: 1_000, output: 10 };
  const SECOND = { input: 2_000, output: 20, cacheRead: 300, cacheWrite: 50 };
  const THIRD = { input: 4_000, output: 40 };
  const FOURTH = { input: 8_000, output: 80 };

  test("every call is counted with its cost, failed ones too, and told on pi.events as it comes", async () => {
    const session = await start([summary(FIRST, { stopReason: "length" }), summary(SECOND), summary(THIRD)]);
    await readOne(session, "a", true);
    await readOne(session, "b");
    await until(() => events.length === 3);
    const all = totalsOf([FIRST, SECOND, THIRD], 1);
    expect(lastStats(session)).toEqual(all);

    expect(events.map(({ source }) => source)).toEqual(["pi-condense", "pi-condense", "pi-condense"]);
    for (const [i, event] of events.entries()) {
      const { totalCost, totalInputTokens, totalOutputTokens } = totalsOf([FIRST, SECOND, THIRD].slice(0, i + 1), 1);
      expect(event).toEqual({
        source: "pi-condense",
        totalCost,
        inputTokens: totalInputTokens,
        outputTokens: totalOutputTokens,
      });
    }

    const sent = usageEntries(session);
    if (host === "old") expect(sent).toEqual([]);
    else {
      expect(sent.map(({ kind, provider, model }) => [kind, provider, model])).toEqual(
        Array.from({ length: 3 }, () => ["pi-condense", "scripted", "sum"]),
      );
      expect(sent.reduce((sum, { cost }) => sum + cost, 0)).toBeCloseTo(events.at(-1)?.totalCost ?? 0, 9);
    }

    notices.length = 0;
    await session.prompt("/pruner stats");
    expect(notices).toEqual([
      expect.stringMatching(/^Summariser: 3 calls, 1 failed; 7,350 tokens in, 70 out; \$0\.0078, \$0\.0026 a call\./),
    ]);
    expect(session.errors).toEqual([]);
  });

  test("a call that is given up counts with what it had reported by then", async () => {
    const drip = summary({ input: 5_000 }, { text: "word ".repeat(1_000), dripMs: 50 });
    const session = await start([drip, summary(SECOND)], {}, { summarizerMaxTimeoutMs: 1_000 });
    const mute: ScriptedReply = { stopReason: "error", errorMessage: "overloaded", usage: { input: 0, output: 0 } };
    // The session's model is asked next, and is no help.
    session.reply({ calls: [{ name: "read", arguments: { path: "a.ts" } }] }, { text: "Seen." }, mute);
    await session.prompt("read a");
    await until(() => notices.length === 2);
    await session.prompt("/pruner stats");
    expect(notices[0]).toContain("no reply within 1 s");
    expect(notices.at(-1)).toMatch(/^Summariser: 2 calls, 2 failed; [1-9][\d,]* tokens in, /);
  });

  test("a restart goes on counting where the session was", async () => {
    const first = await start([summary(FIRST), summary(SECOND)]);
    await readOne(first, "a");
    await readOne(first, "b");
    const { folders, sessionFile } = first;
    expect(lastStats(first)).toEqual(totalsOf([FIRST, SECOND], 0));
    const second = await start([summary(THIRD)], { folders, sessionFile });
    await second.prompt("/pruner stats");
    expect(notices.at(-1)).toMatch(/^Summariser: 2 calls, none failed; 3,350 tokens in, 30 out; /);
    await readOne(second, "c");
    expect(lastStats(second)).toEqual(totalsOf([FIRST, SECOND, THIRD], 0));
    expect(events.at(-1)?.inputTokens).toBe(7_350);
  });

  test("a reload, a fork and the way back count nothing twice", async () => {
    const session = await start([summary(FIRST), summary(SECOND), summary(THIRD), summary(FOURTH)]);
    await readOne(session, "a");
    await session.session.reload();
    await readOne(session, "b");
    expect(lastStats(session)).toEqual(totalsOf([FIRST, SECOND], 0));

    const parent = session.sessionFile ?? "";
    await session.fork(session.branch().at(-1)?.id ?? "", "at");
    expect(session.sessionFile).not.toBe(parent);
    await readOne(session, "c");
    expect(lastStats(session)).toEqual(totalsOf([FIRST, SECOND, THIRD], 0));

    await session.switchSession(parent);
    expect(lastStats(session)).toEqual(totalsOf([FIRST, SECOND], 0));
    await readOne(session, "d");
    expect(lastStats(session)).toEqual(totalsOf([FIRST, SECOND, FOURTH], 0));
    expect(session.errors).toEqual([]);
  });

  test("another session begins at nothing", async () => {
    const session = await start([summary(FIRST), summary(SECOND)]);
    await readOne(session, "a");
    await session.newSession();
    await readOne(session, "b");
    expect(lastStats(session)).toEqual(totalsOf([SECOND], 0));
  });
});
