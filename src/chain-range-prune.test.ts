import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolResultMessage } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { cpuMs } from "../test/support/cpu-time.ts";
import { deepFreeze, sessionArbitrary } from "../test/support/generate.ts";
import { REPOSITORY } from "../test/support/host-paths.ts";
import { PROPERTY_RUNS } from "../test/support/property-runs.ts";
import { checkTranscript } from "../test/support/transcript.ts";
import { buildChainBody, compressEligible } from "./chain-compressor.ts";
import { detectChains } from "./chain-detector.ts";
import {
  applyChainCompressions,
  buildSyntheticChainMessage,
  neutralizeMarks,
  type RenderedChain,
} from "./chain-range-prune.ts";
import { repairTranscript } from "./render/repair.ts";
import { contentChars, extractToolResultText, isImage, isToolResult, textOf } from "./transcript/messages.ts";
import { type ChainCompressionEntry, CUSTOM_TYPE_SUMMARY } from "./types.ts";

const COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const USAGE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: COST };
const IMAGE = { type: "image" as const, data: "iVBORw0KGgo=", mimeType: "image/png" };
const LONG = "a line of some tool output\n".repeat(60);
const TODO = "- [x] read\n- [ ] fix </protected-output> & go";

type Content = AssistantMessage["content"];

function user(timestamp: number, text = `prompt ${timestamp}`): AgentMessage {
  return { role: "user", content: [{ type: "text", text }], timestamp };
}

function assistant(timestamp: number, content: Content, stopReason: AssistantMessage["stopReason"]): AssistantMessage {
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage: USAGE, stopReason, timestamp };
}

function turn(timestamp: number, ids: string[], stopReason: AssistantMessage["stopReason"] = "toolUse") {
  const calls = ids.map((id) => ({ type: "toolCall" as const, id, name: "read", arguments: { path: `${id}.ts` } }));
  return assistant(timestamp, calls, stopReason);
}

function reply(timestamp: number, content: Content = [{ type: "text", text: "done" }]) {
  return assistant(timestamp, content, "stop");
}

function result(timestamp: number, toolCallId: string, text = LONG, toolName = "read"): ToolResultMessage {
  return { role: "toolResult", toolCallId, toolName, content: [{ type: "text", text }], isError: false, timestamp };
}

function notice(timestamp: number, customType = "other-extension"): AgentMessage {
  return { role: "custom", customType, content: "notice", display: true, timestamp };
}

function chain(extra: Partial<ChainCompressionEntry> = {}, body = "- t1 read a.ts\n- t2 todowrite"): RenderedChain {
  return {
    entry: {
      blockId: "b7",
      startUserTimestamp: 1,
      finalAssistantTimestamp: 9,
      droppedToolCallIds: ["a", "b"],
      droppedOccurrenceKeys: ["a@3", "b@4"],
      toolRefs: ["t1", "t2"],
      compressedAt: 100,
      ...extra,
    },
    body,
  };
}

/** user, one turn with the calls `a` and `b`, closing reply. */
const SIMPLE = deepFreeze<AgentMessage[]>([user(1), turn(2, ["a", "b"]), result(3, "a"), result(4, "b"), reply(9)]);

function apply(messages: AgentMessage[], chains: RenderedChain[], strip = false) {
  const unresolved: string[] = [];
  const options = {
    stripFinalAssistantThinking: strip,
    onUnresolved: (blockId: string, reason: string) => unresolved.push(`${blockId} ${reason}`),
  };
  const rendered = applyChainCompressions(deepFreeze(messages), deepFreeze(chains), options);
  return { rendered, unresolved };
}

/** Each message as its role and time, the synthetic ones by their block. */
function outline(messages: readonly AgentMessage[]): string[] {
  return messages.map((message) => {
    const block = /^<compressed-chain id="(b\d+)"/.exec(syntheticText(message) ?? "");
    return block?.[1] ?? `${message.role}@${message.timestamp}`;
  });
}

