import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import type { AssistantMessage, AssistantMessageEvent } from "@mariozechner/pi-ai";
import {
  digestSummary,
  isUsableSummary,
  type ReplyStream,
  runSummarization,
  type SummarizeOptions,
  type SummarizerCall,
  type SummaryModel,
  summarizeBatch,
  summarizeRange,
} from "./summarizer.ts";
import type { SummaryRequest } from "./summary/prompt.ts";
import type { Trouble } from "./summary/trouble.ts";
import type { CapturedBatch, CapturedToolCall } from "./types.ts";

const REQUEST: SummaryRequest = { systemPrompt: "system", text: "[1] tool: bash\narguments: {}\noutcome: ok" };
const IDLE_MS = 20_000;
const MAX_MS = 180_000;

type StopReason = AssistantMessage["stopReason"];

function reply(text: string | undefined, stopReason: StopReason = "stop", errorMessage?: string): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0.25 };
  const usage = { input: 10, output: 7, cacheRead: 20, cacheWrite: 30, totalTokens: 67, cost };
  const content: AssistantMessage["content"] = [{ type: "thinking", thinking: "Let me think about it." }];
  if (text !== undefined) content.push({ type: "text", text });
  const source = { api: "a", provider: "p", model: "m", usage };
  return { role: "assistant", content, ...source, stopReason, errorMessage, timestamp: 1 };
}

function event(delta: string): AssistantMessageEvent {
  return { type: "text_delta", contentIndex: 0, delta, partial: reply("x") };
}

/** A stream that a test feeds by hand. */
class ManualStream implements ReplyStream {
  private readonly queue: AssistantMessageEvent[] = [];
  private failure: Error | undefined;
  private ended = false;
  private wake: (() => void) | undefined;
  private resolve: ((message: AssistantMessage) => void) | undefined;
  private readonly finished = new Promise<AssistantMessage>((resolve) => {
    this.resolve = resolve;
  });

  say(delta = "x"): void {
    this.queue.push(event(delta));
    this.wake?.();
  }

  /** Ends the events; a result follows only where a message is given. */
  end(message?: AssistantMessage): void {
    this.ended = true;
    if (message) this.resolve?.(message);
    this.wake?.();
  }

