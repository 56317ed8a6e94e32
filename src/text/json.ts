/** Values of unknown shape, as JSON gives them. */

/** True for an object with keys, as JSON has them: not for `null`, not for a list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** About the length of the value as JSON, without making it: large arguments are not copied to be measured. */
export function jsonSize(value: unknown): number {
  if (typeof value === "string") return value.length + 2;
  if (Array.isArray(value)) return value.reduce((sum: number, element) => sum + jsonSize(element) + 1, 1);
  if (typeof value !== "object" || value === null) return 4;
  let size = 1;
  for (const [key, field] of Object.entries(value)) size += key.length + 4 + jsonSize(field);
  return size;
}
