/** Digests of JSON: keys, and values in brief. */
import { isRecord } from "../text/json.ts";
import { cut, oneLine } from "../text/text.ts";
import { packNames, type Room } from "./room.ts";

/** Keys or length of a JSON text, values in brief. Empty where the text is no JSON object or array. */
export function jsonShape(text: string, room: Room): string[] {
  const value = parseJson(text);
  if (Array.isArray(value)) {
    const heading = `JSON array of ${value.length}`;
    const first: unknown = value[0];
    if (typeof first !== "object" || first === null)
      return packNames(value.slice(0, 20).map(brief), `${heading}: `, room).lines;
    return packNames(members(first), `${heading}, first: `, room).lines;
  }
  if (typeof value !== "object" || value === null) return [];
  return packNames(members(value), "JSON object: ", room).lines;
}

/** The object or list that a text holds as JSON; `undefined` where it holds none. */
export function parseJson(text: string): unknown {
  const start = text.search(/\S/);
  if (start < 0 || !"{[".includes(text.charAt(start))) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Keys that an inner object may have to be named one by one. */
const MAX_INNER_KEYS = 6;

function members(value: object): string[] {
  return Object.entries(value).map(([key, inner]) => `${oneLine(key, 40)} ${brief(inner)}`);
}

function brief(value: unknown): string {
  if (typeof value === "string") return `"${cut(oneLine(value, 60), 40)}"`;
  if (Array.isArray(value)) {
    const keys = isRecord(value[0]) ? keysOf(value[0]) : undefined;
    return keys === undefined ? `[${value.length}]` : `[${value.length} of ${keys}]`;
  }
  if (isRecord(value)) return keysOf(value) ?? `{${Object.keys(value).length}}`;
  return String(value);
}

/** `{build, test, lint}`, where the keys are few. */
function keysOf(value: Record<string, unknown>): string | undefined {
  const keys = Object.keys(value);
  if (keys.length === 0 || keys.length > MAX_INNER_KEYS) return undefined;
  const names = keys.map((key) => oneLine(key, 24)).join(", ");
  return names.length <= 80 ? `{${names}}` : undefined;
}
