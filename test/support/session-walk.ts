/** Walks through whole sessions, step by step, and checks every invariant after each. */
import { setSystemTime } from "bun:test";
import { isDeepStrictEqual } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { createQueryTool } from "../../src/query-tool.ts";
import { messagesInContext } from "../../src/session/branch.ts";
import { isAssistant, isToolResult, lastAnswerIndex, toolCallsOf } from "../../src/transcript/messages.ts";
import { QUERY_TOOL_NAME } from "../../src/types.ts";
import { scratchFolder } from "./folders.ts";
import { deepFreeze } from "./generate.ts";
import {
  checkArgumentsRecoverable,
  checkDroppedRecoverable,
  checkNothingGrows,
  checkPrefixStable,
  checkRecoverable,
  checkUnseenRaw,
  checkValid,
} from "./invariants.ts";
import { EntryTree, type OtherEntry, type RenderedRequest, writeSettingsOf } from "./simulated-session.ts";
import { HostedSession, shaped } from "./walk-host.ts";
import { compactionCuts, Place } from "./walk-place.ts";
import type { Step, Walk } from "./walk-plan.ts";

/** What went wrong on a walk, by the step after which it was found. */
export class WalkFailure extends Error {}

/** Notices that tell of a model that failed, of a window or a budget; all others tell of a fault. */
const USUAL_NOTICE =
  /^pruner: (no summary from|the session has no model|context budget reached|the context is larger than the model's window)/;

/** Entries that the hosts and other extensions write beside the messages. */
const ASIDES: readonly OtherEntry[] = [
  { type: "model_change", provider: "anthropic", modelId: "other-2" },
  { type: "thinking_level_change", thinkingLevel: "high" },
  { type: "session_info", name: "The lexer" },
];

/** How often a summariser is let answer while the host waits for one thing; each time is a millisecond longer. */
const MOST_ROUNDS = 60;

/** Where the walks of this process keep their settings, one after the other. */
let settingsFolder: string | undefined;

export interface WalkOptions {
  sessionDir?: string;
  /** Given every request that is made. */
  onRequest?: (request: RenderedRequest) => void;
  /** Told what was met on the way, so that a test can say that its walks have met everything. */
  onSight?: (what: string) => void;
}

/**
 * Walks through a session and checks every invariant after each step.
 * @returns the number of calls that were condensed
 * @throws WalkFailure with what was violated
 */
export async function walk(plan: Walk, options: WalkOptions = {}): Promise<number> {
  settingsFolder ??= scratchFolder("walk");
  writeSettingsOf(settingsFolder, plan.settings);
  try {
    const walker = new Walker(plan, options, settingsFolder);
    for (const [i, step] of plan.steps.entries()) await walker.take(step, `step ${i} (${JSON.stringify(step)})`);
    await walker.finish();
    return walker.condensed;
  } finally {
    setSystemTime();
  }
}

class Walker {
  condensed = 0;
  private place: Place;
  private readonly queue: AgentMessage[];
  private requests: RenderedRequest[] = [];
  private forks = 0;
  private recalls = 0;
  /** Time of the last message, and what has been waited beside. */
  private clock = 1_772_000_000_000;
  private waited = 0;
  private where = "";
  /** Sessions that have ended, with the number of their entries then. */
  private readonly ended: { session: HostedSession; entries: number }[] = [];

  constructor(
    private readonly plan: Walk,
    private readonly options: WalkOptions,
    agentDir: string,
  ) {
    const { shapes, held = false, model = "none" } = plan;
    this.queue = shaped(plan.messages, shapes);
    const session = new HostedSession(new EntryTree(options.sessionDir), { agentDir, shapes, held, model });
    this.place = new Place(session);
  }

  private get session(): HostedSession {
    return this.place.session;
  }

  async take(step: Step, where: string): Promise<void> {
    this.where = where;
    const { place } = this;
    const noticesBefore = this.session.notices.length;
    const goesOn = step.kind === "play" || step.kind === "reload" || step.kind === "kill";
    if (!goesOn) this.requests = [];
    this.tick();
    this.sight(`${step.kind}${this.session.flushing ? " within a flush" : ""}`);
    await this.run(step);
    await this.check();
    const all = place === this.place ? this.session.notices.slice(noticesBefore) : this.session.notices;
    const notices = all.filter((notice) => !USUAL_NOTICE.test(notice));
    const allowed = step.kind === "refuse" ? 1 : 0;
    if (notices.length > allowed) this.fail(`${notices.length} notices: ${notices.join(" | ")}`);
  }

  /** Nothing comes from a session that has ended, however late its models answer. */
  async finish(): Promise<void> {
    for (const { session, entries } of this.ended) {
      session.answer(session.unanswered, "sections");
      await settled();
      if (session.tree.getEntries().length > entries) this.fail("a session that had ended was written to");
    }
  }

  private async run(step: Step): Promise<void> {
    const { session } = this;
    const { tree } = session;
    switch (step.kind) {
      case "play":
        return this.play(step.count);
      case "recall":
        return this.recall(step.pick);
      case "move": {
        const target = pickFrom([...this.targets(), null], step.pick);
        if (target !== undefined) this.moveTo(target, step.summary);
        return;
      }
      case "back":
        if (this.place.left !== undefined) this.moveTo(this.place.left, false);
        return;
      case "fork": {
        const target = pickFrom(this.targets(), step.pick);
        if (target !== undefined) await this.fork(target);
        return;
      }
      case "resume": {
        const { parent } = this.place;
        if (!parent) return;
        await this.end(session);
        this.place = parent;
        parent.session = parent.session.next();
        return;
      }
      case "compact":
        return this.compact(step.pick);
      case "reload":
        await this.end(session);
        this.place.session = session.next();
        return;
      case "kill":
        this.place.session = session.next();
        return;
      case "crash":
        return this.crash(step.after);
      case "refuse":
        return this.refuse(step.at);
      case "settings":
        session.pruner.changeSettings(session.host, step.change);
        return;
      case "model":
        session.switchModel(step.name);
        return;
      case "wait":
        this.waited += step.minutes * 60_000;
        return;
      case "answer":
        session.answer(step.count, step.by);
        return settled();
      case "flush":
        void session.pruner.flushNow(session.host, { compactAll: step.all });
        return settled();
      case "cancel":
        session.pruner.cancelFlush();
        return settled();
      case "chain": {
        const chain = pickFrom(session.pruner.chains() ?? [], step.pick);
        if (chain) session.pruner.setChainActive(chain.blockId, !chain.active);
        return;
      }
      case "aside": {
        const label = { type: "label" as const, targetId: tree.getLeafId() ?? "", label: "here" };
        const entry = pickFrom([...ASIDES, ...(label.targetId ? [label] : [])], step.pick);
        if (entry) tree.appendOther(entry, this.clock + 1);
        tree.appendCustom("other-extension", { pick: step.pick });
      }
    }
  }

  /** What a run that broke off has left of its turns never comes; the next thing that is said begins another run. */
  private startOfRun(): void {
    if (this.requests.length > 0) return;
    while (this.queue[0] && this.queue[0].role !== "user") this.queue.shift();
  }

  private async play(count: number): Promise<void> {
    this.startOfRun();
    const { session } = this;
    // No host asks its model before the last result of a turn is there.
    const end = this.queue.findIndex((message, i) => i >= count && (isAssistant(message) || message.role === "user"));
    const messages = this.queue.splice(0, end < 0 ? this.queue.length : end);
    for (const [i, message] of messages.entries()) {
      if (isAssistant(message)) {
        await this.catchUp(this.plan.lags ? i % 6 : 0);
        await this.request();
      }
      this.clock = message.timestamp;
      this.tick();
      session.addLate(message);
      // The host stamps the entries of other extensions when it writes them.
      if (!this.plan.lags || message.role === "custom") await this.catchUp(0, messages[i + 1]);
    }
    await this.catchUp(0);
  }

  /** Entries and events come, all but those of the last few messages. @param next what comes behind the messages */
  private async catchUp(left: number, next?: AgentMessage): Promise<void> {
    const { session } = this;
    while (session.late.length > left) {
      const message = session.takeLate();
      const after = session.late[0] ?? next;
      const turnEnds = message && (isAssistant(message) || isToolResult(message)) && !(after && isToolResult(after));
      if (turnEnds) await this.answering(session.pruner.turnEnded(session.host));
    }
  }

  /** Waits as the host does, during which the summariser answers. */
  private async answering<T>(work: Promise<T>): Promise<T> {
    const { session } = this;
    let isDone = false;
    const done = work.finally(() => {
      isDone = true;
    });
    await settled();
    for (let round = 0; !isDone; round++) {
      if (round > MOST_ROUNDS) this.fail("waits for something that nobody will give");
      session.answer(session.unanswered, "sections");
      await settled(round);
    }
    return done;
  }

  /** The model asks for one of the refs, as it does where a summary is not enough. */
  private async recall(pick: number): Promise<void> {
    const { session } = this;
    const ref = pickFrom(session.state().indexer.refs(), pick);
    const last = session.messages().findLast(isAssistant);
    if (ref === undefined || !last || toolCallsOf(last).length > 0) return;
    this.recalls += 1;
    const id = `recall_${this.recalls}`;
    const args = { toolCallIds: [ref] };
    await this.request();
    const call = { type: "toolCall" as const, id, name: QUERY_TOOL_NAME, arguments: args };
    const { api, provider, model, usage } = last;
    const from = { api, provider, model: `${model}-recalling`, usage };
    this.clock += 1;
    session.add(
      deepFreeze({ role: "assistant", content: [call], ...from, stopReason: "toolUse", timestamp: this.clock }),
    );
    const tool = createQueryTool(() => session.state());
    const { content } = await tool.execute(id, args, undefined, undefined, undefined as never);
    this.clock += 1;
    const result = { toolCallId: id, toolName: QUERY_TOOL_NAME, content, isError: false, timestamp: this.clock };
    session.add(deepFreeze({ role: "toolResult", ...result }));
    await this.answering(session.pruner.turnEnded(session.host));
  }

  /**
   * Entries that the leaf can move to. A flush may stand before results that came late, the answer that they had and the
   * message behind it; where the leaf comes between them, these are what they wait for, so that the prefix changes once more.
   */
  private targets(): string[] {
    const { tree } = this.session;
    const ids = tree.getEntries().map(({ id }) => id);
    if (!this.plan.lags) return ids;
    return ids.filter((id) => {
      const messages = messagesInContext(tree.branch(id));
      return messages.at(-1)?.role === "user" && messages.findLastIndex(isToolResult) < lastAnswerIndex(messages);
    });
  }

  private moveTo(id: string | null, summary: boolean): void {
    const { session } = this;
    const left = session.tree.getLeafId();
    session.tree.moveTo(id);
    if (left !== null && summary) {
      const entry = { type: "branch_summary" as const, fromId: left, summary: "Tried t1, saw b1." };
      session.tree.appendOther(entry, this.clock + 1);
    }
    this.place.left = left ?? undefined;
    session.pruner.treeMoved();
  }

  private async fork(id: string): Promise<void> {
    const { session } = this;
    this.forks += 1;
    const forked = session.next(session.tree.fork(id, `fork${this.forks}`));
    await this.end(session);
    session.tree.moveTo(id);
    const parent = session.next();
    if (forked.view() !== parent.view()) this.fail("the fork renders otherwise than its parent", forked, parent);
    this.place.session = parent;
    this.place = this.place.fork(forked, this.plan.lags === true);
  }

  /** As the hosts end a session: with what they wait for, and nothing after it. */
  private async end(session: HostedSession): Promise<void> {
    await this.answering(session.pruner.endSession());
    this.ended.push({ session, entries: session.tree.getEntries().length });
  }

  private async compact(pick: number): Promise<void> {
    const { session } = this;
    const cut = pickFrom(compactionCuts(session.tree), pick)?.();
    if (!cut) return;
    const { firstKeptEntryId, messagesToSummarize, turnPrefixMessages } = cut;
    const preparation = { messagesToSummarize, turnPrefixMessages };
    await this.answering(session.pruner.beforeCompaction(session.host, { reason: "manual", preparation }));
    // What is summarised has been seen to its end, and is no request.
    for (const [raw, sent] of [
      [messagesToSummarize, preparation.messagesToSummarize],
      [turnPrefixMessages, preparation.turnPrefixMessages],
    ] as const) {
      const summarised = { raw, sent, epoch: 0 };
      this.expectNone([...checkRecoverable(summarised, session.state()), ...checkNothingGrows(summarised)]);
    }
    const entry = { type: "compaction" as const, summary: "## Goal", firstKeptEntryId, tokensBefore: 9_000 };
    session.tree.appendOther(entry, this.clock + 1);
  }

  /** As a kill does: nothing is written from some entry on, and nothing of the process is left. */
  private async crash(after: number): Promise<void> {
    const { session } = this;
    let left = after;
    session.beforeAppend = () => {
      if (left-- <= 0) throw new Error("killed");
    };
    await this.answering(session.pruner.flushNow(session.host, { compactAll: true }));
    this.place.session = session.next();
  }

  private async refuse(at: number): Promise<void> {
    const { session } = this;
    let number = 0;
    session.beforeAppend = () => {
      if (number++ >= at) throw new Error("ENOSPC: no space left on device, write");
    };
    await this.answering(session.pruner.flushNow(session.host, { compactAll: true }));
    session.beforeAppend = () => undefined;
  }

  private async request(): Promise<RenderedRequest> {
    const { session } = this;
    const request = await this.answering(session.request());
    this.requests.push(request);
    this.options.onRequest?.(request);
    this.expectNone([...checkValid(request), ...checkUnseenRaw(request)]);
    this.expectNone(checkPrefixStable(this.requests.slice(-2)));
    const { decision } = session.pruner.status(session.host) ?? {};
    if (decision) this.sight(`decision: ${decision.reason}`);
    return request;
  }

  private tick(): void {
    setSystemTime(new Date(this.clock + this.waited));
  }

  private sight(what: string): void {
    this.options.onSight?.(what);
  }

  private async check(): Promise<void> {
    const { session } = this;
    const request = await this.request();
    const state = session.state();
    this.expectNone([
      ...checkNothingGrows(request),
      ...checkRecoverable(request, state),
      ...checkDroppedRecoverable(request, state),
      ...checkArgumentsRecoverable(request, state),
    ]);
    const view = session.view();
    this.expectNone([...this.place.checkAnswers(), ...this.place.checkShown(view)]);
    const { enabled } = session.pruner.settings;
    if (!enabled && !isDeepStrictEqual(request.sent, request.raw)) this.fail("switched off, and yet not raw");
    const again = session.next();
    if (again.view() !== view) this.fail("another process renders otherwise", again, session);
    this.condensed = Math.max(this.condensed, state.indexer.refs().length);
  }

  private expectNone(violations: readonly string[]): void {
    if (violations.length > 0) this.fail(violations.join("\n"));
  }

  private fail(what: string, ...sessions: HostedSession[]): never {
    const views = sessions.map((session) => `\n${session.view()}`).join("");
    throw new WalkFailure(`${this.plan.shapes}, ${this.where}: ${what}${views}`);
  }
}

/** Everything that waits for nothing but its turn has had it. @param ms longer, for what waits for a timer */
async function settled(ms = 0): Promise<void> {
  for (let i = 0; i < 2; i++) await new Promise((resolve) => void setImmediate(resolve));
  if (ms > 0) await new Promise((resolve) => void setTimeout(resolve, ms));
}

function pickFrom<T>(values: readonly T[], pick: number): T | undefined {
  return values[pick % Math.max(1, values.length)];
}
