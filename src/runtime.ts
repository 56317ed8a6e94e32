/** The handlers that drive one session after the other, and what commands ask of the session that is on. */
import { isDeepStrictEqual } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { Protection } from "./capture/protection.ts";
import { DEFAULT_CONFIG } from "./config.ts";
import type { CompactionAnnouncement } from "./cost/compaction.ts";
import type { CondensingDecision } from "./cost/decision.ts";
import type { NamedResult } from "./engine/choices.ts";
import type { FlushRequest } from "./engine/flush-runner.ts";
import type { ChainListing, SessionView } from "./engine/session-state.ts";
import type { CompactionLists } from "./engine/window-fit.ts";
import type { FlushReport } from "./flush.ts";
import { HostSession } from "./host/environment.ts";
import type { HostOutlet, HostSnapshot } from "./host/host.ts";
import { Notices } from "./host/notices.ts";
import { isUnused, loadSettings, saveSettings } from "./host/settings-file.ts";
import type { Bill } from "./money/bill.ts";
import { SessionFigures } from "./money/figures.ts";
import { modelFacts } from "./money/prices.ts";
import { type CallSizes, type ContextSizes, rawSizes, type Sizes } from "./money/sizes.ts";
import { applyRender } from "./pruner.ts";
import { QUERY_TOOL_DESCRIPTION } from "./query-tool.ts";
import { markerRefs } from "./render/arguments.ts";
import { capImages, imageLimits, sizeRefusals } from "./render/images.ts";
import type { RenderPlan } from "./render/plan.ts";
import { SessionEngine } from "./session-engine.ts";
import type { SettingValue } from "./settings/rows.ts";
import { lastAnswerIndex, resultOf } from "./transcript/messages.ts";
import {
  type ChainCompressionEntry,
  type ContextPruneConfig,
  QUERY_TOOL_NAME,
  type ResultChoice,
  type StatsEntryData,
} from "./types.ts";

export type { ChainListing, NamedResult };

/** Raw results that are listed to be chosen from. */
const MAX_LISTED = 15;

/** Milliseconds that the end of a session waits for a flush in flight; then the flush is given up, nothing lost. */
export const SHUTDOWN_WAIT_MS = 10_000;

const NAME_TAKEN = `another extension provides the tool ${QUERY_TOOL_NAME}, so no condensed output could be asked back. Nothing is condensed.`;

/** Milliseconds that the start of a session waits for another process that writes settings. */
const INTRODUCTION_WAIT_MS = 200;

const INTRODUCTION =
  "pi-condense shortens finished tool output in the requests to the model. The model can get every original back. /pruner off turns it off.";
/** What the summaries cost, by `summarizerModel`. */
const SUMMARIES_COST: Readonly<Record<string, string>> = {
  none: "It calls no model.",
  auto: "Summaries are made without a model, or by paid calls of the session's model where those cost a small part of what they save; /pruner model none rules them out.",
};
const SUMMARIES_PAID = "The summaries are paid calls of the model that you chose: /pruner model none makes them free.";

const TOOL_INACTIVE = `the model is not given the tool ${QUERY_TOOL_NAME} now, so nothing new is condensed. What is condensed stays; /pruner off sends it raw.`;

/** What `/pruner status` shows. */
export interface PrunerStatus {
  config: ContextPruneConfig;
  pendingCalls: number;
  /** Results that the model has not answered yet. */
  unseenResults: number;
  condensedCalls: number;
  repeats: number;
  /** Compressed chains that take effect. */
  chains: number;
  /** The conversation and what of it is condensed, and of what is pending its results. Estimated tokens. */
  sizes: ContextSizes;
  pendingTokens: number;
  stats: Readonly<StatsEntryData>;
  flushing: boolean;
  /** Compactions of the host that were cancelled, since the context fitted as it is sent. */
  averted: number;
  /** Why the last flush of `cache-aware` was made or not. */
  decision?: CondensingDecision;
}

/** What a request would carry, beside what it is made from. */
export interface ContextView {
  raw: readonly AgentMessage[];
  sent: readonly AgentMessage[];
  plan: RenderPlan;
  isProtected: Protection;
}

