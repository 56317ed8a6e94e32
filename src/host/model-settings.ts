/** Settings that hold for sessions of some models: `contextPrune.models`, by `provider/id` or a glob of it. */
import { parseGlob } from "../capture/globs.ts";
import { findSetting, SETTINGS_ROOT } from "../config.ts";
import { isRecord } from "../text/json.ts";
import { visible } from "../text/visible.ts";

/** Key of the object in the settings whose keys are models. */
export const MODELS_KEY = "models";

/** The model of a session. */
export interface ModelName {
  provider: string;
  id: string;
}

/** One settings file's values: what holds for every model, and what for some. */
export interface ModelLayers {
  base: unknown;
  byModel: readonly { pattern: string; values: unknown; applies: boolean }[];
  /** What is wrong with `models` itself. */
  problems: readonly string[];
}

/** Takes what is said by model out of an untrusted layer. */
export function splitByModel(layer: unknown, model: ModelName | undefined): ModelLayers {
  if (!isRecord(layer) || !Object.hasOwn(layer, MODELS_KEY)) return { base: layer, byModel: [], problems: [] };
  const { [MODELS_KEY]: models, ...base } = layer;
  const name = `${SETTINGS_ROOT}.${MODELS_KEY}`;
  if (!isRecord(models)) {
    return { base, byModel: [], problems: [`${name} is not an object with a model for each key; it is ignored.`] };
  }
  const problems: string[] = [];
  const byModel = Object.entries(models).flatMap(([pattern, values]) => {
    const test = pattern.includes("/") ? parseGlob(pattern, "drop") : undefined;
    if (!test) problems.push(`${name} names "${visible(pattern)}", which is no provider/model; it is ignored.`);
    return test ? [{ pattern, values, applies: model !== undefined && spellings(model).some(test) }] : [];
  });
  return { base, byModel, problems };
}

/** Dotted keys of the settings that an untrusted layer says something of. */
export function keysIn(values: unknown, prefix = ""): string[] {
  if (!isRecord(values)) return [];
  return Object.entries(values).flatMap(([name, value]) => {
    const key = prefix + name;
    return findSetting(key) ? [key] : keysIn(value, `${key}.`);
  });
}

/** An id may hold slashes, which `provider/*` is to take in too. */
function spellings({ provider, id }: ModelName): string[] {
  return [`${provider}/${id}`, `${provider}/${id.replaceAll("/", ":")}`];
}
