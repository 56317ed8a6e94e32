/** What the summariser has used in this session, all told. */
import { CUSTOM_TYPE_STATS, type StatsEntryData, type SummaryUsage } from "../types.ts";
import type { OwnEntry } from "./entries.ts";

/** Running totals; each stats entry holds the totals at its time, so the last one is all that a restart needs. */
export class SummarizerStats {
  private totals: StatsEntryData = {
    totalInputTokens: 0,
    totalOutputTokens: 0,
    totalCost: 0,
    callCount: 0,
    failedCallCount: 0,
  };
  private unsaved = false;

  /** Takes over the last totals among the own entries of the session's file. */
  restore(entries: readonly OwnEntry[]): void {
    const last = entries.findLast((own) => own.kind === "stats");
    if (last) this.totals = { ...last.data };
  }

  /** Counts one call of the summariser. */
  add(usage: SummaryUsage, ok: boolean): void {
    const { totals } = this;
    this.totals = {
      totalInputTokens: totals.totalInputTokens + usage.inputTokens,
      totalOutputTokens: totals.totalOutputTokens + usage.outputTokens,
      totalCost: totals.totalCost + usage.cost,
      callCount: totals.callCount + 1,
      failedCallCount: totals.failedCallCount + (ok ? 0 : 1),
    };
    this.unsaved = true;
  }

  get current(): Readonly<StatsEntryData> {
    return this.totals;
  }

  /** Appends the totals where they have changed since the last time. */
  save(append: (customType: string, data: unknown) => void): void {
    if (!this.unsaved) return;
    append(CUSTOM_TYPE_STATS, this.totals);
    this.unsaved = false;
  }
}
