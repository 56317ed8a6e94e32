/** A provider's prompt cache: what of a prompt is found in it, by exact common beginning, and for how long. */
import type { CachePolicy } from "../cost/prices.ts";

/** A part of a prompt that is the same or not as a whole: the system prompt, a message. */
export interface PromptPart {
  /** Equal for equal content and different otherwise. */
  fingerprint: string;
  tokens: number;
  /** Content blocks, as a provider counts them when it looks back. */
  blocks: number;
}

/** What a cache does with one prompt, in tokens. */
export interface CacheUse {
  read: number;
  write: number;
  /** Too short a prompt to be cached. */
  input: number;
}

interface Node {
  children: Map<string, Node>;
  /** Time of the last prompt that held this part, ms. */
  usedAt: number;
  /** Time of the last prompt that ended here, ms. */
  endedAt: number;
}

/** The prompts of one model in their order. Each prompt keeps what it shares with earlier ones alive. */
export class PrefixCache {
  private readonly root = newNode();

  constructor(private readonly policy: CachePolicy) {}

  /** Looks up a prompt sent at `at` (ms), and keeps it. */
  use(prompt: readonly PromptPart[], at: number): CacheUse {
    const total = prompt.reduce((sum, part) => sum + part.tokens, 0);
    const path = this.follow(prompt);
    const { lookbackBlocks } = this.policy;
    const parts =
      lookbackBlocks === undefined ? this.commonParts(path, at) : this.markedParts(prompt, path, at, lookbackBlocks);
    const found = prompt.slice(0, parts).reduce((sum, part) => sum + part.tokens, 0);
    this.keep(prompt, path, at);
    if (total < this.policy.minTokens) return { read: 0, write: 0, input: total };
    const read = found < this.policy.minTokens ? 0 : found;
    return { read, write: total - read, input: 0 };
  }

  /** The nodes of the prompt's parts, as far as earlier prompts have them. */
  private follow(prompt: readonly PromptPart[]): Node[] {
    const path: Node[] = [];
    let node = this.root;
    for (const part of prompt) {
      const next = node.children.get(part.fingerprint);
      if (!next) break;
      path.push(next);
      node = next;
    }
    return path;
  }

  private commonParts(path: readonly Node[], at: number): number {
    const dead = path.findIndex((node) => !this.isAlive(node.usedAt, at));
    return dead < 0 ? path.length : dead;
  }

  /** Only ends of earlier prompts are found, the system prompt's among them, and only close to this prompt's end. */
  private markedParts(prompt: readonly PromptPart[], path: readonly Node[], at: number, lookback: number): number {
    let blocks = 0;
    for (let i = prompt.length - 1; i > 0 && blocks < lookback; i--) {
      const node = path[i];
      if (node && this.isAlive(node.endedAt, at)) return i + 1;
      blocks += prompt[i]?.blocks ?? 0;
    }
    return path[0] && this.isAlive(path[0].usedAt, at) ? 1 : 0;
  }

  private keep(prompt: readonly PromptPart[], path: readonly Node[], at: number): void {
    let node = this.root;
    for (const [i, part] of prompt.entries()) {
      const next = path[i] ?? newNode();
      next.usedAt = at;
      node.children.set(part.fingerprint, next);
      node = next;
    }
    node.endedAt = at;
  }

  private isAlive(since: number, at: number): boolean {
    return at - since <= this.policy.lifetimeMs;
  }
}

function newNode(): Node {
  return { children: new Map(), usedAt: Number.NEGATIVE_INFINITY, endedAt: Number.NEGATIVE_INFINITY };
}
