import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Message } from "@mariozechner/pi-ai";
import { createFolders, type PiFolders } from "../support/folders.ts";
import { HOSTS, type Host, PRODUCT_ENTRY } from "../support/host-paths.ts";
import { FILES, SUMMARY_TEXT, scriptOf, TURNS } from "./conversation.ts";
import { missingTmux, play, Terminal, type TerminalOptions } from "./tmux.ts";

const reason = missingTmux();
const LIMIT_MS = 90_000;

let terminal: Terminal | undefined;
let folders: PiFolders | undefined;

afterEach(() => {
  terminal?.stop();
  folders?.remove();
  terminal = undefined;
  folders = undefined;
});

/** Condenses after each reply, whatever it costs. */
const CLOSING = { summarizerModel: "none", pruneOn: "agent-message" };

async function start(
  host: Host,
  contextPrune: Record<string, unknown>,
  options: Partial<TerminalOptions> & { theme?: string } = {},
): Promise<Terminal> {
  folders = createFolders(FILES);
  const settings = { contextPrune, ...(options.theme ? { theme: options.theme } : {}) };
  terminal = new Terminal(host, { folders, script: scriptOf(), settings, ...options });
  // The footer names the model once the host is ready.
  await terminal.see(/main( •|$)/m, 30_000);
  return terminal;
}

function saved(): Record<string, unknown> {
  return JSON.parse(readFileSync(join(folders?.agentDir ?? "", "settings.json"), "utf8")).contextPrune;
}

function resultsIn(messages: readonly Message[]): string {
  return messages
    .filter((message) => message.role === "toolResult")
    .map((message) => JSON.stringify(message.content))
    .join("\n");
}

