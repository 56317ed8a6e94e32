/** What the `context` handler does to each message, computed once per epoch from what the entries say. */
import type { RenderedChain } from "../chain-range-prune.js";
import type { CommittedState } from "../session/ledger.js";
import type { ContextPruneConfig, ToolCallRecord } from "../types.js";
import type { ArgumentOptions } from "./arguments.js";
import { type FindOriginal, renderChains } from "./chains.js";
import { callStub, duplicateStub, isWorthwhile, recordChars, spillStub } from "./stub.js";

/** Finds the blob of a spilled record where it is now. */
export type LocateBlob = (record: ToolCallRecord) => string | undefined;

/** The text that stands in for one result. */
export interface Replacement {
  occurrenceKey: string;
  text: string;
  /** Holds although the model has not answered the result: it would be too big to be sent. */
  eager: boolean;
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
  /** How the arguments of finished calls are condensed, by occurrence of their result. */
  arguments: ReadonlyMap<string, ArgumentOptions>;
  /** Active chains with their bodies, oldest first. */
  chains: readonly RenderedChain[];
  /** The closing reply of a compressed chain loses its thinking. */
  stripFinalAssistantThinking: boolean;
}

/** What the plan is made from besides the entries. */
export interface PlanOptions {
  /** Path at which the blob of a record can be read now; `undefined` where it is gone. */
  locateBlob: LocateBlob;
  /** The session's own copy of a result. */
  findOriginal: FindOriginal;
  stripFinalAssistantThinking: boolean;
  condenseArgs: ContextPruneConfig["condenseArgs"];
  purgeErrors: ContextPruneConfig["purgeErrors"];
  protectTags: boolean;
}

/** Builds the plan of an epoch. */
export function buildRenderPlan(state: CommittedState, options: PlanOptions): RenderPlan {
  const { locateBlob, stripFinalAssistantThinking } = options;
  const replacements = new Map<string, Replacement>();
  const toolCallIds = new Set<string>();
  const bareIds = new Set<string>();
  const sizes = { raw: 0, kept: 0 };
  const add = (key: string, toolCallId: string, raw: number, text: string, eager: boolean) => {
    if (!isWorthwhile(text.length, raw)) return;
    sizes.raw += raw;
    sizes.kept += text.length;
    replacements.set(key, { occurrenceKey: key, text, eager });
    toolCallIds.add(toolCallId);
    if (key === toolCallId) bareIds.add(key);
  };
  for (const [key, call] of state.calls) {
    const { record } = call;
    const spilled = record.spillPath !== undefined;
    const stub = spilled ? spillStub(call, locateBlob(record)) : callStub(call, state.summaries.get(key));
    add(key, record.toolCallId, recordChars(record), stub, spilled);
  }
  for (const [key, duplicate] of state.duplicates) {
    const { record } = duplicate.original;
    const stub = duplicateStub(duplicate, record.spillPath === undefined ? undefined : locateBlob(record));
    add(key, duplicate.toolCallId, recordChars(record), stub, duplicate.eager);
  }
  for (const { occurrenceKey, toolCallId, text } of state.pointers.values()) {
    replacements.set(occurrenceKey, { occurrenceKey, text, eager: false });
    toolCallIds.add(toolCallId);
  }
  return {
    replacements,
    toolCallIds,
    bareIds,
    legacySummaries: new Map(state.legacySummaries.map((summary) => [summary.text, summary.occurrenceKeys])),
    sizes,
    arguments: argumentPlan(state, options),
    chains: renderChains(state, options),
    stripFinalAssistantThinking,
  };
}

/** Failed calls wait until a frontier has purged them; all others go with their stubs. */
function argumentPlan(
  { calls, duplicates, purged }: CommittedState,
  { condenseArgs, purgeErrors }: Pick<PlanOptions, "condenseArgs" | "purgeErrors">,
): Map<string, ArgumentOptions> {
  const plan = new Map<string, ArgumentOptions>();
  const add = (key: string, ref: string, isError: boolean) => {
    if (isError ? purgeErrors.enabled && purged.has(key) : condenseArgs.enabled) {
      plan.set(key, { ref, minStringChars: isError ? purgeErrors.minArgChars : condenseArgs.minStringChars });
    }
  };
  for (const [key, { shortId, record }] of calls) add(key, shortId, record.isError);
  for (const [key, { shortId, original }] of duplicates) {
    if (shortId !== undefined) add(key, shortId, original.record.isError);
  }
  return plan;
}
