/** Whole sessions, step by step: turns, moves in the tree, forks, compactions, restarts, crashes, other settings. */
import { isDeepStrictEqual } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { AuthStorage, buildSessionContext, ModelRegistry } from "@mariozechner/pi-coding-agent";
import fc from "fast-check";
import { isAssistant, isToolResult } from "../../src/messages.js";
import { type Recovery, recover, sourcesOf } from "../../src/recovery.js";
import type { SettingValue } from "../../src/settings-rows.js";
import { deepFreeze } from "./generate.js";
import type { Host } from "./host-paths.js";
import {
  checkArgumentsRecoverable,
  checkDroppedRecoverable,
  checkNothingGrows,
  checkPrefixStable,
  checkRecoverable,
  checkUnseenRaw,
  checkValid,
} from "./invariants.js";
import { agentDirWith, EntryTree, type RenderedRequest, type Settings, SimulatedSession } from "./simulated-session.js";

/** One thing that happens to a session. `pick` chooses among what is there, modulo its number. */
export type Step =
  /** The next `count` messages of the conversation, with the requests between them. */
  | { kind: "play"; count: number }
  /** `/tree` to any entry, with a summary of the branch that is left or without. */
  | { kind: "move"; pick: number; summary: boolean }
  /** `/tree` to where the last move came from. */
  | { kind: "back" }
  /** `/fork`, which goes on in the new session. */
  | { kind: "fork"; pick: number }
  /** Back to the session that was forked, in a new process. */
  | { kind: "resume" }
  /** pi's own compaction, which keeps what stands behind the chosen message. */
  | { kind: "compact"; pick: number }
  /** Another process takes the session up. */
  | { kind: "reload" }
  /** The process dies within a flush, when so many entries have been written; another one takes the session up. */
  | { kind: "crash"; after: number }
  /** The disk refuses the entry with this number of a flush, and what comes after it in the same flush. */
  | { kind: "refuse"; at: number }
  /** Another setting. */
  | { kind: "settings"; pick: number }
  /** `/pruner now`, or `/pruner compact` with `all`. */
  | { kind: "flush"; all: boolean }
  /** `/pruner decompress` or `recompress` of a chain. */
  | { kind: "chain"; pick: number };

/** A session to be walked through. */
export interface Walk {
  settings: Settings;
  /** Whose messages they are; `newer-file` is a session of the newer host that the older one has opened. */
  shapes: Host | "newer-file";
  /** The conversation that `play` takes its messages from. */
  messages: AgentMessage[];
  steps: Step[];
}

/** Settings that a session may get on its way. */
const CHANGES: readonly Readonly<Record<string, SettingValue>>[] = [
  { minBatchChars: 0 },
  { pruneOn: "every-turn" },
  { pruneOn: "on-demand" },
  { batchingMode: "agent-message" },
  { dedupByContentHash: false },
  { dedupByContentHash: true },
  { "condenseArgs.enabled": false },
  { "condenseArgs.enabled": true, "condenseArgs.minStringChars": 150 },
  { "purgeErrors.cooldownTurns": 0, "purgeErrors.minArgChars": 100 },
  { "chainCompression.enabled": false },
  { "chainCompression.enabled": true, "chainCompression.rollingWindow": 0, "chainCompression.batchSize": 0 },
  { "chainCompression.stripFinalAssistantThinking": false },
  { protectedTools: ["bash"] },
  { protectedTools: [] },
  { "turnProtection.enabled": true, "turnProtection.turns": 1 },
  { protectTags: true },
  { recoveryGraceTurns: 0 },
  { enabled: false },
  { enabled: true },
];

