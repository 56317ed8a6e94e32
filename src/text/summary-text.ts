/** Text of a summary as it may be stored: a model or a tool wrote it, and it is shown to models and on terminals. */
import { ANSI, wellFormed } from "./text.js";

/** Overrides, embeddings and isolates of the writing direction, which make a text read otherwise than it is. */
const BIDI = /[\u202a-\u202e\u2066-\u2069]/g;
/** Control characters but the tab and the line break. */
const CONTROLS = /(?![\t\n])\p{Cc}/gu;
/** Beginnings of what only this extension writes: stubs, chains, protected output, markers of arguments. */
const IMITATIONS =
  /\[(?=\s{0,9}(?:[tb]\d{1,9}\s{1,9})?condensed\s{0,9}:)|<(?=\s{0,9}\/?\s{0,9}(?:compressed-chain|protected-output|condensed-args)\b)/gi;

/**
 * The text without escape sequences, control characters and changes of direction. What imitates a stub or a compressed
 * chain is broken up by a dot behind its bracket. Applying it twice changes nothing more.
 */
export function cleanSummary(text: string): string {
  const plain = wellFormed(text).replace(/\r\n?/g, "\n").replace(ANSI, "").replace(BIDI, "").replace(CONTROLS, "");
  return plain.replace(IMITATIONS, (bracket) => `${bracket}\u00b7`);
}
