/** The cap on images in one request, which some providers demand. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { isAssistant, isImage, isToolResult } from "../transcript/messages.ts";
import type { ContextPruneConfig } from "../types.ts";

const NOTE = "[an image stood here; it was left out to keep the request within the allowed number of images]";

/** Most images of a request, and most bytes of them as they are sent (base64); `null` is no limit. */
export interface ImageLimits {
  count: number | null;
  bytes: number | null;
}

/** What providers are known to refuse, with room for the text of a full context: images, and bytes of a whole request. */
const KNOWN_LIMITS: Readonly<Record<string, ImageLimits>> = {
  anthropic: { count: 100, bytes: 26_000_000 },
  "amazon-bedrock": { count: 20, bytes: 18_000_000 },
  google: { count: null, bytes: 16_000_000 },
  "google-vertex": { count: null, bytes: 16_000_000 },
  groq: { count: 5, bytes: 16_000_000 },
  mistral: { count: 8, bytes: null },
  openai: { count: 500, bytes: 45_000_000 },
  "openai-codex": { count: 500, bytes: 45_000_000 },
  "azure-openai-responses": { count: 50, bytes: 45_000_000 },
};

/** A refusal for the size of the request or its images, and not for tokens in a minute or in the window. */
const SIZE_REFUSAL =
  /\b413\b|request_too_large|(?:request|payload|body)(?: entity)?(?: is)? too large|exceeds the maximum (?:allowed )?(?:request )?size|too many images|images? (?:count |size )?exceeds?/i;
const RATE_REFUSAL = /per min|rate.?limit|\bTPM\b/i;

/**
 * The limits of a request: what the settings say, and else what the provider is known to refuse.
 * @param config `undefined` for what holds while the pruner is off: only a limit that the user has set
 */
export function imageLimits(
  { enabled, maxImagesPerRequest }: Pick<ContextPruneConfig, "enabled" | "maxImagesPerRequest">,
  model: { provider: string } | undefined,
): ImageLimits {
  const known = enabled && model ? KNOWN_LIMITS[model.provider] : undefined;
  return { count: maxImagesPerRequest ?? known?.count ?? null, bytes: known?.bytes ?? null };
}

/** Timestamps (ms) of the replies in which a provider refused a request for its size. */
export function sizeRefusals(entries: readonly SessionEntry[]): number[] {
  return entries.flatMap((entry) => {
    if (entry.type !== "message" || !isAssistant(entry.message)) return [];
    const { stopReason, errorMessage = "", timestamp } = entry.message;
    const isRefusal = stopReason === "error" && SIZE_REFUSAL.test(errorMessage) && !RATE_REFUSAL.test(errorMessage);
    return isRefusal ? [timestamp] : [];
  });
}

/**
 * Leaves out the oldest images where there are more than the limits allow, half of what is allowed at a time, so that the
 * prompt changes seldom, and never the newest. After each refusal for size half of what was sent goes, and no more than
 * that is sent from then on. Gives back `messages` itself where nothing has to go.
 *
 * What goes depends on the messages up to there alone, so that appending one changes nothing before it but at a step.
 */
export function capImages(
  messages: AgentMessage[],
  limits: ImageLimits,
  refusals: () => readonly number[] = () => [],
): AgentMessage[] {
  if (!messages.some((message) => imagesIn(message).length > 0)) return messages;
  let left = imagesToDrop(messages, limits, refusals().toSorted());
  if (left === 0) return messages;
  return messages.map((message) => {
    if (left === 0 || imagesIn(message).length === 0) return message;
    const [changed, gone] = withoutImages(message, left);
    left -= gone;
    return changed;
  });
}

/** Number of images, from the oldest, that have to go. */
function imagesToDrop(messages: readonly AgentMessage[], limits: ImageLimits, refusals: readonly number[]): number {
  const sent = new SentImages(limits);
  let refused = 0;
  for (const message of messages) {
    for (; (refusals[refused] ?? Number.POSITIVE_INFINITY) < message.timestamp; refused++) sent.refuse();
    for (const { data } of imagesIn(message)) sent.add(data?.length ?? 0);
  }
  for (; refused < refusals.length; refused++) sent.refuse();
  return sent.dropped;
}

/** The images that are sent as the conversation goes on. */
class SentImages {
  dropped = 0;
  private readonly sizes: number[] = [];
  private bytes = 0;

  constructor(private limits: ImageLimits) {}

  add(size: number): void {
    this.sizes.push(size);
    this.bytes += size;
    const { count, bytes } = this.limits;
    if (count !== null && this.count > count) this.dropTo(count - Math.max(1, Math.floor(count / 2)) + 1, null);
    if (bytes !== null && this.bytes > bytes) this.dropTo(null, bytes / 2);
  }

  refuse(): void {
    if (this.count === 0) return;
    const count = Math.floor(this.count / 2);
    this.limits = { count: Math.max(1, count), bytes: Math.max(1, Math.floor(this.bytes / 2)) };
    this.dropTo(count, this.limits.bytes);
  }

  private get count(): number {
    return this.sizes.length - this.dropped;
  }

  /** Drops the oldest until no more than so many, and so many bytes, are left; the newest stays unless none may. */
  private dropTo(count: number | null, bytes: number | null): void {
    const tooMany = () => count !== null && this.count > count;
    const tooBig = () => bytes !== null && this.bytes > bytes && this.count > 1;
    while (tooMany() || tooBig()) {
      this.bytes -= this.sizes[this.dropped] ?? 0;
      this.dropped += 1;
    }
  }
}

function imagesIn(message: AgentMessage) {
  return contentOf(message)?.filter(isImage) ?? [];
}

function contentOf(message: AgentMessage) {
  if (message.role !== "user" && message.role !== "custom" && !isToolResult(message)) return undefined;
  return Array.isArray(message.content) ? message.content : undefined;
}

/** The message without its first `max` images, and how many that were. */
function withoutImages(message: AgentMessage, max: number): [AgentMessage, number] {
  let gone = 0;
  const content = contentOf(message)?.map((block) => {
    if (!isImage(block) || gone === max) return block;
    gone += 1;
    return { type: "text" as const, text: NOTE };
  });
  return content ? [{ ...message, content } as AgentMessage, gone] : [message, 0];
}
