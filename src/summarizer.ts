/** Summaries of finished batches: by a model, or by the mechanical digest where none is wanted. */
import type { AssistantMessage, Usage } from "@mariozechner/pi-ai";
import { digestBatch, digestCall } from "./digest/digest.ts";
import {
  buildRangeRequest,
  buildSummaryRequest,
  guideTokens,
  type SummaryRequest,
  splitBatch,
  withGuide,
} from "./summary/prompt.ts";
import { faultOf, replyText, saysSomething } from "./summary/reply.ts";
import { splitSummary } from "./summary/split.ts";
import {
  type CallProgress,
  GivenUp,
  NO_USAGE,
  type ReadOptions,
  readReply,
  type SummaryModel,
} from "./summary/stream.ts";
import { type Trouble, troubleOf } from "./summary/trouble.ts";
import { type FindUnsupported, unsupportedClaims } from "./summary/unsupported-claims.ts";
import { cleanSummary } from "./text/clean.ts";
import { textOf } from "./transcript/messages.ts";
import type { CapturedBatch, CapturedToolCall, SummaryUsage } from "./types.ts";

export type { ReplyStream, SummaryModel } from "./summary/stream.ts";

/** The configured model, and the session's own where that is another one. */
export interface ModelChoice {
  configured: SummaryModel;
  session?: SummaryModel;
}

/** How one call of the summariser is run. */
export interface SummarizeOptions extends ReadOptions {
  /** What the person wants the summary to mind. */
  guide?: string | undefined;
  /** Told of every call that was sent, failed ones too, with what had been reported by its end. */
  onUsage(call: SummarizerCall): void;
  /** Told why a call gave no summary. */
  onTrouble(trouble: Trouble): void;
}

/** One call that was sent to a provider. */
export interface SummarizerCall {
  usage: SummaryUsage;
  /** As the provider reported it; all zero where it has said nothing. */
  reported: Usage;
  model: string;
  /** It gave a summary that could be used. */
  ok: boolean;
  /** It was ended before it could fail. */
  cancelled?: true;
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

/**
 * The summary of a batch by a model, or `null` after any trouble: the batch then stays for the next flush. Results that
 * hold images alone are never sent: there is nothing in them that a model could read.
 */
export async function summarizeBatch(batch: CapturedBatch, options: SummarizeOptions): Promise<BatchSummary | null> {
  const toolCalls = batch.toolCalls.filter((call) => !isImageOnly(call));
  if (toolCalls.length === 0) return digestSummary(batch);
  const parts: Part[] = [];
  const usage: SummaryUsage = { inputTokens: 0, outputTokens: 0, cost: 0 };
  const maxTokens = options.model.maxInputTokens - guideTokens(options.guide);
  for (const part of splitBatch({ ...batch, toolCalls }, maxTokens)) {
    const request = buildSummaryRequest(part, maxTokens);
    const reply = await runSummarization(request, options);
    if (!reply) return null;
    parts.push({ batch: part, text: reply.summaryText, unsupported: unsupportedClaims(part, request.text) });
    usage.inputTokens += reply.usage.inputTokens;
    usage.outputTokens += reply.usage.outputTokens;
    usage.cost += reply.usage.cost;
  }
  return joinParts(batch, parts, options.model.name, usage);
}

/**
 * One summary of a whole chain made of its calls' summaries, or `null` where there is none or it is partly made up: they
 * then stand side by side.
 */
export async function summarizeRange(summaries: readonly string[], options: SummarizeOptions): Promise<string | null> {
  const request = buildRangeRequest(summaries, options.model.maxInputTokens - guideTokens(options.guide));
  const reply = await runSummarization(request, options);
  if (!reply) return null;
  const joined = summaries.join("\n");
  const check = unsupportedClaims({ assistantText: joined, toolCalls: [] }, request.text);
  const isShorter = reply.summaryText.length < joined.length;
  if (isShorter && saysSomething(reply.summaryText) && check(reply.summaryText).length === 0) return reply.summaryText;
  options.onTrouble({
    kind: "unusable",
    detail: "the reply is longer than the summaries or names what is not in them",
  });
  return null;
}

/** The summary of a batch without any model. */
export function digestSummary(batch: CapturedBatch): BatchSummary {
  const texts = digestBatch(batch).map(cleanSummary);
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
    message = await readReply(withGuide(request, options.guide), options, progress);
  } catch (error) {
    if (progress.sent) tellUsage(progress.reported, false, options);
    options.onTrouble(failureOf(error, options.signal));
    return null;
  }
  const summaryText = cleanSummary(replyText(textOf(message.content))).trim();
  const isWhole = message.stopReason === "stop" && isUsableSummary(summaryText, message.stopReason);
  const trouble = isWhole ? faultOf(summaryText, request) : replyTrouble(message);
  const usage = tellUsage(message.usage, trouble === undefined, options);
  if (!trouble) return { summaryText, usage };
  options.onTrouble(trouble);
  return null;
}

