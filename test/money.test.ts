/** The sentence about money agrees with what the host has recorded, and with what the same session costs raw. */
import { afterAll, describe, expect, test } from "bun:test";
import { createFolders, HOSTS, type Host, type PiFolders, type PiRun, runPi } from "./support/print-mode.ts";
import type { ScriptedReply } from "./support/script.ts";

const TIMEOUT = 120_000;
/** USD per million tokens. */
const cost = { input: 300, output: 1_500, cacheRead: 30, cacheWrite: 375 };
const NAMES = ["a", "b", "c", "d", "e"];
const FILES = Object.fromEntries(
  NAMES.map((name) => [
    `${name}.ts`,
    Array.from({ length: 600 }, (_, i) => `const ${name}${i} = ${i} * 7;`).join("\n"),
  ]),
);
const PROMPTS = NAMES.map((name) => `look at ${name}`);
const REPLIES = NAMES.flatMap((name): ScriptedReply[] => [
  { calls: [{ name: "read", arguments: { path: `${name}.ts` }, id: `call_${name}` }] },
  { calls: [{ name: "bash", arguments: { command: `echo ${name}; seq 1 900` }, id: `seq_${name}` }] },
  { text: `${name} has 600 lines.` },
]);

const opened: PiFolders[] = [];
afterAll(() => {
  for (const folders of opened) folders.remove();
});

async function run(host: Host, contextPrune: Record<string, unknown>): Promise<PiRun> {
  const folders = createFolders(FILES);
  opened.push(folders);
  const models = [{ id: "main", contextWindow: 200_000, maxTokens: 4_000, reasoning: false, cost }];
  const result = await runPi(host, {
    folders,
    prompts: [...PROMPTS, "/pruner status"],
    script: { models, replies: REPLIES },
    settings: { contextPrune: { summarizerModel: "none", pruneOn: "agent-message", ...contextPrune } },
  });
  expect(result.code).toBe(0);
  return result;
}

/** What the host's footer adds up. */
function recordedCost({ entries }: PiRun): number {
  return entries.reduce((sum, entry) => {
    const isReply = entry.type === "message" && entry.message.role === "assistant";
    return isReply && "usage" in entry.message ? sum + (entry.message.usage?.cost.total ?? 0) : sum;
  }, 0);
}

describe.each(HOSTS)("on the %s host", (host) => {
  test(
    "status tells what was recorded, and about what the session costs with the pruner off",
    async () => {
      const condensed = await run(host, {});
      const raw = await run(host, { enabled: false });
      const said = /^This session: \$(\d+\.\d\d) instead of about \$(\d+\.\d\d) \(-(\d+)%\)\.$/m.exec(condensed.stderr);
      expect(said).not.toBeNull();
      const [, paid = "", instead = "", percent = ""] = said ?? [];
      expect(paid).toBe(recordedCost(condensed).toFixed(2));
      expect(Math.abs(Number(instead) - recordedCost(raw)) / recordedCost(raw)).toBeLessThan(0.05);
      expect(Number(percent)).toBe(Math.round((1 - Number(paid) / Number(instead)) * 100));
      expect(condensed.stderr).toMatch(
        /requests went out condensed\. Part of the cost: \d rewrites? of the prompt cache/,
      );
      expect(raw.stderr).toContain(`This session: $${recordedCost(raw).toFixed(2)}, the same as without condensing`);
    },
    TIMEOUT,
  );
});
