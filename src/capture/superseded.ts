/** Protected output that came again: of a file or list that was read several times, only the newest copy is needed. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { Follower } from "../transcript/follower.ts";
import {
  countImages,
  extractToolResultText,
  isAssistant,
  isToolResult,
  occurrenceKey,
} from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import type { Protection } from "./protection.ts";

/** A protected result, by what it is about. */
interface Reading {
  key: string;
  chars: number;
}

/**
 * Occurrence keys of the protected results of `messages` that a later one makes superfluous: one of the same subject
 * (see `Protection.subjectOf`) or, of a subject, one with the same text. Failed results neither replace nor give way, and
 * of a file a much shorter one does not replace either: it may say no more than that nothing has changed.
 */
export function supersededKeys(messages: readonly AgentMessage[], isProtected: Protection): ReadonlySet<string> {
  return new SupersededScan().keysIn(messages, isProtected);
}

/** As `supersededKeys`, of a conversation that is asked about again and again while it grows. */
export class SupersededScan {
  private readonly follower = new Follower((isProtected: Protection) => new Readings(isProtected));

  keysIn(messages: readonly AgentMessage[], isProtected: Protection): ReadonlySet<string> {
    return this.follower.follow(messages, isProtected).superseded;
  }
}

class Readings {
  readonly superseded = new Set<string>();
  private readonly newest = new Map<string, Reading>();
  private readonly pairing = new CallPairing();

  constructor(private readonly isProtected: Protection) {}

  take(message: AgentMessage): void {
    if (isAssistant(message)) this.pairing.open(message);
    if (!isToolResult(message)) return;
    const { isProtected } = this;
    const call = { toolName: message.toolName, args: this.pairing.take(message.toolCallId)?.arguments ?? {} };
    const subject = message.isError || !isProtected(call) ? undefined : isProtected.subjectOf?.(call);
    if (subject === undefined) return;
    const text = extractToolResultText(message);
    const reading = { key: occurrenceKey(message.toolCallId, message.timestamp), chars: text.length };
    const names =
      countImages(message.content) === 0 ? [`subject ${subject.name}`, `text ${text}`] : [`subject ${subject.name}`];
    for (const name of names) {
      const earlier = this.newest.get(name);
      if (earlier && !subject.isList && reading.chars < earlier.chars / 2) continue;
      if (earlier && earlier.key !== reading.key) this.superseded.add(earlier.key);
      this.newest.set(name, reading);
    }
  }
}
