/**
 * The session engine: what is seen to when a turn of one session ends and before a request leaves. It knows no host. The
 * live host, a replay and the tests each give it an environment, and at each event what holds at that moment.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { lastTrigger } from "./capture/triggers.ts";
import { tokensToFree } from "./cost/budget-watch.ts";
import type { CompactionAnnouncement } from "./cost/compaction.ts";
import type { CondensingDecision } from "./cost/decision.ts";
import { BUDGET_WAIT_MS, BudgetFlushes } from "./engine/budget-flushes.ts";
import { condenseDropped, listResults, type NamedResult, resultsNamed } from "./engine/choices.ts";
import type { Environment, Moment } from "./engine/environment.ts";
import { type FlushRequest, FlushRunner } from "./engine/flush-runner.ts";
import { FlushScope, type FlushWork } from "./engine/flush-scope.ts";
import { isThinkingBound, PricedFlushes } from "./engine/priced-flushes.ts";
import { PromptCache } from "./engine/prompt-cache.ts";
import { RenderMemo } from "./engine/render-memo.ts";
import { SessionState, type SessionView } from "./engine/session-state.ts";
import { type CompactionLists, WindowFit } from "./engine/window-fit.ts";
import { spillOversized } from "./flush/spilling.ts";
import { addReports, batchesToSummarize, emptyReport, type FlushReport } from "./flush.ts";
import { pruneMessages } from "./pruner.ts";
import type { RenderPlan } from "./render/plan.ts";
import { usageAsSent } from "./render/usage.ts";
import type { ChainCompressionEntry, ContextPruneConfig, ResultChoice } from "./types.ts";

/** Milliseconds that a request waits for a flush whose summaries ought to be ready. */
const READY_WAIT_MS = 250;

/** One session. Nothing here catches errors but those of flushes that nobody waits for. */
export class SessionEngine {
  private readonly state: SessionState;
  private readonly flushes: FlushRunner;
  private readonly budget: BudgetFlushes;
  private readonly memo = new RenderMemo();
  private readonly cache: PromptCache;
  private readonly priced: PricedFlushes;
  private readonly scope: FlushScope;
  private readonly window: WindowFit;
  /** The trigger that the last flush answered, so that one trigger starts one flush. */
  private answered: string | undefined;
  /** Results that could not be written to a blob; they are not tried again in this process. */
  private readonly unspillable = new Set<string>();
  private rendered: { messages: readonly AgentMessage[]; plan: RenderPlan; sent: AgentMessage[] } | undefined;

  constructor(private readonly environment: Environment) {
    this.state = new SessionState(environment.reader);
    this.cache = new PromptCache(environment.clock, this.state);
    this.scope = new FlushScope(this.state, () => environment.settings());
    this.flushes = new FlushRunner(this.state, environment, {
      protection: () => this.scope.lastProtection(),
      onCommit: (decision) => {
        this.budget.flushCommitted();
        environment.onCommit(decision);
      },
    });
    const { state, scope, flushes } = this;
    const parts = { environment, state, scope, flushes };
    this.window = new WindowFit({ ...parts, render: this.render.bind(this) });
    this.priced = new PricedFlushes({
      ...parts,
      cache: this.cache,
      renderRequest: this.renderRequest.bind(this),
      flush: this.flush.bind(this),
    });
    this.budget = new BudgetFlushes({
      ...parts,
      usage: this.usage.bind(this),
      flush: (moment, work) => this.unattended(this.flush(moment, work)),
    });
    this.budget.takeUp(this.state.branch.entries);
    this.reportInvalid();
  }

  /** The session as it stands, for those who show it or look something up in it. */
  view(): SessionView {
    this.state.sync();
    return this.state;
  }

  /** The leaf has moved: usage figures of the other path say nothing about this one. */
  treeMoved(): void {
    this.state.sync();
    this.budget.takeUp(this.state.branch.entries);
  }

