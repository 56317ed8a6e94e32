/** The handlers that drive one session after the other. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { DEFAULT_CONFIG } from "./config.js";
import { estimateTokens } from "./context-metrics.js";
import { batchesToSummarize, type FlushReport } from "./flush.js";
import { type FlushRequest, FlushRunner } from "./flush-runner.js";
import { type HostOutlet, type HostSnapshot, recordUsage } from "./host.js";
import { chooseSummarizer } from "./host-models.js";
import { contentChars, isAnswer, isAssistant, isToolResult, lastAnswerIndex, occurrenceKey } from "./messages.js";
import { spillOversized } from "./oversized.js";
import { createProtection, type Protection } from "./protection.js";
import { applyRender, pruneMessages } from "./pruner.js";
import { QUERY_TOOL_DESCRIPTION } from "./query-tool.js";
import { markerRefs } from "./render/arguments.js";
import { capImages } from "./render/images.js";
import type { RenderPlan } from "./render/plan.js";
import { RenderMemo } from "./render-memo.js";
import { BudgetWatch } from "./session/budget-watch.js";
import { loadSettings, saveSettings } from "./session/settings-file.js";
import { type ChainListing, SessionState } from "./session-state.js";
import type { SettingValue } from "./settings-rows.js";
import type { SummarizerCall } from "./summarizer.js";
import { flushMark } from "./triggers.js";
import { type ContextPruneConfig, CUSTOM_TYPE_FRONTIER, QUERY_TOOL_NAME, type StatsEntryData } from "./types.js";

export type { ChainListing };

/** Milliseconds that the end of a session waits for a flush in flight; then the flush is given up, nothing lost. */
export const SHUTDOWN_WAIT_MS = 10_000;

/** Milliseconds that a request waits for a flush which the size of the context has forced. */
export const BUDGET_WAIT_MS = 60_000;

/** Tokens of a window that are left for the system prompt, the tools and the answer; pi's own reserve. */
const WINDOW_RESERVE = 16_384;

/** What `/pruner status` shows. */
export interface PrunerStatus {
  config: ContextPruneConfig;
  pendingCalls: number;
  pendingChars: number;
  /** Results that the model has not answered yet. */
  unseenResults: number;
  condensedCalls: number;
  repeats: number;
  /** Compressed chains that take effect. */
  chains: number;
  rawChars: number;
  keptChars: number;
  stats: Readonly<StatsEntryData>;
  flushing: boolean;
}

/** What a request would carry, beside what it is made from. */
export interface ContextView {
  raw: readonly AgentMessage[];
  sent: readonly AgentMessage[];
  plan: RenderPlan;
  isProtected: Protection;
}

/** One session and what runs for it. */
interface ActiveSession {
  state: SessionState;
  flushes: FlushRunner;
  budget: BudgetWatch;
  memo: RenderMemo;
  /** Timestamp of the trigger that the last flush answered, so that one trigger starts one flush. */
  flushedMark?: number;
  /** The flush that is running was forced by a budget, and the next request waits for it. */
  urgent: boolean;
  /** Results that could not be written to a blob; they are not tried again in this process. */
  unspillable: Set<string>;
  /** The tool that answers for refs is this extension's; unknown until it is first asked. */
  ownsQueryTool?: boolean;
  /** Window (tokens) that the context was last found to fit into. */
  fittedWindow?: number;
}

/** The lists of messages that the host is about to summarise. */
export interface CompactionLists {
  messagesToSummarize: AgentMessage[];
  turnPrefixMessages: AgentMessage[];
}

type FlushWork = Pick<FlushRequest, "pending" | "messages" | "compactAll" | "mustFree" | "onProgress">;

/** The extension. No handler throws: trouble leaves the raw context, one notice and one diagnostic entry. */
export class Pruner {
  private config: ContextPruneConfig = DEFAULT_CONFIG;
  private active: ActiveSession | undefined;
  private compiled: { config: ContextPruneConfig; cwd: string; isProtected: Protection } | undefined;
  private readonly notified = new Set<string>();

  /** @param onChange told when a flush begins or ends and when settings change; must not throw */
  constructor(
    private readonly outlet: HostOutlet,
    private readonly onChange: () => void = () => undefined,
  ) {}

