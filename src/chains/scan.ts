/** Finds the chains of a conversation that is asked about again and again while it grows. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { ChainDetector } from "../chain-detector.ts";
import { Follower } from "../transcript/follower.ts";
import type { ChainRange } from "../types.ts";

type IsProtected = (call: { toolName: string; args: Record<string, unknown> }) => boolean;

/** As `detectChains`, with each message looked at once. */
export class ChainScan {
  private readonly follower = new Follower((isProtected: IsProtected) => new ChainDetector(isProtected));

  rangesOf(messages: readonly AgentMessage[], isProtected: IsProtected): readonly ChainRange[] {
    // The detector goes on adding to its own list.
    return [...this.follower.follow(messages, isProtected).ranges];
  }
}
