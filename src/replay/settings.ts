/** The settings that a variant of a replay runs under. */
import { SETTINGS_TABLE, type SettingValue } from "../config.ts";
import type { ContextPruneConfig } from "../types.ts";
import { ReplayInputError } from "./session-file.ts";

/** A setting as it was given: `key=value`. */
export interface Assignment {
  key: string;
  value: SettingValue;
}

/**
 * Reads `key=value`.
 * @throws ReplayInputError with the reason and what is allowed
 */
export function parseAssignment(text: string): Assignment {
  const at = text.indexOf("=");
  if (at < 1) throw new ReplayInputError(`"${text}" is no setting: write key=value, for example pruneOn=every-turn.`);
  const key = text.slice(0, at).trim();
  const value = text.slice(at + 1).trim();
  const parsed = SETTINGS_TABLE.parse(key, value);
  if (!parsed.ok) throw new ReplayInputError(parsed.error);
  return { key, value: parsed.value };
}

/**
 * Reads `key=value,key=value`. A comma inside a value stands in front of something that is no `key=`.
 * @throws ReplayInputError as `parseAssignment`
 */
export function parseAssignments(text: string): Assignment[] {
  const parts = text.split(/,(?=\s*[A-Za-z][\w.]*\s*=)/);
  return parts.filter((part) => part.trim() !== "").map(parseAssignment);
}

/** The shipped defaults with `assignments` laid over them; the last one of a key counts. */
export function configWith(assignments: readonly Assignment[]): ContextPruneConfig {
  return SETTINGS_TABLE.withValues(assignments.map(({ key, value }) => [key, value]));
}
