/** `/pruner protected-tools` and `/pruner protected-paths`. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import { unknownTools } from "../capture/protection.ts";
import { formatSetting, parseSetting } from "../config.ts";
import {
  type CommandInput,
  type CommandResult,
  type CompletionInput,
  completions,
  failure,
  info,
  type Subcommand,
  warning,
} from "./types.ts";

type ListKey = "protectedTools" | "protectedPaths";

const ACTIONS = ["add", "remove", "clear"];

/** A subcommand that shows or changes one of the lists of what is protected. */
export function listCommand(name: string, key: ListKey, what: string): Subcommand {
  return {
    name,
    usage: "[add|remove|clear] [a, b]",
    help: `Show or change ${what}`,
    complete: (input) => complete(key, input),
    run: (input) => changeList(name, key, input),
  };
}

/** The actions, and behind `remove` the names that are there. */
function complete(key: ListKey, { pruner, args }: CompletionInput): AutocompleteItem[] {
  const [, before, typed = ""] = /^(remove\s+(?:.*,\s*)?)(.*)$/.exec(args) ?? [];
  if (before === undefined) return completions(ACTIONS.filter((action) => action.startsWith(args)));
  const named = pruner.settings[key].filter((name) => name.toLowerCase().startsWith(typed.toLowerCase()));
  return named.map((name) => ({ value: `${before}${name}`, label: name }));
}

function changeList(name: string, key: ListKey, { pruner, host, args }: CommandInput): CommandResult {
  const current = pruner.settings[key];
  const [action = "", ...rest] = args.split(/\s+/);
  if (args === "") return info(current.length > 0 ? `${key}: ${formatSetting(key, current)}` : `${key} is empty.`);
  if (!ACTIONS.includes(action)) return warning(`Usage: /pruner ${name} [add|remove|clear] [a, b]`);
  const parsed = action === "clear" ? { ok: true as const, value: [] } : parseSetting(key, rest.join(" "));
  if (!parsed.ok) return failure(parsed.error);
  const named = Array.isArray(parsed.value) ? parsed.value : [];
  if (action !== "clear" && named.length === 0) return warning(`Usage: /pruner ${name} ${action} a, b`);
  const changed = {
    add: [...new Set([...current, ...named])],
    remove: current.filter((item) => !named.includes(item)),
    clear: [],
  }[action];
  if (changed === undefined || String(changed) === String(current))
    return info(`Nothing changed: ${formatSetting(key, current)}`);
  try {
    pruner.changeSettings(host, { [key]: changed });
  } catch (error) {
    return failure(error);
  }
  const now = pruner.settings[key];
  const said = now.length > 0 ? `${key}: ${formatSetting(key, now)}` : `${key} is empty now.`;
  const registered = host.registrations?.().tools.map((tool) => tool.name);
  const unknown = key === "protectedTools" && registered ? unknownTools(now, registered) : [];
  return unknown.length > 0 ? warning(`${said}. No tool is called ${unknown.join(", ")} now.`) : info(said);
}
