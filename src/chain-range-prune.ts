/**
 * Puts compressed chains into a render: the calls and results of a chain go, and one user message that sums them up
 * stands in their place.
 */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ImageContent, ToolResultMessage, UserMessage } from "@mariozechner/pi-ai";
import { type ChainPlace, locateChains, type UnresolvedReason } from "./chains/locate.ts";
import { describeCall } from "./digest/describe.ts";
import {
  blocksIn,
  contentChars,
  extractToolResultText,
  hasSpeech,
  isAssistant,
  isImage,
} from "./transcript/messages.ts";
import type { ChainCompressionEntry } from "./types.ts";

/** Old chains keep a short line for each call, young ones summaries too. */
export type ChainLevel = "full" | "terse";

/** A chain with the text that is to stand for it. */
export interface RenderedChain {
  entry: ChainCompressionEntry;
  /** Missing where the text is the same at every age. */
  level?: ChainLevel;
  /** What `buildChainBody` gave, or the text of an earlier release; may refer to other chains as `{b3}`. */
  body: string;
}

/** Output that is kept word for word inside a compressed chain. */
export interface ProtectedOutput {
  tool: string;
  text: string;
  images?: readonly ImageContent[];
}

/** How chains are put into a render. */
export interface ChainPruneOptions {
  /** The closing reply of a compressed chain loses its thinking. */
  stripFinalAssistantThinking: boolean;
  /** Called for each chain that is left as it stands since its messages do not say for sure where it is. */
  onUnresolved?(blockId: string, reason: UnresolvedReason): void;
}

/** The text with the marks of compressed chains made harmless, so that none can be closed or faked by tool output. */
export function neutralizeMarks(text: string): string {
  return text.replace(/<(?=\s*\/?\s*(?:compressed-chain|protected-output)(?![\w-]))/gi, "&lt;");
}

/**
 * The message that stands for a chain:
 *
 *     <compressed-chain id="b7" tools="t1,t2">
 *     {body}
 *
 *     <protected-output tool="todowrite">
 *     {text}
 *     </protected-output>
 *     </compressed-chain>
 *
 * References to other chains in the body (`{b3}`) give way to the text that `bodies` has for them, each one once, so
 * that circles end and nothing multiplies; others stay. Protected text is verbatim by contract, marks in it included;
 * their images follow the text.
 */
export function buildSyntheticChainMessage(
  { entry, body }: RenderedChain,
  protectedOutputs: readonly ProtectedOutput[],
  bodies: ReadonlyMap<string, string> = new Map(),
): UserMessage {
  const text = neutralizeMarks(resolveReferences(body, bodies, new Set([entry.blockId])));
  const blocks = protectedOutputs.map(
    (output) =>
      `\n<protected-output tool="${attribute(output.tool)}">\n${protectedText(output)}\n</protected-output>\n`,
  );
  const head = `<compressed-chain id="${attribute(entry.blockId)}" tools="${attribute(entry.toolRefs.join(","))}">`;
  return {
    role: "user",
    content: [
      { type: "text", text: `${head}\n${text}\n${blocks.join("")}</compressed-chain>` },
      ...protectedOutputs.flatMap((output) => output.images ?? []),
    ],
    timestamp: entry.startUserTimestamp,
  };
}

/**
 * The messages with every chain compressed that can be found in them for sure; the same array where none is.
 *
 * Nothing grows: a chain whose message would not be shorter than what it replaces stays as it is. That depends on the
 * chain's own messages alone, so appending messages does not change it. `locateChains` says how chains are found.
 */
export function applyChainCompressions(
  messages: AgentMessage[],
  chains: readonly RenderedChain[],
  options: ChainPruneOptions,
): AgentMessage[] {
  const placements = placeChains(messages, chains, options.onUnresolved).filter((p) => p.keptChars < p.droppedChars);
  if (placements.length === 0) return messages;

  const replacements = new Map<number, AgentMessage | undefined>();
  for (const { dropped, synthetic, closing } of placements) {
    for (const [i, index] of dropped.entries()) replacements.set(index, i === 0 ? synthetic : undefined);
    const reply = closing === undefined ? undefined : messages[closing];
    if (closing !== undefined && reply && isAssistant(reply) && options.stripFinalAssistantThinking) {
      replacements.set(closing, withoutThinking(reply));
    }
  }
  const rendered: AgentMessage[] = [];
  for (const [index, message] of messages.entries()) {
    const next = replacements.has(index) ? replacements.get(index) : message;
    if (next) rendered.push(next);
  }
  return rendered;
}

/** A chain's place and what is to stand there. */
interface Placement extends ChainPlace {
  /** Takes the place of the first dropped message. */
  synthetic: UserMessage;
  keptChars: number;
}

function placeChains(
  messages: readonly AgentMessage[],
  chains: readonly RenderedChain[],
  onUnresolved: ChainPruneOptions["onUnresolved"],
): Placement[] {
  const active = chains.filter(({ entry }) => entry.active !== false);
  const bodies = new Map(chains.map(({ entry, body }) => [entry.blockId, body]));
  return locateChains(messages, active, onUnresolved).map(({ chain, place }) => {
    const { entry } = chain;
    const keptLines = place.kept.flatMap(({ call, result }) => keptLine(result.toolName, call.arguments));
    const body = [chain.body, ...keptLines].filter((part) => part !== "").join("\n");
    const outputs = place.kept.map(({ result }) => protectedOutput(result));
    const synthetic = buildSyntheticChainMessage({ entry, body }, outputs, bodies);
    const { content } = synthetic;
    const keptChars = typeof content === "string" ? content.length : contentChars(content);
    return { ...place, synthetic, keptChars };
  });
}

/** The block of a protected output names the tool alone; a line of the body says which file, say, it is from. */
function keptLine(toolName: string, args: Record<string, unknown>): string[] {
  const call = describeCall(toolName, args);
  return call === toolName ? [] : [`- ${neutralizeMarks(call)}, kept below`];
}

/**
 * The reply without its thinking blocks. It stays as it is where nothing would be left, and where a text carries a
 * signature: OpenAI refuses a message item whose reasoning item is missing.
 */
function withoutThinking(reply: AssistantMessage): AssistantMessage {
  if (!Array.isArray(reply.content)) return reply;
  const content = reply.content.filter((block) => block?.type !== "thinking");
  const isSigned = content.some((block) => block?.type === "text" && block.textSignature !== undefined);
  return content.length === reply.content.length || isSigned || !hasSpeech(content) ? reply : { ...reply, content };
}

function protectedOutput(message: ToolResultMessage): ProtectedOutput {
  const images = blocksIn(message.content).filter(isImage);
  return {
    tool: message.toolName,
    text: extractToolResultText(message),
    ...(images.length > 0 ? { images } : {}),
  };
}

/** An output of images alone has no text of its own; the note says that they are not lost. */
function protectedText({ text, images }: ProtectedOutput): string {
  if (text !== "" || !images || images.length === 0) return text;
  return images.length === 1 ? "[1 image, attached]" : `[${images.length} images, attached]`;
}

function resolveReferences(text: string, bodies: ReadonlyMap<string, string>, used: Set<string>): string {
  return text.replace(/\{(b\d{1,9})\}/g, (reference, blockId: string) => {
    const body = bodies.get(blockId);
    if (body === undefined || used.has(blockId)) return reference;
    used.add(blockId);
    return resolveReferences(body, bodies, used);
  });
}

function attribute(value: string): string {
  return value
    .replaceAll("&", "&amp;")
    .replaceAll('"', "&quot;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replace(/[\s\p{Cc}]+/gu, " ");
}
