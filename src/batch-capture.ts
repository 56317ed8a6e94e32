/** What is pending: finished tool calls that no flush has dealt with yet, derived from the context each time. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { messagesInContext } from "./session/branch.ts";
import { isRecord } from "./text/json.ts";
import {
  type CallTurn,
  callOf,
  contentChars,
  countImages,
  extractToolResultText,
  isAnswer,
  isAssistant,
  isClosingReply,
  isToolResult,
  lastAnswerIndex,
  occurrenceKey,
  otherBlocks,
  resultFinder,
  resultIdsIn,
  resultKeys,
  resultKeysIn,
  resultOf,
  textOf,
  timeOf,
  toolCallsOf,
} from "./transcript/messages.ts";
import { CallPairing } from "./transcript/pairing.ts";
import type { BatchingMode, CapturedBatch, CapturedToolCall } from "./types.ts";

export { extractToolResultText };

/** Which results are left out, and how calls are grouped. */
export interface CaptureOptions {
  /** Last result that a flush has dealt with; capture starts behind it. */
  frontierKey: string | undefined;
  /** The occurrence has been indexed or skipped before. */
  isDealtWith(key: string): boolean;
  /** The output of this call stays as it is. */
  isExempt(call: Pick<CapturedToolCall, "toolName" | "args" | "resultText" | "occurrenceKey">): boolean;
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
  message: CallTurn;
  toolResults: readonly ToolResultMessage[];
  turnIndex: number;
}

/** The calls of one assistant turn that have a result, in the order of the results. */
export function captureBatch({ message, toolResults, turnIndex }: AssistantTurn): CapturedBatch {
  const pairing = new CallPairing();
  pairing.open(message);
  const idOf = resultIdsIn(toolResults);
  const toolCalls = toolResults.map(
    (result): CapturedToolCall => ({
      occurrenceKey: occurrenceKey(idOf(result), result.timestamp),
      toolCallId: idOf(result),
      toolName: String(result.toolName),
      args: argumentsOf(pairing.take(result.toolCallId)),
      content: result.content,
      resultText: extractToolResultText(result),
      resultImages: countImages(result.content),
      isError: result.isError === true,
      resultTimestamp: timeOf(result.timestamp),
    }),
  );
  return { turnIndex, timestamp: timeOf(message.timestamp) ?? 0, assistantText: textOf(message.content), toolCalls };
}

/** Arguments of a call; a model may have written anything in their place. */
function argumentsOf(call: ToolCall | undefined): Record<string, unknown> {
  return isRecord(call?.arguments) ? call.arguments : {};
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
  const captured = captureWhere(messages, { ...options, end: limit, isWanted: isUnderstood });
  const batches = captured.flatMap((batch) => separateHeld(batch, options.isHeld));
  return options.batchingMode === "agent-message" ? mergeRuns(messages, batches) : batches;
}

/** A result with blocks of another kind than text and image is left alone: a stub would lose them. */
export function isUnderstood({ content }: Pick<ToolResultMessage, "content">): boolean {
  return otherBlocks(content).length === 0;
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
    contentChars(result.content) >= options.threshold &&
    isUnderstood(result) &&
    extractToolResultText(result).length >= options.threshold;
  // Every request asks, and nearly always there is nothing: the look at the sizes must be all that costs.
  const large = messages.flatMap((message) => resultOf(message) ?? []).filter(isWanted);
  if (large.length === 0) return [];
  const keyOf = resultKeysIn(messages);
  if (!large.some((result) => !options.isDealtWith(keyOf(result)))) return [];
  return captureWhere(messages, { ...options, frontierKey: undefined, end: messages.length, isWanted });
}

/** The calls that these occurrence keys name, in batches by turn. */
export function captureOccurrences(
  messages: readonly AgentMessage[],
  keys: Pick<ReadonlySet<string>, "has">,
): CapturedBatch[] {
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
  const isOpen = ({ toolResults }: AssistantTurn) => {
    const keyOf = resultKeysIn(toolResults);
    return toolResults.some((result) => !options.isDealtWith(keyOf(result)));
  };
  const turns = turnsBetween(messages, turnStart, options.end).filter(isOpen);
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
  const keyAt = resultFinder(messages, [key]);
  const index = messages.findLastIndex((_, i) => keyAt(i) !== undefined);
  if (index >= 0) return index + 1;
  // The frontier of an earlier release names the bare id, which means something only while one result has it.
  const named = messages.flatMap((m, i) => (isToolResult(m) && m.toolCallId === key ? [i] : []));
  return named.length === 1 ? (named[0] ?? -1) + 1 : 0;
}

/** Those of the keys that two results share: they name neither of them, so both stay as they are. */
export function repeatedKeys(messages: readonly AgentMessage[], keys: ReadonlySet<string>): Set<string> {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  const keyAt = resultFinder(messages, keys);
  for (let i = 0; i < messages.length && keys.size > 0; i++) {
    const key = keyAt(i);
    if (key === undefined) continue;
    if (seen.has(key)) repeated.add(key);
    seen.add(key);
  }
  return repeated;
}

/** Assistant turns with results in `[start, end)`, and what the user has run, each by itself; the assistant message itself may stand before `start`. */
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
    } else if (isToolResult(next)) {
      if (message && ownsResult(message, next)) toolResults.push(next);
    } else if (next.role === "bashExecution") {
      const ran = resultOf(next);
      close();
      if (ran) turns.push({ message: callOf(next), toolResults: [ran], turnIndex });
    }
  }
  close();
  return turns;
}

function ownsResult(message: AssistantMessage, result: ToolResultMessage): boolean {
  return toolCallsOf(message).some((call) => String(call.id) === String(result.toolCallId));
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
