/**
 * What has had its time: arguments of failed calls and of those whose output went to a blob at once, and output that the
 * model had asked back. Judged when a flush commits
 * and written into its frontier, never against the live tail, so that the prompt stays stable until the next flush.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolResultMessage } from "@mariozechner/pi-ai";
import { refsIn } from "../digest/arguments.ts";
import { describeCall } from "../digest/describe.ts";
import { argumentSavings } from "../render/arguments.ts";
import { contentChars, isAssistant, isToolResult, lastAnswerIndex, resultKeysIn } from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { type ContextPruneConfig, QUERY_TOOL_NAME, type RecoveryPointer } from "../types.ts";

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
  /** Some output of the session stands in a blob; without one there is nothing to read again or to purge. */
  hasBlobs: boolean;
  /** The result went to a blob before any flush, so that no flush of its own begins an epoch. */
  isSpilled(key: string): boolean;
  /** Protected results whose file or list stands whole again further on. */
  superseded: ReadonlySet<string>;
  /** An earlier frontier has said so already. */
  isAged(key: string): boolean;
  /** What the name stands for is on this branch, so that it answers in a fork too. */
  isHere(name: string): boolean;
}

/** The calls and outputs of `messages` that have had their turns by now. */
export function judgeAge(input: AgeingInput): Ageing {
  const { messages, config, isRecovery, hasBlobs, isSpilled, superseded, isAged, isHere } = input;
  const ageing: Ageing = { purgedOccurrenceKeys: [], pointers: [] };
  const { purgeErrors, condenseArgs, recoveryGraceTurns } = config;
  const seen = lastAnswerIndex(messages);
  let turns = messages.filter((message) => message.role === "user").length;
  const turn = new LastTurn();
  const keyOf = resultKeysIn(messages);
  for (const [i, message] of messages.entries()) {
    if (message.role === "user") turns -= 1;
    if (isAssistant(message)) turn.opens(message);
    if (!isToolResult(message)) continue;
    turn.isAnswered(message);
    const { toolName } = message;
    if (!message.isError && toolName !== QUERY_TOOL_NAME && !hasBlobs && superseded.size === 0) continue;
    const key = keyOf(message);
    // What the model has not answered yet is left to the next flush, since the render would take it in the midst of an epoch.
    if (i > seen || isAged(key)) continue;
    const args = turn.argumentsOfLast();
    if (isRecovery({ toolName, args })) {
      const isLasting = toolName !== QUERY_TOOL_NAME || asked(args).every(isHere);
      if (turns >= recoveryGraceTurns && isLasting)
        ageing.pointers.push(...pointerTo(message, key, recoveryText(message, args)));
    } else if (superseded.has(key)) {
      ageing.pointers.push(...pointerTo(message, key, supersededText(message, args, key)));
    } else if (message.isError) {
      const isDue = purgeErrors.enabled && turns >= purgeErrors.cooldownTurns;
      if (isDue && argumentSavings(args, purgeErrors.minArgChars) > 0) ageing.purgedOccurrenceKeys.push(key);
    } else if (condenseArgs.enabled && isSpilled(key)) {
      if (argumentSavings(args, condenseArgs.minStringChars) > 0) ageing.purgedOccurrenceKeys.push(key);
    }
  }
  return ageing;
}

/** The latest assistant message and its results. Which call a result answers is worked out only where it is asked. */
class LastTurn {
  private message: AssistantMessage | undefined;
  private readonly answered: string[] = [];

  opens(message: AssistantMessage): void {
    this.message = message;
    this.answered.length = 0;
  }

  isAnswered({ toolCallId }: ToolResultMessage): void {
    this.answered.push(toolCallId);
  }

  argumentsOfLast(): Record<string, unknown> {
    const pairing = new CallPairing();
    if (this.message) pairing.open(this.message);
    const calls = this.answered.map((id) => pairing.take(id));
    return calls.at(-1)?.arguments ?? {};
  }
}

function pointerTo(message: ToolResultMessage, occurrenceKey: string, text: string): RecoveryPointer[] {
  const { toolCallId } = message;
  return text.length < contentChars(message.content) ? [{ toolCallId: String(toolCallId), occurrenceKey, text }] : [];
}

function recoveryText({ toolName }: ToolResultMessage, args: Record<string, unknown>): string {
  return toolName === QUERY_TOOL_NAME
    ? `[was shown here; ask again: ${describeAsk(args)}]`
    : `[was shown here; the file can be read again: ${describeCall(toolName, args)}]`;
}

/** An id alone may name a later result too, so the pointer gives the key. */
function supersededText({ toolName }: ToolResultMessage, args: Record<string, unknown>, key: string): string {
  return `[${describeCall(toolName, args)}: the newest output stands whole further on. This one: ${QUERY_TOOL_NAME} ${key}]`;
}

function describeAsk(args: Record<string, unknown>): string {
  return `${QUERY_TOOL_NAME} ${asked(args).slice(0, 8).join(", ")}`;
}

function asked({ toolCallIds }: Record<string, unknown>): string[] {
  return refsIn(toolCallIds);
}
