/** Values of unknown shape, as JSON gives them. */

/** True for an object with keys, as JSON has them: not for `null`, not for a list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
