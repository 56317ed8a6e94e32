/** The calls that are condensed on one branch, most of which the file holds by their keys already. */
import type { IndexedCall } from "./index-calls.ts";

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

  /** Adds a call unless another has its key; false where one has. */
  add(call: IndexedCall): boolean {
    const { occurrenceKey: key } = call;
    const known = this.known(key);
    const isKnown = known?.branch === this && known.occurrenceKey === key;
    if (isKnown || (this.others.size > 0 && this.others.has(key))) return false;
    this.inOrder.push(call);
    if (known === call) call.branch = this;
    else this.others.set(key, call);
    return true;
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
