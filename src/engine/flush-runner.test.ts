import { expect, test } from "bun:test";
import { agentDirWith, EntryTree, SimulatedSession } from "../../test/support/simulated-session.ts";
import { WalkModels, walkModel } from "../../test/support/walk-models.ts";
import { CUSTOM_TYPE_CHAIN, CUSTOM_TYPE_SUMMARY } from "../types.ts";

const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: COST };
const FROM = { api: "a", provider: "p", model: "m", usage: USAGE };

/** Flushes an interrupted chain that has been answered, and moves the leaf to before the answer in between. */
async function flush(moves: boolean): Promise<string[]> {
  const models = new WalkModels(true);
  const chainCompression = { rollingWindow: 0, batchSize: 0 };
  const agentDir = agentDirWith({ summarizerModel: "default", chainCompression, pruneOn: "on-demand" });
  const tree = new EntryTree();
  const model = walkModel("no discount");
  const session = new SimulatedSession(agentDir, tree, false, { model, models: models.registry });
  const call = { type: "toolCall" as const, id: "c1", name: "read", arguments: { path: "a.ts" } };
  const content = [{ type: "text" as const, text: "x".repeat(3_000) }];
  session.add({ role: "user", content: "look", timestamp: 1 });
  session.add({ role: "assistant", content: [call], ...FROM, stopReason: "toolUse", timestamp: 2 });
  session.add({ role: "toolResult", toolCallId: "c1", toolName: "read", content, isError: false, timestamp: 3 });
  session.add({ role: "user", content: "no, wait", timestamp: 4 });
  const steer = tree.getLeafId();
  session.add({
    role: "assistant",
    content: [{ type: "text", text: "Yes." }],
    ...FROM,
    stopReason: "stop",
    timestamp: 5,
  });
  session.add({ role: "user", content: "go on", timestamp: 6 });
  const done = session.pruner.flushNow(session.host, { compactAll: true });
  while (models.unanswered === 0) await new Promise((resolve) => void setImmediate(resolve));
  if (moves) {
    tree.moveTo(steer);
    session.pruner.treeMoved();
  }
  models.answer(1, "sections");
  await done;
  return tree.branch().flatMap((entry) => (entry.type === "custom" ? [entry.customType] : []));
}

test("a flush takes nothing that has lost its answer by a move meanwhile", async () => {
  expect(await flush(false)).toEqual(expect.arrayContaining([CUSTOM_TYPE_SUMMARY, CUSTOM_TYPE_CHAIN]));
  const moved = await flush(true);
  expect(moved).not.toContain(CUSTOM_TYPE_SUMMARY);
  expect(moved).not.toContain(CUSTOM_TYPE_CHAIN);
});
