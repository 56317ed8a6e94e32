/** One session in its run: what is seen to when a turn ends and before a request leaves. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { type Protection, protectedTurnsOf, protectionOf } from "../capture/protection.js";
import { flushMark } from "../capture/triggers.js";
import { BudgetWatch } from "../cost/budget-watch.js";
import { type CompactionAnnouncement, CompactionWatch, reserveOf } from "../cost/compaction.js";
import { type CondensingDecision, settingsFor } from "../cost/decision.js";
import { spillOversized } from "../flush/spilling.js";
import { batchesToSummarize, type FlushReport } from "../flush.js";
import { type HostOutlet, type HostSnapshot, recordUsage } from "../host/host.js";
import { chooseSummarizer } from "../host/models.js";
import type { Notices } from "../host/notices.js";
import { pruneMessages } from "../pruner.js";
import { usageAsSent } from "../render/usage.js";
import type { SummarizerCall } from "../summarizer.js";
import { isAnswer, isAssistant } from "../transcript/messages.js";
import { fitsWindow } from "../transcript/tokens.js";
import type { CapturedBatch, ContextPruneConfig } from "../types.js";
import { type FlushRequest, FlushRunner } from "./flush-runner.js";
import { CacheWatch, type CondensingQuestion } from "./prompt-cache.js";
import { RenderMemo } from "./render-memo.js";
import { SessionState } from "./session-state.js";

/** Milliseconds that a request waits for a flush which the size of the context has forced. */
export const BUDGET_WAIT_MS = 60_000;

/** Milliseconds that a request waits for a flush whose summaries ought to be ready. */
const READY_WAIT_MS = 250;

/** The lists of messages that the host is about to summarise. */
export interface CompactionLists {
  messagesToSummarize: AgentMessage[];
  turnPrefixMessages: AgentMessage[];
}

/** What a flush is asked for, beside the settings. */
export type FlushWork = Pick<
  FlushRequest,
  "pending" | "messages" | "compactAll" | "mustFree" | "decision" | "onProgress"
>;

/** What a session's run needs of the extension around it. */
export interface RunContext {
  outlet: HostOutlet;
  notices: Notices;
  /** The settings as they are now. */
  settings(): ContextPruneConfig;
  /** Told when a flush begins or ends. */
  onChange(): void;
  /** Told of an error that should not have been. */
  onError(error: unknown): void;
}

/** A session and what runs for it. Nothing here catches errors: the handlers around it do. */
export class SessionRun {
  readonly state: SessionState;
  readonly flushes: FlushRunner;
  private readonly budget = new BudgetWatch();
  private readonly memo = new RenderMemo();
  private readonly cache = new CacheWatch();
  readonly compactions = new CompactionWatch();
  private readonly notices: Notices;
  /** Timestamp of the trigger that the last flush answered, so that one trigger starts one flush. */
  private flushedMark: number | undefined;
  /** The flush that is running was forced by a budget, and the next request waits for it. */
  private urgent = false;
  /** A budget is exceeded: where no model gives a summary, the next flush of every-turn takes digests. */
  private mustFree = false;
  /** Results that could not be written to a blob; they are not tried again in this process. */
  private readonly unspillable = new Set<string>();
  /** Window (tokens) that the context was last found to fit into. */
  private fittedWindow: number | undefined;
  private compiled: { config: ContextPruneConfig; cwd: string; isProtected: Protection } | undefined;

  constructor(
    host: HostSnapshot,
    private readonly context: RunContext,
  ) {
    this.notices = context.notices;
    this.state = new SessionState(host.session, context.outlet.appendEntry);
    this.flushes = new FlushRunner(this.state, {
      onTrouble: (message) => this.notices.tell(host, `pruner: ${message}`, "warning"),
      onCall: (call) => this.paidFor(host, call),
      onError: (error) => context.onError(error),
      onCommit: () => this.budget.flushCommitted(),
    });
    this.budget.takeUp(this.state.branch.entries);
    this.reportInvalid(host);
  }

  /** The leaf has moved: usage figures of the other path say nothing about this one. */
  treeMoved(): void {
    this.state.sync();
    this.budget.takeUp(this.state.branch.entries);
  }

  /** A turn has ended: spills what is oversized, flushes where a trigger or the size of the context calls for it. */
  async turnEnded(host: HostSnapshot): Promise<void> {
    this.state.sync();
    const messages = this.state.messages();
    this.spill(host, messages);
    this.makeSummariesAhead(host, messages);
    this.flushIfOverBudget(host, messages);
    if (this.settings().pruneOn !== "cache-aware") await this.flushIfDue(host, messages);
  }

