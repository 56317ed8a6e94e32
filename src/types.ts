/**
 * The records, entries and settings that several modules share.
 *
 * Shapes that are persisted in the session JSONL are documented with their units; `session/entries.ts` validates
 * every one of them when it is read back.
 */
import type { ImageContent, TextContent } from "@mariozechner/pi-ai";

/** `customType` of each entry that the extension appends to the session JSONL. */
export const CUSTOM_TYPE_INDEX = "context-prune-index";
export const CUSTOM_TYPE_SUMMARY = "context-prune-summary";
export const CUSTOM_TYPE_DEDUP_ALIAS = "context-prune-dedup-alias";
export const CUSTOM_TYPE_CHAIN = "context-prune-chain";
export const CUSTOM_TYPE_FRONTIER = "context-prune-frontier";
export const CUSTOM_TYPE_STATS = "context-prune-stats";
export const CUSTOM_TYPE_CHOICE = "context-prune-choice";
export const CUSTOM_TYPE_DIAGNOSTIC = "context-prune-diagnostic";

/** `kind` of the diagnostic that names a result or a chain of which no readable entry can be made; it is left alone. */
export const REFUSED_ENTRY = "refused-entry";

/** Name of the recovery tool. Its own results are never condensed as ordinary output. */
export const QUERY_TOOL_NAME = "context_tree_query";

/** The content blocks of a tool result. */
export type ResultContent = (TextContent | ImageContent)[];

/**
 * One tool result that the extension has dealt with, as persisted in a `context-prune-index` entry.
 *
 * A record is identified by its occurrence key (`toolCallId@resultTimestamp`); records without `resultTimestamp` come
 * from releases that keyed by the bare id.
 */
export interface ToolCallRecord {
  toolCallId: string;
  toolName: string;
  args: Record<string, unknown>;
  /**
   * The text blocks of the result, joined as `extractToolResultText` does. Empty for a spilled record, and where the
   * session's own message holds it: that is the result of this key whose content has `contentHash`.
   */
  resultText: string;
  isError: boolean;
  /** Position of the assistant turn in the context it was captured from; for people who read the file. */
  turnIndex: number;
  /** Timestamp of the assistant message that made the call, ms since the epoch. */
  timestamp: number;
  /** Timestamp of the tool result message, ms since the epoch. */
  resultTimestamp?: number;
  /** Length of the original text in UTF-16 code units; present where `resultText` does not hold it. */
  resultChars?: number;
  /** Number of images in the original result; absent means none. The images stay in the session's own message. */
  resultImages?: number;
  /** What came of the call in a few words ("ok", "exit code 1", "12 matches"); part of the stub. */
  outcome?: string;
  /** As `contentHash` gives it; the key of deduplication. Releases up to 1.0.0 wrote the whole hash in hexadecimal. */
  contentHash?: string;
  /** Absolute path of the sidecar blob that holds the text of a spilled result. */
  spillPath?: string;
  /** Length of that text in bytes of UTF-8, and its number of lines. */
  spillBytes?: number;
  spillLines?: number;
  /** Bytes of its longest line; absent in records of earlier releases. */
  spillLongestLine?: number;
  /** What the call changed in files, "" for nothing, and characters of its long arguments; absent where it is not known. */
  change?: string;
  changeChars?: number;
  /** Head of a spilled text, at most `spillPreviewBytes` bytes; part of the stub. */
  resultPreview?: string;
}

/**
 * What an index entry holds of a result that stands in a message of the session: the one that the ref at the same place of
 * the entry names. What else a record says is read there.
 */
export type HeldRecord = Pick<ToolCallRecord, "outcome"> & { contentHash: string };

/** Ties a short ref (`t12`) to the occurrence that it names. */
export interface SummaryToolCallRef {
  shortId: string;
  toolCallId: string;
  resultTimestamp?: number;
}

/** Data of a `context-prune-index` entry. */
export interface IndexEntryData {
  toolCalls: (ToolCallRecord | HeldRecord)[];
  /** As many as there are calls, in their order, where one of these is a `HeldRecord`. */
  refs: SummaryToolCallRef[];
  /** The records were indexed after the fact, without a summary of their own. */
  backfilled?: true;
}

/** What one summariser call consumed. Tokens as the provider reported them, cost in USD. */
export interface SummaryUsage {
  inputTokens: number;
  outputTokens: number;
  cost: number;
}

/** One call's share of a batch summary. */
export interface SummaryPart {
  shortId: string;
  occurrenceKey: string;
  text: string;
}

/** Data of a `context-prune-summary` entry: the summary of one batch, or those of several that are split by call. */
export interface SummaryEntryData {
  /** The summary as it was written where it could not be split, else empty: the parts have it. */
  text: string;
  /**
   * The summary split by call. A call without a part takes the whole text if it is the last condensed one of the batch,
   * and points to that one otherwise.
   */
  parts: SummaryPart[];
  /** Occurrences that it covers, in order. */
  occurrenceKeys: string[];
  /** `provider/id` of the model, or `none` for the mechanical digest. */
  model: string;
  usage?: SummaryUsage;
}

