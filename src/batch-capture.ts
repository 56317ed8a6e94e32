/** What is pending: finished tool calls that no flush has dealt with yet, derived from the context each time. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { messagesInContext } from "./session/branch.js";
import {
  contentChars,
  countImages,
  extractToolResultText,
  isAnswer,
  isAssistant,
  isClosingReply,
  isToolResult,
  lastAnswerIndex,
  occurrenceKey,
  resultKeys,
  textOf,
  toolCallsOf,
} from "./transcript/messages.js";
import { CallPairing } from "./transcript/pairing.js";
import type { BatchingMode, CapturedBatch, CapturedToolCall } from "./types.js";

export { extractToolResultText };

/** Which results are left out, and how calls are grouped. */
export interface CaptureOptions {
  /** Last result that a flush has dealt with; capture starts behind it. */
  frontierKey: string | undefined;
  /** The occurrence has been indexed or skipped before. */
  isDealtWith(key: string): boolean;
  /** The output of this call stays as it is. */
  isExempt(call: Pick<CapturedToolCall, "toolName" | "args" | "resultText">): boolean;
  batchingMode: BatchingMode;
  /** Take in what the model has not answered yet; for summaries that are made ahead. */
  unseenToo?: boolean;
  /** User turns at the end whose results are left alone. */
  protectedTurns?: number;
  /** The result is finished but still at work: it is captured by itself, and no frontier passes it. */
  isHeld?(key: string): boolean;
}

/** One assistant message and the results that belong to it. */
export interface AssistantTurn {
  message: AssistantMessage;
  toolResults: readonly ToolResultMessage[];
  turnIndex: number;
}

/** The calls of one assistant turn that have a result, in the order of the results. */
export function captureBatch({ message, toolResults, turnIndex }: AssistantTurn): CapturedBatch {
  const pairing = new CallPairing();
  pairing.open(message);
  const toolCalls = toolResults.map(
    (result): CapturedToolCall => ({
      occurrenceKey: occurrenceKey(result.toolCallId, result.timestamp),
      toolCallId: result.toolCallId,
      toolName: result.toolName,
      args: pairing.take(result.toolCallId)?.arguments ?? {},
      content: result.content,
      resultText: extractToolResultText(result),
      resultImages: countImages(result.content),
      isError: result.isError,
      resultTimestamp: result.timestamp,
    }),
  );
  return { turnIndex, timestamp: message.timestamp, assistantText: textOf(message.content), toolCalls };
}

/** `captureUnindexedBatches` over the messages that the branch puts into a request. */
export function captureUnindexedBatchesFromSession(
  branch: readonly SessionEntry[],
  options: CaptureOptions,
): CapturedBatch[] {
  return captureUnindexedBatches(messagesInContext(branch), options);
}

/**
 * The batches that a flush could take now: results behind the frontier that are neither dealt with nor exempt, and
 * that the model has seen, which is to say that it has answered after them.
 */
export function captureUnindexedBatches(messages: readonly AgentMessage[], options: CaptureOptions): CapturedBatch[] {
  const end = options.unseenToo ? messages.length : lastAnswerIndex(messages);
  const limit = Math.min(end, startOfLastTurns(messages, options.protectedTurns ?? 0));
  const captured = captureWhere(messages, { ...options, end: limit, isWanted: () => true });
  const batches = captured.flatMap((batch) => separateHeld(batch, options.isHeld));
  return options.batchingMode === "agent-message" ? mergeRuns(messages, batches) : batches;
}

/** Index of the user message that begins the last `turns` user turns; behind the end where none is protected. */
function startOfLastTurns(messages: readonly AgentMessage[], turns: number): number {
  let left = turns;
  let start = messages.length;
  for (let i = messages.length - 1; i >= 0 && left > 0; i--) {
    if (messages[i]?.role !== "user") continue;
    start = i;
    left -= 1;
  }
  return left > 0 ? 0 : start;
}

function separateHeld(batch: CapturedBatch, isHeld: CaptureOptions["isHeld"]): CapturedBatch[] {
  if (!isHeld) return [batch];
  const parts: CapturedBatch[] = [];
  for (const call of batch.toolCalls) {
    const held = isHeld(call.occurrenceKey);
    const last = parts.at(-1);
    if (last && (last.held ?? false) === held) last.toolCalls.push(call);
    else parts.push({ ...batch, toolCalls: [call], ...(held ? { held } : {}) });
  }
  return parts;
}

/**
 * Results of at least `threshold` characters that have not been dealt with, in batches by turn. Unlike other output they
 * do not wait for an answer, nor does a frontier stop the search.
 */
export function captureOversized(
  messages: readonly AgentMessage[],
  options: Pick<CaptureOptions, "isDealtWith" | "isExempt"> & { threshold: number },
): CapturedBatch[] {
  const isWanted = (result: Pick<ToolResultMessage, "content">) =>
    contentChars(result.content) >= options.threshold && extractToolResultText(result).length >= options.threshold;
  const isPending = ({ toolCallId, timestamp }: ToolResultMessage) =>
    !options.isDealtWith(occurrenceKey(toolCallId, timestamp));
  // Every request asks, and nearly always there is nothing: the look at the sizes must be all that costs.
  if (!messages.some((message) => isToolResult(message) && isWanted(message) && isPending(message))) return [];
  return captureWhere(messages, { ...options, frontierKey: undefined, end: messages.length, isWanted });
}

