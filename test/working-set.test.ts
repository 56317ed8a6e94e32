/** The working set at work: what the requests of both hosts hold, and what a session with the shipped settings costs. */
import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { PRICE_PROFILES } from "../src/cost/prices.ts";
import { reportsOf } from "../src/replay/figures.ts";
import { replaySession } from "../src/replay/replay.ts";
import { configWith } from "../src/replay/settings.ts";
import { HOSTS, openSession, PRODUCT_ENTRY, type Reply } from "./support/hosts.ts";

const LINES = Array.from({ length: 200 }, (_, i) => `export const value${i} = compute(${i}); // of the file\n`).join(
  "",
);

/** A reading of each file, an edit of the first, and other work. */
const REPLIES: Reply[] = [
  { calls: [{ name: "read", arguments: { path: "edited.ts" } }] },
  { calls: [{ name: "read", arguments: { path: "other.ts" } }] },
  {
    calls: [
      { name: "edit", arguments: { path: "edited.ts", edits: [{ oldText: "compute(7);", newText: "compute(8);" }] } },
    ],
  },
  ...Array.from({ length: 6 }, (): Reply => ({ calls: [{ name: "bash", arguments: { command: "true" } }] })),
  { text: "Done." },
];

describe.each(HOSTS)("on the %s host", (host) => {
  const settings = { pruneOn: "every-turn", summarizerModel: "none" };

  async function sent(workingSet: number | null): Promise<string> {
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      settings: { contextPrune: { ...settings, workingSet } },
      files: { "edited.ts": LINES, "other.ts": LINES.replaceAll("value", "other") },
      replies: REPLIES,
    });
    try {
      await session.prompt("go");
      return JSON.stringify(session.requests.at(-1)?.messages);
    } finally {
      await session.close();
    }
  }

  test("a file that is being edited stays in the request, one that was only read does not", async () => {
    const request = await sent(24);
    expect(request).toContain("value150");
    expect(request).not.toContain("other150");
  });

  test("off condenses both", async () => {
    const request = await sent(null);
    expect(request).not.toContain("value150");
    expect(request).not.toContain("other150");
  });
});

test("a first session of 30 calls is condensed with the shipped settings, and costs at most 0.75 of raw", async () => {
  const usage = (tokens: number) => {
    const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
    return { input: tokens, output: 100, cacheRead: 0, cacheWrite: 0, totalTokens: tokens + 100, cost };
  };
  const messages: AgentMessage[] = [{ role: "user", content: "Look into it.", timestamp: 1_000 }];
  const source = { api: "anthropic-messages", provider: "anthropic", model: "m" };
  for (let i = 0; i < 30; i++) {
    const at = 2_000 + i * 20_000;
    const call = { type: "toolCall" as const, id: `c${i}`, name: "read", arguments: { path: `src/file${i}.ts` } };
    messages.push({
      role: "assistant",
      content: [call],
      ...source,
      usage: usage(5_000 + i * 1_900),
      stopReason: "toolUse",
      timestamp: at,
    });
    const text = Array.from({ length: 120 }, (_, k) => `export const f${i}x${k} = build(${k}, "${i}"); // row`).join(
      "\n",
    );
    messages.push({
      role: "toolResult",
      toolCallId: `c${i}`,
      toolName: "read",
      content: [{ type: "text", text }],
      isError: false,
      timestamp: at + 500,
    });
  }
  const done = [{ type: "text" as const, text: "Done." }];
  messages.push({
    role: "assistant",
    content: done,
    ...source,
    usage: usage(62_000),
    stopReason: "stop",
    timestamp: 700_000,
  });
  const entries = messages.map(
    (message, i): SessionEntry => ({
      type: "message",
      id: `e${i}`,
      parentId: i === 0 ? null : `e${i - 1}`,
      timestamp: new Date(message.timestamp).toISOString(),
      message,
    }),
  );
  const profile = PRICE_PROFILES.get("anthropic-5m");
  const assumptions = { summaryRatio: 0.08, inputPrice: 3, ...(profile ? { profile } : {}) };
  const replay = await replaySession(
    { cwd: "/work", entries },
    [{ name: "shipped", config: configWith([]) }],
    assumptions,
  );
  const [report] = reportsOf(replay, assumptions);
  expect(report?.pruned.flushes).toBeGreaterThan(0);
  expect(report?.ratio).toBeLessThanOrEqual(0.75);
});
