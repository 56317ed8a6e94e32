/** `/pruner keep`, `/pruner drop` and `/pruner restore`: what happens to one result. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import type { NamedResult, Pruner } from "../runtime.ts";
import { cut, grouped } from "../text/text.ts";
import type { ResultChoice } from "../types.ts";
import {
  type CommandInput,
  type CommandResult,
  type CompletionInput,
  info,
  NO_SESSION,
  type Subcommand,
  warning,
} from "./types.ts";

type Verb = "keep" | "drop" | "restore";

const MAX_TITLE_CHARS = 60;

const CHOICES: Readonly<Record<Verb, ResultChoice | null>> = { keep: "keep", drop: "drop", restore: null };

/** A command that says of one result what is to become of it. */
export function choiceCommand(name: Verb, help: string): Subcommand {
  return {
    name,
    usage: "[t12]",
    help,
    complete: (input) => completeResults(input, name),
    run: (input) => chooseResult(input, name),
  };
}

/** Keeps a result, drops it, or undoes both; without a name, lists those that this can be done to. */
function chooseResult({ pruner, args }: CommandInput, verb: Verb): CommandResult {
  const results = pruner.results();
  if (!results) return NO_SESSION;
  if (args === "") return info(listing(results, verb));
  const name = /^[TB]\d+$/.test(args) ? args.toLowerCase() : args;
  const before = pruner.chooseResult(name, CHOICES[verb]);
  if (before.length === 0) {
    return warning(`There is no result ${args} on this branch. /pruner ${verb} lists some, /pruner tree shows more.`);
  }
  return info(before.map((result) => outcome(result, verb, pruner)).join("\n"));
}

/** One sentence about what becomes of the result. */
export function outcome(result: NamedResult, verb: Verb, pruner: Pruner): string {
  const { ref, choice, isSeen, isUnderstood } = result;
  const name = `${ref} (${describe(result)})`;
  const undo = `/pruner restore ${ref} undoes that.`;
  const off = pruner.settings.enabled ? "" : " The pruner is off, so this holds once it is on.";
  if (verb === "keep") return `${name} stays word for word from the next request on. ${undo}${off}`;
  if (verb === "restore") {
    return choice === undefined
      ? `${name} was neither kept nor dropped.`
      : `${name} is treated as the settings say from the next request on.`;
  }
  if (!isUnderstood) return `${name} cannot be condensed: it holds content that no stub can replace.`;
  const when = isSeen ? "is condensed from the next request on" : "is condensed as soon as the model has answered it";
  return `${name} ${when}, unless its stub would be longer. ${undo}${off}`;
}

/** Refs of the results that the command can be used on. */
function completeResults({ pruner, args }: CompletionInput, verb: Verb): AutocompleteItem[] {
  return (pruner.results() ?? [])
    .filter((result) => isFor(result, verb) && result.ref.startsWith(args.toLowerCase()))
    .map((result) => ({ value: result.ref, label: result.ref, description: describe(result) }));
}

function isFor({ choice }: NamedResult, verb: Verb): boolean {
  return verb === "restore" ? choice !== undefined : choice !== CHOICES[verb];
}

function listing(results: readonly NamedResult[], verb: Verb): string {
  const fitting = results.filter((result) => isFor(result, verb));
  if (fitting.length === 0) return `There is no result to ${verb}.`;
  const lines = fitting.map((result) => {
    const said = result.choice === undefined ? "" : result.choice === "keep" ? ", kept" : ", dropped";
    return `${result.ref}  ${describe(result)}${said}`;
  });
  return [...lines, `For example: /pruner ${verb} ${fitting.at(-1)?.ref}`].join("\n");
}

function describe({ title, chars }: NamedResult): string {
  return `${cut(title, MAX_TITLE_CHARS)}, ${grouped(chars)} characters`;
}