function syntheticText(message: AgentMessage | undefined): string | undefined {
  const text = message?.role === "user" ? textOf(message.content) : "";
  return text.startsWith("<compressed-chain ") ? text : undefined;
}

function textOfBlock(messages: readonly AgentMessage[]): string {
  return messages.map(syntheticText).find((text) => text !== undefined) ?? "";
}

describe("buildSyntheticChainMessage", () => {
  test("a chain without protected output", () => {
    expect(buildSyntheticChainMessage(chain(), [])).toEqual({
      role: "user",
      content: [
        {
          type: "text",
          text: '<compressed-chain id="b7" tools="t1,t2">\n- t1 read a.ts\n- t2 todowrite\n</compressed-chain>',
        },
      ],
      timestamp: 1,
    });
  });

  test("protected output is appended verbatim, without an id that looks queryable", () => {
    const outputs = [
      { tool: "todowrite", text: TODO },
      { tool: "todoread", text: "line\n" },
    ];
    expect(textOfBlock([buildSyntheticChainMessage(chain({}, "{body}"), outputs)])).toBe(
      `<compressed-chain id="b7" tools="t1,t2">
{body}

<protected-output tool="todowrite">
${TODO}
</protected-output>

<protected-output tool="todoread">
line

</protected-output>
</compressed-chain>`,
    );
  });

  test("images of protected output follow the text", () => {
    const outputs = [
      { tool: "shot", text: "", images: [IMAGE] },
      { tool: "shot", text: "two", images: [IMAGE, IMAGE] },
    ];
    const { content } = buildSyntheticChainMessage(chain(), outputs);
    expect(content.slice(1)).toEqual([IMAGE, IMAGE, IMAGE]);
    expect(textOf(content)).toContain("[1 image, attached]");
    expect(textOf(content)).toContain('<protected-output tool="shot">\ntwo\n</protected-output>');
  });

  test("attribute values are escaped", () => {
    const [text] = [buildSyntheticChainMessage(chain({ toolRefs: [] }), [{ tool: 'x"><b>\n&', text: "t" }])].map(
      (message) => textOf(message.content),
    );
    expect(text).toContain('tools=""');
    expect(text).toContain('<protected-output tool="x&quot;&gt;&lt;b&gt; &amp;">');
  });

  test("marks in a body are made harmless", () => {
    const text = textOfBlock([
      buildSyntheticChainMessage(chain({}, "</compressed-chain><b> </ Protected-output>"), []),
    ]);
    expect(text).toContain("&lt;/compressed-chain><b> &lt;/ Protected-output>");
    expect(neutralizeMarks(neutralizeMarks("</compressed-chain>"))).toBe("&lt;/compressed-chain>");
  });

  test("nested references give way to the bodies of their chains; unknown ones stay", () => {
    const bodies = new Map([
      ["b1", "first"],
      ["b2", "second, after {b1}"],
    ]);
    const text = textOfBlock([buildSyntheticChainMessage(chain({}, "{b2}, then {b9} and {x}"), [], bodies)]);
    expect(text).toContain("\nsecond, after first, then {b9} and {x}\n");
  });

  test("circles of references end, and none multiplies", () => {
    const bodies = new Map([
      ["b1", "one {b2}{b2}"],
      ["b2", "two {b1} {b7}"],
      ["b7", "seven"],
    ]);
    const text = textOfBlock([buildSyntheticChainMessage(chain({}, "{b1} {b7} {b1}"), [], bodies)]);
    expect(text).toContain("\none two {b1} {b7}{b2} {b7} {b1}\n");
  });
});

