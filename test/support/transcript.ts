/** Says whether a list of messages, as a `context` handler gives it, is one that every provider accepts. */
import { isDeepStrictEqual } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolResultMessage } from "@mariozechner/pi-ai";
// Brings the host's own roles (custom, bashExecution, summaries) into `AgentMessage`.
import type {} from "@mariozechner/pi-coding-agent";
import { isAssistant, isClosingReply, isDropped, isToolResult, toolCallsOf } from "../../src/transcript/messages.ts";

/** What a check may be stricter or milder about than by default. */
export interface TranscriptOptions {
  /**
   * Results without a call are charged even where the original has them. A render that sweeps orphans must pass this;
   * one that leaves foreign damage alone need not.
   */
  chargeOrphans?: boolean;
  /**
   * A text-only closing reply before the last message of the user, or of an extension, may have lost all of its thinking
   * blocks. No other reply may, and none may lose only some.
   */
  strippedClosings?: boolean;
}

/** Something wrong, with a name that stays the same when messages before it come or go. */
interface Finding {
  key: string;
  text: string;
}

interface OpenCall {
  id: string;
  key: string;
  text: string;
  answered: boolean;
}

const KNOWN_ROLES: ReadonlySet<string> = new Set([
  "user",
  "assistant",
  "toolResult",
  "custom",
  "bashExecution",
  "branchSummary",
  "compactionSummary",
]);

/** Roles whose order among each other a render must keep; notices of other extensions may stand elsewhere. */
const ORDERED_ROLES: ReadonlySet<string> = new Set(["user", "assistant", "toolResult"]);

/**
 * Checks that a request made of these messages is valid, and returns what is wrong with it; an empty list is a valid one.
 *
 * With `original`, the messages that the render was made from, it also checks that the render took nothing away that it
 * must keep, and charges nothing that was already wrong before.
 */
export function checkTranscript(
  messages: readonly AgentMessage[],
  original?: readonly AgentMessage[],
  options: TranscriptOptions = {},
): string[] {
  const before = original ? structureFindings(original) : [];
  const violations = chargeable(structureFindings(messages), before, options);
  if (!original) {
    for (const [index, message] of messages.entries()) {
      const place = label(index, message);
      violations.push(...blankTexts(message).map((what) => `${place}: ${what}`));
      if (hasLoneSurrogate(message)) violations.push(`${place}: lone surrogate in a text`);
    }
    return violations;
  }
  // A result that no provider accepts where it stands may be moved to where one does.
  const movable = new Set(before.map((finding) => finding.key).filter((key) => key.startsWith("result:")));
  return [...violations, ...compareWithOriginal(messages, original, movable, options)];
}

/** Calls without a result, results without a call, and roles that no provider knows. */
function structureFindings(messages: readonly AgentMessage[]): Finding[] {
  const findings: Finding[] = [];
  let open: OpenCall[] = [];
  let droppedIds: ReadonlySet<string> = new Set();
  const close = () => {
    for (const call of open) if (!call.answered) findings.push({ key: call.key, text: call.text });
    open = [];
    droppedIds = new Set();
  };
  for (const [index, message] of messages.entries()) {
    const place = label(index, message);
    if (!KNOWN_ROLES.has(message.role)) {
      findings.push({ key: `role:${identity(message)}`, text: `${place}: unknown role "${message.role}"` });
    }
    if (!isSent(message)) continue;
    if (isToolResult(message)) {
      const call = open.find((candidate) => candidate.id === message.toolCallId && !candidate.answered);
      if (call) {
        call.answered = true;
        continue;
      }
      const why = open.some((candidate) => candidate.id === message.toolCallId)
        ? "second result for one call"
        : droppedIds.has(message.toolCallId)
          ? "result for a call of an errored or aborted reply"
          : "result without its call directly before it";
      findings.push({ key: `result:${identity(message)}`, text: `${place}: ${why} (id "${message.toolCallId}")` });
      continue;
    }
    close();
    if (!isAssistant(message)) continue;
    const calls = toolCallsOf(message);
    if (isDropped(message)) {
      droppedIds = new Set(calls.map((call) => call.id));
      continue;
    }
    open = calls.map((call, position) => ({
      id: call.id,
      key: `call:${identity(message)}:${position}:${call.id}`,
      text: `${place}: call ${position + 1} (id "${call.id}", ${call.name}) has no result directly after it`,
      answered: false,
    }));
  }
  close();
  return findings;
}

/**
 * Results that a provider may be sent: each answers a call of the reply before it, and is the first to do so. What stands
 * between the two is moved, so that it does not matter.
 */
export function sendableResults(messages: readonly AgentMessage[]): ToolResultMessage[] {
  let waiting: string[] = [];
  return messages.filter((message): message is ToolResultMessage => {
    if (message.role === "assistant") {
      const isWhole = message.stopReason !== "error" && message.stopReason !== "aborted";
      waiting = isWhole ? message.content.flatMap((block) => (block.type === "toolCall" ? [block.id] : [])) : [];
    }
    if (message.role !== "toolResult") return false;
    const place = waiting.indexOf(message.toolCallId);
    if (place >= 0) waiting.splice(place, 1);
    return place >= 0;
  });
}

