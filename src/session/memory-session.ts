/** The entries of a session in memory: what the host's session manager is to the product, without a host or a file. */
import { join } from "node:path";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import type { SessionReader } from "./branch.ts";

export interface MemorySessionOptions {
  /** Folder that the session works in. */
  cwd?: string;
  /** Folder for blobs of oversized results; "" keeps none. */
  sessionDir?: string;
  /** The session's id, which its file is named after. */
  name?: string;
}

/** A tree of entries that grows at its leaf. */
export class MemorySession implements SessionReader {
  protected readonly entries: SessionEntry[] = [];
  protected readonly byId = new Map<string, SessionEntry>();
  protected leaf: string | null = null;
  protected readonly cwd: string;
  protected readonly sessionDir: string;
  protected readonly name: string;

  constructor({ cwd, sessionDir = "", name = "session" }: MemorySessionOptions = {}) {
    this.cwd = cwd ?? sessionDir;
    this.sessionDir = sessionDir;
    this.name = name;
  }

  /** Appends an entry at the leaf, whatever its parent was elsewhere. */
  append(entry: SessionEntry): void {
    this.add({ ...entry, parentId: this.leaf });
  }

  /** Appends a custom entry of the extension. */
  appendCustom(customType: string, data: unknown): void {
    const id = this.newId();
    this.append({ type: "custom", customType, data, id, parentId: this.leaf, timestamp: new Date(0).toISOString() });
  }

  /** An id that no entry has. */
  newId(prefix = `${this.name}-`): string {
    let number = this.entries.length + 1;
    while (this.byId.has(`${prefix}${number}`)) number += 1;
    return `${prefix}${number}`;
  }

  /** Entries from the root to the leaf, or to another entry. */
  branch(end = this.leaf): SessionEntry[] {
    const path: SessionEntry[] = [];
    for (let entry = this.find(end); entry; entry = this.find(entry.parentId)) path.push(entry);
    return path.reverse();
  }

  getLeafId = (): string | null => this.leaf;
  getEntry = (id: string): SessionEntry | undefined => this.byId.get(id);
  getEntries = (): SessionEntry[] => [...this.entries];
  getHeader = (): { parentSession?: string } | null => null;
  getCwd = (): string => this.cwd;
  getSessionId = (): string => this.name;
  getSessionDir = (): string => this.sessionDir;
  /** It counts as kept: what it stands for goes on. Nothing is written there. */
  getSessionFile = (): string | undefined => join(this.sessionDir || "/nonexistent", `${this.name}.jsonl`);

  protected add(entry: SessionEntry): void {
    this.entries.push(entry);
    this.byId.set(entry.id, entry);
    this.leaf = entry.id;
  }

  private find(id: string | null): SessionEntry | undefined {
    return id === null ? undefined : this.byId.get(id);
  }
}
