/** What is known of one session: its branch, its index, its render plan. Everything follows from its entries. */
import { dirname } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { captureOversized, captureUnindexedBatches } from "../batch-capture.ts";
import { type InUse, type InUseQuestion, WorkingSet } from "../capture/in-use.ts";
import type { Protection } from "../capture/protection.ts";
import { ChainScan } from "../chains/scan.ts";
import { ToolCallIndexer } from "../indexer.ts";
import { buildRenderPlan, type RenderPlan } from "../render/plan.ts";
import { blobFolderNames } from "../session/blob-folders.ts";
import { BranchView, messagesInContext, type SessionReader } from "../session/branch.ts";
import { Diagnostics } from "../session/diagnostics.ts";
import { originalsByKey } from "../session/originals.ts";
import { SummarizerStats } from "../session/stats.ts";
import { blobDirFor, resolveSpillPath } from "../spill.ts";
import { contentChars, isToolResult, resultKeysIn, textOf } from "../transcript/messages.ts";
import { taggedText } from "../transcript/tags.ts";
import {
  type BatchingMode,
  type CapturedBatch,
  type CapturedToolCall,
  type ChainRange,
  type ContextPruneConfig,
  QUERY_TOOL_NAME,
} from "../types.ts";

/** A compressed chain as it is listed to the user. */
export interface ChainListing {
  blockId: string;
  /** It takes effect; otherwise it has been put back by hand. */
  active: boolean;
  calls: number;
  /** Characters of its results as they stand in the session. */
  rawChars: number;
  /** Text of the message that opened it; empty where that is gone. */
  topic: string;
}

/** Settings that a plan depends on. */
export type PlanConfig = Pick<ContextPruneConfig, "chainCompression" | "condenseArgs" | "purgeErrors" | "protectTags">;

/** What decides which results are pending. */
export interface PendingOptions {
  batchingMode: BatchingMode;
  isProtected: Protection;
  /** Results that the model has not answered yet are among them. */
  unseenToo?: boolean;
  /** User turns at the end whose results are left alone. */
  protectedTurns?: number;
  /** Results that are finished but still at work. */
  inUse?: InUse;
}

/** What commands, screens and recovery see of a session: nothing in it can be changed. */
export type SessionView = Readonly<
  Pick<SessionState, "reader" | "plan" | "messages" | "chainListings" | "blobDir" | "locateBlob">
> & {
  readonly branch: Pick<BranchView, "entries">;
  readonly stats: Pick<SummarizerStats, "current">;
  readonly indexer: Pick<
    ToolCallIndexer,
    | "chains"
    | "chainsEverywhere"
    | "committed"
    | "takeInvalid"
    | "getRecord"
    | "resolve"
    | "refOf"
    | "refs"
    | "isSummarized"
  >;
};

/** One session. A new one is made for each session, so that nothing is carried over. */
export class SessionState {
  readonly branch = new BranchView();
  readonly indexer = new ToolCallIndexer({ all: () => this.reader.getEntries(), branch: () => this.branch.entries });
  readonly stats = new SummarizerStats();
  readonly diagnostics = new Diagnostics();
  /** Counts moves of the leaf to another path. */
  moves = 0;
  private blobFolders: ReadonlySet<string> | undefined;
  private readonly scan = new ChainScan();
  private readonly workingSet = new WorkingSet();
  /** The conversation as of a number of entries. */
  private conversation: { entries: number; messages: readonly AgentMessage[] } = { entries: 0, messages: [] };
  private planned: { epoch: number; config: PlanConfig; plan: RenderPlan } | undefined;

  constructor(readonly reader: SessionReader) {
    this.branch.sync(reader);
    const own = this.indexer.reconstructFromSession(reader.getEntries(), this.branch.entries);
    this.stats.restore(own);
    this.diagnostics.restore(own);
  }

  /** Follows the branch, so that what comes next is decided on the entries that are there. */
  sync(): void {
    const change = this.branch.sync(this.reader);
    if (change.kind === "moved") {
      this.moves += 1;
      this.conversation = { entries: 0, messages: [] };
      this.indexer.resetBranch(this.branch.entries);
    }
    if (change.kind === "appended") {
      for (const entry of this.branch.entries.slice(change.from)) this.indexer.fold(entry);
    }
  }

  /** The conversation as the branch holds it: the same messages each time, behind them what has been appended. */
  messages(): readonly AgentMessage[] {
    const { entries } = this.branch;
    const added = entries.slice(this.conversation.entries);
    if (added.length === 0) return this.conversation.messages;
    const isRewritten = this.conversation.entries === 0 || added.some((entry) => entry.type === "compaction");
    const fresh = messagesInContext(isRewritten ? entries : added);
    const known = this.conversation.messages;
    const messages = isRewritten ? fresh : fresh.length === 0 ? known : [...known, ...fresh];
    this.conversation = { entries: entries.length, messages };
    return messages;
  }

  /** The chains of `messages`, which are those of this session or a beginning of them. */
  chainsOf(messages: readonly AgentMessage[], isProtected: Protection): readonly ChainRange[] {
    return this.scan.rangesOf(messages, isProtected);
  }

