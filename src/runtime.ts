/** The handlers that drive one session after the other. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { DEFAULT_CONFIG, type SettingValue } from "./config.js";
import type { FlushReport } from "./flush.js";
import { type FlushRequest, FlushRunner } from "./flush-runner.js";
import { chooseSummarizer, type HostSnapshot } from "./host.js";
import type { AppendEntry } from "./indexer.js";
import { isAnswer, isAssistant } from "./messages.js";
import { spillOversized } from "./oversized.js";
import { createProtection, type Protection } from "./protection.js";
import { applyRender, pruneMessages } from "./pruner.js";
import { BudgetWatch } from "./session/budget-watch.js";
import { loadSettings, saveSettings } from "./session/settings-file.js";
import { type ChainListing, SessionState } from "./session-state.js";
import { flushMark } from "./triggers.js";
import type { ContextPruneConfig, StatsEntryData } from "./types.js";

export type { ChainListing };

/** Milliseconds that the end of a session waits for a flush in flight; then the flush is given up, nothing lost. */
export const SHUTDOWN_WAIT_MS = 10_000;

/** Milliseconds that a request waits for a flush which the size of the context has forced. */
export const BUDGET_WAIT_MS = 60_000;

/** What `/pruner status` shows. */
export interface PrunerStatus {
  config: ContextPruneConfig;
  pendingCalls: number;
  condensedCalls: number;
  repeats: number;
  /** Compressed chains that take effect. */
  chains: number;
  rawChars: number;
  keptChars: number;
  stats: Readonly<StatsEntryData>;
  flushing: boolean;
}

/** One session and what runs for it. */
interface ActiveSession {
  state: SessionState;
  flushes: FlushRunner;
  budget: BudgetWatch;
  /** Timestamp of the trigger that the last flush answered, so that one trigger starts one flush. */
  flushedMark?: number;
  /** The flush that is running was forced by a budget, and the next request waits for it. */
  urgent: boolean;
  /** Results that could not be written to a blob; they are not tried again in this process. */
  unspillable: Set<string>;
}

type FlushWork = Pick<FlushRequest, "pending" | "messages" | "compactAll">;

/** The extension. No handler throws: trouble leaves the raw context, one notice and one diagnostic entry. */
export class Pruner {
  private config: ContextPruneConfig = DEFAULT_CONFIG;
  private active: ActiveSession | undefined;
  private compiled: { config: ContextPruneConfig; cwd: string; isProtected: Protection } | undefined;
  private readonly notified = new Set<string>();

  constructor(private readonly appendEntry: AppendEntry) {}

  /** Takes up the session of `host`: settings, entries, nothing of the session before. */
  startSession(host: HostSnapshot): void {
    this.active?.flushes.close();
    this.active = undefined;
    this.notified.clear();
    try {
      const { config, warnings } = loadSettings(host);
      this.config = config;
      if (warnings.length > 0) this.notify(host, warnings.join("\n"), "warning");
      const state = new SessionState(host.session, this.appendEntry);
      const budget = new BudgetWatch();
      const flushes = new FlushRunner(state, {
        onTrouble: (message) => this.notifyOnce(host, `pruner: ${message}`),
        onError: (error) => this.report(host, "flush", error),
        onCommit: () => budget.flushCommitted(),
      });
      this.active = { state, flushes, budget, urgent: false, unspillable: new Set() };
      this.reportInvalid(host, state);
    } catch (error) {
      this.report(host, "session_start", error);
    }
  }

  /** The leaf has moved: usage figures of the other path say nothing about this one. */
  treeMoved(): void {
    this.active?.budget.reset();
    this.active?.state.sync();
  }

  /** Waits for a flush in flight, within bounds, and lets nothing come after. */
  async endSession(): Promise<void> {
    await this.active?.flushes.settle(SHUTDOWN_WAIT_MS);
    this.active?.flushes.close();
    this.active = undefined;
  }

  /** A turn has ended: spills what is oversized, flushes where a trigger or the size of the context calls for it. */
  async turnEnded(host: HostSnapshot): Promise<void> {
    const { active } = this;
    if (!active || !this.config.enabled) return;
    await this.guard(host, "turn_end", async () => {
      active.state.sync();
      const messages = active.state.messages();
      this.spill(host, active, messages);
      this.flushIfOverBudget(host, active, messages);
      await this.flushIfDue(host, active, messages);
    });
  }

