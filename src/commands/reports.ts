/** `/pruner status` and `/pruner doctor`. */
import { examine } from "./doctor.js";
import { statusOf } from "./status.js";
import type { Subcommand } from "./types.js";

export const reportCommands: readonly Subcommand[] = [
  {
    name: "status",
    usage: "",
    help: "Show what is condensed and pending, what it saves, what is next",
    run: ({ pruner, host }) => statusOf(pruner, host),
  },
  {
    name: "doctor",
    usage: "",
    help: "Check settings, model, files, extensions; say what to do",
    run: ({ pruner, host }) => examine(pruner, host),
  },
];
