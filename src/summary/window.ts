/** Fitting text into a model's window: head and tail of what is too long, sized in tokens. */
import { grouped, sliceText } from "../text/text.js";

/**
 * Tokens that a UTF-16 code unit is taken for, on the high side, so that what is fitted does fit: words; digits, which
 * some models read one by one; capitals and signs, of which hashes and base64 are full; anything beyond Latin letters.
 */
const WORD_TOKENS = 0.4;
const SIGN_TOKENS = 0.6;
const DIGIT_TOKENS = 1;
const OTHER_TOKENS = 1.6;
/** Last code unit of the Latin blocks, accents included. */
const LAST_LATIN = 0x24f;
/** Room for the line that tells how much was left out. */
const ELISION_TOKENS = 25;

/** Most tokens that a text has; counted no further than `enough`. */
export function tokensOf(text: string, enough = Number.POSITIVE_INFINITY): number {
  let tokens = 0;
  for (let i = 0; i < text.length && tokens <= enough; i++) tokens += tokensOfUnit(text.charCodeAt(i));
  return tokens;
}

/** Head and tail of a text that has more than `maxTokens`, with the number of characters left out between them. */
export function fitText(text: string, maxTokens: number): string {
  if (tokensOf(text, maxTokens) <= maxTokens) return text;
  const half = Math.max(1, (maxTokens - ELISION_TOKENS) / 2);
  let head = 0;
  for (let tokens = 0; head < text.length; head++) {
    tokens += tokensOfUnit(text.charCodeAt(head));
    if (tokens > half) break;
  }
  let tail = text.length;
  for (let tokens = 0; tail > head; tail--) {
    tokens += tokensOfUnit(text.charCodeAt(tail - 1));
    if (tokens > half) break;
  }
  return showEnds(text, head, tail);
}

/** Errors and the newest rows stand at the end of a text, so that it is never shown by its head alone. */
function showEnds(text: string, headEnd: number, tailStart: number): string {
  const head = sliceText(text, 0, headEnd);
  const tail = sliceText(text, tailStart, text.length);
  const elided = text.length - head.length - tail.length;
  if (elided === 0) return text;
  return `${head}\n[… ${grouped(elided)} characters not shown …]\n${tail}`;
}

function tokensOfUnit(unit: number): number {
  if (unit > LAST_LATIN) return OTHER_TOKENS;
  if ((unit >= 0x61 && unit <= 0x7a) || unit === 0x20 || unit === 0x0a) return WORD_TOKENS;
  if (unit >= 0x30 && unit <= 0x39) return DIGIT_TOKENS;
  return SIGN_TOKENS;
}
