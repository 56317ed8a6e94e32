/** `/pruner model`: the summariser by name, with the models that are at hand. */
import { formatSetting, parseSetting } from "../config.js";
import { chooseSummarizer } from "../host-models.js";
import { cacheNote, changeSetting } from "../ui/settings-model.js";
import { describeChoice } from "./status.js";
import { type CommandInput, type CommandResult, info, type Subcommand, warning } from "./types.js";

const KEY = "summarizerModel";

export const modelCommands: readonly Subcommand[] = [
  {
    name: "model",
    usage: "[default|none|provider/model]",
    help: "Show or choose the model that writes the summaries",
    complete: ({ args, models = [] }) =>
      ["default", "none", ...models]
        .filter((name) => name.toLowerCase().includes(args.toLowerCase()))
        .map((value) => ({ value, label: value })),
    run: chooseModel,
  },
];

function chooseModel({ pruner, host, args }: CommandInput): CommandResult {
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