  /** A turn has ended: spills what is oversized, flushes where a trigger or the size of the context calls for it. */
  async turnEnded(moment: Moment): Promise<void> {
    this.state.sync();
    const messages = this.state.messages();
    this.spill(moment, messages);
    if (this.state.isKept) this.priced.prefetch(moment, messages, () => this.usage(moment, messages));
    // Without a file, what is made now may serve nobody: the next request, if one comes, sees to it.
    else if (messages.at(-1)?.role === "assistant") return;
    this.budget.flushIfExceeded(moment, messages);
    if (this.settings.pruneOn !== "cache-aware") await this.flushIfDue(moment, messages);
  }

  /**
   * A request leaves: sees to everything that must hold for it, whatever the events before it have missed, and gives its
   * messages as they are to be sent.
   */
  async requestLeaves(moment: Moment, messages: AgentMessage[]): Promise<AgentMessage[]> {
    this.state.sync();
    this.spill(moment, messages);
    this.condenseDropped(messages);
    const usage = this.usage(moment, messages);
    this.budget.flushIfExceeded(moment, messages);
    if (this.settings.pruneOn === "cache-aware") await this.flushIfItPays(moment, messages, usage);
    else await this.flushIfDue(moment, messages);
    await this.budget.wait(moment, messages);
    await this.window.fitIntoWindow(moment, messages, () => this.renderRequest(messages));
    if (this.flushes.isClosed || !this.settings.enabled) return messages;
    return this.renderAsItStands(moment, messages);
  }

  /** A request leaves for which nothing new is condensed: the model could not ask it back. */
  renderAsItStands(moment: Moment, messages: AgentMessage[]): AgentMessage[] {
    this.state.sync();
    this.budget.requestLeaves(messages);
    const sent = this.renderRequest(messages);
    this.cache.requestLeaves(sent, moment.model);
    return sent;
  }

  /** `messages` as a request would carry them. @param allSeen the model has seen them to their end */
  render(messages: readonly AgentMessage[], allSeen = false): AgentMessage[] {
    return pruneMessages([...messages], this.state.plan(this.settings), { allSeen });
  }

  /** Replaces the lists by what was sent of them, condensing first where even that would not fit the window. */
  async prepareCompaction(moment: Moment, lists: CompactionLists): Promise<void> {
    this.state.sync();
    await this.window.prepareCompaction(moment, lists);
  }

  /** The host looks at the size of the context: a run has ended or a prompt has come. */
  hostLooks(): void {
    this.window.hostLooks();
  }

  /** Compactions of the host that were cancelled. */
  get avertedCompactions(): number {
    return this.window.avertedCompactions;
  }

  /** Whether the compaction that the host announces can be cancelled, since what would be sent fits. */
  async avertsCompaction(moment: Moment, announcement: CompactionAnnouncement, systemPrompt: string): Promise<boolean> {
    this.state.sync();
    return this.window.avertsCompaction(moment, announcement, systemPrompt);
  }

  /**
   * Flushes all that is pending and has been seen. A flush that is running comes to its end first, and what it did is
   * part of the report.
   */
  async flushNow(
    moment: Moment,
    options: Pick<FlushRequest, "compactAll" | "guide" | "onProgress">,
  ): Promise<FlushReport> {
    let before = emptyReport();
    while (this.flushes.current) {
      before = addReports(before, await this.flushes.current);
      if (before.cancelled || this.flushes.isClosed) return before;
    }
    this.forgive(moment);
    this.state.sync();
    // Who asks for it wants all of it condensed.
    const work = this.scope.workIn(moment, this.state.messages(), undefined, Number.POSITIVE_INFINITY);
    const report = await this.flush(moment, { ...work, ...options });
    return addReports(before, report);
  }

  /** Ends the flush that is running; what was finished is kept. */
  cancelFlush(): void {
    this.flushes.cancel();
  }

  get isFlushing(): boolean {
    return this.flushes.running;
  }

  /** Models that were given up get another chance: the person has asked for it or changed a setting. */
  forgive(moment: Moment): void {
    const summarizer = moment.summarizer(this.settings);
    if (summarizer.kind === "model") summarizer.forgive();
    this.flushes.forgetFailed();
  }

