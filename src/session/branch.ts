/** The current branch of the session, followed step by step instead of being walked anew for every event. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";

/** The part of the host's session manager that is read. */
export interface EntrySource {
  getLeafId(): string | null;
  getEntry(id: string): SessionEntry | undefined;
  getEntries(): SessionEntry[];
}

/** What the handlers read of a session: it stays readable after the session has been replaced. */
export interface SessionReader extends EntrySource {
  getSessionId(): string;
  getSessionDir(): string;
  getCwd(): string;
  getSessionFile(): string | undefined;
  getHeader(): { parentSession?: string } | null;
}

/** What `sync` found: nothing new, entries appended from an index on, or another path (a tree move). */
export type BranchChange = { kind: "same" } | { kind: "appended"; from: number } | { kind: "moved" };

/** Mirror of the path from the root to the leaf. Following an append costs what was appended, a move the whole path. */
export class BranchView {
  private path: SessionEntry[] = [];

  /** Entries from the root to the leaf. */
  get entries(): readonly SessionEntry[] {
    return this.path;
  }

  /** Follows the leaf of `source`. */
  sync(source: EntrySource): BranchChange {
    const leafId = source.getLeafId();
    const known = this.path.at(-1)?.id ?? null;
    if (leafId === known) return { kind: "same" };
    if (known === null) {
      this.path = wholePath(source, leafId);
      return { kind: "appended", from: 0 };
    }

    const added: SessionEntry[] = [];
    const reached = climb(source, leafId, known, added);
    added.reverse();
    if (reached !== known) {
      this.path = added;
      return { kind: "moved" };
    }
    const from = this.path.length;
    for (const entry of added) this.path.push(entry);
    return { kind: "appended", from };
  }
}

/** The path to the leaf, read off the list of entries: looking each of them up by its id takes many times as long. */
function wholePath(source: EntrySource, leafId: string | null): SessionEntry[] {
  const path: SessionEntry[] = [];
  const entries = source.getEntries();
  let cursor = leafId;
  for (let index = entries.length - 1; index >= 0 && cursor !== null; index--) {
    const entry = entries[index];
    if (entry?.id !== cursor) continue;
    path.push(entry);
    cursor = entry.parentId;
  }
  // A parent stands before its children in every file that a host has written, but another may be put together otherwise.
  climb(source, cursor, null, path);
  return path.reverse();
}

/** Adds the entries from `cursor` up to `end`, which is left out, and says where that came to its end. */
function climb(source: EntrySource, cursor: string | null, end: string | null, path: SessionEntry[]): string | null {
  let next = cursor;
  while (next !== null && next !== end) {
    const entry = source.getEntry(next);
    // A parent that is missing from the file starts the branch, as it does for the host.
    if (!entry) break;
    path.push(entry);
    next = entry.parentId;
  }
  return next;
}

/**
 * The messages of the branch that a request would carry, compaction taken into account, as far as capture needs them:
 * texts that the host makes up from other entries (summaries of branches and compactions) are left out.
 */
export function messagesInContext(branch: readonly SessionEntry[]): AgentMessage[] {
  return branch.slice(firstKeptIndex(branch)).flatMap((entry) => messageOf(entry) ?? []);
}

/** The message that an entry holds, or that an extension has put into the conversation by it. */
export function messageOf(entry: SessionEntry): AgentMessage | undefined {
  if (entry.type === "message") return entry.message;
  if (entry.type !== "custom_message") return undefined;
  const { customType, content, display, details } = entry;
  return { role: "custom", customType, content, display, details, timestamp: Date.parse(entry.timestamp) };
}

function firstKeptIndex(branch: readonly SessionEntry[]): number {
  const compaction = branch.findLast((entry) => entry.type === "compaction");
  if (compaction?.type !== "compaction") return 0;
  const kept = branch.findIndex((entry) => entry.id === compaction.firstKeptEntryId);
  // The host keeps nothing from before a compaction whose first kept entry is unknown.
  return kept >= 0 ? kept : branch.indexOf(compaction);
}
