import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ImageContent, TextContent } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { deepFreeze } from "../../test/support/generate.js";
import { capImages } from "./images.js";

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
