/** A file as far as a recording shows it: some of its lines, perhaps all. Lines are counted from 1. */

/** A stretch of lines in a row that are known. */
interface Stretch {
  from: number;
  lines: string[];
}

export class KnownFile {
  private lines = new Map<number, string>();
  /** Lines of the file; `undefined` where its end has not been seen. */
  private count: number | undefined;
  /** Texts that stand in the file at a place that is not known. */
  private pieces: string[] = [];

  /** All of the text. */
  static of(text: string): KnownFile {
    const file = new KnownFile();
    const lines = text.split("\n");
    file.learn(1, lines, lines.length);
    return file;
  }

  /** Number of lines, where the end has been seen. */
  get total(): number | undefined {
    return this.count;
  }

  get isEmpty(): boolean {
    return this.lines.size === 0 && this.pieces.length === 0;
  }

  /** The whole text, where every line is known. */
  get text(): string | undefined {
    const [only] = this.stretches();
    return this.count !== undefined && only?.lines.length === this.count ? only.lines.join("\n") : undefined;
  }

  line(number: number): string | undefined {
    return this.lines.get(number);
  }

  /** Every known line with its number, in order. */
  numbered(): [number, string][] {
    return [...this.lines].sort(([a], [b]) => a - b);
  }

  /**
   * Lines that were seen. Where they contradict what was known, the file has been changed unseen, and only they remain.
   * @param total lines of the file, where the tool told
   */
  learn(from: number, lines: readonly string[], total?: number): void {
    if (this.contradicts(from, lines, total)) this.forget();
    for (const [i, line] of lines.entries()) this.lines.set(from + i, line);
    this.count ??= total;
  }

  /** As `learn`, but only where nothing is contradicted: for what was seen later. */
  learnMore(from: number, lines: readonly string[], total?: number): void {
    if (!this.contradicts(from, lines, total)) this.learn(from, lines, total);
  }

  /** A text that stands somewhere in the file. */
  learnPiece(text: string): void {
    this.pieces.push(text);
  }

  forget(): void {
    this.lines.clear();
    this.pieces = [];
    this.count = undefined;
  }

  /** One text has been put into the place of another. Where that place is not known, no line keeps its number. */
  replace(oldText: string, newText: string): void {
    // Any other piece may overlap with what is gone.
    this.pieces = [];
    for (const { from, lines } of this.stretches()) {
      const text = lines.join("\n");
      const at = text.indexOf(oldText);
      if (at < 0) continue;
      // The one that was replaced may have begun before what is known, and run into this one.
      if (from > 1 && at < oldText.length - 1 && overlapsItself(oldText)) break;
      const changed = (text.slice(0, at) + newText + text.slice(at + oldText.length)).split("\n");
      this.splice(from, lines.length, changed);
      return;
    }
    this.forget();
    this.learnPiece(newText);
  }

  /** Whether a text stands in the file; `undefined` where that cannot be known. */
  has(text: string): boolean | undefined {
    if (this.stretches().some(({ lines }) => lines.join("\n").includes(text))) return true;
    if (this.pieces.some((piece) => piece.includes(text))) return true;
    return this.text === undefined ? undefined : false;
  }

  private contradicts(from: number, lines: readonly string[], total: number | undefined): boolean {
    if (total !== undefined && this.count !== undefined && total !== this.count) return true;
    return lines.some((line, i) => (this.lines.get(from + i) ?? line) !== line);
  }

  private splice(from: number, removed: number, lines: readonly string[]): void {
    const shift = lines.length - removed;
    const others = this.numbered().filter(([number]) => number < from || number >= from + removed);
    this.lines = new Map(others.map(([number, line]) => [number < from ? number : number + shift, line]));
    for (const [i, line] of lines.entries()) this.lines.set(from + i, line);
    if (this.count !== undefined) this.count += shift;
  }

  private stretches(): Stretch[] {
    const found: Stretch[] = [];
    for (const [number, line] of this.numbered()) {
      const last = found.at(-1);
      if (last && last.from + last.lines.length === number) last.lines.push(line);
      else found.push({ from: number, lines: [line] });
    }
    return found;
  }
}

/** Two places of the text can share characters: it ends as it begins. */
function overlapsItself(text: string): boolean {
  for (let length = 1; length < text.length; length++) if (text.endsWith(text.slice(0, length))) return true;
  return false;
}
