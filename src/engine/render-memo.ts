/**
 * Remembers how the settled part of a conversation was rendered. Within an epoch that part renders the same every time,
 * but the host hands out fresh copies of its messages for every request; so what is kept is not messages but what was
 * done to each of them. A flush changes a few places, mostly near the end, so that what stands before them is kept too.
 */
import { isDeepStrictEqual } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { RenderedChain } from "../chain-range-prune.ts";
import { pruneMessages, type RenderOptions } from "../pruner.ts";
import type { RenderPlan } from "../render/plan.ts";
import { isClosingReply, isToolResult, lastAnswerIndex, timeOf } from "../transcript/messages.ts";

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

/** Messages up to a closing reply, behind which no call is open and no chain reaches. All are later than those before. */
interface Segment {
  /** Latest timestamp in it. */
  last: number;
  marks: Mark[];
  steps: Step[];
  changed: boolean;
  chains: RenderedChain[];
}

export class RenderMemo {
  private segments: Segment[] = [];
  private plan: RenderPlan | undefined;

  /** As `pruneMessages`, which it gives the same result as. */
  render(messages: AgentMessage[], plan: RenderPlan, options: RenderOptions = {}): AgentMessage[] {
    // Records without occurrence keys are judged over the whole conversation.
    if (plan.bareIds.size > 0 || plan.legacySummaries.size > 0) return pruneMessages(messages, plan, options);
    this.keepWhatHolds(messages, plan);
    this.settle(messages, plan, options);
    const start = this.settledCount();
    const rest = start === 0 ? messages : messages.slice(start);
    // A clock that has been set back: keys and times may name messages on both sides.
    if (start > 0 && earliest(rest) <= this.settledUntil()) return pruneMessages(messages, plan, options);
    const settledIds = new Set<string>();
    for (const { chains } of this.segments) for (const { entry } of chains) settledIds.add(entry.blockId);
    const chains = settledIds.size === 0 ? plan.chains : plan.chains.filter((c) => !settledIds.has(c.entry.blockId));
    const tail = pruneMessages(rest, { ...plan, chains }, options);
    if (start === 0) return tail;
    if (tail === rest && !this.segments.some(({ changed }) => changed)) return messages;
    const rendered: AgentMessage[] = [];
    for (const { steps } of this.segments) for (const step of steps) rendered.push(play(step, messages));
    for (const message of tail) rendered.push(message);
    return rendered;
  }

  /** Drops what `messages` do not begin with, and what another plan renders otherwise. */
  private keepWhatHolds(messages: readonly AgentMessage[], plan: RenderPlan): void {
    const changedFrom = this.plan && this.plan !== plan ? firstChange(this.segments, this.plan, plan) : undefined;
    if (!this.plan || changedFrom !== undefined) this.segments.length = changedFrom ?? 0;
    this.plan = plan;
    let index = 0;
    for (const [i, { marks }] of this.segments.entries()) {
      for (const mark of marks) {
        if (isMarked(messages[index++], mark)) continue;
        this.segments.length = i;
        return;
      }
    }
  }

  /** Extends what is known to the last closing reply that the model has gone on from. */
  private settle(messages: AgentMessage[], plan: RenderPlan, options: RenderOptions): void {
    const end = messages.slice(0, lastAnswerIndex(messages) + 1).findLastIndex(isClosingReply) + 1;
    const start = this.settledCount();
    if (end <= start) return;
    const chainsByEnd = new Map<number, RenderedChain[]>();
    const anywhere = new Set(messages.map(({ timestamp }) => timestamp));
    const endless: RenderedChain[] = [];
    for (const chain of plan.chains) {
      const { finalAssistantTimestamp: at } = chain.entry;
      if (!anywhere.has(at)) endless.push(chain);
      const known = chainsByEnd.get(at);
      if (known) known.push(chain);
      else chainsByEnd.set(at, [chain]);
    }
    for (const part of segmentsOf(messages, start, end, this.settledUntil())) {
      if (part.restart) this.segments = [];
      const own = messages.slice(part.start, part.end);
      const chains = [...new Set(own.map(({ timestamp }) => timestamp))].flatMap((at) => chainsByEnd.get(at) ?? []);
      // One whose end is gone is looked for as well, so that it is told of where its results stand.
      const looked = endless.length > 0 ? { ...plan, chains: [...chains, ...endless] } : { ...plan, chains };
      const rendered = pruneMessages(own, looked, { ...options, allSeen: true });
      this.segments.push({
        last: part.last,
        marks: own.map(markOf),
        steps: stepsOf(own, rendered, part.start),
        changed: rendered !== own,
        chains,
      });
    }
  }

