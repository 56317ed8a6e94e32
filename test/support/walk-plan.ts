/** What a walk through a session is made of, and arbitrary ones. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import fc from "fast-check";
import type { SettingValue } from "../../src/settings/rows.ts";
import type { Host } from "./host-paths.ts";
import type { Settings } from "./simulated-session.ts";
import { MODEL_NAMES, type ModelName, SUMMARIES, type SummaryName } from "./walk-models.ts";

type Change = Readonly<Record<string, SettingValue>>;

/** One thing that happens to a session. `pick` chooses among what is there, modulo its number. */
export type Step =
  /** The next `count` messages of the conversation, with the requests between them. */
  | { kind: "play"; count: number }
  /** The model asks for something that was condensed. */
  | { kind: "recall"; pick: number }
  /** `/tree` to any entry, or to before the first, with a summary of the branch that is left or without. */
  | { kind: "move"; pick: number; summary: boolean }
  /** `/tree` to where the last move came from. */
  | { kind: "back" }
  /** `/fork`, which goes on in the new session. */
  | { kind: "fork"; pick: number }
  /** Back to the session that was forked, in a new process. */
  | { kind: "resume" }
  /** pi's own compaction, which keeps what stands behind the chosen message. */
  | { kind: "compact"; pick: number }
  /** The session ends, after what the hosts wait for, and another process takes it up. */
  | { kind: "reload" }
  /** The process dies, whatever is under way; another one takes the session up. */
  | { kind: "kill" }
  /** The process dies within a flush, when so many entries have been written; another one takes the session up. */
  | { kind: "crash"; after: number }
  /** The disk refuses the entry with this number of a flush, and what comes after it in the same flush. */
  | { kind: "refuse"; at: number }
  /** Other settings. */
  | { kind: "settings"; change: Change }
  /** Another model of the session, or none: other prices, another window, another cache. */
  | { kind: "model"; name: ModelName }
  /** Nobody says anything for so long, and caches are forgotten. */
  | { kind: "wait"; minutes: number }
  /** The summariser answers so many of the calls that it was asked and has not answered. */
  | { kind: "answer"; count: number; by: SummaryName }
  /** `/pruner now`, or `/pruner compact` with `all`. */
  | { kind: "flush"; all: boolean }
  /** `/pruner cancel`. */
  | { kind: "cancel" }
  /** `/pruner decompress` or `recompress` of a chain. */
  | { kind: "chain"; pick: number }
  /** An entry that is no message, of the host or of another extension. */
  | { kind: "aside"; pick: number };

/** A session to be walked through. */
export interface Walk {
  settings: Settings;
  /** Whose messages they are; `newer-file` is a session of the newer host that the older one has opened. */
  shapes: Host | "newer-file";
  /** The model that the session begins with; none where it is missing. */
  model?: ModelName;
  /** The summariser answers only where a step says so, or where the agent would wait for it. */
  held?: boolean;
  /** As on the older host: entries and events come after the requests that they ought to come before. */
  lags?: boolean;
  /** The conversation that `play` takes its messages from. */
  messages: AgentMessage[];
  steps: Step[];
}

const PRUNE_ON = ["agent-message", "every-turn", "on-context-tag", "on-demand", "cache-aware"] as const;

/** Settings that a session may get on its way. */
const CHANGES: readonly Change[] = [
  { minBatchChars: 0 },
  ...PRUNE_ON.map((pruneOn) => ({ pruneOn })),
  { batchingMode: "agent-message" },
  { batchingMode: "turn" },
  { summarizerModel: "none" },
  { summarizerModel: "default" },
  { summarizerConcurrency: 1 },
  { dedupByContentHash: false },
  { dedupByContentHash: true },
  { "condenseArgs.enabled": false },
  { "condenseArgs.enabled": true, "condenseArgs.minStringChars": 150 },
  { "purgeErrors.enabled": false },
  { "purgeErrors.enabled": true, "purgeErrors.cooldownTurns": 0, "purgeErrors.minArgChars": 100 },
  { "chainCompression.enabled": false },
  { "chainCompression.enabled": true, "chainCompression.rollingWindow": 0, "chainCompression.batchSize": 0 },
  { "chainCompression.stripFinalAssistantThinking": false },
  { "chainCompression.fuseRangeSummary": false },
  { protectedTools: ["bash"] },
  { protectedTools: [] },
  { protectedPaths: ["src/**"] },
  { "turnProtection.enabled": true, "turnProtection.turns": 1 },
  { "turnProtection.enabled": false },
  { protectTags: true },
  { protectTags: false },
  { recoveryGraceTurns: 0 },
  { recoveryGraceTurns: 1 },
  { spillThreshold: 4_096 },
  { spillThreshold: 1_000_000 },
  { autoBudgetTokens: 1_000 },
  { autoBudgetThreshold: 0.5, budgetTurnDelta: 0.1 },
  { autoBudgetTokens: null, autoBudgetThreshold: null, budgetTurnDelta: null },
  { quietOversizedSkips: true },
  { enabled: false },
  { enabled: true },
];