for (const host of HOSTS) {
  describe.skipIf(reason !== undefined)(`in a terminal, ${host} host${reason ? ` (skipped: ${reason})` : ""}`, () => {
    test(
      "a setting changed on the settings screen is saved and holds at the next request",
      async () => {
        const running = await start(host, { summarizerModel: "none" }, { product: PRODUCT_ENTRY });
        const before = saved();
        await play(running, TURNS.slice(0, 1), 300);
        await running.submit("/pruner");
        await running.see("Pruner settings");
        await running.press("Space");
        await running.see("Saved: enabled is now off.");
        expect(saved()).toEqual({ ...before, enabled: false });

        await running.type("smallest");
        await running.see("→ Smallest batch");
        await running.press("Enter");
        await running.type("many");
        await running.press("Enter");
        await running.see(/minBatchChars cannot be "many"/);
        await running.press("BSpace", "BSpace", "BSpace", "BSpace");
        await running.type("2500");
        await running.press("Enter");
        await running.see("Saved: minBatchChars is now 2500.");
        expect(saved()).toEqual({ ...before, enabled: false, minBatchChars: 2500 });
        await running.press("Escape");
        await running.gone("Pruner settings");

        await running.submit(TURNS[1]?.prompt ?? "");
        await running.see("In the database");
        expect(resultsIn(running.requests().at(-1)?.messages ?? [])).not.toContain("condensed:");
        await running.submit("/pruner on");
        await running.see("Pruner on:");
        await running.submit(TURNS[2]?.prompt ?? "");
        await running.see("No, nothing tests them yet.");
        expect(resultsIn(running.requests().at(-1)?.messages ?? [])).toContain("condensed:");
      },
      LIMIT_MS,
    );

    test(
      "the tree leads to a summary and its original, the chart and the status answer",
      async () => {
        const running = await start(host, { summarizerModel: "scripted/sum" });
        await play(running, TURNS.slice(0, 2), 300);
        await running.see(/pruner [\d.]+k→[\d.]+k? \(-\d+%\)/);
        await running.submit("/pruner tree");
        await running.see("Condensed: ");
        await running.press("Up", "Up", "Up", "Up", "Right");
        await running.see("▾ 2 calls: read src/app.ts");
        await running.press("Down", "Enter");
        await running.see("Original of t1");
        const folded = await running.see("lines more, ctrl+o to expand");
        expect(folded).toContain("Exports createApp and loadRoutes.");
        await running.press("C-o");
        await running.see("ctrl+o fold");
        await running.press("PageDown");
        await running.see("app step 20");
        await running.press("Escape");
        await running.see("▾ 2 calls");
        await running.press("Escape");
        await running.gone("▾ 2 calls");

        if (host === "new") {
          // The transcript holds the summaries too, and expands with everything else.
          await running.press("C-o");
          await running.see("Exports createApp and loadRoutes.");
          await running.press("C-o");
          await running.gone("Exports createApp and loadRoutes.");
        }

        await running.submit("/pruner context");
        await running.see("Results, condensed");
        await running.press("Escape");
        await running.gone("Where the window goes");
        await running.submit("/pruner status");
        await running.see("Summaries by scripted/sum.");
      },
      LIMIT_MS,
    );

    test(
      "a flush by hand shows its progress, Escape ends it and nothing else, and one true sentence follows",
      async () => {
        const slow = { text: `${SUMMARY_TEXT} ${"and more of it ".repeat(40)}`, dripMs: 250 };
        const running = await start(
          host,
          { summarizerModel: "scripted/sum", pruneOn: "on-demand", summarizerConcurrency: 1 },
          {
            script: {
              ...scriptOf(slow),
              otherwise: { text: "A reply that takes its time and ends well", dripMs: 400 },
            },
          },
        );
        await play(running, TURNS.slice(0, 3), 300);
        await running.submit("Take your time.");
        await running.see("A reply that");
        await running.submit("/pruner now");
        const progress = await running.see(/● .*running +\d+ chars/);
        expect(progress).toContain("esc cancels");
        await running.press("Escape");
        await running.see(/Cancelled: nothing was condensed, 7 results stay pending\./);
        await running.gone("esc cancels");
        // The agent has not heard of the key.
        const screen = await running.see("ends well");
        expect(screen).not.toMatch(/abort/i);
        expect(screen.match(/Cancelled|Nothing condensed|Condensed \d/g)).toHaveLength(1);
        expect(running.requests().filter(({ model }) => model === "main")).toHaveLength(9);
      },
      LIMIT_MS,
    );

    test(
      "settings edited by hand hold after /reload, and /compact and /login are the host's own",
      async () => {
        const running = await start(host, { summarizerModel: "none" });
        await play(running, TURNS.slice(0, 2), 300);
        const file = join(folders?.agentDir ?? "", "settings.json");
        const settings = JSON.parse(readFileSync(file, "utf8"));
        settings.contextPrune.minBatchChars = 2345;
        writeFileSync(file, JSON.stringify(settings));
        await running.submit("/reload");
        await running.see(/reloaded/i);
        await running.submit("/pruner minBatchChars");
        await running.see("minBatchChars is 2345");

        await running.submit("/compact");
        await running.see(/compacted|compaction/i);
        await running.submit("/login");
        await running.see(/Select (provider|authentication)/i);
        await running.press("Escape");
        // None of them went to the model as a prompt.
        const prompts = JSON.stringify(running.requests().filter(({ model }) => model === "main"));
        expect(prompts).not.toMatch(/\/(reload|compact|login)/);
      },
      LIMIT_MS,
    );

    test.each([
      { columns: 60, rows: 20, theme: "dark" },
      { columns: 80, rows: 24, theme: "light" },
      { columns: 120, rows: 40, theme: "dark" },
    ])(
      "$columns columns, $rows rows, $theme theme: every screen stands whole, and every answer ends with its last line",
      async ({ columns, rows, theme }) => {
        const running = await start(host, CLOSING, { columns, rows, theme, product: PRODUCT_ENTRY });
        await play(running, TURNS.slice(0, 2), 300);
        for (const [command, title, content] of [
          ["/pruner settings", "Pruner settings", "→ Condensing"],
          ["/pruner tree", "Condensed: ", "▸ 2 calls: read src/db.ts"],
          ["/pruner context", "Where the window goes", "Results, condensed"],
        ] as const) {
          await running.submit(command);
          await running.see(title);
          const screen = await running.see(content);
          const lines = screen.split("\n");
          const top = lines.findLastIndex((line) => line.includes(title)) - 1;
          expect(lines[top]).toBe("─".repeat(columns));
          expect(lines.slice(top + 1)).toContain("─".repeat(columns));
          expect(screen).toContain("esc close");
          await running.press("Escape");
          await running.gone("esc close");
        }
        for (const [command, last] of [
          ["/pruner status", "Prompt cache: "],
          ["/pruner replay", /^ Replayed in [\d.]+ s with/m],
          ["/pruner doctor", "Everything is as it should be."],
          ["/pruner stats --all", "went out condensed"],
          ["/pruner help", /minBatchChars\s+2000/],
        ] as const) {
          await running.submit(command);
          await running.see(last);
          await running.see(/^pruner \S+→\S+ \(-\d+%\)$/m);
        }
      },
      LIMIT_MS,
    );
  });
}
