/** Making text of tools and models fit to be drawn. */
import { ANSI } from "../text/text.js";

/** The text without escapes and control characters, which must not reach the terminal; tabs become blanks. */
export function readable(text: string): string {
  return text
    .replace(ANSI, "")
    .replace(/\t/g, "   ")
    .replace(/\r\n?/g, "\n")
    .replace(/[^\P{Cc}\n]/gu, "");
}
