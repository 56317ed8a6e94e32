/** Which chains are compressed, what is recorded of them, and the text that stands for them. */
import { neutralizeMarks } from "./chain-range-prune.ts";
import { cut, oneLine, shareRoom, wellFormed } from "./text/text.ts";
import type { ChainCompressionConfig, ChainCompressionEntry, ChainRange } from "./types.ts";

/** Characters of summaries in one body: about 600 tokens, a tenth of what a chain of a few file reads costs raw. */
export const MAX_SUMMARY_CHARS = 2500;

/** Characters of one call's summary in a body. */
export const MAX_CALL_SUMMARY_CHARS = 400;

/** Below this a piece of a summary says nothing, so a long chain keeps its latest summaries rather than shreds of all. */
const MIN_CALL_SUMMARY_CHARS = 80;

/** Characters of the line that every call has in a full body. */
export const MAX_LINE_CHARS = 200;

/** Characters of a call's line in a terse body. */
export const MAX_TERSE_LINE_CHARS = 70;

/** How chains are chosen. */
export interface EligibilityOptions {
  config: ChainCompressionConfig;
  /** The chain is compressed already, or was put back by hand. */
  isCompressed(range: ChainRange): boolean;
  /** Nothing more will be done about this result: it was condensed, skipped for good, or is left alone on purpose. */
  isDealtWith(key: string): boolean;
  /** Take every candidate at once, however few there are. */
  all?: boolean;
}

/** What entries are made from. */
export interface CompressionDeps {
  mintBlockId(): string;
  refOf(key: string): string | undefined;
  /** One text for the whole chain, where there is one. */
  rangeSummary(range: ChainRange): { text: string; source: "fused" } | undefined;
  isSummarized(key: string): boolean;
  /** ms since the epoch. */
  now: number;
}

/** One call of a chain, as a body lists it. */
export interface ChainCall {
  /** `t12`; empty for a call that cannot be asked for. */
  ref: string;
  /** What the call was and what came of it, in a few words. */
  line: string;
  /** The same for a terse body: with the end of a path and the outcome in few characters. */
  shortLine?: string;
  /** The call's own summary; may be empty. */
  summary: string;
  /** Text that the tool marked as not to be condensed: it stands below the line, word for word. */
  kept?: string;
}

/** The keys go with the ids even where there are none: an id alone would also name the result of a reused id. */
function protectedPart({ protectedToolCallIds, protectedOccurrenceKeys }: ChainRange) {
  return protectedToolCallIds.length > 0 ? { protectedToolCallIds, protectedOccurrenceKeys } : {};
}

/** Whether any result of the chain has been summarised; else only mechanical lines can stand for it. */
export function hasPerBatchSummaryCoveringAny(range: ChainRange, isSummarized: (key: string) => boolean): boolean {
  return range.occurrenceKeys.some((key) => isSummarized(key));
}

/**
 * The chains to be compressed now, oldest first.
 *
 * The newest `rollingWindow` chains always stand raw, interrupted ones counted too. Of the others, those are candidates
 * that are not compressed, hold at least one result that is not protected, and have every such result dealt with. They
 * go together, once there are more than `batchSize` of them, since each time a chain is compressed the prompt changes
 * from there on. Chains that are no candidates are not counted, so one that can never be compressed neither sets the
 * others off nor holds them up.
 */
export function selectEligible(ranges: readonly ChainRange[], options: EligibilityOptions): ChainRange[] {
  const { config } = options;
  if (!config.enabled) return [];
  const candidates = ranges
    .slice(0, Math.max(0, ranges.length - config.rollingWindow))
    .filter((range) => !options.isCompressed(range) && isSettled(range, options.isDealtWith));
  return options.all || candidates.length > config.batchSize ? candidates : [];
}

function isSettled(range: ChainRange, isDealtWith: (key: string) => boolean): boolean {
  const kept = new Set(range.protectedOccurrenceKeys);
  const others = range.occurrenceKeys.filter((key) => !kept.has(key));
  return others.length > 0 && others.every((key) => isDealtWith(key));
}

/**
 * The entries that record the compression of these chains. Protected calls are among the dropped ones: their output
 * moves into the chain's text, so that neither a call nor a result is ever left behind alone.
 */
