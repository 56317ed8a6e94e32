import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ImageContent, TextContent } from "@mariozechner/pi-ai";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import fc from "fast-check";
import { deepFreeze } from "../../test/support/generate.ts";
import { capImages as capWithin, type ImageLimits, imageLimits, sizeRefusals } from "./images.ts";

const NO_LIMITS: ImageLimits = { count: null, bytes: null };
const capImages = (messages: AgentMessage[], count: number | null) => capWithin(messages, { ...NO_LIMITS, count });

type Role = "user" | "toolResult" | "custom";

let clock = 0;

function image(name: string): ImageContent {
  return { type: "image", data: name, mimeType: "image/png" };
}

function message(role: Role, ...content: (string | ImageContent)[]): AgentMessage {
  const timestamp = clock++;
  const blocks = content.map((part): TextContent | ImageContent =>
    typeof part === "string" ? { type: "text", text: part } : part,
  );
  if (role === "user") return { role, content: blocks, timestamp };
  if (role === "custom") return { role, customType: "other", content: blocks, display: true, timestamp };
  return { role, toolCallId: `c${timestamp}`, toolName: "shot", content: blocks, isError: false, timestamp };
}

/** Names of the images that stand in the messages. */
function imagesOf(messages: readonly AgentMessage[]): string[] {
  return messages.flatMap((m) =>
    "content" in m && Array.isArray(m.content) ? m.content.flatMap((b) => ("data" in b ? [b.data] : [])) : [],
  );
}

const shots = (count: number) =>
  deepFreeze(Array.from({ length: count }, (_, i) => message("toolResult", image(`${i}`))));

describe("capImages", () => {
  test("is off without a cap, and gives back the array itself while nothing has to go", () => {
    const messages = shots(5);
    expect(capImages(messages, null)).toBe(messages);
    expect(capImages(messages, 5)).toBe(messages);
    expect(capImages(messages, 4)).not.toBe(messages);
  });

  test("the oldest go, half the cap at a time", () => {
    const left = (count: number, cap: number) => imagesOf(capImages(shots(count), cap)).length;
    expect([4, 5, 6, 7, 8, 9, 10, 11].map((count) => left(count, 6))).toEqual([4, 5, 6, 4, 5, 6, 4, 5]);
    expect(imagesOf(capImages(shots(7), 6))).toEqual(["3", "4", "5", "6"]);
    expect([1, 2, 3, 9].map((count) => left(count, 1))).toEqual([1, 1, 1, 1]);
    expect([3, 4, 5, 6].map((count) => left(count, 3))).toEqual([3, 3, 3, 3]);
  });

  test("results, messages of the user and notices count alike; other blocks stay, and a note takes the place", () => {
    const messages = deepFreeze([
      message("user", "look", image("u")),
      message("custom", image("c"), "from the camera"),
      message("toolResult", image("a"), image("b")),
      message("user", "and?"),
    ]);
    const [first, second, third, fourth] = capImages(messages, 2);
    expect(imagesOf([first, second, third].filter((m) => m !== undefined))).toEqual(["a", "b"]);
    const note = expect.stringMatching(/^\[an image stood here; .+\]$/);
    expect<unknown>(first).toEqual({
      ...messages[0],
      content: [
        { type: "text", text: "look" },
        { type: "text", text: note },
      ],
    });
    expect(second).toMatchObject({ customType: "other", content: [{ text: note }, { text: "from the camera" }] });
    expect(third).toBe(messages[2]);
    expect(fourth).toBe(messages[3]);
  });

  test("a result loses only as many of its images as have to go", () => {
    const messages = deepFreeze([message("toolResult", image("a"), "text", image("b"), image("c"))]);
    const [only] = capImages(messages, 2);
    expect(only && imagesOf([only])).toEqual(["b", "c"]);
  });

  test("holds the cap, never takes the newest, and changes no byte between two steps", () => {
    const arbitrary = fc.array(
      fc.record({
        role: fc.constantFrom<Role>("user", "toolResult", "custom"),
        images: fc.constantFrom(0, 0, 1, 1, 3),
      }),
      { maxLength: 25 },
    );
    fc.assert(
      fc.property(arbitrary, fc.integer({ min: 1, max: 9 }), (plan, cap) => {
        const messages = deepFreeze(
          plan.map(({ role, images }, i) =>
            message(role, "text", ...Array.from({ length: images }, (_, n) => image(`${i}.${n}`))),
          ),
        );
        let previous: AgentMessage[] = [];
        let changes = 0;
        for (let end = 1; end <= messages.length; end++) {
          const sent = capImages(messages.slice(0, end), cap);
          const left = imagesOf(sent);
          const all = imagesOf(messages.slice(0, end));
          expect(left.length).toBeLessThanOrEqual(cap);
          expect(left).toEqual(all.slice(all.length - left.length));
          if (all.length > 0) expect(left.length).toBeGreaterThan(0);
          for (const m of sent) expect("content" in m && m.content.length).toBeGreaterThan(0);
          if (JSON.stringify(sent.slice(0, previous.length)) !== JSON.stringify(previous)) changes += 1;
          previous = sent;
        }
        const total = imagesOf(messages).length;
        expect(changes).toBeLessThanOrEqual(Math.max(0, Math.ceil((total - cap) / Math.max(1, Math.floor(cap / 2)))));
      }),
    );
  });
});