/** Characters of text beside an image from which there is something to summarise. */
const MIN_IMAGE_TEXT_CHARS = 200;

/** One request's share of a batch, with what it was answered. */
interface Part {
  batch: CapturedBatch;
  text: string;
  unsupported: FindUnsupported;
}

/** A result whose text only says that there is an image, as a digest's line does. */
function isImageOnly({ resultImages, resultText }: CapturedToolCall): boolean {
  return resultImages > 0 && resultText.trim().length < MIN_IMAGE_TEXT_CHARS;
}

/**
 * Puts the parts of a batch together. The digest stands in for a section that names paths or numbers from nowhere, says
 * nothing or is given twice, and for what was not sent.
 */
function joinParts(batch: CapturedBatch, parts: readonly Part[], model: string, usage: SummaryUsage): BatchSummary {
  const isUsable = ({ unsupported }: Part, text: string) => saysSomething(text) && unsupported(text).length === 0;
  const [only] = parts;
  if (parts.length === 1 && only && !splitSummary(only.text, only.batch.toolCalls.length)) {
    if (!isUsable(only, only.text)) return { ...digestSummary(batch), usage };
    if (only.batch.toolCalls.length === batch.toolCalls.length)
      return { whole: only.text, texts: undefined, model, usage };
  }
  const sections = new Map<CapturedToolCall, string>();
  for (const part of parts) {
    const { toolCalls } = part.batch;
    const last = toolCalls.length - 1;
    const split = splitSummary(part.text, toolCalls.length) ?? toolCalls.map((_, i) => (i === last ? part.text : ""));
    for (const [i, call] of toolCalls.entries()) {
      const section = split[i];
      if (section !== undefined && (section === "" || isUsable(part, section))) sections.set(call, section);
    }
  }
  const texts = batch.toolCalls.map((call) => sections.get(call) ?? cleanSummary(digestCall(call)));
  return { whole: parts.map((part) => part.text).join("\n"), texts, model, usage };
}

function failureOf(error: unknown, signal: AbortSignal): Trouble {
  const detail = error instanceof Error ? error.message : String(error);
  if (signal.aborted) return { kind: "cancelled", detail };
  return error instanceof GivenUp ? { kind: error.kind, detail } : troubleOf(detail);
}

function replyTrouble(message: AssistantMessage): Trouble {
  if (message.stopReason === "length") return { kind: "cut", detail: "the reply was cut at the model's output limit" };
  if (message.stopReason === "stop") return { kind: "empty", detail: "the reply held no text" };
  if (message.errorMessage) return troubleOf(message.errorMessage);
  return { kind: "failed", detail: `the reply ended by "${message.stopReason}"` };
}

function tellUsage(reported: Usage, ok: boolean, { model, signal, onUsage }: SummarizeOptions): SummaryUsage {
  const usage = {
    inputTokens: known(reported.input) + known(reported.cacheRead) + known(reported.cacheWrite),
    outputTokens: known(reported.output),
    cost: known(reported.cost.total),
  };
  const cancelled = !ok && signal.aborted;
  onUsage({ usage, reported: { ...reported }, model: model.name, ok, ...(cancelled ? { cancelled } : {}) });
  return usage;
}

/** A figure that a provider of some extension may have left out. */
function known(figure: number): number {
  return Number.isFinite(figure) ? figure : 0;
}