export function compressEligible(ranges: readonly ChainRange[], deps: CompressionDeps): ChainCompressionEntry[] {
  return ranges.map((range) => {
    const summary = deps.rangeSummary(range);
    const refs = range.occurrenceKeys.map((key) => deps.refOf(key)).filter((ref) => ref !== undefined);
    return {
      blockId: deps.mintBlockId(),
      startUserTimestamp: range.startUserTimestamp,
      finalAssistantTimestamp: range.finalAssistantTimestamp,
      droppedToolCallIds: range.middleToolCallIds,
      droppedOccurrenceKeys: range.occurrenceKeys,
      toolRefs: [...new Set(refs)],
      compressedAt: deps.now,
      ...protectedPart(range),
      ...(summary ? { rangeSummaryText: summary.text } : {}),
      bodySource: summary?.source ?? sourceOf(range, deps.isSummarized),
      ...(range.interrupted ? { interrupted: true as const } : {}),
    };
  });
}

function sourceOf(range: ChainRange, isSummarized: (key: string) => boolean): "summaries" | "mechanical" {
  return hasPerBatchSummaryCoveringAny(range, isSummarized) ? "summaries" : "mechanical";
}

/**
 * The text of a compressed chain. Every call has a line that begins with its ref, whatever else there is room for.
 * - `full` with a summary of the whole chain: that summary, then the lines.
 * - `full` without one: under each line the beginning of the call's own summary, indented. Summaries take at most
 *   `MAX_SUMMARY_CHARS` in all; where that is short, the latest calls keep theirs.
 * - `terse`: the lines alone, cut short.
 *
 * Tool text cannot close or fake the marks that the text stands between, nor refer to another chain.
 */
export function buildChainBody(
  calls: readonly ChainCall[],
  options: { rangeSummary?: string; level: "full" | "terse" },
): string {
  if (options.level === "terse")
    return calls
      .map((call) => ({ ...call, line: call.shortLine ?? call.line }))
      .map((call) => withKept(callLine(call, MAX_TERSE_LINE_CHARS), call))
      .join("\n");

  const lines = calls.map((call) => withKept(callLine(call, MAX_LINE_CHARS), call));
  const whole = textLines(neutralizeMarks(wellFormed(options.rangeSummary ?? "")));
  if (whole.length > 0) return [...headLines(whole, MAX_SUMMARY_CHARS), ...lines].join("\n");

  const summaries = calls.map((call) => textLines(neutralize(call.summary)));
  const room = summaryRoom(summaries.map((summary) => summary.join("\n").length));
  return lines
    .flatMap((line, i) => [line, ...headLines(summaries[i] ?? [], room[i] ?? 0).map((text) => `  ${text}`)])
    .join("\n");
}

function callLine({ ref, line }: ChainCall, max: number): string {
  const head = ref === "" ? "-" : `- ${ref}`;
  // Flattened first: it takes out escape sequences, and a mark must not come together behind them.
  return cut(`${head} ${neutralize(oneLine(line, max))}`.trimEnd(), max);
}

function withKept(line: string, { kept }: ChainCall): string {
  return kept ? `${line}\n${neutralize(kept)}` : line;
}

/** As `neutralizeMarks`; a `{b3}` in tool text is not one of our references either. */
function neutralize(text: string): string {
  return neutralizeMarks(wellFormed(text)).replace(/\{(?=b\d+\})/g, "{ ");
}

function textLines(text: string): string[] {
  return text
    .split(/\r\n|[\n\r\u2028\u2029]/)
    .map((line) => line.trimEnd())
    .filter((line) => line !== "");
}

/** As much of the text as `max` characters hold; an ellipsis says where there was more. */
function headLines(lines: readonly string[], max: number): string[] {
  return max === 0 ? [] : cut(lines.join("\n"), max).split("\n");
}

/** Characters that each summary may take; where that is short, the earliest get none. */
function summaryRoom(lengths: readonly number[]): number[] {
  const asking = [...lengths.keys()].filter((i) => lengths[i]);
  const latest = new Set(asking.slice(-Math.floor(MAX_SUMMARY_CHARS / MIN_CALL_SUMMARY_CHARS)));
  const wanted = lengths.map((length, i) => (latest.has(i) ? length : 0));
  return shareRoom(wanted, MAX_SUMMARY_CHARS, MAX_CALL_SUMMARY_CHARS);
}