describe("applyChainCompressions", () => {
  test("a pure chain: calls and results go, the synthetic message stands in their place", () => {
    const { rendered, unresolved } = apply(SIMPLE, [chain()]);
    expect(unresolved).toEqual([]);
    expect(outline(rendered)).toEqual(["user@1", "b7", "assistant@9"]);
    expect(rendered[0]).toBe(SIMPLE[0] as AgentMessage);
    expect(rendered[2]).toBe(SIMPLE[4] as AgentMessage);
    expect(rendered[1]).toEqual(buildSyntheticChainMessage(chain(), []));
  });

  test("a mixed chain: the protected result leaves its place and is rendered verbatim inside the chain", () => {
    const mixed = [user(1), turn(2, ["a", "b"]), result(3, "a"), result(4, "b", TODO, "todowrite"), reply(9)];
    for (const names of [
      { protectedToolCallIds: ["b"], protectedOccurrenceKeys: ["b@4"] },
      { protectedToolCallIds: ["b"] },
    ]) {
      const { rendered } = apply(mixed, [chain(names)]);
      expect(outline(rendered)).toEqual(["user@1", "b7", "assistant@9"]);
      expect(textOfBlock(rendered)).toEndWith(
        `\n\n<protected-output tool="todowrite">\n${TODO}\n</protected-output>\n</compressed-chain>`,
      );
      expect(textOfBlock(rendered)).not.toContain("a line of some tool output");
    }
  });

  test("a protected id missing from the messages is skipped, the rest compresses", () => {
    const names = { protectedToolCallIds: ["b"], protectedOccurrenceKeys: ["b@4"] };
    const { rendered, unresolved } = apply([user(1), turn(2, ["a", "b"]), result(3, "a"), reply(9)], [chain(names)]);
    expect(unresolved).toEqual([]);
    expect(outline(rendered)).toEqual(["user@1", "b7", "assistant@9"]);
    expect(textOfBlock(rendered)).not.toContain("protected-output");
  });

  test("protected images stay in the context", () => {
    const shot: AgentMessage = { ...result(4, "b", "", "shot"), content: [IMAGE] };
    const names = { protectedToolCallIds: ["b"], protectedOccurrenceKeys: ["b@4"] };
    const { rendered } = apply([user(1), turn(2, ["a", "b"]), result(3, "a"), shot, reply(9)], [chain(names)]);
    expect(rendered[1]?.role === "user" && rendered[1].content.at(-1)).toEqual(IMAGE);
  });

  test("nothing to do gives back the very array", () => {
    expect(apply(SIMPLE, []).rendered).toBe(SIMPLE);
    expect(apply(SIMPLE, [chain({ active: false })])).toEqual({ rendered: SIMPLE, unresolved: [] });
    const elsewhere = chain({ startUserTimestamp: 50, finalAssistantTimestamp: 59, droppedOccurrenceKeys: ["z@55"] });
    expect(apply(SIMPLE, [elsewhere]).rendered).toBe(SIMPLE);
    expect(apply(SIMPLE, [elsewhere]).unresolved).toEqual([]);
    expect(apply(SIMPLE, [chain({ active: true })]).rendered).toHaveLength(3);
  });

  test("twice is once, and says nothing the second time", () => {
    const { rendered } = apply(SIMPLE, [chain()]);
    const again = apply(rendered, [chain()]);
    expect(again.rendered).toBe(rendered);
    expect(again.unresolved).toEqual([]);
  });

  test("steering and notices of other extensions stay in place, our own summary messages go", () => {
    const command: AgentMessage = {
      role: "bashExecution",
      command: "ls",
      output: "x",
      exitCode: 0,
      cancelled: false,
      truncated: false,
      timestamp: 6,
    };
    const steering = user(5, "steer");
    const messages = [
      user(1),
      turn(2, ["a", "b"]),
      result(3, "a"),
      notice(3),
      result(4, "b"),
      steering,
      notice(7, CUSTOM_TYPE_SUMMARY),
      command,
      notice(8),
      reply(9),
      notice(10, CUSTOM_TYPE_SUMMARY),
    ];
    const { rendered } = apply(messages, [chain()]);
    expect(outline(rendered)).toEqual([
      "user@1",
      "b7",
      "custom@3",
      "user@5",
      "bashExecution@6",
      "custom@8",
      "assistant@9",
      "custom@10",
    ]);
    expect(rendered[3]).toBe(steering);
  });

  test("replies that pi-ai leaves out go with their results", () => {
    const broken = [
      user(1),
      turn(2, ["a", "b"]),
      result(3, "a"),
      result(4, "b"),
      turn(5, ["x"], "aborted"),
      result(6, "x"),
    ];
    const named = chain({ droppedToolCallIds: ["a", "b", "x"] });
    expect(outline(apply([...broken, reply(9)], [named]).rendered)).toEqual(["user@1", "b7", "assistant@9"]);
  });

  test("a result that reaches no provider goes too, be it protected or at the very start", () => {
    const messages = [turn(0, ["x"], "aborted"), user(1), result(1.5, "x", TODO), ...SIMPLE.slice(1)];
    const named = chain({ droppedToolCallIds: ["x", "a", "b"], protectedToolCallIds: ["x"] });
    const { rendered, unresolved } = apply(messages, [named]);
    expect(unresolved).toEqual([]);
    expect(outline(rendered)).toEqual(["assistant@0", "user@1", "b7", "assistant@9"]);
    expect(textOfBlock(rendered)).not.toContain("protected-output");
  });

  test("an interrupted chain keeps none of its turns; what the next message opens is left alone", () => {
    const interrupted = chain({ finalAssistantTimestamp: 2, interrupted: true });
    const next = [user(10), turn(11, ["c"]), result(12, "c"), reply(13)];
    const messages = [user(1), turn(2, ["a", "b"]), result(3, "a"), notice(3), result(4, "b"), notice(5), ...next];
    const { rendered, unresolved } = apply(messages, [interrupted]);
    expect(unresolved).toEqual([]);
    expect(outline(rendered)).toEqual(["user@1", "b7", "custom@3", "custom@5", ...outline(next)]);
    expect(apply(rendered, [interrupted]).rendered).toBe(rendered);
  });

  test("a reply that was cut off by its length is kept: it can be had nowhere else", () => {
    const cutOff = assistant(5, [{ type: "text", text: "The first half" }], "length");
    const messages = [user(1), turn(2, ["a", "b"]), result(3, "a"), result(4, "b"), cutOff, user(10), reply(11)];
    const interrupted = chain({ finalAssistantTimestamp: 5, interrupted: true });
    const { rendered } = apply(messages, [interrupted]);
    expect(outline(rendered)).toEqual(["user@1", "b7", "assistant@5", "user@10", "assistant@11"]);
    expect(rendered[2]).toBe(cutOff);
    expect(apply(rendered, [interrupted])).toEqual({ rendered, unresolved: [] });
  });

  test("a reused id in another chain is not dropped there", () => {
    const other = [user(10), turn(11, ["a"]), result(12, "a"), reply(19)];
    const { rendered } = apply([...SIMPLE, ...other], [chain()]);
    expect(rendered.slice(3)).toEqual(other);
    const bare = chain({ droppedOccurrenceKeys: undefined });
    expect(apply([...SIMPLE, ...other], [bare]).rendered.slice(3)).toEqual(other);
  });

  test("a chain opened by a notice is found by its first result once the notice has another timestamp", () => {
    const messages = [
      reply(0),
      notice(100),
      turn(2, ["a", "b"]),
      result(3, "a"),
      notice(101),
      result(4, "b"),
      reply(9),
    ];
    const { rendered, unresolved } = apply(messages, [chain()]);
    expect(unresolved).toEqual([]);
    expect(outline(rendered)).toEqual(["assistant@0", "custom@100", "b7", "custom@101", "assistant@9"]);
    expect(apply(rendered, [chain()])).toEqual({ rendered, unresolved: [] });
  });

  test("several chains, in one pass", () => {
    const second = chain({
      blockId: "b8",
      startUserTimestamp: 10,
      finalAssistantTimestamp: 19,
      droppedToolCallIds: ["c"],
      droppedOccurrenceKeys: ["c@12"],
    });
    const messages = [...SIMPLE, user(10), turn(11, ["c"]), result(12, "c"), reply(19), user(20)];
    expect(outline(apply(messages, [second, chain()]).rendered)).toEqual([
      "user@1",
      "b7",
      "assistant@9",
      "user@10",
      "b8",
      "assistant@19",
      "user@20",
    ]);
  });

  test("nested {bN} in a body are resolved from the other chains", () => {
    const inner = chain(
      { blockId: "b3", startUserTimestamp: 50, finalAssistantTimestamp: 59, droppedOccurrenceKeys: ["z@1"] },
      "inner text",
    );
    expect(textOfBlock(apply(SIMPLE, [inner, chain({}, "outer: {b3}")]).rendered)).toContain("\nouter: inner text\n");
  });
});

