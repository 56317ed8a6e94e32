/** The contexts of a recorded session's requests, raw and condensed, without a model: summaries are digests. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { DIGEST_SHARE } from "../cost/forecast.ts";
import { DEFAULT_PROFILE } from "../cost/prices.ts";
import { SessionState } from "../engine/session-state.ts";
import { createQueryTool } from "../query-tool.ts";
import { conversationOf } from "../replay/conversation.ts";
import { CostMeter } from "../replay/costs.ts";
import { play } from "../replay/player.ts";
import { textsIn } from "../replay/quotes.ts";
import type { Recording } from "../replay/recording.ts";
import { digestStandIn } from "../replay/stand-in.ts";
import { recordedUses, UseCounter } from "../replay/use-counter.ts";
import { MemorySession } from "../session/memory-session.ts";
import { isAnswer, textOf } from "../transcript/messages.ts";
import { estimateTokens } from "../transcript/tokens.ts";
import type { ContextPruneConfig } from "../types.ts";
import type { Recover } from "./answers.ts";
import type { TrialTool } from "./types.ts";

/** A request of the session at which something was condensed. */
export interface Candidate {
  index: number;
  rawTokens: number;
  condensedTokens: number;
  /** The recorded reply quotes lines that the condensed context no longer holds. */
  uses: boolean;
}

/** A context as it is sent, and the way back to what was condensed in it. */
export interface Snapshot {
  messages: readonly AgentMessage[];
  /** Missing for a raw context. */
  recover?: Recover;
}

/** Tokens of system prompt and tools, which a request carries besides its messages. */
const BASE_TOKENS = 3_000;

/** Told how much is done, 0 to 1. */
type OnShare = (share: number) => void;

/** The session's own messages before the reply at `index`; the host's compactions stand where they were recorded. */
export function rawContext({ entries }: Recording, index: number): AgentMessage[] {
  return conversationOf(entries.slice(0, index));
}

/** Every request that carries less under `config` than it did. */
export async function candidatesOf(
  recording: Recording,
  config: ContextPruneConfig,
  onShare: OnShare,
): Promise<Candidate[]> {
  const recorded = recordedUses(recording.entries);
  const [inRaw, inCondensed] = [new UseCounter(recorded), new UseCounter(recorded)];
  const found: Candidate[] = [];
  await condensed(recording, config, (index, messages) => {
    onShare(index / recording.entries.length);
    const raw = rawContext(recording, index);
    const kept = inRaw.request(index, raw).uses;
    const lost = inCondensed.request(index, messages).uses;
    const entry = recording.entries[index];
    if (entry?.type !== "message" || !isAnswer(entry.message)) return;
    const rawTokens = estimateTokens(raw);
    const condensedTokens = estimateTokens(messages);
    const uses = lost.some(({ missed }, i) => missed && kept[i]?.missed === false);
    if (condensedTokens < rawTokens) found.push({ index, rawTokens, condensedTokens, uses });
  });
  return found;
}

/** The contexts under `config` at the requests of `indexes`. */
export async function contextsAt(
  recording: Recording,
  config: ContextPruneConfig,
  indexes: ReadonlySet<number>,
): Promise<Map<number, Snapshot>> {
  const found = new Map<number, Snapshot>();
  await condensed(recording, config, (index, messages, entries) => {
    if (!indexes.has(index)) return;
    found.set(index, { messages: [...messages], recover: recoveryFrom([...entries], recording.cwd) });
  });
  return found;
}

/** `context_tree_query` as a model is told of it. */
export function queryTool(): TrialTool {
  const { name, description, parameters } = createQueryTool(() => undefined);
  return { name, description, parameters };
}

type OnContext = (index: number, messages: readonly AgentMessage[], entries: readonly SessionEntry[]) => void;

async function condensed(recording: Recording, config: ContextPruneConfig, onContext: OnContext): Promise<void> {
  const { rates } = recording;
  const meter = new CostMeter({
    scaleOf: () => ({ factor: 1, baseTokens: BASE_TOKENS }),
    cache: DEFAULT_PROFILE,
    costOfModel: (model) => rates.get(model) ?? DEFAULT_PROFILE.rates,
  });
  await play({
    recording,
    meter,
    // Raw and condensed contexts differ in what was condensed, and in nothing else.
    compactions: "recorded",
    condensing: { config, standIn: digestStandIn(), summaryShare: DIGEST_SHARE, summarizerPrice: 0 },
    onRequest: (index, messages, _reply, entries) => onContext(index, messages, entries),
  });
}

/** The product's own tool, over the session's entries as they stood. */
function recoveryFrom(entries: readonly SessionEntry[], cwd: string): Recover {
  const session = new MemorySession({ cwd });
  for (const entry of entries) session.append(entry);
  const state = new SessionState(session);
  const tool = createQueryTool(() => state);
  return async (args) => {
    const toolCallIds = Array.isArray(args.toolCallIds) ? args.toolCallIds.map(String) : [];
    try {
      // It reads nothing of the host's context.
      const run = tool.execute as (id: string, params: object) => ReturnType<typeof tool.execute>;
      const { content } = await run("", { ...args, toolCallIds });
      return { text: textOf(content), isError: false };
    } catch (error) {
      return { text: error instanceof Error ? error.message : String(error), isError: true };
    }
  };
}

/** All text of a context, calls included. */
export function textOfContext(messages: readonly AgentMessage[]): string {
  return textsIn(messages)
    .map(({ text }) => text)
    .join("\n");
}
