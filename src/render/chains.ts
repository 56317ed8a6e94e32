/** What stands in a compressed chain: a line for each of its calls, and their summaries while the chain is young. */
import { buildChainBody, type ChainCall } from "../chain-compressor.ts";
import type { ChainLevel, RenderedChain } from "../chain-range-prune.ts";
import { describeCall, describeOutcome } from "../digest/describe.ts";
import type { CommittedState } from "../session/ledger.ts";
import type { OriginalResult } from "../session/originals.ts";
import { cut } from "../text/text.ts";
import { countImages, extractToolResultText } from "../transcript/messages.ts";
import { taggedText, withoutTagged } from "../transcript/tags.ts";
import type { ChainCompressionEntry } from "../types.ts";
import { describeRecord, type StubSubject } from "./stub.ts";

/**
 * Newest chains whose bodies hold summaries; older ones keep a short line for each call, so that 200 chains stay small.
 * They turn terse so many at a time, since each time rewrites the prompt from the first of them on.
 */
export const FULL_BODIES = 16;

/** Finds the session's own copy of a result that no release has indexed. */
export type FindOriginal = (key: string) => OriginalResult | undefined;

/** What bodies are made from besides the entries. */
interface BodySources {
  findOriginal: FindOriginal;
  protectTags: boolean;
}

/**
 * The active chains with their bodies, oldest first. What a chain says was settled when it was compressed, so that its
 * text is taken from `earlier` ones that were made of the same entries and settings.
 */
export function renderChains(
  state: CommittedState,
  sources: BodySources,
  earlier: readonly RenderedChain[] = [],
): RenderedChain[] {
  const known = new Map(earlier.map((chain) => [chain.entry, chain]));
  const active = [...state.chains.values()].filter((entry) => entry.active !== false);
  const terse = Math.max(0, Math.floor((active.length - FULL_BODIES) / FULL_BODIES) * FULL_BODIES);
  return active.map((given, i) => {
    const entry = withChoices(given, state.choices);
    const level = i < terse ? "terse" : "full";
    const same = known.get(entry);
    return same?.level === level ? same : new ChainText(entry, level, state, sources);
  });
}

/** The chain with what the person keeps word for word, and without what was protected and has been dropped since. */
function withChoices(entry: ChainCompressionEntry, choices: CommittedState["choices"]): ChainCompressionEntry {
  const own = (entry.droppedOccurrenceKeys ?? []).filter((key) => choices.has(key));
  if (own.length === 0) return entry;
  const kept = new Set(entry.protectedOccurrenceKeys ?? entry.protectedToolCallIds);
  for (const key of own) {
    if (choices.get(key) === "keep") kept.add(key);
    else kept.delete(key);
  }
  return { ...entry, protectedOccurrenceKeys: [...kept] };
}

/** A chain whose body is made when it is first met: after a restart most of them may stand behind a compaction. */
class ChainText implements RenderedChain {
  private made: string | undefined;

  constructor(
    readonly entry: ChainCompressionEntry,
    readonly level: ChainLevel,
    private readonly state: CommittedState,
    private readonly sources: BodySources,
  ) {}

  get body(): string {
    this.made ??= this.make();
    return this.made;
  }

  private make(): string {
    const { entry, state, sources } = this;
    const calls = callsOf(entry, state, sources.findOriginal);
    return buildChainBody(sources.protectTags ? calls : calls.map((call) => ({ ...call, kept: undefined })), {
      rangeSummary: entry.rangeSummaryText,
      level: this.level,
    });
  }
}

function callsOf(entry: ChainCompressionEntry, state: CommittedState, findOriginal: FindOriginal): ChainCall[] {
  const names = entry.droppedOccurrenceKeys ?? entry.droppedToolCallIds;
  const kept = new Set(entry.protectedOccurrenceKeys ?? entry.protectedToolCallIds);
  return names
    .filter((name) => !kept.has(name) && !kept.has(idOf(name, entry)))
    .map((name) => callOf(name, state, findOriginal));
}

function callOf(key: string, state: CommittedState, findOriginal: FindOriginal): ChainCall {
  const call = state.calls.get(key);
  if (call) {
    const { shortId, record } = call;
    const summary = state.summaries.get(key)?.text ?? "";
    const kept = taggedText(record.resultText) || taggedText(summary);
    return {
      ref: shortId,
      line: describeRecord(record),
      shortLine: shortLine(record),
      summary: withoutTagged(summary),
      kept,
    };
  }
  const duplicate = state.duplicates.get(key);
  if (duplicate) {
    const { original, shortId } = duplicate;
    const known = describeRecord(original.record);
    // Earlier releases gave repeats no ref of their own.
    if (shortId === undefined) return { ref: original.shortId, line: `${known}, again`, summary: "" };
    return { ref: shortId, line: `identical to ${original.shortId}: ${known}`, summary: "" };
  }
  // Earlier releases dropped calls that they had not indexed; the raw id still finds those.
  const original = findOriginal(key);
  if (!original) return { ref: key, line: "output no longer known", summary: "" };
  // A server that gives no ids leaves the key alone to name it.
  return { ref: original.message.toolCallId || key, line: describeRecord(recordOf(original)), summary: "" };
}

/** Characters of a terse line that its ref and its outcome leave to the call, at least. */
const MIN_SHORT_CALL = 24;
/** A terse line has 70 characters, of which a long ref takes 10. */
const SHORT_LINE = 60;

/** Call and outcome without the size: of a long call the end of its path stays, and what came of it. */
function shortLine(record: StubSubject["record"]): string {
  const outcome = cut(record.outcome ?? (record.isError ? "error" : "ok"), SHORT_LINE - MIN_SHORT_CALL - 2);
  return `${describeCall(record.toolName, record.args, SHORT_LINE - outcome.length - 2)}, ${outcome}`;
}

function recordOf({ message, args }: OriginalResult): StubSubject["record"] {
  const { toolName, isError } = message;
  const call = {
    toolName,
    args,
    isError,
    resultText: extractToolResultText(message),
    resultImages: countImages(message.content),
  };
  return { ...call, outcome: describeOutcome(call) };
}

function idOf(key: string, entry: ChainCompressionEntry): string {
  return entry.droppedToolCallIds.find((id) => key.startsWith(`${id}@`)) ?? key;
}
