import { afterEach, describe, expect, test } from "bun:test";
import { SUBCOMMANDS } from "../../src/commands/index.ts";
import { SETTINGS } from "../../src/config.ts";
import { createFolders, type PiFolders } from "../support/folders.ts";
import { HOSTS } from "../support/host-paths.ts";
import { runPi } from "../support/print-mode.ts";
import { FILES, scriptOf, TURNS } from "./conversation.ts";
import { RpcSession } from "./rpc.ts";

const LIMIT_MS = 90_000;
const COMMANDS = ["", ...SUBCOMMANDS.map(({ name }) => name), "pruneOn", "minBatchChars 2000", "no-such-command"];

let folders: PiFolders | undefined;
let session: RpcSession | undefined;

afterEach(() => {
  session?.stop();
  folders?.remove();
  session = undefined;
  folders = undefined;
});

for (const host of HOSTS) {
  describe(`without a terminal, ${host} host`, () => {
    test(
      "RPC: every line parses during a flush, a failing summariser and every command, and each command answers",
      async () => {
        folders = createFolders(FILES);
        const script = scriptOf({ stopReason: "error", errorMessage: "401 invalid api key" });
        const contextPrune = { summarizerModel: "scripted/sum" };
        session = new RpcSession(host, { folders, script, settings: { contextPrune } });
        for (const { prompt } of TURNS) await session.prompt(prompt);
        expect(session.notices().join("\n")).toContain("401");
        // off stands before the rest of them, and what comes behind it is to be answered all the same.
        for (const command of COMMANDS) {
          const before = session.notices().length;
          await session.command(`/pruner ${command}`.trim());
          const answers = session.notices().slice(before);
          expect({ command, answers: answers.length }).toEqual({ command, answers: 1 });
        }
        await session.command("/pruner summarizerModel none");
        await session.command("/pruner on");
        const before = session.notices().length;
        await session.command("/pruner now");
        expect(session.notices().slice(before).at(-1)).toMatch(/^Condensed 7 results/);
        for (const name of ["tree", "context"]) await session.command(`/pruner ${name}`);
        expect(session.notices().join("\n")).toContain("→");
        expect(session.unparsable).toEqual([]);
        expect(session.requested("setWidget").length + session.requested("setStatus").length).toBe(0);
      },
      LIMIT_MS,
    );

    test(
      "JSON: every line parses, and the answers of all commands go to standard error",
      async () => {
        folders = createFolders(FILES);
        const [first] = TURNS;
        const commands = COMMANDS.map((command) => `/pruner ${command}`.trim());
        const run = await runPi(host, {
          folders,
          script: scriptOf({ stopReason: "error", errorMessage: "503 overloaded" }),
          settings: { contextPrune: { summarizerModel: "scripted/sum" } },
          mode: "json",
          prompts: [first?.prompt ?? "", ...commands, "/pruner summarizerModel none", "/pruner on", "/pruner now"],
        });
        expect(run.code).toBe(0);
        expect(run.events.length).toBeGreaterThan(5);
        const parts = [
          "Pruner on",
          "minBatchChars is now 2000.",
          "Unknown: /pruner no-such-command",
          "Condensed 3 results",
        ];
        for (const part of parts) expect(run.stderr).toContain(part);
        for (const { key } of SETTINGS) expect(run.stderr).toContain(`${key}: `);
      },
      LIMIT_MS,
    );

    test(
      "print: standard output holds the reply and nothing else",
      async () => {
        folders = createFolders(FILES);
        const [first] = TURNS;
        const run = await runPi(host, {
          folders,
          script: scriptOf(),
          settings: { contextPrune: { summarizerModel: "none" } },
          prompts: ["/pruner status", first?.prompt ?? ""],
        });
        expect(run.code).toBe(0);
        expect(run.stdout.trim()).toBe(first?.replies.at(-1)?.text ?? "");
        expect(run.stderr).toContain("Pending: 0 results");
      },
      LIMIT_MS,
    );
  });
}
