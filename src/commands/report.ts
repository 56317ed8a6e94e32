/** The sentence that tells what a flush has done. */
import type { FlushReport } from "../flush.js";
import { count } from "../summary/room.js";
import { grouped } from "../summary/text.js";
import { type CommandResult, info, warning } from "./types.js";

/** How a report is told. */
export interface ReportOptions {
  /** The user has ended the flush. */
  cancelled?: boolean;
  /** Nothing is said of results that a summary did not make shorter. */
  quietOversizedSkips?: boolean;
}

/** What a flush has done, in one sentence. */
export function describeReport(report: FlushReport, options: ReportOptions = {}): CommandResult {
  const { condensed, duplicates, failed, chains } = report;
  const rest = leftOvers(report, options);
  const cancelled = (options.cancelled || report.cancelled === true) && failed > 0;
  if (condensed + duplicates + chains > 0) {
    const head = cancelled ? "Cancelled, but condensed" : "Condensed";
    const why = cancelled ? "" : "The summariser failed for ";
    const pending =
      failed > 0 ? ` ${why}${count(failed, "result")}${cancelled ? " stay pending." : ", which stay pending."}` : "";
    return info(`${head} ${whatWasDone(report)}.${pending}${rest}`);
  }
  if (cancelled) return info(`Cancelled: nothing was condensed, ${count(failed, "result")} stay pending.${rest}`);
  if (failed > 0) {
    return warning(`Nothing condensed: the summariser failed; ${count(failed, "result")} stay pending.${rest}`);
  }
  return info(
    report.trivial + report.oversized > 0
      ? `Nothing condensed.${rest}`
      : "Nothing to condense: no finished output is pending that the model has already answered.",
  );
}

function whatWasDone({ condensed, duplicates, chains, rawChars, keptChars }: FlushReport): string {
  const sizes = `${grouped(rawChars)} to ${grouped(keptChars)} characters`;
  const repeats = duplicates > 0 ? ` and ${count(duplicates, "repeat")}` : "";
  const compressed = chains > 0 ? `${count(chains, "chain")} compressed` : "";
  if (condensed + duplicates === 0) return compressed;
  return `${count(condensed, "result")}${repeats}: ${sizes}${compressed ? `; ${compressed}` : ""}`;
}

function leftOvers({ trivial, oversized }: FlushReport, { quietOversizedSkips }: ReportOptions): string {
  const skipped = [
    ...(trivial > 0 ? [`${count(trivial, "result")} too small`] : []),
    ...(oversized > 0 && !quietOversizedSkips ? [`${count(oversized, "result")} not made shorter by a summary`] : []),
  ].join(", ");
  return skipped ? ` Left as they are: ${skipped}.` : "";
}
