/** What a row of a settings table says, and which rows a config type asks for. */

/** Any value that a setting can have. `null` means off. */
export type SettingValue = boolean | number | string | readonly string[] | null;

/** Heading under which a setting stands in the overlay and in the documentation. */
export type SettingGroup =
  | "General"
  | "Summaries"
  | "What is condensed"
  | "Chains"
  | "Oversized output and budgets"
  | "What you see";

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
