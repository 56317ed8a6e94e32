/** The figures of the session that is on: what it takes now, what waits, what it was billed. Kept up step by step. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { RenderMemo } from "../engine/render-memo.ts";
import type { SessionView } from "../engine/session-state.ts";
import type { RenderPlan } from "../render/plan.ts";
import { isAssistant, lastAnswerIndex, resultOf } from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { contentTokens } from "../transcript/tokens.ts";
import type { CapturedBatch, CapturedToolCall, ChainCompressionEntry, ContextPruneConfig } from "../types.ts";
import type { Bill } from "./bill.ts";
import { Reckoner, type ReckonerOptions } from "./reckoner.ts";
import { type CallSizes, type ContextSizes, callSizes, contextSizes, type Sizes, TokenBook } from "./sizes.ts";

/** What the figures are taken from. */
export interface FigureSources extends Pick<ReckonerOptions, "costOfModel" | "windowOf" | "lifetimeMs"> {
  view(): SessionView;
  config(): ContextPruneConfig;
  /** What a flush could take now. */
  pending(): readonly CapturedBatch[];
  /** Output of this call is never condensed. */
  isExempt(call: Pick<CapturedToolCall, "toolName" | "args">): boolean;
}

/** Figures that were true for a plan and the beginning of a conversation, and go on from there. */
interface Epoch {
  plan: RenderPlan;
  config: ContextPruneConfig;
  /** Messages that have been looked at, and the last of them. */
  scanned: number;
  last: AgentMessage | undefined;
}

/** One session. */
export class SessionFigures {
  private readonly book = new TokenBook();
  private readonly memo = new RenderMemo();
  private reckoner: Reckoner | undefined;
  private condensedIn: (Epoch & { sizes: Sizes }) | undefined;
  private waitingIn: (Epoch & { tokens: number }) | undefined;

  constructor(private readonly sources: FigureSources) {}

  /** Tokens of what is condensed, raw and as it is sent: looked at once a flush. */
  condensed(): Sizes {
    const now = this.now();
    if (this.condensedIn && goesOn(this.condensedIn, now)) return this.condensedIn.sizes;
    const { messages, plan } = now;
    const isEmpty = plan.isEmpty && plan.chains.length === 0;
    const sent = isEmpty ? messages : this.memo.render([...messages], plan);
    const sizes = isEmpty ? { before: 0, after: 0 } : contextSizes(messages, sent, this.book).condensed;
    this.condensedIn = { ...epochOf(now, messages.length), sizes };
    return sizes;
  }

  /** Tokens of finished results that wait to be condensed: of a long session only what has been added is looked at. */
  waiting(): number {
    const now = this.now();
    const { messages, config } = now;
    const answered = lastAnswerIndex(messages) + 1;
    const known = this.waitingIn;
    if (!known || config.turnProtection.enabled || !goesOn(known, now) || answered < known.scanned) {
      const calls = this.sources.pending().flatMap(({ toolCalls }) => toolCalls);
      const tokens = calls.reduce((sum, { content }) => sum + contentTokens(content), 0);
      this.waitingIn = { ...epochOf(now, answered), tokens };
    } else if (answered > known.scanned) {
      const tokens = known.tokens + this.resultsIn(messages, known.scanned, answered);
      this.waitingIn = { ...epochOf(now, answered), tokens };
    }
    return this.waitingIn?.tokens ?? 0;
  }

  /** The whole conversation, and what of it is condensed. */
  sizes(): ContextSizes {
    const before = this.book.sum(this.sources.view().messages());
    const condensed = this.condensed();
    return { whole: { before, after: before - condensed.before + condensed.after }, condensed };
  }

  /** What has become of each call and of these chains. */
  callSizes(chains: readonly ChainCompressionEntry[]): CallSizes {
    const { messages, plan } = this.now();
    const sent = this.memo.render([...messages], plan);
    const spans = chains.map(({ blockId, startUserTimestamp: from, finalAssistantTimestamp: to }) => ({
      blockId,
      from,
      to,
    }));
    return callSizes(messages, sent, spans, this.book);
  }

  /** What was billed so far. */
  bill(): Readonly<Bill> {
    const { sources } = this;
    const { reader } = sources.view();
    this.reckoner ??= new Reckoner({ ...sources, reader });
    return this.reckoner.follow(reader.getEntries());
  }

  private now() {
    const view = this.sources.view();
    const config = this.sources.config();
    return { messages: view.messages(), plan: view.plan(config), config };
  }

  /** Results between two replies, the first of which may have asked for them. */
  private resultsIn(messages: readonly AgentMessage[], from: number, to: number): number {
    const pairing = new CallPairing();
    let tokens = 0;
    for (let i = Math.max(0, from - 1); i < to; i++) {
      const message = messages[i];
      if (!message) continue;
      if (isAssistant(message)) pairing.open(message);
      const result = resultOf(message);
      if (!result) continue;
      const args = pairing.argumentsFor(message);
      const isPending = args && !this.sources.isExempt({ toolName: result.toolName, args });
      if (isPending) tokens += contentTokens(result.content);
    }
    return tokens;
  }
}

interface Now {
  messages: readonly AgentMessage[];
  plan: RenderPlan;
  config: ContextPruneConfig;
}

function epochOf({ messages, plan, config }: Now, scanned: number): Epoch {
  return { plan, config, scanned, last: messages[scanned - 1] };
}

function goesOn({ plan, config, scanned, last }: Epoch, now: Now): boolean {
  return plan === now.plan && config === now.config && now.messages[scanned - 1] === last;
}
