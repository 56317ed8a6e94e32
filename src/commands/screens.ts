/** `/pruner settings`, `/pruner tree` and `/pruner context`: screens in a terminal, text elsewhere. */
import { getMarkdownTheme } from "@mariozechner/pi-coding-agent";
import { formatSetting, SETTINGS, settingValue } from "../config.ts";
import { ContextScreen, contextChart, contextTitle } from "../ui/context-chart.ts";
import { contextShares } from "../ui/context-model.ts";
import { PLAIN } from "../ui/paint.ts";
import { SettingsScreen } from "../ui/settings-screen.ts";
import { showScreen } from "../ui/terminal.ts";
import { condensedTree } from "../ui/tree-model.ts";
import { treeText, treeTitle } from "../ui/tree-rows.ts";
import { TreeScreen } from "../ui/tree-screen.ts";
import { type CommandInput, type CommandResult, info, NO_SESSION, SHOWN } from "./types.ts";

/** Columns and lines of text where no terminal says how wide it is. */
const TEXT_WIDTH = 78;
const TEXT_LINES = 40;

/** The settings screen; in other modes the list of what is set. */
export async function openSettings({ pruner, host }: CommandInput): Promise<CommandResult> {
  if (!host.terminal) {
    const lines = SETTINGS.map(({ key }) => `${key}: ${formatSetting(key, settingValue(pruner.settings, key))}`);
    return info([...lines, "Change one with /pruner <setting> <value>."].join("\n"));
  }
  await showScreen(host, (stage) => new SettingsScreen(pruner, host, stage));
  return SHOWN;
}

/** What is condensed, down to the originals. */
export async function openTree({ pruner, host }: CommandInput): Promise<CommandResult> {
  const groups = condensedTree(pruner);
  if (!groups) return NO_SESSION;
  if (groups.length === 0) return info("Nothing is condensed on this branch yet.");
  if (!host.terminal) {
    return info(`${treeTitle(pruner.summary()?.condensed)}\n${treeText(groups, PLAIN, TEXT_WIDTH, TEXT_LINES)}`);
  }
  await showScreen(host, (stage) => new TreeScreen(pruner, stage, getMarkdownTheme()));
  return SHOWN;
}

/** Where the window goes, before and after. */
export async function openContext({ pruner, host }: CommandInput): Promise<CommandResult> {
  const view = pruner.contextView(host);
  if (!view) return NO_SESSION;
  const shares = contextShares(view, host.systemPrompt?.() ?? "");
  const usage = host.usage();
  if (!host.terminal) return info([contextTitle(shares), ...contextChart(shares, usage, PLAIN, TEXT_WIDTH)].join("\n"));
  await showScreen(host, (stage) => new ContextScreen(shares, usage, stage));
  return SHOWN;
}