describe("a chain that is not found for sure stays as it is", () => {
  const cases: [name: string, reason: string, messages: AgentMessage[]][] = [
    ["the closing reply is gone", "end-not-found", SIMPLE.slice(0, -1)],
    ["two replies at the end time, and its results twice", "end-not-found", [...SIMPLE, ...SIMPLE]],
    ["the end closes nothing", "end-not-closing", [...SIMPLE.slice(0, -1), turn(9, ["c"])]],
    [
      "two user messages at the start time, and its results twice",
      "start-not-found",
      [user(1), ...SIMPLE, turn(10, ["a"]), result(3, "a"), reply(11)],
    ],
    ["the start is behind the end", "start-not-found", [...SIMPLE.slice(1), user(1)]],
    ["the start was compacted away, all results are there", "start-not-found", SIMPLE.slice(1)],
    [
      "the start was compacted away, some results are there",
      "start-not-found",
      [
        { role: "compactionSummary", summary: "s", tokensBefore: 1, timestamp: 0 },
        turn(3, ["b"]),
        result(4, "b"),
        reply(9),
      ],
    ],
    ["the notice before it belongs to an earlier run", "start-not-found", [notice(0), reply(0.5), ...SIMPLE.slice(1)]],
    ["another user message opens the run", "start-not-found", [user(0), ...SIMPLE.slice(1)]],
    [
      "a result that the entry does not name",
      "unknown-result",
      [...SIMPLE.slice(0, -1), turn(5, ["c"]), result(6, "c"), reply(9)],
    ],
    [
      "a named id at another time",
      "unknown-result",
      [...SIMPLE.slice(0, -1), turn(5, ["a"]), result(6, "a"), reply(9)],
    ],
    [
      "a result without a call that the entry does not name",
      "unknown-result",
      [...SIMPLE.slice(0, -1), result(6, "z"), reply(9)],
    ],
    [
      "a result whose call stands before the chain",
      "unknown-result",
      [turn(0, ["a"]), user(1), result(3, "a"), turn(3, ["b"]), result(4, "b"), reply(9)],
    ],
  ];
  test.each(cases)("%s (%s)", (_, reason, messages) => {
    const { rendered, unresolved } = apply(messages, [chain()]);
    expect(rendered).toBe(messages);
    expect(unresolved).toEqual([`b7 ${reason}`]);
  });

  test("a chain whose messages another one has taken (overlap)", () => {
    const { rendered, unresolved } = apply(SIMPLE, [chain(), chain({ blockId: "b8" })]);
    expect(outline(rendered)).toEqual(["user@1", "b7", "assistant@9"]);
    expect(unresolved).toEqual(["b8 overlap"]);
  });

  test("nothing is said of a chain whose results are all gone", () => {
    expect(apply([user(1), reply(9)], [chain()]).unresolved).toEqual([]);
    expect(apply([reply(9), user(10)], [chain()]).unresolved).toEqual([]);
  });
});

