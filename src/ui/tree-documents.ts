/** What a row of the tree opens: the summary of its calls, and their originals. */

import type { SessionView } from "../engine/session-state.ts";
import { type RecoveredOutput, recover, sourcesOf } from "../recovery/originals.ts";
import type { Pruner } from "../runtime.ts";
import { count } from "../text/text.ts";
import { short } from "./paint.ts";
import type { CallNode } from "./tree-model.ts";
import type { TreeRow } from "./tree-rows.ts";
import type { Document } from "./viewer-screen.ts";

/** Of a call, its own; of a chain or a batch, those of all of its calls. */
export function documentOf({ group, call }: TreeRow, pruner: Pruner): Document {
  const name = group.kind === "chain" ? `${group.id}  ` : "";
  const title = call ? `${call.ref}  ${call.title}` : `${name}${group.title}`;
  const state = pruner.currentState();
  if (!state) return { title, summary: "", originals: [] };
  const calls = call ? [call] : group.calls;
  const fused = group.kind === "chain" && !call ? state.indexer.chains().get(group.id)?.rangeSummaryText : undefined;
  return {
    title,
    summary: fused ?? summaryOf(calls, state),
    originals: calls.flatMap((node) => {
      const found = recover(node.ref, sourcesOf(state));
      return found.kind === "found" ? found.outputs.map(originalOf) : [];
    }),
  };
}

function summaryOf(calls: readonly CallNode[], state: SessionView): string {
  const { summaries } = state.indexer.committed();
  const parts = calls.flatMap(({ ref, title, occurrenceKey }) => {
    const summary = summaries.get(occurrenceKey);
    const text = summary?.carriedBy ? carriedText(summary.carriedBy, state) : (summary?.text ?? "");
    return text ? [calls.length > 1 ? `**${ref}** ${title}\n\n${text}` : text] : [];
  });
  return parts.join("\n\n");
}

/** The text of a batch that could not be split by call stands with one of them. */
function carriedText(carrier: string, state: SessionView): string {
  const keys = state.indexer.resolve(carrier);
  const text = keys.map((key) => state.indexer.committed().summaries.get(key)?.text ?? "").join("");
  return `Summarized together with ${carrier}:\n\n${text}`;
}

function originalOf({ name, text, images, note }: RecoveredOutput): Document["originals"][number] {
  const pictures = images.length > 0 ? ` and ${count(images.length, "image")}` : "";
  return { title: `Original of ${name}, ${short(text.length)} characters${pictures}${note ? `; ${note}` : ""}`, text };
}
