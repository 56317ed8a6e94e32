/** Results that a person keeps, drops and lets go again at any moment of generated sessions. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { pruneMessages } from "../src/pruner.ts";
import { isToolResult, resultKeysIn } from "../src/transcript/messages.ts";
import { sessionArbitrary } from "./support/generate.ts";
import {
  checkArgumentsRecoverable,
  checkDroppedRecoverable,
  checkNothingGrows,
  checkRecoverable,
  checkUnseenRaw,
  checkValid,
} from "./support/invariants.ts";
import { PROPERTY_RUNS, PROPERTY_TIMEOUT } from "./support/property-runs.ts";
import { agentDirWith, type RenderedRequest, type Settings, SimulatedSession } from "./support/simulated-session.ts";

const VARIANTS: Readonly<Record<string, Settings>> = {
  "every turn": { summarizerModel: "none", minBatchChars: 0, pruneOn: "every-turn" },
  "on demand": { summarizerModel: "none", pruneOn: "on-demand" },
  chains: {
    summarizerModel: "none",
    minBatchChars: 0,
    pruneOn: "agent-message",
    chainCompression: { rollingWindow: 0, batchSize: 0 },
    protectedTools: ["todoread"],
  },
};

/** What is done to a result before a request: which one, counted from the newest, and what. */
const acts = fc.array(
  fc.record({
    every: fc.integer({ min: 1, max: 4 }),
    back: fc.nat({ max: 5 }),
    choice: fc.constantFrom("keep" as const, "drop" as const, null),
  }),
  { maxLength: 4 },
);

function check(request: RenderedRequest, session: SimulatedSession): void {
  const state = session.state();
  expect(checkValid(request)).toEqual([]);
  expect(checkUnseenRaw(request)).toEqual([]);
  expect(checkNothingGrows(request)).toEqual([]);
  expect(checkRecoverable(request, state)).toEqual([]);
  expect(checkDroppedRecoverable(request, state)).toEqual([]);
  expect(checkArgumentsRecoverable(request, state)).toEqual([]);
  // What is kept stands word for word, in its place or in its chain.
  const keyOf = resultKeysIn(request.raw);
  const sent = JSON.stringify(request.sent);
  const { choices } = state.indexer.committed();
  for (const message of request.raw.filter(isToolResult)) {
    if (choices.get(keyOf(message)) !== "keep") continue;
    for (const block of message.content) {
      if (block.type === "text") expect(sent).toContain(JSON.stringify(block.text).slice(1, -1));
    }
  }
}

describe.each(Object.entries(VARIANTS))("choices: %s", (_name, settings) => {
  // Held results would leave the choices little to do, and a restart catches up with what has fallen due.
  const agentDir = agentDirWith({ workingSet: null, ...settings });

  test(
    "hold at every request, from scratch and after a restart, and no invariant breaks",
    async () => {
      let chosen = 0;
      await fc.assert(
        fc.asyncProperty(sessionArbitrary(), acts, async (messages, plan) => {
          const session = new SimulatedSession(agentDir);
          let count = 0;
          const act = () => {
            count += 1;
            for (const { back, choice } of plan.filter(({ every }) => count % every === 0)) {
              const keyOf = resultKeysIn(session.messages());
              const key = session
                .messages()
                .filter(isToolResult)
                .map(keyOf)
                .at(-1 - back);
              if (key !== undefined) chosen += session.pruner.chooseResult(key, choice).length;
            }
          };
          await session.play(messages, (request) => {
            check(request, session);
            act();
          });
          const last = await session.request();
          check(last, session);
          const render = pruneMessages(last.raw, session.state().plan(session.pruner.settings));
          expect(JSON.stringify(render)).toBe(JSON.stringify(last.sent));
          const again = session.restart();
          const request = await again.request();
          expect(JSON.stringify(request.sent)).toBe(JSON.stringify(last.sent));
          check(request, again);
        }),
      );
      expect(chosen).toBeGreaterThan(PROPERTY_RUNS / 10);
    },
    PROPERTY_TIMEOUT,
  );
});
