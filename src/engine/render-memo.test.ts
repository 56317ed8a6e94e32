import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import fc from "fast-check";
import { sessionArbitrary } from "../../test/support/generate.ts";
import { PROPERTY_RUNS, PROPERTY_TIMEOUT } from "../../test/support/property-runs.ts";
import { agentDirWith, type Settings, SimulatedSession } from "../../test/support/simulated-session.ts";
import { pruneMessages } from "../pruner.ts";
import { isAssistant, isToolResult } from "../transcript/messages.ts";
import { RenderMemo } from "./render-memo.ts";

const SETTINGS: Record<string, Settings> = {
  "a flush after each turn": { pruneOn: "every-turn", chainCompression: { rollingWindow: 1, batchSize: 0 } },
  "a flush after each run": { pruneOn: "agent-message", recoveryGraceTurns: 0, purgeErrors: { cooldownTurns: 0 } },
};

/** Plays the session, and beside it asks a memo of its own for each request. */
async function differences(messages: readonly AgentMessage[], agentDir: string): Promise<string[]> {
  const session = new SimulatedSession(agentDir);
  const memo = new RenderMemo();
  const found: string[] = [];
  await session.play(messages, ({ raw }) => {
    const plan = session.state().plan(session.pruner.settings);
    const list = structuredClone(raw);
    const whole = JSON.stringify(pruneMessages(list, plan));
    if (JSON.stringify(memo.render(list, plan)) !== whole) found.push(whole);
  });
  return found;
}

/** The session with one id for all its calls. */
function withOneId(messages: readonly AgentMessage[]): AgentMessage[] {
  return messages.map((message) => {
    if (isToolResult(message)) return { ...message, toolCallId: "" };
    if (!isAssistant(message)) return message;
    return { ...message, content: message.content.map((b) => (b.type === "toolCall" ? { ...b, id: "" } : b)) };
  });
}

describe("what is remembered renders as the whole does", () => {
  for (const [name, settings] of Object.entries(SETTINGS)) {
    const agentDir = agentDirWith({ summarizerModel: "none", minBatchChars: 0, ...settings });
    test(
      name,
      async () => {
        const property = fc.asyncProperty(sessionArbitrary(), async (messages) => {
          expect(await differences(messages, agentDir)).toEqual([]);
        });
        await fc.assert(property, { numRuns: PROPERTY_RUNS });
      },
      PROPERTY_TIMEOUT,
    );

    test(
      `${name}, on a clock that stands still now and then`,
      async () => {
        const property = fc.asyncProperty(
          sessionArbitrary(),
          fc.integer({ min: 1_000, max: 100_000 }),
          fc.boolean(),
          async (messages, step, hasOneId) => {
            const slow = (hasOneId ? withOneId(messages) : messages).map((message) => ({
              ...message,
              timestamp: Math.floor(message.timestamp / step),
            }));
            expect(await differences(slow as AgentMessage[], agentDir)).toEqual([]);
          },
        );
        await fc.assert(property, { numRuns: PROPERTY_RUNS });
      },
      PROPERTY_TIMEOUT,
    );
  }
});
