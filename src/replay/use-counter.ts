/** Counts, request by request, what a session used of earlier output and arguments, and what of it was gone by then. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { HeldLines } from "./held-lines.js";
import { type ReplyUses, type Use, UseFinder } from "./uses.js";

/** What the replies of a recording use, whatever is condensed. */
export interface RecordedUses {
  /** By index of the reply's entry. */
  byEntry: ReadonlyMap<number, ReplyUses>;
  /** Every line that some reply quotes. */
  lines: ReadonlySet<string>;
}

/** A use, and whether the request as sent lacked a line of it. */
export interface CountedUse extends Use {
  missed: boolean;
}

/** What the reply to one request used. */
export interface RequestUses {
  uses: readonly CountedUse[];
  /** Calls that replace text, and those of them that quote a line to replace which the request lacked. */
  edits: number;
  missedEdits: number;
}

/** Finds the uses in the entries of a recording, root first. */
export function recordedUses(entries: readonly SessionEntry[]): RecordedUses {
  const finder = new UseFinder();
  const byEntry = new Map<number, ReplyUses>();
  const lines = new Set<string>();
  for (const [i, entry] of entries.entries()) {
    const found = entry.type === "message" ? finder.add(entry.message) : undefined;
    if (!found) continue;
    byEntry.set(i, found);
    for (const use of found.uses) for (const line of use.lines) lines.add(line);
  }
  return { byEntry, lines };
}

/** Follows one variant of a session. */
export class UseCounter {
  private readonly held: HeldLines;

  constructor(private readonly recorded: RecordedUses) {
    this.held = new HeldLines(recorded.lines);
  }

  /** The request that the reply at `index` of the entries answered. @param messages as they were sent */
  request(index: number, messages: readonly AgentMessage[]): RequestUses {
    this.held.update(messages);
    const { uses, edits } = this.recorded.byEntry.get(index) ?? { uses: [], edits: 0 };
    const counted = uses.map((use) => ({ ...use, missed: use.lines.some((line) => !this.held.has(line)) }));
    const missedEdits = new Set(counted.filter(({ isEdit, missed }) => isEdit && missed).map(({ call }) => call)).size;
    return { uses: counted, edits, missedEdits };
  }
}

/** Totals over requests. */
export interface UseTotals {
  uses: number;
  misses: number;
  edits: number;
  missedEdits: number;
  /** By tool of what is used, and by how many requests ago it came to be. */
  byTool: Record<string, UseShare>;
  byAge: Record<string, UseShare>;
}

export interface UseShare {
  uses: number;
  misses: number;
}

/** Highest ages of the groups. */
const AGES = [1, 2, 4, 8, 16, 32];

/** Adds up what requests used. */
export function totalUses(requests: readonly RequestUses[]): UseTotals {
  const byTool = new Map<string, UseShare>();
  const byAge = new Map([...AGES, Number.POSITIVE_INFINITY].map((age) => [ageGroup(age), { uses: 0, misses: 0 }]));
  const totals = { uses: 0, misses: 0, edits: 0, missedEdits: 0 };
  for (const { uses, edits, missedEdits } of requests) {
    totals.edits += edits;
    totals.missedEdits += missedEdits;
    for (const { origin, age, missed } of uses) {
      const tool = byTool.get(origin.tool) ?? { uses: 0, misses: 0 };
      byTool.set(origin.tool, tool);
      for (const share of [totals, tool, byAge.get(ageGroup(age))]) {
        if (!share) continue;
        share.uses += 1;
        if (missed) share.misses += 1;
      }
    }
  }
  const tools = [...byTool].toSorted(([, a], [, b]) => b.misses - a.misses || b.uses - a.uses);
  return { ...totals, byTool: Object.fromEntries(tools), byAge: Object.fromEntries(byAge) };
}

function ageGroup(age: number): string {
  const i = AGES.findIndex((highest) => age <= highest);
  if (i < 0) return `${(AGES.at(-1) ?? 0) + 1}+`;
  const lowest = (AGES[i - 1] ?? 0) + 1;
  return lowest === AGES[i] ? `${lowest}` : `${lowest}-${AGES[i]}`;
}
