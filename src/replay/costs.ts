/** Prices the requests of one variant: tokens by estimate, what is read and written by the provider's cache. */
import { createHash } from "node:crypto";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { type CachePolicy, costOf, type ModelCost, type Rates, ratesFor } from "../cost/prices.js";
import { blocksOf, isAssistant, isDropped, isToolResult } from "../transcript/messages.js";
import { contentTokens, estimateMessageTokens } from "../transcript/tokens.js";
import { PrefixCache, type PromptPart } from "./prefix-cache.js";
import { modelOf } from "./recording.js";

/** How estimates become the provider's tokens. */
export interface Scale {
  /** Provider's tokens for one that was estimated. */
  factor: number;
  /** Tokens of a prompt besides its messages: system prompt and tools. */
  baseTokens: number;
}

/** What a meter reckons with. */
export interface MeterOptions {
  scale: Scale;
  cache: CachePolicy;
  costOfModel(model: string): ModelCost;
}

/** One request. Tokens, and costs in the currency of the prices. */
export interface RequestFigures {
  /** ms since the epoch. */
  at: number;
  /** Of the prompt; `read` and `write` are parts of it. */
  tokens: number;
  read: number;
  write: number;
  /** Cost of the prompt. */
  cost: number;
  /** Tokens of the answer and their cost, which is the same whatever is condensed. */
  output: number;
  outputCost: number;
}

/** A call beside the conversation, answer included, laid to the request that came next. */
export interface SideCall {
  /** Index of that request. */
  request: number;
  cost: number;
}

/** Adds up one variant. */
export class CostMeter {
  readonly requests: RequestFigures[] = [];
  readonly compactions: SideCall[] = [];
  readonly flushes: SideCall[] = [];
  readonly unusedSummaries: SideCall[] = [];
  private readonly caches = new Map<string, PrefixCache>();
  /** A rendered message is another object in each request, its content seldom another. */
  private readonly parts = new WeakMap<AgentMessage, PromptPart>();
  private readonly partsByContent = new Map<string, PromptPart>();
  private readonly system: PromptPart;
  private model = "";

  constructor(private readonly options: MeterOptions) {
    this.system = { fingerprint: "system", tokens: options.scale.baseTokens, blocks: 1 };
  }

  /** A request with `messages` that was answered by `reply`. */
  request(messages: readonly AgentMessage[], reply: AssistantMessage): void {
    const { timestamp: at } = reply;
    this.model = modelOf(reply);
    const prompt = [this.system, ...messages.map((message) => this.partOf(message)).filter((part) => part.tokens > 0)];
    const { read, write, input } = this.cacheOf(this.model).use(prompt, at);
    const output = reply.usage?.output || this.scaled(contentTokens(reply.content));
    const prices = this.options.costOfModel(this.model);
    const cost = costOf({ read, write, input, output: 0 }, prices);
    const outputCost = costOf({ read, write, input, output }, prices) - cost;
    this.requests.push({ at, tokens: read + write + input, read, write, output, cost, outputCost });
  }

  /** The host compacts: a request of its own, whose prompt is written into the cache for nothing. */
  compaction(inputTokens: number, outputTokens: number): void {
    const counts = { read: 0, write: this.scaled(inputTokens), input: 0, output: this.scaled(outputTokens) };
    const cost = costOf(counts, this.options.costOfModel(this.model));
    this.compactions.push({ request: this.requests.length, cost });
  }

  /** A flush changed what the next request carries. */
  flush(summarizerCost: number): void {
    this.flushes.push({ request: this.requests.length, cost: summarizerCost });
  }

  /** The session has ended with summaries that no flush has used. */
  leftOver(summarizerCost: number): void {
    this.unusedSummaries.push({ request: this.requests.length, cost: summarizerCost });
  }

  /** All that is paid for beside the requests. */
  get sideCalls(): SideCall[] {
    return [...this.flushes, ...this.compactions, ...this.unusedSummaries];
  }

  /** Price of a summariser's calls at `share` of the prices of the session's model; it caches nothing. */
  summarizerCost(tokens: { inputTokens: number; outputTokens: number }, share: number): number {
    const counts = {
      read: 0,
      write: 0,
      input: this.scaled(tokens.inputTokens),
      output: this.scaled(tokens.outputTokens),
    };
    return costOf(counts, this.options.costOfModel(this.model)) * share;
  }

  /** When the last request left, ms; `undefined` before the first. */
  lastRequestAt(): number | undefined {
    return this.requests.at(-1)?.at;
  }

  /** How the provider keeps prompts. */
  get cache(): CachePolicy {
    return this.options.cache;
  }

  /** Tokens of the last prompt and its answer; `undefined` before the first. */
  lastContextTokens(): number | undefined {
    const last = this.requests.at(-1);
    return last && last.tokens + last.output;
  }

  /** What the last request's model costs for a prompt of that size. */
  currentRates(): Rates {
    return ratesFor(this.options.costOfModel(this.model), this.requests.at(-1)?.tokens ?? 0);
  }

  /** Provider's tokens for estimated ones. */
  scaled(tokens: number): number {
    return tokens * this.options.scale.factor;
  }

  private cacheOf(model: string): PrefixCache {
    const known = this.caches.get(model);
    if (known) return known;
    const cache = new PrefixCache(this.options.cache);
    this.caches.set(model, cache);
    return cache;
  }

  private partOf(message: AgentMessage): PromptPart {
    const known = this.parts.get(message);
    if (known) return known;
    const fingerprint = createHash("sha1").update(sentForm(message)).digest("base64");
    const part = this.partsByContent.get(fingerprint) ?? {
      fingerprint,
      tokens: this.scaled(estimateMessageTokens(message)),
      blocks: blocksOf(message),
    };
    this.partsByContent.set(fingerprint, part);
    this.parts.set(message, part);
    return part;
  }
}

/** What a provider gets to see of a message; times and details of a tool are the host's own. */
function sentForm(message: AgentMessage): string {
  if (isToolResult(message)) {
    return JSON.stringify([message.role, message.toolCallId, message.isError, message.content]);
  }
  if (isAssistant(message)) return JSON.stringify([message.role, isDropped(message), message.content]);
  if ("content" in message) return JSON.stringify(["user", message.content]);
  return JSON.stringify("summary" in message ? [message.role, message.summary] : [message]);
}
