/** `/pruner`: the table of its subcommands, dispatch and completions. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import { SETTINGS } from "../config.ts";
import type { HostSnapshot } from "../host/host.ts";
import type { Pruner } from "../runtime.ts";
import { nearest } from "../text/nearest.ts";
import { visible } from "../text/visible.ts";
import { compact, completeBlocks, setActive } from "./chains.ts";
import { choiceCommand } from "./choices.ts";
import { cleanUp, examine, report } from "./doctor.ts";
import { flushByHand } from "./flush.ts";
import { chooseModel, chooseThinking, completeModels } from "./model.ts";
import { listCommand } from "./protect.ts";
import { replay } from "./replay.ts";
import { openContext, openSettings, openTree } from "./screens.ts";
import { completeKeys, completeValues, runFormer, runSetting, setEnabled } from "./settings.ts";
import { statsOf, statsOfAll } from "./stats.ts";
import { statusOf } from "./status.ts";
import { type CommandResult, completions, failure, info, type Subcommand, warning } from "./types.ts";

/** Characters of a usage in the list of commands. */
const MAX_USAGE = 28;

/** Every subcommand, in the order of the help. */
export const SUBCOMMANDS: readonly Subcommand[] = [
  {
    name: "on",
    help: "Condense finished tool output from the next request on",
    run: (input) => setEnabled(input, true),
  },
  { name: "off", help: "Send the raw session from the next request on", run: (input) => setEnabled(input, false) },
  { name: "now", help: "Condense everything that is finished at once", run: (input) => flushByHand(input, false) },
  {
    name: "status",
    help: "Show what is condensed and pending, what it saves, what is next",
    run: ({ pruner, host }) => statusOf(pruner, host),
  },
  {
    name: "doctor",
    usage: "[--clean|--report]",
    help: "Check settings, model, files and extensions",
    complete: ({ args }) => completions(["--clean", "--report"].filter((option) => option.startsWith(args))),
    run: ({ pruner, host, args }) => {
      if (args === "--clean") return cleanUp(pruner, host);
      if (args === "--report") return report(pruner, host);
      return args === "" ? examine(pruner, host) : warning("Usage: /pruner doctor [--clean|--report]");
    },
  },
  {
    name: "stats",
    usage: "[--all]",
    help: "Show what the summariser has used, or what all sessions cost",
    complete: ({ args }) => ("--all".startsWith(args) ? [{ value: "--all", label: "--all" }] : []),
    run: (input) => {
      if (input.args === "--all") return statsOfAll(input);
      return input.args === "" ? statsOf(input.pruner) : warning("Usage: /pruner stats [--all]");
    },
  },
  { name: "replay", help: "Show what this session costs raw, and with these settings", run: replay },
  { name: "settings", help: "Show and change every setting", run: openSettings },
  { name: "tree", help: "Browse what is condensed, down to the originals", run: openTree },
  { name: "context", help: "Show where the window goes, before and after", run: openContext },
  {
    name: "compact",
    usage: "[words]",
    help: "As now, and compress every closed chain; words guide the summaries",
    run: compact,
  },
  {
    name: "decompress",
    usage: "[b1]",
    help: "Put a compressed chain back, or list the chains",
    complete: (input) => completeBlocks(input, true),
    run: (input) => setActive(input, false),
  },
  {
    name: "recompress",
    usage: "[b1]",
    help: "Compress a chain again, or list those put back",
    complete: (input) => completeBlocks(input, false),
    run: (input) => setActive(input, true),
  },
  choiceCommand("keep", "Keep one result word for word, or list results"),
  choiceCommand("drop", "Condense one result at once, whatever it costs"),
  choiceCommand("restore", "Undo keep or drop of one result"),
  {
    name: "model",
    usage: "[default|none|provider/model]",
    help: "Show or choose the model that writes the summaries",
    complete: completeModels,
    run: chooseModel,
  },
  {
    name: "thinking",
    usage: "[default|off|minimal|low|medium|high|xhigh]",
    help: "Show or choose how much the summariser thinks",
    complete: ({ args }) => completeValues("summarizerThinking", args),
    run: chooseThinking,
  },
  listCommand("protected-tools", "protectedTools", "whose output is never condensed"),
  listCommand("protected-paths", "protectedPaths", "which files are never condensed"),
  { name: "help", help: "Show this list", run: () => info(helpText()) },
];

/** Runs `/pruner <text>`. Always ends with something to tell the user, or with a screen; never throws. */
export async function runCommand(pruner: Pruner, host: HostSnapshot, text: string): Promise<CommandResult> {
  const [name = "", ...rest] = text.trim().split(/\s+/);
  const input = { pruner, host, args: rest.join(" ") };
  try {
    if (name === "") return host.terminal ? await openSettings(input) : info(helpText());
    const command = SUBCOMMANDS.find((candidate) => candidate.name === name.toLowerCase());
    if (!command) return runSetting(name, input) ?? runFormer(name, input) ?? unknown(name);
    if (input.args && !command.usage) return warning(`Usage: ${usageOf(command)}`);
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
  const commands = matching.map(({ name, help }) => ({ value: name, label: name, description: help }));
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
  if (items.length === 0) return null;
  return items.map((item) => (item.description ? { ...item, description: visible(item.description) } : item));
}

function unknown(name: string): CommandResult {
  const names = [...SUBCOMMANDS.map((command) => command.name), ...SETTINGS.map((setting) => setting.key)];
  const [close] = nearest(name, names);
  const suggestion = close ? ` Did you mean /pruner ${close}?` : "";
  return warning(`Unknown: /pruner ${name}.${suggestion}\n${helpText()}`);
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
