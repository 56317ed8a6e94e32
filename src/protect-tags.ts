/** Text that a tool marks as not to be condensed: `<protect>…</protect>`. */

const TAGGED = /<protect>[\s\S]*?<\/protect>/g;

/** The marked parts of a result, marks included, joined by line breaks; empty where there are none. */
export function taggedText(resultText: string): string {
  return (resultText.match(TAGGED) ?? []).join("\n");
}
