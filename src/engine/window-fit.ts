/** What is done where the context, or what the host is about to summarise, does not fit the model's window. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { type CompactionAnnouncement, CompactionWatch, reserveOf } from "../cost/compaction.ts";
import { fitsWindow } from "../transcript/tokens.ts";
import type { Environment, Moment } from "./environment.ts";
import type { FlushRunner } from "./flush-runner.ts";
import type { FlushScope } from "./flush-scope.ts";
import type { SessionState } from "./session-state.ts";

/** Milliseconds that a running flush is given, and then its end, before space is made without it. */
const SPACE_WAIT_MS = 10_000;
const CANCEL_WAIT_MS = 2_000;

/** The lists of messages that the host is about to summarise. */
export interface CompactionLists {
  messagesToSummarize: AgentMessage[];
  turnPrefixMessages: AgentMessage[];
}

/** What the fit is worked out with, beside the events. */
export interface WindowFitParts {
  environment: Environment;
  state: SessionState;
  scope: FlushScope;
  flushes: FlushRunner;
  /** `messages` as a request would carry them. @param allSeen the model has seen them to their end */
  render(messages: readonly AgentMessage[], allSeen?: boolean): AgentMessage[];
}

/** Follows one session. */
export class WindowFit {
  private readonly compactions = new CompactionWatch();
  /** Window (tokens) that the context was last found to fit into. */
  private fittedWindow: number | undefined;

  constructor(private readonly parts: WindowFitParts) {}

  /** Compactions of the host that were cancelled. */
  get avertedCompactions(): number {
    return this.compactions.averted;
  }

  /** The host looks at the size of the context: a run has ended or a prompt has come. */
  hostLooks(): void {
    this.compactions.hostLooks(this.parts.environment.clock.now());
  }

  /**
   * A model with a smaller window, or a session taken up with one: what does not fit is condensed before it is sent.
   * @param rendered gives the request as it stands
   */
  async fitIntoWindow(
    moment: Moment,
    messages: readonly AgentMessage[],
    rendered: () => readonly AgentMessage[],
  ): Promise<void> {
    const window = moment.model?.contextWindow;
    if (window === undefined || window === this.fittedWindow) return;
    const isSmaller = this.fittedWindow === undefined || window < this.fittedWindow;
    if (isSmaller && !fits(moment, rendered())) {
      await this.freeSpace(moment, this.parts.scope.ownMessages(messages));
      if (!fits(moment, rendered())) {
        const text = `pruner: the context is larger than the model's window of ${window} tokens. Use /compact.`;
        this.parts.environment.tell({ text, type: "warning", once: true });
        return;
      }
    }
    this.fittedWindow = window;
  }

  /** Replaces the lists by what was sent of them, condensing first where even that would not fit the window. */
  async prepareCompaction(moment: Moment, lists: CompactionLists): Promise<void> {
    const { render } = this.parts;
    const { messagesToSummarize, turnPrefixMessages } = lists;
    const isSmall = (list: AgentMessage[]) => fits(moment, render(list, true));
    if (!isSmall(messagesToSummarize) || !isSmall(turnPrefixMessages)) await this.freeSpace(moment);
    lists.messagesToSummarize = render(messagesToSummarize, true);
    lists.turnPrefixMessages = render(turnPrefixMessages, true);
  }

  /**
   * Whether the compaction that the host announces for the size of the context can be cancelled, since what would be sent
   * fits, if need be once all that can be condensed is.
   */
  async avertsCompaction(moment: Moment, announcement: CompactionAnnouncement, systemPrompt: string): Promise<boolean> {
    const { state, environment, render } = this.parts;
    const window = moment.model?.contextWindow;
    const messages = state.messages();
    const reason = this.compactions.reasonOf(announcement, { messages, window, now: environment.clock.now() });
    if (reason !== "threshold") return false;
    const reserveTokens = reserveOf(announcement.preparation);
    const isNeedless = () => {
      const rendered = render(messages);
      return this.compactions.isNeedless({ reason, messages, rendered, systemPrompt, window, reserveTokens });
    };
    if (!isNeedless()) {
      await this.freeSpace(moment, messages);
      if (!isNeedless()) return false;
    }
    this.compactions.avert(environment.clock.now());
    return true;
  }

  /** Condenses all that has been seen with the digest, every closed chain too: a model would take too long now. */
  private async freeSpace(moment: Moment, messages = this.parts.state.messages()): Promise<void> {
    const { environment, scope, flushes } = this.parts;
    await flushes.settle(SPACE_WAIT_MS, moment.signal);
    if (flushes.running && !moment.signal?.aborted) {
      flushes.cancel();
      await flushes.settle(CANCEL_WAIT_MS, moment.signal);
    }
    if (flushes.running || flushes.isClosed) return;
    const settings = environment.settings();
    const chainCompression = { ...settings.chainCompression, rollingWindow: 0 };
    await flushes.start({
      ...scope.workIn(moment, messages, messages, Number.POSITIVE_INFINITY),
      summarizer: { kind: "digest" },
      config: { ...settings, chainCompression },
      isProtected: scope.protection(moment),
      compactAll: true,
    });
  }
}

function fits({ model }: Moment, messages: readonly AgentMessage[]): boolean {
  return fitsWindow(messages, model?.contextWindow);
}
