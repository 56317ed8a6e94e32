/** What is condensed, as a tree: compressed chains and batches, and the calls in them. */

import { describeCall } from "../digest/describe.ts";
import type { ChainListing } from "../engine/session-state.ts";
import type { CallSizes } from "../money/sizes.ts";
import type { RenderPlan } from "../render/plan.ts";
import type { Pruner } from "../runtime.ts";
import type { CommittedState } from "../session/ledger.ts";
import { oneLine } from "../text/text.ts";
import { visible } from "../text/visible.ts";
import type { ToolCallRecord } from "../types.ts";
import { type Sizes, total } from "./paint.ts";

const MAX_TOPIC = 200;

/** How one call stands in the next request. */
export type CallFate = "condensed" | "spilled" | "duplicate" | "raw" | "kept";

/** One condensed call. Sizes in estimated tokens, as on every other screen: arguments count where they are condensed. */
export interface CallNode extends Sizes {
  /** `t12`. */
  ref: string;
  occurrenceKey: string;
  title: string;
  fate: CallFate;
}

/** A compressed chain, or a batch of calls that one reply made. */
export interface GroupNode extends Sizes {
  kind: "chain" | "batch";
  /** `b3`, or the name of the batch. */
  id: string;
  title: string;
  /** A chain that has been put back by hand is not active. */
  active: boolean;
  calls: CallNode[];
}

/** The tree of the current branch, oldest first. */
export function condensedTree(pruner: Pruner): GroupNode[] | undefined {
  const state = pruner.currentState();
  if (!state) return undefined;
  const plan = state.plan(pruner.settings);
  const chains = [...state.indexer.committed().chains.values()];
  const sizes = pruner.callSizes(chains);
  return sizes && buildTree(state.indexer.committed(), plan, state.chainListings(), sizes);
}

/** Chains first name their calls; what is in none stands in the batch that it was captured in. */
export function buildTree(
  state: CommittedState,
  plan: Pick<RenderPlan, "replacements" | "chains">,
  listings: readonly ChainListing[],
  sizes: CallSizes,
): GroupNode[] {
  const calls = callNodes(state, plan, sizes);
  const taken = new Set<string>();
  const chains = listings.map((listing): GroupNode & { time: number } => {
    const entry = state.chains.get(listing.blockId);
    const names = entry?.droppedOccurrenceKeys ?? entry?.droppedToolCallIds ?? [];
    const own = names.flatMap((name) => calls.get(name) ?? []);
    for (const call of own) taken.add(call.occurrenceKey);
    const whole = sizes.chains.get(listing.blockId);
    return {
      kind: "chain",
      id: listing.blockId,
      title: visible(oneLine(listing.topic, MAX_TOPIC)) || "chain",
      active: listing.active,
      before: whole?.before ?? total(own, "before"),
      after: whole?.after ?? total(own, "after"),
      calls: own,
      time: entry?.startUserTimestamp ?? 0,
    };
  });
  const groups = [...chains, ...batchesOf(state, calls, taken)].sort((a, b) => a.time - b.time);
  return groups.map(({ time: _time, ...group }) => group);
}

function batchesOf(
  state: CommittedState,
  calls: ReadonlyMap<string, CallNode>,
  taken: ReadonlySet<string>,
): (GroupNode & { time: number })[] {
  const batches = new Map<number, CallNode[]>();
  for (const [key, call] of calls) {
    if (taken.has(key)) continue;
    const time = timeOf(key, state);
    batches.set(time, [...(batches.get(time) ?? []), call]);
  }
  return [...batches].map(([time, own]) => ({
    kind: "batch",
    id: own[0]?.ref ?? "",
    title: own.map((call) => call.title).join(", "),
    active: true,
    before: total(own, "before"),
    after: total(own, "after"),
    calls: own,
    time,
  }));
}

/** When the call was made (ms); of a duplicate, when its result came. */
function timeOf(key: string, state: CommittedState): number {
  const record = state.calls.get(key)?.record;
  return record ? record.timestamp : Number(key.slice(key.lastIndexOf("@") + 1)) || 0;
}

function callNodes(
  state: CommittedState,
  plan: Pick<RenderPlan, "replacements">,
  { calls: sizes }: CallSizes,
): Map<string, CallNode> {
  const nodes = new Map<string, CallNode>();
  const add = (key: string, call: Pick<CallNode, "ref" | "title">, known: CallFate) => {
    const isKept = state.choices.get(key) === "keep";
    const fate = isKept ? "kept" : plan.replacements.get(key) ? known : "raw";
    nodes.set(key, { occurrenceKey: key, ...call, fate, ...(sizes.get(key) ?? { before: 0, after: 0 }) });
  };
  for (const { occurrenceKey: key, shortId, record } of state.calls.values()) {
    const call = { ref: shortId, title: titleOf(record) };
    add(key, call, record.spillPath === undefined ? "condensed" : "spilled");
  }
  for (const [key, { shortId, original }] of state.duplicates) {
    const { record } = original;
    const title = `${titleOf(record)}, same as ${original.shortId}`;
    add(key, { ref: shortId ?? original.shortId, title }, "duplicate");
  }
  return nodes;
}

function titleOf({ toolName, args }: Pick<ToolCallRecord, "toolName" | "args">): string {
  return visible(describeCall(toolName, args));
}