/** Each kind of step, how often it comes beside the others, and what it may be. */
function steps(): Readonly<{ [Kind in Step["kind"]]: [number, fc.Arbitrary<Extract<Step, { kind: Kind }>>] }> {
  const pick = fc.nat(200);
  const of = <Kind extends Step["kind"]>(kind: Kind) => fc.constant(kind);
  return {
    play: [10, fc.record({ kind: of("play"), count: fc.integer({ min: 1, max: 30 }) })],
    recall: [1, fc.record({ kind: of("recall"), pick })],
    move: [3, fc.record({ kind: of("move"), pick, summary: fc.boolean() })],
    back: [2, fc.record({ kind: of("back") })],
    fork: [2, fc.record({ kind: of("fork"), pick })],
    resume: [1, fc.record({ kind: of("resume") })],
    compact: [1, fc.record({ kind: of("compact"), pick })],
    reload: [1, fc.record({ kind: of("reload") })],
    kill: [1, fc.record({ kind: of("kill") })],
    crash: [2, fc.record({ kind: of("crash"), after: fc.nat(8) })],
    refuse: [1, fc.record({ kind: of("refuse"), at: fc.nat(8) })],
    settings: [3, fc.record({ kind: of("settings"), change: fc.constantFrom(...CHANGES) })],
    model: [1, fc.record({ kind: of("model"), name: fc.constantFrom(...MODEL_NAMES) })],
    wait: [1, fc.record({ kind: of("wait"), minutes: fc.constantFrom(1, 6, 90) })],
    answer: [
      2,
      fc.record({ kind: of("answer"), count: fc.integer({ min: 1, max: 4 }), by: fc.constantFrom(...SUMMARIES) }),
    ],
    flush: [2, fc.record({ kind: of("flush"), all: fc.boolean() })],
    cancel: [1, fc.record({ kind: of("cancel") })],
    chain: [2, fc.record({ kind: of("chain"), pick })],
    aside: [1, fc.record({ kind: of("aside"), pick })],
  };
}

/** Names of all kinds of steps. */
export const STEP_KINDS = Object.keys(steps()) as Step["kind"][];

export function walkArbitrary(
  conversation: fc.Arbitrary<AgentMessage[]>,
  settings: readonly Settings[],
  maxSteps = 10,
): fc.Arbitrary<Walk> {
  const all: { weight: number; arbitrary: fc.Arbitrary<Step> }[] = Object.values(steps()).map(
    ([weight, arbitrary]) => ({ weight, arbitrary }),
  );
  const step = fc.oneof({ withCrossShrink: true }, ...all);
  const first = fc.record({ kind: fc.constant("play" as const), count: fc.integer({ min: 5, max: 40 }) });
  return fc
    .record({
      settings: fc.constantFrom(...settings),
      pruneOn: fc.constantFrom(undefined, ...PRUNE_ON),
      shapes: fc.constantFrom("old" as const, "new" as const, "newer-file" as const),
      model: fc.constantFrom(...MODEL_NAMES),
      held: fc.integer({ min: 0, max: 2 }).map((number) => number > 1),
      lags: fc.integer({ min: 0, max: 3 }).map((number) => number > 2),
      messages: conversation,
      steps: fc
        .tuple(first, fc.array(step, { minLength: 1, maxLength: maxSteps }))
        .map(([start, rest]): Step[] => [start, ...rest]),
    })
    .map(({ settings, pruneOn, held, lags, ...plan }) => ({
      ...plan,
      settings: {
        ...settings,
        ...(pruneOn === undefined ? {} : { pruneOn }),
        // Generated sessions call no tool that is there for nothing but to end a piece of work.
        contextTagTools: ["edit"],
        ...(held ? { summarizerModel: "default" } : {}),
      },
      held,
      // The newer host waits for its handlers.
      lags: lags && plan.shapes !== "new",
    }));
}
