/** Fitting text into a model's window: head and tail of what is too long, sized in tokens. */
import { grouped, sliceText } from "../text/text.ts";
import { mostTokens, mostTokensOfUnit } from "../transcript/tokens.ts";

/** Room for the line that tells how much was left out. */
const ELISION_TOKENS = 25;

/** Head and tail of a text that has more than `maxTokens`, with the number of characters left out between them. */
export function fitText(text: string, maxTokens: number): string {
  if (mostTokens(text, maxTokens) <= maxTokens) return text;
  const half = Math.max(1, (maxTokens - ELISION_TOKENS) / 2);
  let head = 0;
  for (let tokens = 0; head < text.length; head++) {
    tokens += mostTokensOfUnit(text.charCodeAt(head));
    if (tokens > half) break;
  }
  let tail = text.length;
  for (let tokens = 0; tail > head; tail--) {
    tokens += mostTokensOfUnit(text.charCodeAt(tail - 1));
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
