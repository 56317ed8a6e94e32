/** Summaries of finished batches: by a model, or by the mechanical digest where none is wanted. */
import type { AssistantMessage, AssistantMessageEvent, Usage } from "@mariozechner/pi-ai";
import { digestBatch, digestCall } from "./digest/digest.js";
import { type ClaimCheck, claimCheck } from "./summary/claims.js";
import { buildRangeRequest, buildSummaryRequest, type SummaryRequest, splitBatch } from "./summary/prompt.js";
import { splitSummary } from "./summary/split.js";
import { type Trouble, troubleOf } from "./summary/trouble.js";
import { textOf } from "./transcript/messages.js";
import type { CapturedBatch, SummaryUsage } from "./types.js";

/** The part of a host's event stream that is used. */
export interface ReplyStream extends AsyncIterable<AssistantMessageEvent> {
  result(): Promise<AssistantMessage>;
}

/** A model to summarise with, bound to its credentials by the host. */
export interface SummaryModel {
  /** `provider/id`. */
  name: string;
  /** Tokens that a request may have so that it fits the model's window with room for the answer. */
  maxInputTokens: number;
  /** Opens the reply stream. May reject; provider trouble usually resolves with a `stopReason` instead. */
  open(request: SummaryRequest, signal: AbortSignal): Promise<ReplyStream>;
}

/** The configured model, and the session's own where that is another one. */
export interface ModelChoice {
  configured: SummaryModel;
  session?: SummaryModel;
}

/** How one call of the summariser is run. */
export interface SummarizeOptions {
  model: SummaryModel;
  /** Ends the call at once. */
  signal: AbortSignal;
  idleTimeoutMs: number;
  maxTimeoutMs: number;
  /** Told of every call that was sent, failed ones too, with what had been reported by its end. */
  onUsage(call: SummarizerCall): void;
  /** Told why a call gave no summary. */
  onTrouble(trouble: Trouble): void;
  /** Told how many characters of text the call has given so far. */
  onChars?(chars: number): void;
}

/** One call that was sent to a provider. */
export interface SummarizerCall {
  usage: SummaryUsage;
  /** As the provider reported it; all zero where it has said nothing. */
  reported: Usage;
  model: string;
  /** It gave a summary that could be used. */
  ok: boolean;
}

/** A batch summary: a text for each call, or one text for all of them where the reply could not be split. */
export interface BatchSummary {
  whole: string;
  texts: readonly string[] | undefined;
  /** `provider/id`, or `none` for the digest. */
  model: string;
  usage?: SummaryUsage;
}

/** A summary is usable only if it has text and was not cut short. */
export function isUsableSummary(llmText: string, stopReason: string): boolean {
  return llmText.trim().length > 0 && stopReason !== "length";
}

/** The summary of a batch by a model, or `null` after any trouble: the batch then stays for the next flush. */
export async function summarizeBatch(batch: CapturedBatch, options: SummarizeOptions): Promise<BatchSummary | null> {
  const parts: Part[] = [];
  const usage: SummaryUsage = { inputTokens: 0, outputTokens: 0, cost: 0 };
  for (const part of splitBatch(batch, options.model.maxInputTokens)) {
    const request = buildSummaryRequest(part, options.model.maxInputTokens);
    const reply = await runSummarization(request, options);
    if (!reply) return null;
    parts.push({ batch: part, text: reply.summaryText, aliens: claimCheck(part, request.text) });
    usage.inputTokens += reply.usage.inputTokens;
    usage.outputTokens += reply.usage.outputTokens;
    usage.cost += reply.usage.cost;
  }
  return joinParts(parts, options.model.name, usage);
}

/**
 * One summary of a whole chain made of its calls' summaries, or `null` where there is none or it is partly made up: they
 * then stand side by side.
 */
export async function summarizeRange(summaries: readonly string[], options: SummarizeOptions): Promise<string | null> {
  const request = buildRangeRequest(summaries, options.model.maxInputTokens);
  const reply = await runSummarization(request, options);
  if (!reply) return null;
  const check = claimCheck({ assistantText: summaries.join("\n"), toolCalls: [] }, request.text);
  if (check(reply.summaryText).length === 0) return reply.summaryText;
  options.onTrouble({ kind: "unusable", detail: "the reply names what stands nowhere in the summaries" });
  return null;
}

/** The summary of a batch without any model. */
export function digestSummary(batch: CapturedBatch): BatchSummary {
  const texts = digestBatch(batch);
  return { whole: texts.join("\n"), texts, model: "none" };
}

/** One call of the summariser. `null` stands for every kind of failure; the options' callbacks are told which. */
export async function runSummarization(
  request: SummaryRequest,
  options: SummarizeOptions,
): Promise<{ summaryText: string; usage: SummaryUsage } | null> {
  const progress: CallProgress = { sent: false, reported: NO_USAGE };
  let message: AssistantMessage;
  try {
    message = await readReply(request, options, progress);
  } catch (error) {
    if (progress.sent) tellUsage(progress.reported, false, options);
    options.onTrouble(failureOf(error, options.signal));
    return null;
  }
  const summaryText = textOf(message.content).trim();
  const ok = message.stopReason === "stop" && isUsableSummary(summaryText, message.stopReason);
  const usage = tellUsage(message.usage, ok, options);
  if (ok) return { summaryText, usage };
  options.onTrouble(replyTrouble(message));
  return null;
}

