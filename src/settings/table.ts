/** A table of settings made of rows: laying files over its defaults, and every way to read or show one of its values. */
import { isRecord } from "../text/json.ts";
import { nearest } from "../text/nearest.ts";
import type { Setting, SettingRow, SettingRows, SettingValue } from "./rows.ts";
import { checkValue, formatValue, readText, shown, shownKey } from "./values.ts";

/** What came of reading a value: the value, or one sentence that names the key, the text and what is allowed. */
export type SettingResult = { ok: true; value: SettingValue } | { ok: false; error: string };

/** The settings that hold, and one sentence for every value or key that could not be used. */
export interface ResolvedConfig<Config> {
  config: Config;
  warnings: string[];
}

/** Everything that can be done with a table of settings. Immutable. */
export type SettingsTable<Config> = ReturnType<typeof defineSettings<Config>>;

/**
 * Makes a table of its rows.
 * @param root name of the object in a settings file that holds the settings; warnings name keys by it
 * @param former keys by the names that they once had, in lower case without hyphens; `null` where the setting is gone
 */
export function defineSettings<Config>(
  root: string,
  rows: SettingRows<Config>,
  former: Readonly<Record<string, string | null>> = {},
) {
  const entries = Object.entries(rows as Readonly<Record<string, SettingRow>>);
  const settings: readonly Setting[] = deepFreeze(entries.map(([key, row]) => ({ ...row, key })));
  const byKey = new Map(settings.map((setting) => [setting.key, setting]));
  const keys = [...byKey.keys()];
  const defaults = new Map(settings.map((setting) => [setting.key, setting.default]));

  /** The setting of that exact (dotted) key. */
  function find(key: string): Setting | undefined {
    return byKey.get(key);
  }

  /**
   * Lays `layers` over the defaults, key by key, also inside nested groups; a later layer wins. Never throws.
   *
   * A layer is the untrusted value under the root in one settings file; `undefined` stands for a file without it. Each
   * bad value and each unknown key gives one warning, which begins with the layer's name in `sources` where there is
   * one. A bad value leaves what the layers below it said; of a list, the usable entries are kept. The config is the
   * caller's.
   */
  function resolve(layers: readonly unknown[], sources: readonly string[] = []): ResolvedConfig<Config> {
    const values = new Map(defaults);
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
      if (value === undefined) continue;
      const key = prefix + name;
      const is = `${root}.${shownKey(key)} is`;
      const setting = byKey.get(key);
      const fields = keys.filter((known) => known.startsWith(`${key}.`));
      if (!setting && fields.length === 0) {
        report(() => `${root}.${unknownKey(key)}`);
      } else if (name.includes(".")) {
        // A literal dot would make a second spelling of a nested key, and saving writes the nested one.
        report(() => `${is} written with dots; write it as nested objects. It is ignored.`);
      } else if (setting) {
        const checked = checkValue(setting, value);
        if (checked.ok) values.set(key, checked.value);
        if (checked.ok && !checked.ignored) continue;
        const slip = checked.ok ? "where only non-empty texts count" : `which is not ${setting.expected.inFile}`;
        report(() => `${is} ${shown(value)}, ${slip}; using ${shown(values.get(key) ?? null)}.`);
      } else if (isRecord(value)) {
        readGroup(value, `${key}.`, values, report);
      } else {
        const names = fields.map((field) => field.slice(key.length + 1));
        report(() => {
          const used = nested(new Map(names.map((field) => [field, values.get(`${key}.${field}`) ?? null])));
          return `${is} ${shown(value)}, which is not an object with ${names.join(", ")}; using ${shown(used)}.`;
        });
      }
    }
  }

  /** The key that a setting of that name has now: once it had another, or is spelled otherwise. `null` where it is gone. */
  function present(name: string): string | null | undefined {
    const plain = (text: string) => text.toLowerCase().replace(/[-_]/g, "");
    const same = keys.find((key) => plain(key) === plain(name));
    return same ?? (Object.hasOwn(former, plain(name)) ? former[plain(name)] : undefined);
  }

  function unknownKey(key: string): string {
    const now = present(key);
    if (now === null) return `${shownKey(key)} is not needed any more: remove it.`;
    if (now !== undefined && now.toLowerCase() !== key.toLowerCase()) return `${shownKey(key)} is called ${now} now.`;
    const [meant] = nearest(key, keys, 1);
    return `${shownKey(key)} is not a setting${meant ? `; did you mean ${meant}?` : "."}`;
  }

  /**
   * Reads a value that a person typed; spaces around it and the case of words do not matter. Never throws.
   *
   * Takes `on`, `off`, `true`, `false` for a switch; `2000`, `2_000`, `2,000` for a number; `0.8` or `80%` for a share;
   * `off`, `none` or `0` where a number can be off; `a, b` or a JSON list, and `none` for an empty one, for a list.
   */
  function parse(key: string, typed: string): SettingResult {
    const setting = byKey.get(key);
    if (!setting) return { ok: false, error: unknownKey(key) };
    const text = typed.trim();
    const checked = checkValue(setting, readText(setting, text));
    if (checked.ok) return { ok: true, value: checked.value };
    const names = setting.kind === "enum" ? setting.presets.map(({ value }) => value) : [];
    const [meant] = nearest(text, names, 1);
    const hint = meant ? ` Did you mean ${meant}?` : "";
    return { ok: false, error: `${key} cannot be ${shown(text)}: it is ${setting.expected.asText}.${hint}` };
  }

  /** Judges a value that is to be saved under `key`: stricter than loading, which makes the best of a list. */
  function check(key: string, value: unknown): SettingResult {
    const setting = byKey.get(key);
    if (!setting) return { ok: false, error: unknownKey(key) };
    const checked = checkValue(setting, value);
    if (checked.ok && !checked.ignored) return { ok: true, value: checked.value };
    return { ok: false, error: `${key} cannot be ${shown(value)}: it is ${setting.expected.inFile}.` };
  }

  /** The text from which `parse` reads this value again; JSON where the value does not suit the key. */
  function format(key: string, value: SettingValue): string {
    const setting = byKey.get(key);
    return setting && checkValue(setting, value).ok ? formatValue(value) : shown(value);
  }

  /** The value that `config` has under a (dotted) key. */
  function read(config: Readonly<Config>, key: string): SettingValue {
    let value: unknown = config;
    for (const name of key.split(".")) value = isRecord(value) ? value[name] : undefined;
    // Settings come out of the table and hold its kinds of values only.
    return (value ?? null) as SettingValue;
  }

  /** What differs from the defaults, as `key=value`; `parse` reads the values again. */
  function changes(config: Readonly<Config>): string[] {
    return settings.flatMap(({ key, default: shipped }) => {
      const text = format(key, read(config, key));
      return text === format(key, shipped) ? [] : [`${key}=${text}`];
    });
  }

  /** The defaults with checked values, by (dotted) key, laid over them; the last one of a key counts. */
  function withValues(values: Iterable<readonly [key: string, value: SettingValue]>): Config {
    return nested<Config>(new Map([...defaults, ...values]));
  }

  return Object.freeze({
    settings,
    defaults: deepFreeze(nested<Config>(defaults)),
    find,
    present,
    resolve,
    parse,
    check,
    format,
    read,
    changes,
    withValues,
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
  if (typeof value === "object" && value !== null && !Object.isFrozen(value) && !(value instanceof RegExp)) {
    Object.values(value).forEach(deepFreeze);
    Object.freeze(value);
  }
  return value;
}
