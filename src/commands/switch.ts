/** `/pruner on` and `/pruner off`. */
import { type CommandResult, failure, info, type Subcommand } from "./types.js";

export const switchCommands: readonly Subcommand[] = [
  {
    name: "on",
    usage: "",
    help: "Condense finished tool output from the next request on",
    run: (input) => setEnabled(input.pruner, input.host, true),
  },
  {
    name: "off",
    usage: "",
    help: "Send the raw session from the next request on",
    run: (input) => setEnabled(input.pruner, input.host, false),
  },
];

function setEnabled(
  pruner: Parameters<Subcommand["run"]>[0]["pruner"],
  host: Parameters<Subcommand["run"]>[0]["host"],
  enabled: boolean,
): CommandResult {
  try {
    pruner.changeSettings(host, { enabled });
  } catch (error) {
    return failure(error);
  }
  if (pruner.settings.enabled !== enabled) {
    return {
      message: `Saved, but the project's own settings keep the pruner ${enabled ? "off" : "on"}.`,
      type: "warning",
    };
  }
  return info(enabled ? "Pruner on: finished tool output is condensed." : "Pruner off: the next request is raw.");
}
