/** Text from a session or a file name, made harmless for a terminal. */

/** Controls but for line breaks, and signs that turn or hide what stands beside them; joiners belong to words and emoji. */
const UNSEEN = /(?!\n|\u200c|\u200d)[\p{Cc}\p{Cf}]/gu;

/** The text with every sign that a terminal would obey or not show written out, as in `\u{1b}`. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (sign) => `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`);
}

/** JSON with the same signs as escapes of JSON, so that it still means the same. */
export function visibleJson(json: string): string {
  return json.replace(UNSEEN, (sign) =>
    Array.from({ length: sign.length }, (_, i) => `\\u${sign.charCodeAt(i).toString(16).padStart(4, "0")}`).join(""),
  );
}
