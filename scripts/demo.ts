/**
 * The demo. The real pi plays a made-up session with a scripted model: once raw, once condensed. Shown are the bill of both,
 * the size of each request, and that every original comes back. Nothing leaves the machine.
 */
import { rmSync } from "node:fs";
import { parseArgs } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { FileEntry } from "@mariozechner/pi-coding-agent";
import { reportsOf } from "../src/replay/figures.ts";
import { type Assumptions, replaySession, type VariantRun } from "../src/replay/replay.ts";
import { readSessionFile } from "../src/replay/session-file.ts";
import { configWith, parseAssignments } from "../src/replay/settings.ts";
import { isRecord } from "../src/text/json.ts";
import { grouped, reasonOf } from "../src/text/text.ts";
import { extractToolResultText, isText, isToolResult } from "../src/transcript/messages.ts";
import { CUSTOM_TYPE_INDEX } from "../src/types.ts";
import { createFolders, type Host, type PiRun, runPi } from "../test/support/print-mode.ts";
import type { ScriptedReply } from "../test/support/script.ts";
import { call, demoConversation, demoFiles } from "./demo-session.ts";

const HOSTS: Readonly<Record<string, Host>> = { "0.73": "old", "0.73.1": "old", "1.6": "new", "1.6.0": "new" };
/** What is compared with the raw session. */
const VARIANTS = [
  { name: "shipped settings", settings: [] },
  { name: "summaries by a cheap model", settings: parseAssignments("summarizerModel=provider/cheap") },
];
/** A summary has 8% of its output's length. Input costs $3 per million tokens, and a fifth of that for the cheap model. */
const ASSUMPTIONS: Assumptions = { summaryRatio: 0.08, inputPrice: 3 };
const CHART_COLUMNS = 30;
const COURSE_COLUMNS = 58;
const BARS = "▁▂▃▄▅▆▇█";
/** Characters of a page of an original, and originals that are asked for at once. */
const PAGE_CHARS = 10_000;
const AT_ONCE = 8;

try {
  await main();
} catch (error) {
  process.stderr.write(`The demo could not be run: ${reasonOf(error)}\n`);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { host: { type: "string", default: "0.73" } } });
  const host = HOSTS[values.host];
  if (!host) throw new Error(`--host ${values.host}: choose 0.73 or 1.6`);
  const files = demoFiles();
  const conversation = demoConversation(files);
  const folders = createFolders(files);
  const script = { replies: conversation.flatMap(({ turns }) => turns) };
  const prompts = conversation.map(({ prompt }) => prompt);
  const options = { folders, args: ["--tools", "read,edit,bash,context_tree_query"], timeoutMs: 120_000 };
  try {
    say(
      `pi ${values.host} plays a made-up session of ${script.replies.length} requests. The model is scripted. It costs`,
    );
    say(" nothing, and nothing is sent.\n");
    const raw = await played(host, { ...options, prompts, script, product: false, settings: {} });
    await showReplay(raw.sessionFile);

    rmSync(raw.sessionFile);
    for (const [path, text] of Object.entries(files)) await Bun.write(`${folders.cwd}/${path}`, text);
    // With the digest, since the scripted model writes no summaries.
    const digest = { contextPrune: { summarizerModel: "none" } };
    const condensed = await played(host, { ...options, prompts, script, settings: digest });
    const allBack = await showOriginals(condensed, (replies) =>
      played(host, { ...options, session: condensed.sessionFile, prompts: ["Give it all back."], script: { replies } }),
    );
    say("\nFor a session of yours: npx pi-condense replay <session file>, or /pruner replay in pi.\n");
    if (!allBack) process.exitCode = 1;
  } finally {
    folders.remove();
  }
}

type Played = PiRun & { sessionFile: string };

async function played(host: Host, options: Parameters<typeof runPi>[1]): Promise<Played> {
  const run = await runPi(host, options);
  if (run.code !== 0 || !run.sessionFile) throw new Error(`pi ended with code ${run.code}. ${run.stderr}`);
  return { ...run, sessionFile: run.sessionFile };
}

/** The raw session, and what it would have been condensed, as `pi-condense replay` computes it: the bill and each request. */
async function showReplay(sessionFile: string): Promise<void> {
  const variants = VARIANTS.map(({ name, settings }) => ({ name, config: configWith(settings) }));
  const replay = await replaySession(readSessionFile(sessionFile), variants, ASSUMPTIONS);
  const reports = reportsOf(replay, ASSUMPTIONS);
  const rawCost = reports[0]?.raw.cost ?? 0;
  const rows = [
    { name: "raw", cost: rawCost },
    ...reports.map(({ pruned }, i) => ({ name: VARIANTS[i]?.name ?? "", cost: pruned.cost })),
  ];
  say("\nWhat the prompts cost at $3 per million tokens, cache reads at\n$0.30, cache writes at $3.75\n\n");
  for (const { name, cost } of rows) {
    const share = rawCost > 0 ? cost / rawCost : 1;
    const bar = "█".repeat(Math.max(1, Math.round(share * CHART_COLUMNS)));
    const change = cost === rawCost ? "" : `  ${Math.round((share - 1) * 100)}%`.replace("-", "−");
    say(`  ${name.padEnd(26)} $${cost.toFixed(2)}  ${bar}${change}\n`);
  }
  const recoveries = reports.map(({ pruned }) => `$${pruned.recoveryCost.toFixed(2)}`).join(" and ");
  say(`\nIncluded: ${recoveries} for asking back what was still needed.\n`);
  showCourse([replay.raw, ...replay.variants.slice(0, 1)]);
}

