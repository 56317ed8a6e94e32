/** `/pruner`: the table of its subcommands, dispatch and completions. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import type { HostSnapshot } from "../host.js";
import { nearest } from "../nearest.js";
import type { Pruner } from "../runtime.js";
import { chainCommands } from "./chains.js";
import { flushCommands } from "./flush.js";
import { protectCommands } from "./protect.js";
import { switchCommands } from "./switch.js";
import { type CommandResult, failure, info, type Subcommand } from "./types.js";

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
  ...chainCommands,
  ...protectCommands,
  helpCommand,
];

/** Runs `/pruner <text>`. Always ends with something to tell the user; never throws. */
export async function runCommand(pruner: Pruner, host: HostSnapshot, text: string): Promise<CommandResult> {
  const [name = "", ...rest] = text.trim().split(/\s+/);
  const args = rest.join(" ");
  if (name === "") return info(helpText());
  const command = SUBCOMMANDS.find((candidate) => candidate.name === name.toLowerCase());
  if (!command) return unknown(name);
  if (args && !command.usage) return { message: `Usage: ${usageOf(command)}`, type: "warning" };
  try {
    return await command.run({ pruner, host, args });
  } catch (error) {
    return failure(error);
  }
}

/** Completions for what has been typed behind `/pruner `. */
export function completeCommand(pruner: Pruner, prefix: string): AutocompleteItem[] | null {
  const [, name = "", args] = /^\s*(\S*)(?:\s+(.*))?$/.exec(prefix) ?? [];
  if (args !== undefined)
    return nonEmpty(SUBCOMMANDS.find((command) => command.name === name)?.complete?.({ pruner, args }) ?? []);
  const matching = SUBCOMMANDS.filter((command) => command.name.startsWith(name.toLowerCase()));
  return nonEmpty(matching.map((command) => ({ value: command.name, label: command.name, description: command.help })));
}

function nonEmpty(items: AutocompleteItem[]): AutocompleteItem[] | null {
  return items.length > 0 ? items : null;
}

function unknown(name: string): CommandResult {
  const [close] = nearest(
    name,
    SUBCOMMANDS.map((command) => command.name),
  );
  const suggestion = close ? ` Did you mean /pruner ${close}?` : "";
  return { message: `Unknown: /pruner ${name}.${suggestion}\n${helpText()}`, type: "warning" };
}

function helpText(): string {
  const width = Math.max(...SUBCOMMANDS.map((command) => usageOf(command).length));
  return SUBCOMMANDS.map((command) => `${usageOf(command).padEnd(width)}  ${command.help}`).join("\n");
}

function usageOf(command: Subcommand): string {
  return `/pruner ${command.name}${command.usage ? ` ${command.usage}` : ""}`;
}
