/** Finds the chains of a conversation that is asked about again and again while it grows. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { ChainDetector } from "../chain-detector.js";
import type { ChainRange } from "../types.js";

type IsProtected = (call: { toolName: string; args: Record<string, unknown> }) => boolean;

/** Looks at each message once, as long as the lists that it is given go on where the last one ended. */
export class ChainScan {
  private detector: ChainDetector | undefined;
  private isProtected: IsProtected | undefined;
  private first: AgentMessage | undefined;
  private last: AgentMessage | undefined;
  private taken = 0;

  /** As `detectChains`. The messages of one session are the same objects each time. */
  rangesOf(messages: readonly AgentMessage[], isProtected: IsProtected): readonly ChainRange[] {
    const detector = this.goesOn(messages, isProtected) ? this.detector : undefined;
    const current = detector ?? new ChainDetector(isProtected);
    for (const message of messages.slice(detector ? this.taken : 0)) current.take(message);
    this.detector = current;
    this.isProtected = isProtected;
    this.first = messages[0];
    this.last = messages.at(-1);
    this.taken = messages.length;
    // The detector goes on adding to its own list.
    return [...current.ranges];
  }

  /** A session is a tree: with the same first and last message, everything between them is the same. */
  private goesOn(messages: readonly AgentMessage[], isProtected: IsProtected): boolean {
    const { taken } = this;
    if (isProtected !== this.isProtected || taken === 0 || messages.length < taken) return false;
    return messages[0] === this.first && messages[taken - 1] === this.last;
  }
}
