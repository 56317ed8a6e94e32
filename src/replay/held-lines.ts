/** Which of the quoted lines the messages of a request hold. From one request to the next only what changed is looked at. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAssistant, isDropped } from "../transcript/messages.ts";
import { MIN_REPLACED_CHARS, textsIn } from "./quotes.ts";

/** A text is searched for all lines at once, by the hash of their first characters. */
const HEAD = MIN_REPLACED_CHARS;
const BASE = 0x01000193;
const LEADING = power(BASE, HEAD - 1);
/** Bits of the hash that tell at once that no line begins here. */
const FILTER_BITS = 20;

/** Most messages hold none of the lines. */
const NONE: readonly string[] = Object.freeze([]);

/** Counts lines in the messages as sent. A line is held where it stands within a text, also as part of a longer line. */
export class HeldLines {
  private readonly counts = new Map<string, number>();
  private sent: readonly AgentMessage[] = [];
  /** Lines of each message that was sent. */
  private readonly held: (readonly string[])[] = [];
  private readonly byMessage = new WeakMap<AgentMessage, readonly string[]>();
  /** A rendered message is another object in each request, its texts seldom others. */
  private readonly byText = new Map<string, readonly string[]>();
  private readonly byHead = new Map<number, string[]>();
  private readonly filter = new Uint8Array(1 << FILTER_BITS);

  /** @param lines those that `has` may be asked for, of 12 characters or more */
  constructor(lines: Iterable<string>) {
    for (const line of lines) {
      const head = headHash(line);
      const known = this.byHead.get(head);
      if (known) known.push(line);
      else this.byHead.set(head, [line]);
      this.filter[head >>> (32 - FILTER_BITS)] = 1;
    }
  }

  /** The messages of the next request, as sent; the list is not to be changed afterwards. */
  update(messages: readonly AgentMessage[]): void {
    const { sent, held } = this;
    for (let i = 0; i < Math.max(messages.length, held.length); i++) {
      const message = messages[i];
      if (message !== undefined && message === sent[i]) continue;
      const lines = message === undefined ? NONE : this.linesOf(message);
      const before = held[i] ?? NONE;
      if (lines !== before) {
        this.count(before, -1);
        this.count(lines, 1);
      }
      held[i] = lines;
    }
    held.length = messages.length;
    this.sent = messages;
  }

  /** Whether a message of the last request holds the line. */
  has(line: string): boolean {
    return (this.counts.get(line) ?? 0) > 0;
  }

  private count(lines: readonly string[], change: 1 | -1): void {
    for (const line of lines) this.counts.set(line, (this.counts.get(line) ?? 0) + change);
  }

  private linesOf(message: AgentMessage): readonly string[] {
    const known = this.byMessage.get(message);
    if (known) return known;
    let lines = NONE;
    for (const text of textsSent(message)) {
      const found = this.linesIn(text);
      if (found.length > 0) lines = lines.length === 0 ? found : [...lines, ...found];
    }
    this.byMessage.set(message, lines);
    return lines;
  }

  private linesIn(text: string): readonly string[] {
    const known = this.byText.get(text);
    if (known) return known;
    const found = new Set<string>();
    let hash = headHash(text);
    for (let start = 0; start + HEAD <= text.length; start++) {
      if (this.filter[hash >>> (32 - FILTER_BITS)] === 1) {
        for (const line of this.byHead.get(hash) ?? []) if (text.startsWith(line, start)) found.add(line);
      }
      const rest = hash - Math.imul(text.charCodeAt(start), LEADING);
      hash = (Math.imul(rest, BASE) + text.charCodeAt(start + HEAD)) >>> 0;
    }
    const lines = found.size === 0 ? NONE : [...found];
    this.byText.set(text, lines);
    return lines;
  }
}

/** Polynomial hash of the first characters, 32 bits without a sign. */
function headHash(text: string): number {
  let hash = 0;
  for (let i = 0; i < HEAD && i < text.length; i++) hash = (Math.imul(hash, BASE) + text.charCodeAt(i)) >>> 0;
  return hash;
}

function power(base: number, exponent: number): number {
  let result = 1;
  for (let i = 0; i < exponent; i++) result = Math.imul(result, base);
  return result;
}

/** Every text of a message that a model gets to read. */
function textsSent(message: AgentMessage): readonly string[] {
  if (message.role === "bashExecution") return [message.command, message.output];
  if ("summary" in message) return [message.summary];
  if (!("content" in message) || (isAssistant(message) && isDropped(message))) return NONE;
  const { content } = message;
  if (typeof content === "string") return [content];
  const [first] = content;
  // Nearly every result is one text, and there are many results.
  if (content.length === 1 && first?.type === "text") return [first.text];
  return textsIn(content).map(({ text }) => text);
}
