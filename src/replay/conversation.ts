/** The messages that a branch puts into a request, and the host's own compaction of them. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { messageOf } from "../session/branch.ts";
import { IMAGE_CHARS, isAssistant, isToolResult, textOf } from "../transcript/messages.ts";
import { CHARS_PER_TOKEN, estimateTextTokens, RESERVE_TOKENS } from "../transcript/tokens.ts";

type CompactionEntry = Extract<SessionEntry, { type: "compaction" }>;

/** Characters of a result that the host shows to the model which compacts. */
const RESULT_CHARS = 2_000;

/** The host's settings of compaction, by default. Tokens. */
export const COMPACTION_DEFAULTS = { reserveTokens: RESERVE_TOKENS, keepRecentTokens: 20_000 };

/** The conversation as the host builds it from a branch: the last compaction's summary, what it kept, what came later. */
export function conversationOf(branch: readonly SessionEntry[]): AgentMessage[] {
  const at = branch.findLastIndex((entry) => entry.type === "compaction");
  const compaction = branch[at];
  if (compaction?.type !== "compaction") return branch.flatMap(messagesOf);
  const kept = branch.slice(0, at).findIndex((entry) => entry.id === compaction.firstKeptEntryId);
  const before = kept < 0 ? [] : branch.slice(kept, at);
  return [summaryMessage(compaction), ...before.flatMap(messagesOf), ...branch.slice(at + 1).flatMap(messagesOf)];
}

function summaryMessage({ summary, tokensBefore, timestamp }: CompactionEntry): AgentMessage {
  return { role: "compactionSummary", summary, tokensBefore, timestamp: Date.parse(timestamp) };
}

function messagesOf(entry: SessionEntry): AgentMessage[] {
  switch (entry.type) {
    case "message":
      // The newer host's system messages are the prompt's head, not part of the conversation.
      return String(entry.message.role) === "system" ? [] : [entry.message];
    case "branch_summary": {
      const { summary, fromId } = entry;
      return summary ? [{ role: "branchSummary", summary, fromId, timestamp: Date.parse(entry.timestamp) }] : [];
    }
    default:
      return [messageOf(entry)].filter((message) => message !== undefined);
  }
}

/** Whether the host compacts before the next request. All in tokens. */
export function isCompactionDue(contextTokens: number, contextWindow: number): boolean {
  return contextTokens > contextWindow - COMPACTION_DEFAULTS.reserveTokens;
}

/**
 * The first entry that a compaction of `branch` keeps: about `keepRecentTokens` of what came last, never beginning with
 * a result. `undefined` where nothing would go.
 */
export function firstKeptEntry(branch: readonly SessionEntry[]): SessionEntry | undefined {
  const last = branch.findLastIndex((entry) => entry.type === "compaction");
  const previous = branch[last];
  const keptBefore =
    previous?.type === "compaction" ? branch.findIndex((entry) => entry.id === previous.firstKeptEntryId) : 0;
  const start = keptBefore >= 0 ? keptBefore : last + 1;
  let chars = 0;
  let index = branch.length - 1;
  while (index > start) {
    const entry = branch[index];
    if (entry?.type === "message") chars += hostChars(entry.message);
    if (chars >= COMPACTION_DEFAULTS.keepRecentTokens * CHARS_PER_TOKEN) break;
    index -= 1;
  }
  const cut = branch.slice(index).find(isCutPoint);
  return cut === undefined || branch.indexOf(cut) <= start ? undefined : cut;
}

function isCutPoint(entry: SessionEntry): boolean {
  if (entry.type === "custom_message" || entry.type === "branch_summary") return true;
  return entry.type === "message" && !isToolResult(entry.message) && String(entry.message.role) !== "system";
}

/** Size of a message as the host reckons it. */
function hostChars(message: AgentMessage): number {
  if (message.role === "bashExecution") return message.command.length + message.output.length;
  if (message.role === "branchSummary" || message.role === "compactionSummary") return message.summary.length;
  if (!("content" in message)) return 0;
  if (typeof message.content === "string") return message.content.length;
  let chars = 0;
  for (const block of message.content) {
    if (block.type === "text") chars += block.text.length;
    else if (block.type === "thinking") chars += block.thinking.length;
    else if (block.type === "toolCall") chars += block.name.length + JSON.stringify(block.arguments).length;
    else if (block.type === "image") chars += IMAGE_CHARS;
  }
  return chars;
}

/** Tokens of `messages` as the host shows them to the model that compacts: results cut to their first characters. */
export function compactionInputTokens(messages: readonly AgentMessage[]): number {
  return messages.reduce((sum, message) => sum + shownTokens(message), 0);
}

function shownTokens(message: AgentMessage): number {
  if (isToolResult(message)) return estimateTextTokens(textOf(message.content).slice(0, RESULT_CHARS));
  if (isAssistant(message)) return hostChars(message) / CHARS_PER_TOKEN;
  if ("summary" in message) return estimateTextTokens(message.summary);
  return "content" in message ? estimateTextTokens(textOf(message.content)) : hostChars(message) / CHARS_PER_TOKEN;
}