/** Data of a `context-prune-dedup-alias` entry: a result that repeats an indexed one byte for byte. */
export interface DedupAliasEntryData {
  newToolCallId: string;
  newResultTimestamp?: number;
  originalToolCallId: string;
  originalResultTimestamp?: number;
  contentHash?: string;
  /** Ref of the repeat itself; absent in entries of earlier releases. */
  shortId?: string;
  /** The repeat is oversized: its stub takes effect at once, as that of a spilled result does. */
  eager?: true;
}

/** Stands for a recovered output that has had its grace. */
export interface RecoveryPointer {
  toolCallId: string;
  occurrenceKey: string;
  text: string;
}

/** What came of a flush. */
export type FlushOutcome = "summarized" | "skipped-oversized" | "skipped-deduped" | "skipped-trivial";

/** Data of a `context-prune-frontier` entry. Its place in the branch marks the start of an epoch. */
export interface FrontierEntryData {
  /** Last result that a flush has dealt with, whatever came of it; `null` when the first batch of all failed. */
  lastAttemptedToolCallId: string | null;
  lastAttemptedResultTimestamp?: number;
  /** Results beyond the frontier that were skipped for good, so that they are not paid for again. */
  skippedOccurrenceKeys?: string[];
  /** Failed and spilled calls whose arguments are condensed from here on. */
  purgedOccurrenceKeys?: string[];
  /** Recovered outputs that give way to a pointer from here on. */
  pointers?: RecoveryPointer[];
  attemptedBatchCount: number;
  attemptedToolCallCount: number;
  /** Characters of the results that were attempted, and of what now stands in their place. */
  rawCharCount: number;
  summaryCharCount: number;
  outcome: FlushOutcome;
}

/** Why a flush was made. Amounts in USD, or in multiples of the input price where the model has no prices. */
export interface FlushReason {
  reason: string;
  /** Expected on later requests, and due at once. */
  savings: number;
  price: number;
}

/** Data of a `context-prune-stats` entry: cumulative use of the summariser in this session. */
export interface StatsEntryData {
  totalInputTokens: number;
  totalOutputTokens: number;
  totalCost: number;
  callCount: number;
  failedCallCount: number;
}

/** Data of a `context-prune-diagnostic` entry; one per kind and subject. */
export interface DiagnosticEntryData {
  kind: string;
  detail: string;
}

/** One finished tool call with its result, as captured from the context. */
export interface CapturedToolCall {
  /** `toolCallId@resultTimestamp`. */
  occurrenceKey: string;
  toolCallId: string;
  toolName: string;
  args: Record<string, unknown>;
  /** Blocks of the result message, by reference: read, never changed. */
  content: ResultContent;
  resultText: string;
  resultImages: number;
  isError: boolean;
  /** ms since the epoch; `undefined` where the message has no time. */
  resultTimestamp: number | undefined;
}

/** The calls and results of one assistant turn, or of one agent run (`batchingMode`). */
export interface CapturedBatch {
  turnIndex: number;
  /** Timestamp of the (first) assistant message, ms since the epoch. */
  timestamp: number;
  /** Text that the assistant wrote next to the calls; tells a summariser what they were made for. */
  assistantText: string;
  toolCalls: CapturedToolCall[];
  /** Finished but still at work: it stays as it is for now, and no frontier passes it. */
  held?: boolean;
}

export type PruneOn = "agent-message" | "every-turn" | "on-context-tag" | "on-demand" | "cache-aware";
export type BatchingMode = "turn" | "agent-message";
export type SummarizerThinking = "default" | "off" | "minimal" | "low" | "medium" | "high" | "xhigh";

