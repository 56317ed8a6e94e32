/** `/pruner status` and `/pruner doctor`. */
import { cleanUp, examine } from "./doctor.js";
import { statusOf } from "./status.js";
import { type Subcommand, warning } from "./types.js";

export const reportCommands: readonly Subcommand[] = [
  {
    name: "status",
    usage: "",
    help: "Show what is condensed and pending, what it saves, what is next",
    run: ({ pruner, host }) => statusOf(pruner, host),
  },
  {
    name: "doctor",
    usage: "[--clean]",
    help: "Check settings, model, files, extensions; say what to do",
    complete: ({ args }) => ("--clean".startsWith(args) ? [{ value: "--clean", label: "--clean" }] : []),
    run: ({ pruner, host, args }) => {
      if (args === "--clean") return cleanUp(pruner, host);
      return args === "" ? examine(pruner, host) : warning("Usage: /pruner doctor [--clean]");
    },
  },
];
