/**
 * Prints what every place shows of one session, host by host: the footer of pi, the status line, status, stats, tree, context
 * and replay. Plays a made-up conversation, or opens the recorded session that is named. Needs tmux.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createFolders } from "../test/support/folders.ts";
import { HOSTS, type Host, PRODUCT_ENTRY } from "../test/support/host-paths.ts";
import { FILES, scriptOf, TURNS } from "../test/terminal/conversation.ts";
import { pause, play, Terminal } from "../test/terminal/tmux.ts";

const LIMIT_MS = 240_000;
/** Milliseconds after which an answer stands on the screen. */
const ANSWERED_MS = 1_500;
const MORE = ["And now?", "Sure?"].map((prompt) => ({ prompt, replies: [{ text: "Nothing more to say." }] }));

/** What is asked, and which lines of the screen are the figures. */
const ASKED: readonly (readonly [command: string, lines: RegExp])[] = [
  ["status", /This session:|Condensed: \d|Conversation:|%\/\d|^\s*pruner \S+→/],
  ["stats --all", /on this machine:/],
  ["tree", /Condensed: \S+ → /],
  ["context", /^(System prompt|Results|Tool arguments|Where the window|Last reported)/],
];

const recorded = process.argv[2];
for (const host of HOSTS) await show(host);

async function show(host: Host): Promise<void> {
  const folders = createFolders(FILES);
  const session = recorded === undefined ? undefined : join(folders.sessionDir, "recorded.jsonl");
  if (recorded !== undefined && session !== undefined) writeFileSync(session, openedIn(recorded, folders.cwd));
  const contextPrune = { summarizerModel: session ? "none" : "scripted/sum", pruneOn: "agent-message" };
  const options = { folders, script: scriptOf(), settings: { contextPrune }, product: PRODUCT_ENTRY };
  const terminal = new Terminal(host, { ...options, session, columns: 100, rows: 60 });
  const print = (lines: RegExp) => {
    const found = terminal
      .screen()
      .split("\n")
      .filter((line) => lines.test(line));
    process.stdout.write(`${found.map((line) => line.trim()).join("\n")}\n`);
  };
  try {
    process.stdout.write(`\n${host} host\n`);
    await terminal.see(/main( •|$)/m, 60_000);
    await play(terminal, session ? [] : [...TURNS, ...MORE], 1_000);
    if (session) {
      await terminal.submit("/pruner now");
      await terminal.see(/Condensed \d|Nothing/, LIMIT_MS);
    }
    for (const [command, lines] of ASKED) {
      await terminal.submit(`/pruner ${command}`);
      await pause(ANSWERED_MS);
      print(lines);
      if (command === "tree" || command === "context") await terminal.press("Escape");
    }
    await terminal.submit("/pruner replay");
    await terminal.see("Replayed in", LIMIT_MS);
    print(/this session costs|^ \((-|\+)\d+%\)|cost without answers|Answers cost/);
  } finally {
    terminal.stop();
    folders.remove();
  }
}

/** The session as one of that working folder; the host would ask where its own folder is missing. */
function openedIn(file: string, cwd: string): string {
  const [header = "{}", ...entries] = readFileSync(file, "utf8").split("\n");
  return [JSON.stringify({ ...JSON.parse(header), cwd }), ...entries].join("\n");
}
