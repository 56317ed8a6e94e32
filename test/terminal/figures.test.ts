/** What the screens, the replay and the host's own footer say of one session, side by side. */
import { afterAll, describe, expect, test } from "bun:test";
import { createFolders } from "../support/folders.ts";
import { HOSTS, type Host, PRODUCT_ENTRY } from "../support/host-paths.ts";
import { FILES, scriptOf, TURNS } from "./conversation.ts";
import { missingTmux, play, Terminal } from "./tmux.ts";

const reason = missingTmux();
const SETTINGS = { summarizerModel: "scripted/sum", pruneOn: "agent-message", protectedPaths: ["README.md"] };

/** The rows of the table, by host. */
const tables = new Map<Host, [place: string, said: string][]>();

afterAll(() => {
  for (const [host, rows] of tables)
    process.stdout.write(`\n${host} host\n${rows.map(([place, said]) => `  ${place}: ${said}`).join("\n")}\n`);
});

/** What the pattern finds on a screen whose lines are joined, as the host breaks them. */
function found(screen: string, pattern: RegExp): string[] {
  const match = pattern.exec(screen.replace(/\s+/g, " "));
  if (!match) throw new Error(`Not found: ${pattern}. The screen:\n${screen}`);
  return match.slice(1).map((figure) => figure ?? "");
}

/** `1.7%` of 200k, `27,384`, `28k`, `$0.10`: the number. */
function number(figure = ""): number {
  const [, digits = "", unit] = /([\d.,]+)(k?)/.exec(figure) ?? [];
  return Number(digits.replaceAll(",", "")) * (unit === "k" ? 1_000 : 1);
}

async function answersOf(host: Host) {
  const folders = createFolders(FILES);
  const terminal = new Terminal(host, {
    folders,
    script: scriptOf(),
    settings: { contextPrune: SETTINGS },
    columns: 120,
    rows: 60,
    product: PRODUCT_ENTRY,
  });
  try {
    await terminal.see(/main( •|$)/m, 30_000);
    await play(terminal, TURNS, 500);
    await terminal.submit("/pruner status");
    const status = await terminal.see("Prompt cache: ");
    await terminal.submit("/pruner context");
    const context = await terminal.see("Last reported by pi");
    await terminal.press("Escape");
    await terminal.submit("/pruner tree");
    const tree = await terminal.see("esc close");
    await terminal.press("Escape");
    await terminal.submit("/pruner replay");
    const replay = await terminal.see("Replayed in");
    await terminal.submit("/pruner stats --all");
    const stats = await terminal.see("on this machine");
    return { status, context, tree, replay, stats };
  } finally {
    terminal.stop();
    folders.remove();
  }
}

describe.skipIf(reason !== undefined)(`one session${reason ? ` (skipped: ${reason})` : ""}`, () => {
  test.each([...HOSTS])(
    "has the same figures on every screen of the %s host, and those of its footer",
    async (host) => {
      const { status, context, tree, replay, stats } = await answersOf(host);
      const bill = / (\$[\d.]+) instead of about (\$[\d.]+) \((-\d+%)\)/;
      const [paid, raw, change] = found(status, /This session: (\$[\d.]+) instead of about (\$[\d.]+) \((-\d+%)\)/);
      const [summaries] = found(status, /calls? of the summariser \((\$[\d.]+)\)/);
      const [condensed] = found(status, /Condensed: .*?, (\S+→\S+ \(-\d+%\)) tokens/);
      const [whole, sent] = found(status, /Conversation: about ([\d,]+) tokens, sent as about ([\d,]+)/);
      const [now] = found(status, /\(([\d,]+) of 200,000 tokens now\)/);
      const [total, totalSent] = found(context, /Where the window goes: (\S+) → (\S+) tokens/);
      const [system] = found(context, /System prompt [█ ]+ ([\d,.k]+)/);
      const [reported] = found(context, /Last reported by pi: ([\d,]+) of 200,000/);
      const [title, titleSent, titleChange] = found(tree, /Condensed: (\S+) → (\S+) tokens −(\d+%)/);
      const [replayed, replayedRaw] = found(replay, /costs (\$[\d.]+) instead of (\$[\d.]+) /);
      const [footer, window, line] = found(replay, / (\$[\d.]+) ([\d.]+%)\/200k .*pruner (\S+→\S+ \(-\d+%\))/);
      tables.set(host, [
        ["status, bill", `${paid} instead of about ${raw} (${change})`],
        ["stats --all, bill", (bill.exec(stats.slice(stats.indexOf("on this machine")))?.[0] ?? "").trim()],
        ["replay, bill", `${replayed} instead of ${replayedRaw}`],
        ["footer, cost", `${footer}${host === "old" ? `, without the summaries (${summaries})` : ""}`],
        ["status line, tokens", `${line}`],
        ["status, condensed", `${condensed}`],
        ["tree, title", `${title} → ${titleSent} −${titleChange}`],
        ["status, conversation", `${whole} → ${sent}`],
        ["context, title", `${total} → ${totalSent}, ${system} of it system prompt`],
        ["status, now", `${now}`],
        ["context, reported", `${reported}`],
        ["footer, window", `${window} of 200k`],
      ]);

      expect(stats).toContain(`on this machine: ${paid} instead of about ${raw} (${change})`);
      // The older host's footer knows only what its own model was paid.
      const billed = number(footer) + (host === "old" ? number(summaries) : 0);
      expect(billed.toFixed(2)).toBe(number(paid).toFixed(2));
      expect(Math.abs(number(replayedRaw) / number(raw) - 1)).toBeLessThan(0.06);
      expect(Math.abs(number(replayed) / number(paid) - 1)).toBeLessThan(0.1);
      expect(condensed).toBe(line);
      expect(`${title}→${titleSent} (-${titleChange})`).toBe(line ?? "");
      const round = (tokens: number) => Math.abs(tokens - number(total));
      expect(round(number(whole) + number(system))).toBeLessThanOrEqual(100);
      expect(Math.abs(number(sent) + number(system) - number(totalSent))).toBeLessThanOrEqual(100);
      expect(reported).toBe(now);
      expect(((number(reported) / 200_000) * 100).toFixed(1)).toBe(number(window).toFixed(1));
    },
    120_000,
  );
});
