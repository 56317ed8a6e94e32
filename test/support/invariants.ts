/** The design's invariants over the requests of one session; each function gives the violations it finds. */
import { isDeepStrictEqual } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import type { SessionView } from "../../src/engine/session-state.ts";
import { recover, sourcesOf } from "../../src/recovery/originals.ts";
import { markerRefs } from "../../src/render/arguments.ts";
import {
  contentChars,
  extractToolResultText,
  isAssistant,
  isImage,
  isToolResult,
  lastAnswerIndex,
  resultKeysIn,
  resultOf,
  textOf,
  toolCallsOf,
} from "../../src/transcript/messages.ts";
import { CallPairing } from "../../src/transcript/pairing.ts";
import { QUERY_TOOL_NAME } from "../../src/types.ts";
import type { RenderedRequest } from "./simulated-session.ts";
import { checkTranscript, sendableResults } from "./transcript.ts";

/** A result whose content was replaced. */
export interface CondensedResult {
  raw: Extract<AgentMessage, { role: "toolResult" }>;
  stub: string;
}

/** Results of `raw`, and outputs of commands of the user, that stand in `sent` with another content, matched by id and timestamp in order. */
export function condensedResults({ raw, sent }: RenderedRequest): CondensedResult[] {
  const queues = new Map<string, AgentMessage[]>();
  for (const message of sent.flatMap((m) => resultOf(m) ?? [])) {
    const key = `${message.toolCallId}@${message.timestamp}`;
    queues.set(key, [...(queues.get(key) ?? []), message]);
  }
  return raw
    .flatMap((m) => resultOf(m) ?? [])
    .flatMap((message) => {
      const counterpart = queues.get(`${message.toolCallId}@${message.timestamp}`)?.shift();
      if (!counterpart || !isToolResult(counterpart) || isDeepStrictEqual(counterpart.content, message.content))
        return [];
      return [{ raw: message, stub: extractToolResultText(counterpart) }];
    });
}

/** Invariant 2: each condensed output is recovered to the byte by the ref in its stub. */
export function checkRecoverable(request: RenderedRequest, state: SessionView): string[] {
  const sources = sourcesOf(state);
  return condensedResults(request).flatMap(({ raw, stub }) => {
    const ref = /context_tree_query (\S+)\]/.exec(stub)?.[1];
    if (!ref) return [`no ref in stub: ${stub.slice(0, 200)}`];
    const recovery = recover(ref, sources);
    if (recovery.kind !== "found") return [recovery.message];
    const text = extractToolResultText(raw);
    const images = raw.content.filter(isImage);
    // What was asked back once, has had its time and is pointed to: its answer named the output above its text.
    const isAnswer = raw.toolName === QUERY_TOOL_NAME;
    const same = recovery.outputs.some((o) =>
      isAnswer ? text.includes(o.text) : o.text === text && isDeepStrictEqual(o.images, images),
    );
    return same ? [] : [`${ref} does not give back the original`];
  });
}

/**
 * Invariants 2 and 9 for what a chain has dropped: each result is given back by a name that a compressed chain lists, or
 * stands in one word for word. Results that pi-ai leaves out of every request, and orphans, were in none.
 */
