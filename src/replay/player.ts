/** Plays a recorded session request by request, as it was or with the extension at work on it. */

import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { capImages, imageLimits } from "../render/images.ts";
import { MemorySession } from "../session/memory-session.ts";
import { SessionEngine } from "../session-engine.ts";
import { isAssistant, isToolResult } from "../transcript/messages.ts";
import { estimateTextTokens } from "../transcript/tokens.ts";
import type { ContextPruneConfig } from "../types.ts";
import { compactionInputTokens, conversationOf, firstKeptEntry, isCompactionDue } from "./conversation.ts";
import type { CostMeter } from "./costs.ts";
import { ReplaySession } from "./environment.ts";
import { isRequest, modelOf, type Recording } from "./recording.ts";
import type { StandIn } from "./stand-in.ts";

type CompactionEntry = Extract<SessionEntry, { type: "compaction" }>;

/** What a replay needs of a meter. */
export type Meter = Pick<
  CostMeter,
  | "request"
  | "compaction"
  | "compactions"
  | "flush"
  | "leftOver"
  | "summarizerCost"
  | "lastRequestAt"
  | "lastContextTokens"
  | "currentRates"
  | "cache"
>;

/** The extension in a replay. */
export interface Condensing {
  config: ContextPruneConfig;
  standIn: StandIn;
  /** Share of an output that its summary is expected to have. */
  summaryShare: number;
  /** Price of the summariser as a share of the session model's. */
  summarizerPrice: number;
}

export interface PlayOptions {
  recording: Recording;
  meter: Meter;
  /** Whether the host's compactions stand where they were recorded, or fire as they would. */
  compactions: "recorded" | "simulated";
  /** Missing for the session as it is. */
  condensing?: Condensing;
  /** Told of each request, after it has been priced; `entries` are those of the branch so far, and grow later on. */
  onRequest?(
    index: number,
    messages: readonly AgentMessage[],
    reply: AssistantMessage,
    entries: readonly SessionEntry[],
  ): void;
}

