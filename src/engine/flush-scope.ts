/** What a flush would work on now: what is pending, protected and in use. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { type InUse, roomFor } from "../capture/in-use.ts";
import { type Protection, protectedTurnsOf, protectionOf } from "../capture/protection.ts";
import { contentChars, isAssistant } from "../transcript/messages.ts";
import { charsOfTokens, jsonSize } from "../transcript/tokens.ts";
import type { CapturedBatch, ContextPruneConfig } from "../types.ts";
import type { Moment } from "./environment.ts";
import type { FlushRequest } from "./flush-runner.ts";
import type { SessionState } from "./session-state.ts";

/** What a flush is asked for, beside the settings. */
export type FlushWork = Pick<
  FlushRequest,
  "pending" | "messages" | "inUse" | "compactAll" | "guide" | "mustFree" | "decision" | "onProgress"
>;

/** Reads the state of one session; changes nothing. */
export class FlushScope {
  private compiled: { config: ContextPruneConfig; cwd: string; isProtected: Protection } | undefined;

  constructor(
    private readonly state: SessionState,
    private readonly settings: () => ContextPruneConfig,
  ) {}

  /**
   * What a flush would work on.
   * @param whole the conversation to its end, where `messages` stop before it
   * @param mustFree tokens that the flush has to free, be it of what is in use
   */
  workIn(
    moment: Pick<Moment, "cwd" | "model">,
    messages: readonly AgentMessage[],
    whole = messages,
    mustFree = 0,
  ): FlushWork {
    const { batchingMode } = this.settings();
    const protectedTurns = protectedTurnsOf(this.settings());
    const options = { batchingMode, protectedTurns, isProtected: this.protection(moment) };
    const inUse = this.inUse(moment, whole);
    const pending = this.state.pending(messages, { ...options, inUse });
    const missing = mustFree <= 0 || inUse.size === 0 ? 0 : charsOfTokens(mustFree) - charsToFree(pending);
    if (missing <= 0) return { messages, pending, inUse };
    const room = [...inUse.values()].reduce((sum, chars) => sum + chars, -missing);
    const left = this.inUse(moment, whole, room);
    return { messages, pending: this.state.pending(messages, { ...options, inUse: left }), inUse: left };
  }

  /** What the model is still at work with. @param maxChars room for it */
  inUse(
    { model }: Pick<Moment, "model">,
    messages: readonly AgentMessage[],
    maxChars = roomFor(model?.contextWindow),
  ): InUse {
    const { workingSet: requests, pruneOn } = this.settings();
    const isPriced = pruneOn === "cache-aware";
    return this.state.inUse(
      messages,
      requests === null ? { requests: 0, maxChars: 0 } : { requests, isPriced, maxChars },
    );
  }

  /** The output of this call is never condensed: it is protected, or has been asked back. */
  isExempt(moment: Pick<Moment, "cwd">, call: { toolName: string; args: Record<string, unknown> }): boolean {
    return this.state.isRecovery(call) || this.protection(moment)(call);
  }

  /** What is protected now. Compiled once for each state of the settings, since every request asks. */
  protection({ cwd }: Pick<Moment, "cwd">): Protection {
    const config = this.settings();
    if (this.compiled?.config !== config || this.compiled.cwd !== cwd) {
      this.compiled = { config, cwd, isProtected: this.withKept(protectionOf(config, cwd)) };
    }
    return this.compiled.isProtected;
  }

  /** What is protected by now, in the folder that was last asked about. */
  lastProtection(): Protection | undefined {
    return this.compiled && this.protection(this.compiled);
  }

  /**
   * The same conversation as the branch holds it, up to the last reply of `messages`: another extension may have changed
   * the messages of a request, and what came after that reply may not be in the branch of the older host yet. `messages`
   * themselves where the branch lacks even the reply.
   */
  ownMessages(messages: readonly AgentMessage[]): readonly AgentMessage[] {
    const last = messages.findLast(isAssistant);
    const own = this.state.messages();
    const end = own.findLastIndex((message) => isAssistant(message) && message.timestamp === last?.timestamp);
    if (end === own.length - 1 && end >= 0) return own;
    return end < 0 ? messages : own.slice(0, end + 1);
  }

  /** Protection with the results that the person keeps. */
  private withKept(isProtected: Protection): Protection {
    const { indexer } = this.state;
    const isKept = (key: string | undefined) => key !== undefined && indexer.choiceOf(key) === "keep";
    return Object.assign((call: Parameters<Protection>[0]) => isKept(call.occurrenceKey) || isProtected(call), {
      subjectOf: isProtected.subjectOf,
    });
  }
}

/** Characters that a flush of `pending` takes out of the context at most. */
function charsToFree(pending: readonly CapturedBatch[]): number {
  const calls = pending.flatMap(({ held, toolCalls }) => (held ? [] : toolCalls));
  return calls.reduce((sum, { content, args }) => sum + contentChars(content) + jsonSize(args), 0);
}
