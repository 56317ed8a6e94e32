/**
 * The settings under `contextPrune`, as one declarative table.
 *
 * Loading, the settings overlay, `/pruner <key> <value>` and the generated documentation all read this table, so that a
 * setting is described in one place. A new setting is a field of `ContextPruneConfig` and a row here; the compiler asks
 * for the row. A nested group of the interface is addressed by dotted keys (`group.field`).
 */
import { nearest } from "./nearest.js";
import { AUTO_BUDGET_PRESETS, type ContextPruneConfig } from "./types.js";

/** Name of the object in pi's `settings.json` that holds all of these settings. */
export const SETTINGS_ROOT = "contextPrune";

/** Characters of a bad value that a warning shows. */
const MAX_SHOWN_CHARS = 80;

/** Any value that a setting can have. `null` means off. */
export type SettingValue = boolean | number | string | readonly string[] | null;

/** Heading under which a setting stands in the overlay and in the documentation. */
export type SettingGroup = "General" | "Summaries" | "What is condensed" | "Chains" | "Oversized output and budgets";

/** A value worth offering: the text that `parseSetting` takes, and what to call it. */
export interface SettingPreset {
  readonly value: string;
  readonly label: string;
}

interface RowText {
  /** Two or three words for a list of settings. */
  readonly label: string;
  readonly group: SettingGroup;
  /** One line that says what the setting does. */
  readonly help: string;
}

/** A switch. */
export interface BooleanRow extends RowText {
  readonly kind: "boolean";
  readonly default: boolean;
}

/** A whole number from `min` to `max`, both included. */
export interface IntegerRow extends RowText {
  readonly kind: "integer";
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly presets: readonly SettingPreset[];
}

/** A whole number from `min` to `max`, or `null` for off. `min` is above 0, so that 0 can be read as off. */
export interface OptionalIntegerRow extends RowText {
  readonly kind: "optional-integer";
  readonly default: number | null;
  readonly min: number;
  readonly max: number;
  readonly presets: readonly SettingPreset[];
}

/** A share above 0 and up to 1, or `null` for off. 0 is read as off. */
export interface FractionRow extends RowText {
  readonly kind: "fraction";
  readonly default: number | null;
  readonly presets: readonly SettingPreset[];
}

/** One of a few names. `choices` gives every name its label. */
export interface EnumRow<Value extends string = string> extends RowText {
  readonly kind: "enum";
  readonly default: Value;
  readonly choices: Readonly<Record<Value, string>>;
}

/** Text that `isValid` accepts; `expected` says in words what that is. */
export interface StringRow extends RowText {
  readonly kind: "string";
  readonly default: string;
  readonly expected: string;
  readonly isValid: (text: string) => boolean;
  readonly presets: readonly SettingPreset[];
}

/** A list of names or patterns, none of them empty. */
export interface ListRow extends RowText {
  readonly kind: "list";
  readonly default: readonly string[];
  readonly presets: readonly SettingPreset[];
}

export type SettingRow = BooleanRow | IntegerRow | OptionalIntegerRow | FractionRow | EnumRow | StringRow | ListRow;

/** A row with its (dotted) key, and presets whatever its kind. */
export type Setting = SettingRow & { readonly key: string; readonly presets: readonly SettingPreset[] };

/** The dotted keys of all settings of a config type. */
export type SettingKeyOf<Config> = {
  [Name in keyof Config & string]: Config[Name] extends SettingValue ? Name : `${Name}.${SettingKeyOf<Config[Name]>}`;
}[keyof Config & string];

/** Type of the setting that a dotted key names. */
export type SettingValueOf<Config, Key extends string> = Key extends keyof Config
  ? Config[Key]
  : Key extends `${infer Group}.${infer Rest}`
    ? Group extends keyof Config
      ? SettingValueOf<Config[Group], Rest>
      : never
    : never;

type RowOf<Value> = [Value] extends [boolean]
  ? BooleanRow
  : [Value] extends [readonly string[]]
    ? ListRow
    : [Value] extends [number]
      ? IntegerRow
      : [Value] extends [number | null]
        ? FractionRow | OptionalIntegerRow
        : [Value] extends [string]
          ? string extends Value
            ? StringRow
            : EnumRow<Value>
          : never;

/** The rows of a config type: exactly one for each of its keys, of a kind that fits the key's type. */
export type SettingRows<Config> = {
  readonly [Key in SettingKeyOf<Config>]: RowOf<SettingValueOf<Config, Key>>;
};

