/** Results that are too big for any request: written to a blob at once, without a model, before a request leaves. */
import { contentHash } from "../capture/duplicates.ts";
import { describeOutcome } from "../digest/describe.ts";
import type { AppendEntry, BatchMember, ToolCallIndexer } from "../indexer.ts";
import { blobPathFor, headPreview, writeSpill } from "../spill.ts";
import type { CapturedBatch, CapturedToolCall, ContextPruneConfig } from "../types.ts";

/** What spilling needs. */
export interface SpillDeps {
  indexer: ToolCallIndexer;
  append: AppendEntry;
  /** Folds what was appended back into the index, so that a repeat finds its original. */
  sync(): void;
  blobDir: string;
  config: Pick<ContextPruneConfig, "dedupByContentHash" | "spillPreviewBytes">;
}

/** A result that could not be written; it stays in the context and is condensed like any other. */
export interface SpillFailure {
  occurrenceKey: string;
  reason: string;
}

/**
 * Writes each result of `batches` to its blob and indexes it; one that repeats an indexed result becomes an alias of it,
 * and no second file is written. The file comes first: an entry never names what was not written.
 */
export function spillOversized(batches: readonly CapturedBatch[], deps: SpillDeps): SpillFailure[] {
  const failures: SpillFailure[] = [];
  for (const batch of batches) {
    for (const call of batch.toolCalls) {
      const reason = spillOne(batch, call, deps);
      if (reason !== undefined) failures.push({ occurrenceKey: call.occurrenceKey, reason });
      else deps.sync();
    }
  }
  return failures;
}

/** Why the call could not be spilled, or `undefined`. */
function spillOne(batch: CapturedBatch, call: CapturedToolCall, deps: SpillDeps): string | undefined {
  const { indexer, append, config } = deps;
  const hash = contentHash(call);
  const original = config.dedupByContentHash ? indexer.findByHash(hash) : undefined;
  if (original) {
    indexer.registerDuplicate({ call, contentHash: hash, eager: true }, original.record, append);
    return undefined;
  }
  const written = writeSpill({ path: blobPathFor(deps.blobDir, call.occurrenceKey), text: call.resultText });
  if (!written.ok) return written.reason;
  const member: BatchMember = {
    call,
    outcome: describeOutcome(call),
    contentHash: hash,
    spill: {
      spillPath: written.path,
      spillBytes: written.bytes,
      spillLines: written.lines,
      spillLongestLine: longestLine(call.resultText),
      resultPreview: headPreview(call.resultText, Math.min(config.spillPreviewBytes, halfOf(call.resultText))),
    },
  };
  indexer.addBatches([{ turnIndex: batch.turnIndex, timestamp: batch.timestamp, members: [member] }], append);
  return undefined;
}

/** Bytes of the longest line. */
function longestLine(text: string): number {
  return text.split("\n").reduce((longest, line) => Math.max(longest, Buffer.byteLength(line)), 0);
}

/** A preview of more than half the text would make a stub that is not worth its while, and the result would stay whole. */
function halfOf(text: string): number {
  return Math.floor(text.length / 2);
}