describe("stripFinalAssistantThinking", () => {
  const thinking: Content[number] = { type: "thinking", thinking: "Hm.", thinkingSignature: "c2ln" };
  const text: Content[number] = { type: "text", text: "done" };
  const closedBy = (content: Content) => [...SIMPLE.slice(0, -1), reply(9, content), user(10), reply(11, content)];
  const closingOf = (content: Content, strip = true) => {
    const messages = closedBy(content);
    const { rendered } = apply(messages, [chain()], strip);
    return { before: messages[4], after: rendered[2], later: rendered[4], laterBefore: messages[6] };
  };

  test("takes the thinking of the closing reply, and of no other", () => {
    const { before, after, later, laterBefore } = closingOf([thinking, text]);
    expect(after).toEqual({ ...reply(9), content: [text] });
    expect(before).not.toEqual(after);
    expect(later).toBe(laterBefore);
  });

  test("switched off, the reply is the very message", () => {
    const { before, after } = closingOf([thinking, text], false);
    expect(after).toBe(before);
  });

  test("never leaves a reply without content", () => {
    for (const content of [[thinking], [thinking, { type: "text" as const, text: " \n" }]]) {
      const { before, after } = closingOf(content);
      expect(after).toBe(before);
    }
  });

  test("leaves a reply whose text is signed: its provider pairs the two", () => {
    const { before, after } = closingOf([thinking, { ...text, textSignature: "msg_01" }]);
    expect(after).toBe(before);
  });

  test("touches no reply of a chain that stays as it is", () => {
    const messages = [...SIMPLE.slice(1, -1), reply(9, [thinking, text])];
    expect(apply(messages, [chain()], true).rendered).toBe(messages);
  });
});