  /** Takes up the session of `host`: settings, entries, nothing of the session before. */
  startSession(host: HostSnapshot): void {
    this.active?.flushes.close();
    this.active = undefined;
    this.notified.clear();
    try {
      const { config, warnings } = loadSettings(host);
      this.config = config;
      if (warnings.length > 0) this.notify(host, warnings.join("\n"), "warning");
      const state = new SessionState(host.session, this.outlet.appendEntry);
      const budget = new BudgetWatch();
      const flushes = new FlushRunner(state, {
        onTrouble: (message) => this.notify(host, `pruner: ${message}`, "warning"),
        onCall: (call) => this.paidFor(host, state, call),
        onError: (error) => this.report(host, "flush", error),
        onCommit: () => budget.flushCommitted(),
      });
      this.active = { state, flushes, budget, memo: new RenderMemo(), urgent: false, unspillable: new Set() };
      markStale(budget, state);
      this.reportInvalid(host, state);
    } catch (error) {
      this.report(host, "session_start", error);
    }
  }

  /** The leaf has moved: usage figures of the other path say nothing about this one. */
  treeMoved(): void {
    if (!this.active) return;
    const { budget, state } = this.active;
    state.sync();
    budget.reset();
    markStale(budget, state);
  }

  /** Waits for a flush in flight, within bounds, and lets nothing come after. */
  async endSession(): Promise<void> {
    const { active } = this;
    if (!active) return;
    await active.flushes.settle(SHUTDOWN_WAIT_MS);
    active.flushes.close();
    this.active = undefined;
    try {
      active.state.stats.save(active.state.append);
    } catch {
      // The host has let go of the session: the figures of calls that no flush has taken are lost with them.
    }
  }