  private settledCount(): number {
    let count = 0;
    for (const { marks } of this.segments) count += marks.length;
    return count;
  }

  private settledUntil(): number {
    return this.segments.at(-1)?.last ?? Number.NEGATIVE_INFINITY;
  }
}

/** Number of the first segment that `next` may render otherwise than `plan`; `undefined` where none is. */
function firstChange(segments: readonly Segment[], plan: RenderPlan, next: RenderPlan): number | undefined {
  if (plan.journal !== next.journal || plan.config !== next.config) return 0;
  const levels = new Map(next.chains.map(({ entry, level }) => [entry.blockId, level]));
  const changes = next.journal.slice(plan.revision, next.revision);
  const hasNewChain = changes.some(({ kind }) => kind === "chain");
  const first = earliest(changes);
  const index = segments.findIndex(
    ({ last, chains }) =>
      last >= first ||
      // The text of a chain may refer to another one.
      (hasNewChain && chains.some(({ body }) => /\{b\d/.test(body))) ||
      chains.some(({ entry, level }) => levels.get(entry.blockId) !== level),
  );
  return index < 0 ? undefined : index;
}

/**
 * Cuts `[start, end)` behind its closing replies. Where times run backwards, nothing is cut; where they run back behind
 * `until`, all that is known has to be taken in again.
 */
function segmentsOf(messages: readonly AgentMessage[], start: number, end: number, until: number) {
  const parts: { start: number; end: number; last: number; restart: boolean }[] = [];
  let begin = start;
  let low = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (let i = start; i < end; i++) {
    const message = messages[i];
    if (!message) continue;
    low = Math.min(low, timeAt(message));
    last = Math.max(last, timeAt(message));
    if (!isClosingReply(message) && i < end - 1) continue;
    const before = parts.at(-1)?.last ?? until;
    if (low <= before) return [{ start: 0, end, last: latest(messages.slice(0, end)), restart: true }];
    parts.push({ start: begin, end: i + 1, last, restart: false });
    begin = i + 1;
    low = Number.POSITIVE_INFINITY;
    last = Number.NEGATIVE_INFINITY;
  }
  return parts;
}

/** What has no time stands before everything, so that nothing is settled without it. */
function timeAt({ timestamp }: { timestamp: number }): number {
  return timeOf(timestamp) ?? Number.NEGATIVE_INFINITY;
}

function earliest(places: readonly { timestamp: number }[]): number {
  return places.reduce((low, place) => Math.min(low, timeAt(place)), Number.POSITIVE_INFINITY);
}

function latest(messages: readonly AgentMessage[]): number {
  return messages.reduce((high, message) => Math.max(high, timeAt(message)), Number.NEGATIVE_INFINITY);
}

function play(step: Step, messages: readonly AgentMessage[]): AgentMessage {
  if (step.kind === "own") return step.message;
  const message = messages[step.index];
  if (!message) throw new Error("a settled message is gone");
  return step.kind === "as-is" ? message : withContentOf(message, step.content);
}

function withContentOf(message: AgentMessage, other: AgentMessage): AgentMessage {
  if (message.role === "bashExecution" && other.role === "bashExecution") return { ...message, output: other.output };
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

/** All but the content is the same: ids and times alone do not tell results of some servers apart. */
function isVersionOf(message: AgentMessage, original: AgentMessage): boolean {
  if (message.role === "user" || message.timestamp !== original.timestamp) return false;
  const other = { content: undefined, output: undefined };
  return isDeepStrictEqual({ ...message, ...other }, { ...original, ...other });
}

function markOf(message: AgentMessage): Mark {
  return { timestamp: message.timestamp, name: isToolResult(message) ? message.toolCallId : message.role };
}

function isMarked(message: AgentMessage | undefined, mark: Mark): boolean {
  if (message?.timestamp !== mark.timestamp) return false;
  return mark.name === (isToolResult(message) ? message.toolCallId : message.role);
}