export function walkArbitrary(
  conversation: fc.Arbitrary<AgentMessage[]>,
  settings: readonly Settings[],
  maxSteps = 10,
): fc.Arbitrary<Walk> {
  const pick = fc.nat(200);
  const step: fc.Arbitrary<Step> = fc.oneof(
    { withCrossShrink: true },
    { weight: 8, arbitrary: fc.record({ kind: fc.constant("play" as const), count: fc.integer({ min: 1, max: 30 }) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("move" as const), pick, summary: fc.boolean() }) },
    { weight: 2, arbitrary: fc.constant<Step>({ kind: "back" }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("fork" as const), pick }) },
    { weight: 1, arbitrary: fc.constant<Step>({ kind: "resume" }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("compact" as const), pick }) },
    { weight: 1, arbitrary: fc.constant<Step>({ kind: "reload" }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("crash" as const), after: fc.nat(8) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("refuse" as const), at: fc.nat(8) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("settings" as const), pick }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("flush" as const), all: fc.boolean() }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("chain" as const), pick }) },
  );
  const first = fc.record({ kind: fc.constant("play" as const), count: fc.integer({ min: 5, max: 40 }) });
  return fc.record({
    settings: fc.constantFrom(...settings),
    shapes: fc.constantFrom("old" as const, "new" as const, "newer-file" as const),
    messages: conversation,
    steps: fc
      .tuple(first, fc.array(step, { minLength: 1, maxLength: maxSteps }))
      .map(([start, rest]): Step[] => [start, ...rest]),
  });
}

/** What went wrong on a walk, by the step after which it was found. */
export class WalkFailure extends Error {}

/** Models that no walk asks. Made once, since it takes longer than a walk. */
const MODELS = ModelRegistry.inMemory(AuthStorage.inMemory());

/** A simulated session whose messages are the ones that the host makes of its entries. */
class HostedSession extends SimulatedSession {
  constructor(
    agentDir: string,
    tree: EntryTree,
    private readonly shapes: Walk["shapes"],
  ) {
    super(agentDir, tree, false, { models: MODELS });
  }

  override messages(): AgentMessage[] {
    const { messages } = buildSessionContext(this.tree.getEntries(), this.tree.getLeafId());
    // The newer host keeps its system messages from the handlers.
    return this.shapes === "new" ? messages.filter(({ role }) => String(role) !== "system") : messages;
  }

  override add(message: AgentMessage): void {
    if (message.role === "compactionSummary" || message.role === "branchSummary") return;
    if (message.role !== "custom") return void this.tree.appendMessage(message);
    const { customType, content, display } = message;
    // The host stamps the entry when it writes it, later than the message.
    this.tree.appendOther({ type: "custom_message", customType, content, display }, message.timestamp + 3);
  }

  next(tree = this.tree.reload()): HostedSession {
    return new HostedSession(this.agentDir, tree, this.shapes);
  }

  /** The render of the branch as it stands, without anything that a request would set going. */
  view(): string {
    return JSON.stringify(this.pruner.contextView(this.host)?.sent);
  }
}

/** What one session of a walk is remembered by. */
interface Place {
  session: HostedSession;
  /** What each ref has answered, by ref. */
  answers: Map<string, string[]>;
  /** What was shown at each leaf under each state of the settings. */
  shown: Map<string, string>;
  parent?: Place;
  left?: string;
}

/**
 * Walks through a session and checks every invariant after each step.
 * @param onRequest given every request that is made
 * @returns the number of calls that were condensed
 * @throws WalkFailure with what was violated
 */
export async function walk(
  plan: Walk,
  options: { sessionDir?: string; onRequest?: (request: RenderedRequest) => void } = {},
): Promise<number> {
  const walker = new Walker(plan, options);
  for (const [i, step] of plan.steps.entries()) await walker.take(step, `step ${i} (${JSON.stringify(step)})`);
  return walker.condensed;
}

class Walker {
  condensed = 0;
  private place: Place;
  private readonly queue: AgentMessage[];
  private readonly spills: boolean;
  private requests: RenderedRequest[] = [];
  private forks = 0;
  private clock = 0;
  private where = "";

  constructor(
    private readonly plan: Walk,
    private readonly options: { sessionDir?: string; onRequest?: (request: RenderedRequest) => void },
  ) {
    const agentDir = agentDirWith(plan.settings);
    this.spills = plan.settings.spillThreshold !== undefined;
    this.queue = shaped(plan.messages, plan.shapes);
    const session = new HostedSession(agentDir, new EntryTree(options.sessionDir), plan.shapes);
    this.place = { session, answers: new Map(), shown: new Map() };
  }

  private get session(): HostedSession {
    return this.place.session;
  }