/** What is known of a call before it has ended. */
interface CallProgress {
  sent: boolean;
  reported: Usage;
}

const NO_USAGE: Usage = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

/** A time limit has passed. */
class TimeLimit extends Error {}

/** One request's share of a batch, with what it was answered. */
interface Part {
  batch: CapturedBatch;
  text: string;
  aliens: ClaimCheck;
}

/**
 * Puts the parts of a batch together. A section that names paths or numbers from nowhere is made up in some part, so the
 * digest stands in for it.
 */
function joinParts(parts: readonly Part[], model: string, usage: SummaryUsage): BatchSummary {
  const whole = parts.map((part) => part.text).join("\n");
  const [only] = parts;
  if (parts.length === 1 && only && !splitSummary(only.text, only.batch.toolCalls.length)) {
    const { batch, text, aliens } = only;
    return aliens(text).length > 0 ? { ...digestSummary(batch), usage } : { whole, texts: undefined, model, usage };
  }
  const texts = parts.flatMap(({ batch, text, aliens }) => {
    const last = batch.toolCalls.length - 1;
    const sections = splitSummary(text, last + 1) ?? batch.toolCalls.map((_, i) => (i === last ? text : ""));
    return sections.map((section, i) => {
      const call = batch.toolCalls[i];
      return call && aliens(section).length > 0 ? digestCall(call) : section;
    });
  });
  return { whole, texts, model, usage };
}

function failureOf(error: unknown, signal: AbortSignal): Trouble {
  const detail = error instanceof Error ? error.message : String(error);
  if (signal.aborted) return { kind: "cancelled", detail };
  return error instanceof TimeLimit ? { kind: "timeout", detail } : troubleOf(detail);
}

function replyTrouble(message: AssistantMessage): Trouble {
  if (message.stopReason === "length") return { kind: "cut", detail: "the reply was cut at the model's output limit" };
  if (message.stopReason === "stop") return { kind: "empty", detail: "the reply held no text" };
  if (message.errorMessage) return troubleOf(message.errorMessage);
  return { kind: "failed", detail: `the reply ended by "${message.stopReason}"` };
}

function tellUsage(reported: Usage, ok: boolean, { model, onUsage }: SummarizeOptions): SummaryUsage {
  const usage = {
    inputTokens: known(reported.input) + known(reported.cacheRead) + known(reported.cacheWrite),
    outputTokens: known(reported.output),
    cost: known(reported.cost.total),
  };
  onUsage({ usage, reported: { ...reported }, model: model.name, ok });
  return usage;
}

/** A figure that a provider of some extension may have left out. */
function known(figure: number): number {
  return Number.isFinite(figure) ? figure : 0;
}

/** Reads a stream to its end within both timeouts, also one that never speaks, drips for ever or ends without a word. */
async function readReply(
  request: SummaryRequest,
  options: SummarizeOptions,
  progress: CallProgress,
): Promise<AssistantMessage> {
  const { model, idleTimeoutMs, maxTimeoutMs } = options;
  options.signal.throwIfAborted();
  const controller = new AbortController();
  const cancel = () => controller.abort(options.signal.reason);
  const give = (reason: string) => controller.abort(new TimeLimit(reason));
  options.signal.addEventListener("abort", cancel, { once: true });
  const total = setTimeout(() => give(`no reply within ${maxTimeoutMs / 1000} s`), maxTimeoutMs);
  const startIdle = () => setTimeout(() => give(`nothing received for ${idleTimeoutMs / 1000} s`), idleTimeoutMs);
  let idle = startIdle();
  try {
    const stream = await unlessAborted(model.open(request, controller.signal), controller.signal);
    progress.sent = true;
    const onEvent = (event: AssistantMessageEvent) => {
      // A stream may go on after it was given up.
      if (controller.signal.aborted) return;
      clearTimeout(idle);
      idle = startIdle();
      if ("partial" in event) progress.reported = event.partial.usage;
    };
    return await unlessAborted(drain(stream, options.onChars, onEvent), controller.signal);
  } finally {
    clearTimeout(total);
    clearTimeout(idle);
    options.signal.removeEventListener("abort", cancel);
  }
}

async function drain(
  stream: ReplyStream,
  onChars: SummarizeOptions["onChars"],
  onEvent: (event: AssistantMessageEvent) => void,
): Promise<AssistantMessage> {
  let chars = 0;
  for await (const event of stream) {
    onEvent(event);
    if (event.type !== "text_delta") continue;
    chars += event.delta.length;
    onChars?.(chars);
  }
  return stream.result();
}

/** `promise`, or a rejection as soon as `signal` is aborted; a late outcome of `promise` is ignored. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
