/** Tells results that were fetched again since what stood of them in the prompt had been condensed. */
import type { AssistantMessage, ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import { extractToolResultText, occurrenceKey, toolCallsOf } from "../transcript/messages.ts";
import { jsonSize } from "../transcript/tokens.ts";

/** Longer arguments write something and fetch nothing. */
const MAX_ARGUMENTS = 2_000;
/** Shorter results are not condensed. */
const MIN_CHARS = 800;

/** Replies are announced in their order, and each result is judged once, when it is first seen. */
export class Rereads {
  private readonly shown = new Map<string, { key: string; text: string }>();
  private readonly judged = new Map<string, boolean>();
  /** Texts that calls of the last reply may fetch again. */
  private readonly awaited = new Map<ToolCall, string>();

  /**
   * A reply has come.
   * @param isKeptOut whether its request carried the result of this occurrence otherwise than it was
   */
  replied(reply: AssistantMessage, isKeptOut: (key: string) => boolean): void {
    this.awaited.clear();
    for (const call of toolCallsOf(reply)) {
      const name = nameOf(call);
      const earlier = name === undefined ? undefined : this.shown.get(name);
      if (earlier && isKeptOut(earlier.key)) this.awaited.set(call, earlier.text);
    }
  }

  /** Whether the result repeats an earlier one of the same call, word for word, which its request carried condensed. */
  isReread(result: ToolResultMessage, call: ToolCall): boolean {
    const key = occurrenceKey(result.toolCallId, result.timestamp);
    const known = this.judged.get(key);
    if (known !== undefined) return known;
    const text = extractToolResultText(result);
    const isReread = this.awaited.get(call) === text;
    this.judged.set(key, isReread);
    const name = text.length >= MIN_CHARS ? nameOf(call) : undefined;
    if (name !== undefined) this.shown.set(name, { key, text });
    return isReread;
  }
}

function nameOf({ name, arguments: args }: ToolCall): string | undefined {
  return jsonSize(args) <= MAX_ARGUMENTS ? `${name} ${JSON.stringify(args)}` : undefined;
}
