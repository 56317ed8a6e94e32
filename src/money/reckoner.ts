/**
 * Reckons the bill of a session from its entries, in the order of the file, as it was sent and as it would have been raw.
 *
 * No entry says whether the pruner was on, so each request is asked: with the request before it and what has come since,
 * a raw prompt has a known size, and the recorded one lies nearest to that size, to it without what was condensed until
 * then, or to it without what is condensed by now. A request that went out raw saves nothing, whatever is condensed.
 * What no provider has counted saves nothing either.
 */

import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { DEFAULT_PROFILE, type ModelCost, ratesFor, readPrice, type TokenCounts } from "../cost/prices.ts";
import type { PlanConfig } from "../engine/session-state.ts";
import { modelOf } from "../replay/recording.ts";
import type { SessionReader } from "../session/branch.ts";
import { readOwnEntry } from "../session/entries.ts";
import { isAssistant, isDropped, toolCallsOf } from "../transcript/messages.ts";
import { RESERVE_TOKENS } from "../transcript/tokens.ts";
import type { StatsEntryData } from "../types.ts";
import { type Bill, emptyBill } from "./bill.ts";
import { ModelBook } from "./model-book.ts";
import { PastSession } from "./past.ts";
import { costOfOther, countsOf, nearestOf, promptOf, rawCounterpart, recordedCost, rewriteCost } from "./request.ts";

export interface ReckonerOptions {
  /** Where the session stands, so that its blobs are found. */
  reader: SessionReader;
  /** Settings that stubs are made with; those of now, since no entry tells those of then. */
  config(): PlanConfig;
  /** Price table of `provider/model`; `undefined` where none is known. */
  costOfModel(model: string): ModelCost | undefined;
  /** Context window of `provider/model` in tokens: no raw prompt would have been larger. */
  windowOf(model: string): number | undefined;
  /** Milliseconds that a provider keeps a prompt. */
  lifetimeMs?: number;
  /** Requests and calls before this time (ms) are another session's, which this one was forked from. */
  since?: number;
}

/** What is remembered of a request for the next one on its branch. */
interface Sent {
  at: number;
  model: string;
  /** Provider's tokens. */
  prompt: number;
  raw: number;
  /** Of the raw conversation's estimate, and of that in recovered text. */
  estimate: number;
  recovered: number;
  /** Estimated tokens that were kept out of it. */
  applied: number;
}

/** A request and its counterpart. Tokens by the provider's scale. */
interface Reckoned {
  counts: TokenCounts;
  raw: TokenCounts;
  rewrittenTokens: number;
  /** The reply does nothing but ask for what was condensed. */
  asks: boolean;
  applied: number;
  /** Text in the prompt that was asked back, and what of it the request before did not have. */
  recovered: number;
  newlyRecovered: number;
}

/** A request that may turn out to be one that a raw session would not have sent. */
interface Latest {
  sent: Sent;
  /** Raw prompt of the request before it. */
  rawBefore: number;
  calls: number;
  rereads: number;
  cost: number;
  /** What it has added to the raw bill. */
  rawTokens: number;
  rawCost: number;
}

/** One session. Each entry is looked at once. */
export class Reckoner {
  private readonly past: PastSession;
  private readonly models = new ModelBook();
  private readonly total: Bill = emptyBill();
  private readonly sentBy = new Map<string, Sent>();
  private statsBefore: StatsEntryData | undefined;
  /** The last request while its results come in: what it has added to the raw bill, and its calls that fetched nothing new. */
  private latest: Latest | undefined;

  constructor(private readonly options: ReckonerOptions) {
    this.past = new PastSession(options.reader, options.config, (at) => this.fetchedAgain(at));
  }

  /** Takes in what of `entries`, all that the session has, has come since the last time. */
  follow(entries: readonly SessionEntry[]): Readonly<Bill> {
    for (let i = this.past.size; i < entries.length; i++) {
      const entry = entries[i];
      if (entry) this.take(entry);
    }
    return this.total;
  }

  private take(entry: SessionEntry): void {
    this.past.turnTo(entry.parentId);
    if (entry.type === "message" && isAssistant(entry.message)) this.request(entry.id, entry.message);
    this.past.take(entry);
    const own = entry.type === "custom" ? readOwnEntry(entry) : undefined;
    if (own?.kind === "stats") this.summaries(own.data, Date.parse(entry.timestamp));
  }

  /** Each entry holds the totals at its time. */
  private summaries(stats: StatsEntryData, at: number): void {
    if (at < this.since) this.statsBefore = stats;
    const tokensOf = (data: StatsEntryData) => data.totalInputTokens + data.totalOutputTokens;
    const before = this.statsBefore;
    this.total.summaries = {
      count: stats.callCount - (before?.callCount ?? 0),
      tokens: tokensOf(stats) - (before ? tokensOf(before) : 0),
      cost: stats.totalCost - (before?.totalCost ?? 0),
    };
  }

