/** What stands in for a model that summarises: texts of a given length, at a given price. Or the product's own digest. */

import type { FuseRangeSummary } from "../flush/chains.ts";
import type { Summarize } from "../flush.ts";
import { digestSummary } from "../summarizer.ts";
import { buildRangeRequest, buildSummaryRequest, type SummaryRequest } from "../summary/prompt.ts";
import { flatten, sliceText } from "../text/text.ts";
import { estimateTextTokens } from "../transcript/tokens.ts";

/** Tokens that a request of the summariser may have. */
const MAX_INPUT_TOKENS = 180_000;
/** A model writes a few words about the smallest output. */
const MIN_CHARS = 40;
/** What joins the summaries of a chain has this share of them, and no more characters than the prompt allows. */
const FUSED_SHARE = 0.5;
const MAX_FUSED_CHARS = 2_000;

/** Makes summaries, and counts what they would have taken. */
export interface StandIn {
  summarize: Summarize;
  /** Missing where no model is asked. */
  fuse: FuseRangeSummary | undefined;
  /** No model is paid for. */
  isFree: boolean;
  /** Tokens that the summariser's calls have taken since the last time this was asked. */
  takeUsage(): { inputTokens: number; outputTokens: number };
}

/** Summaries without a model: the product's own. */
export function digestStandIn(): StandIn {
  return {
    summarize: async (batch) => digestSummary(batch),
    fuse: undefined,
    isFree: true,
    takeUsage: () => ({ inputTokens: 0, outputTokens: 0 }),
  };
}

/** Summaries with `ratio` (0 to 1) of the characters of what they summarise; made of its own words. */
export function ratioStandIn(ratio: number): StandIn {
  const usage = { inputTokens: 0, outputTokens: 0 };
  const count = (request: SummaryRequest, answer: string) => {
    usage.inputTokens += estimateTextTokens(request.systemPrompt) + estimateTextTokens(request.text);
    usage.outputTokens += estimateTextTokens(answer);
  };
  return {
    isFree: false,
    async summarize(batch) {
      const texts = batch.toolCalls.map((call) => shorten(call.resultText, call.resultText.length * ratio));
      const whole = texts.map((text, i) => `[${i + 1}] ${text}`).join("\n");
      count(buildSummaryRequest(batch, MAX_INPUT_TOKENS), whole);
      return { whole, texts, model: "stand-in" };
    },
    async fuse(summaries) {
      const joint = summaries.join("\n");
      const text = shorten(joint, Math.min(MAX_FUSED_CHARS, joint.length * FUSED_SHARE));
      count(buildRangeRequest(summaries, MAX_INPUT_TOKENS), text);
      return text;
    },
    takeUsage() {
      const taken = { ...usage };
      usage.inputTokens = 0;
      usage.outputTokens = 0;
      return taken;
    },
  };
}

function shorten(text: string, chars: number): string {
  const wanted = Math.max(MIN_CHARS, Math.round(chars));
  const flat = flatten(sliceText(text, 0, Math.min(text.length, wanted * 2)));
  return sliceText(flat, 0, wanted) || "(no output)";
}