  /** A turn has ended: spills what is oversized, flushes where a trigger or the size of the context calls for it. */
  async turnEnded(host: HostSnapshot): Promise<void> {
    const { active } = this;
    if (!active || !this.mayCondense(host, active)) return;
    await this.guard(host, "turn_end", async () => {
      active.state.sync();
      const messages = active.state.messages();
      this.spill(host, active, messages);
      this.makeSummariesAhead(host, active, messages);
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
    const cap = this.config.maxImagesPerRequest;
    if (!active || !this.mayCondense(host, active)) return applyRender(messages, capImages(messages, cap));
    return this.guard(host, "context", async () => {
      active.state.sync();
      this.spill(host, active, messages);
      this.flushIfOverBudget(host, active, messages);
      await this.flushIfDue(host, active, messages);
      if (active.urgent) await active.flushes.settle(BUDGET_WAIT_MS, host.signal);
      if (!active.flushes.running) active.urgent = false;
      await this.fitIntoWindow(host, active, messages);
      if (this.active !== active || !this.config.enabled) return undefined;
      active.budget.requestLeaves(lastReply(messages));
      const onUnresolved = (blockId: string, reason: string) => this.chainUnresolved(active, blockId, reason);
      const rendered = active.memo.render(messages, active.state.plan(this.config), { onUnresolved });
      return applyRender(messages, capImages(rendered, cap));
    });
  }

  /**
   * The host is about to summarise old messages by itself: it is given them as they were sent, since their raw form may
   * be several times the window. The elements of its lists are the session's own and are replaced, never changed.
   */
  async beforeCompaction(host: HostSnapshot, preparation: CompactionLists): Promise<void> {
    const { active } = this;
    if (!active || !this.mayCondense(host, active)) return;
    await this.guard(host, "session_before_compact", async () => {
      active.state.sync();
      const { messagesToSummarize, turnPrefixMessages } = preparation;
      if (!this.fits(host, this.render(active, messagesToSummarize, true))) await this.freeSpace(host, active);
      preparation.messagesToSummarize = this.render(active, messagesToSummarize, true);
      preparation.turnPrefixMessages = this.render(active, turnPrefixMessages, true);
    });
  }

  /** Why a tool call must not run: a marker that stands for a long argument would end up in a user's file. */
  refuseCall(input: unknown): string | undefined {
    const { active } = this;
    const known = active ? markerRefs(input).filter((ref) => active.state.indexer.resolve(ref).length > 0) : [];
    const [ref] = known;
    if (ref === undefined) return undefined;
    return `The arguments hold <condensed-args …>, which stands for a text that was condensed and is no text itself. Get the original with ${QUERY_TOOL_NAME} {"toolCallIds": ["${ref}"], "args": true} and write it out, or edit only the part that changes.`;
  }

  /**
   * Flushes all that is pending and has been seen; joins a flush that is running. Models that were given up are asked
   * again, since the user wants it now.
   * @param options.compactAll compress every chain behind the window, however few there are
   */
  async flushNow(
    host: HostSnapshot,
    options: Pick<FlushRequest, "compactAll" | "onProgress"> = {},
  ): Promise<FlushReport | undefined> {
    const { active } = this;
    if (!active) return undefined;
    active.flushes.forgive();
    active.state.sync();
    const messages = active.state.messages();
    return this.flush(host, active, { ...this.pendingIn(host, active, messages), ...options });
  }

  /** Ends the flush that is running; what was finished is kept. */
  cancelFlush(): void {
    this.active?.flushes.cancel();
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
    this.onChange();
  }

  /** What every request saves by now; cheap enough to be asked after every turn. */
  summary(): { condensed: number; rawChars: number; keptChars: number; flushing: boolean } | undefined {
    const { active } = this;
    if (!active) return undefined;
    const { count, raw, kept } = active.state.plan(this.config).totals();
    return {
      condensed: count,
      rawChars: raw,
      keptChars: kept,
      flushing: active.flushes.running,
    };
  }

  /** The conversation of the branch as it stands and as a request would carry it now. */
  contextView(host: HostSnapshot): ContextView | undefined {
    const { active } = this;
    if (!active) return undefined;
    active.state.sync();
    const raw = active.state.messages();
    const plan = active.state.plan(this.config);
    const sent = this.config.enabled ? this.render(active, raw) : raw;
    return { raw, sent, plan, isProtected: this.protection(host) };
  }

  status(host: HostSnapshot): PrunerStatus | undefined {
    const { active } = this;
    if (!active) return undefined;
    const { state } = active;
    state.sync();
    const { calls, duplicates, chains } = state.indexer.committed();
    const messages = state.messages();
    const { pending } = this.pendingIn(host, active, messages);
    const pendingCalls = pending.flatMap((batch) => batch.toolCalls);
    const totals = state.plan(this.config).totals();
    return {
      config: this.config,
      pendingCalls: pendingCalls.length,
      pendingChars: pendingCalls.reduce((sum, call) => sum + contentChars(call.content), 0),
      unseenResults: messages.slice(lastAnswerIndex(messages) + 1).filter(isToolResult).length,
      condensedCalls: calls.size,
      repeats: duplicates.size,
      chains: [...chains.values()].filter((chain) => chain.active !== false).length,
      rawChars: totals.raw,
      keptChars: totals.kept,
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

  /** Has finished turns summarised while the agent works on, so that the flush that is to come finds it done. */
  private makeSummariesAhead(host: HostSnapshot, active: ActiveSession, messages: readonly AgentMessage[]): void {
    const { config } = this;
    if (config.pruneOn === "on-demand" || config.batchingMode === "agent-message") return;
    const choice = chooseSummarizer(config, host);
    if (choice.kind !== "model") return;
    const options = { batchingMode: config.batchingMode, isProtected: this.protection(host), unseenToo: true };
    active.flushes.makeAhead({ pending: active.state.pending(messages, options), choice, config });
  }

  /** Tells the host, and whoever listens, what a call of the summariser has cost. */
  private paidFor(host: HostSnapshot, state: SessionState, call: SummarizerCall): void {
    const { totalCost, totalInputTokens, totalOutputTokens } = state.stats.current;
    recordUsage(host.session, call);
    this.outlet.announceCost({ totalCost, inputTokens: totalInputTokens, outputTokens: totalOutputTokens });
  }

  /** Flushes everything that has been seen where the context has grown too large; the next request waits for it. */
  private flushIfOverBudget(host: HostSnapshot, active: ActiveSession, messages: readonly AgentMessage[]): void {
    const { autoBudgetThreshold, budgetTurnDelta, autoBudgetTokens, pruneOn } = this.config;
    if (autoBudgetThreshold === null && budgetTurnDelta === null && autoBudgetTokens === null) return;
    if (!active.budget.isDue(this.usage(host, active, messages), lastReply(messages), this.config)) return;
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
    if (batchesToSummarize(pending, active.state.indexer, this.config).length > 0) {
      this.notify(host, `pruner: context budget reached — compacting ${turns}`, "info");
    }
    void this.flush(host, active, { ...work, mustFree: true });
  }

  /** Behind the last reply the host counts what is stored, but a spilled result leaves as its stub. */
  private usage(
    host: HostSnapshot,
    active: ActiveSession,
    messages: readonly AgentMessage[],
  ): ContextUsage | undefined {
    const usage = host.usage();
    if (!usage || usage.tokens === null) return usage;
    const { replacements } = active.state.plan(this.config);
    let saved = 0;
    for (const message of messages.slice(lastAnswerIndex(messages) + 1)) {
      if (!isToolResult(message)) continue;
      const replacement = replacements.get(occurrenceKey(message.toolCallId, message.timestamp));
      if (replacement?.eager) saved += Math.max(0, contentChars(message.content) - replacement.text.length);
    }
    return { ...usage, tokens: Math.max(0, usage.tokens - Math.floor(saved / 4)) };
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

  private render(active: ActiveSession, messages: AgentMessage[], allSeen = false): AgentMessage[] {
    return pruneMessages(messages, active.state.plan(this.config), { allSeen });
  }

  /** Whether anything is condensed: not where it is switched off, nor where another extension answers for our refs. */
  private mayCondense(host: HostSnapshot, active: ActiveSession): boolean {
    if (!this.config.enabled) return false;
    active.ownsQueryTool ??= this.outlet.toolDescription(QUERY_TOOL_NAME) === QUERY_TOOL_DESCRIPTION;
    if (!active.ownsQueryTool) {
      this.notifyOnce(
        host,
        `pruner: another extension provides the tool ${QUERY_TOOL_NAME}, so no condensed output could be asked back. Nothing is condensed.`,
      );
    }
    return active.ownsQueryTool;
  }

  /** A model with a smaller window, or a session taken up with one: what does not fit is condensed before it is sent. */
  private async fitIntoWindow(host: HostSnapshot, active: ActiveSession, messages: AgentMessage[]): Promise<void> {
    const window = host.model?.contextWindow;
    if (window === undefined || window === active.fittedWindow) return;
    const isSmaller = active.fittedWindow === undefined || window < active.fittedWindow;
    if (isSmaller && !this.fits(host, this.render(active, messages))) {
      await this.freeSpace(host, active, this.ownMessages(active, messages));
      if (!this.fits(host, this.render(active, messages))) {
        this.notifyOnce(
          host,
          `pruner: the context is larger than the model's window of ${window} tokens. Use /compact.`,
        );
        return;
      }
    }
    active.fittedWindow = window;
  }

  private fits(host: HostSnapshot, messages: readonly AgentMessage[]): boolean {
    const window = host.model?.contextWindow;
    return window === undefined || estimateTokens(messages) <= window - Math.min(WINDOW_RESERVE, window / 4);
  }

  /** Condenses all that has been seen with the digest, every closed chain too: a model would take too long now. */
  private async freeSpace(
    host: HostSnapshot,
    active: ActiveSession,
    messages: readonly AgentMessage[] = active.state.messages(),
  ): Promise<void> {
    const chainCompression = { ...this.config.chainCompression, rollingWindow: 0 };
    await active.flushes.settle(BUDGET_WAIT_MS, host.signal);
    await active.flushes.start({
      ...this.pendingIn(host, active, messages),
      choice: { kind: "digest" },
      config: { ...this.config, chainCompression },
      isProtected: this.protection(host),
      compactAll: true,
    });
  }

  private async flush(host: HostSnapshot, active: ActiveSession, work: FlushWork): Promise<FlushReport> {
    const choice = chooseSummarizer(this.config, host);
    const isProtected = this.protection(host);
    const flushing = active.flushes.start({ ...work, choice, config: this.config, isProtected });
    this.onChange();
    const report = await flushing;
    active.urgent = false;
    if (this.active === active) this.onChange();
    return report;
  }

  private pendingIn(host: HostSnapshot, { state }: ActiveSession, messages: readonly AgentMessage[]): FlushWork {
    const { batchingMode, turnProtection } = this.config;
    const protectedTurns = turnProtection.enabled ? turnProtection.turns : 0;
    const options = { batchingMode, protectedTurns, isProtected: this.protection(host) };
    return { messages, pending: state.pending(messages, options) };
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
      this.active?.state.diagnostics.record({ kind: "error", detail }, this.outlet.appendEntry);
    } catch {
      // A disk that refuses the entry, or a context gone stale: the notice was all that could be done.
    }
  }
}

/** Timestamp (ms) of the last finished reply. */
function lastReply(messages: readonly AgentMessage[]): number | undefined {
  return messages.findLast(isAnswer)?.timestamp;
}

/** A flush that stands behind the last reply has made that reply's figure stale. */
function markStale(budget: BudgetWatch, state: SessionState): void {
  const { entries } = state.branch;
  const frontier = entries.findLastIndex(
    (entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER,
  );
  const reply = entries.findLastIndex((entry) => entry.type === "message" && isAnswer(entry.message));
  if (frontier <= reply || reply < 0) return;
  budget.flushCommitted();
  budget.requestLeaves(lastReply(state.messages()));
}
