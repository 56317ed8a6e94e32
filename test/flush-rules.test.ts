/** What else decides on a flush: thinking that is bound, a cache that is still warm, and prices of zero, on the command line. */
import { afterAll, describe, expect, test } from "bun:test";
import { DEFAULT_CONFIG } from "../src/config.ts";
import { extractToolResultText, isToolResult } from "../src/transcript/messages.ts";
import {
  createFolders,
  HOSTS,
  type Host,
  type PiFolders,
  type PiRun,
  runPi,
  supportPath,
} from "./support/print-mode.ts";
import type { Script, ScriptedModel, ScriptedReply } from "./support/script.ts";

const TIMEOUT = 120_000;
const MINUTE = 60_000;
/** USD per million tokens. */
const PRICED = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 };
const FREE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

/** How the system prompt of a call for a summary begins. */
const SUMMARISER = "^You condense";
const LOOKS = 70;

const lines = (word: string, count: number) => `The ${word} jumps over the lazy dog.\n`.repeat(count);
const FILES = { "notes.md": lines("fox", 90), "kept.md": lines("cat", 1_200), "long.md": lines("hen", 1_200) };

const opened: PiFolders[] = [];
afterAll(() => {
  for (const folders of opened) folders.remove();
});

interface Course {
  prompts: string[];
  script: Script;
  contextPrune: Record<string, unknown>;
  files?: Record<string, string>;
  extensions?: string[];
  env?: Record<string, string>;
}

async function run(host: Host, { contextPrune, files = FILES, ...course }: Course): Promise<PiRun> {
  const folders = createFolders(files);
  opened.push(folders);
  const result = await runPi(host, { folders, settings: { contextPrune }, ...course });
  expect({ code: result.code, stderr: result.stderr }).toEqual({ code: 0, stderr: "" });
  return result;
}

/** For each request, which of its results are condensed. */
function condensedIn({ requests }: PiRun): boolean[][] {
  return requests.map(({ messages }) =>
    messages.filter(isToolResult).map((message) => extractToolResultText(message).startsWith("[t")),
  );
}

const model = (changes: Partial<ScriptedModel> = {}): ScriptedModel => ({ id: "main", cost: PRICED, ...changes });
const read = (path: string) => ({ name: "read", arguments: { path } });
const think = (reply: ScriptedReply): ScriptedReply => ({ thinking: "Hm.", thinkingSignature: "c2ln", ...reply });

