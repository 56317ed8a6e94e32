/** `/pruner model` and `/pruner thinking`: the summariser by name, with the models that are at hand, and how much it thinks. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import { formatSetting, parseSetting } from "../config.ts";
import { chooseSummarizer, thinkingOf } from "../host/models.ts";
import { cacheNote, changeSetting } from "../ui/settings-model.ts";
import { describeChoice } from "./status.ts";
import { type CommandInput, type CommandResult, type CompletionInput, completions, info, warning } from "./types.ts";

const KEY = "summarizerModel";
const THINKING_KEY = "summarizerThinking";

/** Names that `summarizerModel` takes, and that hold what has been typed. */
export function completeModels({ args, models = [] }: CompletionInput): AutocompleteItem[] {
  const wanted = args.toLowerCase();
  return completions(["auto", "default", "none", ...models].filter((name) => name.toLowerCase().includes(wanted)));
}

/** Shows or chooses the model that writes the summaries. */
export function chooseModel({ pruner, host, args }: CommandInput): CommandResult {
  const describe = () => describeChoice(chooseSummarizer(pruner.settings, host), host);
  if (args === "") return info(`${KEY} is ${formatSetting(KEY, pruner.settings.summarizerModel)}: ${describe()}`);
  const parsed = parseSetting(KEY, args);
  if (!parsed.ok) return warning(parsed.error);
  // A name that no model has would only be noticed at the next flush.
  const wanted = chooseSummarizer({ ...pruner.settings, summarizerModel: String(parsed.value) }, host);
  if (wanted.kind === "missing") return warning(`Not changed: ${wanted.reason}.`);
  const outcome = changeSetting(pruner, host, KEY, parsed.value);
  const note = cacheNote(KEY);
  const lines = [
    outcome.message,
    ...(outcome.type === "info" ? [`Summariser: ${describe()}`] : []),
    ...(note ? [note] : []),
  ];
  return { ...outcome, message: lines.join("\n") };
}

/** Shows or chooses how much it thinks. */
export function chooseThinking({ pruner, host, args }: CommandInput): CommandResult {
  const describe = () => describeThinking(thinkingOf(pruner.settings, host));
  if (args === "") return info(`${THINKING_KEY} is ${pruner.settings.summarizerThinking}. ${describe()}`);
  const parsed = parseSetting(THINKING_KEY, args);
  if (!parsed.ok) return warning(parsed.error);
  const outcome = changeSetting(pruner, host, THINKING_KEY, parsed.value);
  return outcome.type === "info" ? { ...outcome, message: `${outcome.message} ${describe()}` } : outcome;
}

/** What comes of the setting with the model that is chosen, which may know other levels. */
function describeThinking(thinking: ReturnType<typeof thinkingOf>): string {
  if (!thinking) return "No model is chosen that could think.";
  const { name, level, named } = thinking;
  const does = level === "off" ? `${name} does not think` : `${name} thinks at level ${level}`;
  return named ? `${does}, as its name in ${KEY} says.` : `${does}.`;
}
