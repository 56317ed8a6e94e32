/** `/pruner`: the table of its subcommands, dispatch and completions. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import { SETTINGS } from "../config.js";
import type { HostSnapshot } from "../host/host.js";
import type { Pruner } from "../runtime.js";
import { nearest } from "../text/nearest.js";
import { chainCommands } from "./chains.js";
import { flushCommands } from "./flush.js";
import { modelCommands } from "./model.js";
import { protectCommands } from "./protect.js";
import { replayCommands } from "./replay.js";
import { reportCommands } from "./reports.js";
import { openSettings, screenCommands } from "./screens.js";
import { completeKeys, completeValues, runSetting } from "./settings.js";
import { statsCommands } from "./stats.js";
import { switchCommands } from "./switch.js";
import { type CommandResult, failure, info, type Subcommand } from "./types.js";

/** Characters of a usage in the list of commands. */
const MAX_USAGE = 28;

const helpCommand: Subcommand = {
  name: "help",
  usage: "",
  help: "Show this list",
  run: () => info(helpText()),
};

/** Every subcommand, in the order of the help. */
export const SUBCOMMANDS: readonly Subcommand[] = [
  ...switchCommands,
  ...flushCommands,
  ...reportCommands,
  ...statsCommands,
  ...replayCommands,
  ...screenCommands,
  ...chainCommands,
  ...modelCommands,
  ...protectCommands,
  helpCommand,
];

/** Runs `/pruner <text>`. Always ends with something to tell the user, or with a screen; never throws. */
export async function runCommand(pruner: Pruner, host: HostSnapshot, text: string): Promise<CommandResult> {
  const [name = "", ...rest] = text.trim().split(/\s+/);
  const input = { pruner, host, args: rest.join(" ") };
  try {
    if (name === "") return host.terminal ? await openSettings(input) : info(helpText());
    const command = SUBCOMMANDS.find((candidate) => candidate.name === name.toLowerCase());
    if (!command) return runSetting(name, input) ?? unknown(name);
    if (input.args && !command.usage) return { message: `Usage: ${usageOf(command)}`, type: "warning" };
    return await command.run(input);
  } catch (error) {
    return failure(error);
  }
}

/**
 * Completions for what has been typed behind `/pruner `. Each stands for the whole of it, as the hosts expect.
 * @param models names of the models that can summarise
 */
export function completeCommand(
  pruner: Pruner,
  prefix: string,
  models?: () => readonly string[],
): AutocompleteItem[] | null {
  const [, name = "", args] = /^\s*(\S*)(?:\s+(.*))?$/.exec(prefix) ?? [];
  if (args !== undefined) return nonEmpty(completeArguments(pruner, name, args, models));
  const matching = SUBCOMMANDS.filter((command) => command.name.startsWith(name.toLowerCase()));
  const commands = matching.map((command) => ({
    value: command.name,
    label: command.name,
    description: command.help,
  }));
  return nonEmpty([...commands, ...completeKeys(name)]);
}

function completeArguments(
  pruner: Pruner,
  name: string,
  args: string,
  models: (() => readonly string[]) | undefined,
): AutocompleteItem[] {
  const command = SUBCOMMANDS.find((candidate) => candidate.name === name.toLowerCase());
  const isModel = name.toLowerCase() === "model" || name.toLowerCase() === "summarizermodel";
  const known = isModel ? models?.() : undefined;
  const values = command
    ? (command.complete?.({ pruner, args, models: known }) ?? [])
    : completeValues(name, args, known);
  return values.map((item) => ({ ...item, value: `${name} ${item.value}` }));
}

function nonEmpty(items: AutocompleteItem[]): AutocompleteItem[] | null {
  return items.length > 0 ? items : null;
}

function unknown(name: string): CommandResult {
  const names = [...SUBCOMMANDS.map((command) => command.name), ...SETTINGS.map((setting) => setting.key)];
  const [close] = nearest(name, names);
  const suggestion = close ? ` Did you mean /pruner ${close}?` : "";
  return { message: `Unknown: /pruner ${name}.${suggestion}\n${helpText()}`, type: "warning" };
}

function helpText(): string {
  const rows = SUBCOMMANDS.map((command): [string, string] => [shortUsageOf(command), command.help]);
  rows.push(["/pruner <setting> [value]", "Show or change any setting: /pruner minBatchChars 2000"]);
  const width = Math.max(...rows.map(([usage]) => usage.length));
  return rows.map(([usage, help]) => `${usage.padEnd(width)}  ${help}`).join("\n");
}

/** Long lists of arguments would push the help out of sight; the command itself tells them. */
function shortUsageOf(command: Subcommand): string {
  const usage = usageOf(command);
  return usage.length <= MAX_USAGE ? usage : `/pruner ${command.name} […]`;
}

function usageOf(command: Subcommand): string {
  return `/pruner ${command.name}${command.usage ? ` ${command.usage}` : ""}`;
}
