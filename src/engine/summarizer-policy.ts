/** Which model is asked for a summary, and what happens when it does not answer. */
import type { ModelChoice, SummaryModel } from "../summarizer.ts";
import { isPassing, type Trouble, type TroubleKind } from "../summary/trouble.ts";

/** Milliseconds for which a model in trouble is left alone while there is another one to ask. */
export const PROBE_COOLDOWN_MS = 300_000;

/** What came of asking a model. */
export type Attempt<T> = { value: T } | { trouble: Trouble };

export interface PolicyListener {
  /** A kind of trouble with a model that has not been told since it last worked. */
  onTrouble(model: string, trouble: Trouble): void;
}

/** The circuit breaker of a model that was in trouble when it was asked last: it keeps further requests from it. */
interface CircuitBreaker {
  /** ms since the epoch. */
  until: number;
  kind: TroubleKind;
  /** Settles when a request that finds out whether it is back is over; present while there is one. */
  probe?: Promise<void>;
  /** It has been asked in this flush. */
  probed: boolean;
}

/**
 * Remembers how models fare in one session.
 *
 * After passing trouble the same request goes to the session's model once, and later requests go there at once, until
 * the cooldown is over and one request probes the configured model. Where no model is left to ask, each flush probes
 * each of them once at most. Where the configured model refuses its credentials nobody is asked before the cooldown is
 * over: the user has to see to it, and has not chosen to pay for another model.
 */
export class SummarizerPolicy {
  private readonly breakers = new Map<string, CircuitBreaker>();
  private readonly told = new Set<string>();

  constructor(
    private readonly listener: PolicyListener,
    private readonly now: () => number,
  ) {}

  /** A flush begins: models that were down may be probed once in it. */
  flushBegins(): void {
    for (const breaker of this.breakers.values()) breaker.probed = false;
  }

  /** The user has changed something or asked for it: every model gets another chance. */
  forgive(): void {
    this.breakers.clear();
  }

  /** Some model would be asked now, without the probe that each flush is allowed. */
  isAvailable(choice: ModelChoice): boolean {
    return !this.isRefused(choice) && modelsOf(choice).some((model) => this.mayAsk(model));
  }

  /** Asks the models in turn, at most two. `null` where none gave a value. */
  async ask<T>(choice: ModelChoice, attempt: (model: SummaryModel) => Promise<Attempt<T>>): Promise<T | null> {
    for (;;) {
      const models = this.candidates(choice);
      if (models.length > 0) return this.askInTurn(models, attempt);
      const probe = this.probeOf(choice);
      if (!probe) return null;
      await probe;
    }
  }

  /** Models to ask now, the best first. */
  private candidates(choice: ModelChoice): SummaryModel[] {
    if (this.isRefused(choice)) return [];
    const models = modelsOf(choice);
    const ready = models.filter((model) => this.mayAsk(model));
    return ready.length > 0 ? ready : models.filter((model) => this.mayProbe(model)).slice(0, 1);
  }

  private async askInTurn<T>(
    models: readonly SummaryModel[],
    attempt: (model: SummaryModel) => Promise<Attempt<T>>,
  ): Promise<T | null> {
    for (const [i, model] of models.entries()) {
      // Another request may have found it down meanwhile.
      if (i > 0 && !this.mayAsk(model)) continue;
      const outcome = await this.askOne(model, attempt);
      if ("value" in outcome) return outcome.value;
      if (!isPassing(outcome.trouble)) return null;
    }
    return null;
  }

  private async askOne<T>(
    model: SummaryModel,
    attempt: (model: SummaryModel) => Promise<Attempt<T>>,
  ): Promise<Attempt<T>> {
    const breaker = this.breakers.get(model.name);
    let settle = () => {};
    if (breaker) {
      breaker.probed = true;
      breaker.probe = new Promise((resolve) => {
        settle = resolve;
      });
    }
    try {
      const outcome = await attempt(model);
      if ("value" in outcome) this.worked(model);
      else this.failed(model, outcome.trouble);
      return outcome;
    } finally {
      if (breaker) breaker.probe = undefined;
      settle();
    }
  }

  /** The configured model has refused its credentials a short while ago. */
  private isRefused({ configured }: ModelChoice): boolean {
    const breaker = this.breakers.get(configured.name);
    return breaker?.kind === "auth" && !this.mayAsk(configured);
  }

  private mayAsk(model: SummaryModel): boolean {
    const breaker = this.breakers.get(model.name);
    return !breaker || (this.now() >= breaker.until && !breaker.probe);
  }

  private mayProbe(model: SummaryModel): boolean {
    const breaker = this.breakers.get(model.name);
    return breaker !== undefined && breaker.kind !== "auth" && !breaker.probed && !breaker.probe;
  }

  /** The probe whose outcome tells whether one of the models can be asked. */
  private probeOf(choice: ModelChoice): Promise<void> | undefined {
    return modelsOf(choice)
      .map((model) => this.breakers.get(model.name)?.probe)
      .find((probe) => probe !== undefined);
  }

  private worked(model: SummaryModel): void {
    this.breakers.delete(model.name);
    for (const key of this.told) if (key.startsWith(`${model.name}\n`)) this.told.delete(key);
  }

  private failed(model: SummaryModel, trouble: Trouble): void {
    const { kind } = trouble;
    if (kind === "cancelled" || kind === "unusable") return;
    if (isPassing(trouble) || kind === "auth") {
      const until = this.now() + PROBE_COOLDOWN_MS;
      this.breakers.set(model.name, { until, kind, probed: true });
    } else this.breakers.delete(model.name);
    const key = `${model.name}\n${kind}`;
    if (this.told.has(key)) return;
    this.told.add(key);
    this.listener.onTrouble(model.name, kind === "auth" ? withRemedy(trouble) : trouble);
  }
}

function modelsOf({ configured, session }: ModelChoice): SummaryModel[] {
  return session && session.name !== configured.name ? [configured, session] : [configured];
}

/** Only the user can see to it. */
function withRemedy({ kind, detail }: Trouble): Trouble {
  const said = detail.replace(/[.\s]+$/, "");
  return { kind, detail: `${said}. Use /login, or choose another summarizerModel with /pruner model` };
}
