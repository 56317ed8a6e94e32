/** What a row of a settings table says, and which rows a config type asks for. */
import { type TSchema, Type } from "typebox";
import { grouped } from "../text/text.ts";

/** Any value that a setting can have. `null` means off. */
export type SettingValue = boolean | number | string | readonly string[] | null;

/** Heading under which a setting stands in the overlay and in the documentation. */
export type SettingGroup =
  | "General"
  | "Summaries"
  | "What is condensed"
  | "Chains"
  | "Spilled output and budgets"
  | "What you see";

/** A value worth offering: the text that `parseSetting` takes, and what to call it. */
export interface SettingPreset {
  readonly value: string;
  readonly label: string;
}

/** One setting: what it may be, and how it is shown. Made by the functions below. */
export interface SettingRow<Value = SettingValue> {
  readonly kind: "boolean" | "integer" | "fraction" | "enum" | "string" | "list";
  /** What every value of it fits. */
  readonly schema: TSchema;
  /** What is allowed, in the words of a settings file and in those that a person types. */
  readonly expected: { readonly inFile: string; readonly asText: string };
  readonly default: Value;
  /** Values worth offering; all of them where there are few. */
  readonly presets: readonly SettingPreset[];
  readonly group: SettingGroup;
  readonly label: About[0];
  readonly help: About[1];
}

/** A row with its (dotted) key. */
export type Setting = SettingRow & { readonly key: string };

/** The dotted keys of all settings of a config type. */
export type SettingKeyOf<Config> = {
  [Name in keyof Config & string]: Config[Name] extends SettingValue ? Name : `${Name}.${SettingKeyOf<Config[Name]>}`;
}[keyof Config & string];

type ValueOf<Config, Key> = Key extends keyof Config
  ? Config[Key]
  : Key extends `${infer Group extends keyof Config & string}.${infer Rest}`
    ? ValueOf<Config[Group], Rest>
    : never;

/** The rows of a config type: exactly one for each of its keys, of a kind that fits the key's type. */
export type SettingRows<Config> = {
  readonly [Key in SettingKeyOf<Config>]: SettingRow<ValueOf<Config, Key>>;
};

/** A preset as a table writes it: a value whose label follows from it, or the text and a label of its own. */
type Offer = number | string | readonly [value: string, label: string];

/** Labels by the text that a person types. */
type Labels = Readonly<Record<string, string>>;

/** Two or three words for a list of settings, and one line that says what the setting does. */
type About = [label: string, help: string];

/** The numbers of a row: bounds are included, and `presets` are the texts that a person types. */
interface Range {
  min?: number;
  max: number;
  presets: readonly Offer[];
  /** What "off" is called, where the number can be off. */
  off?: string;
}

/** Rows that stand under one heading. */
export function section<Rows extends Readonly<Record<string, SettingRow>>>(group: SettingGroup, rows: Rows): Rows {
  return Object.fromEntries(Object.entries(rows).map(([key, row]) => [key, { ...row, group }])) as Rows;
}

/** A switch. */
export function onOff(value: boolean, ...about: About): SettingRow<boolean> {
  const expected = { inFile: "true or false", asText: "on or off" };
  return rowOf("boolean", Type.Boolean(), value, expected, { on: "On", off: "Off" }, about);
}

/** A whole number from `min` (0 by default) to `max`. */
export function integer(value: number, { min = 0, max, presets }: Range, ...about: About): SettingRow<number> {
  const expected = `a whole number from ${grouped(min)} to ${grouped(max)}`;
  return rowOf("integer", Type.Integer({ minimum: min, maximum: max }), value, expected, presets, about);
}

/** A whole number from `min` to `max`, or `null` for off, which is the default. `min` is above 0: 0 is read as off. */
export function optionalInteger(range: Range, ...about: About): SettingRow<number | null> {
  return optional(integer(0, range, ...about), range.off);
}

/** A share above 0 and up to 1, or `null` for off, which is the default. 0 is read as off. */
export function fraction(shares: readonly number[], ...about: About): SettingRow<number | null> {
  const presets = shares.map((share): Offer => [String(share), `${Math.round(share * 100)}%`]);
  const schema = Type.Number({ exclusiveMinimum: 0, maximum: 1 });
  return optional(rowOf("fraction", schema, 0, "a number above 0 and up to 1 (0.8 for 80%)", presets, about));
}

/** One of a few names. `choices` gives every name its label. */
export function choice<Name extends string>(
  value: NoInfer<Name>,
  choices: Readonly<Record<Name, string>>,
  ...about: About
): SettingRow<Name> {
  const names = Object.keys(choices);
  const inFile = `one of ${names.map((name) => `"${name}"`).join(", ")}`;
  return rowOf("enum", Type.Enum(names), value, { inFile, asText: `one of ${names.join(", ")}` }, choices, about);
}

/** Text that fits `pattern`; `expected` says in words what that is. */
export function text(
  value: string,
  { pattern, expected, presets }: { pattern: RegExp; expected: string; presets: Labels },
  ...about: About
): SettingRow<string> {
  return rowOf("string", Type.String({ pattern }), value, expected, presets, about);
}

/** A list of names or patterns, none of them empty. */
export function list(value: string[], presets: readonly Offer[], ...about: About): SettingRow<string[]> {
  const expected = { inFile: "a list of names", asText: "a list of names separated by commas, or none" };
  return rowOf("list", Type.Array(Type.String({ pattern: /\S/ })), value, expected, presets, about);
}

function optional(row: SettingRow<number>, off = "Off (default)"): SettingRow<number | null> {
  const { inFile, asText } = row.expected;
  const expected = { inFile: `${inFile}, or null for off`, asText: `${asText}, or off` };
  const presets = [presetOf(["off", off]), ...row.presets];
  return { ...row, schema: Type.Union([row.schema, Type.Null()]), default: null, expected, presets };
}

function rowOf<Value>(
  kind: SettingRow["kind"],
  schema: TSchema,
  value: Value,
  expected: string | SettingRow["expected"],
  presets: readonly Offer[] | Labels,
  [label, help]: About,
): SettingRow<Value> {
  const offers: readonly Offer[] = Array.isArray(presets) ? presets : Object.entries<string>(presets as Labels);
  return {
    kind,
    schema,
    default: value,
    expected: typeof expected === "string" ? { inFile: expected, asText: expected } : expected,
    presets: offers.map(presetOf),
    // `section` says which it is.
    group: "General",
    label,
    help,
  };
}

function presetOf(offer: Offer): SettingPreset {
  if (typeof offer === "number") return { value: String(offer), label: grouped(offer) };
  return typeof offer === "string" ? { value: offer, label: offer } : { value: offer[0], label: offer[1] };
}
