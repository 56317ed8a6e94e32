/** What other settings would have cost, reckoned on the session at hand. */
import type { Variant } from "./replay.ts";
import type { NamedReport } from "./report.ts";

/** What is not worth a change, as a share of the cost. */
const MIN_GAIN = 0.03;

/** One more variant to reckon, beside those that were asked for: no summariser, where the first one has one. */
export function adviceVariant(variants: readonly Variant[]): Variant | undefined {
  const [first] = variants;
  if (!first?.config.enabled || variants.some(({ config }) => config.summarizerModel === "none")) return undefined;
  return { name: "summarizerModel none", config: { ...first.config, summarizerModel: "none" } };
}

/**
 * What would have been cheapest of all that was reckoned, beside the first report.
 * @param reports all of one session
 */
export function describeAdvice(reports: readonly NamedReport[]): string | undefined {
  const [first, ...others] = reports;
  if (!first) return undefined;
  const { raw, pruned } = first.report;
  const choices = [
    ...others.map(({ name, report }) => ({ name: `\`${name}\``, cost: report.pruned.cost })),
    { name: "the raw session (`enabled off`)", cost: raw.cost },
  ];
  const best = choices.reduce((least, choice) => (choice.cost < least.cost ? choice : least));
  const gain = pruned.cost > 0 ? 1 - best.cost / pruned.cost : 0;
  if (gain < MIN_GAIN) return "Advice: keep these settings. No other setting that was tried would have cost much less.";
  return `Advice: ${best.name} would have cost ${Math.round(gain * 100)}% less.`;
}
