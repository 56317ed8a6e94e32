/** Finds the chains of a conversation: a message that opens a run, its tool turns, the reply that closes it. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolResultMessage } from "@mariozechner/pi-ai";
import {
  isAssistant,
  isClosingReply,
  isDropped,
  isForeignMessage,
  isToolResult,
  occurrenceKey,
  ResultIds,
  toolCallsOf,
} from "./transcript/messages.ts";
import { CallPairing } from "./transcript/pairing.ts";
import type { ChainRange } from "./types.ts";

/** Tools whose output is protected: their exact names, or a test for each call. */
export type ProtectedTools =
  | readonly string[]
  | ((call: { toolName: string; args: Record<string, unknown> }) => boolean);

/**
 * The chains that have come to their end, oldest first; the open one is left out.
 *
 * - A user message opens a chain. So does a message of another extension, but only where no run is under way: at the
 *   start of the context or behind a closing reply. Within a run it is a notice and changes nothing. The summary messages
 *   of earlier releases neither open nor end anything.
 * - A text-only reply that ended by `stop` closes the run. One that ended by its length, by an error or by an abort does
 *   not. A run without a tool call is no chain.
 * - A user message before any closing reply ends the chain as an interrupted one and opens the next; without a result it
 *   was no chain. Only while results are still to come the message decides nothing: if one comes, the message was
 *   steering within the chain; if the next assistant message comes instead, the chain had ended. So no chain ever ends
 *   between a call and its result.
 * - A run whose opening message is gone (behind a compaction) belongs to no chain.
 *
 * Each message is looked at once, in order, and what has been found is final: messages that are appended add chains and
 * change none.
 *
 * `middleToolCallIds` holds every id that stands in the range; `occurrenceKeys` only the results that reach a provider,
 * so neither results without a call nor those of replies that pi-ai leaves out.
 */
export function detectChains(messages: readonly AgentMessage[], protectedTools: ProtectedTools = []): ChainRange[] {
  const detector = new ChainDetector(protectedTools);
  for (const message of messages) detector.take(message);
  return detector.ranges;
}

/** A chain that has not come to its end. */
interface OpenChain {
  startUserTimestamp: number;
  lastAssistantTimestamp: number;
  hasCall: boolean;
  ids: Set<string>;
  protectedIds: Set<string>;
  keys: string[];
  protectedKeys: Set<string>;
}

/** Finds the chains of a conversation that is given to it message by message. */
export class ChainDetector {
  readonly ranges: ChainRange[] = [];
  private chain: OpenChain | undefined;
  /** Nothing runs: the context begins, or a reply has closed what ran. */
  private isIdle = true;
  /** A user message that will have opened a chain unless a result comes first. */
  private undecided: number | undefined;
  private readonly pairing = new CallPairing();
  private readonly isProtected: (toolName: string, args: Record<string, unknown>) => boolean;

  private readonly ids = new ResultIds();

  constructor(protectedTools: ProtectedTools) {
    if (typeof protectedTools === "function") {
      this.isProtected = (toolName, args) => protectedTools({ toolName, args });
    } else {
      const names = new Set(protectedTools);
      this.isProtected = (toolName) => names.has(toolName);
    }
  }

  take(message: AgentMessage): void {
    if (message.role === "user") this.takeUser(message.timestamp);
    else if (isAssistant(message)) this.takeAssistant(message);
    else if (isToolResult(message)) this.takeResult(message);
    else if (isForeignMessage(message) && this.isIdle) this.open(message.timestamp);
  }

  private takeUser(timestamp: number): void {
    if (this.pairing.isWaiting) this.undecided = timestamp;
    else this.restart(timestamp);
  }

  private takeAssistant(message: AssistantMessage): void {
    if (this.undecided !== undefined) this.restart(this.undecided);
    this.pairing.open(message);
    this.ids.opens();
    this.isIdle = isClosingReply(message);
    const { chain } = this;
    if (!chain) return;
    if (this.isIdle) {
      if (chain.hasCall) this.end(chain, message.timestamp, false);
      this.chain = undefined;
      return;
    }
    chain.lastAssistantTimestamp = message.timestamp;
    for (const call of toolCallsOf(message)) {
      if (!isDropped(message)) chain.hasCall = true;
      chain.ids.add(String(call.id));
      if (this.isProtected(call.name, call.arguments)) chain.protectedIds.add(String(call.id));
    }
  }

  private takeResult(message: ToolResultMessage): void {
    const call = this.pairing.take(message.toolCallId);
    const id = this.ids.idOf(message);
    if (call) this.undecided = undefined;
    this.isIdle = false;
    const { chain } = this;
    if (!chain) return;
    const args = call?.arguments ?? {};
    const isProtected =
      this.isProtected(message.toolName, args) ||
      (call !== undefined && call.name !== message.toolName && this.isProtected(call.name, args));
    chain.ids.add(String(message.toolCallId));
    if (isProtected) chain.protectedIds.add(String(message.toolCallId));
    if (!call) return;
    const key = occurrenceKey(id, message.timestamp);
    chain.keys.push(key);
    if (isProtected) chain.protectedKeys.add(key);
  }

  /** What ran has been interrupted by a message that opens the next chain. */
  private restart(timestamp: number): void {
    const { chain } = this;
    if (chain && chain.keys.length > 0) this.end(chain, chain.lastAssistantTimestamp, true);
    this.open(timestamp);
  }

  private open(timestamp: number): void {
    this.undecided = undefined;
    this.isIdle = false;
    this.chain = {
      startUserTimestamp: timestamp,
      lastAssistantTimestamp: timestamp,
      hasCall: false,
      ids: new Set(),
      protectedIds: new Set(),
      keys: [],
      protectedKeys: new Set(),
    };
  }

  private end(chain: OpenChain, finalAssistantTimestamp: number, interrupted: boolean): void {
    this.ranges.push({
      startUserTimestamp: chain.startUserTimestamp,
      finalAssistantTimestamp,
      middleToolCallIds: [...chain.ids],
      protectedToolCallIds: [...chain.protectedIds],
      occurrenceKeys: chain.keys,
      protectedOccurrenceKeys: [...chain.protectedKeys],
      interrupted,
    });
  }
}
