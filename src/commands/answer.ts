/** Telling what a command has to say, by the means of the mode. */
import type { HostSnapshot } from "../host/host.js";
import type { CommandResult } from "./types.js";

/**
 * A notice where there is a user interface. Without one the host has no place for the answers of commands, and standard
 * output belongs to the reply or to the protocol, so they go to standard error. Never throws.
 */
export function answer({ ui }: Pick<HostSnapshot, "ui">, { message, type }: CommandResult): void {
  if (message === "") return;
  try {
    if (ui) ui.notify(message, type);
    else process.stderr.write(`${message}\n`);
  } catch {
    // The session has been replaced, or nobody reads standard error.
  }
}
