/** The sentence that tells what a flush has done. */

import type { FlushReport } from "../flush.ts";
import { count, grouped } from "../text/text.ts";
import { type CommandResult, info, warning } from "./types.ts";

/** How a report is told. */
export interface ReportOptions {
  /** The user has ended the flush. */
  cancelled?: boolean;
  /** Nothing is said of results that a summary did not make shorter. */
  quietOversizedSkips?: boolean;
}

/** What a flush has done, in one sentence. */
export function describeReport(report: FlushReport, options: ReportOptions = {}): CommandResult {
  const { failed } = report;
  const rest = leftOvers(report, options);
  // Where all was ready by then, the flush has done what it was asked for.
  const cancelled = (options.cancelled || report.cancelled === true) && failed > 0;
  const done = whatWasDone(report);
  if (done !== "" && cancelled) return info(`Cancelled, but ${done}. ${staysPending(failed)}.${rest}`);
  if (done !== "") {
    const pending = failed > 0 ? ` The summariser failed for ${staysPending(failed, ", which")}.` : "";
    return info(`${capitalized(done)}.${pending}${rest}`);
  }
  if (cancelled) return info(`Cancelled: nothing was condensed, ${staysPending(failed)}.${rest}`);
  if (failed > 0) return warning(`Nothing condensed: the summariser failed; ${staysPending(failed)}.${rest}`);
  return info(
    report.trivial + report.oversized > 0
      ? `Nothing condensed.${rest}`
      : "Nothing to condense: there is no pending output that the model has answered.",
  );
}

/** Empty where nothing was. */
function whatWasDone({ condensed, duplicates, chains, rawChars, keptChars }: FlushReport): string {
  const parts = [
    ...(condensed > 0 ? [count(condensed, "result")] : []),
    ...(duplicates > 0 ? [count(duplicates, "duplicate")] : []),
  ];
  // The sizes are those of the results alone.
  const sizes = condensed > 0 ? `: ${grouped(rawChars)} to ${grouped(keptChars)} characters` : "";
  const results = parts.length > 0 ? `condensed ${parts.join(" and ")}${sizes}` : "";
  const compressed = chains > 0 ? `compressed ${count(chains, "chain")}` : "";
  return [results, compressed].filter(Boolean).join("; ");
}

function staysPending(results: number, link = ""): string {
  return `${count(results, "result")}${link} ${results === 1 ? "stays" : "stay"} pending`;
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function leftOvers({ trivial, oversized }: FlushReport, { quietOversizedSkips }: ReportOptions): string {
  const skipped = [
    ...(trivial > 0 ? [`${count(trivial, "result")} too small`] : []),
    ...(oversized > 0 && !quietOversizedSkips ? [`${count(oversized, "result")} not made shorter by a summary`] : []),
  ].join(", ");
  return skipped ? ` Left as they are: ${skipped}.` : "";
}
