/** Which model is asked for a summary, and what happens when it does not answer. */
import type { SummaryModel } from "./summarizer.js";
import { isPassing, type Trouble, type TroubleKind } from "./summary/trouble.js";

/** Milliseconds for which a model in trouble is left alone while there is another one to ask. */
export const PROBE_COOLDOWN_MS = 300_000;

/** The configured model, and the session's own where that is another one. */
export interface ModelChoice {
  configured: SummaryModel;
  session?: SummaryModel;
}

/** What came of asking a model. */
export type Attempt<T> = { value: T } | { trouble: Trouble };

export interface PolicyListener {
  /** A kind of trouble with a model that has not been told since it last worked. */
  onTrouble(model: string, trouble: Trouble): void;
}

/**
 * Remembers how models fare in one session.
 *
 * After passing trouble the same request goes to the session's model once, and later requests go there at once, until
 * the cooldown is over and the configured model is probed with one of them. Where there is no other model, each flush
 * probes it once. A model that refuses its credentials is not asked again before the cooldown is over or the settings have
 * changed.
 */
export class SummarizerPolicy {
  private readonly blocked = new Map<string, { until: number; kind: TroubleKind; probed: boolean }>();
  private readonly told = new Set<string>();

  constructor(
    private readonly listener: PolicyListener,
    private readonly now: () => number,
  ) {}

  /** A flush begins: a model that was down may be probed once in it. */
  flushBegins(): void {
    for (const block of this.blocked.values()) block.probed = false;
  }

  /** The user has changed something or asked for it: every model gets another chance. */
  forgive(): void {
    this.blocked.clear();
  }

  /** Asks the models in turn, at most two. `null` where none gave a value. */
  async ask<T>(choice: ModelChoice, attempt: (model: SummaryModel) => Promise<Attempt<T>>): Promise<T | null> {
    for (const model of this.candidates(choice)) {
      const outcome = await attempt(model);
      if ("value" in outcome) {
        this.worked(model);
        return outcome.value;
      }
      if (outcome.trouble.kind === "cancelled") return null;
      this.failed(model, outcome.trouble);
      if (!isPassing(outcome.trouble)) return null;
    }
    return null;
  }

  private candidates({ configured, session }: ModelChoice): SummaryModel[] {
    const models = session && session.name !== configured.name ? [configured, session] : [configured];
    const free = models.filter((model) => !this.isBlocked(model));
    if (free.length > 0) return free;
    return models.filter((model) => this.mayProbe(model)).slice(0, 1);
  }

  private isBlocked(model: SummaryModel): boolean {
    const block = this.blocked.get(model.name);
    return block !== undefined && this.now() < block.until;
  }

  /** With nothing else to ask, passing trouble is worth one request in each flush. */
  private mayProbe(model: SummaryModel): boolean {
    const block = this.blocked.get(model.name);
    if (!block || block.kind === "auth" || block.probed) return false;
    block.probed = true;
    return true;
  }

  private worked(model: SummaryModel): void {
    this.blocked.delete(model.name);
    for (const key of this.told) if (key.startsWith(`${model.name}\n`)) this.told.delete(key);
  }

  private failed(model: SummaryModel, trouble: Trouble): void {
    if (isPassing(trouble) || trouble.kind === "auth") {
      this.blocked.set(model.name, { until: this.now() + PROBE_COOLDOWN_MS, kind: trouble.kind, probed: true });
    }
    const key = `${model.name}\n${trouble.kind}`;
    if (this.told.has(key)) return;
    this.told.add(key);
    this.listener.onTrouble(model.name, trouble);
  }
}
