/** Which earlier output and arguments a reply still uses: its calls quote lines of them. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import {
  extractToolResultText,
  isAssistant,
  isDropped,
  isText,
  isToolResult,
  occurrenceKey,
  textOf,
  toolCallsOf,
} from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { estimateTextTokens } from "../transcript/tokens.ts";
import { type ArgumentText, fileOf, linesOf, quotesOf, shownLines, textsIn } from "./quotes.ts";

/** An output, or the arguments of a call, that later calls may quote. */
export interface Origin {
  kind: "result" | "arguments";
  /** Occurrence key of the call's result; the call's bare id where it has none. */
  key: string;
  tool: string;
  /** The file that the call is about, where its arguments name one. */
  file: string | undefined;
  /** Characters of the output, or of all strings of the arguments; and tokens, as estimated. */
  chars: number;
  tokens: number;
  /** Number of the reply that made the call, from 0. */
  request: number;
}

/** One call of a reply quotes one origin. */
export interface Use {
  /** Tool of the quoting call, and its place among the calls of its reply. */
  tool: string;
  call: number;
  /** The quoting call replaces text. */
  isEdit: boolean;
  origin: Origin;
  /** Requests from the reply that made the origin's call to this one. */
  age: number;
  /** The quoted lines, trimmed. A line belongs to the newest origin that holds it. */
  lines: readonly string[];
}

/** What one reply uses. */
export interface ReplyUses {
  uses: readonly Use[];
  /** Calls that replace text, whether they quote anything or not. */
  edits: number;
  /** Messages of the user before it. */
  turn: number;
}

/** Finds uses in a conversation that is given message by message, raw. Takes time in proportion to its length. */
export class UseFinder {
  private readonly origins = new Map<string, Origin>();
  /** Lines of user messages and reply texts: whoever quotes those needs no output. */
  private readonly spoken = new Set<string>();
  private readonly pairing = new CallPairing();
  private readonly argumentsOf = new WeakMap<object, Origin>();
  private replies = 0;
  private turns = 0;

  /** The next message. Gives what it uses where it is a reply. */
  add(message: AgentMessage): ReplyUses | undefined {
    if (isAssistant(message)) return this.addReply(message);
    if (message.role === "user") this.turns += 1;
    if (isToolResult(message)) this.addResult(message);
    else this.speak(textsSaid(message));
    return undefined;
  }

  private addReply(reply: AssistantMessage): ReplyUses {
    const calls = toolCallsOf(reply).map((call) => ({ call, texts: textsIn(call.arguments) }));
    const uses: Use[] = [];
    let edits = 0;
    for (const [i, { call, texts }] of calls.entries()) {
      const { isEdit, lines } = quotesOf(texts);
      if (isEdit) edits += 1;
      for (const [origin, quoted] of this.originsOf(lines)) {
        const age = this.replies - origin.request;
        uses.push({ tool: call.name, call: i, isEdit, origin, age, lines: quoted });
      }
    }
    this.pairing.open(reply);
    this.replies += 1;
    // A provider is never sent a broken reply, so that nothing can quote it.
    if (!isDropped(reply)) this.addWords(reply, calls);
    return { uses, edits, turn: this.turns };
  }

  /** What a reply says and calls is there for the next one to quote. */
  private addWords(reply: AssistantMessage, calls: readonly { call: ToolCall; texts: ArgumentText[] }[]): void {
    this.speak(reply.content.filter(isText).map(({ text }) => text));
    const request = this.replies - 1;
    for (const { call, texts } of calls) {
      const chars = texts.reduce((sum, { text }) => sum + text.length, 0);
      const tokens = texts.reduce((sum, { text }) => sum + estimateTextTokens(text), 0);
      const from = { key: call.id, tool: call.name, file: fileOf(texts), request };
      const origin: Origin = { kind: "arguments", ...from, chars, tokens };
      this.argumentsOf.set(call, origin);
      for (const { text } of texts) for (const line of linesOf(text)) this.origins.set(line, origin);
    }
  }

  private addResult(message: Extract<AgentMessage, { role: "toolResult" }>): void {
    const call = this.pairing.take(message.toolCallId);
    const args = call && this.argumentsOf.get(call);
    const key = occurrenceKey(message.toolCallId, message.timestamp);
    if (args) args.key = key;
    const text = extractToolResultText(message);
    const from = { tool: message.toolName, file: args?.file, request: args?.request ?? Math.max(0, this.replies - 1) };
    const origin: Origin = { kind: "result", key, ...from, chars: text.length, tokens: estimateTextTokens(text) };
    for (const line of shownLines(text)) this.origins.set(line, origin);
  }

  private originsOf(lines: ReadonlySet<string>): Map<Origin, string[]> {
    const found = new Map<Origin, string[]>();
    for (const line of lines) {
      const origin = this.spoken.has(line) ? undefined : this.origins.get(line);
      if (!origin) continue;
      const quoted = found.get(origin);
      if (quoted) quoted.push(line);
      else found.set(origin, [line]);
    }
    return found;
  }

  private speak(texts: readonly string[]): void {
    for (const text of texts) for (const line of linesOf(text)) this.spoken.add(line);
  }
}

function textsSaid(message: AgentMessage): string[] {
  if (message.role === "bashExecution") return [message.command, message.output];
  if ("summary" in message) return [message.summary];
  return "content" in message ? [textOf(message.content)] : [];
}
