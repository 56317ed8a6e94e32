/** What a session engine is given by whoever runs it: the live host, a replay, a test. */
import type { ContextUsage } from "@mariozechner/pi-coding-agent";
import type { CachePolicy, Rates } from "../cost/prices.ts";
import type { AppendEntry } from "../indexer.ts";
import type { SessionReader } from "../session/branch.ts";
import type { BatchSummary, SummarizerCall } from "../summarizer.ts";
import type { CapturedBatch, ContextPruneConfig, FlushReason, StatsEntryData } from "../types.ts";

/** Time as the session has it. */
export interface Clock {
  /** ms since the epoch. */
  now(): number;
  /** A signal that is aborted after `ms`. */
  after(ms: number): AbortSignal;
}

export const SYSTEM_CLOCK: Clock = { now: () => Date.now(), after: (ms) => AbortSignal.timeout(ms) };

/** What holds for a whole session. */
export interface Environment {
  reader: SessionReader;
  /** Appends a custom entry. Throws where the session is gone. */
  append: AppendEntry;
  clock: Clock;
  /** The settings as they are now: another object after each change. */
  settings(): ContextPruneConfig;
  /** Tells the person something, each time or once a session. */
  tell(notice: Notice): void;
  /** A call of the summariser has been paid for. */
  onPaid(call: SummarizerCall, total: Readonly<StatsEntryData>): void;
  /** A flush has begun or ended. */
  onChange(): void;
  /** A flush has changed what the next request carries. @param decision why it was made, where its price decided */
  onCommit(decision: FlushReason | undefined): void;
  /** An error that should not have been. */
  onError(error: unknown): void;
}

/** A sentence for the person. */
export interface Notice {
  text: string;
  type: "info" | "warning";
  once?: boolean;
}

/** What is known at the moment of an event. */
export interface Moment {
  /** Folder that relative paths start from. */
  cwd: string;
  /** Size of the context as the host counts it; to be asked before the first `await`. */
  usage(): ContextUsage | undefined;
  model: SessionModel | undefined;
  /** Ends when the person ends the run. */
  signal?: AbortSignal;
  /** The summariser that the settings name. */
  summarizer(config: ContextPruneConfig): Summarizer;
}

/** The session's model, as far as decisions rest on it. */
export interface SessionModel {
  /** `provider/id`. */
  name: string;
  /** Tokens. */
  contextWindow: number;
  /** Thinking is lost where something before it changes. */
  bindsThinking?: boolean;
  cache: CachePolicy;
  /** Prices of a prompt of so many tokens. */
  rates(promptTokens: number): Rates;
}

/** Makes summaries. */
export type Summarizer =
  | { kind: "digest" }
  /** None of the settings' choice can be asked, and why. */
  | { kind: "missing"; reason: string }
  | ModelSummarizer;

export interface ModelSummarizer {
  kind: "model";
  /** Nobody has chosen it: it is asked only where it takes little of what it helps to save, and a digest does elsewhere. */
  isOptional: boolean;
  /** Share of an output's tokens that its summary is expected to have, 0 to 1. */
  summaryShare: number;
  /** Price of a call that takes so many tokens, in the currency of the session model's prices. */
  priceOf(tokens: SummarizerTokens): number;
  /** Some model would be asked now. */
  isAvailable(): boolean;
  /** A flush begins: models that were down may be tried once in it. */
  flushBegins(): void;
  /** Models that were given up get another chance. */
  forgive(): void;
  /** Never rejects; `null` after any trouble. */
  summarize(batch: CapturedBatch, options: SummaryOptions): Promise<BatchSummary | null>;
  /** One text for several summaries; `null` after any trouble. Never rejects. */
  fuse(summaries: readonly string[], options: SummaryOptions): Promise<string | null>;
}

/** Tokens that a summariser takes. */
export interface SummarizerTokens {
  inputTokens: number;
  outputTokens: number;
}

/** How one summary is made. */
export interface SummaryOptions {
  config: ContextPruneConfig;
  /** Ends the call at once. */
  signal: AbortSignal;
  /** What the person wants the summaries to mind. */
  guide?: string | undefined;
  /** Told how many characters have come so far. */
  onChars?(chars: number): void;
  /** Told of every call that was sent. */
  onCall(call: SummarizerCall): void;
}
