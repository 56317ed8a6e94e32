/** A table of settings made of rows: laying files over its defaults, and every way to read or show one of its values. */
import { isRecord } from "../text/json.js";
import { nearest } from "../text/nearest.js";
import type { Setting, SettingRow, SettingRows, SettingValue } from "./rows.js";
import {
  checkValue,
  expectedAsText,
  expectedInFile,
  formatValue,
  presetsOf,
  readText,
  shown,
  shownKey,
} from "./values.js";

/** What came of reading a value: the value, or one sentence that names the key, the text and what is allowed. */
export type SettingResult = { ok: true; value: SettingValue } | { ok: false; error: string };

/** The settings that hold, and one sentence for every value or key that could not be used. */
export interface ResolvedConfig<Config> {
  config: Config;
  warnings: string[];
}

/** Everything that can be done with a table of settings. Immutable. */
export interface SettingsTable<Config> {
  /** In the order of the table. */
  readonly settings: readonly Setting[];
  readonly defaults: Config;
  find(key: string): Setting | undefined;
  /**
   * Lays `layers` over the defaults, key by key, also inside nested groups; a later layer wins. Never throws.
   *
   * A layer is the untrusted value under the root in one settings file; `undefined` stands for a file without it. Each
   * bad value and each unknown key gives one warning, which begins with the layer's name in `sources` where there is
   * one. A bad value leaves what the layers below it said; of a list, the usable entries are kept. The config is the
   * caller's.
   */
  resolve(layers: readonly unknown[], sources?: readonly string[]): ResolvedConfig<Config>;
  /**
   * Reads a value that a person typed; spaces around it and the case of words do not matter. Never throws.
   *
   * Takes `on`, `off`, `true`, `false` for a switch; `2000`, `2_000`, `2,000` for a number; `0.8` or `80%` for a share;
   * `off`, `none` or `0` where a number can be off; `a, b` or a JSON list, and `none` for an empty one, for a list.
   */
  parse(key: string, text: string): SettingResult;
  /** Judges a value that is to be saved under `key`: stricter than loading, which makes the best of a list. */
  check(key: string, value: unknown): SettingResult;
  /** The text from which `parse` reads this value again; JSON where the value does not suit the key. */
  format(key: string, value: SettingValue): string;
}

/**
 * Makes a table of its rows.
 * @param root name of the object in a settings file that holds the settings; warnings name keys by it
 */
