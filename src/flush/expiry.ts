/**
 * What has had its time: arguments of failed calls and of those whose output went to a blob at once, and output that the
 * model had asked back. Judged when a flush commits
 * and written into its frontier, never against the live tail, so that the prompt stays stable until the next flush.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import { refsIn } from "../digest/arguments.js";
import { describeCall } from "../digest/describe.js";
import { argumentSavings } from "../render/arguments.js";
import { contentChars, isAssistant, isToolResult, lastAnswerIndex, occurrenceKey } from "../transcript/messages.js";
import { CallPairing } from "../transcript/pairing.js";
import { type ContextPruneConfig, QUERY_TOOL_NAME, type RecoveryPointer } from "../types.js";

/** What a frontier says of age. */
export interface Ageing {
  /** Failed and spilled calls whose arguments are condensed from now on. */
  purgedOccurrenceKeys: string[];
  /** Recovered outputs that give way to a pointer. */
  pointers: RecoveryPointer[];
}

/** What the judgement looks at. */
export interface AgeingInput {
  messages: readonly AgentMessage[];
  config: Pick<ContextPruneConfig, "purgeErrors" | "condenseArgs" | "recoveryGraceTurns">;
  /** A read of something that had been condensed. */
  isRecovery(call: { toolName: string; args: Record<string, unknown> }): boolean;
  /** The result went to a blob before any flush, so that no flush of its own begins an epoch. */
  isSpilled(key: string): boolean;
  /** An earlier frontier has said so already. */
  isAged(key: string): boolean;
  /** What the name stands for is on this branch, so that it answers in a fork too. */
  isHere(name: string): boolean;
}

/** The calls and outputs of `messages` that have had their turns by now. */
export function judgeAge({ messages, config, isRecovery, isSpilled, isAged, isHere }: AgeingInput): Ageing {
  const ageing: Ageing = { purgedOccurrenceKeys: [], pointers: [] };
  const { purgeErrors, condenseArgs, recoveryGraceTurns } = config;
  const seen = lastAnswerIndex(messages);
  let turns = messages.filter((message) => message.role === "user").length;
  const pairing = new CallPairing();
  for (const [i, message] of messages.entries()) {
    if (message.role === "user") turns -= 1;
    if (isAssistant(message)) pairing.open(message);
    if (!isToolResult(message)) continue;
    const args = pairing.take(message.toolCallId)?.arguments ?? {};
    const key = occurrenceKey(message.toolCallId, message.timestamp);
    // What the model has not answered yet is left to the next flush, since the render would take it in the midst of an epoch.
    if (i > seen || isAged(key)) continue;
    if (isRecovery({ toolName: message.toolName, args })) {
      const isLasting = message.toolName !== QUERY_TOOL_NAME || asked(args).every(isHere);
      if (turns >= recoveryGraceTurns && isLasting) ageing.pointers.push(...pointerFor(message, args, key));
    } else if (message.isError) {
      const isDue = purgeErrors.enabled && turns >= purgeErrors.cooldownTurns;
      if (isDue && argumentSavings(args, purgeErrors.minArgChars) > 0) ageing.purgedOccurrenceKeys.push(key);
    } else if (condenseArgs.enabled && isSpilled(key)) {
      if (argumentSavings(args, condenseArgs.minStringChars) > 0) ageing.purgedOccurrenceKeys.push(key);
    }
  }
  return ageing;
}

function pointerFor(message: ToolResultMessage, args: Record<string, unknown>, key: string): RecoveryPointer[] {
  const text =
    message.toolName === QUERY_TOOL_NAME
      ? `[was shown here; ask again: ${describeAsk(args)}]`
      : `[was shown here; the file can be read again: ${describeCall(message.toolName, args)}]`;
  return text.length < contentChars(message.content)
    ? [{ toolCallId: message.toolCallId, occurrenceKey: key, text }]
    : [];
}

function describeAsk(args: Record<string, unknown>): string {
  return `${QUERY_TOOL_NAME} ${asked(args).slice(0, 8).join(", ")}`;
}

function asked({ toolCallIds }: Record<string, unknown>): string[] {
  return refsIn(toolCallIds);
}