describe("a cap on bytes", () => {
  const sized = (...sizes: number[]) => deepFreeze(sizes.map((size) => message("toolResult", image("x".repeat(size)))));
  const left = (bytes: number, ...sizes: number[]) =>
    imagesOf(capWithin(sized(...sizes), { ...NO_LIMITS, bytes })).map((data) => data.length);

  test("leaves out the oldest until half of what is allowed is left, and never the newest", () => {
    expect(left(10, 4, 4, 2)).toEqual([4, 4, 2]);
    expect(left(10, 4, 4, 3)).toEqual([3]);
    expect(left(10, 4, 4, 3, 2, 2, 2)).toEqual([3, 2, 2, 2]);
    expect(left(10, 1, 50)).toEqual([50]);
  });

  test("thirty screenshots of 1.2 MB fit what the provider takes", () => {
    const limits = imageLimits({ enabled: true, maxImagesPerRequest: null }, { provider: "anthropic" });
    const shot = image("x".repeat(1_200_000));
    const sent = capWithin([message("toolResult", ...Array.from({ length: 30 }, () => shot))], limits);
    const bytes = imagesOf(sent).reduce((sum, data) => sum + data.length, 0);
    expect(bytes).toBeLessThan(32_000_000 - 4_000_000);
    expect(bytes).toBeGreaterThan(10_000_000);
  });
});

describe("imageLimits", () => {
  const anthropic = { provider: "anthropic" };

  test("are those of the provider unless the user has set a number, and none of an unknown one", () => {
    expect(imageLimits({ enabled: true, maxImagesPerRequest: null }, anthropic).count).toBe(100);
    expect(imageLimits({ enabled: true, maxImagesPerRequest: 7 }, anthropic)).toMatchObject({ count: 7 });
    expect(imageLimits({ enabled: true, maxImagesPerRequest: null }, { provider: "mine" })).toEqual(NO_LIMITS);
    expect(imageLimits({ enabled: true, maxImagesPerRequest: null }, undefined)).toEqual(NO_LIMITS);
  });

  test("while the pruner is off only the number of the user holds", () => {
    expect(imageLimits({ enabled: false, maxImagesPerRequest: null }, anthropic)).toEqual(NO_LIMITS);
    expect(imageLimits({ enabled: false, maxImagesPerRequest: 7 }, anthropic)).toEqual({ count: 7, bytes: null });
  });
});

describe("after a refusal for size", () => {
  const after = (messages: AgentMessage[], ...refusals: number[]) =>
    imagesOf(capWithin(messages, NO_LIMITS, () => refusals)).length;

  test("half of the images go at once, half of those after the next, and more than that never comes back", () => {
    clock = 100;
    const messages = shots(8);
    expect(after(messages)).toBe(8);
    expect(after(messages, 200)).toBe(4);
    expect(after(messages, 200, 201)).toBe(2);
    expect(after(messages, 200, 201, 202, 203)).toBe(0);
    clock = 300;
    expect(after([...messages, ...shots(1)], 200)).toBeLessThanOrEqual(4);
    expect(imagesOf(capWithin([...messages, ...shots(1)], NO_LIMITS, () => [200])).at(-1)).toBe("0");
  });

  test("what was sent before it stays as it was until then", () => {
    clock = 500;
    const before = shots(6);
    clock = 600;
    const sent = capWithin([...before, ...shots(1)], NO_LIMITS, () => [550]);
    expect(imagesOf(sent.slice(0, 6))).toEqual(["4", "5"]);
    expect(imagesOf(capWithin([...before], NO_LIMITS, () => [550]))).toEqual(["3", "4", "5"]);
  });

  test.each([
    ["413 Request exceeds the maximum size", true],
    ['413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}', true],
    ["Request Entity Too Large", true],
    ["400 Too many images in request", true],
    ["429 Rate limit exceeded", false],
    ["Request too large for gpt-4o on tokens per min (TPM): Limit 30000", false],
    ["prompt is too long: 213462 tokens > 200000 maximum", false],
  ])("is told from other errors: %s", (errorMessage, isRefusal) => {
    const reply: unknown = { role: "assistant", content: [], stopReason: "error", errorMessage, timestamp: 5 };
    const entry: unknown = { type: "message", id: "a", parentId: null, timestamp: "", message: reply };
    expect(sizeRefusals([entry as SessionEntry])).toEqual(isRefusal ? [5] : []);
  });

  test("before the first image limits none", () => {
    const at = clock++;
    const messages = shots(3);
    expect(capWithin(messages, NO_LIMITS, () => [at])).toBe(messages);
  });

  test("is looked for among the replies of a branch", () => {
    const at = { id: "a", parentId: null, timestamp: "" };
    const refused = { role: "assistant", content: [], stopReason: "error", errorMessage: "413", timestamp: 5 };
    const entries: unknown[] = [
      { ...at, type: "custom", customType: "other", data: refused },
      { ...at, type: "message", message: { ...refused, role: "user" } },
      { ...at, type: "compaction", summary: "413", firstKeptEntryId: "a", tokensBefore: 1 },
      { ...at, type: "message", message: { ...refused, stopReason: "stop" } },
      { ...at, type: "message", message: refused },
    ];
    expect(sizeRefusals(entries as SessionEntry[])).toEqual([5]);
  });
});
