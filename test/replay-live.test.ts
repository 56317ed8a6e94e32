/** A replay and the host run one engine: the same conversation is flushed at the same requests, and sends the same text. */
import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { DEFAULT_PROFILE } from "../src/cost/prices.ts";
import { CostMeter } from "../src/replay/costs.ts";
import { play } from "../src/replay/player.ts";
import { recordingOf } from "../src/replay/recording.ts";
import { parseSession } from "../src/replay/session-file.ts";
import { configWith } from "../src/replay/settings.ts";
import { digestStandIn } from "../src/replay/stand-in.ts";
import { createFolders, HOSTS, type PiRun, runPi } from "./support/print-mode.ts";

const PRUNE_ON = ["every-turn", "agent-message", "cache-aware"] as const;

const FILES = {
  "a.ts": lines("export const a", 400),
  "b.ts": lines("export const b", 300),
  "c.md": lines("A sentence about", 500),
};

/** Two runs that read, an edit that fails and one that succeeds, and a run that asks for no tool. */
const PROMPTS = ["look at a and b", "change a", "read the notes", "thank you", "and now?"];
const REPLIES = [
  { calls: [call("r1", "read", { path: "a.ts" }), call("r2", "read", { path: "b.ts" })] },
  { calls: [call("r3", "read", { path: "c.md", limit: 60 })] },
  { text: "They export constants." },
  { calls: [call("r4", "read", { path: "a.ts", limit: 80 })] },
  { calls: [call("e1", "edit", { path: "a.ts", edits: [{ oldText: "nowhere to be found", newText: "x" }] })] },
  {
    calls: [
      call("e2", "edit", { path: "a.ts", edits: [{ oldText: "export const a 3\n", newText: "const three = 3\n" }] }),
    ],
  },
  { text: "Changed." },
  { calls: [call("r5", "read", { path: "c.md" })] },
  { calls: [call("r6", "read", { path: "b.ts", offset: 20, limit: 100 })] },
  { text: "Read." },
  { text: "You are welcome." },
  { text: "Nothing." },
];

function lines(word: string, count: number): string {
  return Array.from({ length: count }, (_, i) => `${word} ${i}\n`).join("");
}

function call(id: string, name: string, args: Record<string, unknown>) {
  return { id, name, arguments: args };
}

/** What a provider is told of a conversation, apart from how it is written down. */
function told(messages: readonly { role: string; content?: unknown }[]): string[] {
  return messages.map(({ role, content }) => {
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    return JSON.stringify([role, blocks]);
  });
}

/** As shipped, but for `cache-aware`, which would condense nothing in so short a session. */
function workingSetOf(pruneOn: string): number | null {
  return pruneOn === "cache-aware" ? null : configWith([]).workingSet;
}

async function replay(run: PiRun, pruneOn: string): Promise<string[][]> {
  const session = parseSession(run.entries.map((entry) => JSON.stringify(entry)).join("\n"), "session.jsonl");
  const given = configWith([
    { key: "summarizerModel", value: "none" },
    { key: "pruneOn", value: pruneOn },
  ]);
  const config = { ...given, workingSet: workingSetOf(pruneOn) };
  const requests: string[][] = [];
  const scale = { factor: 1, baseTokens: 0 };
  await play({
    recording: recordingOf(session),
    compactions: "recorded",
    meter: new CostMeter({ scaleOf: () => scale, cache: DEFAULT_PROFILE, costOfModel: () => DEFAULT_PROFILE.rates }),
    condensing: { config, standIn: digestStandIn(), summaryShare: 0.12, summarizerPrice: 0 },
    onRequest: (_index, messages: readonly AgentMessage[]) => void requests.push(told(messages)),
  });
  return requests;
}

describe.each(HOSTS)("on the %s host", (host) => {
  test.each(PRUNE_ON)("%s sends in a replay what it sent in print mode", async (pruneOn) => {
    const folders = createFolders(FILES);
    try {
      const run = await runPi(host, {
        folders,
        prompts: PROMPTS,
        settings: { contextPrune: { summarizerModel: "none", pruneOn, workingSet: workingSetOf(pruneOn) } },
        script: { replies: REPLIES },
      });
      const sent = run.requests.map(({ messages }) => told(messages));
      expect(sent).toHaveLength(REPLIES.length);
      expect(sent.flat().join("\n")).toContain("condensed: read");
      expect(await replay(run, pruneOn)).toEqual(sent);
    } finally {
      folders.remove();
    }
  });
});