/** The calls that these occurrence keys name, in batches by turn. */
export function captureOccurrences(messages: readonly AgentMessage[], keys: ReadonlySet<string>): CapturedBatch[] {
  return captureWhere(messages, {
    frontierKey: undefined,
    end: messages.length,
    isDealtWith: (key) => !keys.has(key),
    isExempt: () => false,
    isWanted: () => true,
  });
}

function captureWhere(
  messages: readonly AgentMessage[],
  options: Omit<CaptureOptions, "batchingMode"> & { end: number; isWanted(call: CapturedToolCall): boolean },
): CapturedBatch[] {
  const start = indexBehind(messages, options.frontierKey);
  // Which call a result answers may hang on the results before it, so the turn is captured from its beginning.
  let turnStart = Math.max(0, start - 1);
  while (turnStart > 0 && messages[turnStart]?.role !== "assistant") turnStart -= 1;
  const passed = resultKeys(messages.slice(turnStart, start));
  const isOpen = ({ toolCallId, timestamp }: ToolResultMessage) =>
    !options.isDealtWith(occurrenceKey(toolCallId, timestamp));
  const turns = turnsBetween(messages, turnStart, options.end).filter(({ toolResults }) => toolResults.some(isOpen));
  const batches = turns.map((turn) => {
    const batch = captureBatch(turn);
    const toolCalls = batch.toolCalls.filter(
      (call) =>
        !passed.has(call.occurrenceKey) &&
        !options.isDealtWith(call.occurrenceKey) &&
        options.isWanted(call) &&
        !options.isExempt(call),
    );
    return { ...batch, toolCalls };
  });
  const found = new Set(batches.flatMap(({ toolCalls }) => toolCalls.map((call) => call.occurrenceKey)));
  const repeated = repeatedKeys(messages, found);
  return batches
    .map((batch) => ({ ...batch, toolCalls: batch.toolCalls.filter((call) => !repeated.has(call.occurrenceKey)) }))
    .filter(({ toolCalls }) => toolCalls.length > 0);
}

function indexBehind(messages: readonly AgentMessage[], key: string | undefined): number {
  if (key === undefined) return 0;
  const index = messages.findLastIndex((m) => isToolResult(m) && occurrenceKey(m.toolCallId, m.timestamp) === key);
  if (index >= 0) return index + 1;
  // The frontier of an earlier release names the bare id, which means something only while one result has it.
  const named = messages.flatMap((m, i) => (isToolResult(m) && m.toolCallId === key ? [i] : []));
  return named.length === 1 ? (named[0] ?? -1) + 1 : 0;
}

/** Those of the keys that two results share: they name neither of them, so both stay as they are. */
export function repeatedKeys(messages: readonly AgentMessage[], keys: ReadonlySet<string>): Set<string> {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  if (keys.size === 0) return repeated;
  // The look at an id costs less than the making of a key.
  const ids = new Set([...keys].flatMap((key) => [key, key.slice(0, Math.max(0, key.lastIndexOf("@")))]));
  for (const message of messages) {
    if (!isToolResult(message) || !ids.has(message.toolCallId)) continue;
    const key = occurrenceKey(message.toolCallId, message.timestamp);
    if (!keys.has(key)) continue;
    if (seen.has(key)) repeated.add(key);
    seen.add(key);
  }
  return repeated;
}

/** Assistant turns with results in `[start, end)`; the assistant message itself may stand before `start`. */
function turnsBetween(messages: readonly AgentMessage[], start: number, end: number): AssistantTurn[] {
  const turns: AssistantTurn[] = [];
  let message: AssistantMessage | undefined;
  let turnIndex = -1;
  for (let i = 0; i < start; i++) {
    const before = messages[i];
    if (!before || !isAssistant(before)) continue;
    message = before;
    turnIndex += 1;
  }
  let toolResults: ToolResultMessage[] = [];
  const close = () => {
    if (message && isAnswer(message) && toolResults.length > 0) turns.push({ message, toolResults, turnIndex });
    toolResults = [];
  };
  for (const next of messages.slice(start, Math.max(start, end))) {
    if (isAssistant(next)) {
      close();
      message = next;
      turnIndex += 1;
    } else if (isToolResult(next) && message && ownsResult(message, next)) toolResults.push(next);
  }
  close();
  return turns;
}

function ownsResult(message: AssistantMessage, result: ToolResultMessage): boolean {
  return toolCallsOf(message).some((call) => call.id === result.toolCallId);
}

/** Joins the batches of one agent run: the turns up to a closing reply. */
function mergeRuns(messages: readonly AgentMessage[], batches: readonly CapturedBatch[]): CapturedBatch[] {
  const runByTurn = new Map<number, number>();
  let turn = -1;
  let run = 0;
  for (const message of messages) {
    if (isAssistant(message)) {
      turn += 1;
      runByTurn.set(turn, run);
    }
    if (isClosingReply(message)) run += 1;
  }
  const merged: CapturedBatch[] = [];
  let last: number | undefined;
  for (const batch of batches) {
    const run = runByTurn.get(batch.turnIndex) ?? -1;
    const previous = merged.at(-1);
    // A frontier stops before what is held, so that no batch may reach from before it to behind it.
    if (previous && run === last && !batch.held && !previous.held) merged.splice(-1, 1, joinBatches(previous, batch));
    else merged.push(batch);
    last = run;
  }
  return merged;
}

function joinBatches(first: CapturedBatch, second: CapturedBatch): CapturedBatch {
  return {
    ...first,
    assistantText: [first.assistantText, second.assistantText].filter(Boolean).join("\n"),
    toolCalls: [...first.toolCalls, ...second.toolCalls],
  };
}
