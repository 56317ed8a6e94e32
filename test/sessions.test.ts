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
import { HOSTS } from "./support/host-paths.js";
import { libraryOf, modelOf, payloadOf, spokenBy } from "./support/payloads.js";
import { checkPayload, PROTOCOLS } from "./support/protocols.js";
import { type Walk, walk, walkArbitrary } from "./support/session-walk.js";
import type { RenderedRequest, Settings } from "./support/simulated-session.js";

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

describe.each(HOSTS)("whole sessions, as the %s host sends them", (host) => {
  test.each(PROTOCOLS)(
    "by %s, have no fault that the raw session has not",
    async (api) => {
      const library = await libraryOf(host);
      const conversation = sessionArbitrary({ maxPrompts: 5, maxOutputChars: 2_000, reusedIds: false });
      const walks = walkArbitrary(
        conversation.map((messages) => spokenBy(api, messages)),
        SETTINGS,
        6,
      );
      let looked = 0;
      await fc.assert(
        fc.asyncProperty(walks, async (plan) => {
          const requests: RenderedRequest[] = [];
          await walk({ ...plan, shapes: host }, { onRequest: (request) => requests.push(request) });
          // No host sends what ends in a reply.
          const sendable = requests.filter(({ raw }) => raw.length > 0 && raw.at(-1)?.role !== "assistant");
          for (const { raw, sent } of sendable.slice(-2)) {
            const before = checkPayload(api, await payloadOf(library, modelOf(api), raw));
            const after = checkPayload(api, await payloadOf(library, modelOf(api), sent));
            if (before.length === 0) expect(after).toEqual([]);
            else expect(after.length).toBeLessThanOrEqual(before.length);
            looked += 1;
          }
        }),
        { numRuns: Math.ceil(RUNS / 20) },
      );
      expect(looked).toBeGreaterThan(0);
    },
    TIMEOUT,
  );
});
