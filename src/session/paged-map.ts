/** A map from strings that stays close to the memory that its entries need, however many there are. */

/**
 * Entries at which the table of a `Map` is exactly full. The next one makes JavaScriptCore take four times the memory, and
 * V8 twice: a map of 4,100 entries would have as much as one of 16,000.
 */
const PAGE_ENTRIES = 1024;

/** What can be read of a `PagedMap`; a `Map` can be read alike. */
export type ReadonlyPagedMap<V> = Pick<ReadonlyMap<string, V>, "get" | "has" | "size" | "keys"> & Iterable<[string, V]>;

/** Entries in the order in which their keys came, kept in several maps, all but the last of which are full. */
export class PagedMap<V extends object> implements ReadonlyPagedMap<V> {
  private readonly pages: Map<string, V>[] = [];

  get size(): number {
    return this.pages.reduce((sum, page) => sum + page.size, 0);
  }

  get(key: string): V | undefined {
    for (const page of this.pages) {
      const value = page.get(key);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  set(key: string, value: V): void {
    for (const page of this.pages) if (page.has(key)) return void page.set(key, value);
    this.add(key, value);
  }

  /** Adds an entry whose key is known to have none, which saves looking for one. */
  add(key: string, value: V): void {
    const last = this.pages.at(-1);
    if (last && last.size < PAGE_ENTRIES) last.set(key, value);
    else this.pages.push(new Map([[key, value]]));
  }

  *keys(): MapIterator<string> {
    for (const page of this.pages) yield* page.keys();
  }

  *values(): MapIterator<V> {
    for (const page of this.pages) yield* page.values();
  }

  *[Symbol.iterator](): MapIterator<[string, V]> {
    for (const page of this.pages) yield* page;
  }
}
