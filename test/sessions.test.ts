/**
 * Whole sessions at random: turns, moves in the tree, forks, compactions, restarts and crashes within a flush, other
 * settings, both hosts' messages. Every invariant is checked after each step.
 *
 * `PROPERTY_RUNS=1000` makes as many cases of each kind as CI does, `npm run nightly` 10,000.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { sessionArbitrary } from "./support/generate.js";
import { walk, walkArbitrary } from "./support/session-walk.js";
import type { Settings } from "./support/simulated-session.js";

const RUNS = Number(process.env.PROPERTY_RUNS ?? 200);
const TIMEOUT = 60 * 60_000;

const CHAINS = { rollingWindow: 0, batchSize: 0 };
const SETTINGS: readonly Settings[] = [
  { summarizerModel: "none", minBatchChars: 200 },
  { summarizerModel: "none", minBatchChars: 0, pruneOn: "every-turn" },
  { summarizerModel: "none", minBatchChars: 200, chainCompression: CHAINS, protectedTools: ["edit"] },
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
];

describe("whole sessions", () => {
  test(
    "keep every invariant after each step",
    async () => {
      let condensed = 0;
      const walks = walkArbitrary(sessionArbitrary({ maxPrompts: 8, maxOutputChars: 4_000 }), SETTINGS);
      await fc.assert(
        fc.asyncProperty(walks, async (plan) => {
          condensed += await walk(plan);
        }),
        { numRuns: RUNS },
      );
      expect(condensed).toBeGreaterThan(RUNS / 2);
    },
    TIMEOUT,
  );
});