/**
 * Whether the message reaches the provider at all: hosts leave out roles that they do not know and `!!` commands, and
 * hold system messages back until the results are in, so none of these stands between a call and its result.
 */
function isSent(message: AgentMessage): boolean {
  if (!KNOWN_ROLES.has(message.role)) return false;
  return !(message.role === "bashExecution" && message.excludeFromContext === true);
}

/** What is wrong with the render and was not yet wrong, or less often, with the original. */
function chargeable(found: Finding[], before: Finding[], options: TranscriptOptions): string[] {
  const tolerated = new Map<string, number>();
  for (const { key } of before) {
    if (options.chargeOrphans && key.startsWith("result:")) continue;
    tolerated.set(key, (tolerated.get(key) ?? 0) + 1);
  }
  const violations: string[] = [];
  for (const { key, text } of found) {
    const left = tolerated.get(key) ?? 0;
    if (left > 0) tolerated.set(key, left - 1);
    else violations.push(text);
  }
  return violations;
}

function compareWithOriginal(
  messages: readonly AgentMessage[],
  original: readonly AgentMessage[],
  movable: ReadonlySet<string>,
  options: TranscriptOptions,
): string[] {
  const violations: string[] = [];
  const places = new Map<string, number[]>();
  for (const [index, message] of original.entries()) {
    const key = identity(message);
    const list = places.get(key);
    if (list) list.push(index);
    else places.set(key, [index]);
  }
  // The hosts send another extension's message as one of the user.
  const lastUser = original.findLastIndex((message) => message.role === "user" || message.role === "custom");
  const originalHasLoneSurrogate = lazily(() => original.some(hasLoneSurrogate));
  const taken = new Set<number>();
  const last = { ordered: -1, others: -1 };

  for (const [index, message] of messages.entries()) {
    const place = label(index, message);
    const lane = ORDERED_ROLES.has(message.role) ? "ordered" : "others";
    const freely = movable.has(`result:${identity(message)}`);
    const free = (places.get(identity(message)) ?? []).filter((candidate) => !taken.has(candidate));
    const differencesTo = (candidate: number): string[] => {
      const source = original[candidate];
      return source === undefined ? [] : differences(message, source, candidate < lastUser, options);
    };
    let inOrder = free.filter((candidate) => freely || candidate > last[lane]);
    if (message.role === "user")
      inOrder = inOrder.filter((candidate) => isDeepStrictEqual(message, original[candidate]));
    let found: string[] = [];
    const fits = (candidate: number) => {
      found = differencesTo(candidate);
      return found.length === 0;
    };
    const match = inOrder.find(fits) ?? inOrder[0];

    if (match === undefined) {
      if (free.length > 0 && message.role !== "user") {
        violations.push(`${place}: out of order, or twice in the render`);
      } else if (message.role !== "user") {
        violations.push(`${place}: stands nowhere in the original`);
      }
      violations.push(...blankTexts(message).map((what) => `${place}: ${what}`));
      if (hasLoneSurrogate(message) && !originalHasLoneSurrogate()) {
        violations.push(`${place}: lone surrogate in a text`);
      }
      continue;
    }

    taken.add(match);
    if (!freely) last[lane] = match;
    const source = original[match];
    if (source === undefined || source === message) continue;
    if (isDeepStrictEqual(message, source)) continue;
    // Where none fits, the first is what it should have been.
    if (found.length > 0) violations.push(...differencesTo(match).map((what) => `${place}: ${what}`));
    if (blankTexts(source).length === 0) violations.push(...blankTexts(message).map((what) => `${place}: ${what}`));
    if (hasLoneSurrogate(message) && !hasLoneSurrogate(source)) violations.push(`${place}: lone surrogate in a text`);
  }

  for (const [index, message] of original.entries()) {
    if (message.role === "user" && !taken.has(index)) {
      violations.push(`original ${label(index, message)}: missing from the render, changed or out of order`);
    }
  }
  return violations;
}

/** How a message differs from its original in what a render must not change. */
function differences(
  message: AgentMessage,
  source: AgentMessage,
  beforeLastUser: boolean,
  options: TranscriptOptions,
): string[] {
  // Most are equal, which is found out much faster than what else they may be.
  if (message === source || isDeepStrictEqual(message, source)) return [];
  if (isAssistant(message) && isAssistant(source)) {
    return assistantDifferences(message, source, beforeLastUser && options.strippedClosings === true);
  }
  if (isToolResult(message) && isToolResult(source)) return resultDifferences(message, source);
  if (message.role === "bashExecution" && source.role === "bashExecution")
    return fieldDifferences(message, source, ["output"]);
  return ["changed, which only results, arguments and outputs may be"];
}

