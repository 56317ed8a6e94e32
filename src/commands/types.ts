/** What a family of `/pruner` subcommands is made of. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import type { HostSnapshot } from "../host/host.js";
import type { Pruner } from "../runtime.js";

/** One sentence for the user, and how it is meant. */
export interface CommandResult {
  /** Empty where a screen has said all there is to say. */
  message: string;
  type: "info" | "warning" | "error";
}

export interface CommandInput {
  pruner: Pruner;
  host: HostSnapshot;
  /** What follows the subcommand's name, trimmed. */
  args: string;
}

/** One subcommand of `/pruner`. */
export interface Subcommand {
  name: string;
  /** What may follow the name, as the usage line shows it; empty for nothing. */
  usage: string;
  /** One line of help. */
  help: string;
  /** Completions of what follows the name. */
  complete?(input: Pick<CommandInput, "pruner" | "args"> & { models?: readonly string[] }): AutocompleteItem[];
  run(input: CommandInput): Promise<CommandResult> | CommandResult;
}

export function info(message: string): CommandResult {
  return { message, type: "info" };
}

export function warning(message: string): CommandResult {
  return { message, type: "warning" };
}

/** Nothing more to say. */
export const SHOWN: CommandResult = Object.freeze({ message: "", type: "info" });

export const NO_SESSION: CommandResult = { message: "The pruner could not read this session.", type: "warning" };

export function failure(error: unknown): CommandResult {
  return { message: error instanceof Error ? error.message : String(error), type: "error" };
}
