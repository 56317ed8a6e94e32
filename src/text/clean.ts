/** Texts of models and tools made harmless before they are kept or shown to a model. */
import { wellFormed, withoutEscapes } from "./text.ts";

/** Control characters but for tabs and line breaks. */
const CONTROLS = /(?![\t\n])\p{Cc}/gu;
/** Zero-width signs, bidirectional overrides and tag characters; the two joiners belong to words and emoji. */
const INVISIBLE = /(?![\u200c\u200d])\p{Cf}/gu;
/** Tags that mean something to the reader of a prompt or of a stub. */
const TAGS = ["output", "compressed-chain", "protected-output", "condensed-args"];
/** What a reader does not see between the signs of a tag; `a < output` is no tag, `< / output` is one. */
const UNSEEN = "[\\p{Cc}\\p{Cf}\\p{Mn}]*";
const GAP = "[\\s\\p{Cc}\\p{Cf}\\p{Mn}]*";
const ANGLE = "[<\\u2039\\u2329\\u27e8\\u3008\\ufe64\\uff1c]";
const SLASH = "[/\\\\\\u2044\\u2215\\uff0f]";
const TAG = new RegExp(`${ANGLE}(?=(?:${GAP}${SLASH}${GAP}|${UNSEEN})(?:${TAGS.map(disguised).join("|")}))`, "giu");
/** The head of a stub: `[t12 condensed`. */
const STUB = /\[(?=[^\S\n]{0,8}(?:[tb]\d{1,9}[^\S\n]{1,8})?condensed[^\S\n]{0,8}:)/gi;

/**
 * A summary as it is kept: without escape sequences, control, zero-width and bidirectional characters; what imitates a
 * stub or a tag of ours is broken up. Cleaning twice changes nothing more.
 */
export function cleanSummary(text: string): string {
  const plain = withoutEscapes(text.replace(/\r\n?/g, "\n")).replace(CONTROLS, "").replace(INVISIBLE, "");
  return escapeTags(wellFormed(plain)).replace(STUB, "[quoted: ");
}

/** Tool text must not be able to close its own fence, nor to carry tags that mean something to the reader of stubs. */
export function escapeTags(text: string): string {
  return text.replace(TAG, "&lt;");
}

/** The name of a tag in letters of either width, with whatever stands unseen between them. */
function disguised(name: string): string {
  return [...name].map((sign) => `[${sign === "-" ? "\\-\\u2010\\u2011\\uff0d" : sign + wide(sign)}]`).join(GAP);
}

/** The full-width form of a sign of ASCII. */
function wide(sign: string): string {
  return String.fromCharCode(sign.charCodeAt(0) + 0xfee0);
}
