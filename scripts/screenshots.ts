/**
 * Makes the pictures in `doc/` from the newer host in a real terminal. Needs tmux, and a Python with Pillow and the font
 * DejaVu Sans Mono (Debian: tmux, python3-pil, fonts-dejavu-core); `PYTHON` names another one than `/usr/bin/python3`.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createFolders } from "../test/support/folders.ts";
import { REPOSITORY } from "../test/support/host-paths.ts";
import type { Script, ScriptedReply } from "../test/support/script.ts";
import { FILES } from "../test/terminal/conversation.ts";
import { pause, play, Terminal } from "../test/terminal/tmux.ts";

const COLUMNS = 100;
const ROWS = 34;
/** Lines of the transcript that a picture shows above its subject. */
const LINES_ABOVE = 5;

const read = (path: string) => ({ name: "read", arguments: { path } });
const bash = (command: string) => ({ name: "bash", arguments: { command } });

const TURNS: readonly { prompt: string; replies: ScriptedReply[] }[] = [
  {
    prompt: "How does the app start?",
    replies: [
      {
        thinking: "The entry point first. ".repeat(30),
        text: "Reading the entry.",
        calls: [read("src/app.ts"), read("src/routes.ts")],
      },
      { calls: [bash("ls -la src && head -80 src/app.ts")] },
      { text: "createApp() loads the routes and listens on DEFAULT_PORT." },
    ],
  },
  {
    prompt: "And where are users kept?",
    replies: [
      { calls: [read("src/users.ts"), read("src/db.ts")] },
      { calls: [read("README.md"), bash("cat src/users.ts | tail -120")] },
      { text: "In the database that openDatabase() opens; findUser() and saveUser() are the way in." },
    ],
  },
  {
    prompt: "Is there a test for the routes?",
    replies: [{ calls: [bash("grep -rn 'step 1' src")] }, { text: "No, nothing tests them yet." }],
  },
  {
    prompt: "Then write one.",
    replies: [
      {
        calls: [
          read("src/routes.ts"),
          {
            name: "write",
            arguments: {
              path: "src/routes.test.ts",
              content: "test('routes', () => {\n  expect(routes('a')).toBe('a');\n});\n".repeat(40),
            },
          },
        ],
      },
      { text: "routes.test.ts covers the three exported functions." },
    ],
  },
  {
    prompt: "Does it pass?",
    replies: [
      { calls: [bash('for i in $(seq 1 90); do echo "ok $i - routes answers request $i in time"; done')] },
      { text: "All 90 checks pass." },
    ],
  },
];

/** What the summariser writes, by what it is shown. */
const SUMMARIES: readonly [string, string][] = [
  [
    "src/app\\.ts[\\s\\S]*src/routes\\.ts",
    "[1] Exports `createApp()`, `loadRoutes()` and `DEFAULT_PORT`.\n- `createApp(input)` checks its input in 120 steps and hands it on\n- nothing is read from the environment\n[2] Exports `routes()`, `healthRoute()` and `userRoute()`.\n- each returns its input; no error handling",
  ],
  ["ls -la src", "[1] Five files in `src`; the head of `src/app.ts` is `createApp()`."],
  [
    "src/users\\.ts[\\s\\S]*src/db\\.ts",
    "[1] Exports `findUser()`, `saveUser()` and `UserRecord()`.\n[2] Exports `openDatabase()` and `migrate()`; `migrate()` runs on every start.",
  ],
  ["tail -120", "[1] The tail of `src/users.ts`: `UserRecord()`, steps 1 to 119."],
  ["routes\\.test\\.ts", "[1] As before: three exported functions.\n[2] Written: 40 checks of `routes()`."],
  ["seq 1 90", "[1] 90 checks, all `ok`."],
];

const CONDENSE = "^You condense";

function scriptWith(drip?: number): Script {
  return {
    replies: TURNS.flatMap(({ replies }) => replies),
    rules: [
      ...SUMMARIES.map(([lastUser, text]) => ({ system: CONDENSE, lastUser, reply: { text, dripMs: drip } })),
      {
        system: "^You (condense|join)",
        reply: { text: "[1] Several files were read; see the parts above.", dripMs: drip },
      },
    ],
    otherwise: { text: "Nothing more to say." },
  };
}

const SETTINGS = {
  summarizerModel: "scripted/sum",
  protectedPaths: ["README.md"],
  spillThreshold: 20_000,
  chainCompression: { rollingWindow: 3, batchSize: 1, fuseRangeSummary: false },
};

await picturesOf({ theme: "dark", contextPrune: SETTINGS }, scriptWith(), async (terminal, take) => {
  await terminal.submit("/pruner");
  await terminal.see("Pruner settings");
  await terminal.press("Down", "Down", "Down", "Down");
  await take("settings");
});

// The tree wants a chain, whatever it costs.
const CLOSING = { ...SETTINGS, pruneOn: "agent-message" };
await picturesOf({ theme: "dark", contextPrune: CLOSING }, scriptWith(), async (terminal, take) => {
  await terminal.submit("/pruner tree");
  await terminal.see("Condensed: ");
  await terminal.press(...Array.from({ length: 12 }, () => "Up"), "Right", "Down", "Down", "Down", "Down");
  await terminal.press("Down", "Right", "Up", "Up", "Up");
  await take("tree");
  await terminal.press("Enter");
  await terminal.see("Original of");
  await take("tree-original");
  await terminal.press("Escape", "Escape");
  await terminal.submit("/pruner context");
  await terminal.see("Where the window goes");
  await take("context");
});

await picturesOf(
  { theme: "dark", contextPrune: { ...SETTINGS, pruneOn: "on-demand", summarizerConcurrency: 2 } },
  scriptWith(180),
  async (terminal, take) => {
    await terminal.submit("/pruner now");
    await terminal.see(/✓[\s\S]*running +\d+ chars/);
    await pause(600);
    await take("progress");
    await terminal.press("Escape");
  },
);

/** Plays the conversation, then `show`, which takes pictures by name. */
async function picturesOf(
  settings: Record<string, unknown>,
  script: Script,
  show: (terminal: Terminal, take: (name: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const folders = createFolders(FILES);
  const terminal = new Terminal("new", { folders, script, settings, columns: COLUMNS, rows: ROWS });
  try {
    await terminal.see(/main( •|$)/m, 30_000);
    await play(terminal, TURNS, 800);
    await show(terminal, async (name) => {
      await pause(500);
      const ansi = join(folders.root, `${name}.ansi`);
      // The folder of the run says nothing, and is another one each time.
      const screen = terminal.screen({ colors: true }).replaceAll(folders.cwd, "~/sample");
      writeFileSync(ansi, cropped(screen));
      draw(ansi, join(REPOSITORY, "doc", `${name}.png`));
    });
  } finally {
    terminal.stop();
    folders.remove();
  }
}

/** Without most of the transcript above what the picture is of. */
function cropped(screen: string): string {
  const lines = screen.split("\n");
  const first = lines.findIndex((line) => line.includes("─".repeat(20)) || line.includes("esc cancels"));
  return lines.slice(Math.max(0, first - LINES_ABOVE)).join("\n");
}

function draw(ansi: string, target: string): void {
  const python = process.env.PYTHON ?? "/usr/bin/python3";
  const program = join(REPOSITORY, "scripts/terminal-picture.py");
  const { status, stderr } = spawnSync(python, [program, ansi, target, String(COLUMNS)], { encoding: "utf8" });
  if (status !== 0) throw new Error(`No picture ${target}: ${stderr}`);
  process.stdout.write(`${target}\n`);
}
