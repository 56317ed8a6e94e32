/** What a flush may still commit once its summaries are made. */
import { lastAnswerIndex, resultKeys } from "../transcript/messages.ts";
import type { ChainRange } from "../types.ts";
import type { SessionState } from "./session-state.ts";

/**
 * Whether an occurrence may still be indexed, and a chain compressed: a tree move may have taken them away while the
 * summaries were made, or the reply that had answered them.
 * @param movesAtStart moves of the leaf when the flush began
 */
export function currencyOf(
  state: SessionState,
  movesAtStart: number,
): { isCurrent(key: string): boolean; isCurrentRange(range: ChainRange): boolean } {
  if (movesAtStart === state.moves) {
    return { isCurrent: (key) => !state.indexer.isSummarized(key), isCurrentRange: () => true };
  }
  const messages = state.messages();
  const answered = resultKeys(messages.slice(0, lastAnswerIndex(messages) + 1));
  return {
    isCurrent: (key) => answered.has(key) && !state.indexer.isSummarized(key),
    isCurrentRange: (range) => range.occurrenceKeys.every((key) => answered.has(key)),
  };
}