/** Plays the session; `options.meter` holds the figures afterwards. */
export async function play(options: PlayOptions): Promise<void> {
  // Oversized results are written to files as in a session; the folder comes to be only where there are any.
  const folder = join(tmpdir(), `pi-condense-replay-${randomUUID()}`);
  try {
    const { cwd } = options.recording;
    await new Player(options, new MemorySession({ cwd, sessionDir: folder, name: "replay" })).run();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The extension at work on the session. */
interface Condensed extends Condensing {
  session: ReplaySession;
  engine: SessionEngine;
}

class Player {
  private readonly condensed: Condensed | undefined;

  constructor(
    private readonly options: PlayOptions,
    private readonly session: MemorySession,
  ) {
    const { condensing } = options;
    this.condensed = condensing?.config.enabled ? this.condense(condensing) : undefined;
  }

  async run(): Promise<void> {
    const { entries } = this.options.recording;
    for (const [i, entry] of entries.entries()) {
      if (entry.type === "compaction") {
        if (this.options.compactions === "recorded") this.compact(entry);
        continue;
      }
      const message = entry.type === "message" ? entry.message : undefined;
      if (message && isAssistant(message)) await this.request(i, message);
      this.session.append(entry);
      if (message && endsTurn(message, nextMessage(entries, i))) await this.turnEnded();
    }
    if (this.condensed) this.chargeUnused(this.condensed);
  }

  private async turnEnded(): Promise<void> {
    if (!this.condensed) return;
    await this.condensed.engine.turnEnded(this.condensed.session.moment());
    // A flush whose summaries are ready comes to its end before the host sends the next request.
    await setImmediate();
  }

  private async request(index: number, reply: AssistantMessage): Promise<void> {
    if (!isRequest(reply)) return;
    if (this.options.compactions === "simulated") this.compactIfDue(reply.timestamp);
    const messages = await this.sentFor(reply);
    this.options.meter.request(messages, reply);
    this.options.onRequest?.(index, messages, reply, this.session.branch());
  }

  /** The messages of the request that `reply` answers. */
  private async sentFor(reply: AssistantMessage): Promise<AgentMessage[]> {
    const messages = conversationOf(this.session.branch());
    if (!this.condensed) return messages;
    const { session, engine, config } = this.condensed;
    session.requestComes(reply.timestamp, modelOf(reply));
    const sent = await engine.requestLeaves(session.moment(), messages);
    return capImages(sent, imageLimits(config, undefined));
  }

  /** The messages as the last request would carry them. */
  private rendered(): AgentMessage[] {
    const messages = conversationOf(this.session.branch());
    if (!this.condensed) return messages;
    const { engine, config } = this.condensed;
    engine.view();
    return capImages(engine.render(messages), imageLimits(config, undefined));
  }

  private compactIfDue(at: number): void {
    const { recording, meter } = this.options;
    const tokens = meter.lastContextTokens();
    const isLast = this.session.branch().at(-1)?.type === "compaction";
    if (tokens === undefined || isLast || !isCompactionDue(tokens, recording.contextWindow)) return;
    const kept = firstKeptEntry(this.session.branch());
    if (!kept) return;
    this.compact({
      type: "compaction",
      id: this.session.newId(),
      parentId: null,
      timestamp: new Date(at).toISOString(),
      summary: fillerText(recording.compactionChars, meter.compactions.length + 1),
      firstKeptEntryId: kept.id,
      tokensBefore: Math.round(tokens),
    });
  }

  private compact(entry: CompactionEntry): void {
    const before = this.rendered();
    this.session.append(entry);
    const kept = new Set(this.rendered().map((message) => message.timestamp));
    const gone = before.filter((message) => !kept.has(message.timestamp));
    this.options.meter.compaction(compactionInputTokens(gone), estimateTextTokens(entry.summary));
  }

  private condense(condensing: Condensing): Condensed {
    const { meter, recording } = this.options;
    const { contextWindow } = recording;
    const { config, standIn, summaryShare, summarizerPrice } = condensing;
    const session = new ReplaySession({
      session: this.session,
      config,
      standIn,
      summaryShare,
      provider: {
        usage: () => {
          const tokens = meter.lastContextTokens();
          if (tokens === undefined) return undefined;
          return { tokens, contextWindow, percent: (tokens / contextWindow) * 100 };
        },
        contextWindow,
        cache: meter.cache,
        rates: () => meter.currentRates(),
        summarizerCost: (tokens) => meter.summarizerCost(tokens, summarizerPrice),
      },
      onCommit: (reason) => meter.flush(meter.summarizerCost(standIn.takeUsage(), summarizerPrice), reason),
    });
    return { ...condensing, session, engine: new SessionEngine(session.environment) };
  }

  /** Summaries that were made ahead and that no flush has used. */
  private chargeUnused({ standIn, summarizerPrice }: Condensed): void {
    const { meter } = this.options;
    const tokens = standIn.takeUsage();
    if (tokens.inputTokens > 0) meter.leftOver(meter.summarizerCost(tokens, summarizerPrice));
  }
}

function endsTurn(message: AgentMessage, next: AgentMessage | undefined): boolean {
  return (isAssistant(message) || isToolResult(message)) && !(next && isToolResult(next));
}

function nextMessage(entries: readonly SessionEntry[], index: number): AgentMessage | undefined {
  for (let i = index + 1; i < entries.length; i++) {
    const entry = entries[i];
    if (entry?.type === "message") return entry.message;
  }
  return undefined;
}

/** A text of that length, another one for each number. */
function fillerText(chars: number, number: number): string {
  const head = `Summary ${number} of the conversation so far. `;
  return (head + "What was asked, what was done, what is open. ".repeat(Math.ceil(chars / 40))).slice(
    0,
    Math.max(40, chars),
  );
}
