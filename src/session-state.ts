/** What is known of one session: its branch, its index, its render plan. Everything follows from its entries. */
import { dirname } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { captureOversized, captureUnindexedBatches } from "./batch-capture.js";
import type { SessionReader } from "./host.js";
import { type AppendEntry, ToolCallIndexer } from "./indexer.js";
import { buildRenderPlan, type RenderPlan } from "./render/plan.js";
import { BranchView, messagesInContext } from "./session/branch.js";
import { Diagnostics } from "./session/diagnostics.js";
import { SummarizerStats } from "./session/stats.js";
import { blobDirFor, resolveSpillPath } from "./spill.js";
import { type BatchingMode, type CapturedBatch, type CapturedToolCall, QUERY_TOOL_NAME } from "./types.js";

/** One session. A new one is made for each session, so that nothing is carried over. */
export class SessionState {
  readonly branch = new BranchView();
  readonly indexer = new ToolCallIndexer();
  readonly stats = new SummarizerStats();
  readonly diagnostics = new Diagnostics();
  /** Counts moves of the leaf to another path. */
  moves = 0;
  private planned: { epoch: number; plan: RenderPlan } | undefined;

  constructor(
    readonly reader: SessionReader,
    readonly append: AppendEntry,
  ) {
    const entries = reader.getEntries();
    this.branch.sync(reader);
    this.indexer.reconstructFromSession(entries, this.branch.entries);
    this.stats.restore(entries);
    this.diagnostics.restore(entries);
  }

  /** Follows the branch, so that what comes next is decided on the entries that are there. */
  sync(): void {
    const change = this.branch.sync(this.reader);
    if (change.kind === "moved") {
      this.moves += 1;
      this.indexer.resetBranch(this.branch.entries);
    }
    if (change.kind === "appended") {
      for (const entry of this.branch.entries.slice(change.from)) this.indexer.fold(entry);
    }
  }

  /** The conversation as the branch holds it. */
  messages(): AgentMessage[] {
    return messagesInContext(this.branch.entries);
  }

  /** The plan of the current epoch. */
  plan(): RenderPlan {
    const { epoch } = this.indexer;
    if (this.planned?.epoch !== epoch) {
      const locate = (record: { spillPath?: string }) => this.locateBlob(record.spillPath);
      this.planned = { epoch, plan: buildRenderPlan(this.indexer.committed(), locate) };
    }
    return this.planned.plan;
  }

  /** What a flush could take of `messages` now. */
  pending(messages: readonly AgentMessage[], batchingMode: BatchingMode): CapturedBatch[] {
    return captureUnindexedBatches(messages, {
      frontierKey: this.indexer.frontierKey(),
      isDealtWith: (key) => this.indexer.isSummarized(key) || this.indexer.isSkipped(key),
      isExempt: isOwnTool,
      batchingMode,
    });
  }

  /** Results of `messages` with at least `threshold` characters that stand whole. */
  oversized(messages: readonly AgentMessage[], threshold: number): CapturedBatch[] {
    return captureOversized(messages, {
      isDealtWith: (key) => this.indexer.isSummarized(key),
      isExempt: isOwnTool,
      threshold,
    });
  }

  /** Folder for this session's blobs, or `undefined` where the session is not kept. */
  blobDir(): string | undefined {
    const dir = this.reader.getSessionDir();
    return this.reader.getSessionFile() && dir ? blobDirFor(dir, this.reader.getSessionId()) : undefined;
  }

  /** Where the blob of a record can be read now; a fork reads its parent's, and a moved folder keeps its own. */
  locateBlob(spillPath: string | undefined): string | undefined {
    return spillPath === undefined ? undefined : (resolveSpillPath(spillPath, sessionDirs(this.reader)) ?? undefined);
  }
}

/** Folders in which blobs of this session may stand. */
export function sessionDirs(reader: Pick<SessionReader, "getSessionDir" | "getSessionFile" | "getHeader">): string[] {
  const parent = reader.getHeader()?.parentSession;
  const folders = [reader.getSessionDir(), folderOf(reader.getSessionFile()), folderOf(parent)];
  return [...new Set(folders.filter((folder): folder is string => folder !== undefined && folder !== ""))];
}

function folderOf(file: unknown): string | undefined {
  return typeof file === "string" && file ? dirname(file) : undefined;
}

function isOwnTool({ toolName }: Pick<CapturedToolCall, "toolName">): boolean {
  return toolName === QUERY_TOOL_NAME;
}
