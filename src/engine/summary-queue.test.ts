import { describe, expect, test } from "bun:test";
import type { BatchSummary } from "../summarizer.ts";
import type { CapturedBatch } from "../types.ts";
import { type MakeSummary, SummaryQueue } from "./summary-queue.ts";

function batch(...ids: string[]): CapturedBatch {
  const toolCalls = ids.map((id) => ({
    occurrenceKey: `${id}@2`,
    toolCallId: id,
    toolName: "read",
    args: {},
    content: [],
    resultText: "",
    resultImages: 0,
    isError: false,
    resultTimestamp: 2,
  }));
  return { turnIndex: 0, timestamp: 1, assistantText: "", toolCalls };
}

const summary = (whole: string): BatchSummary => ({ whole, texts: undefined, model: "p/m" });

/** Summaries that a test finishes by hand, and how many were being made at once. */
class Workshop {
  readonly started: string[] = [];
  most = 0;
  private running = 0;
  private readonly finishers = new Map<string, (value: BatchSummary | null) => void>();

  make(name: string): MakeSummary {
    return async (signal) => {
      this.started.push(name);
      this.running += 1;
      this.most = Math.max(this.most, this.running);
      const value = await new Promise<BatchSummary | null>((resolve) => {
        this.finishers.set(name, resolve);
        if (signal.aborted) resolve(null);
        signal.addEventListener("abort", () => resolve(null));
      });
      this.running -= 1;
      return value;
    };
  }

  async finish(name: string, value: BatchSummary | null = summary(name)): Promise<void> {
    this.finishers.get(name)?.(value);
    await settled();
  }
}

async function settled(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}

describe("a batch", () => {
  test("is asked for once, whoever wants it and when", async () => {
    const queue = new SummaryQueue();
    const workshop = new Workshop();
    const first = queue.summary(batch("a"), 2, workshop.make("a"));
    const second = queue.summary(batch("a"), 2, workshop.make("again"));
    await settled();
    await workshop.finish("a");
    const third = queue.summary(batch("a"), 2, workshop.make("once more"));
    expect(await Promise.all([first, second, third])).toEqual([summary("a"), summary("a"), summary("a")]);
    expect(workshop.started).toEqual(["a"]);
  });

  test("is another one with other calls", async () => {
    const queue = new SummaryQueue();
    const workshop = new Workshop();
    for (const ids of [["a"], ["a", "b"], ["b"]]) void queue.summary(batch(...ids), 5, workshop.make(ids.join()));
    await settled();
    expect(workshop.started).toEqual(["a", "a,b", "b"]);
  });

  test("that failed is asked for again only behind the flush that took it", async () => {
    const queue = new SummaryQueue();
    const workshop = new Workshop();
    const first = queue.summary(batch("a"), 1, workshop.make("a"));
    await workshop.finish("a", null);
    expect(await first).toBeNull();
    expect(await queue.summary(batch("a"), 1, workshop.make("at once"))).toBeNull();
    expect(queue.hasBeenAsked(batch("a"))).toBe(true);
    queue.forget([batch("a")]);
    expect(queue.hasBeenAsked(batch("a"))).toBe(true);
    void queue.summary(batch("a"), 1, workshop.make("later"));
    await settled();
    expect(workshop.started).toEqual(["a", "later"]);
  });
});

describe("forgetFailed", () => {
  test("lets what has failed be asked for again, and nothing else", async () => {
    const queue = new SummaryQueue();
    const workshop = new Workshop();
    for (const name of ["made", "failed", "running"]) void queue.summary(batch(name), 5, workshop.make(name));
    await workshop.finish("made");
    await workshop.finish("failed", null);
    queue.forgetFailed();
    for (const name of ["made", "failed", "running"])
      void queue.summary(batch(name), 5, workshop.make(`${name} again`));
    await settled();
    expect(workshop.started).toEqual(["made", "failed", "running", "failed again"]);
  });
});

describe("concurrency", () => {
  test.each([1, 2, 3])("%d is reached and not exceeded, in the order of asking", async (limit) => {
    const queue = new SummaryQueue();
    const workshop = new Workshop();
    const names = ["a", "b", "c", "d", "e", "f"];
    for (const name of names) void queue.summary(batch(name), limit, workshop.make(name));
    for (const name of names) {
      await settled();
      await workshop.finish(name);
    }
    expect(workshop.started).toEqual(names);
    expect(workshop.most).toBe(limit);
  });

  test("holds for what is asked for in the moment in which another ends", async () => {
    const queue = new SummaryQueue();
    const workshop = new Workshop();
    const first = queue.summary(batch("a"), 1, workshop.make("a"));
    void queue.summary(batch("b"), 1, workshop.make("b"));
    const late = first.then(() => queue.summary(batch("c"), 1, workshop.make("c")));
    await workshop.finish("a");
    await workshop.finish("b");
    await workshop.finish("c");
    await workshop.finish("b");
    await late;
    expect(workshop.started.toSorted()).toEqual(["a", "b", "c"]);
    expect(workshop.most).toBe(1);
  });

  test("one that throws gives its place to the next", async () => {
    const queue = new SummaryQueue();
    await expect(queue.inTurn(1, () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    expect(await queue.inTurn(1, async () => "next")).toBe("next");
  });
});

describe("cancel", () => {
  test("ends what is running and what waits; what was made stays", async () => {
    const queue = new SummaryQueue();
    const workshop = new Workshop();
    const made = queue.summary(batch("a"), 1, workshop.make("a"));
    await workshop.finish("a");
    const others = ["b", "c"].map((name) => queue.summary(batch(name), 1, workshop.make(name)));
    await settled();
    queue.cancel("enough");
    expect(await Promise.all(others)).toEqual([null, null]);
    expect(await made).toEqual(summary("a"));
    expect(await queue.summary(batch("a"), 1, workshop.make("a once more"))).toEqual(summary("a"));
  });

  test("does not touch what is asked for later", async () => {
    const queue = new SummaryQueue();
    const workshop = new Workshop();
    queue.cancel("enough");
    const later = queue.summary(batch("a"), 1, workshop.make("a"));
    await settled();
    await workshop.finish("a");
    expect(await later).toEqual(summary("a"));
  });
});