/** The extension. No handler throws: trouble leaves the raw context, one notice and one diagnostic entry. */
export class Pruner {
  private config: ContextPruneConfig = DEFAULT_CONFIG;
  /** What of the settings was said by model, and the model that they were read for. */
  private byModel: { model: string | undefined; patterns: ReadonlyMap<string, string> } | undefined;
  private active: { engine: SessionEngine; session: HostSession; figures: SessionFigures } | undefined;
  private readonly notices = new Notices();
  /** The tool that answers for refs is this extension's; unknown until it is first asked in a session. */
  private ownsQueryTool: boolean | undefined;

  /** @param onChange told when a flush begins or ends and when settings change; must not throw */
  constructor(
    private readonly outlet: HostOutlet,
    private readonly onChange: () => void = () => undefined,
  ) {}

  /** Takes up the session of `host`: settings, entries, nothing of the session before. */
  startSession(host: HostSnapshot): void {
    this.active?.engine.close();
    this.active = undefined;
    this.ownsQueryTool = undefined;
    this.notices.reset();
    try {
      const told = this.load(host);
      if (told.length > 0) this.notices.tell(host, told.join("\n"), "warning");
      this.introduce(host);
      const session: HostSession = new HostSession(host, {
        outlet: this.outlet,
        notices: this.notices,
        settings: () => this.config,
        onChange: () => {
          if (this.active?.session === session) this.onChange();
        },
        onError: (error) => {
          if (this.active?.session === session) this.report(host, "flush", error);
        },
      });
      const engine = new SessionEngine(session.environment);
      this.active = { session, engine, figures: this.figuresOf(engine, host) };
    } catch (error) {
      this.report(host, "session_start", error);
    }
  }

  /** The leaf has moved to another path. */
  treeMoved(): void {
    this.active?.engine.treeMoved();
  }

  /** Waits for a flush in flight, within bounds, and lets nothing come after. */
  async endSession(): Promise<void> {
    const { active } = this;
    if (!active) return;
    try {
      await active.engine.end(SHUTDOWN_WAIT_MS);
    } catch {
      // The host has let go of the session: the figures of calls that no flush has taken are lost with them.
    }
    this.active = undefined;
  }

  /** A turn has ended: spills what is oversized, flushes where a trigger or the size of the context calls for it. */
  async turnEnded(host: HostSnapshot): Promise<void> {
    const { active } = this;
    if (!active || !this.mayCondense(host) || !this.modelHasTool()) return;
    await this.guard(host, "turn_end", () => active.engine.turnEnded(active.session.moment(host)));
  }

  /**
   * The messages of a request are about to leave. Contents are set in place; an array is given only where messages have
   * to go. What must hold for the request is seen to here, since on the older host the branch and the other events may
   * lag behind.
   */
  async renderRequest(host: HostSnapshot, messages: AgentMessage[]): Promise<AgentMessage[] | undefined> {
    const { active } = this;
    if (!active || !this.mayCondense(host)) {
      return applyRender(messages, capImages(messages, imageLimits({ ...this.config, enabled: false }, host.model)));
    }
    return this.guard(host, "context", async () => {
      const { engine, session } = active;
      const sent = this.modelHasTool()
        ? await engine.requestLeaves(session.moment(host), messages)
        : engine.renderAsItStands(session.moment(host), messages);
      if (this.active !== active || !this.config.enabled) return undefined;
      const refusals = () => sizeRefusals(engine.view().branch.entries);
      return applyRender(messages, capImages(sent, imageLimits(this.config, host.model), refusals));
    });
  }

  /** A run has ended or a prompt has come: the older host looks at the size of the context behind that, and says no more. */
  hostLooks(): void {
    this.active?.engine.hostLooks();
  }

  /**
   * The host is about to summarise old messages by itself. What it wants for the size of the context alone is cancelled
   * where the context fits as it is sent. Otherwise it is given the messages as they were sent, since their raw form may
   * be several times the window. The elements of its lists are the session's own and are replaced, never changed.
   */
  async beforeCompaction(
    host: HostSnapshot,
    announcement: CompactionAnnouncement & { preparation: CompactionLists },
  ): Promise<{ cancel: true } | undefined> {
    const { active } = this;
    if (!active || !this.mayCondense(host) || !this.modelHasTool()) return undefined;
    return this.guard(host, "session_before_compact", async () => {
      const { engine, session } = active;
      const moment = session.moment(host);
      const systemPrompt = host.systemPrompt?.() ?? "";
      if (await engine.avertsCompaction(moment, announcement, systemPrompt)) return { cancel: true as const };
      await engine.prepareCompaction(moment, announcement.preparation);
      return undefined;
    });
  }