  async take(step: Step, where: string): Promise<void> {
    this.where = where;
    const { place } = this;
    const noticesBefore = this.session.notices.length;
    const goesOn = step.kind === "play" || step.kind === "reload";
    if (!goesOn) this.requests = [];
    await this.run(step);
    await this.check();
    const notices = place === this.place ? this.session.notices.slice(noticesBefore) : this.session.notices;
    const allowed = step.kind === "refuse" ? 1 : 0;
    if (notices.length > allowed) this.fail(`${notices.length} notices: ${notices.join(" | ")}`);
  }

  private async run(step: Step): Promise<void> {
    const { session } = this;
    const { tree } = session;
    switch (step.kind) {
      case "play":
        return this.play(step.count);
      case "move": {
        const target = pickFrom(tree.getEntries(), step.pick);
        if (target) this.moveTo(target.id, step.summary);
        return;
      }
      case "back":
        if (this.place.left !== undefined) this.moveTo(this.place.left, false);
        return;
      case "fork": {
        const target = pickFrom(tree.getEntries(), step.pick);
        if (target) this.fork(target.id);
        return;
      }
      case "resume": {
        const { parent } = this.place;
        if (parent) this.place = { ...parent, session: parent.session.next() };
        return;
      }
      case "compact":
        return this.compact(step.pick);
      case "reload":
        this.place.session = session.next();
        return;
      case "crash":
        return this.crash(step.after);
      case "refuse":
        return this.refuse(step.at);
      case "settings": {
        const change = pickFrom(CHANGES, step.pick);
        if (change) session.pruner.changeSettings(session.host, change);
        return;
      }
      case "flush":
        await session.pruner.flushNow(session.host, { compactAll: step.all });
        return;
      case "chain": {
        const chain = pickFrom(session.pruner.chains() ?? [], step.pick);
        if (chain) session.pruner.setChainActive(chain.blockId, !chain.active);
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
      if (isAssistant(message)) await this.request();
      session.add(message);
      this.clock = message.timestamp;
      const next = messages[i + 1];
      const turnEnds = (isAssistant(message) || isToolResult(message)) && !(next && isToolResult(next));
      if (turnEnds) await session.pruner.turnEnded(session.host);
    }
  }

  private moveTo(id: string, summary: boolean): void {
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

  private fork(id: string): void {
    const { session } = this;
    this.forks += 1;
    const forked = session.next(session.tree.fork(id, `fork${this.forks}`));
    session.tree.moveTo(id);
    session.pruner.treeMoved();
    if (forked.view() !== session.view()) this.fail("the fork renders otherwise than its parent", forked, session);
    const answers = new Map(
      [...this.place.answers].filter(([ref]) => isFound(recover(ref, sourcesOf(forked.state())))),
    );
    this.place = { session: forked, answers, shown: new Map(), parent: this.place };
  }

  private async compact(pick: number): Promise<void> {
    const { session } = this;
    const { tree } = session;
    const branch = tree.branch();
    const cuts = branch.filter((entry) => entry.type === "message" && !isToolResult(entry.message));
    const first = pickFrom(cuts, pick);
    if (!first) return;
    const old = branch.slice(0, branch.indexOf(first));
    const messagesToSummarize = old.flatMap((entry) => (entry.type === "message" ? [entry.message] : []));
    const preparation = { messagesToSummarize, turnPrefixMessages: [] };
    await session.pruner.beforeCompaction(session.host, preparation);
    const epoch = 0;
    // What is summarised has been seen to its end, and is no request.
    const summarised = { raw: messagesToSummarize, sent: preparation.messagesToSummarize, epoch };
    this.expectNone([...checkRecoverable(summarised, session.state()), ...checkNothingGrows(summarised)]);
    const entry = { type: "compaction" as const, summary: "## Goal", firstKeptEntryId: first.id, tokensBefore: 9_000 };
    tree.appendOther(entry, this.clock + 1);
  }

  /** As a kill does: nothing is written from some entry on, and nothing of the process is left. */
  private async crash(after: number): Promise<void> {
    const { session } = this;
    let left = after;
    session.beforeAppend = () => {
      if (left-- <= 0) throw new Error("killed");
    };
    await session.pruner.flushNow(session.host, { compactAll: true });
    this.place.session = session.next();
  }

  private async refuse(at: number): Promise<void> {
    const { session } = this;
    let number = 0;
    session.beforeAppend = () => {
      if (number++ >= at) throw new Error("ENOSPC: no space left on device, write");
    };
    await session.pruner.flushNow(session.host, { compactAll: true });
    session.beforeAppend = () => undefined;
  }

  private async request(): Promise<RenderedRequest> {
    const request = await this.session.request();
    this.requests.push(request);
    this.options.onRequest?.(request);
    this.expectNone([...checkValid(request), ...this.unseen(request)]);
    this.expectNone(checkPrefixStable(this.requests.slice(-2)));
    return request;
  }

  /** A spilled result does not wait for an answer. */
  private unseen(request: RenderedRequest): string[] {
    return this.spills ? [] : checkUnseenRaw(request);
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
    this.checkAnswers();
    this.checkShown();
    const { enabled } = session.pruner.settings;
    if (!enabled && !isDeepStrictEqual(request.sent, request.raw)) this.fail("switched off, and yet not raw");
    const again = session.next();
    if (again.view() !== session.view()) this.fail("another process renders otherwise", again, session);
    this.condensed = Math.max(this.condensed, state.indexer.refs().length);
  }

  /** A ref that was given once answers for ever, with the same content. */
  private checkAnswers(): void {
    const { answers, session } = this.place;
    const sources = sourcesOf(session.state());
    const blocks = [...session.state().indexer.chains().keys()];
    for (const name of new Set([...answers.keys(), ...session.state().indexer.refs(), ...blocks])) {
      const recovery = recover(name, sources);
      if (recovery.kind !== "found") {
        this.fail(`${name} has no answer: ${recovery.message}`);
        continue;
      }
      const given = recovery.outputs.map(({ text, images, args, note }) =>
        JSON.stringify({ text, images, args, note }),
      );
      const lost = (answers.get(name) ?? []).filter((before) => !given.includes(before));
      if (lost.length > 0) this.fail(`${name} answered otherwise before: ${lost[0]?.slice(0, 300)}`);
      answers.set(name, given);
    }
  }

  private checkShown(): void {
    const { shown, session } = this.place;
    const key = `${session.tree.getLeafId()} ${JSON.stringify(session.pruner.settings)}`;
    const view = session.view();
    const before = shown.get(key);
    if (before !== undefined && before !== view) this.fail(`another render than before:\n${before}\n${view}`);
    shown.set(key, view);
  }

  private expectNone(violations: readonly string[]): void {
    if (violations.length > 0) this.fail(violations.join("\n"));
  }

  private fail(what: string, ...sessions: HostedSession[]): never {
    const views = sessions.map((session) => `\n${session.view()}`).join("");
    throw new WalkFailure(`${this.plan.shapes}, ${this.where}: ${what}${views}`);
  }
}

function isFound(recovery: Recovery): boolean {
  return recovery.kind === "found";
}

function pickFrom<T>(values: readonly T[], pick: number): T | undefined {
  return values[pick % Math.max(1, values.length)];
}

/** The messages as a host writes them. */
function shaped(messages: readonly AgentMessage[], shapes: Walk["shapes"]): AgentMessage[] {
  if (shapes === "old") return [...messages];
  return messages.flatMap((message, i): AgentMessage[] => {
    if (message.role === "user" && i % 3 === 0) return [systemMessage(message.timestamp), message];
    if (isAssistant(message)) return [deepFreeze({ ...message, durationMs: 1_200, thinkingLevel: "medium" })];
    if (!isToolResult(message)) return [message];
    const nestedCalls = {
      calls: [{ id: `${message.toolCallId}/1`, name: "bash", arguments: { command: "ls" }, status: "ok" as const }],
      complete: true,
    };
    return [deepFreeze({ ...message, durationMs: 7, ...(i % 4 === 0 ? { nestedCalls } : {}) })];
  });
}

/** The newer host keeps prompt and tools as messages of a role that the older one's types do not know. */
function systemMessage(timestamp: number): AgentMessage {
  const sections = { identity: "You are pi, a coding agent.", date: "Friday" };
  const message: unknown = { role: "system", content: "", sections, toolsAdded: [{ name: "read" }], timestamp };
  return deepFreeze(message as AgentMessage);
}
