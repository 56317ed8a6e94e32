/** The entries of a session that have been taken in, and what the conversation on the current branch takes by them. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { RenderMemo } from "../engine/render-memo.ts";
import { type PlanConfig, SessionState } from "../engine/session-state.ts";
import type { RenderPlan } from "../render/plan.ts";
import type { SessionReader } from "../session/branch.ts";
import { MemorySession } from "../session/memory-session.ts";
import { isAssistant, isToolResult, toolCallsOf } from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { Rereads } from "./rereads.ts";
import { TokenBook } from "./sizes.ts";

/** Its leaf is where the next entry hangs. */
class PastEntries extends MemorySession {
  constructor(real: SessionReader) {
    super({ cwd: real.getCwd(), sessionDir: real.getSessionDir(), name: real.getSessionId() });
    this.getHeader = () => real.getHeader();
    this.getSessionFile = () => real.getSessionFile();
  }

  /** Entries that have been taken in. */
  get size(): number {
    return this.entries.length;
  }

  take(entry: SessionEntry): void {
    this.add(entry);
  }

  moveTo(id: string | null): void {
    this.leaf = id;
  }
}

/** The conversation before a request, in estimated tokens. */
export interface Measured {
  /** As it stands. */
  estimate: number;
  /** Of that, text that was asked back or fetched again. */
  recovered: number;
  /** What a render keeps out of it. */
  removed: number;
}

/** One session up to an entry; each entry and message is looked at once. */
export class PastSession {
  private readonly past: PastEntries;
  private readonly state: SessionState;
  private readonly memo = new RenderMemo();
  private readonly book = new TokenBook();
  private readonly rereads = new Rereads();
  private kept: { plan: RenderPlan; tokens: number } | undefined;
  private conversation = { messages: [] as readonly AgentMessage[], estimate: 0, recovered: 0 };
  private pairing = new CallPairing();

  /** @param onReread told of each result, by its time (ms), that was fetched again since it had been condensed */
  constructor(
    reader: SessionReader,
    private readonly config: () => PlanConfig,
    private readonly onReread: (at: number) => void,
  ) {
    this.past = new PastEntries(reader);
    this.state = new SessionState(this.past);
  }

  /** Entries that have been taken in. */
  get size(): number {
    return this.past.size;
  }

  /** Entries of the branch, root first. */
  get branch(): readonly SessionEntry[] {
    return this.state.branch.entries;
  }

  /** The branch is the one that an entry hangs on. */
  turnTo(parentId: string | null): void {
    if (parentId !== this.past.getLeafId()) this.past.moveTo(parentId);
  }

  take(entry: SessionEntry): void {
    this.past.take(entry);
  }

  /** Follows the branch to its end. */
  sync(): void {
    this.state.sync();
  }

  /** The reply does nothing but ask for output that was condensed. */
  asks(reply: AssistantMessage): boolean {
    const calls = toolCallsOf(reply);
    const isAsking = (toolName: string, args: Record<string, unknown>) => this.state.isRecovery({ toolName, args });
    return calls.length > 0 && calls.every((call) => isAsking(call.name, call.arguments));
  }

  /** A reply has come. @param wasCondensed its request went out condensed */
  replied(reply: AssistantMessage, wasCondensed: boolean): void {
    this.rereads.replied(reply, (key) => wasCondensed && this.isKeptOut(key));
  }

  /** The raw conversation, what a render keeps out of it, and what was asked back of that. Estimated tokens. */
  measure(): Measured {
    const messages = this.state.messages();
    const known = this.conversation;
    const goesOn =
      messages.length >= known.messages.length && messages[known.messages.length - 1] === known.messages.at(-1);
    const start = goesOn && known.messages.length > 0 ? known.messages.length : 0;
    let { estimate, recovered } = start > 0 ? known : { estimate: 0, recovered: 0 };
    if (start === 0) this.pairing = new CallPairing();
    for (let i = start; i < messages.length; i++) {
      const message = messages[i];
      if (!message) continue;
      const tokens = this.book.of(message);
      estimate += tokens;
      if (isAssistant(message)) this.pairing.open(message);
      if (this.isRecovered(message)) recovered += tokens;
    }
    this.conversation = { messages, estimate, recovered };
    const plan = this.state.plan(this.config());
    if (this.kept?.plan !== plan || start === 0) {
      const sent = plan.isEmpty && plan.chains.length === 0 ? messages : this.memo.render([...messages], plan);
      this.kept = { plan, tokens: Math.max(0, estimate - this.book.sum(sent)) };
    }
    return { estimate, recovered, removed: this.kept.tokens };
  }

  private isRecovered(message: AgentMessage): boolean {
    if (isAssistant(message)) return this.asks(message);
    if (!isToolResult(message)) return false;
    const call = this.pairing.take(message.toolCallId);
    if (call === undefined) return false;
    if (this.state.isRecovery({ toolName: call.name, args: call.arguments })) return true;
    if (!this.rereads.isReread(message, call)) return false;
    this.onReread(message.timestamp);
    return true;
  }

  /** Something else stands in the place of this result now. */
  private isKeptOut(key: string): boolean {
    const { replacements, chains } = this.state.plan(this.config());
    return replacements.has(key) || chains.some(({ entry }) => entry.droppedOccurrenceKeys?.includes(key));
  }

  /** Estimated tokens behind the reply of that time, itself included, as they stand. */
  fresh(at: number): number {
    const { messages } = this.conversation;
    let tokens = 0;
    for (let i = messages.length - 1; i >= 0; i--) {
      const message = messages[i];
      if (!message || message.timestamp < at) break;
      tokens += this.book.of(message);
    }
    return tokens;
  }
}
