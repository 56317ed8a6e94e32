/** One session's state and the handlers that drive it. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { captureUnindexedBatches } from "./batch-capture.js";
import { DEFAULT_CONFIG, type SettingValue } from "./config.js";
import { commitFlush, emptyReport, type FlushReport, prepareFlush, type Summarize } from "./flush.js";
import { chooseSummarizer, type HostSnapshot, type SummarizerChoice } from "./host.js";
import { type AppendEntry, ToolCallIndexer } from "./indexer.js";
import { isAssistant, isToolResult, occurrenceKey } from "./messages.js";
import { applyRender, pruneMessages } from "./pruner.js";
import { buildRenderPlan, type RenderPlan } from "./render/plan.js";
import { BranchView, messagesInContext } from "./session/branch.js";
import { Diagnostics } from "./session/diagnostics.js";
import { loadSettings, saveSettings } from "./session/settings-file.js";
import { SummarizerStats } from "./session/stats.js";
import { digestSummary, summarizeBatch } from "./summarizer.js";
import { flushMark } from "./triggers.js";
import { type CapturedBatch, type ContextPruneConfig, QUERY_TOOL_NAME, type StatsEntryData } from "./types.js";

/** Milliseconds that the end of a session waits for a flush in flight; then the flush is given up, nothing lost. */
export const SHUTDOWN_WAIT_MS = 10_000;

/** A flush that is being prepared. */
interface Flight {
  done: Promise<FlushReport>;
  controller: AbortController;
}

/** What `/pruner status` shows. */
export interface PrunerStatus {
  config: ContextPruneConfig;
  pendingCalls: number;
  condensedCalls: number;
  repeats: number;
  rawChars: number;
  keptChars: number;
  stats: Readonly<StatsEntryData>;
  flushing: boolean;
}

/** The extension's state for one session. No handler throws: trouble leaves the raw context, one notice, one entry. */
export class Pruner {
  private config: ContextPruneConfig = DEFAULT_CONFIG;
  private branch = new BranchView();
  private indexer = new ToolCallIndexer();
  private stats = new SummarizerStats();
  private diagnostics = new Diagnostics();
  private plan: { epoch: number; plan: RenderPlan } | undefined;
  private flight: Flight | undefined;
  /** The trigger that the last flush answered, so that one trigger starts one flush. */
  private flushedMark: number | undefined;
  /** Counts sessions: work that comes back under another number is dropped. */
  private generation = 0;
  /** Counts moves of the leaf to another path. */
  private moves = 0;
  private readonly notified = new Set<string>();

  constructor(private readonly appendEntry: AppendEntry) {}

  /** Takes up the session of `host`: settings, entries, nothing of the session before. */
  startSession(host: HostSnapshot): void {
    this.endFlight("the session was replaced");
    this.generation += 1;
    this.branch = new BranchView();
    this.indexer = new ToolCallIndexer();
    this.stats = new SummarizerStats();
    this.diagnostics = new Diagnostics();
    this.plan = undefined;
    this.flushedMark = undefined;
    this.guard(host, "session", () => {
      const { config, warnings } = loadSettings(host);
      this.config = config;
      if (warnings.length > 0) this.notify(host, warnings.join("\n"), "warning");
      const entries = host.session.getEntries();
      this.branch.sync(host.session);
      this.indexer.reconstructFromSession(entries, this.branch.entries);
      this.stats.restore(entries);
      this.diagnostics.restore(entries);
      this.reportInvalid(host);
    });
  }

