/** What one session of a walk is remembered by, and what must hold against it. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { recover, sourcesOf } from "../../src/recovery/originals.ts";
import { isToolResult } from "../../src/transcript/messages.ts";
import type { EntryTree } from "./simulated-session.ts";
import type { HostedSession } from "./walk-host.ts";

export class Place {
  /** Where the last move came from. */
  left: string | undefined;
  /** What was shown at each leaf under each state of the settings. */
  private readonly shown = new Map<string, string>();

  /** @param answers what each ref has answered, by ref */
  constructor(
    public session: HostedSession,
    readonly parent?: Place,
    private readonly answers = new Map<string, string[]>(),
  ) {}

  /** The place of a session that was forked from this one and still gives the answers that it has. */
  fork(forked: HostedSession, lags: boolean): Place {
    // A record may stand before its result where that came late, and its images are not in a fork between the two.
    const kept = lags ? [] : [...this.answers];
    const sources = sourcesOf(forked.state());
    return new Place(forked, this, new Map(kept.filter(([ref]) => recover(ref, sources).kind === "found")));
  }

  /** A ref that was given once answers for ever, with the same content. */
  checkAnswers(): string[] {
    const { answers } = this;
    const state = this.session.state();
    const sources = sourcesOf(state);
    const names = new Set([...answers.keys(), ...state.indexer.refs(), ...state.indexer.chains().keys()]);
    return [...names].flatMap((name) => {
      const recovery = recover(name, sources);
      if (recovery.kind !== "found") return [`${name} has no answer: ${recovery.message}`];
      const given = recovery.outputs.map(({ text, images, args, note }) =>
        JSON.stringify({ text, images, args, note }),
      );
      const lost = (answers.get(name) ?? []).filter((before) => !given.includes(before));
      answers.set(name, given);
      return lost.map((before) => `${name} answered otherwise before: ${before.slice(0, 300)}`);
    });
  }

  /** The same leaf under the same settings shows the same. */
  checkShown(view: string): string[] {
    const { shown, session } = this;
    const key = `${session.tree.getLeafId()} ${JSON.stringify(session.pruner.settings)}`;
    const before = shown.get(key) ?? view;
    shown.set(key, view);
    return before === view ? [] : [`another render than before:\n${before}\n${view}`];
  }
}

/** What pi's own compaction summarises, and what it keeps from. */
export interface CompactionCut {
  firstKeptEntryId: string;
  messagesToSummarize: AgentMessage[];
  turnPrefixMessages: AgentMessage[];
}

/** Compactions that the host may make of the branch; the cut stands before any message but a result. */
export function compactionCuts(tree: EntryTree): (() => CompactionCut)[] {
  const branch = tree.branch();
  // What an earlier compaction has left out is summarised no second time.
  const earlier = branch.findLast((entry) => entry.type === "compaction");
  const kept = earlier?.type === "compaction" ? branch.findIndex(({ id }) => id === earlier.firstKeptEntryId) : 0;
  const open = branch.slice(Math.max(0, kept));
  return open.flatMap((first, i) => {
    if (first.type !== "message" || isToolResult(first.message)) return [];
    const { role } = first.message;
    return () => {
      const old = open.slice(0, i).flatMap((entry) => (entry.type === "message" ? [entry.message] : []));
      // Where the cut goes through a turn, its beginning is summarised by itself.
      const start = role === "user" ? -1 : old.findLastIndex((message) => message.role === "user");
      const end = start < 0 ? old.length : start;
      return {
        firstKeptEntryId: first.id,
        messagesToSummarize: old.slice(0, end),
        turnPrefixMessages: old.slice(end),
      };
    };
  });
}