  /** Sees to everything that must hold for a request, whatever the events before it have missed. */
  async prepareRequest(host: HostSnapshot, messages: AgentMessage[]): Promise<void> {
    this.state.sync();
    this.spill(host, messages);
    this.flushIfOverBudget(host, messages);
    if (this.settings().pruneOn === "cache-aware") await this.flushIfItPays(host, messages);
    else await this.flushIfDue(host, messages);
    if (this.urgent) await this.flushes.settle(BUDGET_WAIT_MS, host.signal);
    if (!this.flushes.running) this.urgent = false;
    await this.fitIntoWindow(host, messages);
  }

  /** The messages of a request that leaves now. */
  renderRequest(messages: AgentMessage[]): AgentMessage[] {
    this.budget.requestLeaves(lastReply(messages));
    const onUnresolved = (blockId: string, reason: string) => this.chainUnresolved(blockId, reason);
    const rendered = this.memo.render(messages, this.state.plan(this.settings()), { onUnresolved });
    this.cache.requestLeaves(rendered);
    return rendered;
  }

  /** `messages` as a request would carry them. @param allSeen the model has seen them to their end */
  render(messages: AgentMessage[], allSeen = false): AgentMessage[] {
    return pruneMessages(messages, this.state.plan(this.settings()), { allSeen });
  }

  /** Replaces the lists by what was sent of them, condensing first where even that would not fit the window. */
  async prepareCompaction(host: HostSnapshot, lists: CompactionLists): Promise<void> {
    this.state.sync();
    const { messagesToSummarize, turnPrefixMessages } = lists;
    const isSmall = (list: AgentMessage[]) => this.fits(host, this.render(list, true));
    if (!isSmall(messagesToSummarize) || !isSmall(turnPrefixMessages)) await this.freeSpace(host);
    lists.messagesToSummarize = this.render(messagesToSummarize, true);
    lists.turnPrefixMessages = this.render(turnPrefixMessages, true);
  }

  /**
   * Whether the compaction that the host announces for the size of the context can be cancelled, since what would be sent
   * fits, if need be once all that can be condensed is.
   */
  async avertsCompaction(host: HostSnapshot, announcement: CompactionAnnouncement): Promise<boolean> {
    this.state.sync();
    const window = host.model?.contextWindow;
    const systemPrompt = host.systemPrompt?.() ?? "";
    const messages = this.state.messages();
    const reason = this.compactions.reasonOf(announcement, { messages, window, now: Date.now() });
    if (reason !== "threshold") return false;
    const reserveTokens = reserveOf(announcement.preparation);
    const isNeedless = () => {
      const rendered = this.render(messages);
      return this.compactions.isNeedless({ reason, messages, rendered, systemPrompt, window, reserveTokens });
    };
    if (!isNeedless()) {
      await this.freeSpace(host, messages);
      if (!isNeedless()) return false;
    }
    this.compactions.avert(Date.now());
    return true;
  }

  /** Flushes all that is pending and has been seen; joins a flush that is running. */
  flushNow(host: HostSnapshot, options: Pick<FlushRequest, "compactAll" | "onProgress">): Promise<FlushReport> {
    this.flushes.forgive();
    this.state.sync();
    return this.flush(host, { ...this.pendingIn(host, this.state.messages()), ...options });
  }

  private settings(): ContextPruneConfig {
    return this.context.settings();
  }

  /** Writes oversized results of `messages` to blobs, so that no request carries them whole. */
  private spill(host: HostSnapshot, messages: readonly AgentMessage[]): void {
    const { state, unspillable } = this;
    const blobDir = state.blobDir();
    if (blobDir === undefined) return;
    const config = this.settings();
    const batches = state.oversized(messages, { isProtected: this.protection(host), config }).map((batch) => ({
      ...batch,
      toolCalls: batch.toolCalls.filter((call) => !unspillable.has(call.occurrenceKey)),
    }));
    const { indexer, append } = state;
    const sync = () => state.sync();
    for (const failure of spillOversized(batches, { indexer, append, sync, blobDir, config })) {
      unspillable.add(failure.occurrenceKey);
      this.notices.once(host, `pruner: an oversized result stays in the context: ${failure.reason}`);
    }
  }

  /** Has finished turns summarised while the agent works on, so that the flush that is to come finds it done. */
  private makeSummariesAhead(host: HostSnapshot, messages: readonly AgentMessage[]): void {
    const config = this.settings();
    if (config.pruneOn === "on-demand" || config.batchingMode === "agent-message") return;
    const choice = chooseSummarizer(config, host);
    if (choice.kind !== "model") return;
    const options = { batchingMode: config.batchingMode, isProtected: this.protection(host), unseenToo: true };
    const pending = this.state.pending(messages, options);
    if (config.pruneOn === "cache-aware") {
      const question = this.condensingQuestion(host, messages, pending);
      if (question.unpaid.length === 0 || !this.cache.summariesPay(host, this.state, question)) return;
    }
    this.flushes.makeAhead({ pending, choice, config });
  }