  /** The plan of the current epoch. */
  plan(config: PlanConfig): RenderPlan {
    const { epoch } = this.indexer;
    if (this.planned?.epoch !== epoch || this.planned.config !== config) {
      const plan = buildRenderPlan(this.indexer.committed(), {
        config,
        previous: this.planned?.plan,
        locateBlob: (record) => this.locateBlob(record.spillPath),
        findOriginal: originalsByKey(() => this.reader.getEntries()),
        stripFinalAssistantThinking: config.chainCompression.stripFinalAssistantThinking,
        condenseArgs: config.condenseArgs,
        purgeErrors: config.purgeErrors,
        protectTags: config.protectTags,
      });
      this.planned = { epoch, config, plan };
    }
    return this.planned.plan;
  }

  /** What is still at work before the request that follows `messages`. */
  inUse(messages: readonly AgentMessage[], question: Pick<InUseQuestion, "requests" | "isPriced" | "maxChars">): InUse {
    const isCondensed = (key: string) => this.indexer.isSummarized(key);
    return this.workingSet.of(messages, { ...question, cwd: this.reader.getCwd(), isCondensed });
  }

  /** Chance (0 to 1) that a call of the conversation last asked about is quoted again. */
  chanceOfUse(key: string): number {
    return this.workingSet.chanceOf(key);
  }

  /** What a flush could take of `messages` now. */
  pending(messages: readonly AgentMessage[], options: PendingOptions): CapturedBatch[] {
    return captureUnindexedBatches(messages, {
      frontierKey: this.indexer.frontierKey(),
      isDealtWith: (key) => this.indexer.isSummarized(key) || this.indexer.isSkipped(key),
      isExempt: (call) => this.isRecovery(call) || options.isProtected(call),
      batchingMode: options.batchingMode,
      unseenToo: options.unseenToo,
      protectedTurns: options.protectedTurns,
      isHeld: (key) => options.inUse?.has(key) === true,
    });
  }

  /** Results of `messages` with at least `threshold` characters that stand whole. */
  oversized(
    messages: readonly AgentMessage[],
    {
      isProtected,
      config: { spillThreshold, protectTags },
    }: Pick<PendingOptions, "isProtected"> & { config: Pick<ContextPruneConfig, "spillThreshold" | "protectTags"> },
  ): CapturedBatch[] {
    // A stub that is made without a look at the text would lose what is marked in it.
    const isTagged = ({ resultText }: Pick<CapturedToolCall, "resultText">) =>
      protectTags && taggedText(resultText) !== "";
    return captureOversized(messages, {
      isDealtWith: (key) => this.indexer.isSummarized(key) || this.indexer.isRefused(key),
      isExempt: (call) => this.isRecovery(call) || isProtected(call) || isTagged(call),
      threshold: spillThreshold,
    });
  }

  /** A read of something that had been condensed or spilled: it has a grace of its own and needs no second summary. */
  isRecovery({ toolName, args }: Pick<CapturedToolCall, "toolName" | "args">): boolean {
    if (toolName === QUERY_TOOL_NAME) return true;
    return toolName === "read" && typeof args.path === "string" && /-blobs[\\/][^\\/]+\.txt$/.test(args.path)
      ? this.locateBlob(args.path) !== undefined
      : false;
  }

  /** The chains of the current branch, oldest first. */
  chainListings(): ChainListing[] {
    const messages = this.messages();
    const results = messages.filter(isToolResult);
    const keyOf = resultKeysIn(messages);
    return [...this.indexer.chains().values()].map((chain) => {
      const keys = new Set(chain.droppedOccurrenceKeys ?? chain.droppedToolCallIds);
      const own = results.filter((m) => keys.has(keyOf(m)) || keys.has(m.toolCallId));
      const atStart = messages.filter((m) => m.timestamp === chain.startUserTimestamp && "content" in m);
      // The newer host keeps its system prompt as a message, at the time of the first prompt.
      const opening = atStart.find((m) => m.role === "user") ?? atStart[0];
      return {
        blockId: chain.blockId,
        active: chain.active !== false,
        calls: keys.size,
        rawChars: own.reduce((sum, result) => sum + contentChars(result.content), 0),
        topic: opening && "content" in opening ? textOf(opening.content) : "",
      };
    });
  }

  /** The session has a file: what is appended outlives the process. */
  get isKept(): boolean {
    return Boolean(this.reader.getSessionFile());
  }

  /** Folder for this session's blobs, or `undefined` where the session is not kept. */
  blobDir(): string | undefined {
    const dir = this.reader.getSessionDir();
    return this.isKept && dir ? blobDirFor(dir, this.reader.getSessionId()) : undefined;
  }

  /** Where the blob of a record can be read now; a fork reads its parent's, and a moved folder keeps its own. */
  locateBlob(spillPath: string | undefined): string | undefined {
    if (spillPath === undefined) return undefined;
    const { reader } = this;
    this.blobFolders ??= blobFolderNames(reader.getSessionId(), reader.getHeader()?.parentSession);
    return resolveSpillPath(spillPath, sessionDirs(reader), this.blobFolders) ?? undefined;
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
