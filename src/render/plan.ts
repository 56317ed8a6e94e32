/**
 * What the `context` handler does to each message: fixed for an epoch by what the entries say, and worked out for a
 * message when it is first met, since most of a long session stands in compressed chains and never is.
 */
import type { RenderedChain } from "../chain-range-prune.ts";
import type { CommittedState } from "../session/ledger.ts";
import type { ContextPruneConfig, ToolCallRecord } from "../types.ts";
import { type ArgumentOptions, argumentSavings } from "./arguments.ts";
import { type FindOriginal, renderChains } from "./chains.ts";
import { callStub, duplicateStub, isChange, isWorthwhile, MIN_RESULT_CHARS, recordChars, spillStub } from "./stub.ts";

/** Finds the blob of a spilled record where it is now. */
export type LocateBlob = (record: ToolCallRecord) => string | undefined;

/** The text that stands in for one result. */
export interface Replacement {
  occurrenceKey: string;
  text: string;
  /** Holds although the model has not answered the result: it would be too big to be sent. */
  eager: boolean;
  /** Characters that the call's arguments get shorter by: what they said of a change stands in the text instead. */
  savedArguments: number;
}

/** Replacements by occurrence key. */
export type Replacements = Pick<ReadonlyMap<string, Replacement>, "get" | "has">;

/** Frozen between two flushes: nothing in it depends on a clock, a live count or the tail of the conversation. */
export interface RenderPlan {
  replacements: Replacements;
  /** Nothing has been condensed. */
  isEmpty: boolean;
  /** Ids of records from before occurrence keys: they hold only while a single result has the id. */
  bareIds: ReadonlySet<string>;
  /** Occurrences that each summary message of an earlier release speaks of, by its text. */
  legacySummaries: ReadonlyMap<string, readonly string[]>;
  /** How the arguments of the call behind an occurrence are condensed; `undefined` where they stay. */
  argumentsOf(key: string): ArgumentOptions | undefined;
  /** Active chains with their bodies, oldest first. */
  chains: readonly RenderedChain[];
  /** What has changed on this branch until the plan was made: the first `revision` of these, which go on growing. */
  journal: CommittedState["journal"];
  revision: number;
  /** The settings that the plan was made from. */
  config: object | undefined;
  /** The closing reply of a compressed chain loses its thinking. */
  stripFinalAssistantThinking: boolean;
}

/** What the plan is made from besides the entries. */
export interface PlanOptions {
  /** The settings as a whole: another object after each change. */
  config?: object;
  /** The plan before this one. */
  previous?: RenderPlan;
  /** Path at which the blob of a record can be read now; `undefined` where it is gone. */
  locateBlob: LocateBlob;
  /** The session's own copy of a result. */
  findOriginal: FindOriginal;
  stripFinalAssistantThinking: boolean;
  condenseArgs: ContextPruneConfig["condenseArgs"];
  purgeErrors: ContextPruneConfig["purgeErrors"];
  protectTags: boolean;
}

/** Builds the plan of an epoch. */
export function buildRenderPlan(state: CommittedState, options: PlanOptions): RenderPlan {
  const replacements = new StubbedResults(state, options);
  const { previous, config } = options;
  const goesOn = previous?.journal === state.journal && previous.config === config;
  return {
    replacements,
    isEmpty: state.calls.size + state.duplicates.size + state.pointers.size === 0,
    bareIds: state.bareIds,
    legacySummaries: new Map(state.legacySummaries.map((summary) => [summary.text, summary.occurrenceKeys])),
    argumentsOf: (key) => (replacements.staysRaw(key) ? undefined : argumentOptions(key, state, options)),
    chains: renderChains(state, options, goesOn ? previous.chains : []),
    journal: state.journal,
    revision: state.journal.length,
    config: options.config,
    stripFinalAssistantThinking: options.stripFinalAssistantThinking,
  };
}

/** Stubs of results, each made when it is first asked for. */
class StubbedResults implements Replacements {
  /** Results of the chains that were put back by hand. */
  private putBack: ReadonlySet<string> | undefined;
  private readonly made = new Map<string, Replacement | undefined>();

  constructor(
    private readonly state: CommittedState,
    private readonly options: PlanOptions,
  ) {}

