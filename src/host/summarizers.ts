/** The host's models as a session's summarisers: which one is asked, and what happens when it does not answer. */
import { SUMMARY_SHARE } from "../cost/forecast.ts";
import { costOf, DEFAULT_PROFILE, type Rates, scaleRates } from "../cost/prices.ts";
import type { Environment, ModelSummarizer, Summarizer, SummaryOptions } from "../engine/environment.ts";
import { type Attempt, SummarizerPolicy } from "../engine/summarizer-policy.ts";
import {
  type BatchSummary,
  digestSummary,
  type ModelChoice,
  type SummarizeOptions,
  type SummaryModel,
  summarizeBatch,
  summarizeRange,
} from "../summarizer.ts";
import { isReplyFault, type Trouble } from "../summary/trouble.ts";
import type { CapturedBatch, ContextPruneConfig } from "../types.ts";
import type { HostSnapshot } from "./host.ts";
import { chooseSummarizer, type SummarizerChoice, summarizerRates } from "./models.ts";
import { sessionModel } from "./session-model.ts";

/** Price of a summariser that is not the session's model, as a share of it, where it is unknown. */
const USUAL_PRICE_SHARE = 0.2;

/** Remembers for one session how its models fare. */
export class HostSummarizers {
  private readonly policy: SummarizerPolicy;
  /** Batches that a model has answered with what is no summary, by their last call. */
  private readonly refused = new Set<string>();

  constructor(private readonly environment: Pick<Environment, "clock" | "tell" | "onError">) {
    const onTrouble = (model: string, { detail }: Trouble) =>
      environment.tell({ text: `pruner: no summary from ${model}: ${detail}`, type: "warning" });
    this.policy = new SummarizerPolicy({ onTrouble }, () => environment.clock.now());
  }

  /** The summariser that the settings name. */
  choose(config: ContextPruneConfig, host: Pick<HostSnapshot, "models" | "model">): Summarizer {
    try {
      const choice = chooseSummarizer(config, host);
      return choice.kind === "model" ? this.bind(choice, config, host) : choice;
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      return { kind: "missing", reason: `the host's models could not be read: ${detail}` };
    }
  }

  private bind(
    { models, isOptional }: Extract<SummarizerChoice, { kind: "model" }>,
    config: ContextPruneConfig,
    host: Pick<HostSnapshot, "models" | "model">,
  ): ModelSummarizer {
    const { policy } = this;
    return {
      kind: "model",
      isOptional,
      summaryShare: SUMMARY_SHARE,
      priceOf: ({ inputTokens, outputTokens }) =>
        costOf({ read: 0, write: 0, input: inputTokens, output: outputTokens }, pricedRates(config, host)),
      isAvailable: () => policy.isAvailable(models),
      flushBegins: () => policy.flushBegins(),
      forgive: () => policy.forgive(),
      summarize: (batch, options) => this.summarize(batch, models, options),
      fuse: (summaries, options) => this.ask(models, options, (call) => summarizeRange(summaries, call)),
    };
  }

  /** A batch that is refused twice gets the digest: it would be paid for at each flush, and hold up what comes after it. */
  private async summarize(
    batch: CapturedBatch,
    models: ModelChoice,
    options: SummaryOptions,
  ): Promise<BatchSummary | null> {
    let isRefused = false;
    const made = await this.ask(models, options, (call) => {
      const onTrouble = (trouble: Trouble) => {
        isRefused = isReplyFault(trouble);
        call.onTrouble(trouble);
      };
      return summarizeBatch(batch, { ...call, onTrouble });
    });
    const key = batch.toolCalls.at(-1)?.occurrenceKey;
    if (made || !isRefused || key === undefined) return made;
    if (this.refused.has(key)) return digestSummary(batch);
    this.refused.add(key);
    return null;
  }

  /** Runs `call` with the model that the policy chooses. */
  private async ask<T>(
    models: ModelChoice,
    { config, guide, signal, onCall, onChars }: SummaryOptions,
    call: (options: SummarizeOptions) => Promise<T | null>,
  ): Promise<T | null> {
    const attempt = async (model: SummaryModel): Promise<Attempt<T>> => {
      let trouble: Trouble = { kind: "failed", detail: "no summary was given" };
      const value = await call({
        model,
        guide,
        signal,
        idleTimeoutMs: config.summarizerIdleTimeoutMs,
        maxTimeoutMs: config.summarizerMaxTimeoutMs,
        onUsage: onCall,
        onTrouble: (what) => {
          trouble = what;
        },
        onChars,
      });
      return value === null ? { trouble } : { value };
    };
    try {
      return await this.policy.ask(models, attempt);
    } catch (error) {
      this.environment.onError(error);
      return null;
    }
  }
}

/** Prices to reckon with. A model without any still takes time, or requests of a plan, and has usual ones. */
function pricedRates(config: ContextPruneConfig, host: Pick<HostSnapshot, "models" | "model">): Rates {
  const rates = summarizerRates(config, host);
  if (rates && rates.input > 0) return rates;
  const own = sessionModel(host.model, undefined)?.rates(0) ?? DEFAULT_PROFILE.rates;
  return config.summarizerModel.includes("/") ? scaleRates(own, USUAL_PRICE_SHARE) : own;
}
