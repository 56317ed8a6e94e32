/** Edits beyond which two long words are no longer taken for a misspelling of each other. */
const MAX_EDITS = 4;
/** Characters that a word needs before a candidate that merely contains it is offered. */
const MIN_CONTAINED_CHARS = 3;

/**
 * The candidates that `word` was probably meant to be, closest first, at most `limit`; none where nothing is close.
 *
 * Case is ignored. A candidate is close when it takes few edits (about one for every three characters, at most four),
 * or when it contains the word. What follows the first `/` or `.` of a candidate also counts as the candidate, so that
 * `haiku-4` finds `anthropic/haiku-4`. Candidates that are equally close keep their order.
 */
export function nearest(word: string, candidates: readonly string[], limit = 3): string[] {
  const wanted = word.toLowerCase();
  const maxEdits = Math.min(MAX_EDITS, Math.max(1, Math.floor(wanted.length / 3)));
  const close: { candidate: string; distance: number }[] = [];
  for (const candidate of candidates) {
    const whole = candidate.toLowerCase();
    const tail = whole.slice(whole.search(/[./]/) + 1);
    const distance = Math.min(editDistance(wanted, whole, maxEdits), editDistance(wanted, tail, maxEdits));
    const contained = wanted.length >= MIN_CONTAINED_CHARS && whole.includes(wanted);
    // A word that would have to be replaced altogether resembles nothing.
    if ((distance <= maxEdits && distance < wanted.length) || contained) close.push({ candidate, distance });
  }
  close.sort((a, b) => a.distance - b.distance);
  return close.slice(0, limit).map(({ candidate }) => candidate);
}

/** Insertions, deletions and replacements that turn `a` into `b`; some number above `max` where it takes more. */
function editDistance(a: string, b: string, max: number): number {
  const beyond = max + 1;
  // Pasted text can be of any length; what cannot be close is not worth a matrix.
  if (Math.abs(a.length - b.length) > max) return beyond;
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (previous[column - 1] ?? beyond) + (a[row - 1] === b[column - 1] ? 0 : 1);
      const deleted = (previous[column] ?? beyond) + 1;
      const inserted = (current[column - 1] ?? beyond) + 1;
      current.push(Math.min(replaced, deleted, inserted));
    }
    previous = current;
  }
  return Math.min(previous[b.length] ?? beyond, beyond);
}
