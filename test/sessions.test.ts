/**
 * Whole sessions at random: turns, moves in the tree, forks, compactions, restarts and crashes within a flush, other
 * settings, both hosts' messages. Every invariant is checked after each step.
 *
 * `PROPERTY_RUNS=1000` makes as many cases of each kind as CI does, `npm run nightly` 10,000.
 */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { sessionArbitrary } from "./support/generate.js";
import { type Walk, walk, walkArbitrary } from "./support/session-walk.js";
import type { Settings } from "./support/simulated-session.js";

const RUNS = Number(process.env.PROPERTY_RUNS ?? 120);
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
          const sessionDir = mkdtempSync(join(tmpdir(), "pi-condense-walk-"));
          try {
            condensed += await walk(plan, { sessionDir });
          } finally {
            rmSync(sessionDir, { recursive: true });
          }
        }),
        { numRuns: Math.ceil(RUNS / 4) },
      );
      expect(condensed).toBeGreaterThan(RUNS / 8);
    },
    TIMEOUT,
  );
});