  /** Waits for a flush in flight, within bounds, and lets nothing come after. */
  async endSession(): Promise<void> {
    if (this.flight) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const limit = new Promise((resolve) => {
        timer = setTimeout(resolve, SHUTDOWN_WAIT_MS);
      });
      await Promise.race([this.flight.done, limit]);
      clearTimeout(timer);
    }
    this.endFlight("the session ended");
    this.generation += 1;
  }

  /** A turn has ended: flushes where the settings say so. */
  async turnEnded(host: HostSnapshot): Promise<void> {
    await this.guardAsync(host, "turn_end", async () => {
      if (!this.config.enabled) return;
      this.sync(host);
      await this.flushIfDue(host, messagesInContext(this.branch.entries));
    });
  }

  /**
   * The messages of a request are about to leave. Contents are set in place; an array is given only where messages have
   * to go. What must hold for the request is seen to here, since on the older host the branch and the other events may
   * lag behind.
   */
  async renderRequest(host: HostSnapshot, messages: AgentMessage[]): Promise<AgentMessage[] | undefined> {
    return this.guardAsync(host, "context", async () => {
      if (!this.config.enabled) return undefined;
      this.sync(host);
      await this.flushIfDue(host, messages);
      if (!this.config.enabled) return undefined;
      return applyRender(messages, pruneMessages(messages, this.currentPlan()));
    });
  }

  /** Flushes all that is pending and has been seen; joins a flush that is running. */
  async flushNow(host: HostSnapshot): Promise<FlushReport> {
    this.sync(host);
    const pending = this.pending(messagesInContext(this.branch.entries));
    return this.startFlush(host, pending, chooseSummarizer(this.config, host));
  }

  /** The index, brought up to date. */
  currentIndex(host: HostSnapshot): ToolCallIndexer {
    this.sync(host);
    return this.indexer;
  }

  get settings(): Readonly<ContextPruneConfig> {
    return this.config;
  }

  /**
   * Saves a setting and applies it at once.
   * @throws Error with a sentence for the user where it could not be saved; it is not applied then
   */
  changeSettings(host: HostSnapshot, values: Readonly<Record<string, SettingValue>>): void {
    saveSettings({ agentDir: host.agentDir, values });
    this.config = loadSettings(host).config;
  }

  status(host: HostSnapshot): PrunerStatus {
    this.sync(host);
    const { calls, duplicates } = this.indexer.committed();
    const pending = this.pending(messagesInContext(this.branch.entries));
    const sizes = this.currentPlan().sizes;
    return {
      config: this.config,
      pendingCalls: pending.reduce((sum, batch) => sum + batch.toolCalls.length, 0),
      condensedCalls: calls.size,
      repeats: duplicates.size,
      rawChars: sizes.raw,
      keptChars: sizes.kept,
      stats: this.stats.current,
      flushing: this.flight !== undefined,
    };
  }

  /** Follows the branch, so that what follows is decided on the entries that are there. */
  private sync(host: HostSnapshot): void {
    const change = this.branch.sync(host.session);
    if (change.kind === "moved") {
      this.moves += 1;
      this.indexer.resetBranch(this.branch.entries);
    }
    if (change.kind === "appended") {
      for (const entry of this.branch.entries.slice(change.from)) this.indexer.fold(entry);
    }
  }

  private currentPlan(): RenderPlan {
    const { epoch } = this.indexer;
    if (this.plan?.epoch !== epoch) this.plan = { epoch, plan: buildRenderPlan(this.indexer.committed()) };
    return this.plan.plan;
  }

  private pending(messages: readonly AgentMessage[]): CapturedBatch[] {
    return captureUnindexedBatches(messages, {
      frontierKey: this.indexer.frontierKey(),
      isDealtWith: (key) => this.indexer.isSummarized(key) || this.indexer.isSkipped(key),
      isExempt: (toolName) => toolName === QUERY_TOOL_NAME,
      batchingMode: this.config.batchingMode,
    });
  }

  /** Starts a flush where `messages` hold a trigger that none has answered. Only a digest is waited for. */
  private async flushIfDue(host: HostSnapshot, messages: readonly AgentMessage[]): Promise<void> {
    const mark = messages[flushMark(messages, this.config)];
    if (!mark || mark.timestamp === this.flushedMark || this.flight) return;
    this.flushedMark = mark.timestamp;
    const pending = this.pending(this.upTo(mark, messages));
    if (pending.length === 0 && !this.indexer.hasUncommitted()) return;
    const choice = chooseSummarizer(this.config, host);
    const done = this.startFlush(host, pending, choice);
    if (choice.kind === "digest") await done;
  }

  /**
   * The conversation up to `mark`: as the branch holds it, since another extension may have changed the messages of a
   * request, and as the request holds it where the branch lags behind.
   */
  private upTo(mark: AgentMessage, messages: readonly AgentMessage[]): readonly AgentMessage[] {
    const own = messagesInContext(this.branch.entries);
    const end = own.findLastIndex((message) => isAssistant(message) && message.timestamp === mark.timestamp);
    return end < 0 ? messages.slice(0, messages.indexOf(mark) + 1) : own.slice(0, end + 1);
  }

  private startFlush(
    host: HostSnapshot,
    pending: readonly CapturedBatch[],
    choice: SummarizerChoice,
  ): Promise<FlushReport> {
    if (this.flight) return this.flight.done;
    const controller = new AbortController();
    const flight: Flight = {
      controller,
      done: this.runFlush(host, pending, choice, controller.signal).finally(() => {
        if (this.flight === flight) this.flight = undefined;
      }),
    };
    this.flight = flight;
    return flight.done;
  }

  /** Never rejects. */
  private async runFlush(
    host: HostSnapshot,
    pending: readonly CapturedBatch[],
    choice: SummarizerChoice,
    signal: AbortSignal,
  ): Promise<FlushReport> {
    const { generation, moves } = this;
    const report = await this.guardAsync(host, "flush", async () => {
      if (choice.kind === "missing") {
        this.notifyOnce(host, `pruner: ${choice.reason}. Choose one with the setting summarizerModel.`);
        return emptyReport();
      }
      const summarize = this.summarizerFor(host, choice, signal);
      const prepared = await prepareFlush(pending, { indexer: this.indexer, config: this.config, summarize });
      if (generation !== this.generation) return emptyReport();
      this.sync(host);
      const flushed = commitFlush(prepared, {
        indexer: this.indexer,
        append: this.appendEntry,
        isCurrent: this.currencyCheck(moves),
        saveStats: () => this.stats.save(this.appendEntry),
      });
      this.sync(host);
      return flushed;
    });
    return report ?? emptyReport();
  }

  /** Whether an occurrence may still be indexed: a tree move may have taken it away while its summary was made. */
  private currencyCheck(movesAtStart: number): (key: string) => boolean {
    if (movesAtStart === this.moves) return (key) => !this.indexer.isSummarized(key);
    const results = messagesInContext(this.branch.entries).filter(isToolResult);
    const here = new Set(results.map((result) => occurrenceKey(result.toolCallId, result.timestamp)));
    return (key) => here.has(key) && !this.indexer.isSummarized(key);
  }

  private summarizerFor(
    host: HostSnapshot,
    choice: Exclude<SummarizerChoice, { kind: "missing" }>,
    signal: AbortSignal,
  ): Summarize {
    if (choice.kind === "digest") return async (batch) => digestSummary(batch);
    const { model } = choice;
    return (batch) =>
      summarizeBatch(batch, {
        model,
        signal,
        idleTimeoutMs: this.config.summarizerIdleTimeoutMs,
        maxTimeoutMs: this.config.summarizerMaxTimeoutMs,
        onUsage: (usage, ok) => this.stats.add(usage, ok),
        onTrouble: (reason) => {
          if (!signal.aborted) this.notifyOnce(host, `pruner: no summary from ${model.name}: ${reason}`);
        },
      });
  }

  private endFlight(reason: string): void {
    this.flight?.controller.abort(new Error(reason));
    this.flight = undefined;
  }

  private reportInvalid(host: HostSnapshot): void {
    for (const customType of this.indexer.takeInvalid()) {
      this.diagnostics.record({ kind: "invalid-entry", detail: customType }, this.appendEntry);
      this.notifyOnce(host, `pruner: ignored ${customType} entries of an unknown shape in this session`);
    }
  }

  private notifyOnce(host: HostSnapshot, message: string): void {
    if (this.notified.has(message)) return;
    this.notified.add(message);
    this.notify(host, message, "warning");
  }

  private notify(host: HostSnapshot, message: string, type: "info" | "warning" | "error"): void {
    host.ui?.notify(message, type);
  }

  private guard<T>(host: HostSnapshot, where: string, action: () => T): T | undefined {
    try {
      return action();
    } catch (error) {
      this.report(host, where, error);
      return undefined;
    }
  }

  private async guardAsync<T>(host: HostSnapshot, where: string, action: () => Promise<T>): Promise<T | undefined> {
    const { generation } = this;
    try {
      return await action();
    } catch (error) {
      // A session that has been replaced meanwhile has nobody to tell.
      if (generation === this.generation) this.report(host, where, error);
      return undefined;
    }
  }

  private report(host: HostSnapshot, where: string, error: unknown): void {
    const detail = `${where}: ${error instanceof Error ? error.message : String(error)}`;
    try {
      this.notifyOnce(host, `pruner: ${detail}. The context goes out as it is.`);
      this.diagnostics.record({ kind: "error", detail }, this.appendEntry);
    } catch {
      // A disk that refuses the entry, or a context gone stale: the notice was all that could be done.
    }
  }
}