  /** Flushes everything that has been seen where the context has grown too large; the next request waits for it. */
  private flushIfOverBudget(host: HostSnapshot, messages: readonly AgentMessage[]): void {
    const { autoBudgetThreshold, budgetTurnDelta, autoBudgetTokens, pruneOn } = this.settings();
    if (autoBudgetThreshold === null && budgetTurnDelta === null && autoBudgetTokens === null) return;
    if (!this.budget.isDue(this.usage(host, messages), lastReply(messages), this.settings())) return;
    // every-turn flushes the same results anyway, and a flush that is running is all that can be done now.
    if (pruneOn === "every-turn" || this.flushes.running) {
      this.urgent = true;
      this.mustFree = pruneOn === "every-turn";
      return;
    }
    const work = this.pendingIn(host, this.ownMessages(messages), messages);
    const pending = work.pending.filter((batch) => !batch.held);
    if (pending.length === 0) {
      this.notices.once(
        host,
        "pruner: context budget reached, but nothing that is finished is left to condense",
        "info",
      );
      return;
    }
    this.urgent = true;
    const turns = pending.length === 1 ? "1 pending turn" : `${pending.length} pending turns`;
    if (batchesToSummarize(pending, this.state.indexer, this.settings()).length > 0) {
      this.notices.tell(host, `pruner: context budget reached — compacting ${turns}`, "info");
    }
    void this.flush(host, { ...work, mustFree: true });
  }

  private usage(host: HostSnapshot, messages: readonly AgentMessage[]): ContextUsage | undefined {
    return usageAsSent(host.usage(), messages, this.state.plan(this.settings()));
  }

  /** Starts a flush where `messages` hold a trigger that none has answered. Only a digest is waited for. */
  private async flushIfDue(host: HostSnapshot, messages: readonly AgentMessage[]): Promise<void> {
    const mark = messages[flushMark(messages, this.settings())];
    const isDigest = this.settings().summarizerModel === "none";
    // On the older host a request may be about to leave while the end of the turn before it still flushes.
    if (isDigest && this.flushes.running) await this.flushes.settle(BUDGET_WAIT_MS, host.signal);
    if (!mark || mark.timestamp === this.flushedMark || this.flushes.running) return;
    this.flushedMark = mark.timestamp;
    const upToMark = messages.slice(0, messages.indexOf(mark) + 1);
    const work = this.pendingIn(host, this.ownMessages(upToMark), messages);
    if (work.pending.length === 0 && !this.state.indexer.hasUncommitted()) return;
    const { mustFree } = this;
    this.mustFree = false;
    const done = this.flush(host, { ...work, mustFree });
    if (isDigest) await done;
  }

  /** Flushes where that costs less than to go on. Summaries that are ready are waited for, others are not. */
  private async flushIfItPays(host: HostSnapshot, messages: AgentMessage[]): Promise<void> {
    if (this.flushes.running) return;
    const work = this.pendingIn(host, this.ownMessages(messages), messages);
    const config = this.settings();
    const question = { ...this.condensingQuestion(host, messages, work.pending), messages: work.messages };
    const decision = this.cache.decide(host, this.state, question);
    if (!decision?.flush) return;
    const { reason, savings, price, chains } = decision;
    const request = { ...work, compactAll: chains, decision: { reason, savings, price } };
    const done = this.flush(host, request, settingsFor(decision, config));
    void done.then((report) => this.cache.flushed(report));
    if (config.summarizerModel === "none") await done;
    else await this.flushes.settle(READY_WAIT_MS, host.signal);
  }

  private condensingQuestion(
    host: HostSnapshot,
    messages: readonly AgentMessage[],
    pending: readonly CapturedBatch[],
  ): CondensingQuestion {
    return {
      messages,
      pending,
      unpaid: this.flushes.unasked(pending),
      isProtected: this.protection(host),
      render: () => this.render([...messages]),
      usage: this.usage(host, messages),
      config: this.settings(),
    };
  }

  /** Why the last flush of `cache-aware` was made or not. */
  get decision(): CondensingDecision | undefined {
    return this.settings().pruneOn === "cache-aware" ? this.cache.lastDecision : undefined;
  }

