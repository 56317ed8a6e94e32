/** A simulated session as a host has it: messages made of entries, both hosts' shapes, models, and events that come late. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { buildSessionContext, type ContextUsage } from "@mariozechner/pi-coding-agent";
import { contentChars, isAssistant, isDropped, isToolResult } from "../../src/transcript/messages.ts";
import { deepFreeze } from "./generate.ts";
import { type EntryTree, SimulatedSession } from "./simulated-session.ts";
import { type ModelName, type SummaryName, WalkModels, walkModel } from "./walk-models.ts";
import type { Walk } from "./walk-plan.ts";

/** What stays the same from one process to the next. */
export interface Surroundings {
  agentDir: string;
  shapes: Walk["shapes"];
  held: boolean;
  model: ModelName;
}

/** A simulated session whose messages are the ones that the host makes of its entries. */
export class HostedSession extends SimulatedSession {
  private readonly models: WalkModels;

  constructor(
    tree: EntryTree,
    private readonly around: Surroundings,
    models = new WalkModels(around.held),
  ) {
    super(around.agentDir, tree, false, { models: models.registry, model: walkModel(around.model) });
    this.models = models;
    this.host.usage = () => usageOf(this.messages(), this.host.model?.contextWindow, this.isCompactedSince());
  }

  override messages(): AgentMessage[] {
    const { messages } = buildSessionContext(this.tree.getEntries(), this.tree.getLeafId());
    const all = [...messages, ...this.late];
    // The newer host keeps its system messages from the handlers.
    return this.around.shapes === "new" ? all.filter(({ role }) => String(role) !== "system") : all;
  }

  /** Messages that the agent holds and whose entries and events have not come yet. */
  readonly late: AgentMessage[] = [];

  addLate(message: AgentMessage): void {
    this.late.push(message);
  }

  /** The entries and events of the next late message come. */
  takeLate(): AgentMessage | undefined {
    const message = this.late.shift();
    if (message) this.add(message);
    return message;
  }

  override add(message: AgentMessage): void {
    if (message.role === "compactionSummary" || message.role === "branchSummary") return;
    if (message.role !== "custom") return void this.tree.appendMessage(message);
    const { customType, content, display } = message;
    // The host stamps the entry when it writes it, later than the message.
    this.tree.appendOther({ type: "custom_message", customType, content, display }, message.timestamp + 3);
  }

  /** Each handler is given the model of its time. */
  switchModel(name: ModelName): void {
    this.around.model = name;
    this.host = { ...this.host, model: walkModel(name) };
  }

  /** A process that takes up what is in the file. */
  next(tree = this.tree.reload()): HostedSession {
    return new HostedSession(tree, this.around);
  }

  get unanswered(): number {
    return this.models.unanswered;
  }

  answer(count: number, by: SummaryName): void {
    this.models.answer(count, by);
  }

  get flushing(): boolean {
    return this.pruner.summary()?.flushing === true;
  }

  /** The render of the branch as it stands, without anything that a request would set going. */
  view(): string {
    return JSON.stringify(this.pruner.contextView(this.host)?.sent);
  }

  private isCompactedSince(): boolean {
    const last = this.tree.branch().findLast((entry) => entry.type === "compaction" || entry.type === "message");
    return last?.type === "compaction";
  }
}

/** As the hosts reckon: what the last reply has reported, and a quarter of the characters behind it. */
export function usageOf(
  messages: readonly AgentMessage[],
  contextWindow: number | undefined,
  compacted: boolean,
): ContextUsage | undefined {
  if (contextWindow === undefined) return undefined;
  if (compacted) return { tokens: null, percent: null, contextWindow };
  const at = messages.findLastIndex((message) => isAssistant(message) && !isDropped(message));
  const last = messages[at];
  const reported = last && isAssistant(last) ? last.usage.totalTokens : 0;
  const behind = messages.slice(at + 1);
  const chars = behind.reduce((sum, message) => sum + charsOf(message), 0);
  const tokens = reported + Math.ceil(chars / 4);
  return { tokens, percent: (100 * tokens) / contextWindow, contextWindow };
}

function charsOf(message: AgentMessage): number {
  if (!("content" in message)) return 0;
  return typeof message.content === "string" ? message.content.length : contentChars(message.content);
}

/** The messages as a host writes them. */
export function shaped(messages: readonly AgentMessage[], shapes: Walk["shapes"]): AgentMessage[] {
  if (shapes === "old") return [...messages];
  return messages.flatMap((message, i): AgentMessage[] => {
    if (message.role === "user" && i % 3 === 0) return [systemMessage(message.timestamp), message];
    if (isAssistant(message)) return [deepFreeze({ ...message, durationMs: 1_200, thinkingLevel: "medium" })];
    if (!isToolResult(message)) return [message];
    const nestedCalls = {
      calls: [{ id: `${message.toolCallId}/1`, name: "bash", arguments: { command: "ls" }, status: "ok" as const }],
      complete: true,
    };
    const details = { exitCode: 0, truncation: { truncated: false } };
    const extras = { ...(i % 4 === 0 ? { nestedCalls } : {}), ...(i % 3 === 0 ? { details } : {}) };
    return [deepFreeze({ ...message, durationMs: 7, ...extras })];
  });
}

/** The newer host keeps prompt and tools as messages of a role that the older one's types do not know. */
function systemMessage(timestamp: number): AgentMessage {
  const sections = { identity: "You are pi, a coding agent.", date: "Friday" };
  const read = { name: "read", description: "Reads a file.", parameters: { type: "object", properties: {} } };
  const message: unknown = { role: "system", content: "", sections, toolsAdded: [read], timestamp };
  return deepFreeze(message as AgentMessage);
}
