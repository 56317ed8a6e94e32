/** Prices the requests of one variant: tokens by estimate, what is read and written by the provider's cache. */
import { createHash } from "node:crypto";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { type CachePolicy, costOf, type ModelCost, type Rates, ratesFor, type TokenCounts } from "../cost/prices.ts";
import { blocksOf, isAssistant, isDropped, isToolResult } from "../transcript/messages.ts";
import { contentTokens, estimateMessageTokens } from "../transcript/tokens.ts";
import { PrefixCache, type PromptPart } from "./prefix-cache.ts";
import { modelOf } from "./recording.ts";

/** How estimates become the provider's tokens. */
export interface Scale {
  /** Provider's tokens for one that was estimated. */
  factor: number;
  /** Tokens of a prompt besides its messages: system prompt and tools. */
  baseTokens: number;
}

/** What a meter reckons with. */
export interface MeterOptions {
  /** By `provider/model`: each has a tokenizer of its own. */
  scaleOf(model: string): Scale;
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
  /** Timestamp of the first message that did not come from the cache, ms; `undefined` where all did. */
  writtenFrom: number | undefined;
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

/** A flush, and why it was made where that is known. */
export interface FlushCall extends SideCall {
  reason: string | undefined;
}

/** One model: its tokenizer and its cache. */
interface ModelMeter {
  scale: Scale;
  cache: PrefixCache;
  system: PromptPart;
  /** A rendered message is another object in each request, its content seldom another. */
  parts: WeakMap<AgentMessage, PromptPart>;
  partsByContent: Map<string, PromptPart>;
}

/** Adds up one variant. */
export class CostMeter {
  readonly requests: RequestFigures[] = [];
  readonly compactions: SideCall[] = [];
  readonly flushes: FlushCall[] = [];
  readonly unusedSummaries: SideCall[] = [];
  /** What it costs that output had to be asked back; also what carrying it costs later requests. */
  readonly recoveries: SideCall[] = [];
  private readonly models = new Map<string, ModelMeter>();
  private model = "";

  constructor(private readonly options: MeterOptions) {}

  /** A request with `messages` that was answered by `reply`. */
  request(messages: readonly AgentMessage[], reply: AssistantMessage): void {
    const { timestamp: at } = reply;
    this.model = modelOf(reply);
    const own = this.current();
    const prompt = [own.system, ...messages.map((message) => partOf(message, own)).filter((part) => part.tokens > 0)];
    const { read, write, input } = own.cache.use(prompt, at);
    const output = reply.usage?.output || this.scaled(contentTokens(reply.content));
    const prices = this.options.costOfModel(this.model);
    const cost = this.priceOf({ read, write, input, output: 0 });
    const outputCost = costOf({ read, write, input, output }, prices) - cost;
    const writtenFrom = messages[cachedMessages(messages, own, read)]?.timestamp;
    this.requests.push({ at, tokens: read + write + input, read, write, writtenFrom, output, cost, outputCost });
  }

  /** The host compacts: a request of its own, whose prompt is written into the cache for nothing. */
  compaction(inputTokens: number, outputTokens: number): void {
    const counts = { read: 0, write: this.scaled(inputTokens), input: 0, output: this.scaled(outputTokens) };
    this.compactions.push({ request: this.requests.length, cost: this.priceOf(counts) });
  }

  /** A flush changed what the next request carries. @param reason why it was made */
  flush(summarizerCost: number, reason?: string): void {
    this.flushes.push({ request: this.requests.length, cost: summarizerCost, reason });
  }

  /** The last request pays so much for output that was asked back. */
  recovery(cost: number): void {
    this.recoveries.push({ request: Math.max(0, this.requests.length - 1), cost });
  }

  /** The session has ended with summaries that no flush has used. */
  leftOver(summarizerCost: number): void {
    this.unusedSummaries.push({ request: this.requests.length, cost: summarizerCost });
  }

  /** All that is paid for beside the requests. */
  get sideCalls(): SideCall[] {
    return [...this.flushes, ...this.compactions, ...this.unusedSummaries, ...this.recoveries];
  }

  /** Price of a summariser's calls at `share` of the prices of the session's model; it caches nothing. */
  summarizerCost(tokens: { inputTokens: number; outputTokens: number }, share: number): number {
    const counts = {
      read: 0,
      write: 0,
      input: this.scaled(tokens.inputTokens),
      output: this.scaled(tokens.outputTokens),
    };
    return this.priceOf(counts) * share;
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

  /** Provider's tokens for estimated ones, by the model of the last request. */
  scaled(tokens: number): number {
    return tokens * this.current().scale.factor;
  }

  /** What the model of the last request costs for such tokens. */
  priceOf(counts: TokenCounts): number {
    return costOf(counts, this.options.costOfModel(this.model));
  }

  private current(): ModelMeter {
    const known = this.models.get(this.model);
    if (known) return known;
    const scale = this.options.scaleOf(this.model);
    const system = { fingerprint: "system", tokens: scale.baseTokens, blocks: 1 };
    const cache = new PrefixCache(this.options.cache);
    const meter = { scale, cache, system, parts: new WeakMap(), partsByContent: new Map() };
    this.models.set(this.model, meter);
    return meter;
  }
}

/** How many messages at the head of a prompt, of which the cache gave `read` tokens, came from the cache. */
function cachedMessages(messages: readonly AgentMessage[], own: ModelMeter, read: number): number {
  let left = read - own.system.tokens;
  const first = messages.findIndex((message) => {
    const { tokens } = partOf(message, own);
    left -= tokens;
    // Sums of fractions in another order are not quite the same.
    return tokens > 0 && left < -0.5;
  });
  return first < 0 ? messages.length : first;
}

function partOf(message: AgentMessage, { scale, parts, partsByContent }: ModelMeter): PromptPart {
  const known = parts.get(message);
  if (known) return known;
  const fingerprint = createHash("sha1").update(sentForm(message)).digest("base64");
  const part = partsByContent.get(fingerprint) ?? {
    fingerprint,
    tokens: estimateMessageTokens(message) * scale.factor,
    blocks: blocksOf(message),
  };
  partsByContent.set(fingerprint, part);
  parts.set(message, part);
  return part;
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