  /**
   * The messages of a request are about to leave. Contents are set in place; an array is given only where messages have
   * to go. What must hold for the request is seen to here, since on the older host the branch and the other events may
   * lag behind.
   */
  async renderRequest(host: HostSnapshot, messages: AgentMessage[]): Promise<AgentMessage[] | undefined> {
    const { active } = this;
    if (!active || !this.config.enabled) return undefined;
    return this.guard(host, "context", async () => {
      active.state.sync();
      this.spill(host, active, messages);
      this.flushIfOverBudget(host, active, messages);
      await this.flushIfDue(host, active, messages);
      if (active.urgent) await active.flushes.settle(BUDGET_WAIT_MS, host.signal);
      if (this.active !== active || !this.config.enabled) return undefined;
      active.budget.requestLeaves(lastReply(messages));
      const plan = active.state.plan(this.config);
      const onUnresolved = (blockId: string, reason: string) => this.chainUnresolved(active, blockId, reason);
      return applyRender(messages, pruneMessages(messages, plan, onUnresolved));
    });
  }

  /**
   * Flushes all that is pending and has been seen; joins a flush that is running.
   * @param compactAll compress every chain behind the window, however few there are
   */
  async flushNow(host: HostSnapshot, { compactAll = false } = {}): Promise<FlushReport | undefined> {
    const { active } = this;
    if (!active) return undefined;
    active.state.sync();
    const messages = active.state.messages();
    return this.flush(host, active, { ...this.pendingIn(host, active, messages), compactAll });
  }

  /** The session's state, brought up to date. */
  currentState(): SessionState | undefined {
    this.active?.state.sync();
    return this.active?.state;
  }

  get settings(): Readonly<ContextPruneConfig> {
    return this.config;
  }

  /**
   * Saves settings and applies them at once.
   * @throws Error with a sentence for the user where they could not be saved; they are not applied then
   */
  changeSettings(host: HostSnapshot, values: Readonly<Record<string, SettingValue>>): void {
    saveSettings({ agentDir: host.agentDir, values });
    this.config = loadSettings(host).config;
  }

  status(host: HostSnapshot): PrunerStatus | undefined {
    const { active } = this;
    if (!active) return undefined;
    const { state } = active;
    state.sync();
    const { calls, duplicates, chains } = state.indexer.committed();
    const { pending } = this.pendingIn(host, active, state.messages());
    const { sizes } = state.plan(this.config);
    return {
      config: this.config,
      pendingCalls: pending.reduce((sum, batch) => sum + batch.toolCalls.length, 0),
      condensedCalls: calls.size,
      repeats: duplicates.size,
      chains: [...chains.values()].filter((chain) => chain.active !== false).length,
      rawChars: sizes.raw,
      keptChars: sizes.kept,
      stats: state.stats.current,
      flushing: this.active?.flushes.running ?? false,
    };
  }

  /** The chains of the current branch, oldest first. */
  chains(): ChainListing[] | undefined {
    return this.currentState()?.chainListings();
  }

  /** Takes a chain out of the render, or back into it; every other message stays as it is. */
  setChainActive(blockId: string, active: boolean): void {
    const state = this.currentState();
    const entry = state?.indexer.chains().get(blockId);
    if (!state || !entry) return;
    state.indexer.registerChain({ ...entry, active }, state.append);
    state.sync();
  }

  /** Writes oversized results of `messages` to blobs, so that no request carries them whole. */
  private spill(host: HostSnapshot, { state, unspillable }: ActiveSession, messages: readonly AgentMessage[]): void {
    const blobDir = state.blobDir();
    if (blobDir === undefined) return;
    const isProtected = this.protection(host);
    const batches = state.oversized(messages, { isProtected, threshold: this.config.spillThreshold }).map((batch) => ({
      ...batch,
      toolCalls: batch.toolCalls.filter((call) => !unspillable.has(call.occurrenceKey)),
    }));
    const { indexer, append } = state;
    const sync = () => state.sync();
    for (const failure of spillOversized(batches, { indexer, append, sync, blobDir, config: this.config })) {
      unspillable.add(failure.occurrenceKey);
      this.notifyOnce(host, `pruner: an oversized result stays in the context: ${failure.reason}`);
    }
  }

  /** Flushes everything that has been seen where the context has grown too large; the next request waits for it. */
  private flushIfOverBudget(host: HostSnapshot, active: ActiveSession, messages: readonly AgentMessage[]): void {
    const { autoBudgetThreshold, budgetTurnDelta, autoBudgetTokens, pruneOn } = this.config;
    if (autoBudgetThreshold === null && budgetTurnDelta === null && autoBudgetTokens === null) return;
    if (!active.budget.isDue(host.usage(), lastReply(messages), this.config)) return;
    // every-turn flushes the same results anyway, and a flush that is running is all that can be done now.
    if (pruneOn === "every-turn" || active.flushes.running) {
      active.urgent = true;
      return;
    }
    const work = this.pendingIn(host, active, this.ownMessages(active, messages));
    const { pending } = work;
    if (pending.length === 0) {
      this.notifyOnce(host, "pruner: context budget reached, but nothing that is finished is left to condense", "info");
      return;
    }
    active.urgent = true;
    const turns = pending.length === 1 ? "1 pending turn" : `${pending.length} pending turns`;
    this.notify(host, `pruner: context budget reached — compacting ${turns}`, "info");
    void this.flush(host, active, work);
  }

