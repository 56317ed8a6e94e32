/** What a family of `/pruner` subcommands is made of. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import type { HostSnapshot } from "../host/host.ts";
import type { Pruner } from "../runtime.ts";
import { reasonOf } from "../text/text.ts";
import { visible } from "../text/visible.ts";

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

/** What has been typed behind a subcommand, and the names of the models that can summarise. */
export type CompletionInput = Pick<CommandInput, "pruner" | "args"> & { models?: readonly string[] };

/** One subcommand of `/pruner`. */
export interface Subcommand {
  name: string;
  /** What may follow the name, as the usage line shows it; absent where nothing may. */
  usage?: string;
  /** One line of help. */
  help: string;
  /** Completions of what follows the name. */
  complete?(input: CompletionInput): AutocompleteItem[];
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

/**
 * In a terminal the answer comes later, from the background: a host that waits for a command takes no prompt meanwhile.
 * Elsewhere it is waited for.
 */
export async function inBackground(host: HostSnapshot, running: Promise<CommandResult>): Promise<CommandResult> {
  const result = running.catch(failure);
  if (!host.terminal) return result;
  void result.then((made) => answer(host, made));
  return SHOWN;
}

export function failure(error: unknown): CommandResult {
  return { message: reasonOf(error), type: "error" };
}

/** Completions that are shown as what they stand for. */
export function completions(values: readonly string[]): AutocompleteItem[] {
  return values.map((value) => ({ value, label: value }));
}

/**
 * A notice where there is a user interface. Without one the host has no place for the answers of commands, and standard
 * output belongs to the reply or to the protocol, so they go to standard error. Never throws.
 */
export function answer({ ui }: Pick<HostSnapshot, "ui">, { message, type }: CommandResult): void {
  if (message === "") return;
  try {
    const shown = visible(message);
    if (ui) ui.notify(shown, type);
    else process.stderr.write(`${shown}\n`);
  } catch {
    // The session has been replaced, or nobody reads standard error.
  }
}