/** Every setting under `contextPrune`; defaults, presets and help stand in the table of `config.ts`. */
export interface ContextPruneConfig {
  enabled: boolean;
  pruneOn: PruneOn;
  contextTagTools: string[];
  batchingMode: BatchingMode;
  /** `default` (the session's model), `provider/id`, or `none` for the mechanical digest. */
  summarizerModel: string;
  summarizerThinking: SummarizerThinking;
  /** Milliseconds without any event of the summariser's stream after which the call is given up. */
  summarizerIdleTimeoutMs: number;
  /** Milliseconds that one summariser call may take in total. */
  summarizerMaxTimeoutMs: number;
  /** Summariser calls that may run at once. */
  summarizerConcurrency: number;
  /** Characters below which a batch is left as it is. */
  minBatchChars: number;
  dedupByContentHash: boolean;
  /** Characters (`resultText.length`) from which a single result is written to a sidecar file at once. */
  spillThreshold: number;
  /** Bytes of UTF-8 of a spilled result that stay in its stub. */
  spillPreviewBytes: number;
  /**
   * Share of the context window, a fraction in (0, 1] and not a percentage, from which all that is pending is flushed at
   * the end of any turn, whatever `pruneOn` says. `null` (default) and values out of range are off.
   */
  autoBudgetThreshold: number | null;
  /** Share of the window, in (0, 1], that one turn has to add to force a flush. `null` (default) is off. */
  budgetTurnDelta: number | null;
  /** Tokens from which all that is pending is flushed, for windows that no share is ever reached of. `null` is off. */
  autoBudgetTokens: number | null;
  /** Tools whose output is never condensed; in a compressed chain it is relocated verbatim. */
  protectedTools: string[];
  /** The same for tools whose output is small and hard to get again: todo lists, answers of the user, skills, memory. */
  stateTools: string[];
  /** The same for tools that return their whole list each time; older lists give way to the newest. */
  listTools: string[];
  /** Globs of paths that calls name; output of such calls is protected in the same way. */
  protectedPaths: string[];
  chainCompression: ChainCompressionConfig;
  /** Long strings in the arguments of condensed calls become markers. */
  condenseArgs: { enabled: boolean; minStringChars: number };
  /** The same for failed calls, once `cooldownTurns` user turns have passed. */
  purgeErrors: { enabled: boolean; cooldownTurns: number; minArgChars: number };
  /** Requests for which results and arguments stay after the file that they are about was touched; `null` is off. */
  workingSet: number | null;
  /** User turns for which recovered output stays as it is. */
  recoveryGraceTurns: number;
  /** Output of the last `turns` user turns is left alone. */
  turnProtection: { enabled: boolean; turns: number };
  /** Text between `<protect>` and `</protect>` in a result survives its stub. */
  protectTags: boolean;
  /** Images that a request may carry; `null` is what the provider is known to take. */
  maxImagesPerRequest: number | null;
  /** One short segment in the host's status line. */
  showPruneStatusLine: boolean;
  /** Reports of a flush leave out the results that a summary did not make shorter. */
  quietOversizedSkips: boolean;
}

/** Choices of `autoBudgetThreshold` in the settings; `"0"` stands for off. */
export const AUTO_BUDGET_PRESETS: { value: string; label: string }[] = [
  { value: "0", label: "Off (default)" },
  { value: "0.6", label: "60%" },
  { value: "0.7", label: "70%" },
  { value: "0.8", label: "80%" },
  { value: "0.9", label: "90%" },
];

/** Settings of chain compression. */
export interface ChainCompressionConfig {
  enabled: boolean;
  /** Newest closed chains that always stand raw. */
  rollingWindow: number;
  /** Chains behind the window that gather before they are compressed together. */
  batchSize: number;
  /** The closing reply of a compressed chain loses its thinking. */
  stripFinalAssistantThinking: boolean;
  /** One summariser call joins the summaries of a chain that has two or more. */
  fuseRangeSummary: boolean;
}

/**
 * A chain in the conversation: the message that opens it, tool turns, and the text-only reply that closes it.
 * Found anew each time, never persisted.
 */
export interface ChainRange {
  /** Timestamp of the opening message, ms since the epoch. */
  startUserTimestamp: number;
  /** Timestamp of the closing reply; of the last assistant message where the chain was interrupted. */
  finalAssistantTimestamp: number;
  /** Ids of all calls between the two. */
  middleToolCallIds: string[];
  /** Subset of `middleToolCallIds` whose output is protected: a detection-time fact. */
  protectedToolCallIds: string[];
  /** Occurrence keys of the results between the two, in order. */
  occurrenceKeys: string[];
  /** Subset of `occurrenceKeys` that is protected. */
  protectedOccurrenceKeys: string[];
  /** The next user message came before any closing reply; nothing of the chain's assistant messages is kept. */
  interrupted: boolean;
}

/** What the person has said of one result: it stays word for word, or goes at once; `null` is what the settings say. */
export type ResultChoice = "keep" | "drop";

/** Data of a `context-prune-choice` entry. A later one of the same result replaces an earlier one. */
export interface ChoiceEntryData {
  occurrenceKey: string;
  /** Ref that the person named it by: the result may have no record. */
  shortId: string;
  choice: ResultChoice | null;
}

/** Data of a `context-prune-chain` entry. A later entry for the same block replaces an earlier one. */
export interface ChainCompressionEntry {
  /** `b7`; given once, never reused. */
  blockId: string;
  startUserTimestamp: number;
  finalAssistantTimestamp: number;
  droppedToolCallIds: string[];
  /** Occurrences that are dropped; absent in entries from before occurrence keys. */
  droppedOccurrenceKeys?: string[];
  /** Refs of the chain's calls, in order. */
  toolRefs: string[];
  /** ms since the epoch. */
  compressedAt: number;
  /**
   * Subset of `droppedToolCallIds` whose tool was protected. Their text is relocated into the body at render time, live
   * from the raw branch. Fixed when the chain is compressed, whatever the settings say later; absent means none.
   */
  protectedToolCallIds?: string[];
  /** The same by occurrence; absent in entries of earlier releases. */
  protectedOccurrenceKeys?: string[];
  /** Joined summary of the whole chain; absent where the body is made of the calls' own summaries. */
  rangeSummaryText?: string;
  /** What the body was made from. */
  bodySource?: "summaries" | "fused" | "mechanical";
  interrupted?: true;
  /** `false` after a decompress, `true` after a recompress; absent means active. */
  active?: boolean;
}