describe("nothing grows", () => {
  const small = (chars: number) => [user(1), turn(2, ["a"]), result(3, "a", "x".repeat(chars)), reply(9)];
  const named = chain({ droppedToolCallIds: ["a"], droppedOccurrenceKeys: ["a@3"] });

  const isCompressed = (messages: AgentMessage[]) => apply(messages, [named]).rendered.length < messages.length;
  /** The first length of the result from which the chain is compressed. */
  const limit = (messagesOf: (chars: number) => AgentMessage[]) => {
    let chars = 0;
    while (!isCompressed(messagesOf(chars))) chars += 1;
    return chars;
  };

  test("a chain is compressed only where its message is shorter than what it replaces", () => {
    const chars = limit(small);
    const synthetic = apply(small(chars), [named]).rendered[1];
    const size = (message: AgentMessage | undefined) =>
      message?.role === "user" && typeof message.content !== "string" ? contentChars(message.content) : 0;
    expect(apply(small(chars + 1_000), [named]).rendered[1]).toEqual(synthetic as AgentMessage);
    expect(size(synthetic)).toBeGreaterThan(chars);
    expect(apply(small(chars - 1), [named]).rendered).toHaveLength(4);
    expect(apply(small(chars - 1), [named]).unresolved).toEqual([]);
    expect(apply(small(chars), [named]).rendered).toHaveLength(3);
  });

  test("images count, what pi-ai leaves out does not", () => {
    const chars = limit(small);
    const broken = assistant(2.5, [{ type: "text", text: LONG }], "error");
    expect(limit((size) => [...small(size).slice(0, 3), broken, reply(9)])).toBe(chars);
    const pictured = small(0).map((message) => (isToolResult(message) ? { ...message, content: [IMAGE] } : message));
    expect(isCompressed(small(0))).toBe(false);
    expect(isCompressed(pictured)).toBe(true);
  });
});

