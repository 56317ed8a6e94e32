/** What a record need not hold since the message that it names does. */
import { describeCall } from "../digest/describe.js";
import { changeSize } from "../digest/edits.js";
import { isRecord } from "../text/json.js";
import { sliceText } from "../text/text.js";

/** Longer strings are emptied, where a stub then says the same of the call. */
const SHORT_CHARS = 60;
/** Characters of a long string that stay: nearly always, what a stub says of a call is found in the first that do. */
const HEAD_CHARS = [100, 400];
/** Characters that a string must have beyond them to be cut. */
const SPARED_CHARS = 25;

/**
 * The arguments of a call for its record: as few of them as a stub needs to say what it says of the call. What it needs of
 * a long text is mostly that there is one, or its beginning.
 */
export function shortArguments(toolName: string, args: Record<string, unknown>): Record<string, unknown> {
  const described = describeCall(toolName, args);
  const saysTheSame = (short: Record<string, unknown>) => describeCall(toolName, short) === described;
  const forms = [emptied, ...HEAD_CHARS.map((head) => (value: unknown) => shorten(value, head))];
  for (const form of forms) {
    const short = mapValues(args, form);
    if (saysTheSame(short)) return withoutSpare(short, saysTheSame);
  }
  return args;
}

/** The arguments without those of which a stub does not speak. */
function withoutSpare(
  args: Record<string, unknown>,
  saysTheSame: (short: Record<string, unknown>) => boolean,
): Record<string, unknown> {
  let short = args;
  for (const key of Object.keys(args)) {
    const { [key]: _, ...rest } = short;
    if (saysTheSame(rest)) short = rest;
  }
  return short;
}

/** Strings from here on are the long ones of a change: shorter ones stay in the prompt. */
const LONG_CHARS = 400;

/** What a stub says of a change, and how much of it leaves the prompt; nothing of a call that changes no file. */
export function changeOf({ args, isError }: { args: Record<string, unknown>; isError: boolean }) {
  const change = isError ? "" : changeSize(args);
  return change === "" ? {} : { change, changeChars: longChars(args) };
}

function longChars(value: unknown): number {
  if (typeof value === "string") return value.length >= LONG_CHARS ? value.length : 0;
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce((sum: number, item) => sum + longChars(item), 0);
}

function emptied(value: unknown): unknown {
  if (typeof value === "string") return value.length > SHORT_CHARS ? "" : value;
  if (Array.isArray(value)) return value.map(emptied);
  return typeof value === "object" && value !== null ? {} : value;
}

function shorten(value: unknown, head: number): unknown {
  if (typeof value === "string") return value.length > head + SPARED_CHARS ? `${sliceText(value, 0, head)}…` : value;
  if (Array.isArray(value)) return value.map((item) => shorten(item, head));
  return isRecord(value) ? mapValues(value, (item) => shorten(item, head)) : value;
}

function mapValues(record: Record<string, unknown>, map: (value: unknown) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}
