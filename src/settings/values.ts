/** Single values of settings: judging untrusted ones, reading what a person typed, and telling both in messages. */
import { Check } from "typebox/value";
import { cut } from "../text/text.ts";
import type { Setting, SettingValue } from "./rows.ts";

/** Characters of a bad value that a warning shows. */
const MAX_SHOWN_CHARS = 80;

/** What an untrusted value stands for; `ignored` where a part of it was left out. */
export type Checked = { ok: true; value: SettingValue; ignored?: true } | { ok: false };

/** The value that an untrusted one stands for, in a copy of its own. */
export function checkValue({ kind, schema }: Setting, value: unknown): Checked {
  if (kind === "list" && Array.isArray(value)) {
    // One slip in a list must not undo its other entries: each may be what keeps some output from being condensed.
    const names = value.filter((item): item is string => Check(schema, [item]));
    const ignored = names.length < value.length;
    if (ignored && names.length === 0) return { ok: false };
    return { ok: true, value: [...new Set(names)], ...(ignored && { ignored }) };
  }
  // Where a number can be off, 0 is too.
  const meant = value === 0 && Check(schema, null) ? null : value;
  // Every schema of a row lets through values of settings only.
  return Check(schema, meant) ? { ok: true, value: meant as SettingValue } : { ok: false };
}

/** What a typed text says, for `checkValue` to judge; text that says nothing of the kind is given back as it is. */
export function readText({ kind, schema, presets }: Setting, text: string): unknown {
  const word = text.toLowerCase();
  switch (kind) {
    case "boolean":
      if (word === "on" || word === "true") return true;
      return word === "off" || word === "false" ? false : text;
    case "integer":
    case "fraction":
      if (["off", "none", "null"].includes(word) && Check(schema, null)) return null;
      if (kind === "fraction" && text.endsWith("%")) return percentToFraction(text);
      return readNumber(text) ?? text;
    case "enum":
      return presets.find(({ value }) => value.toLowerCase() === word)?.value ?? text;
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

/** A value as JSON shows it, on one line and cut to a readable length, without control characters. */
export function shown(value: unknown): string {
  const text = typeof value === "number" ? String(value) : (JSON.stringify(value) ?? String(value));
  return cut(text.replace(/\p{Cc}/gu, " "), MAX_SHOWN_CHARS + 1);
}

/** A key for a message: as it is if it looks like one, else as a value. */
export function shownKey(key: string): string {
  return /^[\w.-]+$/.test(key) && key.length <= MAX_SHOWN_CHARS ? key : shown(key);
}