function assistantDifferences(message: AssistantMessage, source: AssistantMessage, mayLoseThinking: boolean): string[] {
  const found = fieldDifferences(message, source, ["content"]);
  let expected = source.content;
  if (mayLoseThinking && isClosingReply(source) && message.content.length !== expected.length) {
    expected = expected.filter((block) => block.type !== "thinking");
    if (expected.length === 0) found.push("a closing reply that holds nothing but thinking lost it");
  }
  if (message.content.length !== expected.length) {
    return [...found, `kept with ${message.content.length} of its ${source.content.length} blocks`];
  }
  for (const [position, block] of message.content.entries()) {
    const before = expected[position];
    if (before === undefined || block === before) continue;
    const where = `block ${position + 1}`;
    if (block.type !== before.type) {
      found.push(`${where} was ${before.type} and became ${block.type}`);
    } else if (block.type === "toolCall" && before.type === "toolCall") {
      found.push(...fieldDifferences(block, before, ["arguments"]).map((what) => `${where}: ${what}`));
      found.push(...shapeDifferences(before.arguments, block.arguments, `${where}: arguments`));
    } else if (!isDeepStrictEqual(block, before)) {
      found.push(`${where} (${block.type}) changed`);
    }
  }
  return found;
}

function resultDifferences(message: ToolResultMessage, source: ToolResultMessage): string[] {
  const found = fieldDifferences(message, source, ["content"]);
  if (message.content === source.content) return found;
  for (const [position, block] of message.content.entries()) {
    const alike = source.content.filter((before) =>
      block.type === "text"
        ? before.type === "text" && before.text === block.text
        : before.type === block.type && "data" in before && before.data === block.data,
    );
    if (block.type !== "text" && alike.length === 0)
      found.push(`block ${position + 1}: an image that the tool never gave`);
    if (alike.length > 0 && !alike.some((before) => isDeepStrictEqual(before, block))) {
      found.push(`block ${position + 1}: kept, but not with all of its fields`);
    }
  }
  return found;
}

/** Fields that were lost, added or changed, all but the ones named. */
function fieldDifferences(value: object, source: object, except: readonly string[]): string[] {
  const after: Readonly<Record<string, unknown>> = { ...value };
  const found: string[] = [];
  for (const [key, before] of Object.entries(source)) {
    if (except.includes(key)) continue;
    if (!Object.hasOwn(after, key)) found.push(`field "${key}" is gone`);
    else if (after[key] !== before && !isDeepStrictEqual(after[key], before)) found.push(`field "${key}" changed`);
  }
  const added = Object.keys(after).filter((key) => !except.includes(key) && !Object.hasOwn(source, key));
  return [...found, ...added.map((key) => `field "${key}" was added`)];
}

/** Arguments keep every key, type and array length; a string may say something else, all other values are the same. */
function shapeDifferences(before: unknown, after: unknown, path: string): string[] {
  const wasKind = kindOf(before);
  const isKind = kindOf(after);
  if (wasKind !== isKind) return [`${path} was ${wasKind} and became ${isKind}`];
  if (Array.isArray(before) && Array.isArray(after)) {
    if (before.length !== after.length) return [`${path} had ${before.length} elements and has ${after.length}`];
    return before.flatMap((element, index) => shapeDifferences(element, after[index], `${path}[${index}]`));
  }
  if (isObject(before) && isObject(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => {
      if (!Object.hasOwn(after, key)) return [`${path}.${key} is gone`];
      if (!Object.hasOwn(before, key)) return [`${path}.${key} was added`];
      return shapeDifferences(before[key], after[key], `${path}.${key}`);
    });
  }
  return wasKind === "string" || Object.is(before, after) ? [] : [`${path} changed its value`];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function kindOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}

/**
 * Texts that say nothing, which providers refuse. Replies are left out: pi-ai drops their blank blocks itself, and a
 * render may not change them anyway.
 */
function blankTexts(message: AgentMessage): string[] {
  if (message.role !== "user" && message.role !== "custom" && message.role !== "toolResult") return [];
  if (typeof message.content === "string") return message.content.trim() === "" ? ["empty text"] : [];
  if (message.content.length === 0) return ["no content"];
  return message.content.some((block) => block.type === "text" && block.text.trim() === "") ? ["empty text"] : [];
}

/** Half of a surrogate pair in any string of the message. */
function hasLoneSurrogate(value: unknown): boolean {
  if (typeof value === "string") return /\p{Surrogate}/u.test(value);
  if (Array.isArray(value)) return value.some(hasLoneSurrogate);
  if (!isObject(value)) return false;
  return Object.entries(value).some(([key, field]) => hasLoneSurrogate(key) || hasLoneSurrogate(field));
}

/** What tells one message of a session from another, however its content was rendered. */
function identity(message: AgentMessage): string {
  return isToolResult(message)
    ? `toolResult@${message.timestamp}:${message.toolName}:${message.toolCallId}`
    : `${message.role}@${message.timestamp}`;
}

function label(index: number, message: AgentMessage): string {
  return `message ${index} (${message.role})`;
}

function lazily<T>(compute: () => T): () => T {
  let box: { value: T } | undefined;
  return () => {
    box ??= { value: compute() };
    return box.value;
  };
}
