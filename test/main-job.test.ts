/** The main job on both hosts, mostly on their real command line: condensed where it stood, recoverable, stable, off when off. */
import { afterAll, describe, expect, test } from "bun:test";
import type { Message, ToolResultMessage } from "@mariozechner/pi-ai";
import { extractToolResultText, textOf } from "../src/transcript/messages.ts";
import { openSession, until } from "./support/hosts.ts";
import {
  createFolders,
  HOSTS,
  type PiFolders,
  type PiOptions,
  type PiRun,
  PRODUCT_ENTRY,
  runPi,
  supportPath,
} from "./support/print-mode.ts";
import type { ScriptedCall, ScriptedReply } from "./support/script.ts";

const TIMEOUT = 120_000;
/** By which a request to a summariser is known. */
const SUMMARY_PROMPT = "You condense the finished tool calls";

const MODULE = Array.from(
  { length: 120 },
  (_, i) => `export function step${i}(n: number): number { return n * ${i}; }`,
);
const FILES = {
  "src/app.ts": `${MODULE.join("\n")}\n`,
  "notes.md": `# Notes\n\n${"The quick brown fox jumps over the lazy dog.\n".repeat(60)}`,
};

const call = (name: string, args: ScriptedCall["arguments"], id: string) => ({ name, arguments: args, id });
const PROMPTS = ["look at the app", "look at the notes", "and now?"];
const REPLIES: ScriptedReply[] = [
  { calls: [call("read", { path: "src/app.ts" }, "call_app")] },
  { text: "The app has 120 steps." },
  { calls: [call("read", { path: "notes.md" }, "call_notes"), call("bash", { command: "seq 1 900" }, "call_seq")] },
  { text: "The notes speak of a fox." },
  { calls: [call("context_tree_query", { toolCallIds: ["t1"] }, "call_query")] },
  { text: "Done." },
];

const opened: PiFolders[] = [];
afterAll(() => {
  for (const folders of opened) folders.remove();
});

function folders(): PiFolders {
  const made = createFolders(FILES);
  opened.push(made);
  return made;
}

async function run(
  host: (typeof HOSTS)[number],
  { stderr = "", ...options }: Partial<PiOptions> & Pick<PiOptions, "folders"> & { stderr?: string },
): Promise<PiRun> {
  const result = await runPi(host, {
    prompts: PROMPTS,
    script: { replies: REPLIES },
    settings: { contextPrune: { summarizerModel: "none" } },
    ...options,
  });
  expect(result.stderr).toBe(stderr);
  expect(result.code).toBe(0);
  return result;
}

function resultOf(messages: readonly Message[] | undefined, id: string): ToolResultMessage | undefined {
  return messages?.find((m): m is ToolResultMessage => m.role === "toolResult" && m.toolCallId === id);
}

function textOfResult(messages: readonly Message[] | undefined, id: string): string {
  const result = resultOf(messages, id);
  return result ? extractToolResultText(result) : "";
}

/** What every variant must show: raw within the run, stubs in the request after the text-only reply. */
function expectCondensed({ requests }: PiRun): void {
  expect(requests).toHaveLength(6);
  expect(textOfResult(requests[1]?.messages, "call_app")).toContain("export function step7(");
  const third = requests[2]?.messages;
  expect(textOfResult(third, "call_app")).toStartWith("[t1 condensed: read src/app.ts, ");
  expect(JSON.stringify(third)).not.toContain("return n * 119;");
  const fifth = requests[4]?.messages;
  expect(textOfResult(fifth, "call_notes")).toStartWith("[t2 condensed: read notes.md, ");
  expect(textOfResult(fifth, "call_seq")).toStartWith("[t3 condensed: bash seq 1 900, ");
  expect(textOfResult(fifth, "call_app")).toBe(textOfResult(third, "call_app"));
}

