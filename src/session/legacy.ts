/** Summaries as earlier releases wrote them: one message of the conversation for each batch. */
import type { SummaryToolCallRef } from "../types.ts";

/**
 * Splits such a message by call. It holds one list item a call, headed by its ref, and a footer behind a rule that names
 * the refs again. Where the items cannot be told apart, the whole text goes to the last call.
 * @returns for each ref its text; `undefined` for a call whose text stands with the last one
 */
export function splitLegacySummary(text: string, refs: readonly SummaryToolCallRef[]): (string | undefined)[] {
  const body = (text.split(/\n+---\n/)[0] ?? "").trim();
  const items = new Map<string, string>();
  for (const item of body.split(/\n(?=- `t\d+` )/)) {
    const head = /^- `(t\d+)` /.exec(item);
    if (head?.[1]) items.set(head[1], item.slice(head[0].length).trim());
  }
  const split = refs.every((ref) => items.has(ref.shortId));
  return refs.map((ref, i) => (split ? items.get(ref.shortId) : i === refs.length - 1 ? body : undefined));
}
