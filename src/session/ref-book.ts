/** Which results each ref names, and which numbers are free. */

/** Numbers above this are names that no session comes to: they answer, but no new number is counted on from them. */
const MAX_COUNTED = 999_999;

/** Names of one kind (`t12`, `b3`) and what they name. */
export class RefBook {
  /** A ref that names one thing, as nearly all do, has it without a list around it. */
  private readonly keys = new Map<string, string | string[]>();
  private highest = 0;
  /** Every number below this is taken. */
  private firstFree = 1;

  constructor(private readonly letter: "t" | "b") {}

  /** `ref` names `key`. Two processes on one file may have given one ref twice; it then names both. */
  add(ref: string, key: string): void {
    const number = Number(ref.slice(1));
    if (number <= MAX_COUNTED) this.highest = Math.max(this.highest, number);
    const keys = this.keysOf(ref);
    if (keys.length === 0) this.keys.set(ref, key);
    else if (!keys.includes(key)) this.keys.set(ref, [...keys, key]);
  }

  /** What the ref names, in the order in which it came to name it. */
  keysOf(ref: string): readonly string[] {
    const keys = this.keys.get(ref) ?? [];
    return typeof keys === "string" ? [keys] : keys;
  }

  /** Every ref that names something. */
  refs(): string[] {
    return [...this.keys.keys()];
  }

  /** A name above all that have been given, `given` the highest number given beside the book. */
  next(given: number): number {
    let number = Math.max(given, this.highest) + 1;
    while (this.keys.has(`${this.letter}${number}`)) number += 1;
    return number;
  }

  /** The lowest name that stands for nothing; it is taken by adding it. */
  lowestFree(): string {
    while (this.keys.has(`${this.letter}${this.firstFree}`)) this.firstFree += 1;
    return `${this.letter}${this.firstFree}`;
  }
}
