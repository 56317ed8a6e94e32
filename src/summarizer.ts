/** Summaries of finished batches: by a model, or by the mechanical digest where none is wanted. */
import type { AssistantMessage, AssistantMessageEvent } from "@mariozechner/pi-ai";
import { textOf } from "./messages.js";
import { digestBatch } from "./summary/digest.js";
import { buildRangeRequest, buildSummaryRequest, type SummaryRequest } from "./summary/prompt.js";
import { splitSummary } from "./summary/split.js";
import type { CapturedBatch, SummaryUsage } from "./types.js";

/** The part of a host's event stream that is used. */
export interface ReplyStream extends AsyncIterable<AssistantMessageEvent> {
  result(): Promise<AssistantMessage>;
}

/** A model to summarise with, bound to its credentials by the host. */
export interface SummaryModel {
  /** `provider/id`. */
  name: string;
  /** Characters that a request may have so that it fits the model's window with room for the answer. */
  maxInputChars: number;
  /** Opens the reply stream. May reject; provider trouble usually resolves with a `stopReason` instead. */
  open(request: SummaryRequest, signal: AbortSignal): Promise<ReplyStream>;
}

/** How one call of the summariser is run. */
export interface SummarizeOptions {
  model: SummaryModel;
  /** Ends the call at once. */
  signal: AbortSignal;
  idleTimeoutMs: number;
  maxTimeoutMs: number;
  /** Told of every call that reached the provider, failed ones too. */
  onUsage(usage: SummaryUsage, ok: boolean): void;
  /** Told why a call gave no summary. */
  onTrouble(reason: string): void;
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
  const request = buildSummaryRequest(batch, options.model.maxInputChars);
  const reply = await runSummarization(request, options);
  if (!reply) return null;
  return {
    whole: reply.summaryText,
    texts: splitSummary(reply.summaryText, batch.toolCalls.length),
    model: options.model.name,
    usage: reply.usage,
  };
}

/** One summary of a whole chain made of its calls' summaries, or `null`: they then stand side by side. */
export async function summarizeRange(summaries: readonly string[], options: SummarizeOptions): Promise<string | null> {
  const reply = await runSummarization(buildRangeRequest(summaries, options.model.maxInputChars), options);
  return reply?.summaryText ?? null;
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
  let message: AssistantMessage;
  try {
    message = await readReply(request, options);
  } catch (error) {
    options.onTrouble(error instanceof Error ? error.message : String(error));
    return null;
  }
  const usage = usageOf(message);
  const summaryText = textOf(message.content).trim();
  const ok = isSuccess(message.stopReason) && isUsableSummary(summaryText, message.stopReason);
  options.onUsage(usage, ok);
  if (ok) return { summaryText, usage };
  options.onTrouble(describeFailure(message, summaryText));
  return null;
}

function isSuccess(stopReason: string): boolean {
  return stopReason === "stop" || stopReason === "length";
}

function describeFailure(message: AssistantMessage, text: string): string {
  if (message.errorMessage) return message.errorMessage;
  if (message.stopReason === "length") return "the reply was cut at the model's output limit";
  if (!isSuccess(message.stopReason)) return `the reply ended by "${message.stopReason}"`;
  return text ? "the reply was not usable" : "the reply held no text";
}

function usageOf({ usage }: AssistantMessage): SummaryUsage {
  return {
    inputTokens: usage.input + usage.cacheRead + usage.cacheWrite,
    outputTokens: usage.output,
    cost: usage.cost.total,
  };
}

/** Reads a stream to its end within both timeouts, also one that never speaks, drips for ever or ends without a word. */
async function readReply(request: SummaryRequest, options: SummarizeOptions): Promise<AssistantMessage> {
  const { model, idleTimeoutMs, maxTimeoutMs } = options;
  const controller = new AbortController();
  const give = (reason: string) => controller.abort(new Error(reason));
  const cancel = () => give("cancelled");
  if (options.signal.aborted) cancel();
  options.signal.addEventListener("abort", cancel, { once: true });
  const total = setTimeout(() => give(`no reply within ${maxTimeoutMs / 1000} s`), maxTimeoutMs);
  const startIdle = () => setTimeout(() => give(`nothing received for ${idleTimeoutMs / 1000} s`), idleTimeoutMs);
  let idle = startIdle();
  try {
    const stream = await unlessAborted(model.open(request, controller.signal), controller.signal);
    const drained = (async () => {
      for await (const _event of stream) {
        clearTimeout(idle);
        idle = startIdle();
      }
      return stream.result();
    })();
    return await unlessAborted(drained, controller.signal);
  } finally {
    clearTimeout(total);
    clearTimeout(idle);
    options.signal.removeEventListener("abort", cancel);
  }
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
