/** `/pruner <key> [value]` for every setting of the table. */
import type { AutocompleteItem } from "@mariozechner/pi-tui";
import { formatSetting, parseSetting, presentKey, SETTINGS, type Setting, settingValue } from "../config.ts";
import type { Pruner } from "../runtime.ts";
import { byModel, cacheNote, changeSetting, settingNamed } from "../ui/settings-model.ts";
import { type CommandInput, type CommandResult, info, warning } from "./types.ts";

/** Shows or changes the setting called `name` (in any case); `undefined` where the table has none of that name. */
export function runSetting(name: string, { pruner, host, args }: CommandInput): CommandResult | undefined {
  const setting = settingNamed(name);
  if (!setting) return undefined;
  if (args === "") return info(describeSetting(setting, pruner));
  const parsed = parseSetting(setting.key, args);
  if (!parsed.ok) return warning(`${parsed.error}\nUsage: ${usageOf(setting)}`);
  const outcome = changeSetting(pruner, host, setting.key, parsed.value);
  const note = outcome.type === "info" ? cacheNote(setting.key) : undefined;
  return note ? { ...outcome, message: `${outcome.message}\n${note}` } : outcome;
}

/** The same for a name that a setting once had, or that is spelled otherwise; the answer names the present one. */
export function runFormer(name: string, input: CommandInput): CommandResult | undefined {
  const key = presentKey(name);
  if (key === undefined) return undefined;
  if (key === null) return warning(`/pruner ${name} is not needed any more.`);
  const result = runSetting(key, { ...input, args: input.args === "status" ? "" : input.args });
  return result && { ...result, message: `/pruner ${name} is called /pruner ${key} now.\n${result.message}` };
}

/** Keys that begin with what has been typed; none where nothing has been, since all of them would drown the commands. */
export function completeKeys(typed: string): AutocompleteItem[] {
  if (typed === "") return [];
  const wanted = typed.toLowerCase();
  const matching = SETTINGS.filter(({ key }) => key.toLowerCase().startsWith(wanted));
  return matching.map(({ key, help }) => ({ value: key, label: key, description: help }));
}

/** Presets of the setting called `name`, and the models where it names one, that hold what has been typed behind it. */
export function completeValues(name: string, typed: string, models: readonly string[] = []): AutocompleteItem[] {
  const setting = settingNamed(name);
  if (!setting) return [];
  const wanted = typed.trim().toLowerCase();
  const choices = [...setting.presets, ...models.map((model) => ({ value: model, label: "" }))];
  return choices
    .filter(({ value }) => value.toLowerCase().includes(wanted))
    .map(({ value, label }) => ({ value, label: value, description: label }));
}

function describeSetting(setting: Setting, pruner: Pruner): string {
  const current = formatSetting(setting.key, settingValue(pruner.settings, setting.key));
  const models = pruner.modelsOf(setting.key);
  const note = cacheNote(setting.key);
  return [
    `${setting.key} is ${current} (default ${formatSetting(setting.key, setting.default)}).`,
    setting.help,
    ...(models === undefined ? [] : [`For this model ${byModel(models)} holds.`]),
    ...(note ? [note] : []),
    `Usage: ${usageOf(setting)}`,
  ].join("\n");
}

function usageOf({ key, presets }: Setting): string {
  const values = presets.map(({ value }) => value).join(" | ");
  return `/pruner ${key} ${values ? `[${values}]` : "[value]"}`;
}

/** `/pruner on` and `/pruner off`. */
export function setEnabled({ pruner, host }: CommandInput, enabled: boolean): CommandResult {
  const { type, message } = changeSetting(pruner, host, "enabled", enabled);
  if (type === "error") return { type, message };
  if (type === "warning") {
    return warning(`Saved, but the project's own settings keep the pruner ${enabled ? "off" : "on"}.`);
  }
  return info(enabled ? "Pruner on: finished tool output is condensed." : "Pruner off: the next request is raw.");
}
