/** Reading, changing and explaining single settings, for the commands and the settings screen. */
import {
  formatSetting,
  SETTINGS,
  SETTINGS_ROOT,
  type Setting,
  type SettingKey,
  type SettingValue,
  settingValue,
} from "../config.ts";
import type { HostSnapshot } from "../host/host.ts";
import { chooseSummarizer } from "../host/models.ts";
import type { Pruner } from "../runtime.ts";
import { reasonOf } from "../text/text.ts";

/** What a change of a setting does to the provider's prompt cache, where it does anything. */
const CACHE_NOTES: Readonly<Partial<Record<SettingKey, string>>> = {
  enabled: "the next request rewrites the cache from the first condensed result on.",
  pruneOn: "each flush rewrites the prompt from its first change on; fewer flushes keep more of it cached.",
  "chainCompression.enabled": "compressing a chain rewrites the prompt from that chain on.",
  "chainCompression.rollingWindow":
    "a smaller window compresses more at the next flush, which rewrites the prompt there.",
  "chainCompression.batchSize": "larger groups rewrite the prompt less often.",
  "chainCompression.stripFinalAssistantThinking":
    "the next request rewrites the cache from the first compressed chain on.",
  "condenseArgs.enabled": "the next request rewrites the cache from the first call on whose arguments change.",
  "condenseArgs.minStringChars": "the next request rewrites the cache from the first call on whose arguments change.",
  "purgeErrors.enabled": "the next request rewrites the cache from the first failed call on.",
  "purgeErrors.minArgChars":
    "the next request rewrites the cache from the first failed call on whose arguments change.",
  maxImagesPerRequest: "dropping images rewrites the prompt from the first of them on, so they go in steps.",
  spillThreshold: "a lower limit also takes results that were sent before; the prompt is rewritten from there on.",
  autoBudgetThreshold: "each flush that it forces rewrites the prompt from its first change on.",
  budgetTurnDelta: "each flush that it forces rewrites the prompt from its first change on.",
  autoBudgetTokens: "each flush that it forces rewrites the prompt from its first change on.",
};

/** One sentence about the prompt cache, or `undefined` where a change of this setting does not touch it. */
export function cacheNote(key: string): string | undefined {
  return Object.hasOwn(CACHE_NOTES, key) ? `Prompt cache: ${CACHE_NOTES[key as SettingKey]}` : undefined;
}

/** The setting of that (dotted) key in any case. */
export function settingNamed(name: string): Setting | undefined {
  const wanted = name.toLowerCase();
  return SETTINGS.find((setting) => setting.key.toLowerCase() === wanted);
}

/** What came of a change: one sentence, and whether it took effect. */
export interface ChangeOutcome {
  message: string;
  type: "info" | "warning" | "error";
}

/** Saves one setting and applies it at once; not a model that the host could not ask. Never throws. */
export function changeSetting(pruner: Pruner, host: HostSnapshot, key: string, value: SettingValue): ChangeOutcome {
  try {
    // A name that no model has would only be noticed at the next flush.
    if (key === "summarizerModel" && typeof value === "string" && value.includes("/")) {
      const wanted = chooseSummarizer({ ...pruner.settings, summarizerModel: value }, host);
      if (wanted.kind === "missing") return { message: `Not changed: ${wanted.reason}.`, type: "error" };
    }
    pruner.changeSettings(host, { [key]: value });
  } catch (error) {
    return { message: reasonOf(error), type: "error" };
  }
  const wanted = formatSetting(key, value);
  const current = formatSetting(key, settingValue(pruner.settings, key));
  const models = pruner.modelsOf(key);
  if (current !== wanted && models !== undefined) {
    return { message: `Saved, but for this model ${byModel(models)} keeps ${key} at ${current}.`, type: "warning" };
  }
  if (current !== wanted) {
    return { message: `Saved, but the project's own settings keep ${key} at ${current}.`, type: "warning" };
  }
  return { message: `${key} is now ${current}.`, type: "info" };
}

/** Where a setting comes from that holds for some models alone. */
export function byModel(pattern: string): string {
  return `${SETTINGS_ROOT}.models["${pattern}"]`;
}
