/** A model's reply, read from its stream within limits of time and length. */
import type { AssistantMessage, AssistantMessageEvent, Usage } from "@mariozechner/pi-ai";
import type { SummaryRequest } from "./prompt.ts";
import { MAX_REPLY_CHARS, TOO_LONG } from "./reply.ts";
import type { TroubleKind } from "./trouble.ts";

/** The part of a host's event stream that is used. */
export interface ReplyStream extends AsyncIterable<AssistantMessageEvent> {
  result(): Promise<AssistantMessage>;
}

/** A model to summarise with, bound to its credentials by the host. */
export interface SummaryModel {
  /** `provider/id`. */
  name: string;
  /** Tokens that a request may have so that it fits the model's window with room for the answer. */
  maxInputTokens: number;
  /** Opens the reply stream. May reject; provider trouble usually resolves with a `stopReason` instead. */
  open(request: SummaryRequest, signal: AbortSignal): Promise<ReplyStream>;
}

/** How long a reply may take, and who is told of it. */
export interface ReadOptions {
  model: SummaryModel;
  /** Ends the call at once. */
  signal: AbortSignal;
  idleTimeoutMs: number;
  maxTimeoutMs: number;
  /** Told how many characters of text the call has given so far. */
  onChars?(chars: number): void;
}

/** What is known of a call before it has ended. */
export interface CallProgress {
  sent: boolean;
  reported: Usage;
}

export const NO_USAGE: Usage = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

/** The call was given up: a time limit has passed, or the reply does not end. */
export class GivenUp extends Error {
  constructor(
    readonly kind: TroubleKind,
    detail: string,
  ) {
    super(detail);
  }
}

/** Reads a stream to its end within both timeouts, also one that never speaks, drips for ever or ends without a word. */
export async function readReply(
  request: SummaryRequest,
  options: ReadOptions,
  progress: CallProgress,
): Promise<AssistantMessage> {
  const { model, idleTimeoutMs, maxTimeoutMs } = options;
  options.signal.throwIfAborted();
  const controller = new AbortController();
  const cancel = () => controller.abort(options.signal.reason);
  const give = (detail: string, kind: TroubleKind = "timeout") => controller.abort(new GivenUp(kind, detail));
  options.signal.addEventListener("abort", cancel, { once: true });
  const total = setTimeout(() => give(`no reply within ${maxTimeoutMs / 1000} s`), maxTimeoutMs);
  const startIdle = () => setTimeout(() => give(`nothing received for ${idleTimeoutMs / 1000} s`), idleTimeoutMs);
  let idle = startIdle();
  try {
    const stream = await unlessAborted(model.open(request, controller.signal), controller.signal);
    progress.sent = true;
    const onEvent = (event: AssistantMessageEvent) => {
      // A stream may go on after it was given up.
      if (controller.signal.aborted) return;
      clearTimeout(idle);
      idle = startIdle();
      if ("partial" in event) progress.reported = event.partial.usage;
    };
    const onChars = (chars: number) => {
      options.onChars?.(chars);
      if (chars > MAX_REPLY_CHARS) give(TOO_LONG, "cut");
    };
    return await unlessAborted(drain(stream, onChars, onEvent), controller.signal);
  } finally {
    clearTimeout(total);
    clearTimeout(idle);
    options.signal.removeEventListener("abort", cancel);
  }
}

async function drain(
  stream: ReplyStream,
  onChars: (chars: number) => void,
  onEvent: (event: AssistantMessageEvent) => void,
): Promise<AssistantMessage> {
  let chars = 0;
  for await (const event of stream) {
    onEvent(event);
    if (event.type !== "text_delta") continue;
    chars += event.delta.length;
    onChars(chars);
  }
  return stream.result();
}

/** `promise`, or a rejection as soon as `signal` is aborted; a late outcome of `promise` is ignored. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