  /** The session ends: waits at most `limitMs` for a flush whose result is kept, and lets nothing come after. */
  async end(limitMs: number): Promise<void> {
    if (this.state.isKept) await this.flushes.settle(limitMs);
    this.close();
    // Calls that are given up tell a moment later what they have used.
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.state.stats.save(this.environment.append);
  }

  /** Gives up the flush that is running. */
  close(): void {
    this.flushes.close();
  }

  /** What is pending, protected and in use. */
  get work(): Pick<FlushScope, "workIn" | "isExempt" | "protection"> {
    return this.scope;
  }

  /** Why the last flush of `cache-aware` was made or not. */
  get decision(): CondensingDecision | undefined {
    return this.settings.pruneOn === "cache-aware" ? this.cache.lastDecision : undefined;
  }

  /** Takes a chain out of the render, or back into it; every other message stays as it is. */
  setChainActive(chain: ChainCompressionEntry, active: boolean): void {
    this.state.indexer.registerChain({ ...chain, active }, this.environment.append);
    this.state.sync();
  }

  /** The newest results that stand raw, and all that the person has said something of. */
  results(limit: number): NamedResult[] {
    this.state.sync();
    return listResults(this.state, limit);
  }

  /**
   * Records what the person says of the results that `name` names: a ref or the id of a call. What is dropped goes at
   * once where the model has answered it, else before the request after its answer.
   * @returns the results as they stood before
   */
  choose(name: string, choice: ResultChoice | null): NamedResult[] {
    this.state.sync();
    const named = resultsNamed(this.state, name);
    for (const key of named.keys()) this.state.indexer.choose(key, choice, this.environment.append);
    this.state.sync();
    if (choice === "drop") this.condenseDropped(this.state.messages());
    // What was kept while its trigger passed is taken along by the next request, as it is after a restart.
    if (choice === null) this.answered = undefined;
    return [...named.values()];
  }

  /** Records a trouble in the session, once for each kind and subject. */
  recordDiagnostic(diagnostic: { kind: "error" | "chain-unresolved" | "invalid-entry"; detail: string }): void {
    this.state.diagnostics.record(diagnostic, this.environment.append);
  }

  private get settings(): ContextPruneConfig {
    return this.environment.settings();
  }

  /** Rendered once for the decision and what is sent, unless a flush comes between the two. */
  private renderRequest(messages: AgentMessage[]): AgentMessage[] {
    const plan = this.state.plan(this.settings);
    if (this.rendered?.messages !== messages || this.rendered.plan !== plan) {
      const onUnresolved = (blockId: string, reason: string) => this.chainUnresolved(blockId, reason);
      this.rendered = { messages, plan, sent: this.memo.render(messages, plan, { onUnresolved }) };
    }
    return this.rendered.sent;
  }

  private condenseDropped(messages: readonly AgentMessage[]): void {
    const { indexer } = this.state;
    if (indexer.openDrops().length === 0) return;
    if (condenseDropped(this.scope.ownMessages(messages), { indexer, append: this.environment.append }))
      this.state.sync();
  }

  /** Writes oversized results of `messages` to blobs, so that no request carries them whole. */
  private spill(moment: Moment, messages: readonly AgentMessage[]): void {
    const { state, unspillable } = this;
    const blobDir = state.blobDir();
    if (blobDir === undefined) return;
    const config = this.settings;
    const batches = state.oversized(messages, { isProtected: this.scope.protection(moment), config }).map((batch) => ({
      ...batch,
      toolCalls: batch.toolCalls.filter((call) => !unspillable.has(call.occurrenceKey)),
    }));
    const { indexer } = state;
    const sync = () => state.sync();
    for (const failure of spillOversized(batches, {
      indexer,
      append: this.environment.append,
      sync,
      blobDir,
      config,
    })) {
      unspillable.add(failure.occurrenceKey);
      const text = `pruner: an oversized result stays in the context: ${failure.reason}`;
      this.environment.tell({ text, type: "warning", once: true });
    }
  }

