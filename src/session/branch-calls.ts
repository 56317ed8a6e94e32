/** The calls that are condensed on one branch, most of which the file holds by their keys already. */
import type { IndexedCall } from "./index-calls.js";

/** Calls by occurrence key, in the order in which they were added; a second list of keys would be as large as the first. */
export class BranchCalls {
  private readonly inOrder: IndexedCall[] = [];
  /** Those that the file holds otherwise, or not at all. */
  private readonly others = new Map<string, IndexedCall>();

  /** @param known the call of the file that an occurrence names */
  constructor(private readonly known: (key: string) => IndexedCall | undefined) {}

  get size(): number {
    return this.inOrder.length;
  }

  get(key: string): IndexedCall | undefined {
    const call = this.known(key);
    return call?.branch === this && call.occurrenceKey === key ? call : this.others.get(key);
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  /** Adds a call whose key no other has. */
  add(call: IndexedCall): void {
    this.inOrder.push(call);
    if (this.known(call.occurrenceKey) === call) call.branch = this;
    else this.others.set(call.occurrenceKey, call);
  }

  delete(key: string): void {
    const call = this.get(key);
    if (!call) return;
    this.inOrder.splice(this.inOrder.indexOf(call), 1);
    this.others.delete(key);
    if (call.branch === this) call.branch = undefined;
  }

  keys(): string[] {
    return this.inOrder.map((call) => call.occurrenceKey);
  }

  values(): readonly IndexedCall[] {
    return this.inOrder;
  }
}
