/** The entries of a session in memory: what the host's session manager is to the product, without a host or a file. */
import { join } from "node:path";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import type { SessionReader } from "../host/host.js";

/** A tree that only ever grows at its leaf, so that its entries are its branch. */
export class EntryTree implements SessionReader {
  private readonly entries: SessionEntry[] = [];
  private readonly byId = new Map<string, SessionEntry>();
  private leaf: string | null = null;

  /**
   * @param cwd folder that the session worked in
   * @param sessionDir folder for blobs of oversized results; "" keeps none
   */
  constructor(
    private readonly cwd: string,
    private readonly sessionDir = "",
  ) {}

  /** Appends an entry at the leaf, whatever its parent was elsewhere. */
  append(entry: SessionEntry): void {
    const placed = { ...entry, parentId: this.leaf };
    this.entries.push(placed);
    this.byId.set(placed.id, placed);
    this.leaf = placed.id;
  }

  /** Appends a custom entry of the extension. */
  appendCustom(customType: string, data: unknown): void {
    const id = this.newId();
    this.append({ type: "custom", customType, data, id, parentId: this.leaf, timestamp: new Date(0).toISOString() });
  }

  /** Entries from the root to the leaf. */
  get branch(): readonly SessionEntry[] {
    return this.entries;
  }

  /** An id that no entry has. */
  newId(): string {
    let number = this.entries.length;
    while (this.byId.has(`replay-${number}`)) number += 1;
    return `replay-${number}`;
  }

  getLeafId = (): string | null => this.leaf;
  getEntry = (id: string): SessionEntry | undefined => this.byId.get(id);
  getEntries = (): SessionEntry[] => [...this.entries];
  getHeader = (): null => null;
  getCwd = (): string => this.cwd;
  getSessionId = (): string => "replay";
  getSessionDir = (): string => this.sessionDir;
  getSessionFile = (): string | undefined => (this.sessionDir ? join(this.sessionDir, "replay.jsonl") : undefined);
}
