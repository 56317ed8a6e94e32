/** The invariants of the design, over generated sessions. */
import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import fc from "fast-check";
import type { FlushDecision } from "../src/cost/prices.ts";
import { pruneMessages } from "../src/pruner.ts";
import { sessionArbitrary } from "./support/generate.ts";
import {
  checkArgumentsRecoverable,
  checkDroppedRecoverable,
  checkNothingGrows,
  checkPrefixStable,
  checkRecoverable,
  checkUnseenRaw,
  checkValid,
} from "./support/invariants.ts";
import { PROPERTY_RUNS, PROPERTY_TIMEOUT } from "./support/property-runs.ts";
import { agentDirWith, type RenderedRequest, type Settings, SimulatedSession } from "./support/simulated-session.ts";
import { usageOf } from "./support/walk-host.ts";
import { type ModelName, walkModel } from "./support/walk-models.ts";

/** A flush after each closing reply, whatever it costs. */
const CLOSING = { summarizerModel: "none", minBatchChars: 0, pruneOn: "agent-message" } as const;

const CACHE_AWARE = { summarizerModel: "none", minBatchChars: 0, pruneOn: "cache-aware" } as const;

interface Variant {
  name: string;
  settings: Settings;
  lag?: boolean;
  /** Gives the session prices and a window. */
  model?: ModelName;
  /** Decisions that its sessions must come to. */
  decisions?: FlushDecision["reason"][];
}

const VARIANTS: Variant[] = [
  { name: "agent-message", settings: { ...CLOSING, minBatchChars: 200 } },
  {
    name: "cache-aware",
    settings: CACHE_AWARE,
    model: "cheap reads, dear writes",
    decisions: ["pays", "does-not-pay"],
  },
  {
    name: "cache-aware, in a small window",
    settings: CACHE_AWARE,
    model: "a small window",
    decisions: ["window-pressure"],
  },
  { name: "every-turn", settings: { summarizerModel: "none", minBatchChars: 0, pruneOn: "every-turn" } },
  {
    name: "one batch a run",
    settings: { ...CLOSING, batchingMode: "agent-message" },
  },
  {
    name: "chains",
    settings: {
      summarizerModel: "none",
      minBatchChars: 200,
      pruneOn: "agent-message",
      chainCompression: { rollingWindow: 0, batchSize: 0 },
      protectedTools: ["todoread"],
      protectedPaths: ["**/skills/**/*.md"],
    },
  },
  {
    name: "chains behind a window",
    settings: { ...CLOSING, chainCompression: { rollingWindow: 1, batchSize: 1 } },
  },
  {
    name: "every kind of condensing at its strongest",
    settings: {
      summarizerModel: "none",
      minBatchChars: 0,
      pruneOn: "every-turn",
      condenseArgs: { minStringChars: 100 },
      purgeErrors: { cooldownTurns: 0, minArgChars: 100 },
      recoveryGraceTurns: 0,
      protectTags: true,
      chainCompression: { rollingWindow: 1, batchSize: 0 },
    },
  },
  {
    name: "recent turns protected",
    settings: { ...CLOSING, turnProtection: { enabled: true, turns: 2 } },
  },
  { name: "a branch that lags behind", settings: { ...CLOSING, minBatchChars: 200 }, lag: true },
];

/** What a small window is told of, and nothing else. */
const OF_THE_WINDOW = /^pruner: the context is larger than the model's window/;

/** Gives the session a model and, as the hosts do, its window and what is used of it. */
function speakBy(session: SimulatedSession, name: ModelName | undefined): void {
  const model = name && walkModel(name);
  if (!model) return;
  session.host = { ...session.host, model, usage: () => usageOf(session.messages(), model.contextWindow, false) };
}

/** Plays a generated conversation and gives the session and its requests. */
async function play(messages: AgentMessage[], agentDir: string, { lag, model }: Variant) {
  const session = new SimulatedSession(agentDir, undefined, lag);
  speakBy(session, model);
  const requests = await session.play(messages);
  return { session, requests };
}

function sentOf(requests: readonly RenderedRequest[]): string {
  return JSON.stringify(requests.at(-1)?.sent);
}

for (const variant of VARIANTS) {
  describe(`invariants: ${variant.name}`, () => {
    const agentDir = agentDirWith(variant.settings);

    test(
      "hold at every request of a generated session",
      async () => {
        let condensed = 0;
        const reasons = new Set<string>();
        await fc.assert(
          fc.asyncProperty(sessionArbitrary(), async (messages) => {
            const { session, requests } = await play(messages, agentDir, variant);
            expect(session.notices.filter((notice) => !OF_THE_WINDOW.test(notice))).toEqual([]);
            session.catchUp();
            const state = session.state();
            condensed += state.indexer.refs().length;
            const { decision } = session.pruner.status(session.host) ?? {};
            if (decision) reasons.add(decision.reason);
            for (const request of requests) {
              expect(checkValid(request)).toEqual([]);
              expect(checkUnseenRaw(request)).toEqual([]);
              expect(checkNothingGrows(request)).toEqual([]);
              expect(checkRecoverable(request, state)).toEqual([]);
              expect(checkDroppedRecoverable(request, state)).toEqual([]);
              expect(checkArgumentsRecoverable(request, state)).toEqual([]);
            }
            expect(checkPrefixStable(requests)).toEqual([]);
            // What is remembered of earlier renders changes nothing: the last one comes out the same from scratch.
            const last = requests.at(-1);
            const plan = state.plan(session.pruner.settings);
            expect(JSON.stringify(last && pruneMessages(last.raw, plan))).toBe(sentOf(requests));

            const again = session.restart();
            speakBy(again, variant.model);
            const renderAgain = pruneMessages(last?.raw ?? [], again.state().plan(session.pruner.settings));
            expect(JSON.stringify(last && renderAgain)).toBe(sentOf(requests));
            const request = await again.request();
            // A session that is taken up finds its cache cold, which begins an epoch where costs decide.
            const isCold = variant.settings.pruneOn === "cache-aware";
            if (!isCold) expect(JSON.stringify(request.sent)).toBe(sentOf(requests));
            expect(checkRecoverable(request, again.state())).toEqual([]);
          }),
        );
        expect(condensed).toBeGreaterThan(PROPERTY_RUNS / 10);
        expect([...reasons]).toEqual(expect.arrayContaining(variant.decisions ?? []));
      },
      PROPERTY_TIMEOUT,
    );
  });
}