export function defineSettings<Config>(root: string, rows: SettingRows<Config>): SettingsTable<Config> {
  const entries = Object.entries(rows as Readonly<Record<string, SettingRow>>);
  const settings = entries.map(([key, row]): Setting => deepFreeze({ ...row, key, presets: presetsOf(row) }));
  const byKey = new Map(settings.map((setting) => [setting.key, setting]));
  const keys = [...byKey.keys()];
  const groups = new Set(keys.flatMap((key) => (key.includes(".") ? [key.slice(0, key.lastIndexOf("."))] : [])));
  for (const group of groups) if (group.includes(".")) groups.add(group.slice(0, group.lastIndexOf(".")));
  const defaultValues = new Map(settings.map((setting) => [setting.key, setting.default]));

  function unknownKey(key: string): string {
    const [meant] = nearest(key, keys, 1);
    return `${shownKey(key)} is not a setting${meant ? `; did you mean ${meant}?` : "."}`;
  }

  function resolve(layers: readonly unknown[], sources: readonly string[] = []): ResolvedConfig<Config> {
    const values = new Map(defaultValues);
    // What is used instead of a bad value is known once every layer has been read.
    const problems: (() => string)[] = [];
    layers.forEach((layer, index) => {
      if (layer === undefined) return;
      const source = sources[index];
      const report = (problem: () => string) => problems.push(() => `${source ? `${source}: ` : ""}${problem()}`);
      if (isRecord(layer)) readGroup(layer, "", values, report);
      else report(() => `${root} is ${shown(layer)}, which is not an object of settings; it is ignored.`);
    });
    return { config: nested<Config>(values), warnings: problems.map((problem) => problem()) };
  }

  function readGroup(
    group: Readonly<Record<string, unknown>>,
    prefix: string,
    values: Map<string, SettingValue>,
    report: (problem: () => string) => void,
  ): void {
    for (const [name, value] of Object.entries(group)) {
      const key = prefix + name;
      const path = `${root}.${shownKey(key)}`;
      if (value === undefined) continue;
      // A literal dot would make a second spelling of a nested key, and saving writes the nested one.
      if (name.includes(".") && (byKey.has(key) || groups.has(key))) {
        report(() => `${path} is written with dots; write it as nested objects. It is ignored.`);
        continue;
      }
      const setting = byKey.get(key);
      if (setting) {
        const checked = checkValue(setting, value);
        const used = () => shown(values.get(key) ?? null);
        if (!checked.ok) {
          report(() => `${path} is ${shown(value)}, which is not ${expectedInFile(setting)}; using ${used()}.`);
          continue;
        }
        values.set(key, checked.value);
        if (checked.ignored)
          report(() => `${path} is ${shown(value)}, where only non-empty texts count; using ${used()}.`);
      } else if (!groups.has(key)) {
        report(() => `${root}.${unknownKey(key)}`);
      } else if (isRecord(value)) {
        readGroup(value, `${key}.`, values, report);
      } else {
        report(() => {
          const fields = keys
            .filter((known) => known.startsWith(`${key}.`))
            .map((known) => known.slice(key.length + 1));
          const used = [...values].filter(([known]) => known.startsWith(`${key}.`));
          const instead = shown(nested(new Map(used.map(([known, at]) => [known.slice(key.length + 1), at]))));
          return `${path} is ${shown(value)}, which is not an object with ${fields.join(", ")}; using ${instead}.`;
        });
      }
    }
  }

  return Object.freeze({
    settings: Object.freeze(settings),
    defaults: deepFreeze(nested<Config>(defaultValues)),
    find: (key: string) => byKey.get(key),
    resolve,
    parse(key: string, text: string): SettingResult {
      const setting = byKey.get(key);
      if (!setting) return { ok: false, error: unknownKey(key) };
      const checked = checkValue(setting, readText(setting, text.trim()));
      if (checked.ok) return { ok: true, value: checked.value };
      const [meant] = setting.kind === "enum" ? nearest(text.trim(), Object.keys(setting.choices), 1) : [];
      const hint = meant ? ` Did you mean ${meant}?` : "";
      return { ok: false, error: `${key} cannot be ${shown(text.trim())}: it is ${expectedAsText(setting)}.${hint}` };
    },
    check(key: string, value: unknown): SettingResult {
      const setting = byKey.get(key);
      if (!setting) return { ok: false, error: unknownKey(key) };
      const checked = checkValue(setting, value);
      if (checked.ok && !checked.ignored) return { ok: true, value: checked.value };
      return { ok: false, error: `${key} cannot be ${shown(value)}: it is ${expectedInFile(setting)}.` };
    },
    format(key: string, value: SettingValue): string {
      const setting = byKey.get(key);
      return setting && checkValue(setting, value).ok ? formatValue(value) : shown(value);
    },
  });
}

/** Turns dotted keys into nested objects, lists copied. That the result is a `Config` follows from `SettingRows`. */
function nested<Config>(values: ReadonlyMap<string, SettingValue>): Config {
  const root: Record<string, unknown> = {};
  for (const [key, value] of values) {
    const path = key.split(".");
    const field = path.pop() ?? key;
    let group = root;
    for (const name of path) {
      const child = group[name];
      const next = isRecord(child) ? child : {};
      group[name] = next;
      group = next;
    }
    group[field] = Array.isArray(value) ? [...value] : value;
  }
  return root as Config;
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.values(value).forEach(deepFreeze);
    Object.freeze(value);
  }
  return value;
}
