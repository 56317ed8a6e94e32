/** What the `context` handler does to each message, computed once per epoch from what the entries say. */
import type { CommittedState } from "../session/ledger.js";
import { duplicateStub, isWorthwhile, recordChars, worthwhileCallStub } from "./stub.js";

/** The text that stands in for one result. */
export interface Replacement {
  occurrenceKey: string;
  text: string;
}

/** Frozen between two flushes: nothing in it depends on a clock, a live count or the tail of the conversation. */
export interface RenderPlan {
  /** Replacements by occurrence key. */
  replacements: ReadonlyMap<string, Replacement>;
  /** Ids with a replacement, so that a result that has none is passed over without building its key. */
  toolCallIds: ReadonlySet<string>;
  /** Ids of records from before occurrence keys: they hold only while a single result has the id. */
  bareIds: ReadonlySet<string>;
  /** Occurrences that each summary message of an earlier release speaks of, by its text. */
  legacySummaries: ReadonlyMap<string, readonly string[]>;
  /** Characters of all that is replaced, before and after. */
  sizes: { raw: number; kept: number };
}

/** Builds the plan of an epoch. */
export function buildRenderPlan(state: CommittedState): RenderPlan {
  const replacements = new Map<string, Replacement>();
  const toolCallIds = new Set<string>();
  const bareIds = new Set<string>();
  const sizes = { raw: 0, kept: 0 };
  const add = (key: string, toolCallId: string, raw: number, text: string | undefined) => {
    if (text === undefined) return;
    sizes.raw += raw;
    sizes.kept += text.length;
    replacements.set(key, { occurrenceKey: key, text });
    toolCallIds.add(toolCallId);
    if (key === toolCallId) bareIds.add(key);
  };
  for (const [key, call] of state.calls) {
    const stub = worthwhileCallStub(call, state.summaries.get(key));
    add(key, call.record.toolCallId, recordChars(call.record), stub);
  }
  for (const [key, duplicate] of state.duplicates) {
    const stub = duplicateStub(duplicate);
    const raw = recordChars(duplicate.original.record);
    add(key, duplicate.toolCallId, raw, isWorthwhile(stub.length, raw) ? stub : undefined);
  }
  return {
    replacements,
    toolCallIds,
    bareIds,
    legacySummaries: new Map(state.legacySummaries.map((summary) => [summary.text, summary.occurrenceKeys])),
    sizes,
  };
}