/** Every detected chain that `picks` chooses, as an entry with a body. */
function compress(messages: readonly AgentMessage[], picks: readonly boolean[], protectedTools: string[]) {
  const ranges = detectChains(messages, protectedTools).filter(
    (range, i) => range.occurrenceKeys.length > 0 && picks[i],
  );
  let blocks = 0;
  let refs = 0;
  const deps = { refOf: () => `t${++refs}`, rangeSummary: () => undefined, isSummarized: () => true, now: 0 };
  const entries = compressEligible(ranges, { ...deps, mintBlockId: () => `b${++blocks}` });
  return entries.map((entry): RenderedChain => {
    const calls = entry.toolRefs.map((ref) => ({ ref, line: "read src/app.ts, 14,203 chars, ok", summary: "fine" }));
    return { entry, body: buildChainBody(calls, { level: "terse" }) };
  });
}

const picksArbitrary = fc.array(fc.boolean(), { minLength: 40, maxLength: 40 });
const PROTECTED = ["edit", "tickets_search"];

describe("over generated sessions", () => {
  test("the render is valid, keeps every word of the user, and twice is once", () => {
    let compressed = 0;
    fc.assert(
      fc.property(sessionArbitrary(), picksArbitrary, fc.boolean(), (messages, picks, strip) => {
        const chains = compress(messages, picks, PROTECTED);
        const { rendered, unresolved } = apply(messages, chains, strip);
        expect(unresolved).toEqual([]);
        compressed += rendered.filter((m) => syntheticText(m)).length;
        if (chains.length === 0) expect(rendered).toBe(messages);

        const own = rendered.filter((m) => syntheticText(m) === undefined);
        // A session may end with the chain; then the reply that loses its thinking is behind the last user message.
        const next = user(Number.MAX_SAFE_INTEGER);
        expect(checkTranscript([...rendered, next], [...messages, next], { strippedClosings: strip })).toEqual([]);
        const repaired = repairTranscript(rendered);
        const structure = { chargeOrphans: true, strippedClosings: strip };
        expect(checkTranscript([...repaired, next], [...messages, next], structure)).toEqual([]);

        const kept = (role: string, list: readonly AgentMessage[]) => list.filter((m) => m.role === role);
        for (const role of ["user", "custom", "bashExecution", "compactionSummary"]) {
          expect(kept(role, own)).toEqual(kept(role, messages));
        }
        if (!strip) for (const message of own) expect(messages.includes(message)).toBe(true);

        const again = apply(rendered, chains, strip);
        expect(again.rendered).toBe(rendered);
        expect(again.unresolved).toEqual([]);
      }),
    );
    expect(compressed).toBeGreaterThan(PROPERTY_RUNS / 4);
  });

  test("protected output is always there, text and images, and nothing grows", () => {
    let relocated = 0;
    fc.assert(
      fc.property(sessionArbitrary(), picksArbitrary, (messages, picks) => {
        const chains = compress(messages, picks, PROTECTED);
        const { rendered } = apply(messages, chains);
        const present = new Set(rendered.filter(isToolResult));
        const text = rendered.map((m) => syntheticText(m) ?? "").join("\n");
        const images = rendered
          .flatMap((m) => (m.role === "user" && Array.isArray(m.content) ? m.content : []))
          .filter(isImage);
        // Results that reach no provider are not in the context to begin with.
        for (const message of repairTranscript(messages).filter(isToolResult)) {
          if (!PROTECTED.includes(message.toolName) || present.has(message)) continue;
          relocated += 1;
          expect(text).toContain(`<protected-output tool="${message.toolName}">\n${extractToolResultText(message)}`);
          for (const image of message.content.filter(isImage)) expect(images).toContainEqual(image);
        }
        const size = (list: readonly AgentMessage[]) =>
          list.reduce((sum, m) => sum + ("content" in m && typeof m.content !== "string" ? charsOf(m) : 0), 0);
        if (rendered !== messages) expect(size(rendered)).toBeLessThan(size(messages));
      }),
    );
    expect(relocated).toBeGreaterThan(PROPERTY_RUNS / 12);
  });

  test("messages that are appended change nothing of what was rendered before", () => {
    fc.assert(
      fc.property(sessionArbitrary(), picksArbitrary, fc.nat(), (messages, picks, seed) => {
        const length = seed % (messages.length + 1);
        const chains = compress(messages.slice(0, length), picks, PROTECTED);
        const before = apply(messages.slice(0, length), chains, true).rendered;
        const { rendered, unresolved } = apply(messages, chains, true);
        expect(unresolved).toEqual([]);
        expect(rendered.slice(0, before.length)).toEqual(before);
      }),
    );
  });

  test("a chain that a notice opened is found after a reload too", () => {
    let opened = 0;
    const whole = { brokenTurns: false, reusedIds: false };
    fc.assert(
      fc.property(sessionArbitrary(whole), (messages) => {
        // The first prompt becomes a notice, which opens the first chain.
        const [first, ...rest] = messages;
        if (first?.role !== "user" || rest.length === 0) return;
        const live = [notice(first.timestamp), ...rest];
        const chains = compress(live, Array(40).fill(true), []);
        const reloaded = live.map((m) => (m.role === "custom" ? { ...m, timestamp: m.timestamp + 3 } : m));
        const after = apply(reloaded, chains);
        expect(after.unresolved).toEqual([]);
        expect(outline(after.rendered).filter((name) => name.startsWith("b"))).toEqual(
          outline(apply(live, chains).rendered).filter((name) => name.startsWith("b")),
        );
        if (outline(after.rendered)[1] === "b1") opened += 1;
      }),
    );
    expect(opened).toBeGreaterThan(PROPERTY_RUNS / 12);
  });

  test("ten thousand messages take milliseconds", () => {
    const messages: AgentMessage[] = [];
    for (let n = 0; n < 1000; n++) {
      const at = n * 100;
      messages.push(user(at));
      for (let i = 1; i < 9; i += 2) messages.push(turn(at + i, [`c${n}-${i}`]), result(at + i + 1, `c${n}-${i}`));
      messages.push(reply(at + 50));
    }
    const chains = compress(messages, Array(1000).fill(true), []);
    const options = { stripFinalAssistantThinking: true };
    applyChainCompressions(messages, chains, options);
    expect(cpuMs(() => expect(applyChainCompressions(messages, chains, options)).toHaveLength(3000))).toBeLessThan(300);
  });
});

