/** Cache breakpoints: which ends of earlier prompts the next one still holds. Some providers find nothing else. */
import { isSameMark, type Mark } from "./prompt-marks.ts";

/** Follows the requests of one session. */
export class CacheBreakpoints {
  private marks: readonly Mark[] = [];
  private ends: readonly number[] = [];

  /** @param marks of its messages as they are sent */
  requestLeaves(marks: readonly Mark[]): void {
    const change = this.marks.findIndex((mark, i) => !isSameMark(mark, marks[i]));
    const common = change < 0 ? this.marks.length : change;
    this.ends = [...this.ends.filter((end) => end <= common), marks.length];
    this.marks = marks;
  }

  /** Nothing that was sent is kept any more. */
  clear(): void {
    this.ends = [];
  }

  /** Numbers of messages after which a prompt ended. */
  get lengths(): ReadonlySet<number> {
    return new Set(this.ends);
  }
}