  private usage(moment: Moment, messages: readonly AgentMessage[]): ContextUsage | undefined {
    return usageAsSent(moment.usage(), messages, this.state.plan(this.settings));
  }

  /** Starts a flush where `messages` hold a trigger that none has answered. A model is not waited for. */
  private async flushIfDue(moment: Moment, messages: readonly AgentMessage[]): Promise<void> {
    const trigger = lastTrigger(messages, this.settings);
    const { summarizerModel } = this.settings;
    const isDigest = summarizerModel === "none";
    // On the older host a request may be about to leave while the end of the turn before it still flushes.
    if (isDigest && this.flushes.running) await this.flushes.settle(BUDGET_WAIT_MS, moment.signal);
    if (trigger === undefined || trigger.name === this.answered || this.flushes.running) return;
    if (isThinkingBound(moment, messages)) return;
    this.answered = trigger.name;
    const { mustFree } = this.budget;
    const tokens = mustFree ? tokensToFree(this.usage(moment, messages), this.settings) : 0;
    // What is in use is told as of the trigger's turn, so that a session which is taken up does not answer it anew.
    const upToReply = this.scope.ownMessages(messages.slice(0, trigger.toReply));
    const work = this.scope.workIn(moment, upToReply, messages.slice(0, trigger.toResults), tokens);
    if (work.pending.length === 0 && !this.state.indexer.hasUncommitted()) return;
    this.budget.mustFree = false;
    const done = this.flush(moment, { ...work, mustFree });
    if (isDigest) return void (await done);
    this.unattended(done);
    // With nothing to ask a model for it is over at once, and the request can take it along.
    const batches = batchesToSummarize(work.pending, this.state.indexer, this.settings);
    if (batches.length > (summarizerModel === "auto" ? this.flushes.unasked(batches).length : 0)) return;
    await this.flushes.settle(READY_WAIT_MS, moment.signal);
  }

  /** Flushes where that costs less than to go on. Summaries that are ready are waited for, others are not. */
  private async flushIfItPays(
    moment: Moment,
    messages: AgentMessage[],
    usage: ContextUsage | undefined,
  ): Promise<void> {
    const flush = this.priced.flushIfItPays(moment, messages, usage);
    if (!flush) return;
    this.unattended(flush.done);
    if (flush.isDigest) await flush.done;
    else await this.flushes.settle(READY_WAIT_MS, moment.signal);
  }

  private async flush(
    moment: Moment,
    work: FlushWork,
    config = this.settings,
    summarizer = moment.summarizer(config),
  ): Promise<FlushReport> {
    const isProtected = this.scope.protection(moment);
    const flushing = this.flushes.start({ ...work, summarizer, config, isProtected });
    this.environment.onChange();
    const report = await flushing;
    this.budget.flushEnded();
    this.environment.onChange();
    this.flushBehind(moment);
    return report;
  }

  /** A trigger may have come while a flush was running. */
  private flushBehind(moment: Moment): void {
    if (this.flushes.isClosed || this.flushes.running || !this.settings.enabled) return;
    this.state.sync();
    const messages = this.state.messages();
    this.budget.flushIfOpen(moment, messages);
    this.unattended(this.flushIfDue(moment, messages));
  }

  /** Nobody waits for this: an error in it must not end the process. */
  private unattended(done: Promise<unknown>): void {
    void done.catch((error: unknown) => this.environment.onError(error));
  }

  /** Told once for each chain. After a compaction it is expected that messages are gone. */
  private chainUnresolved(blockId: string, reason: string): void {
    if (this.state.branch.entries.some((entry) => entry.type === "compaction")) return;
    this.recordDiagnostic({ kind: "chain-unresolved", detail: `${blockId}: ${reason}` });
  }

  private reportInvalid(): void {
    for (const customType of this.state.indexer.takeInvalid()) {
      this.recordDiagnostic({ kind: "invalid-entry", detail: customType });
      const text = `pruner: ignored ${customType} entries of an unknown shape in this session`;
      this.environment.tell({ text, type: "warning", once: true });
    }
  }
}
