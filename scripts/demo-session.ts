/** The made-up session of the demo: a scripted model that reads, searches and edits copies of this project's own files. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { ScriptedCall, ScriptedReply } from "../test/support/script.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));

/** What the session works on, one task each: the file that is changed, one that is read beside it, and a word to search for. */
const TASKS: readonly (readonly [file: string, beside: string, word: string])[] = [
  ["src/pruner.ts", "src/render/plan.ts", "RenderPlan"],
  ["src/flush.ts", "src/flush/verdicts.ts", "PreparedFlush"],
  ["src/indexer.ts", "src/session/ledger.ts", "ToolCallRecord"],
  ["src/summarizer.ts", "src/summary/prompt.ts", "SummaryRequest"],
  ["src/spill.ts", "src/flush/spilling.ts", "spillThreshold"],
  ["src/batch-capture.ts", "src/capture/protection.ts", "CapturedBatch"],
  ["src/chain-compressor.ts", "src/chain-detector.ts", "ChainRange"],
  ["src/query-tool.ts", "src/recovery/originals.ts", "shortId"],
  ["src/cost/decision.ts", "src/cost/prices.ts", "SessionProgress"],
  ["src/engine/render-memo.ts", "src/engine/session-state.ts", "AgentMessage"],
  ["src/config.ts", "src/settings/table.ts", "SettingKey"],
  ["src/host/models.ts", "src/host/host.ts", "HostSnapshot"],
];

/** Characters that a line needs to be quoted by an edit. */
const QUOTED_CHARS = 40;

/** The files that it works on, by their paths. */
export function demoFiles(): Record<string, string> {
  const paths = new Set(TASKS.flatMap((task) => task.slice(0, 2)));
  return Object.fromEntries([...paths].map((path) => [path, readFileSync(`${ROOT}${path}`, "utf8")]));
}

/** What the person asks and what the model does, task by task. */
export function demoConversation(
  files: Readonly<Record<string, string>>,
): { prompt: string; turns: ScriptedReply[] }[] {
  return TASKS.map(([file, beside, word]) => {
    const lines = (files[file] ?? "").split("\n");
    const quotable = lines.filter(
      (line) => line.length >= QUOTED_CHARS && lines.indexOf(line) === lines.lastIndexOf(line),
    );
    const edits = [quotable[0] ?? "", quotable.at(-1) ?? ""];
    return {
      prompt: `Look at ${file} and ${beside}, and mark the first and the last long line of ${file}.`,
      turns: [
        { calls: [call("bash", { command: `grep -rn ${word} src` })] },
        { calls: [call("read", { path: file })] },
        { calls: [call("read", { path: beside })] },
        ...edits.map((line) => ({
          calls: [call("edit", { path: file, edits: [{ oldText: line, newText: `// marked\n${line}` }] })],
        })),
        { calls: [call("bash", { command: `cat ${file} | head -60 && wc -l src/*.ts` })] },
        { text: `Both lines of ${file} are marked.` },
      ],
    };
  });
}

/** A call of a tool. */
export function call(name: string, args: ScriptedCall["arguments"]): ScriptedCall {
  return { name, arguments: args };
}