/** Key of a setting of this extension. */
export type SettingKey = SettingKeyOf<ContextPruneConfig>;

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
  /** See `resolveConfig`. */
  resolve(layers: readonly unknown[], sources?: readonly string[]): ResolvedConfig<Config>;
  /** See `parseSetting`. */
  parse(key: string, text: string): SettingResult;
  /** See `checkSetting`. */
  check(key: string, value: unknown): SettingResult;
  /** See `formatSetting`. */
  format(key: string, value: SettingValue): string;
}

/** Makes a table of its rows. */
export function defineSettings<Config>(rows: SettingRows<Config>): SettingsTable<Config> {
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
      else report(() => `${SETTINGS_ROOT} is ${shown(layer)}, which is not an object of settings; it is ignored.`);
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
      const path = `${SETTINGS_ROOT}.${shownKey(key)}`;
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
        report(() => `${SETTINGS_ROOT}.${unknownKey(key)}`);
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

type Checked = { ok: true; value: SettingValue; ignored?: true } | { ok: false };

const BAD: Checked = Object.freeze({ ok: false });

/** The value that an untrusted one stands for, in a copy of its own. */
function checkValue(setting: Setting, value: unknown): Checked {
  switch (setting.kind) {
    case "boolean":
      return typeof value === "boolean" ? { ok: true, value } : BAD;
    case "integer":
      return isInteger(value, setting) ? { ok: true, value } : BAD;
    case "optional-integer":
      if (value === null || value === 0) return { ok: true, value: null };
      return isInteger(value, setting) ? { ok: true, value } : BAD;
    case "fraction":
      if (value === null || value === 0) return { ok: true, value: null };
      return typeof value === "number" && value > 0 && value <= 1 ? { ok: true, value } : BAD;
    case "enum":
      return typeof value === "string" && Object.hasOwn(setting.choices, value) ? { ok: true, value } : BAD;
    case "string":
      return typeof value === "string" && setting.isValid(value) ? { ok: true, value } : BAD;
    case "list": {
      if (!Array.isArray(value)) return BAD;
      const items: readonly unknown[] = value;
      const names = items.filter((item): item is string => typeof item === "string" && item.trim() !== "");
      if (names.length === items.length) return { ok: true, value: [...new Set(names)] };
      // One slip in a list must not undo its other entries: each may be what keeps some output from being condensed.
      return names.length > 0 ? { ok: true, value: [...new Set(names)], ignored: true } : BAD;
    }
  }
}

function isInteger(value: unknown, { min, max }: IntegerRow | OptionalIntegerRow): value is number {
  return Number.isInteger(value) && typeof value === "number" && value >= min && value <= max;
}

/** What a typed text says, for `checkValue` to judge; text that says nothing of the kind is given back as it is. */
function readText(setting: Setting, text: string): unknown {
  const word = text.toLowerCase();
  const isOff = word === "off" || word === "none" || word === "null";
  switch (setting.kind) {
    case "boolean":
      if (word === "on" || word === "true") return true;
      return word === "off" || word === "false" ? false : text;
    case "integer":
      return readNumber(text) ?? text;
    case "optional-integer":
      return isOff ? null : (readNumber(text) ?? text);
    case "fraction":
      if (isOff) return null;
      return text.endsWith("%") ? percentToFraction(text) : (readNumber(text) ?? text);
    case "enum":
      return Object.keys(setting.choices).find((choice) => choice.toLowerCase() === word) ?? text;
    case "string":
      return text;
    case "list":
      return readList(text);
  }
}

/** Digits with an optional fraction; `_` between digits, or `,` between groups of three. */
function readNumber(text: string): number | undefined {
  if (!/^-?(\d+(_\d+)*|\d{1,3}(,\d{3})+|(?=\.))(\.\d+)?$/.test(text)) return undefined;
  return Number(text.replace(/[_,]/g, ""));
}

function percentToFraction(text: string): unknown {
  const percent = readNumber(text.slice(0, -1).trimEnd());
  return percent === undefined ? text : percent / 100;
}

/** Names between commas, or a JSON list. A comma inside braces belongs to a pattern. */
function readList(text: string): unknown {
  if (text.toLowerCase() === "none") return [];
  if (text.startsWith("[") && text.endsWith("]")) {
    try {
      return JSON.parse(text);
    } catch {
      // A pattern may begin and end with a bracket too.
    }
  }
  const names = text.split(/,(?![^{]*\})/).map((name) => name.trim());
  const named = names.filter((name) => name !== "");
  return named.length > 0 ? named : text;
}

function formatValue(value: SettingValue): string {
  if (value === null) return "off";
  if (typeof value === "boolean") return value ? "on" : "off";
  if (typeof value !== "object") return String(value);
  if (value.length === 0) return "none";
  const plain = value.join(", ");
  const json = JSON.stringify(value);
  // A name that holds a comma or looks like JSON is only understood in a JSON list.
  return JSON.stringify(readList(plain)) === json ? plain : json;
}

function presetsOf(row: SettingRow): readonly SettingPreset[] {
  switch (row.kind) {
    case "boolean":
      return [
        { value: "on", label: "On" },
        { value: "off", label: "Off" },
      ];
    case "enum":
      return Object.entries(row.choices).map(([value, label]) => ({ value, label }));
    default:
      return row.presets;
  }
}

function expectedInFile(setting: Setting): string {
  switch (setting.kind) {
    case "boolean":
      return "true or false";
    case "optional-integer":
    case "fraction":
      return `${numberRange(setting)}, or null for off`;
    case "enum":
      return `one of ${Object.keys(setting.choices).map(shown).join(", ")}`;
    case "list":
      return "a list of names";
    case "integer":
      return numberRange(setting);
    case "string":
      return setting.expected;
  }
}

function expectedAsText(setting: Setting): string {
  switch (setting.kind) {
    case "boolean":
      return "on or off";
    case "optional-integer":
    case "fraction":
      return `${numberRange(setting)}, or off`;
    case "enum":
      return `one of ${Object.keys(setting.choices).join(", ")}`;
    case "list":
      return "a list of names separated by commas, or none";
    case "integer":
      return numberRange(setting);
    case "string":
      return setting.expected;
  }
}

function numberRange(setting: IntegerRow | OptionalIntegerRow | FractionRow): string {
  if (setting.kind === "fraction") return "a number above 0 and up to 1 (0.8 for 80%)";
  return `a whole number from ${grouped(setting.min)} to ${grouped(setting.max)}`;
}

/** Digits in groups of three, whatever the locale of the process. */
function grouped(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A value as JSON shows it, on one line and cut to a readable length, without control characters. */
function shown(value: unknown): string {
  return clean(typeof value === "number" ? String(value) : (safeJson(value) ?? String(value)));
}

function safeJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

function shownKey(key: string): string {
  return /^[\w.-]+$/.test(key) && key.length <= MAX_SHOWN_CHARS ? key : shown(key);
}

function clean(text: string): string {
  const line = text.replace(/\p{Cc}/gu, " ");
  if (line.length <= MAX_SHOWN_CHARS) return line;
  // The cut may fall between the halves of a surrogate pair.
  return `${line.slice(0, MAX_SHOWN_CHARS).replace(/[\uD800-\uDBFF]$/, "")}…`;
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

/** True for an object with keys, as JSON has them: not for `null`, not for a list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The table of this extension's settings. */
export const SETTINGS_TABLE: SettingsTable<ContextPruneConfig> = defineSettings<ContextPruneConfig>({
  enabled: {
    kind: "boolean",
    default: true,
    label: "Condensing",
    group: "General",
    help: "Condense finished tool output. Off sends the raw session from the next request on.",
  },
  pruneOn: {
    kind: "enum",
    default: "agent-message",
    choices: {
      "agent-message": "After each closing reply",
      "every-turn": "After every tool turn",
      "on-context-tag": "After a call of a context-tag tool",
      "on-demand": "Only on /pruner now",
    },
    label: "When to condense",
    group: "General",
    help: "When finished tool output is replaced. Each time rewrites the cached prompt from the first change on.",
  },
  contextTagTools: {
    kind: "list",
    default: ["context_tag"],
    presets: [{ value: "context_tag", label: "context_tag" }],
    label: "Context-tag tools",
    group: "General",
    help: "Tools whose call ends a piece of work, for pruneOn on-context-tag.",
  },
  batchingMode: {
    kind: "enum",
    default: "turn",
    choices: {
      turn: "One batch for each assistant turn",
      "agent-message": "One batch for each agent run",
    },
    label: "Batch",
    group: "General",
    help: "How much tool output one summary covers. Larger batches take fewer summariser calls.",
  },
  summarizerModel: {
    kind: "string",
    default: "default",
    expected: "default (the session's model), none (digests without a model) or provider/model",
    isValid: isModelChoice,
    presets: [
      { value: "default", label: "The session's model" },
      { value: "none", label: "No model: mechanical digests" },
    ],
    label: "Summariser model",
    group: "Summaries",
    help: "Model that writes the summaries: default (the session's), provider/model, or none for free offline digests.",
  },
  summarizerThinking: {
    kind: "enum",
    default: "default",
    choices: {
      default: "As the model is set up",
      off: "Off",
      minimal: "Minimal",
      low: "Low",
      medium: "Medium",
      high: "High",
      xhigh: "Extra high",
    },
    label: "Summariser thinking",
    group: "Summaries",
    help: "How much the summariser thinks before it writes.",
  },
  summarizerIdleTimeoutMs: {
    kind: "integer",
    default: 20_000,
    min: 1_000,
    max: 600_000,
    presets: [
      { value: "10000", label: "10 s" },
      { value: "20000", label: "20 s" },
      { value: "60000", label: "1 min" },
      { value: "180000", label: "3 min" },
    ],
    label: "Summariser idle limit",
    group: "Summaries",
    help: "Milliseconds without a sign of life after which a summariser call is given up. Raise it for slow local models.",
  },
  summarizerMaxTimeoutMs: {
    kind: "integer",
    default: 180_000,
    min: 1_000,
    max: 3_600_000,
    presets: [
      { value: "60000", label: "1 min" },
      { value: "180000", label: "3 min" },
      { value: "600000", label: "10 min" },
    ],
    label: "Summariser time limit",
    group: "Summaries",
    help: "Milliseconds that one summariser call may take in all.",
  },
  summarizerConcurrency: {
    kind: "integer",
    default: 2,
    min: 1,
    max: 16,
    presets: [
      { value: "1", label: "1 (local model)" },
      { value: "2", label: "2" },
      { value: "4", label: "4" },
    ],
    label: "Summariser calls at once",
    group: "Summaries",
    help: "Summariser calls that may run at the same time.",
  },
  minBatchChars: {
    kind: "integer",
    default: 1_000,
    min: 0,
    max: 10_000_000,
    presets: [
      { value: "0", label: "0 (condense everything)" },
      { value: "1000", label: "1,000" },
      { value: "5000", label: "5,000" },
      { value: "20000", label: "20,000" },
    ],
    label: "Smallest batch",
    group: "What is condensed",
    help: "Characters of tool output below which a batch is left as it is.",
  },
  dedupByContentHash: {
    kind: "boolean",
    default: true,
    label: "Merge repeats",
    group: "What is condensed",
    help: "Replace a tool result that repeats an earlier one byte for byte by a pointer to it.",
  },
  protectedTools: {
    kind: "list",
    default: [],
    presets: [{ value: "todowrite, todoread", label: "todowrite, todoread" }],
    label: "Protected tools",
    group: "What is condensed",
    help: "Tools whose output is never condensed and never sent to a summariser.",
  },
  protectedPaths: {
    kind: "list",
    default: ["**/skills/**/*.md"],
    presets: [{ value: "**/skills/**/*.md", label: "Skills" }],
    label: "Protected paths",
    group: "What is condensed",
    help: "Globs of files whose content, when a tool returns it, is protected in the same way.",
  },
  "chainCompression.enabled": {
    kind: "boolean",
    default: true,
    label: "Compress closed chains",
    group: "Chains",
    help: "Replace the tool turns of a closed chain (request, tool turns, closing reply) by one message.",
  },
  "chainCompression.rollingWindow": {
    kind: "integer",
    default: 3,
    min: 0,
    max: 1_000,
    presets: [
      { value: "1", label: "1" },
      { value: "3", label: "3" },
      { value: "5", label: "5" },
      { value: "10", label: "10" },
    ],
    label: "Chains that stand as they are",
    group: "Chains",
    help: "Newest closed chains that are never compressed.",
  },
  "chainCompression.batchSize": {
    kind: "integer",
    default: 3,
    min: 0,
    max: 1_000,
    presets: [
      { value: "1", label: "1" },
      { value: "3", label: "3" },
      { value: "5", label: "5" },
      { value: "8", label: "8" },
    ],
    label: "Chains compressed together",
    group: "Chains",
    help: "Chains that gather behind the window before they are compressed at once. Each time rewrites the cached prompt.",
  },
  "chainCompression.stripFinalAssistantThinking": {
    kind: "boolean",
    default: true,
    label: "Drop old thinking",
    group: "Chains",
    help: "The closing reply of a compressed chain loses its thinking.",
  },
  "chainCompression.fuseRangeSummary": {
    kind: "boolean",
    default: true,
    label: "Fuse summaries",
    group: "Chains",
    help: "One summariser call joins the summaries of a compressed chain that has two or more.",
  },
  spillThreshold: {
    kind: "integer",
    default: 65_536,
    min: 4_096,
    max: 1_000_000_000,
    presets: [
      { value: "16384", label: "16,384" },
      { value: "65536", label: "65,536" },
      { value: "262144", label: "262,144" },
      { value: "1000000", label: "1,000,000" },
    ],
    label: "Oversized result",
    group: "Oversized output and budgets",
    help: "Characters from which a single result is written to a file at once and stands as a preview.",
  },
  spillPreviewBytes: {
    kind: "integer",
    default: 2_048,
    min: 0,
    max: 65_536,
    presets: [
      { value: "512", label: "512" },
      { value: "2048", label: "2,048" },
      { value: "8192", label: "8,192" },
    ],
    label: "Preview",
    group: "Oversized output and budgets",
    help: "Bytes of such a result that stay in the context.",
  },
  autoBudgetThreshold: {
    kind: "fraction",
    default: null,
    presets: AUTO_BUDGET_PRESETS,
    label: "Flush at a share of the window",
    group: "Oversized output and budgets",
    help: "Share of the context window (0.8 is 80%) from which everything finished is condensed, whatever pruneOn says.",
  },
  budgetTurnDelta: {
    kind: "fraction",
    default: null,
    presets: [
      { value: "0", label: "Off (default)" },
      { value: "0.1", label: "10%" },
      { value: "0.15", label: "15%" },
      { value: "0.25", label: "25%" },
    ],
    label: "Flush after a jump",
    group: "Oversized output and budgets",
    help: "Share of the context window that one turn has to add for everything finished to be condensed.",
  },
  autoBudgetTokens: {
    kind: "optional-integer",
    default: null,
    min: 1_000,
    max: 100_000_000,
    presets: [
      { value: "0", label: "Off (default)" },
      { value: "100000", label: "100,000" },
      { value: "200000", label: "200,000" },
    ],
    label: "Flush at a number of tokens",
    group: "Oversized output and budgets",
    help: "Tokens in the context from which everything finished is condensed, for very large windows.",
  },
});

/** Every setting, in the order in which they are shown. */
export const SETTINGS: readonly Setting[] = SETTINGS_TABLE.settings;

/** What holds where nothing is configured. Deeply frozen. */
export const DEFAULT_CONFIG: ContextPruneConfig = SETTINGS_TABLE.defaults;

/** The setting of that exact (dotted) key. */
export function findSetting(key: string): Setting | undefined {
  return SETTINGS_TABLE.find(key);
}

/**
 * Lays `layers` over the defaults, key by key, also inside nested groups; a later layer wins. Never throws.
 *
 * A layer is the untrusted value of `contextPrune` in one settings file; `undefined` stands for a file without it. Each
 * bad value and each unknown key gives one warning, which begins with the layer's name in `sources` where there is one.
 * A bad value leaves what the layers below it said; of a list, the usable entries are kept. The config is the caller's.
 */
export function resolveConfig(
  layers: readonly unknown[],
  sources?: readonly string[],
): ResolvedConfig<ContextPruneConfig> {
  return SETTINGS_TABLE.resolve(layers, sources);
}

/**
 * Reads a value that a person typed; spaces around it and the case of words do not matter. Never throws.
 *
 * Takes `on`, `off`, `true`, `false` for a switch; `2000`, `2_000`, `2,000` for a number; `0.8` or `80%` for a share;
 * `off`, `none` or `0` where a number can be off; `a, b` or a JSON list, and `none` for an empty one, for a list.
 */
export function parseSetting(key: string, text: string): SettingResult {
  return SETTINGS_TABLE.parse(key, text);
}

/** Judges a value that is to be saved under `key`: stricter than loading, which makes the best of a list. */
export function checkSetting(key: string, value: unknown): SettingResult {
  return SETTINGS_TABLE.check(key, value);
}

/** The text from which `parseSetting` reads this value again; JSON where the value does not suit the key. */
export function formatSetting(key: string, value: SettingValue): string {
  return SETTINGS_TABLE.format(key, value);
}

/** Whether the text can name a summariser: model ids may hold slashes, colons and inner spaces. */
function isModelChoice(text: string): boolean {
  return text === "default" || text === "none" || /^[^\s/]+\/[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u.test(text);
}