export function checkDroppedRecoverable({ raw, sent }: RenderedRequest, state: SessionView): string[] {
  const sources = sourcesOf(state);
  const bodies = sent.filter((m) => m.role === "user").map((m) => textOf(m.content));
  const chains = bodies.filter((text) => text.startsWith("<compressed-chain "));
  if (chains.length === 0) return [];
  // In a line of the list, or at the head of an output that was kept in the chain and has been spilled or superseded since.
  const listed = chains.flatMap((text) =>
    [...text.matchAll(/^(?:- (\S+) |\[(t\d+) condensed|\[.*This one: context_tree_query (\S+)\]$)/gm)].map(
      ([, name, kept, superseded]) => name ?? kept ?? superseded ?? "",
    ),
  );
  const given = [...new Set(listed)].flatMap((ref) => {
    const recovery = recover(ref, sources);
    return recovery.kind === "found" ? recovery.outputs : [];
  });
  const attached = new Set(
    sent
      .flatMap((m) => (m.role === "user" && Array.isArray(m.content) ? m.content.filter(isImage) : []))
      .map((i) => i.data),
  );
  const kept = new Set(sent.filter(isToolResult).map((m) => `${m.toolCallId}@${m.timestamp}`));
  return sendableResults(raw)
    .filter((message) => !kept.has(`${message.toolCallId}@${message.timestamp}`))
    .filter((message) => {
      const text = extractToolResultText(message);
      const images = message.content.filter(isImage);
      const comesBack = given.some((o) => o.text === text && isDeepStrictEqual(o.images, images));
      const isVerbatim = text.trim() === "" || chains.some((chain) => chain.includes(`\n${text}\n`));
      return !comesBack && !(isVerbatim && images.every((image) => attached.has(image.data)));
    })
    .map((message) => `dropped result ${message.toolCallId} cannot be given back`);
}

/** Invariant 2 for arguments: each one that was condensed is given back by the ref in its markers. */
export function checkArgumentsRecoverable({ raw, sent }: RenderedRequest, state: SessionView): string[] {
  const sources = sourcesOf(state);
  const known = new Set(
    raw.filter(isAssistant).flatMap((m) => toolCallsOf(m).map((call) => JSON.stringify(call.arguments))),
  );
  return sent.filter(isAssistant).flatMap((message) =>
    toolCallsOf(message).flatMap((call) => {
      if (known.has(JSON.stringify(call.arguments))) return [];
      const originals = raw.filter(isAssistant).filter((m) => m.timestamp === message.timestamp);
      const wanted = originals.flatMap(toolCallsOf).filter((candidate) => candidate.id === call.id);
      const recoveries = markerRefs(call.arguments).map((ref) => recover(ref, sources));
      const outputs = recoveries.flatMap((recovery) => (recovery.kind === "found" ? recovery.outputs : []));
      const given = wanted.some(({ arguments: args }) =>
        outputs.some((output) => isDeepStrictEqual(output.args, args)),
      );
      return given ? [] : [`the arguments of ${call.id} cannot be given back`];
    }),
  );
}

/** Invariant 3: the request is valid. */
export function checkValid({ raw, sent }: RenderedRequest): string[] {
  return checkTranscript(sent, raw, { strippedClosings: true });
}

/** Invariant 4: within an epoch, appended messages change no byte of what was rendered before. */
export function checkPrefixStable(requests: readonly RenderedRequest[]): string[] {
  return requests.flatMap((request, i) => {
    const previous = requests[i - 1];
    if (!previous || previous.epoch !== request.epoch) return [];
    const stable = isDeepStrictEqual(request.sent.slice(0, previous.sent.length), previous.sent);
    return stable ? [] : [`request ${i} changes the prefix of request ${i - 1} within an epoch`];
  });
}

/** Invariant 5: what the model has not answered stands as it was, but for what was spilled, which does not wait. */
export function checkUnseenRaw({ raw, sent }: RenderedRequest): string[] {
  const commands = condensedResults({ raw: raw.slice(lastAnswerIndex(raw) + 1), sent, epoch: 0 }).filter(
    ({ raw: { toolCallId }, stub }) => toolCallId === "!" && !stub.includes("The whole output is in "),
  );
  if (commands.length > 0) return ["the unseen output of a command was condensed"];
  const unseen = raw.slice(lastAnswerIndex(raw) + 1).filter(isToolResult);
  if (unseen.length === 0) return [];
  // Neither what pi-ai leaves out of every request nor what has no call was ever to be seen.
  const sendable = new Set<AgentMessage>(sendableResults(raw));
  const sentResults = sent.filter(isToolResult);
  return unseen.flatMap((message) => {
    const found = sentResults.filter((m) => isSame(m, message));
    if (found.length === 0) return sendable.has(message) ? [`unseen result ${message.toolCallId} was dropped`] : [];
    if (found.some((m) => isSpilled(m) || isDeepStrictEqual(m, message))) return [];
    return [`unseen result ${message.toolCallId} was condensed`];
  });
}

function isSame(a: ToolResultMessage, b: ToolResultMessage): boolean {
  return a.toolCallId === b.toolCallId && a.timestamp === b.timestamp;
}

function isSpilled(message: ToolResultMessage): boolean {
  return extractToolResultText(message).includes("The whole output is in ");
}

/** Invariant 6: nothing grows. What the reply to a change says more, the arguments of its call say less. */
export function checkNothingGrows(request: RenderedRequest): string[] {
  const [before, after] = [request.raw, request.sent].map(argumentChars);
  const keyOf = resultKeysIn(request.raw);
  return condensedResults(request)
    .filter(({ raw, stub }) => {
      const key = keyOf(raw);
      const spared = (before?.get(key) ?? 0) - (after?.get(key) ?? 0);
      return stub.length >= contentChars(raw.content) + spared;
    })
    .map(({ raw }) => `result ${raw.toolCallId} grew`);
}

/** Characters of the arguments behind each result, by its key. */
function argumentChars(messages: readonly AgentMessage[]): Map<string, number> {
  const chars = new Map<string, number>();
  const pairing = new CallPairing();
  const keyOf = resultKeysIn(messages);
  for (const message of messages) {
    if (isAssistant(message)) pairing.open(message);
    if (!isToolResult(message)) continue;
    const args = pairing.take(message.toolCallId)?.arguments ?? {};
    chars.set(keyOf(message), JSON.stringify(args).length);
  }
  return chars;
}
