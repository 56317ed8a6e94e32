/**
 * Reading back what stands in the session JSONL. A session file is outside input: other releases, other extensions and
 * damaged disks write it, so every entry is validated here once and nowhere else.
 */
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { isRecord } from "../text/json.ts";
import {
  type ChainCompressionEntry,
  type ChoiceEntryData,
  CUSTOM_TYPE_CHAIN,
  CUSTOM_TYPE_CHOICE,
  CUSTOM_TYPE_DEDUP_ALIAS,
  CUSTOM_TYPE_DIAGNOSTIC,
  CUSTOM_TYPE_FRONTIER,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_STATS,
  CUSTOM_TYPE_SUMMARY,
  type DedupAliasEntryData,
  type DiagnosticEntryData,
  type FrontierEntryData,
  type HeldRecord,
  type IndexEntryData,
  type StatsEntryData,
  type SummaryEntryData,
  type SummaryToolCallRef,
  type ToolCallRecord,
} from "../types.ts";
import type { EntryCalls } from "./index-calls.ts";
import { isHeld } from "./lean-records.ts";

/** Any object: checking its keys one by one would only say again that they are strings. */
const Arguments = Type.Unsafe<Record<string, unknown>>(Type.Object({}));
const Count = Type.Integer({ minimum: 0 });
const Ref = Type.String({ pattern: "^[tb][0-9]{1,7}$" });

const RecordType = Type.Object({
  toolCallId: Type.String(),
  toolName: Type.String(),
  args: Arguments,
  resultText: Type.String(),
  isError: Type.Boolean(),
  turnIndex: Type.Number(),
  timestamp: Type.Number(),
  resultTimestamp: Type.Optional(Type.Number()),
  resultChars: Type.Optional(Count),
  resultImages: Type.Optional(Count),
  outcome: Type.Optional(Type.String()),
  contentHash: Type.Optional(Type.String()),
  spillPath: Type.Optional(Type.String()),
  spillBytes: Type.Optional(Count),
  spillLines: Type.Optional(Count),
  spillLongestLine: Type.Optional(Count),
  change: Type.Optional(Type.String()),
  changeChars: Type.Optional(Count),
  resultPreview: Type.Optional(Type.String()),
});

const HeldType = Type.Object({
  contentHash: Type.String(),
  // Records have it, so that a broken one is not taken for this.
  toolName: Type.Optional(Type.Never()),
  outcome: RecordType.properties.outcome,
});

const RefType = Type.Object({
  shortId: Ref,
  toolCallId: Type.String(),
  resultTimestamp: Type.Optional(Type.Number()),
});

const RecordSchema = Compile(RecordType);
const HeldSchema = Compile(HeldType);
const RefSchema = Compile(RefType);

/** An index entry that is valid as a whole, as nearly all are: its data is used as it is. */
const IndexSchema = Compile(
  Type.Object({
    toolCalls: Type.Array(Type.Union([HeldType, RecordType])),
    refs: Type.Array(RefType),
    backfilled: Type.Optional(Type.Literal(true)),
  }),
);

const SummarySchema = Compile(
  Type.Object({
    text: Type.String(),
    parts: Type.Array(Type.Object({ shortId: Ref, occurrenceKey: Type.String(), text: Type.String() })),
    occurrenceKeys: Type.Array(Type.String()),
    model: Type.String(),
  }),
);

const AliasSchema = Compile(
  Type.Object({
    newToolCallId: Type.String(),
    newResultTimestamp: Type.Optional(Type.Number()),
    originalToolCallId: Type.String(),
    originalResultTimestamp: Type.Optional(Type.Number()),
    contentHash: Type.Optional(Type.String()),
    shortId: Type.Optional(Ref),
    eager: Type.Optional(Type.Literal(true)),
  }),
);

