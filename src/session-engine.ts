/**
 * The session engine: what is seen to when a turn of one session ends and before a request leaves. It knows no host. The
 * live host, a replay and the tests each give it an environment, and at each event what holds at that moment.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import { type InUse, roomFor } from "./capture/in-use.js";
import { type Protection, protectedTurnsOf, protectionOf } from "./capture/protection.js";
import { flushMark } from "./capture/triggers.js";
import { BudgetWatch, tokensToFree } from "./cost/budget-watch.js";
import { type CompactionAnnouncement, CompactionWatch, reserveOf } from "./cost/compaction.js";
import { type CondensingDecision, isUnderPressure, settingsFor } from "./cost/decision.js";
import { condenseDropped, listResults, type NamedResult, resultsNamed } from "./engine/choices.js";
import type { Environment, Moment, Summarizer } from "./engine/environment.js";
import { type FlushRequest, FlushRunner } from "./engine/flush-runner.js";
import { type CondensingQuestion, PromptCache } from "./engine/prompt-cache.js";
import { RenderMemo } from "./engine/render-memo.js";
import { SessionState, type SessionView } from "./engine/session-state.js";
import { spillOversized } from "./flush/spilling.js";
import { addReports, batchesToSummarize, emptyReport, type FlushReport } from "./flush.js";
import { pruneMessages } from "./pruner.js";
import type { RenderPlan } from "./render/plan.js";
import { usageAsSent } from "./render/usage.js";
import {
  contentChars,
  holdsSignedThinking,
  isAnswer,
  isAssistant,
  isClosingReply,
  isToolResult,
  toolCallsOf,
} from "./transcript/messages.js";
import { charsOfTokens, fitsWindow, jsonSize } from "./transcript/tokens.js";
import type { CapturedBatch, ChainCompressionEntry, ContextPruneConfig, ResultChoice } from "./types.js";

/** Milliseconds that a request waits for a flush which the size of the context has forced. */
export const BUDGET_WAIT_MS = 60_000;

/** Milliseconds that a request waits for a flush whose summaries ought to be ready. */
const READY_WAIT_MS = 250;

/** Milliseconds that a running flush is given, and then its end, before space is made without it. */
const SPACE_WAIT_MS = 10_000;
const CANCEL_WAIT_MS = 2_000;

/** The lists of messages that the host is about to summarise. */
export interface CompactionLists {
  messagesToSummarize: AgentMessage[];
  turnPrefixMessages: AgentMessage[];
}

/** What a flush is asked for, beside the settings. */
export type FlushWork = Pick<
  FlushRequest,
  "pending" | "messages" | "inUse" | "compactAll" | "guide" | "mustFree" | "decision" | "onProgress"
>;

/** One session. Nothing here catches errors but those of flushes that nobody waits for. */
export class SessionEngine {
  private readonly state: SessionState;
  private readonly flushes: FlushRunner;
  private readonly budget = new BudgetWatch();
  private readonly memo = new RenderMemo();
  private readonly cache: PromptCache;
  private readonly compactions = new CompactionWatch();
  /** The trigger that the last flush answered, so that one trigger starts one flush. */
  private flushedMark: string | undefined;
  /** The flush that is running was forced by a budget, and the next request waits for it. */
  private urgent = false;
  /** A budget was exceeded while a flush ran, which may have left out what exceeded it. */
  private budgetIsOpen = false;
  /** A budget is exceeded: where no model gives a summary, the next flush of every-turn takes digests. */
  private mustFree = false;
  /** Results that could not be written to a blob; they are not tried again in this process. */
  private readonly unspillable = new Set<string>();
  /** Window (tokens) that the context was last found to fit into. */
  private fittedWindow: number | undefined;
  private compiled: { config: ContextPruneConfig; cwd: string; isProtected: Protection } | undefined;
  private rendered: { messages: readonly AgentMessage[]; plan: RenderPlan; sent: AgentMessage[] } | undefined;

