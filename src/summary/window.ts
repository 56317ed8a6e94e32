/** Fitting text into a model's window: head and tail of what is too long, sized in tokens. */
import { grouped, sliceText } from "./text.js";

/** Tokens that a character is taken for, on the high side, so that what is fitted does fit. */
const LATIN_TOKENS_PER_CHAR = 0.4;
const OTHER_TOKENS_PER_CHAR = 1.6;
/** Last code unit of the Latin blocks, accents included. */
const LAST_LATIN = 0x24f;
/** Characters of each end of a text that are looked at to tell its script. */
const SAMPLE_CHARS = 2_000;

/** Most tokens that a text of this kind has for each of its characters. */
export function tokensPerChar(text: string): number {
  const sample = text.length <= 2 * SAMPLE_CHARS ? text : text.slice(0, SAMPLE_CHARS) + text.slice(-SAMPLE_CHARS);
  if (sample.length === 0) return LATIN_TOKENS_PER_CHAR;
  let other = 0;
  for (let i = 0; i < sample.length; i++) if (sample.charCodeAt(i) > LAST_LATIN) other += 1;
  const share = other / sample.length;
  return share * OTHER_TOKENS_PER_CHAR + (1 - share) * LATIN_TOKENS_PER_CHAR;
}

/** Head and tail of a text that has more than `maxTokens`, with the number of characters left out between them. */
export function fitText(text: string, maxTokens: number): string {
  return showEnds(text, Math.floor(maxTokens / tokensPerChar(text)));
}

/** Head and tail of a text, since errors and the newest rows stand at its end. */
export function showEnds(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const half = Math.max(1, Math.floor(maxChars / 2));
  const head = sliceText(text, 0, half);
  const tail = sliceText(text, text.length - half, text.length);
  const elided = text.length - head.length - tail.length;
  return `${head}\n[… ${grouped(elided)} characters not shown …]\n${tail}`;
}