  get(key: string): Replacement | undefined {
    if (this.made.has(key)) return this.made.get(key);
    const { calls, duplicates, pointers, choices } = this.state;
    if (!calls.has(key) && !duplicates.has(key) && !pointers.has(key)) return undefined;
    if (this.staysRaw(key)) return undefined;
    const { text, raw, eager, savedArguments } = this.textFor(key);
    const isWanted = choices.get(key) === "drop";
    const replacement =
      text !== undefined && (isWanted || isWorthwhile(text.length, raw + savedArguments * 0.25))
        ? { occurrenceKey: key, text, eager, savedArguments }
        : undefined;
    this.made.set(key, replacement);
    return replacement;
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  /** Kept by the person, or in a chain that was put back. What was spilled is too large to come back by the way. */
  staysRaw(key: string): boolean {
    const { choices, calls, duplicates, chains } = this.state;
    const choice = choices.get(key);
    if (choice !== undefined) return choice === "keep";
    this.putBack ??= new Set(
      [...chains.values()]
        .filter(({ active }) => active === false)
        .flatMap((chain) => chain.droppedOccurrenceKeys ?? chain.droppedToolCallIds),
    );
    const isSpilled = calls.get(key)?.isSpilled === true || duplicates.get(key)?.eager === true;
    return this.putBack.has(key) && !isSpilled;
  }

  /** Of a call that changes files: its reply says nothing of the change, and its arguments will no longer. */
  private savedArguments(key: string, record: ToolCallRecord): number {
    if (record.isError || record.resultTimestamp === undefined || !isChange(record)) return 0;
    const options = argumentOptions(key, this.state, this.options);
    if (!options) return 0;
    return record.changeChars ?? argumentSavings(record.args, options.minStringChars);
  }

  /** A pointer has been judged against its result when it was written, so it counts as worthwhile. */
  private textFor(key: string): { text: string | undefined; raw: number; eager: boolean; savedArguments: number } {
    const { calls, duplicates, summaries, pointers } = this.state;
    const pointer = pointers.get(key);
    if (pointer) {
      const changed = calls.get(key)?.record;
      const savedArguments = changed ? this.savedArguments(key, changed) : 0;
      return { text: pointer.text, raw: Number.POSITIVE_INFINITY, eager: false, savedArguments };
    }
    const call = calls.get(key);
    if (call) {
      const { record, shortId } = call;
      const eager = record.spillPath !== undefined;
      const savedArguments = this.savedArguments(key, record);
      const raw = eager ? recordChars({ ...record, resultImages: 0 }) : recordChars(record);
      const isSmall = raw + savedArguments < MIN_RESULT_CHARS;
      if (!eager && isSmall && this.state.choices.get(key) !== "drop")
        return { text: undefined, raw, eager, savedArguments };
      const subject = { shortId, record };
      const text = eager ? spillStub(subject, this.options.locateBlob(record)) : callStub(subject, summaries.get(key));
      return { text, raw, eager, savedArguments };
    }
    const duplicate = duplicates.get(key);
    if (!duplicate) return { text: undefined, raw: 0, eager: false, savedArguments: 0 };
    const { shortId } = duplicate;
    const original = { shortId: duplicate.original.shortId, record: duplicate.original.record };
    const { record } = original;
    const path = record.spillPath === undefined ? undefined : this.options.locateBlob(record);
    const { eager } = duplicate;
    const raw = recordChars(eager ? { ...record, resultImages: 0 } : record);
    return { text: duplicateStub({ shortId, original }, path), raw, eager, savedArguments: 0 };
  }
}

/** Failed and spilled calls wait until a frontier has purged them; all others go with the stubs of their flush. */
function argumentOptions(
  key: string,
  { calls, duplicates, purged }: CommittedState,
  { condenseArgs, purgeErrors }: Pick<PlanOptions, "condenseArgs" | "purgeErrors">,
): ArgumentOptions | undefined {
  const call = calls.get(key);
  const duplicate = duplicates.get(key);
  const ref = call ? call.shortId : duplicate?.shortId;
  if (ref === undefined) return undefined;
  const isError = (call ?? duplicate?.original)?.isError === true;
  const isEager = call?.isSpilled === true || duplicate?.eager === true;
  if (!isError && isEager && !purged.has(key)) return undefined;
  if (!isError) return condenseArgs.enabled ? { ref, minStringChars: condenseArgs.minStringChars } : undefined;
  const isDue = purgeErrors.enabled && purged.has(key);
  return isDue ? { ref, minStringChars: purgeErrors.minArgChars } : undefined;
}
