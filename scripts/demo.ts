/**
 * The demo: the real host in print mode, with a scripted model that makes real calls on this project's own files, the
 * mechanical digest in place of a summariser, and every original asked back in a second process.
 *
 * Prints each request as it would have been and as it was sent; its last line is JSON.
 */
import { delimiter, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { Message, ToolResultMessage } from "@mariozechner/pi-ai";
import type { FileEntry } from "@mariozechner/pi-coding-agent";
import { rgPath } from "@vscode/ripgrep";
import { grouped } from "../src/text/text.js";
import { contentChars, extractToolResultText, isAssistant, isText, isToolResult } from "../src/transcript/messages.js";
import { createFolders, type Host, runPi } from "../test/support/print-mode.js";
import type { ScriptedReply } from "../test/support/script.js";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
/** pi's own estimate. */
const CHARS_PER_TOKEN = 4;
const VERSIONS: Record<Host, string> = { old: "0.73.1", new: "1.6.0" };

const CONVERSATION: { prompt: string; turns: ScriptedReply[] }[] = [
  {
    prompt: "How does a request get rendered?",
    turns: [
      { calls: [tool("read", { path: "src/pruner.ts" }), tool("read", { path: "src/render/plan.ts" })] },
      { calls: [tool("grep", { pattern: "RenderPlan", path: "src" })] },
      { text: "pruneMessages applies the plan of the epoch in phases." },
    ],
  },
  {
    prompt: "And what does a flush do?",
    turns: [
      { calls: [tool("read", { path: "src/flush.ts" })] },
      {
        calls: [tool("bash", { command: "wc -l src/*.ts src/*/*.ts && grep -n 'export' src/flush.ts src/indexer.ts" })],
      },
      { text: "It prepares summaries, then appends the entries in one step." },
    ],
  },
  {
    prompt: "Is anything of it written down?",
    turns: [
      { calls: [tool("read", { path: "README.md" }), tool("read", { path: "src/pruner.ts" })] },
      { calls: [tool("bash", { command: "cat src/no-such-file.ts" })] },
      { text: "The README says what it does." },
    ],
  },
  { prompt: "Thanks. What next?", turns: [{ text: "Whatever you like." }] },
];

await main();

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { host: { type: "string", default: "0.73" } } });
  const host = hostOf(values.host);
  const folders = createFolders();
  const settings = { contextPrune: { summarizerModel: "none" } };
  const options = {
    folders: { ...folders, cwd: ROOT },
    args: ["--tools", "read,grep,bash,context_tree_query"],
    env: { PATH: [dirname(rgPath), process.env.PATH].join(delimiter) },
  };
  try {
    say(`pi ${VERSIONS[host]}, shipped settings but for the mechanical digest\n`);
    const run = await runPi(host, {
      ...options,
      settings,
      prompts: CONVERSATION.map(({ prompt }) => prompt),
      script: { replies: CONVERSATION.flatMap(({ turns }) => turns) },
    });
    if (run.code !== 0 || !run.sessionFile) throw new Error(`pi ended with code ${run.code}: ${run.stderr}`);
    const raw = messagesOf(run.entries);
    const rawRequests = raw.flatMap((message, i) => (isAssistant(message) ? [raw.slice(0, i)] : []));
    const totals = showRequests(
      rawRequests,
      run.requests.map((request) => request.messages),
    );

    const last = run.requests.at(-1)?.messages ?? [];
    const stubs = condensedIn(last, raw);
    say(`\nOne of the ${stubs.length} stubs, as the model sees it:\n\n${stubs[0]?.stub}\n`);

    const asked = await runPi(host, {
      ...options,
      session: run.sessionFile,
      prompts: ["Give me all of it back."],
      script: { replies: [...stubs.flatMap(askFor), { text: "There it is." }] },
    });
    if (asked.code !== 0) throw new Error(`pi ended with code ${asked.code}: ${asked.stderr}`);
    const recovered = recoveredIn(messagesOf(asked.entries).slice(raw.length));
    const same = stubs.filter(({ ref, original }) => recovered.get(ref) === extractToolResultText(original));
    say(`Asked back in a second process: ${same.length} of ${stubs.length} outputs identical to the byte.\n`);
    const identical = same.length === stubs.length && stubs.length > 0;
    const report = { host: VERSIONS[host], requests: run.requests.length, ...totals, condensed: stubs.length };
    say(`${JSON.stringify({ ...report, recovered: same.length, identical })}\n`);
    if (!identical) process.exitCode = 1;
  } finally {
    folders.remove();
  }
}