const FrontierSchema = Compile(
  Type.Object({
    lastAttemptedToolCallId: Type.Union([Type.String(), Type.Null()]),
    lastAttemptedResultTimestamp: Type.Optional(Type.Number()),
    skippedOccurrenceKeys: Type.Optional(Type.Array(Type.String())),
    purgedOccurrenceKeys: Type.Optional(Type.Array(Type.String())),
    pointers: Type.Optional(
      Type.Array(Type.Object({ toolCallId: Type.String(), occurrenceKey: Type.String(), text: Type.String() })),
    ),
    attemptedBatchCount: Count,
    attemptedToolCallCount: Count,
    rawCharCount: Count,
    summaryCharCount: Count,
    outcome: Type.Union([
      Type.Literal("summarized"),
      Type.Literal("skipped-oversized"),
      Type.Literal("skipped-deduped"),
      Type.Literal("skipped-trivial"),
    ]),
  }),
);

const ChainSchema = Compile(
  Type.Object({
    blockId: Type.String({ pattern: "^b[0-9]{1,7}$" }),
    startUserTimestamp: Type.Number(),
    finalAssistantTimestamp: Type.Number(),
    droppedToolCallIds: Type.Array(Type.String()),
    droppedOccurrenceKeys: Type.Optional(Type.Array(Type.String())),
    toolRefs: Type.Array(Ref),
    compressedAt: Type.Number(),
    protectedToolCallIds: Type.Optional(Type.Array(Type.String())),
    protectedOccurrenceKeys: Type.Optional(Type.Array(Type.String())),
    rangeSummaryText: Type.Optional(Type.String()),
    bodySource: Type.Optional(
      Type.Union([Type.Literal("summaries"), Type.Literal("fused"), Type.Literal("mechanical")]),
    ),
    interrupted: Type.Optional(Type.Literal(true)),
    active: Type.Optional(Type.Boolean()),
  }),
);

const StatsSchema = Compile(
  Type.Object({
    totalInputTokens: Type.Number({ minimum: 0 }),
    totalOutputTokens: Type.Number({ minimum: 0 }),
    totalCost: Type.Number({ minimum: 0 }),
    callCount: Count,
    failedCallCount: Type.Optional(Count),
  }),
);

const ChoiceSchema = Compile(
  Type.Object({
    occurrenceKey: Type.String(),
    shortId: Ref,
    choice: Type.Union([Type.Literal("keep"), Type.Literal("drop"), Type.Null()]),
  }),
);

const DiagnosticSchema = Compile(Type.Object({ kind: Type.String(), detail: Type.String() }));

/** An index entry, read back and validated. */
export interface IndexEntry {
  kind: "index";
  data: IndexEntryData;
  rejected: number;
  /** Its calls by key, once `callsOf` has been asked for them. */
  calls?: EntryCalls | undefined;
}

/** One of the extension's own entries, read back and validated. */
export type OwnEntry =
  | IndexEntry
  | { kind: "summary"; data: SummaryEntryData }
  | { kind: "legacy-summary"; text: string; refs: SummaryToolCallRef[]; timestamp: number }
  | { kind: "alias"; data: DedupAliasEntryData }
  | { kind: "chain"; data: ChainCompressionEntry }
  | { kind: "choice"; data: ChoiceEntryData }
  | { kind: "frontier"; data: FrontierEntryData }
  | { kind: "stats"; data: StatsEntryData }
  | { kind: "diagnostic"; data: DiagnosticEntryData }
  | { kind: "invalid"; customType: string };

/**
 * Reads one session entry. Gives `undefined` for an entry that is not the extension's, and `invalid` for one that
 * claims to be and has another shape: the caller leaves it out and reports it once.
 */
export function readOwnEntry(entry: SessionEntry): OwnEntry | undefined {
  if (entry.type === "custom") return readCustom(entry.customType, entry.data);
  if (entry.type === "custom_message" && entry.customType === CUSTOM_TYPE_SUMMARY) {
    return readLegacySummary(entry.content, entry.details, Date.parse(entry.timestamp));
  }
  return undefined;
}

/** The extension's own entries among those of a session. */
export function readOwnEntries(entries: readonly SessionEntry[]): OwnEntry[] {
  return entries.flatMap((entry) => readOwnEntry(entry) ?? []);
}

