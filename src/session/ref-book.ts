/** Which results each ref names, and which numbers are free. */

/** Numbers above this are names that no session comes to: they answer, but no new number is counted on from them. */
const MAX_COUNTED = 999_999;

/** Numbers that may be left out before a name is far above those before it. */
const MAX_GAP = 1_000;

const NUMBERED = /^[a-z][1-9]\d{0,8}$/;

/** Names of one kind (`t12`, `b3`) and what they name. */
export class RefBook {
  /** What each number names; a ref that names one thing, as nearly all do, has it without a list around it. */
  private readonly numbered: (string | string[] | undefined)[] = [];
  /** The same for names far above those before them, and for those that are written with zeros in front. */
  private readonly others = new Map<string, string | string[]>();
  private highest = 0;
  /** Every number below this is taken. */
  private firstFree = 1;

  constructor(private readonly letter: "t" | "b") {}

  /** `ref` names `key`. Two processes on one file may have given one ref twice; it then names both. */
  add(ref: string, key: string): void {
    const number = Number(ref.slice(1));
    if (number <= MAX_COUNTED) this.highest = Math.max(this.highest, number);
    const known = this.get(ref);
    if (known === undefined) this.set(ref, key);
    else if (!this.keysOf(ref).includes(key)) this.set(ref, [...this.keysOf(ref), key]);
  }

  private set(ref: string, keys: string | string[]): void {
    const place = this.placeOf(ref);
    if (place === undefined || place > this.numbered.length + MAX_GAP) this.others.set(ref, keys);
    else {
      while (this.numbered.length < place) this.numbered.push(undefined);
      this.numbered[place] = keys;
    }
  }

  private get(ref: string): string | string[] | undefined {
    const other = this.others.size > 0 ? this.others.get(ref) : undefined;
    const place = this.placeOf(ref);
    return other ?? (place === undefined ? undefined : this.numbered[place]);
  }

  /** Place of the ref in the list of numbers; another letter or a zero in front makes it another name. */
  private placeOf(ref: string): number | undefined {
    return ref[0] === this.letter && NUMBERED.test(ref) ? Number(ref.slice(1)) : undefined;
  }

  private nameOf(number: number): string {
    return `${this.letter}${number}`;
  }

  /** What the ref names, in the order in which it came to name it. */
  keysOf(ref: string): readonly string[] {
    const keys = this.get(ref) ?? [];
    return typeof keys === "string" ? [keys] : keys;
  }

  /** Every ref that names something. */
  refs(): string[] {
    const known = [...this.numbered.keys()].filter((number) => this.numbered[number] !== undefined);
    return [...known.map((number) => this.nameOf(number)), ...this.others.keys()];
  }

  /** A name above all that have been given, `given` the highest number given beside the book. */
  next(given: number): number {
    let number = Math.max(given, this.highest) + 1;
    while (this.get(this.nameOf(number)) !== undefined) number += 1;
    return number;
  }

  /** The lowest name that stands for nothing; it is taken by adding it. */
  lowestFree(): string {
    while (this.get(this.nameOf(this.firstFree)) !== undefined) this.firstFree += 1;
    return this.nameOf(this.firstFree);
  }
}
