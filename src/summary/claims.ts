/** Whether a summary names paths and numbers that stand nowhere in what it was made from. */
import type { CapturedBatch, CapturedToolCall } from "../types.js";
import { describeOutcome } from "./describe.js";

/** Paths of two or more parts; a scheme and host count as one. */
const PATH = /(?:[\w@.~-]+)?(?:[\\/][\w@.~-]+)+/g;
/** Numbers of three or more digits, separators aside: smaller ones are counts that a reader may well have made. */
const NUMBER = /\d[\d,_]*(?:\.\d+)*/g;
const MIN_DIGITS = 3;

/** The paths and numbers of `summary` that `batch` does not hold, in their order. */
export function alienClaims(summary: string, batch: CapturedBatch): string[] {
  const known = batch.toolCalls.map(knownText).join("\n") + batch.assistantText;
  const plain = withoutSeparators(known);
  const paths = (summary.match(PATH) ?? []).map(trimPath).filter((path) => !holdsPath(known, path));
  const rest = summary.replace(PATH, " ");
  const numbers = (rest.match(NUMBER) ?? []).filter((number) => {
    const digits = withoutSeparators(number);
    return digits.replace(/\D/g, "").length >= MIN_DIGITS && !plain.includes(digits);
  });
  return [...paths, ...numbers];
}

/** What a summariser was shown of a call, and the figures that it may have read off it. */
function knownText(call: CapturedToolCall): string {
  const lines = call.resultText.split("\n").length;
  const figures = `${call.resultText.length} ${lines} ${lines - 1}`;
  return [call.toolName, JSON.stringify(call.args), call.resultText, describeOutcome(call), figures].join("\n");
}

/** A model shortens a path at its head and writes either kind of slash; "and/or" is no path. */
function holdsPath(known: string, path: string): boolean {
  if (!/[.\d]|[\\/].*[\\/]/.test(path)) return true;
  const bare = path.replace(/^(?:\.{1,2}[\\/])+/, "");
  const variants = [path, bare, bare.replaceAll("\\", "/"), bare.replaceAll("/", "\\\\")];
  return variants.some((variant) => known.includes(variant));
}

function trimPath(path: string): string {
  return path.replace(/[.\-~@]+$/, "");
}

function withoutSeparators(text: string): string {
  return text.replace(/(?<=\d)[,_](?=\d)/g, "");
}
