/** What a row of a settings table says, and which rows a config type asks for. */
import { type TSchema, Type } from "typebox";
import { grouped } from "../text/text.js";

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
  /** Two or three words for a list of settings. */
  readonly label: string;
  /** One line that says what the setting does. */
  readonly help: string;
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

/** The numbers of a row: bounds are included, and `presets` are the texts that a person types. */
interface Range {
  min?: number;
  max: number;
  presets: readonly Offer[];
}

/** Rows that stand under one heading. */
export function section<Rows extends Readonly<Record<string, SettingRow>>>(group: SettingGroup, rows: Rows): Rows {
  return Object.fromEntries(Object.entries(rows).map(([key, row]) => [key, { ...row, group }])) as Rows;
}

/** A switch. */
export function onOff(value: boolean, label: string, help: string): SettingRow<boolean> {
  const presets = [preset(["on", "On"]), preset(["off", "Off"])];
  const expected = { inFile: "true or false", asText: "on or off" };
  return { kind: "boolean", schema: Type.Boolean(), default: value, expected, presets, ...shownAs(label, help) };
}

/** A whole number from `min` (0 by default) to `max`. */
export function integer(value: number, range: Range, label: string, help: string): SettingRow<number> {
  const { min: minimum = 0, max: maximum } = range;
  const expected = `a whole number from ${grouped(minimum)} to ${grouped(maximum)}`;
  return {
    kind: "integer",
    schema: Type.Integer({ minimum, maximum }),
    default: value,
    expected: { inFile: expected, asText: expected },
    presets: range.presets.map(preset),
    ...shownAs(label, help),
  };
}

/** A whole number from `min` to `max`, or `null` for off, which is the default. `min` is above 0: 0 is read as off. */
export function optionalInteger(range: Range, label: string, help: string): SettingRow<number | null> {
  return optional(integer(0, range, label, help));
}

/** A share above 0 and up to 1, or `null` for off, which is the default. 0 is read as off. */
export function fraction(presets: readonly Offer[], label: string, help: string): SettingRow<number | null> {
  const expected = "a number above 0 and up to 1 (0.8 for 80%)";
  return optional({
    kind: "fraction",
    schema: Type.Number({ exclusiveMinimum: 0, maximum: 1 }),
    default: 0,
    expected: { inFile: expected, asText: expected },
    presets: presets.map(preset),
    ...shownAs(label, help),
  });
}

/** One of a few names. `choices` gives every name its label. */
export function choice<Name extends string>(
  value: NoInfer<Name>,
  choices: Readonly<Record<Name, string>>,
  label: string,
  help: string,
): SettingRow<Name> {
  const names = Object.keys(choices);
  return {
    kind: "enum",
    schema: Type.Enum(names),
    default: value,
    expected: { inFile: `one of ${names.map((name) => `"${name}"`).join(", ")}`, asText: `one of ${names.join(", ")}` },
    presets: Object.entries<string>(choices).map(preset),
    ...shownAs(label, help),
  };
}

/** Text that fits `pattern`; `expected` says in words what that is. */
export function text(
  value: string,
  { pattern, expected, presets }: { pattern: RegExp; expected: string; presets: readonly Offer[] },
  label: string,
  help: string,
): SettingRow<string> {
  return {
    kind: "string",
    schema: Type.String({ pattern }),
    default: value,
    expected: { inFile: expected, asText: expected },
    presets: presets.map(preset),
    ...shownAs(label, help),
  };
}

/** A list of names or patterns, none of them empty. */
export function list(value: string[], presets: readonly Offer[], label: string, help: string): SettingRow<string[]> {
  return {
    kind: "list",
    schema: Type.Array(Type.String({ pattern: /\S/ })),
    default: value,
    expected: { inFile: "a list of names", asText: "a list of names separated by commas, or none" },
    presets: presets.map(preset),
    ...shownAs(label, help),
  };
}

function optional(row: SettingRow<number>): SettingRow<number | null> {
  const { inFile, asText } = row.expected;
  const expected = { inFile: `${inFile}, or null for off`, asText: `${asText}, or off` };
  const presets = [preset(["off", "Off (default)"]), ...row.presets];
  return { ...row, schema: Type.Union([row.schema, Type.Null()]), default: null, expected, presets };
}

/** `section` gives the rows their group. */
function shownAs(label: string, help: string): Pick<SettingRow, "group" | "label" | "help"> {
  return { group: "General", label, help };
}

function preset(offer: Offer): SettingPreset {
  if (typeof offer === "number") return { value: String(offer), label: grouped(offer) };
  return typeof offer === "string" ? { value: offer, label: offer } : { value: offer[0], label: offer[1] };
}
