/** The current branch of the session, followed step by step instead of being walked anew for every event. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";

/** The part of the host's session manager that is read. */
export interface EntrySource {
  getLeafId(): string | null;
  getEntry(id: string): SessionEntry | undefined;
  getEntries(): SessionEntry[];
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

    const added: SessionEntry[] = [];
    let cursor: string | null = leafId;
    while (cursor !== null && cursor !== known) {
      const entry = source.getEntry(cursor);
      // A parent that is missing from the file starts the branch, as it does for the host.
      if (!entry) break;
      added.push(entry);
      cursor = entry.parentId;
    }
    added.reverse();
    if (known !== null && cursor !== known) {
      this.path = added;
      return { kind: "moved" };
    }
    const from = this.path.length;
    for (const entry of added) this.path.push(entry);
    return { kind: "appended", from };
  }
}

/**
 * The messages of the branch that a request would carry, compaction taken into account, as far as capture needs them:
 * texts that the host makes up from other entries (summaries of branches and compactions) are left out.
 */
export function messagesInContext(branch: readonly SessionEntry[]): AgentMessage[] {
  return branch.slice(firstKeptIndex(branch)).flatMap((entry) => (entry.type === "message" ? [entry.message] : []));
}

function firstKeptIndex(branch: readonly SessionEntry[]): number {
  const compaction = branch.findLast((entry) => entry.type === "compaction");
  if (compaction?.type !== "compaction") return 0;
  const kept = branch.findIndex((entry) => entry.id === compaction.firstKeptEntryId);
  // The host keeps nothing from before a compaction whose first kept entry is unknown.
  return kept >= 0 ? kept : branch.indexOf(compaction);
}