/** Whether an entry that is about to be written would be read back whole. */
export function isReadable(customType: string, data: unknown): boolean {
  const own = readCustom(customType, data);
  return own !== undefined && own.kind !== "invalid" && !(own.kind === "index" && own.rejected > 0);
}

function readCustom(customType: string, data: unknown): OwnEntry | undefined {
  switch (customType) {
    case CUSTOM_TYPE_INDEX:
      return readIndex(data);
    case CUSTOM_TYPE_SUMMARY:
      return SummarySchema.Check(data) ? { kind: "summary", data } : invalid(customType);
    case CUSTOM_TYPE_DEDUP_ALIAS:
      return AliasSchema.Check(data) ? { kind: "alias", data } : invalid(customType);
    case CUSTOM_TYPE_CHAIN:
      return ChainSchema.Check(data) ? { kind: "chain", data } : invalid(customType);
    case CUSTOM_TYPE_CHOICE:
      return ChoiceSchema.Check(data) ? { kind: "choice", data } : invalid(customType);
    case CUSTOM_TYPE_FRONTIER:
      return FrontierSchema.Check(data) ? { kind: "frontier", data } : invalid(customType);
    case CUSTOM_TYPE_STATS:
      return StatsSchema.Check(data)
        ? { kind: "stats", data: { ...data, failedCallCount: data.failedCallCount ?? 0 } }
        : invalid(customType);
    case CUSTOM_TYPE_DIAGNOSTIC:
      return DiagnosticSchema.Check(data) ? { kind: "diagnostic", data } : invalid(customType);
    default:
      return undefined;
  }
}

function invalid(customType: string): OwnEntry {
  return { kind: "invalid", customType };
}

/** An index entry with a bad record in it still gives its good ones. */
function readIndex(data: unknown): OwnEntry {
  const isWhole = (entry: IndexEntryData) =>
    entry.toolCalls.length === entry.refs.length || !entry.toolCalls.some(isHeld);
  if (IndexSchema.Check(data) && isWhole(data)) return { kind: "index", data, rejected: 0, calls: undefined };
  if (!isRecord(data) || !Array.isArray(data.toolCalls)) return invalid(CUSTOM_TYPE_INDEX);
  const given: unknown[] = Array.isArray(data.refs) ? data.refs : [];
  const held = given.length === data.toolCalls.length ? heldPairs(data.toolCalls, given) : [];
  const toolCalls = [...held.map(([record]) => record), ...valid<ToolCallRecord>(RecordSchema, data.toolCalls)];
  const named = new Set<unknown>(held.map(([, ref]) => ref));
  const others = valid<SummaryToolCallRef>(RefSchema, given).filter((ref) => !named.has(ref));
  const refs = [...held.map(([, ref]) => ref), ...others];
  const entry: IndexEntryData = { toolCalls, refs, ...(data.backfilled === true ? { backfilled: true } : {}) };
  return { kind: "index", data: entry, rejected: data.toolCalls.length - toolCalls.length };
}

/** The good ones among held records, each with its ref. */
function heldPairs(toolCalls: readonly unknown[], refs: readonly unknown[]): [HeldRecord, SummaryToolCallRef][] {
  return toolCalls.flatMap((record, i): [HeldRecord, SummaryToolCallRef][] => {
    const ref = refs[i];
    return HeldSchema.Check(record) && RefSchema.Check(ref) ? [[record, ref]] : [];
  });
}

/** Earlier releases wrote the summary as a message of the conversation, its refs in `details.toolCallRefs`. */
function readLegacySummary(content: unknown, details: unknown, timestamp: number): OwnEntry {
  if (typeof content !== "string" || !isRecord(details) || !Array.isArray(details.toolCallRefs)) {
    return invalid(CUSTOM_TYPE_SUMMARY);
  }
  const refs = valid<SummaryToolCallRef>(RefSchema, details.toolCallRefs);
  return refs.length > 0 ? { kind: "legacy-summary", text: content, refs, timestamp } : invalid(CUSTOM_TYPE_SUMMARY);
}

function valid<T>(schema: { Check(value: unknown): boolean }, values: readonly unknown[]): T[] {
  return values.filter((value): value is T => schema.Check(value));
}
