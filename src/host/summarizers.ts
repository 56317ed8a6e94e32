/** The host's models as a session's summarisers: which one is asked, and what happens when it does not answer. */
import { SUMMARY_SHARE } from "../cost/forecast.js";
import { costOf, DEFAULT_PROFILE, type Rates, scaleRates } from "../cost/prices.js";
import type { Environment, ModelSummarizer, Summarizer, SummaryOptions } from "../engine/environment.js";
import { type Attempt, SummarizerPolicy } from "../engine/summarizer-policy.js";
import {
  type ModelChoice,
  type SummarizeOptions,
  type SummaryModel,
  summarizeBatch,
  summarizeRange,
} from "../summarizer.js";
import type { Trouble } from "../summary/trouble.js";
import type { ContextPruneConfig } from "../types.js";
import type { HostSnapshot } from "./host.js";
import { chooseSummarizer, type SummarizerChoice, summarizerRates } from "./models.js";
import { sessionModel } from "./session-model.js";

/** Price of a summariser that is not the session's model, as a share of it, where it is unknown. */
const USUAL_PRICE_SHARE = 0.2;

/** Remembers for one session how its models fare. */
export class HostSummarizers {
  private readonly policy: SummarizerPolicy;

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
      summarize: (batch, options) => this.ask(models, options, (call) => summarizeBatch(batch, call)),
      fuse: (summaries, options) => this.ask(models, options, (call) => summarizeRange(summaries, call)),
    };
  }

  /** Runs `call` with the model that the policy chooses. */
  private async ask<T>(
    models: ModelChoice,
    { config, signal, onCall, onChars }: SummaryOptions,
    call: (options: SummarizeOptions) => Promise<T | null>,
  ): Promise<T | null> {
    const attempt = async (model: SummaryModel): Promise<Attempt<T>> => {
      let trouble: Trouble = { kind: "failed", detail: "no summary was given" };
      const value = await call({
        model,
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
