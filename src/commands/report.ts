/** The sentence that tells what a flush has done. */
import type { FlushReport } from "../flush.js";
import { count } from "../summary/room.js";
import { type CommandResult, info } from "./types.js";

/** What a flush has done, in one sentence. */
export function describeReport(report: FlushReport): CommandResult {
  const { condensed, duplicates, trivial, oversized, failed, chains } = report;
  const skipped = [
    ...(trivial > 0 ? [`${count(trivial, "result")} too small`] : []),
    ...(oversized > 0 ? [`${count(oversized, "result")} not made shorter by a summary`] : []),
  ].join(", ");
  const rest = skipped ? ` Left as they are: ${skipped}.` : "";
  if (failed > 0 && condensed + duplicates + chains === 0) {
    return {
      message: `Nothing condensed: the summariser failed; ${count(failed, "result")} stay pending.${rest}`,
      type: "warning",
    };
  }
  if (condensed + duplicates + chains === 0) {
    return info(
      skipped
        ? `Nothing condensed.${rest}`
        : "Nothing to condense: no finished output is pending that the model has already answered.",
    );
  }
  const sizes = `${number(report.rawChars)} to ${number(report.keptChars)} characters`;
  const repeats = duplicates > 0 ? ` and ${count(duplicates, "repeat")}` : "";
  const pending = failed > 0 ? ` The summariser failed for ${count(failed, "result")}, which stay pending.` : "";
  return info(`Condensed ${count(condensed, "result")}${repeats}: ${sizes}.${pending}${rest}`);
}

function number(value: number): string {
  return value.toLocaleString("en-US");
}