describe.each(HOSTS)("print mode on %s", (host) => {
  test(
    "condenses finished output, gives it back, and goes on with the same prefix in a second process",
    async () => {
      const place = folders();
      // Here as a user has it, module by module.
      const first = await run(host, { folders: place, product: PRODUCT_ENTRY });
      expectCondensed(first);

      const answer = resultOf(first.requests[5]?.messages, "call_query");
      const [header, body] = answer?.content ?? [];
      expect(header && textOf([header])).toStartWith("[t1: read src/app.ts; characters 0 to ");
      expect(body && textOf([body])).toBe(textOfResult(first.requests[1]?.messages, "call_app"));

      const second = await run(host, {
        folders: place,
        product: PRODUCT_ENTRY,
        session: "continue",
        prompts: ["go on"],
        script: { replies: [{ text: "Still here." }] },
      });
      const before = first.requests[5]?.messages ?? [];
      const after = second.requests[0]?.messages ?? [];
      expect(after.length).toBe(before.length + 2);
      expect(JSON.stringify(after.slice(0, before.length))).toBe(JSON.stringify(before));
      expect(second.requests[0]?.systemPrompt).toBe(first.requests[5]?.systemPrompt ?? "");
    },
    TIMEOUT,
  );

  test(
    "condenses also while another extension sleeps in turn_end",
    async () => {
      const slow = { extensions: [supportPath("slow-handler.ts")], env: { SLOW_HANDLER_MS: "800" } };
      expectCondensed(await run(host, { folders: folders(), timeoutMs: 90_000, ...slow }));
    },
    TIMEOUT,
  );

  test(
    "sends the raw session when it is disabled or switched off",
    async () => {
      const disabled = await run(host, {
        folders: folders(),
        settings: { contextPrune: { summarizerModel: "none", enabled: false } },
        script: { replies: [...REPLIES.slice(0, 4), { text: "Nothing." }] },
      });
      expect(textOfResult(disabled.requests[4]?.messages, "call_app")).toContain("return n * 119;");

      const place = folders();
      const switched = await run(host, {
        folders: place,
        prompts: ["look at the app", "look at the notes", "/pruner off", "and now?"],
        // Standard output is the reply's.
        stderr: "Pruner off: the next request is raw.\n",
        script: { replies: [...REPLIES.slice(0, 4), { text: "Nothing." }] },
      });
      expect(textOfResult(switched.requests[2]?.messages, "call_app")).toStartWith("[t1 condensed: ");
      expect(textOfResult(switched.requests[4]?.messages, "call_app")).toContain("return n * 119;");
      expect(textOfResult(switched.requests[4]?.messages, "call_seq")).toContain("\n900");
    },
    TIMEOUT,
  );

  test(
    "has a model write the summaries, one call a batch",
    async () => {
      const summary = { text: "[1] Exports step0 to step119, each multiplying by its number." };
      const both = { text: "[1] Notes about a fox.\n[2] Numbers 1 to 900." };
      const result = await run(host, {
        folders: folders(),
        settings: { contextPrune: { summarizerModel: "scripted/sum" } },
        script: {
          replies: [...REPLIES.slice(0, 4), { text: "Nothing." }],
          repliesOf: { sum: [summary, both] },
        },
      });
      const calls = result.requests.filter((request) => request.model === "sum");
      expect(calls).toHaveLength(2);
      expect(JSON.stringify(calls[0]?.messages)).toContain("export function step7(");
      const last = result.requests.findLast((request) => request.model === "main");
      expect(textOfResult(last?.messages, "call_app")).toStartWith("[t1 condensed: read src/app.ts, ");
      expect(textOfResult(last?.messages, "call_app")).toEndWith(
        "]\nExports step0 to step119, each multiplying by its number.",
      );
      const entries = JSON.stringify(result.entries);
      expect(entries).toContain("Exports step0 to step119");
      expect(entries).toContain("Numbers 1 to 900.");
    },
    TIMEOUT,
  );
});

describe.each(HOSTS)("in process on %s", (host) => {
  test.each([
    ["cut at the output limit", { text: "[1] Half a", stopReason: "length" as const }],
    ["failed", { stopReason: "error" as const, errorMessage: "overloaded" }],
    ["empty", { text: "" }],
    ["thinking only", { thinking: "Let me think about that file." }],
  ])("leaves raw results and batch for the next flush when the summary is %s", async (_name, bad) => {
    const good = { text: "[1] Exports step0 to step119." };
    const session = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY],
      files: FILES,
      settings: { contextPrune: { summarizerModel: "scripted/sum", pruneOn: "agent-message" } },
      script: {
        replies: [
          { calls: [call("read", { path: "src/app.ts" }, "call_app")] },
          { text: "The app has 120 steps." },
          { text: "Going on." },
        ],
        repliesOf: { sum: [bad, good] },
        // The session's own model, which steps in for one that fails, is no better.
        rules: [{ model: "main", system: SUMMARY_PROMPT, reply: { stopReason: "error", errorMessage: "overloaded" } }],
      },
    });
    const summaries = () => session.requests.filter((request) => request.model === "sum");
    try {
      await session.prompt("look at the app");
      await until(() => summaries().length === 1);
      await session.prompt("go on");
      await until(() => JSON.stringify(session.branch()).includes("Exports step0 to step119."));
      const main = session.requests.filter(
        ({ model, systemPrompt }) => model === "main" && !systemPrompt.includes(SUMMARY_PROMPT),
      );
      expect(summaries()).toHaveLength(2);
      expect(textOfResult(main[2]?.messages, "call_app")).toContain("return n * 119;");
      expect(session.errors).toEqual([]);
    } finally {
      await session.close();
    }
  });
});
