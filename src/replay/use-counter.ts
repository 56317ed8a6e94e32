/** Counts, request by request, what a session used of earlier output and arguments, and what of it was gone by then. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { HeldLines } from "./held-lines.ts";
import { type ReplyUses, type Use, UseFinder } from "./uses.ts";

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
  /** Missed, and not so in the session as it was recorded: there the model had done without. */
  isNew: boolean;
}

/** What the reply to one request used. */
export interface RequestUses {
  uses: readonly CountedUse[];
  /** Calls that replace text, and those of them that quote a line to replace which the request lacked. */
  edits: number;
  missedEdits: number;
  /** Messages of the user before the reply. */
  turn: number;
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

  /** @param doneWithout what the requests as recorded lacked already */
  constructor(
    private readonly recorded: RecordedUses,
    private readonly doneWithout: ReadonlySet<Use> = new Set(),
  ) {
    this.held = new HeldLines(recorded.lines);
  }

  /** The request that the reply at `index` of the entries answered. @param messages as they were sent */
  request(index: number, messages: readonly AgentMessage[]): RequestUses {
    this.held.update(messages);
    const { uses, edits, turn } = this.recorded.byEntry.get(index) ?? { uses: [], edits: 0, turn: 0 };
    const counted = uses.map((use): CountedUse => {
      const missed = this.isMissed(use);
      return { ...use, missed, isNew: missed && !this.doneWithout.has(use) };
    });
    const missedEdits = new Set(counted.filter(({ isEdit, missed }) => isEdit && missed).map(({ call }) => call)).size;
    return { uses: counted, edits, missedEdits, turn };
  }

  /** As `request`; gives what the request lacked. */
  missedIn(index: number, messages: readonly AgentMessage[]): Use[] {
    this.held.update(messages);
    return (this.recorded.byEntry.get(index)?.uses ?? []).filter((use) => this.isMissed(use));
  }

  private isMissed({ lines }: Use): boolean {
    return lines.some((line) => !this.held.has(line));
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
const AGE_GROUPS = Object.fromEntries(
  [...AGES, Number.POSITIVE_INFINITY].map((age) => [ageGroup(age), { uses: 0, misses: 0 }]),
);

/** Adds up what requests used. */
export function totalUses(requests: readonly RequestUses[]): UseTotals {
  return sumUses(
    requests.flatMap(({ uses, edits, missedEdits }) => [
      { uses: 0, misses: 0, edits, missedEdits, byTool: {}, byAge: {} },
      ...uses.map(({ origin, age, missed }): UseTotals => {
        const share = { uses: 1, misses: missed ? 1 : 0 };
        const groups = { byTool: { [origin.tool]: share }, byAge: { [ageGroup(age)]: share } };
        return { ...share, edits: 0, missedEdits: 0, ...groups };
      }),
    ]),
  );
}

/** The sum of totals. Tools with the most misses come first. */
export function sumUses(parts: readonly UseTotals[]): UseTotals {
  const add = (pick: (part: UseTotals) => number) => parts.reduce((sum, part) => sum + pick(part), 0);
  const tools = addShares(parts.map(({ byTool }) => byTool));
  const ages = addShares([AGE_GROUPS, ...parts.map(({ byAge }) => byAge)]);
  return {
    uses: add(({ uses }) => uses),
    misses: add(({ misses }) => misses),
    edits: add(({ edits }) => edits),
    missedEdits: add(({ missedEdits }) => missedEdits),
    byTool: Object.fromEntries(tools.toSorted(([, a], [, b]) => b.misses - a.misses || b.uses - a.uses)),
    byAge: Object.fromEntries(ages),
  };
}

function addShares(parts: readonly Record<string, UseShare>[]): [string, UseShare][] {
  const sums = new Map<string, UseShare>();
  for (const part of parts) {
    for (const [name, { uses, misses }] of Object.entries(part)) {
      const sum = sums.get(name) ?? { uses: 0, misses: 0 };
      sums.set(name, { uses: sum.uses + uses, misses: sum.misses + misses });
    }
  }
  return [...sums];
}

function ageGroup(age: number): string {
  const i = AGES.findIndex((highest) => age <= highest);
  if (i < 0) return `${(AGES.at(-1) ?? 0) + 1}+`;
  const lowest = (AGES[i - 1] ?? 0) + 1;
  return lowest === AGES[i] ? `${lowest}` : `${lowest}-${AGES[i]}`;
}
