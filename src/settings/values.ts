/** Single values of settings: judging untrusted ones, reading what a person typed, and telling both in messages. */

import { grouped, sliceText } from "../text/text.js";
import type {
  FractionRow,
  IntegerRow,
  OptionalIntegerRow,
  Setting,
  SettingPreset,
  SettingRow,
  SettingValue,
} from "./rows.js";

/** Characters of a bad value that a warning shows. */
const MAX_SHOWN_CHARS = 80;

/** What an untrusted value stands for; `ignored` where a part of it was left out. */
export type Checked = { ok: true; value: SettingValue; ignored?: true } | { ok: false };

const BAD: Checked = Object.freeze({ ok: false });

/** The value that an untrusted one stands for, in a copy of its own. */
export function checkValue(setting: Setting, value: unknown): Checked {
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
export function readText(setting: Setting, text: string): unknown {
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

/** The text from which `readText` and `checkValue` make this value again. */
export function formatValue(value: SettingValue): string {
  if (value === null) return "off";
  if (typeof value === "boolean") return value ? "on" : "off";
  if (typeof value !== "object") return String(value);
  if (value.length === 0) return "none";
  const plain = value.join(", ");
  const json = JSON.stringify(value);
  // A name that holds a comma or looks like JSON is only understood in a JSON list.
  return JSON.stringify(readList(plain)) === json ? plain : json;
}

/** The presets of a row; those of switches and names follow from its kind. */
export function presetsOf(row: SettingRow): readonly SettingPreset[] {
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

/** What is allowed, in the words of a settings file. */
export function expectedInFile(setting: Setting): string {
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

/** What is allowed, in the words that a person types. */
export function expectedAsText(setting: Setting): string {
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

/** A value as JSON shows it, on one line and cut to a readable length, without control characters. */
export function shown(value: unknown): string {
  return clean(typeof value === "number" ? String(value) : (safeJson(value) ?? String(value)));
}

function safeJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** A key for a message: as it is if it looks like one, else as a value. */
export function shownKey(key: string): string {
  return /^[\w.-]+$/.test(key) && key.length <= MAX_SHOWN_CHARS ? key : shown(key);
}

function clean(text: string): string {
  const line = text.replace(/\p{Cc}/gu, " ");
  if (line.length <= MAX_SHOWN_CHARS) return line;
  return `${sliceText(line, 0, MAX_SHOWN_CHARS)}…`;
}