function charsOf(message: AgentMessage): number {
  if (message.role === "assistant") return JSON.stringify(message.content).length;
  return "content" in message && typeof message.content !== "string" ? contentChars(message.content) : 0;
}

describe("a session of an earlier release", () => {
  // Not part of the repository: it is read where it is at hand beside the checkout.
  const lines = readLines(join(REPOSITORY, "../shared/sessions/legacy/session.jsonl"));

  test.skipIf(lines.length === 0)("its chain entries are found in its messages", () => {
    const messages = lines.flatMap((line): AgentMessage[] => {
      if (line.type === "message") return [line.message];
      if (line.type !== "custom_message") return [];
      return [{ role: "custom", customType: line.customType, content: line.content, display: false, timestamp: 0 }];
    });
    const chains = lines
      .filter((line) => line.customType === "context-prune-chain")
      .map((line): RenderedChain => ({ entry: line.data, body: line.data.toolRefs.join("\n") }));
    const { rendered, unresolved } = apply(messages, chains);
    expect(unresolved).toEqual([]);
    expect(chains.length).toBeGreaterThan(3);
    expect(outline(rendered).filter((name) => name.startsWith("b"))).toEqual(chains.map(({ entry }) => entry.blockId));
    expect(textOfBlock(rendered)).toContain("<protected-output tool=");
  });
});

/** One line of a session file, as far as this test reads it. */
interface Line {
  type: string;
  customType: string;
  content: string;
  message: AgentMessage;
  data: ChainCompressionEntry;
}

function readLines(path: string): Line[] {
  try {
    const text = readFileSync(path, "utf8").trim();
    return text.split("\n").map((line): Line => JSON.parse(line));
  } catch {
    return [];
  }
}
