/**
 * Whole sessions at random: turns, moves in the tree, forks, compactions, ends and crashes within a flush, other settings
 * and models, both hosts' messages. Every invariant is checked after each step.
 */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { scratchFolder } from "./support/folders.ts";
import { sessionArbitrary } from "./support/generate.ts";
import { HOSTS } from "./support/host-paths.ts";
import { libraryOf, modelOf, payloadOf, spokenBy } from "./support/payloads.ts";
import { PROPERTY_RUNS, PROPERTY_TIMEOUT } from "./support/property-runs.ts";
import { checkPayload, newProblems, PROTOCOLS } from "./support/protocols.ts";
import { walk } from "./support/session-walk.ts";
import type { RenderedRequest, Settings } from "./support/simulated-session.ts";
import { STEP_KINDS, type Walk, walkArbitrary } from "./support/walk-plan.ts";

const CHAINS = { rollingWindow: 0, batchSize: 0 };
const SETTINGS: readonly Settings[] = [
  { summarizerModel: "none", minBatchChars: 200, pruneOn: "agent-message" },
  { summarizerModel: "none", minBatchChars: 0, pruneOn: "every-turn" },
  {
    summarizerModel: "none",
    minBatchChars: 200,
    pruneOn: "agent-message",
    chainCompression: CHAINS,
    protectedTools: ["edit"],
  },
  {
    summarizerModel: "none",
    minBatchChars: 0,
    pruneOn: "every-turn",
    condenseArgs: { minStringChars: 100 },
    purgeErrors: { cooldownTurns: 0, minArgChars: 100 },
    recoveryGraceTurns: 0,
    protectTags: true,
    chainCompression: { rollingWindow: 1, batchSize: 0 },
  },
  { summarizerModel: "default", minBatchChars: 200, pruneOn: "agent-message", chainCompression: CHAINS },
  { summarizerModel: "default", minBatchChars: 0, pruneOn: "every-turn", summarizerConcurrency: 1 },
];

/** Runs from which on walks have met everything, however they fall out. */
const ENOUGH_RUNS = 1_000;

/** What walks must meet among them. */
const SIGHTS: readonly string[] = [
  ...STEP_KINDS,
  ...["move", "fork", "compact", "reload", "kill", "crash", "settings", "flush", "answer", "play"].map(
    (kind) => `${kind} within a flush`,
  ),
  ...["nothing-to-clear", "window-pressure", "cold-cache", "pays", "does-not-pay"].map(
    (reason) => `decision: ${reason}`,
  ),
];

/** Walks that have found something, as they were when they had shrunk to it. */
describe("a walk that has once found a bug", () => {
  const folder = join(import.meta.dir, "fixtures");
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));

  test.each(files)("finds none: %s", async (name) => {
    const fixture: { found: string; walk: Walk } = JSON.parse(readFileSync(join(folder, name), "utf8"));
    await walk(fixture.walk);
  });
});

describe("whole sessions", () => {
  test(
    "keep every invariant after each step",
    async () => {
      let condensed = 0;
      const seen = new Set<string>();
      const walks = walkArbitrary(sessionArbitrary({ maxPrompts: 8, maxOutputChars: 4_000 }), SETTINGS);
      await fc.assert(
        fc.asyncProperty(walks, async (plan) => {
          condensed += await walk(plan, { onSight: (what) => void seen.add(what) });
        }),
      );
      expect(condensed).toBeGreaterThan(PROPERTY_RUNS / 2);
      if (PROPERTY_RUNS >= ENOUGH_RUNS) expect(SIGHTS.filter((sight) => !seen.has(sight))).toEqual([]);
    },
    PROPERTY_TIMEOUT,
  );

  test(
    "with spilled results keep every invariant after each step",
    async () => {
      let condensed = 0;
      const settings: Settings[] = SETTINGS.map((setting) => ({
        ...setting,
        spillThreshold: 4_096,
        spillPreviewBytes: 300,
      }));
      const walks = walkArbitrary(sessionArbitrary({ maxPrompts: 5, maxOutputChars: 12_000 }), settings);
      await fc.assert(
        fc.asyncProperty(walks, async (plan) => {
          const sessionDir = scratchFolder("session");
          try {
            condensed += await walk(plan, { sessionDir });
          } finally {
            rmSync(sessionDir, { recursive: true });
          }
        }),
      );
      expect(condensed).toBeGreaterThan(PROPERTY_RUNS / 2);
    },
    PROPERTY_TIMEOUT,
  );
});

describe("whole sessions, as both hosts send them", () => {
  test.each(PROTOCOLS)(
    "by %s, have no fault that the raw session has not",
    async (api) => {
      const libraries = await Promise.all(HOSTS.map(libraryOf));
      const conversation = sessionArbitrary({ maxPrompts: 5, maxOutputChars: 2_000, reusedIds: false });
      const walks = walkArbitrary(
        conversation.map((messages) => spokenBy(api, messages)),
        SETTINGS,
        5,
      );
      let looked = 0;
      await fc.assert(
        fc.asyncProperty(walks, async (plan) => {
          const requests: RenderedRequest[] = [];
          await walk(plan, { onRequest: (request) => requests.push(request) });
          // No host sends what ends in a reply.
          const sendable = requests.filter(({ raw }) => raw.length > 0 && raw.at(-1)?.role !== "assistant");
          for (const { raw, sent } of sendable.slice(-2)) {
            // Both hosts open each other's sessions, so each is given the messages of either.
            for (const library of libraries) {
              const after = checkPayload(api, await payloadOf(library, modelOf(api), sent));
              if (after.length === 0) continue;
              const before = checkPayload(api, await payloadOf(library, modelOf(api), raw));
              expect(newProblems(after, before)).toEqual([]);
            }
            looked += 1;
          }
        }),
      );
      expect(looked).toBeGreaterThan(0);
    },
    PROPERTY_TIMEOUT,
  );
});