  /** Starts a flush where `messages` hold a trigger that none has answered. Only a digest is waited for. */
  private async flushIfDue(
    host: HostSnapshot,
    active: ActiveSession,
    messages: readonly AgentMessage[],
  ): Promise<void> {
    const mark = messages[flushMark(messages, this.config)];
    if (!mark || mark.timestamp === active.flushedMark || active.flushes.running) return;
    active.flushedMark = mark.timestamp;
    const upToMark = messages.slice(0, messages.indexOf(mark) + 1);
    const work = this.pendingIn(host, active, this.ownMessages(active, upToMark));
    if (work.pending.length === 0 && !active.state.indexer.hasUncommitted()) return;
    const done = this.flush(host, active, work);
    if (this.config.summarizerModel === "none") await done;
  }

  /**
   * The same conversation as the branch holds it, up to the last reply of `messages`, since another extension may have
   * changed the messages of a request; `messages` themselves where the branch lags behind them.
   */
  private ownMessages({ state }: ActiveSession, messages: readonly AgentMessage[]): readonly AgentMessage[] {
    const last = messages.findLast(isAssistant);
    const own = state.messages();
    const end = own.findLastIndex((message) => isAssistant(message) && message.timestamp === last?.timestamp);
    return end < 0 ? messages : own.slice(0, end + 1);
  }

  private async flush(host: HostSnapshot, active: ActiveSession, work: FlushWork): Promise<FlushReport> {
    const choice = chooseSummarizer(this.config, host);
    const isProtected = this.protection(host);
    const report = await active.flushes.start({ ...work, choice, config: this.config, isProtected });
    active.urgent = false;
    return report;
  }

  private pendingIn(host: HostSnapshot, { state }: ActiveSession, messages: readonly AgentMessage[]): FlushWork {
    const { batchingMode } = this.config;
    return { messages, pending: state.pending(messages, { batchingMode, isProtected: this.protection(host) }) };
  }

  /** Compiled once for each state of the settings, since every request asks. */
  private protection({ cwd }: HostSnapshot): Protection {
    if (this.compiled?.config !== this.config || this.compiled.cwd !== cwd) {
      const { protectedTools, protectedPaths } = this.config;
      const isProtected = createProtection({ protectedTools, protectedPaths, cwd });
      this.compiled = { config: this.config, cwd, isProtected };
    }
    return this.compiled.isProtected;
  }

  /** Told once for each chain. After a compaction it is expected that messages are gone. */
  private chainUnresolved({ state }: ActiveSession, blockId: string, reason: string): void {
    if (state.branch.entries.some((entry) => entry.type === "compaction")) return;
    state.diagnostics.record({ kind: "chain-unresolved", detail: `${blockId}: ${reason}` }, state.append);
  }

  private reportInvalid(host: HostSnapshot, state: SessionState): void {
    for (const customType of state.indexer.takeInvalid()) {
      state.diagnostics.record({ kind: "invalid-entry", detail: customType }, state.append);
      this.notifyOnce(host, `pruner: ignored ${customType} entries of an unknown shape in this session`);
    }
  }

  private notifyOnce(host: HostSnapshot, message: string, type: "info" | "warning" = "warning"): void {
    if (this.notified.has(message)) return;
    this.notified.add(message);
    this.notify(host, message, type);
  }

  private notify(host: HostSnapshot, message: string, type: "info" | "warning"): void {
    host.ui?.notify(message, type);
  }

  /** Runs a handler; an error in it ends in a report and `undefined`. */
  private async guard<T>(host: HostSnapshot, where: string, action: () => Promise<T>): Promise<T | undefined> {
    const { active } = this;
    try {
      return await action();
    } catch (error) {
      // A session that has been replaced meanwhile has nobody to tell.
      if (active === this.active) this.report(host, where, error);
      return undefined;
    }
  }

  private report(host: HostSnapshot, where: string, error: unknown): void {
    const detail = `${where}: ${error instanceof Error ? error.message : String(error)}`;
    try {
      this.notifyOnce(host, `pruner: ${detail}. The context goes out as it is.`);
      this.active?.state.diagnostics.record({ kind: "error", detail }, this.appendEntry);
    } catch {
      // A disk that refuses the entry, or a context gone stale: the notice was all that could be done.
    }
  }
}

/** Timestamp (ms) of the last finished reply. */
function lastReply(messages: readonly AgentMessage[]): number | undefined {
  return messages.findLast(isAnswer)?.timestamp;
}