  private request(id: string, reply: AssistantMessage): void {
    const counts = countsOf(reply);
    const prompt = promptOf(counts);
    if (prompt === 0) {
      if (!isDropped(reply) && reply.timestamp >= this.since) this.total.unrecorded += 1;
      return;
    }
    this.models.meet(reply, counts);
    this.past.sync();
    const model = modelOf(reply);
    const { sent: before, compacted } = this.lastSent();
    const follows = before !== undefined && before.model === model && !compacted;
    const scale = this.models.scaleOf(model);
    const { removed, ...now } = this.past.measure();
    const growth = before ? now.estimate - before.estimate : 0;
    const applied = follows
      ? nearestOf(before.applied + growth - (prompt - before.prompt) / scale, [removed, before.applied, 0])
      : this.presumed(removed, before);
    const isSame = before?.applied === applied && before.recovered === now.recovered;
    if (follows && isSame) this.models.learn(model, prompt - before.prompt, growth);
    const window = this.options.windowOf(model);
    const room = window === undefined ? Number.POSITIVE_INFINITY : Math.max(0, window - RESERVE_TOKENS - prompt);
    const isAlive = follows && reply.timestamp - before.at <= this.lifetimeMs && this.models.readsCache(model);
    const raw = rawCounterpart({
      counts,
      saved: Math.min((applied - now.recovered) * scale, room),
      old: before ? Math.max(0, prompt - this.past.fresh(before.at) * scale) : 0,
      cachedRaw: isAlive ? before.raw : undefined,
      rewritten: before?.applied !== applied,
      diverged: !isSame,
    });
    const asks = this.past.asks(reply);
    const rawTokens = asks && before ? before.raw : promptOf(raw.counts);
    const sent = { at: reply.timestamp, model, prompt, raw: rawTokens, ...now, applied };
    this.sentBy.set(id, sent);
    this.latest = undefined;
    this.past.replied(reply, applied > 0);
    if (reply.timestamp < this.since) return;
    const { rawTokens: tokensBefore, rawCost: costBefore } = this.total;
    const recovered = now.recovered * scale;
    const newlyRecovered = Math.max(0, now.recovered - (before?.recovered ?? 0)) * scale;
    this.add(reply, {
      counts,
      raw: raw.counts,
      rewrittenTokens: raw.rewrittenTokens,
      asks,
      applied,
      recovered,
      newlyRecovered,
    });
    const added = { rawTokens: this.total.rawTokens - tokensBefore, rawCost: this.total.rawCost - costBefore };
    const calls = toolCallsOf(reply).length;
    if (before && !asks)
      this.latest = { sent, rawBefore: before.raw, calls, rereads: 0, cost: recordedCost(reply), ...added };
  }

  /** A reply that did nothing but fetch again what had been condensed: a raw session would not have sent its request. */
  private fetchedAgain(at: number): void {
    const { latest, total } = this;
    if (!latest || at < latest.sent.at) return;
    latest.rereads += 1;
    if (latest.rereads < latest.calls) return;
    total.rawTokens -= latest.rawTokens;
    total.rawCost -= latest.rawCost;
    total.recoveries.count += 1;
    total.recoveries.tokens += latest.sent.prompt;
    total.recoveries.cost += latest.cost;
    latest.sent.raw = latest.rawBefore;
  }

  private add(reply: AssistantMessage, request: Reckoned): void {
    const { total } = this;
    const { counts, raw, asks, applied, rewrittenTokens, recovered, newlyRecovered } = request;
    const recorded = recordedCost(reply);
    const prices = recorded > 0 ? this.pricesOf(modelOf(reply)) : undefined;
    total.requests += 1;
    total.sentTokens += promptOf(counts);
    total.repliesCost += recorded;
    if (applied > 0) total.condensedRequests += 1;
    if (rewrittenTokens > 0) {
      total.rewrites.count += 1;
      total.rewrites.tokens += rewrittenTokens;
      if (prices) total.rewrites.cost += rewriteCost(rewrittenTokens, counts, prices);
    }
    total.recoveries.tokens += recovered;
    // It is written into the cache once and read from then on.
    if (prices) {
      total.recoveries.cost += (recovered * readPrice(ratesFor(prices, promptOf(counts)))) / 1_000_000;
      total.recoveries.cost += rewriteCost(newlyRecovered, counts, prices);
    }
    if (asks) {
      // A raw session has the output and does not ask.
      total.recoveries.count += 1;
      total.recoveries.tokens += promptOf(counts);
      total.recoveries.cost += recorded;
      return;
    }
    total.rawTokens += promptOf(raw);
    total.rawCost += prices ? costOfOther(recorded, counts, raw, prices) : recorded;
  }

  /** Another model or a compaction: sizes say nothing, and what held before is taken to hold unless a flush has come. */
  private presumed(removed: number, before: Sent | undefined): number {
    return before?.applied === 0 && !this.hasFlushedSince(before) ? 0 : removed;
  }

  private hasFlushedSince({ at }: Sent): boolean {
    return this.past.branch.some(
      (entry) =>
        entry.type === "custom" && Date.parse(entry.timestamp) > at && readOwnEntry(entry)?.kind === "frontier",
    );
  }

  /** The request before on the branch, and whether the host has compacted since. */
  private lastSent(): { sent: Sent | undefined; compacted: boolean } {
    const entries = this.past.branch;
    let compacted = false;
    for (let i = entries.length - 1; i >= 0; i--) {
      const entry = entries[i];
      if (entry?.type === "compaction") compacted = true;
      const sent = this.sentBy.get(entry?.id ?? "");
      if (sent) return { sent, compacted };
    }
    return { sent: undefined, compacted };
  }

  private pricesOf(model: string): ModelCost | undefined {
    return this.options.costOfModel(model) ?? this.models.ratesOf(model);
  }

  private get lifetimeMs(): number {
    return this.options.lifetimeMs ?? DEFAULT_PROFILE.lifetimeMs;
  }

  private get since(): number {
    return this.options.since ?? Number.NEGATIVE_INFINITY;
  }
}