  /**
   * The same conversation as the branch holds it, up to the last reply of `messages`, since another extension may have
   * changed the messages of a request; `messages` themselves where the branch lags behind them.
   */
  private ownMessages(messages: readonly AgentMessage[]): readonly AgentMessage[] {
    const last = messages.findLast(isAssistant);
    const own = this.state.messages();
    const end = own.findLastIndex((message) => isAssistant(message) && message.timestamp === last?.timestamp);
    return end < 0 ? messages : own.slice(0, end + 1);
  }

  /** A model with a smaller window, or a session taken up with one: what does not fit is condensed before it is sent. */
  private async fitIntoWindow(host: HostSnapshot, messages: AgentMessage[]): Promise<void> {
    const window = host.model?.contextWindow;
    if (window === undefined || window === this.fittedWindow) return;
    const isSmaller = this.fittedWindow === undefined || window < this.fittedWindow;
    if (isSmaller && !this.fits(host, this.render(messages))) {
      await this.freeSpace(host, this.ownMessages(messages));
      if (!this.fits(host, this.render(messages))) {
        this.notices.once(
          host,
          `pruner: the context is larger than the model's window of ${window} tokens. Use /compact.`,
        );
        return;
      }
    }
    this.fittedWindow = window;
  }

  private fits(host: HostSnapshot, messages: readonly AgentMessage[]): boolean {
    return fitsWindow(messages, host.model?.contextWindow);
  }

  /** Condenses all that has been seen with the digest, every closed chain too: a model would take too long now. */
  private async freeSpace(
    host: HostSnapshot,
    messages: readonly AgentMessage[] = this.state.messages(),
  ): Promise<void> {
    const chainCompression = { ...this.settings().chainCompression, rollingWindow: 0 };
    await this.flushes.settle(BUDGET_WAIT_MS, host.signal);
    await this.flushes.start({
      ...this.pendingIn(host, messages),
      choice: { kind: "digest" },
      config: { ...this.settings(), chainCompression },
      isProtected: this.protection(host),
      compactAll: true,
    });
  }

  private async flush(host: HostSnapshot, work: FlushWork, config = this.settings()): Promise<FlushReport> {
    const choice = chooseSummarizer(config, host);
    const isProtected = this.protection(host);
    const flushing = this.flushes.start({ ...work, choice, config, isProtected });
    this.context.onChange();
    const report = await flushing;
    this.urgent = false;
    this.context.onChange();
    this.flushBehind(host);
    return report;
  }

  /** A trigger may have come while a flush was running. */
  private flushBehind(host: HostSnapshot): void {
    if (this.flushes.isClosed || !this.settings().enabled) return;
    this.state.sync();
    void this.flushIfDue(host, this.state.messages()).catch((error: unknown) => this.context.onError(error));
  }

  /** @param whole the conversation to its end, where `messages` stop before it */
  pendingIn(host: HostSnapshot, messages: readonly AgentMessage[], whole = messages): FlushWork {
    const { batchingMode } = this.settings();
    const protectedTurns = protectedTurnsOf(this.settings());
    const options = { batchingMode, protectedTurns, whole, isProtected: this.protection(host) };
    return { messages, pending: this.state.pending(messages, options) };
  }

  /** Compiled once for each state of the settings, since every request asks. */
  protection({ cwd }: HostSnapshot): Protection {
    const config = this.settings();
    if (this.compiled?.config !== config || this.compiled.cwd !== cwd) {
      this.compiled = { config, cwd, isProtected: protectionOf(config, cwd) };
    }
    return this.compiled.isProtected;
  }

  /** Told once for each chain. After a compaction it is expected that messages are gone. */
  private chainUnresolved(blockId: string, reason: string): void {
    if (this.state.branch.entries.some((entry) => entry.type === "compaction")) return;
    this.state.diagnostics.record({ kind: "chain-unresolved", detail: `${blockId}: ${reason}` }, this.state.append);
  }

  private reportInvalid(host: HostSnapshot): void {
    for (const customType of this.state.indexer.takeInvalid()) {
      this.state.diagnostics.record({ kind: "invalid-entry", detail: customType }, this.state.append);
      this.notices.once(host, `pruner: ignored ${customType} entries of an unknown shape in this session`);
    }
  }

  /** Tells the host, and whoever listens, what a call of the summariser has cost. */
  private paidFor(host: HostSnapshot, call: SummarizerCall): void {
    const { totalCost, totalInputTokens, totalOutputTokens } = this.state.stats.current;
    recordUsage(host.session, call);
    this.context.outlet.announceCost({ totalCost, inputTokens: totalInputTokens, outputTokens: totalOutputTokens });
  }
}

/** Timestamp (ms) of the last finished reply. */
function lastReply(messages: readonly AgentMessage[]): number | undefined {
  return messages.findLast(isAnswer)?.timestamp;
}
