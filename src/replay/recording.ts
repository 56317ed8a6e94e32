/** What a replay needs to know of a recorded session: its branch, and what its requests are said to have used. */
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { DEFAULT_PROFILE, type Rates, scaleRates } from "../cost/prices.ts";
import { isAssistant, isDropped } from "../transcript/messages.ts";
import { CUSTOM_TYPE_FRONTIER, CUSTOM_TYPE_SUMMARY } from "../types.ts";
import { COMPACTION_DEFAULTS } from "./conversation.ts";
import type { RecordedSession } from "./session-file.ts";

const OWN_PREFIX = "context-prune-";
/** Windows that models have, in tokens; the first that the session fits into is taken for its own. */
const WINDOWS = [200_000, 272_000, 400_000, 1_000_000, 2_000_000];
/** Characters of a compaction's summary where none was recorded. */
const SUMMARY_CHARS = 4_000;

/** A recorded session, ready to be played. */
export interface Recording {
  cwd: string;
  /** Entries from the root to the leaf; the extension's own are left out. */
  entries: SessionEntry[];
  /** Index from which the recorded usage is that of a condensed context; the number of entries where there is none. */
  condensedFrom: number;
  /** Tokens; guessed from the largest request. */
  contextWindow: number;
  /** Mean length of the recorded compactions' summaries. */
  compactionChars: number;
  /** Prices in USD per million tokens that the recorded costs come from, by `provider/model`. */
  rates: ReadonlyMap<string, Rates>;
}

/** Makes a recording of a session; several branches count as far as they lead to the last entry. */
export function recordingOf(session: Pick<RecordedSession, "cwd" | "entries">): Recording {
  const branch = branchToLeaf(session.entries);
  const entries = branch.filter((entry) => !isOwn(entry));
  const frontier = branch.findIndex((entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER);
  const replies = repliesIn(entries);
  const summaries = entries.flatMap((entry) => (entry.type === "compaction" ? [entry.summary.length] : []));
  return {
    cwd: session.cwd,
    entries,
    condensedFrom: frontier < 0 ? entries.length : branch.slice(0, frontier).filter((entry) => !isOwn(entry)).length,
    contextWindow: guessWindow(replies),
    compactionChars: summaries.length > 0 ? summaries.reduce((a, b) => a + b, 0) / summaries.length : SUMMARY_CHARS,
    rates: recordedRates(replies),
  };
}

function branchToLeaf(entries: readonly SessionEntry[]): SessionEntry[] {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const branch: SessionEntry[] = [];
  for (let entry = entries.at(-1); entry; entry = entry.parentId === null ? undefined : byId.get(entry.parentId)) {
    branch.push(entry);
    // A parent that stands behind its child would lead round in a circle.
    byId.delete(entry.id);
  }
  return branch.reverse();
}

function isOwn(entry: SessionEntry): boolean {
  if (entry.type === "custom_message") return entry.customType === CUSTOM_TYPE_SUMMARY;
  return entry.type === "custom" && entry.customType.startsWith(OWN_PREFIX);
}

function repliesIn(entries: readonly SessionEntry[]): AssistantMessage[] {
  return entries.flatMap((entry) => (entry.type === "message" && isAssistant(entry.message) ? [entry.message] : []));
}

/** Tokens that the provider counted for the prompt of a reply; 0 where it said nothing. */
export function recordedPromptTokens(reply: AssistantMessage): number {
  const { usage } = reply;
  const tokens = usage ? usage.input + usage.cacheRead + usage.cacheWrite : 0;
  return Number.isFinite(tokens) ? tokens : 0;
}

/** Whether a reply stands for a request that a provider has worked on: a broken one without usage does not. */
export function isRequest(reply: AssistantMessage): boolean {
  return !isDropped(reply) || recordedPromptTokens(reply) > 0;
}

/** `provider/model` of a reply: a prompt is cached for one model. */
export function modelOf(reply: AssistantMessage): string {
  return `${reply.provider}/${reply.model}`;
}

function guessWindow(replies: readonly AssistantMessage[]): number {
  const peak = replies.reduce((most, reply) => Math.max(most, recordedPromptTokens(reply)), 0);
  return WINDOWS.find((window) => window - COMPACTION_DEFAULTS.reserveTokens / 2 > peak) ?? peak;
}

interface Sums {
  tokens: Rates;
  cost: Rates;
}

/** Prices from what was recorded: cost over tokens. What was never used is filled in as usual for the input price. */
export function recordedRates(replies: readonly AssistantMessage[]): Map<string, Rates> {
  const sums = new Map<string, Sums>();
  for (const reply of replies) {
    if (!reply.usage?.cost) continue;
    const { usage } = reply;
    const sum = sums.get(modelOf(reply)) ?? { tokens: zeroRates(), cost: zeroRates() };
    for (const kind of KINDS) {
      sum.tokens[kind] += usage[kind] ?? 0;
      sum.cost[kind] += usage.cost[kind] ?? 0;
    }
    sums.set(modelOf(reply), sum);
  }
  return new Map([...sums].flatMap(([model, sum]) => ratesFrom(sum).map((rates) => [model, rates] as const)));
}

const KINDS = ["input", "output", "cacheRead", "cacheWrite"] as const;

function zeroRates(): Rates {
  return { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
}

function ratesFrom({ tokens, cost }: Sums): Rates[] {
  const price = (kind: keyof Rates) => (tokens[kind] > 0 ? (cost[kind] / tokens[kind]) * 1_000_000 : undefined);
  const input = price("input") ?? 0;
  if (!(input > 0)) return [];
  const usual = scaleRates(DEFAULT_PROFILE.rates, input);
  const writes = tokens.cacheWrite > 0;
  return [
    {
      input,
      output: price("output") ?? usual.output,
      cacheRead: price("cacheRead") ?? usual.cacheRead,
      // A model that reads from a cache and never writes has a provider that does not charge for writing.
      cacheWrite: price("cacheWrite") ?? (tokens.cacheRead > 0 && !writes ? 0 : usual.cacheWrite),
    },
  ];
}