/** How the requests grow. */
function showCourse(runs: readonly VariantRun[]): void {
  const courses = runs.map(({ name, meter }) => ({ name, sizes: meter.requests.map(({ tokens }) => tokens) }));
  const most = Math.max(...courses.flatMap(({ sizes }) => sizes));
  say("\nTokens of each request, the first to the left\n\n");
  for (const { name, sizes } of courses) {
    say(`  ${name}, ${grouped(Math.round(Math.max(...sizes)))} at most\n  ${courseOf(sizes, most)}\n`);
  }
}

function courseOf(sizes: readonly number[], most: number): string {
  const columns = Math.min(COURSE_COLUMNS, sizes.length);
  return Array.from({ length: columns }, (_, i) => {
    const from = Math.floor((i * sizes.length) / columns);
    const to = Math.max(from + 1, Math.floor(((i + 1) * sizes.length) / columns));
    const share = Math.max(...sizes.slice(from, to)) / most;
    return BARS[Math.min(BARS.length - 1, Math.floor(share * BARS.length))];
  }).join("");
}

/** One stub, and whether a second process gets every original back. */
async function showOriginals(condensed: Played, ask: (replies: ScriptedReply[]) => Promise<Played>): Promise<boolean> {
  const messages = messagesOf(condensed.entries);
  const originals = new Map(messages.filter(isToolResult).map((m) => [m.toolCallId, extractToolResultText(m)]));
  const refs = refsIn(condensed.entries).map(({ ref, id }) => ({ ref, original: originals.get(id) ?? "" }));
  const last = condensed.requests.at(-1)?.messages.filter(isToolResult).map(extractToolResultText) ?? [];
  const stub = last.find((text) => /^\[t\d+ condensed: read /.test(text)) ?? "";
  say(`\nWhat the model sees in the place of a file that it has read:\n\n${stub.replace(/^/gm, "  ")}\n`);
  const groups = Array.from({ length: Math.ceil(refs.length / AT_ONCE) }, (_, i) =>
    refs.slice(i * AT_ONCE, (i + 1) * AT_ONCE),
  );
  const replies = groups.map((group) => ({ calls: group.flatMap(askFor) }));
  const asked = await ask([...replies, { text: "There it is." }]);
  const recovered = recoveredIn(messagesOf(asked.entries).slice(messages.length));
  const same = refs.filter(({ ref, original }) => recovered.get(ref) === original).length;
  say(`\nEvery original was asked back in a new process: ${same} of ${refs.length} are identical to the byte.\n`);
  return same === refs.length && same > 0;
}

function messagesOf(entries: readonly FileEntry[]): AgentMessage[] {
  return entries.flatMap((entry) => (entry.type === "message" ? [entry.message] : []));
}

/** The refs that stand in the session file, and the calls that they name. */
function refsIn(entries: readonly FileEntry[]): { ref: string; id: string }[] {
  return entries.flatMap((entry) => {
    if (entry.type !== "custom" || entry.customType !== CUSTOM_TYPE_INDEX || !isRecord(entry.data)) return [];
    const { refs } = entry.data;
    if (!Array.isArray(refs)) return [];
    return refs.filter(isRecord).map(({ shortId, toolCallId }) => ({ ref: String(shortId), id: String(toolCallId) }));
  });
}

/** One call for each page that an output of this length can have. */
function askFor({ ref, original }: { ref: string; original: string }) {
  const pages = Math.max(1, Math.ceil(original.length / PAGE_CHARS));
  return Array.from({ length: pages }, (_, page) =>
    call("context_tree_query", { toolCallIds: [ref], offset: page * PAGE_CHARS, limit: PAGE_CHARS }),
  );
}

/** Text of each ref, put together from its pages. */
function recoveredIn(messages: readonly AgentMessage[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const message of messages.filter(isToolResult)) {
    const [header, body] = message.content.filter(isText);
    const [, ref, start] = /^\[(t\d+): .*; characters ([\d,]+) to /.exec(header?.text ?? "") ?? [];
    if (ref) texts.set(ref, (start === "0" ? "" : (texts.get(ref) ?? "")) + (body?.text ?? ""));
  }
  return texts;
}

function say(text: string): void {
  process.stdout.write(text);
}