  /** Why a tool call must not run: a marker that stands for a long argument would end up in a user's file. */
  refuseCall(input: unknown): string | undefined {
    const { active } = this;
    const refs = active ? markerRefs(input) : [];
    const known = refs.length > 0 ? refs.filter((ref) => active?.engine.view().indexer.resolve(ref).length) : refs;
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
    options: Pick<FlushRequest, "compactAll" | "guide" | "onProgress"> = {},
  ): Promise<FlushReport | undefined> {
    if (!this.active || this.obstacle(host) !== undefined) return undefined;
    return this.active.engine.flushNow(this.active.session.moment(host), options);
  }

  /** Why nothing is condensed although the pruner is on; `undefined` where nothing stands in the way. */
  obstacle(host: HostSnapshot): string | undefined {
    const { active } = this;
    if (!active || !this.config.enabled) return undefined;
    if (!this.mayCondense(host)) return NAME_TAKEN;
    return this.modelHasTool() ? undefined : TOOL_INACTIVE;
  }

  /** Ends the flush that is running; what was finished is kept. */
  cancelFlush(): void {
    this.active?.engine.cancelFlush();
  }

  /** The session as it stands now. */
  currentState(): SessionView | undefined {
    return this.active?.engine.view();
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
    this.load(host);
    this.active?.engine.forgive(this.active.session.moment(host));
    this.onChange();
  }

  /** What is condensed and what waits, in estimated tokens; cheap enough to be asked after every turn. */
  summary(): { condensed: Sizes; waiting: number; hasReplies: boolean; flushing: boolean } | undefined {
    const { active } = this;
    if (!active) return undefined;
    const { figures, engine } = active;
    const hasReplies = lastAnswerIndex(engine.view().messages()) >= 0;
    return { condensed: figures.condensed(), waiting: figures.waiting(), hasReplies, flushing: engine.isFlushing };
  }

  /** The conversation of the branch as it stands and as a request would carry it now. */
  contextView(host: HostSnapshot): ContextView | undefined {
    const { active } = this;
    if (!active) return undefined;
    const view = active.engine.view();
    const raw = view.messages();
    const sent = this.mayCondense(host) ? active.engine.render(raw) : raw;
    return { raw, sent, plan: view.plan(this.config), isProtected: active.engine.work.protection(host) };
  }

  /** What has become of each call and of these chains, in estimated tokens. */
  callSizes(chains: readonly ChainCompressionEntry[]): CallSizes | undefined {
    return this.active?.figures.callSizes(chains);
  }

  /** What the session was billed so far, and what it would have been raw; `undefined` where its entries do not tell. */
  bill(): Readonly<Bill> | undefined {
    try {
      return this.active?.figures.bill();
    } catch {
      // Figures of a file that something else has written are not worth the rest of the status.
      return undefined;
    }
  }

  status(host: HostSnapshot): PrunerStatus | undefined {
    const { active } = this;
    if (!active) return undefined;
    const view = active.engine.view();
    const { calls, duplicates, chains } = view.indexer.committed();
    const messages = view.messages();
    const { pending } = active.engine.work.workIn(active.session.moment(host), messages);
    const pendingCalls = pending.flatMap((batch) => batch.toolCalls);
    const { figures } = active;
    return {
      config: this.config,
      pendingCalls: pendingCalls.length,
      pendingTokens: figures.waiting(),
      unseenResults: messages.slice(lastAnswerIndex(messages) + 1).filter(resultOf).length,
      condensedCalls: calls.size,
      repeats: duplicates.size,
      chains: [...chains.values()].filter((chain) => chain.active !== false).length,
      sizes: this.mayCondense(host) ? figures.sizes() : rawSizes(figures.sizes()),
      stats: view.stats.current,
      flushing: active.engine.isFlushing,
      averted: active.engine.avertedCompactions,
      decision: active.engine.decision,
    };
  }

