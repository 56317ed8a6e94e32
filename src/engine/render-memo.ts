/**
 * Remembers how the settled part of a conversation was rendered. Within an epoch that part renders the same every time,
 * but the host hands out fresh copies of its messages for every request; so what is kept is not messages but what was
 * done to each of them.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { pruneMessages, type RenderOptions } from "../pruner.js";
import type { RenderPlan } from "../render/plan.js";
import { isClosingReply, isToolResult, lastAnswerIndex } from "../transcript/messages.js";

/** A message goes out as it came, with another content, or is one of ours. */
type Step =
  | { kind: "as-is"; index: number }
  | { kind: "content"; index: number; content: AgentMessage }
  | { kind: "own"; message: AgentMessage };

interface Mark {
  timestamp: number;
  /** Call id of a result, role of any other message. */
  name: string;
}

/** The settled part: everything up to a closing reply, behind which no call is open and no chain reaches. */
interface Settled {
  plan: RenderPlan;
  /** What each of its messages is known again by. */
  marks: Mark[];
  steps: Step[];
  changed: boolean;
  /** Chains that stand in it. */
  blockIds: Set<string>;
}

export class RenderMemo {
  private settled: Settled | undefined;

  /** As `pruneMessages`, which it gives the same result as. */
  render(messages: AgentMessage[], plan: RenderPlan, options: RenderOptions = {}): AgentMessage[] {
    // Records without occurrence keys are judged over the whole conversation.
    if (plan.bareIds.size > 0 || plan.legacySummaries.size > 0) return pruneMessages(messages, plan, options);
    const settled = this.settleUpTo(messages, plan, options);
    const start = settled.marks.length;
    const rest = start === 0 ? messages : messages.slice(start);
    const chains =
      settled.blockIds.size === 0 ? plan.chains : plan.chains.filter((c) => !settled.blockIds.has(c.entry.blockId));
    const tail = pruneMessages(rest, { ...plan, chains }, options);
    if (start === 0) return tail;
    if (!settled.changed && tail === rest) return messages;
    return [...settled.steps.map((step) => play(step, messages)), ...tail];
  }

  /** What is known of `messages`, extended to their last closing reply that the model has gone on from. */
  private settleUpTo(messages: AgentMessage[], plan: RenderPlan, options: RenderOptions): Settled {
    const known = this.known(messages, plan);
    const end = messages.slice(0, lastAnswerIndex(messages) + 1).findLastIndex(isClosingReply) + 1;
    const start = known.marks.length;
    if (end <= start) return known;
    const part = messages.slice(start, end);
    const present = new Set(part.map((message) => message.timestamp));
    const anywhere = new Set(messages.map((message) => message.timestamp));
    // One whose end is gone is looked for as well, so that it is told of where its results stand.
    const chains = plan.chains.filter(
      ({ entry: { finalAssistantTimestamp: last } }) => present.has(last) || !anywhere.has(last),
    );
    const rendered = pruneMessages(part, { ...plan, chains }, { ...options, allSeen: true });
    for (const { entry } of chains) if (present.has(entry.finalAssistantTimestamp)) known.blockIds.add(entry.blockId);
    for (const message of part) known.marks.push(markOf(message));
    known.steps.push(...stepsOf(part, rendered, start));
    known.changed ||= rendered !== part;
    this.settled = known;
    return known;
  }

  private known(messages: readonly AgentMessage[], plan: RenderPlan): Settled {
    const { settled } = this;
    if (settled?.plan === plan && settled.marks.every((mark, i) => isMarked(messages[i], mark))) return settled;
    return { plan, marks: [], steps: [], changed: false, blockIds: new Set() };
  }
}

function play(step: Step, messages: readonly AgentMessage[]): AgentMessage {
  if (step.kind === "own") return step.message;
  const message = messages[step.index];
  if (!message) throw new Error("a settled message is gone");
  return step.kind === "as-is" ? message : withContentOf(message, step.content);
}

function withContentOf(message: AgentMessage, other: AgentMessage): AgentMessage {
  return "content" in other ? ({ ...message, content: other.content } as AgentMessage) : message;
}

/** What was done to the messages of a part, which begins at `offset`, to make the rendered ones of them. */
function stepsOf(part: readonly AgentMessage[], rendered: readonly AgentMessage[], offset: number): Step[] {
  const places = new Map(part.map((message, i) => [message, i]));
  const taken = new Set(rendered.map((message) => places.get(message)));
  let next = 0;
  return rendered.map((message): Step => {
    const index = places.get(message);
    if (index !== undefined) return { kind: "as-is", index: offset + index };
    const origin = part.findIndex((candidate, i) => i >= next && !taken.has(i) && isVersionOf(message, candidate));
    if (origin < 0) return { kind: "own", message };
    next = origin + 1;
    return { kind: "content", index: offset + origin, content: message };
  });
}

function isVersionOf(message: AgentMessage, original: AgentMessage): boolean {
  if (message.role === "user" || message.timestamp !== original.timestamp || message.role !== original.role)
    return false;
  return !isToolResult(message) || (isToolResult(original) && message.toolCallId === original.toolCallId);
}

function markOf(message: AgentMessage): Mark {
  return { timestamp: message.timestamp, name: isToolResult(message) ? message.toolCallId : message.role };
}

function isMarked(message: AgentMessage | undefined, mark: Mark): boolean {
  if (message?.timestamp !== mark.timestamp) return false;
  return mark.name === (isToolResult(message) ? message.toolCallId : message.role);
}