  /** Breaks in the midst of the events. */
  fail(error: Error): void {
    this.failure = error;
    this.wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<AssistantMessageEvent> {
    for (;;) {
      const next = this.queue.shift();
      if (next) yield next;
      else if (this.failure) throw this.failure;
      else if (this.ended) return;
      else {
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
      }
    }
  }

  result(): Promise<AssistantMessage> {
    return this.finished;
  }
}

/** Lets everything run that waits for nothing but other promises. */
async function settled(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}

/** A call of the summariser that is under way, and what it has told. */
function start(open: SummaryModel["open"], signal = new AbortController().signal) {
  const calls: SummarizerCall[] = [];
  const troubles: Trouble[] = [];
  const run: { done: boolean; value?: Awaited<ReturnType<typeof runSummarization>> } = { done: false };
  const model: SummaryModel = { name: "p/m", maxInputTokens: 40_000, open };
  const finished = runSummarization(REQUEST, {
    model,
    signal,
    idleTimeoutMs: IDLE_MS,
    maxTimeoutMs: MAX_MS,
    onUsage: (paid) => calls.push(paid),
    onTrouble: (trouble) => troubles.push(trouble),
  }).then((value) => {
    run.done = true;
    run.value = value;
    return value;
  });
  return Object.assign(run, { calls, troubles, finished });
}

/** A call whose stream says one thing and ends with `message`. */
async function answeredBy(message: AssistantMessage) {
  const stream = new ManualStream();
  const run = start(async () => stream);
  stream.say();
  stream.end(message);
  await run.finished;
  return run;
}

beforeEach(() => {
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

describe("isUsableSummary", () => {
  test.each<[string, string, boolean]>([
    ["some text", "stop", true],
    ["x", "stop", true],
    ["", "stop", false],
    [" \n\t ", "stop", false],
    ["cut at the li", "length", false],
    ["", "length", false],
    ["some text", "toolUse", true],
  ])("%p that ended by %s: %p", (text, stopReason, usable) => {
    expect(isUsableSummary(text, stopReason)).toBe(usable);
  });
});

describe("a reply", () => {
  test("that ends by itself is the summary, without its thinking", async () => {
    const run = await answeredBy(reply("\n[1] all fine\n"));
    expect(run.value?.summaryText).toBe("[1] all fine");
    expect(run.troubles).toEqual([]);
  });

  test.each<[string, AssistantMessage, Trouble["kind"], RegExp]>([
    ["cut at the output limit", reply("[1] half", "length"), "cut", /limit/],
    ["that is an error", reply(undefined, "error", "401 no such key"), "auth", /^401 no such key$/],
    ["that is an error with text before it", reply("[1] half", "error", "overloaded"), "busy", /overloaded/],
    ["that was aborted", reply("[1] half", "aborted"), "failed", /aborted/],
    ["that calls a tool", reply("[1] half", "toolUse"), "failed", /toolUse/],
    ["that is empty", reply(""), "empty", /no text/],
    ["that is blank", reply(" \n "), "empty", /no text/],
    ["that holds only thinking", reply(undefined), "empty", /no text/],
  ])("%s is none, and one reason is told", async (_what, message, kind, reason) => {
    const run = await answeredBy(message);
    expect(run.value).toBeNull();
    expect(run.troubles).toMatchObject([{ kind, detail: expect.stringMatching(reason) }]);
  });

  test.each<[string, AssistantMessage, boolean]>([
    ["usable", reply("[1] text"), true],
    ["cut", reply("[1] text", "length"), false],
    ["failed", reply(undefined, "error"), false],
  ])("reports what it has used where it is %s, cached input included", async (_what, message, ok) => {
    const run = await answeredBy(message);
    const usage = { inputTokens: 60, outputTokens: 7, cost: 0.25 };
    expect(run.calls).toEqual([{ usage, reported: message.usage, model: "p/m", ok }]);
  });
});

describe("a call that never gets its reply", () => {
  test("is told of where it could not be opened", async () => {
    const run = start(() => Promise.reject(new Error("No API key for provider: p")));
    expect(await run.finished).toBeNull();
    expect(run.troubles).toEqual([{ kind: "auth", detail: "No API key for provider: p" }]);
    expect(run.calls).toEqual([]);
  });

  test("is told of where opening throws at once", async () => {
    const run = start(() => {
      throw new Error("no such api");
    });
    expect(await run.finished).toBeNull();
    expect(run.troubles).toEqual([{ kind: "failed", detail: "no such api" }]);
  });

  test("is told of where the stream breaks", async () => {
    const stream = new ManualStream();
    const run = start(async () => stream);
    stream.say();
    stream.fail(new Error("socket hang up"));
    expect(await run.finished).toBeNull();
    expect(run.troubles).toEqual([{ kind: "network", detail: "socket hang up" }]);
  });
});

describe("what a call has used that never gets its reply", () => {
  const said = { inputTokens: 60, outputTokens: 7, cost: 0.25 };
  const nothing = { inputTokens: 0, outputTokens: 0, cost: 0 };

  test.each([
    [true, said],
    [false, nothing],
  ])("is what the stream has reported so far, where it is given up (it spoke: %p)", async (spoke, usage) => {
    const stream = new ManualStream();
    const run = start(async () => stream);
    if (spoke) stream.say();
    await settled();
    jest.advanceTimersByTime(IDLE_MS);
    await run.finished;
    expect(run.calls).toMatchObject([{ usage, model: "p/m", ok: false }]);
  });

  test("is told of where the stream breaks", async () => {
    const stream = new ManualStream();
    const run = start(async () => stream);
    stream.say();
    stream.fail(new Error("socket hang up"));
    await run.finished;
    expect(run.calls).toMatchObject([{ usage: said, ok: false }]);
  });

  test("is told of where the user ends it", async () => {
    const controller = new AbortController();
    const stream = new ManualStream();
    const run = start(async () => stream, controller.signal);
    stream.say();
    await settled();
    controller.abort();
    await run.finished;
    expect(run.calls).toMatchObject([{ usage: said, ok: false }]);
  });

  test("is told once, whatever the stream says later, and no timer is left", async () => {
    const stream = new ManualStream();
    const run = start(async () => stream);
    await settled();
    jest.advanceTimersByTime(IDLE_MS);
    await run.finished;
    stream.say();
    stream.end(reply("late"));
    await settled();
    expect(run.calls).toHaveLength(1);
    expect(run.troubles).toHaveLength(1);
    expect(jest.getTimerCount()).toBe(0);
  });

  test("a figure that is none counts as nothing", async () => {
    const odd = reply("[1] text");
    odd.usage.output = Number.NaN;
    expect((await answeredBy(odd)).calls).toMatchObject([{ usage: { inputTokens: 60, outputTokens: 0, cost: 0.25 } }]);
  });
});

describe("time limits", () => {
  test("a stream that never speaks is given up after the idle limit, and not before", async () => {
    const run = start(async () => new ManualStream());
    await settled();
    jest.advanceTimersByTime(IDLE_MS - 1);
    await settled();
    expect(run.done).toBe(false);
    jest.advanceTimersByTime(1);
    expect(await run.finished).toBeNull();
    expect(run.troubles).toEqual([{ kind: "timeout", detail: expect.stringContaining("20 s") }]);
  });

  test("so is a call that never opens", async () => {
    const run = start(() => new Promise(() => {}));
    await settled();
    jest.advanceTimersByTime(IDLE_MS);
    expect(await run.finished).toBeNull();
  });

  test("so is a stream that ends without a result", async () => {
    const stream = new ManualStream();
    const run = start(async () => stream);
    stream.say();
    stream.end();
    await settled();
    jest.advanceTimersByTime(IDLE_MS);
    expect(await run.finished).toBeNull();
  });

  test("every event starts the idle limit anew", async () => {
    const stream = new ManualStream();
    const run = start(async () => stream);
    for (let i = 0; i < 5; i++) {
      await settled();
      jest.advanceTimersByTime(IDLE_MS - 1);
      stream.say();
    }
    stream.end(reply("[1] text"));
    expect((await run.finished)?.summaryText).toBe("[1] text");
  });

  test("a stream that drips for ever is given up after the whole limit, and not before", async () => {
    const stream = new ManualStream();
    const run = start(async () => stream);
    for (let passed = 1000; passed < MAX_MS; passed += 1000) {
      stream.say();
      await settled();
      jest.advanceTimersByTime(1000);
    }
    await settled();
    expect(run.done).toBe(false);
    jest.advanceTimersByTime(1000);
    expect(await run.finished).toBeNull();
    expect(run.troubles).toEqual([{ kind: "timeout", detail: expect.stringContaining("180 s") }]);
  });

  test("end the request, so that the provider stops", async () => {
    let seen: AbortSignal | undefined;
    const run = start(async (_request, signal) => {
      seen = signal;
      return new ManualStream();
    });
    await settled();
    expect(seen?.aborted).toBe(false);
    jest.advanceTimersByTime(IDLE_MS);
    await run.finished;
    expect(seen?.aborted).toBe(true);
  });

  test("leave no timer behind a reply", async () => {
    await answeredBy(reply("[1] text"));
    expect(jest.getTimerCount()).toBe(0);
  });

  test("leave no timer behind a call that could not be opened", async () => {
    await start(() => Promise.reject(new Error("refused"))).finished;
    expect(jest.getTimerCount()).toBe(0);
  });
});

describe("the caller's signal", () => {
  test("ends a call at once, and the request with it", async () => {
    const controller = new AbortController();
    let seen: AbortSignal | undefined;
    const run = start(async (_request, signal) => {
      seen = signal;
      return new ManualStream();
    }, controller.signal);
    await settled();
    controller.abort();
    expect(await run.finished).toBeNull();
    expect(run.troubles).toMatchObject([{ kind: "cancelled" }]);
    expect(seen?.aborted).toBe(true);
    expect(jest.getTimerCount()).toBe(0);
  });

  test("ends a call that has not opened yet", async () => {
    const controller = new AbortController();
    const run = start(() => new Promise(() => {}), controller.signal);
    await settled();
    controller.abort();
    expect(await run.finished).toBeNull();
  });

  test("that has ended before lets no request out", async () => {
    let opened = 0;
    const run = start(async () => {
      opened += 1;
      return new ManualStream();
    }, AbortSignal.abort());
    expect(await run.finished).toBeNull();
    expect(opened).toBe(0);
    expect(run.calls).toEqual([]);
    expect(run.troubles).toMatchObject([{ kind: "cancelled" }]);
  });

  test("ends a call for good: what the stream still says starts no timer", async () => {
    const controller = new AbortController();
    const stream = new ManualStream();
    const run = start(async () => stream, controller.signal);
    stream.say();
    await settled();
    controller.abort();
    await run.finished;
    stream.say();
    await settled();
    expect(jest.getTimerCount()).toBe(0);
  });

  test("is let go of when the call is over", async () => {
    const controller = new AbortController();
    let listening = 0;
    const { signal } = controller;
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listening += 1;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listening -= 1;
      remove(...args);
    };
    const stream = new ManualStream();
    const run = start(async () => stream, signal);
    stream.end(reply("[1] text"));
    await run.finished;
    expect(listening).toBe(0);
  });
});

function call(toolCallId: string): CapturedToolCall {
  return {
    occurrenceKey: `${toolCallId}@2`,
    toolCallId,
    toolName: "bash",
    args: { command: "npm test" },
    content: [{ type: "text", text: `output of ${toolCallId}` }],
    resultText: `output of ${toolCallId}`,
    resultImages: 0,
    isError: false,
    resultTimestamp: 2,
  };
}

const BATCH: CapturedBatch = { turnIndex: 0, timestamp: 1, assistantText: "", toolCalls: [call("c1"), call("c2")] };

/** Options of calls that are answered by `answer`, and the requests that were sent. */
function answering(answer: AssistantMessage | ((request: SummaryRequest) => AssistantMessage)): {
  options: SummarizeOptions;
  requests: SummaryRequest[];
} {
  const requests: SummaryRequest[] = [];
  const open = async (request: SummaryRequest) => {
    requests.push(request);
    const stream = new ManualStream();
    stream.end(typeof answer === "function" ? answer(request) : answer);
    return stream;
  };
  const limits = { idleTimeoutMs: IDLE_MS, maxTimeoutMs: MAX_MS, signal: new AbortController().signal };
  const told = { onUsage: () => undefined, onTrouble: () => undefined };
  return { options: { ...limits, ...told, model: { name: "p/m", maxInputTokens: 40_000, open } }, requests };
}

describe("summarizeBatch", () => {
  async function summarize(message: AssistantMessage) {
    const { options, requests } = answering(message);
    return { summary: await summarizeBatch(BATCH, options), requests };
  }

  test("asks once, about the originals, and gives each call its section", async () => {
    const { summary, requests } = await summarize(reply("[1] first\n[2] second"));
    expect(summary).toEqual({
      whole: "[1] first\n[2] second",
      texts: ["first", "second"],
      model: "p/m",
      usage: { inputTokens: 60, outputTokens: 7, cost: 0.25 },
    });
    expect(requests).toHaveLength(1);
    expect(requests[0]?.text).toContain("output of c1");
    expect(requests[0]?.text).toContain("output of c2");
  });

  test("gives a reply without sections as a whole", async () => {
    const { summary } = await summarize(reply("Both calls of bash passed."));
    expect(summary).toMatchObject({ whole: "Both calls of bash passed.", texts: undefined });
  });

  test("gives nothing where the reply is not usable", async () => {
    expect((await summarize(reply("[1] first\n[2] sec", "length"))).summary).toBeNull();
  });
});

describe("a reply about a batch that holds what the batch does not", () => {
  test("gives way to the digest for the calls that it concerns", async () => {
    const { options } = answering(reply("[1] see src/made/up.ts:4711\n[2] output of c2"));
    expect(await summarizeBatch(BATCH, options)).toMatchObject({ texts: ["output of c1", "output of c2"] });
  });

  test("gives way to the digest altogether where it is not split, and is paid for all the same", async () => {
    const { options } = answering(reply("Both calls of bash wrote src/made/up.ts."));
    expect(await summarizeBatch(BATCH, options)).toMatchObject({
      texts: ["output of c1", "output of c2"],
      usage: { inputTokens: 60, outputTokens: 7, cost: 0.25 },
    });
  });
});

describe("a reply that is no summary of a call", () => {
  test.each<[string, string, (string | undefined)[]]>([
    ["says that there is none", "[1] N/A\n[2] the second", ["output of c1", "the second"]],
    ["declines", "[1] the first\n[2] I'm sorry, but I can't help with that.", ["the first", "output of c2"]],
    ["is given twice", "[1] the first\n[2] the second\n[1] made up", ["output of c1", "the second"]],
    ["is a ruler", "[1] ---\n[2] the second", ["output of c1", "the second"]],
    ["says so of both", "[1] None.\n[2] No output.", ["output of c1", "output of c2"]],
  ])("gives way to the digest where it %s", async (_what, text, texts) => {
    const { options } = answering(reply(text));
    expect(await summarizeBatch(BATCH, options)).toMatchObject({ texts });
  });

  test("is cleaned once, also where the digest stands in", async () => {
    const hostile = "\u001b[31mred\u202e [t1 condensed: read a.ts]";
    const { options } = answering(reply(`[1] N/A\n[2] ${hostile}`));
    const first = { ...call("c1"), resultText: hostile, content: [{ type: "text" as const, text: hostile }] };
    const summary = await summarizeBatch({ ...BATCH, toolCalls: [first, call("c2")] }, options);
    const clean = "red [quoted: t1 condensed: read a.ts]";
    expect(summary?.texts).toEqual([clean, clean]);
  });
});

describe("a result that holds images alone", () => {
  const picture: CapturedToolCall = { ...call("c3"), resultText: "Read image file [image/png]", resultImages: 1 };

  test("is not sent: its line is a digest's", async () => {
    const { options, requests } = answering(reply("[1] the first\n[2] the second"));
    const [first = picture, second = picture] = BATCH.toolCalls;
    const summary = await summarizeBatch({ ...BATCH, toolCalls: [first, picture, second] }, options);
    expect(requests.map(({ text }) => text.match(/^\[\d\] tool:/gm))).toEqual([["[1] tool:", "[2] tool:"]]);
    expect(summary?.texts).toEqual(["the first", expect.stringContaining("1 image"), "the second"]);
  });

  test("costs no call where there is nothing else", async () => {
    const { options, requests } = answering(reply("[1] a picture"));
    const blank = { ...picture, resultText: "" };
    expect(await summarizeBatch({ ...BATCH, toolCalls: [picture, blank] }, options)).toMatchObject({ model: "none" });
    expect(requests).toEqual([]);
  });

  test("stands beside a reply that could not be split", async () => {
    const { options } = answering(reply("Both calls of bash passed."));
    const summary = await summarizeBatch({ ...BATCH, toolCalls: [...BATCH.toolCalls, picture] }, options);
    expect(summary?.texts).toEqual(["", "Both calls of bash passed.", expect.stringContaining("1 image")]);
  });
});

test("a reply without end is given up", async () => {
  const stream = new ManualStream();
  const run = start(async () => stream);
  for (let i = 0; i < 110; i++) stream.say("x".repeat(1_000));
  expect(await run.finished).toBeNull();
  expect(run.troubles).toMatchObject([{ kind: "cut", detail: expect.stringContaining("longer than") }]);
});

describe("a batch that is too large for one request", () => {
  const resultText = "word ".repeat(12_000);
  const large: CapturedBatch = {
    ...BATCH,
    toolCalls: Array.from({ length: 60 }, (_, i) => ({ ...call(`c${i}`), resultText })),
  };

  test("takes several, and their sections join to one summary with one bill", async () => {
    const { options, requests } = answering((request) => {
      const sections = request.text.match(/^\[\d+\] tool:/gm) ?? [];
      return reply(sections.map((_, i) => `[${i + 1}] fine`).join("\n"));
    });
    const summary = await summarizeBatch(large, { ...options, model: { ...options.model, maxInputTokens: 4_000 } });
    expect(requests.length).toBeGreaterThan(1);
    expect(summary?.texts).toEqual(Array(60).fill("fine"));
    expect(summary?.usage).toEqual({
      inputTokens: 60 * requests.length,
      outputTokens: 7 * requests.length,
      cost: 0.25 * requests.length,
    });
  });

  test("has no summary where one of them fails", async () => {
    let asked = 0;
    const { options } = answering(() => (asked++ === 0 ? reply("[1] fine") : reply(undefined, "error")));
    const model = { ...options.model, maxInputTokens: 4_000 };
    expect(await summarizeBatch(large, { ...options, model })).toBeNull();
  });
});

describe("summarizeRange", () => {
  test("joins the summaries of a chain by one call", async () => {
    const { options, requests } = answering(reply(" the first two "));
    expect(await summarizeRange(["first of two", "second"], options)).toBe("the first two");
    expect(requests).toHaveLength(1);
    expect(requests[0]?.text).toMatch(/first[\s\S]*second/);
  });

  test("gives nothing where the reply is partly made up, and blames no model for it", async () => {
    const { options } = answering(reply("second: b/up.ts"));
    const troubles: Trouble[] = [];
    expect(
      await summarizeRange(["in src/a.ts", "second"], { ...options, onTrouble: (it) => troubles.push(it) }),
    ).toBeNull();
    expect(troubles).toMatchObject([{ kind: "unusable" }]);
  });

  test.each<[string, string]>([
    ["declines", "I can't help with that"],
    ["is a dash", "-"],
    ["only thinks", "<think>The first is enough."],
    ["is longer than they are", `first ${"and so on ".repeat(20)}`],
    ["says nothing", "N/A"],
    ["has no word of theirs", "All is well."],
  ])("gives nothing where the reply %s", async (_what, text) => {
    const { options } = answering(reply(text));
    expect(await summarizeRange(["the first of two results", "the second of two results"], options)).toBeNull();
  });

  test("gives nothing where the reply is not usable, so that they stand side by side", async () => {
    expect(await summarizeRange(["first", "second"], answering(reply("joi", "length")).options)).toBeNull();
  });
});

test("a digest needs no model, and gives each call its text", () => {
  const summary = digestSummary(BATCH);
  expect(summary).toMatchObject({ model: "none", texts: ["output of c1", "output of c2"] });
  expect(summary.usage).toBeUndefined();
});