describe.each(HOSTS)("on the %s host", (host) => {
  describe("thinking that is bound to what precedes it", () => {
    const replies = [
      think({ calls: [read("notes.md")] }),
      think({ calls: [read("kept.md")] }),
      think({ calls: [read("long.md")] }),
      think({ text: "Done." }),
      think({ text: "Yes." }),
    ];
    const course = (main: ScriptedModel): Course => ({
      prompts: ["look", "go on"],
      script: { models: [main], replies },
      contextPrune: { pruneOn: "every-turn", summarizerModel: "none", workingSet: null },
    });

    test(
      "nothing is condensed while its run is open, and all of it afterwards",
      async () => {
        const bound = { id: "anthropic.claude-opus-4-7-v1", api: "bedrock-converse-stream", reasoning: true };
        const condensed = condensedIn(await run(host, course(model(bound))));
        expect(condensed).toEqual([[], [false], [false, false], [false, false, false], [true, true, true]]);
      },
      TIMEOUT,
    );

    test(
      "with another model results are condensed within the run",
      async () => {
        const condensed = condensedIn(await run(host, course(model())));
        expect(condensed[3]).toEqual([true, true, false]);
      },
      TIMEOUT,
    );
  });

  describe("how long the cache lives is learned", () => {
    /** Two pauses; after the first one the reply read its prompt from the cache or did not. */
    const course = (pauses: readonly number[], wasKept: boolean): Course => {
      const kept = { input: 10, cacheRead: 8_000, cacheWrite: 100 };
      return {
        prompts: ["hello", "look", "go on"],
        extensions: [supportPath("clock-jump.ts")],
        env: { CLOCK_JUMPS_MS: pauses.map((minutes) => minutes * MINUTE).join() },
        script: {
          models: [model()],
          replies: [
            { text: "Hello.", usage: { input: 10, cacheRead: 0, cacheWrite: 8_000 } },
            {
              calls: [read("notes.md"), read("kept.md")],
              usage: wasKept ? kept : { input: 10, cacheRead: 0, cacheWrite: 8_100 },
            },
            { text: "A fox.", usage: kept },
            { text: "Yes.", usage: kept },
          ],
        },
        contextPrune: { pruneOn: "cache-aware", summarizerModel: "none", protectedPaths: ["**/kept.md"] },
      };
    };

    test.each([
      ["nine minutes are warm where it outlived ten", [10, 9], true, false],
      ["and cold where it did not", [10, 9], false, true],
      ["four minutes are warm where it outlived three", [3, 4], true, false],
      ["and cold where it did not outlive three", [3, 4], false, true],
    ])(
      "%s",
      async (_, pauses, wasKept, isCondensed) => {
        const condensed = condensedIn(await run(host, course(pauses, wasKept)));
        // What would write much anew waits for a cache that is cold.
        expect(condensed.at(-1)).toEqual([isCondensed, false]);
      },
      TIMEOUT,
    );

    // Only the newer host keeps caches warm.
    if (host === "new")
      test(
        "and the host's own warming counts as a use",
        async () => {
          const cold = course([10, 9], false);
          const warmed = await run(host, { ...cold, env: { ...cold.env, CACHE_WARMED: "1" } });
          expect(condensedIn(warmed).at(-1)).toEqual([false, false]);
        },
        TIMEOUT,
      );
  });

  describe("a price of zero", () => {
    const replies: ScriptedReply[] = [
      { calls: [read("long.md")] },
      { calls: [read("notes.md")] },
      { calls: [read("kept.md")] },
      { text: "Done." },
      { text: "Yes." },
    ];
    const course = (cost: typeof FREE, summarizerModel: string): Course => ({
      prompts: ["look", "go on"],
      script: { models: [model({ cost })], replies },
      contextPrune: { pruneOn: "cache-aware", summarizerModel, protectedPaths: ["**/kept.md"] },
    });

    test(
      "is reckoned with at usual proportions, and buys no summary",
      async () => {
        const free = await run(host, course(FREE, "auto"));
        const priced = await run(host, course(PRICED, "none"));
        expect(free.requests).toHaveLength(replies.length);
        expect(condensedIn(free)).toEqual(condensedIn(priced));
        expect(condensedIn(free).flat()).toContain(true);
      },
      TIMEOUT,
    );
  });

  test(
    "auto buys a summary where it takes a small part of what it helps to save, and not at other prices",
    async () => {
      const looks = Array.from({ length: LOOKS }, (_, i) => ({
        calls: [{ name: "read", arguments: { path: "notes.md", offset: 1 + i, limit: 1 } }],
      }));
      const course = (cost: typeof FREE): Course => ({
        prompts: ["look"],
        script: {
          models: [model({ cost })],
          rules: [{ system: SUMMARISER, reply: { text: "[1] Hens jump over the dog." } }],
          // The longer a run has been, the longer it is expected to go on.
          replies: [...looks, { calls: [read("long.md")] }, ...looks.slice(-4), { text: "Done." }],
        },
        contextPrune: { summarizerModel: "auto", pruneOn: "cache-aware" },
      });
      const asked = ({ requests }: PiRun) =>
        requests.filter(({ systemPrompt }) => new RegExp(SUMMARISER).test(systemPrompt));
      const withoutDiscount = await run(host, course({ input: 3, output: 3, cacheRead: 3, cacheWrite: 3 }));
      expect(asked(withoutDiscount)).not.toEqual([]);
      expect(JSON.stringify(withoutDiscount.requests.at(-1))).toContain("Hens jump over the dog.");
      expect(asked(await run(host, course(PRICED)))).toEqual([]);
    },
    TIMEOUT,
  );

  test(
    "a first session of 30 calls with the shipped settings is condensed, and costs at most 0.75 of raw",
    async () => {
      const names = Array.from({ length: 30 }, (_, i) => `file${i}.ts`);
      const rows = (name: string) =>
        Array.from({ length: 120 }, (_, k) => `export const row${k} = build(${k}, "${name}"); // of it`);
      const course = (enabled: boolean): Course => ({
        prompts: ["Look into it."],
        files: Object.fromEntries(names.map((name) => [name, rows(name).join("\n")])),
        script: {
          models: [model({ cost: { input: 300, output: 1_500, cacheRead: 30, cacheWrite: 375 } })],
          replies: [...names.map((name) => ({ calls: [read(name)] })), { text: "Done." }],
        },
        contextPrune: { ...DEFAULT_CONFIG, enabled },
      });
      const condensed = await run(host, course(true));
      const raw = await run(host, course(false));
      expect(condensed.requests).toHaveLength(names.length + 1);
      expect(condensedIn(condensed).at(-1)?.filter(Boolean).length).toBeGreaterThan(names.length / 2);
      expect(costOf(condensed) / costOf(raw)).toBeLessThanOrEqual(0.75);
    },
    TIMEOUT,
  );
});

/** What the host has recorded of the replies, USD. */
function costOf({ entries }: PiRun): number {
  return entries.reduce((sum, entry) => {
    const isReply = entry.type === "message" && entry.message.role === "assistant";
    return isReply && "usage" in entry.message ? sum + (entry.message.usage?.cost.total ?? 0) : sum;
  }, 0);
}