  constructor(private readonly environment: Environment) {
    this.state = new SessionState(environment.reader);
    this.cache = new PromptCache(environment.clock, this.state);
    this.flushes = new FlushRunner(this.state, environment, {
      protection: () => this.compiled && this.protection(this.compiled),
      onCommit: (decision) => {
        this.budget.flushCommitted();
        environment.onCommit(decision);
      },
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
    if (this.state.isKept) this.prefetch(moment, messages);
    // Without a file, what is made now may serve nobody: the next request, if one comes, sees to it.
    else if (messages.at(-1)?.role === "assistant") return;
    this.flushIfOverBudget(moment, messages);
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
    this.flushIfOverBudget(moment, messages);
    if (this.settings.pruneOn === "cache-aware") await this.flushIfItPays(moment, messages, usage);
    else await this.flushIfDue(moment, messages);
    await this.waitForBudget(moment, messages);
    await this.fitIntoWindow(moment, messages);
    if (this.flushes.isClosed || !this.settings.enabled) return messages;
    return this.renderAsItStands(moment, messages);
  }

  /** A request leaves for which nothing new is condensed: the model could not ask it back. */
  renderAsItStands(moment: Moment, messages: AgentMessage[]): AgentMessage[] {
    this.state.sync();
    this.budget.requestLeaves(lastReply(messages));
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
    const { messagesToSummarize, turnPrefixMessages } = lists;
    const isSmall = (list: AgentMessage[]) => this.fits(moment, this.render(list, true));
    if (!isSmall(messagesToSummarize) || !isSmall(turnPrefixMessages)) await this.freeSpace(moment);
    lists.messagesToSummarize = this.render(messagesToSummarize, true);
    lists.turnPrefixMessages = this.render(turnPrefixMessages, true);
  }

  /** The host looks at the size of the context: a run has ended or a prompt has come. */
  hostLooks(): void {
    this.compactions.hostLooks(this.environment.clock.now());
  }

  /** Compactions of the host that were cancelled. */
  get avertedCompactions(): number {
    return this.compactions.averted;
  }

  /**
   * Whether the compaction that the host announces for the size of the context can be cancelled, since what would be sent
   * fits, if need be once all that can be condensed is.
   */
  async avertsCompaction(moment: Moment, announcement: CompactionAnnouncement, systemPrompt: string): Promise<boolean> {
    this.state.sync();
    const { clock } = this.environment;
    const window = moment.model?.contextWindow;
    const messages = this.state.messages();
    const reason = this.compactions.reasonOf(announcement, { messages, window, now: clock.now() });
    if (reason !== "threshold") return false;
    const reserveTokens = reserveOf(announcement.preparation);
    const isNeedless = () => {
      const rendered = this.render(messages);
      return this.compactions.isNeedless({ reason, messages, rendered, systemPrompt, window, reserveTokens });
    };
    if (!isNeedless()) {
      await this.freeSpace(moment, messages);
      if (!isNeedless()) return false;
    }
    this.compactions.avert(clock.now());
    return true;
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
    const work = this.workIn(moment, this.state.messages(), undefined, Number.POSITIVE_INFINITY);
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

  /**
   * What a flush would work on now.
   * @param whole the conversation to its end, where `messages` stop before it
   * @param mustFree tokens that the flush has to free, be it of what is in use
   */
  workIn(
    moment: Pick<Moment, "cwd" | "model">,
    messages: readonly AgentMessage[],
    whole = messages,
    mustFree = 0,
  ): FlushWork {
    const { batchingMode } = this.settings;
    const protectedTurns = protectedTurnsOf(this.settings);
    const options = { batchingMode, protectedTurns, isProtected: this.protection(moment) };
    const inUse = this.inUse(moment, whole);
    const pending = this.state.pending(messages, { ...options, inUse });
    const missing = mustFree <= 0 || inUse.size === 0 ? 0 : charsOfTokens(mustFree) - charsToFree(pending);
    if (missing <= 0) return { messages, pending, inUse };
    const room = [...inUse.values()].reduce((sum, chars) => sum + chars, -missing);
    const left = this.inUse(moment, whole, room);
    return { messages, pending: this.state.pending(messages, { ...options, inUse: left }), inUse: left };
  }

  /** @param maxChars room for it */
  private inUse(
    { model }: Pick<Moment, "model">,
    messages: readonly AgentMessage[],
    maxChars = roomFor(model?.contextWindow),
  ): InUse {
    const { workingSet: requests, pruneOn } = this.settings;
    const isPriced = pruneOn === "cache-aware";
    return this.state.inUse(
      messages,
      requests === null ? { requests: 0, maxChars: 0 } : { requests, isPriced, maxChars },
    );
  }

  /** The output of this call is never condensed: it is protected, or has been asked back. */
  isExempt(moment: Pick<Moment, "cwd">, call: { toolName: string; args: Record<string, unknown> }): boolean {
    return this.state.isRecovery(call) || this.protection(moment)(call);
  }

  /** What is protected now. Compiled once for each state of the settings, since every request asks. */
  protection({ cwd }: Pick<Moment, "cwd">): Protection {
    const config = this.settings;
    if (this.compiled?.config !== config || this.compiled.cwd !== cwd) {
      this.compiled = { config, cwd, isProtected: this.withKept(protectionOf(config, cwd)) };
    }
    return this.compiled.isProtected;
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
    if (choice === null) this.flushedMark = undefined;
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
    if (condenseDropped(this.ownMessages(messages), { indexer, append: this.environment.append })) this.state.sync();
  }

  /** Protection with the results that the person keeps. */
  private withKept(isProtected: Protection): Protection {
    const { indexer } = this.state;
    const isKept = (key: string | undefined) => key !== undefined && indexer.choiceOf(key) === "keep";
    return Object.assign((call: Parameters<Protection>[0]) => isKept(call.occurrenceKey) || isProtected(call), {
      subjectOf: isProtected.subjectOf,
    });
  }

  /** Writes oversized results of `messages` to blobs, so that no request carries them whole. */
  private spill(moment: Moment, messages: readonly AgentMessage[]): void {
    const { state, unspillable } = this;
    const blobDir = state.blobDir();
    if (blobDir === undefined) return;
    const config = this.settings;
    const batches = state.oversized(messages, { isProtected: this.protection(moment), config }).map((batch) => ({
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

  /** Has finished turns summarised while the agent works on, so that the flush that is to come finds it done. */
  private prefetch(moment: Moment, messages: readonly AgentMessage[]): void {
    const config = this.settings;
    if (config.pruneOn === "on-demand" || config.batchingMode === "agent-message") return;
    const summarizer = moment.summarizer(config);
    if (summarizer.kind !== "model") return;
    const inUse = this.inUse(moment, messages);
    const options = { batchingMode: config.batchingMode, isProtected: this.protection(moment), unseenToo: true, inUse };
    const pending = this.state.pending(messages, options);
    if (config.pruneOn === "cache-aware" || summarizer.isOptional) {
      const question = this.condensingQuestion(moment, [...messages], { pending, inUse }, this.usage(moment, messages));
      if (question.unpaid.length === 0 || !this.cache.summariesPay(question)) return;
    }
    this.flushes.prefetch({ pending, summarizer, config });
  }

  /** Flushes everything that has been seen where the context has grown too large; the next request waits for it. */
  private flushIfOverBudget(moment: Moment, messages: readonly AgentMessage[]): void {
    const { autoBudgetThreshold, budgetTurnDelta, autoBudgetTokens, pruneOn } = this.settings;
    if (autoBudgetThreshold === null && budgetTurnDelta === null && autoBudgetTokens === null) return;
    if (!this.budget.isDue(this.usage(moment, messages), lastReply(messages), this.settings)) return;
    this.urgent = true;
    // every-turn flushes the same results anyway.
    if (pruneOn === "every-turn") this.mustFree = true;
    else this.flushForBudget(moment, messages);
  }

  private flushForBudget(moment: Moment, messages: readonly AgentMessage[]): void {
    this.budgetIsOpen = this.flushes.running;
    if (this.budgetIsOpen) return;
    const mustFree = tokensToFree(this.usage(moment, messages), this.settings);
    const work = this.workIn(moment, this.ownMessages(messages), messages, mustFree);
    const pending = work.pending.filter((batch) => !batch.held);
    if (pending.length === 0) {
      const text = "pruner: context budget reached, but nothing that is finished is left to condense";
      this.environment.tell({ text, type: "info", once: true });
      this.urgent = false;
      return;
    }
    const turns = pending.length === 1 ? "1 pending turn" : `${pending.length} pending turns`;
    if (batchesToSummarize(pending, this.state.indexer, this.settings).length > 0) {
      this.environment.tell({ text: `pruner: context budget reached — compacting ${turns}`, type: "info" });
    }
    this.unattended(this.flush(moment, { ...work, mustFree: true }));
  }

  /** Waits for a flush that a budget has forced, and for the one after it where that left something out. */
  private async waitForBudget(moment: Moment, messages: readonly AgentMessage[]): Promise<void> {
    if (!this.urgent) return;
    await this.flushes.settle(BUDGET_WAIT_MS, moment.signal);
    if (this.budgetIsOpen && !this.flushes.running) this.flushForBudget(moment, messages);
    await this.flushes.settle(BUDGET_WAIT_MS, moment.signal);
    if (!this.flushes.running) this.urgent = false;
  }

  private usage(moment: Moment, messages: readonly AgentMessage[]): ContextUsage | undefined {
    return usageAsSent(moment.usage(), messages, this.state.plan(this.settings));
  }

  /** Starts a flush where `messages` hold a trigger that none has answered. A model is not waited for. */
  private async flushIfDue(moment: Moment, messages: readonly AgentMessage[]): Promise<void> {
    const markIndex = flushMark(messages, this.settings);
    const mark = nameOf(messages, markIndex);
    const { summarizerModel } = this.settings;
    const isDigest = summarizerModel === "none";
    // On the older host a request may be about to leave while the end of the turn before it still flushes.
    if (isDigest && this.flushes.running) await this.flushes.settle(BUDGET_WAIT_MS, moment.signal);
    if (mark === undefined || mark === this.flushedMark || this.flushes.running) return;
    if (this.isThinkingBound(moment, messages)) return;
    const upToNext = messages.slice(0, turnEnd(messages, markIndex));
    if (upToNext.length === messages.length && awaitsResults(messages, markIndex)) return;
    this.flushedMark = mark;
    const upToMark = messages.slice(0, markIndex + 1);
    const { mustFree } = this;
    const tokens = mustFree ? tokensToFree(this.usage(moment, messages), this.settings) : 0;
    // What is in use is told as of the trigger's turn, so that a session which is taken up does not answer it anew.
    const work = this.workIn(moment, this.ownMessages(upToMark), upToNext, tokens);
    if (work.pending.length === 0 && !this.state.indexer.hasUncommitted()) return;
    this.mustFree = false;
    const done = this.flush(moment, { ...work, mustFree });
    if (isDigest) return void (await done);
    this.unattended(done);
    // With nothing to ask a model for it is over at once, and the request can take it along.
    const batches = batchesToSummarize(work.pending, this.state.indexer, this.settings);
    if (batches.length > (summarizerModel === "auto" ? this.flushes.unasked(batches).length : 0)) return;
    await this.flushes.settle(READY_WAIT_MS, moment.signal);
  }

  /** The open run holds thinking that would be lost where something before it changes. */
  private isThinkingBound({ model }: Moment, messages: readonly AgentMessage[]): boolean {
    return (
      model?.bindsThinking === true && holdsSignedThinking(messages.slice(messages.findLastIndex(isClosingReply) + 1))
    );
  }

  /** Flushes where that costs less than to go on. Summaries that are ready are waited for, others are not. */
  private async flushIfItPays(
    moment: Moment,
    messages: AgentMessage[],
    usage: ContextUsage | undefined,
  ): Promise<void> {
    if (this.flushes.running) return;
    if (this.isThinkingBound(moment, messages) && !isUnderPressure(usage)) return;
    const config = this.settings;
    const mustFree = isUnderPressure(usage) ? tokensToFree(usage, config) : 0;
    const work = this.workIn(moment, this.ownMessages(messages), messages, mustFree);
    const question = this.condensingQuestion(moment, messages, work, usage);
    const decision = this.cache.decide({ ...question, messages: work.messages });
    if (!decision?.flush) return;
    const { reason, savings, price, chains, digest } = decision;
    const summarizer: Summarizer = digest ? { kind: "digest" } : question.summarizer;
    const request = { ...work, compactAll: chains, decision: { reason, savings, price } };
    const done = this.flush(moment, request, settingsFor(decision, config), summarizer);
    this.unattended(done.then((report) => this.cache.flushed(report)));
    if (summarizer.kind === "digest") await done;
    else await this.flushes.settle(READY_WAIT_MS, moment.signal);
  }

  private condensingQuestion(
    moment: Moment,
    messages: AgentMessage[],
    { pending, inUse }: Pick<FlushWork, "pending" | "inUse">,
    usage: ContextUsage | undefined,
  ): CondensingQuestion {
    const config = this.settings;
    return {
      messages,
      pending,
      inUse,
      unpaid: this.flushes.unasked(pending),
      isProtected: this.protection(moment),
      render: () => this.renderRequest(messages),
      usage,
      model: moment.model,
      summarizer: moment.summarizer(config),
      config,
    };
  }

  /**
   * The same conversation as the branch holds it, up to the last reply of `messages`: another extension may have changed
   * the messages of a request, and what came after that reply may not be in the branch of the older host yet. `messages`
   * themselves where the branch lacks even the reply.
   */
  private ownMessages(messages: readonly AgentMessage[]): readonly AgentMessage[] {
    const last = messages.findLast(isAssistant);
    const own = this.state.messages();
    const end = own.findLastIndex((message) => isAssistant(message) && message.timestamp === last?.timestamp);
    if (end === own.length - 1 && end >= 0) return own;
    return end < 0 ? messages : own.slice(0, end + 1);
  }

  /** A model with a smaller window, or a session taken up with one: what does not fit is condensed before it is sent. */
  private async fitIntoWindow(moment: Moment, messages: AgentMessage[]): Promise<void> {
    const window = moment.model?.contextWindow;
    if (window === undefined || window === this.fittedWindow) return;
    const isSmaller = this.fittedWindow === undefined || window < this.fittedWindow;
    if (isSmaller && !this.fits(moment, this.renderRequest(messages))) {
      await this.freeSpace(moment, this.ownMessages(messages));
      if (!this.fits(moment, this.renderRequest(messages))) {
        const text = `pruner: the context is larger than the model's window of ${window} tokens. Use /compact.`;
        this.environment.tell({ text, type: "warning", once: true });
        return;
      }
    }
    this.fittedWindow = window;
  }

  private fits({ model }: Moment, messages: readonly AgentMessage[]): boolean {
    return fitsWindow(messages, model?.contextWindow);
  }

  /** Condenses all that has been seen with the digest, every closed chain too: a model would take too long now. */
  private async freeSpace(moment: Moment, messages = this.state.messages()): Promise<void> {
    await this.flushes.settle(SPACE_WAIT_MS, moment.signal);
    if (this.flushes.running && !moment.signal?.aborted) {
      this.flushes.cancel();
      await this.flushes.settle(CANCEL_WAIT_MS, moment.signal);
    }
    if (this.flushes.running || this.flushes.isClosed) return;
    const chainCompression = { ...this.settings.chainCompression, rollingWindow: 0 };
    await this.flushes.start({
      ...this.workIn(moment, messages, messages, Number.POSITIVE_INFINITY),
      summarizer: { kind: "digest" },
      config: { ...this.settings, chainCompression },
      isProtected: this.protection(moment),
      compactAll: true,
    });
  }

  private async flush(
    moment: Moment,
    work: FlushWork,
    config = this.settings,
    summarizer = moment.summarizer(config),
  ): Promise<FlushReport> {
    const isProtected = this.protection(moment);
    const flushing = this.flushes.start({ ...work, summarizer, config, isProtected });
    this.environment.onChange();
    const report = await flushing;
    this.urgent = this.budgetIsOpen;
    this.environment.onChange();
    this.flushBehind(moment);
    return report;
  }

  /** A trigger may have come while a flush was running. */
  private flushBehind(moment: Moment): void {
    if (this.flushes.isClosed || this.flushes.running || !this.settings.enabled) return;
    this.state.sync();
    const messages = this.state.messages();
    if (this.budgetIsOpen) this.flushForBudget(moment, messages);
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

/** Characters that a flush of `pending` takes out of the context at most. */
function charsToFree(pending: readonly CapturedBatch[]): number {
  const calls = pending.flatMap(({ held, toolCalls }) => (held ? [] : toolCalls));
  return calls.reduce((sum, { content, args }) => sum + contentChars(content) + jsonSize(args), 0);
}

/** Index after the results of the reply at `index`: of the next reply or prompt, or of the list's end. */
function turnEnd(messages: readonly AgentMessage[], index: number): number {
  const end = messages.findIndex((message, i) => i > index && (isAssistant(message) || message.role === "user"));
  return end < 0 ? messages.length : end;
}

/** Results are missing of calls of the reply at `index`. */
function awaitsResults(messages: readonly AgentMessage[], index: number): boolean {
  const reply = messages[index];
  const calls = reply && isAssistant(reply) ? toolCallsOf(reply).length : 0;
  return messages.slice(index + 1).filter(isToolResult).length < calls;
}

/** Timestamp (ms) of the last finished reply. */
function lastReply(messages: readonly AgentMessage[]): number | undefined {
  return messages.findLast(isAnswer)?.timestamp;
}

/** Names the message at `index` by its time, and by its place among replies of that time: some servers give none. */
function nameOf(messages: readonly AgentMessage[], index: number): string | undefined {
  if (index < 0) return undefined;
  const timeAt = (message: AgentMessage | undefined) => String(message?.timestamp);
  const time = timeAt(messages[index]);
  const place = messages.reduce(
    (n, other, i) => (i <= index && isAssistant(other) && timeAt(other) === time ? n + 1 : n),
    0,
  );
  return `${time}#${place}`;
}
