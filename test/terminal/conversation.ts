/** The conversation that the terminal tests and the pictures show. */
import type { Script, ScriptedReply } from "../support/script.ts";

/** Files of the working folder, large enough to be condensed. */
export const FILES: Record<string, string> = {
  "src/app.ts": source("app", ["createApp", "DEFAULT_PORT", "loadRoutes"]),
  "src/routes.ts": source("routes", ["routes", "healthRoute", "userRoute"]),
  "src/users.ts": source("users", ["findUser", "saveUser", "UserRecord"]),
  "src/db.ts": source("db", ["openDatabase", "migrate"]),
  "README.md": `# Sample\n\n${"A service that answers requests about users.\n".repeat(60)}`,
};

function source(name: string, exported: readonly string[]): string {
  const filler = Array.from({ length: 120 }, (_, i) => `  // ${name} step ${i}: checks the input and hands it on`);
  return exported
    .map((item) => `export function ${item}(input: string): string {\n${filler.join("\n")}\n  return input;\n}\n`)
    .join("\n");
}

const read = (path: string) => ({ name: "read", arguments: { path } });
const bash = (command: string) => ({ name: "bash", arguments: { command } });

/** Prompts with the replies that follow each of them. */
export const TURNS: readonly { prompt: string; replies: ScriptedReply[] }[] = [
  {
    prompt: "How does the app start?",
    replies: [
      { text: "Reading the entry.", calls: [read("src/app.ts"), read("src/routes.ts")] },
      { calls: [bash("ls -la src && cat src/app.ts | tail -80")] },
      { text: "createApp() loads the routes and listens on DEFAULT_PORT." },
    ],
  },
  {
    prompt: "And where are users kept?",
    replies: [
      { calls: [read("src/users.ts")] },
      { calls: [read("src/db.ts"), read("README.md")] },
      { text: "In the database that openDatabase() opens; findUser() and saveUser() are the way in." },
    ],
  },
  {
    prompt: "Is there a test for the routes?",
    replies: [{ calls: [bash("grep -rn 'step 1' src")] }, { text: "No, nothing tests them yet." }],
  },
];

export const SUMMARY_TEXT = "[1] Exports createApp and loadRoutes.\n- DEFAULT_PORT is read from the environment.";

/** The script of the conversation; whatever the summariser is asked, it writes the same. */
export function scriptOf(summary: ScriptedReply = { text: SUMMARY_TEXT }): Script {
  return {
    replies: TURNS.flatMap(({ replies }) => replies),
    // Where the summariser is down, the session's own model is asked.
    rules: [{ system: "^You (condense|join)", reply: summary }],
    otherwise: { text: "Nothing more to say." },
  };
}
