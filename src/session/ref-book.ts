/** Which results each ref names. Refs are numbers given in a row, so a list holds them in a fraction of a map's memory. */

/** Numbers that a ref may leave out in front of it: beyond, a damaged file would make the list long and empty. */
const MAX_GAP = 1024;

/** Refs of a file and the occurrences that they name. */
export class RefBook {
  /** First occurrence of `t1`, `t2`… by their numbers. */
  private readonly numbered: (string | undefined)[] = [];
  /** Occurrences of all other refs, and the further ones of those that name several. */
  private readonly others = new Map<string, string[]>();
  /** Highest number that a ref has. */
  highest = 0;

  /** `ref` names the occurrence. Two processes on one file may have given one ref twice; it then names both. */
  add(ref: string, key: string): void {
    const place = placeOf(ref);
    this.highest = Math.max(this.highest, place ?? Number(ref.slice(1)));
    const others = this.others.get(ref);
    const first = place === undefined ? undefined : this.numbered[place];
    if (first === key || others?.includes(key)) return;
    if (others) others.push(key);
    else if (place === undefined || first !== undefined || place > this.numbered.length + MAX_GAP)
      this.others.set(ref, [key]);
    else this.put(place, key);
  }

  /** The occurrences that the ref names, in the order in which it came to name them. */
  keysOf(ref: string): string[] {
    const place = placeOf(ref);
    const first = place === undefined ? undefined : this.numbered[place];
    const others = this.others.get(ref) ?? [];
    return first === undefined ? [...others] : [first, ...others];
  }

  has(ref: string): boolean {
    return this.keysOf(ref).length > 0;
  }

  /** Every ref that names something. */
  refs(): string[] {
    const numbered = this.numbered.flatMap((key, number) => (key === undefined ? [] : [`t${number}`]));
    return [...new Set([...numbered, ...this.others.keys()])];
  }

  /** The list has no holes, which engines keep far more slowly. */
  private put(place: number, key: string): void {
    while (this.numbered.length < place) this.numbered.push(undefined);
    this.numbered[place] = key;
  }
}

/**
 * Place in the list of a ref in the form in which refs are given: `t`, and a number without a zero in front. Read by hand,
 * since every ref of a file comes by here, and other names may stand for a number too (`t1e3`).
 */
function placeOf(name: string): number | undefined {
  if (!name.startsWith("t") || name.length < 2 || name.length > 8 || name[1] === "0") return undefined;
  let number = 0;
  for (let i = 1; i < name.length; i++) {
    const digit = name.charCodeAt(i) - 48;
    if (digit < 0 || digit > 9) return undefined;
    number = number * 10 + digit;
  }
  return number;
}