  /** The chains of the current branch, oldest first. */
  chains(): ChainListing[] | undefined {
    return this.currentState()?.chainListings();
  }

  /** Takes a chain out of the render, or back into it; every other message stays as it is. */
  setChainActive(blockId: string, isActive: boolean): void {
    const chain = this.currentState()?.indexer.chains().get(blockId);
    if (chain) this.active?.engine.setChainActive(chain, isActive);
  }

  /** The newest results that stand raw, and all that are kept or dropped; `undefined` without a session. */
  results(): NamedResult[] | undefined {
    return this.active?.engine.results(MAX_LISTED);
  }

  /** Keeps or drops the results that `name` names, or undoes both; gives them as they stood before. */
  chooseResult(name: string, choice: ResultChoice | null): NamedResult[] {
    return this.active?.engine.choose(name, choice) ?? [];
  }

  /** The models that a setting was said for, where it holds for the session's model alone. */
  modelsOf(key: string): string | undefined {
    return this.byModel?.patterns.get(key);
  }

  /** Says once on a machine what is at work; the settings remember it, so that nothing is said where they cannot be written. */
  private introduce(host: HostSnapshot): void {
    if (!host.ui || !this.config.enabled) return;
    try {
      if (!isUnused(host)) return;
      saveSettings({ agentDir: host.agentDir, values: { enabled: true }, lockWaitMs: INTRODUCTION_WAIT_MS });
    } catch {
      return;
    }
    const cost = SUMMARIES_COST[this.config.summarizerModel] ?? SUMMARIES_PAID;
    this.notices.tell(host, `${INTRODUCTION} ${cost}`, "info");
  }

  /** Reads the settings; gives what is wrong with them. */
  private load(host: HostSnapshot): string[] {
    const { config, warnings, byModel, projectNotices = [] } = loadSettings(host);
    this.config = config;
    this.byModel = byModel && { model: modelName(host), patterns: byModel };
    return [...warnings, ...projectNotices];
  }

  /** Other settings may hold for another model. */
  private followModel(host: HostSnapshot): void {
    if (!this.byModel || this.byModel.model === modelName(host)) return;
    const before = this.config;
    this.load(host);
    // The same object as long as nothing differs: much is worked out once for each.
    if (isDeepStrictEqual(before, this.config)) this.config = before;
    else this.onChange();
  }

  private figuresOf(engine: SessionEngine, { cwd, models }: HostSnapshot): SessionFigures {
    const moment = { cwd, model: undefined };
    return new SessionFigures({
      ...modelFacts(models, process.env.PI_CACHE_RETENTION),
      view: () => engine.view(),
      config: () => this.config,
      pending: () => engine.work.workIn(moment, engine.view().messages()).pending,
      isExempt: (call) => engine.work.isExempt(moment, call),
    });
  }

  /** Whether anything is condensed: not where it is switched off, nor where another extension answers for our refs. */
  private mayCondense(host: HostSnapshot): boolean {
    this.followModel(host);
    if (!this.config.enabled) return false;
    this.ownsQueryTool ??= this.outlet.toolDescription(QUERY_TOOL_NAME) === QUERY_TOOL_DESCRIPTION;
    if (!this.ownsQueryTool) this.notices.once(host, `pruner: ${NAME_TAKEN}`);
    return this.ownsQueryTool;
  }

  /** Without the tool the model could ask nothing back that is condensed from now on. */
  private modelHasTool(): boolean {
    try {
      return this.outlet.hasActiveTool(QUERY_TOOL_NAME);
    } catch {
      // The session has been replaced: there is nothing left to condense.
      return false;
    }
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
      this.notices.once(host, `pruner: ${detail}. The context goes out as it is.`);
      this.active?.engine.recordDiagnostic({ kind: "error", detail });
    } catch {
      // A disk that refuses the entry, or a context gone stale: the notice was all that could be done.
    }
  }
}

function modelName({ model }: Pick<HostSnapshot, "model">): string | undefined {
  return model && `${model.provider}/${model.id}`;
}
