/** Text that a tool marks as not to be condensed: `<protect>…</protect>`. */

const BEGIN = "<protect>";
const END = "</protect>";

/** The marked parts of a result, marks included, joined by line breaks; empty where there are none. */
export function taggedText(resultText: string): string {
  return separate(resultText).tagged.join("\n");
}

/** The text without its marked parts. */
export function withoutTagged(text: string): string {
  return separate(text).rest.join("").trim();
}

function separate(text: string): { tagged: string[]; rest: string[] } {
  const tagged: string[] = [];
  const rest: string[] = [];
  let from = 0;
  // A regular expression would look for the end again behind every mark that has none.
  for (let begin = text.indexOf(BEGIN); begin >= 0; begin = text.indexOf(BEGIN, from)) {
    const end = text.indexOf(END, begin);
    if (end < 0) break;
    rest.push(text.slice(from, begin));
    from = end + END.length;
    tagged.push(text.slice(begin, from));
  }
  rest.push(text.slice(from));
  return { tagged, rest };
}