function hostOf(version: string): Host {
  if (/^0\.73(\.1)?$/.test(version)) return "old";
  if (/^1\.6(\.0)?$/.test(version)) return "new";
  throw new Error(`--host ${version}: choose 0.73 or 1.6`);
}

function tool(name: string, args: NonNullable<ScriptedReply["calls"]>[number]["arguments"]) {
  return { name, arguments: args };
}

function messagesOf(entries: readonly FileEntry[]): AgentMessage[] {
  return entries.flatMap((entry) => (entry.type === "message" ? [entry.message] : []));
}

function showRequests(raw: readonly AgentMessage[][], sent: readonly Message[][]) {
  const totals = { rawTokens: 0, sentTokens: 0 };
  say("request    raw tokens   sent tokens\n");
  for (const [i, messages] of raw.entries()) {
    const before = tokensOf(messages);
    const after = tokensOf(sent[i] ?? []);
    totals.rawTokens += before;
    totals.sentTokens += after;
    say(`${pad(String(i + 1), 7)}${pad(grouped(before), 14)}${pad(grouped(after), 14)}\n`);
  }
  say(`  total${pad(grouped(totals.rawTokens), 14)}${pad(grouped(totals.sentTokens), 14)}\n`);
  return totals;
}

function tokensOf(messages: readonly AgentMessage[]): number {
  const chars = messages.reduce((sum, message) => {
    if (isToolResult(message)) return sum + contentChars(message.content);
    return "content" in message ? sum + JSON.stringify(message.content).length : sum;
  }, 0);
  return Math.round(chars / CHARS_PER_TOKEN);
}

interface Condensed {
  ref: string;
  stub: string;
  original: ToolResultMessage;
}

function condensedIn(sent: readonly Message[], raw: readonly AgentMessage[]): Condensed[] {
  return raw.filter(isToolResult).flatMap((original) => {
    const counterpart = sent.find(
      (m): m is ToolResultMessage => m.role === "toolResult" && m.toolCallId === original.toolCallId,
    );
    const stub = counterpart ? extractToolResultText(counterpart) : "";
    const ref = /context_tree_query (t\d+)\]/.exec(stub)?.[1];
    return ref && stub !== extractToolResultText(original) ? [{ ref, stub, original }] : [];
  });
}

/** One call for each page that an output of this length can have. */
function askFor({ ref, original }: Condensed): ScriptedReply[] {
  const pageChars = 10_000;
  const pages = Math.ceil(extractToolResultText(original).length / pageChars);
  return Array.from({ length: pages }, (_, page) => ({
    calls: [tool("context_tree_query", { toolCallIds: [ref], offset: page * pageChars, limit: pageChars })],
  }));
}

/** Text of each ref, put together from its pages. */
function recoveredIn(messages: readonly AgentMessage[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const message of messages.filter(isToolResult)) {
    const [header, body] = message.content.filter(isText);
    const [, ref, start] = /^\[(t\d+): .*; characters ([\d,]+) to /.exec(header?.text ?? "") ?? [];
    if (!ref) continue;
    texts.set(ref, (start === "0" ? "" : (texts.get(ref) ?? "")) + (body?.text ?? ""));
  }
  return texts;
}

function pad(text: string, width: number): string {
  return text.padStart(width);
}

function say(text: string): void {
  process.stdout.write(text);
}
