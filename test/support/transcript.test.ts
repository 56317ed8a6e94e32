import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { sessionArbitrary } from "./generate.ts";
import { checkTranscript, sendableResults } from "./transcript.ts";

const USAGE = {
  input: 10,
  output: 5,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 15,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

type Content = AssistantMessage["content"];

function user(text: string, timestamp: number): AgentMessage {
  return { role: "user", content: [{ type: "text", text }], timestamp };
}

function assistant(content: Content, timestamp: number, extra: Partial<AssistantMessage> = {}): AssistantMessage {
  const stopReason = content.some((block) => block.type === "toolCall") ? "toolUse" : "stop";
  return {
    role: "assistant",
    content,
    api: "a",
    provider: "p",
    model: "m",
    usage: USAGE,
    stopReason,
    timestamp,
    ...extra,
  };
}

function call(id: string, args: ToolCall["arguments"] = { path: "a.ts" }): Content[number] {
  return { type: "toolCall", id, name: "read", arguments: args };
}

function result(
  id: string,
  timestamp: number,
  content: ToolResultMessage["content"] | string = "out",
): ToolResultMessage {
  return {
    role: "toolResult",
    toolCallId: id,
    toolName: "read",
    content: typeof content === "string" ? [{ type: "text", text: content }] : content,
    isError: false,
    timestamp,
  };
}

function notice(timestamp: number): AgentMessage {
  return { role: "custom", customType: "other", content: "a notice", display: true, timestamp };
}

function bash(timestamp: number, excludeFromContext: boolean): AgentMessage {
  return {
    role: "bashExecution",
    command: "ls",
    output: "a",
    exitCode: 0,
    cancelled: false,
    truncated: false,
    timestamp,
    excludeFromContext,
  };
}

const THINKING: Content[number] = { type: "thinking", thinking: "hm", thinkingSignature: "sig" };
const IMAGE = { type: "image", data: "AAAA", mimeType: "image/png" } as const;

/** Two chains: one closed, with thinking, two calls and nested arguments; one still open. */
const SESSION: readonly AgentMessage[] = [
  user("first", 1),
  assistant([THINKING, call("c1"), call("c2", { path: "b.ts", deep: { list: ["x", 1, null], flag: true } })], 2),
  result("c1", 3, "long output ".repeat(20)),
  result("c2", 3, [{ type: "text", text: "text" }, IMAGE]),
  assistant([THINKING, { type: "text", text: "closing" }], 4),
  user("second", 5),
  assistant([call("c3")], 6),
  result("c3", 7),
];

/** The session with the message at `index` replaced, or taken out when there is none to put there. */
function patched(index: number, ...replacement: AgentMessage[]): AgentMessage[] {
  return SESSION.toSpliced(index, 1, ...replacement);
}

/** The message at `index` of the session, changed. */
function changed(index: number, change: Record<string, unknown>): AgentMessage {
  return Object.assign({}, SESSION[index], change);
}

function expectOne(violations: string[], pattern: RegExp): void {
  expect(violations).toHaveLength(1);
  expect(violations[0]).toMatch(pattern);
}

describe("without an original", () => {
  test("a valid session has no violations, and neither has an empty one", () => {
    expect(checkTranscript(SESSION)).toEqual([]);
    expect(checkTranscript([])).toEqual([]);
  });

  test("a call without a result", () => {
    expectOne(checkTranscript(patched(3)), /message 1 .*call 2 .*"c2".*no result/);
  });

  test("a call whose result comes after a user message: neither of them is in order", () => {
    const violations = checkTranscript([assistant([call("c1")], 1), user("steer", 2), result("c1", 3)]);
    expect(violations).toHaveLength(2);
    expect(violations.join()).toMatch(/no result directly after it.*result without its call/);
  });

  test("a call whose result comes after a notice, after another reply, or after an errored one", () => {
    for (const between of [notice(2), bash(2, false), assistant([{ type: "text", text: "t" }], 2)]) {
      expect(checkTranscript([assistant([call("c1")], 1), between, result("c1", 3)])).toHaveLength(2);
    }
    const errored = assistant([], 2, { stopReason: "error" });
    expect(checkTranscript([assistant([call("c1")], 1), errored, result("c1", 3)])).toHaveLength(2);
  });

  test("what never reaches the provider does not stand between a call and its result", () => {
    expect(checkTranscript([assistant([call("c1")], 1), bash(2, true), result("c1", 3)])).toEqual([]);
  });

  test("a result without its call", () => {
    expectOne(checkTranscript(patched(1, assistant([THINKING, call("c1")], 2))), /message 3 .*result without its call/);
  });

  test("a second result for one call", () => {
    expectOne(checkTranscript([assistant([call("c1")], 1), result("c1", 2), result("c1", 3)]), /second result/);
  });

  test("two calls with one id need two results", () => {
    const twice = assistant([call(""), call("")], 1);
    expect(checkTranscript([twice, result("", 2), result("", 2)])).toEqual([]);
    expectOne(checkTranscript([twice, result("", 2)]), /call 2/);
  });

  test("a reused id in a later turn is another call", () => {
    const turn = (at: number) => [assistant([call("c1")], at), result("c1", at + 1)];
    expect(checkTranscript([...turn(1), ...turn(3)])).toEqual([]);
    expect(checkTranscript([...turn(1), assistant([call("c1")], 3)])).toHaveLength(1);
  });

  test("a result for a call of an errored or aborted reply; the calls themselves need none", () => {
    for (const stopReason of ["error", "aborted"] as const) {
      const dropped = assistant([call("c1"), call("c2")], 1, { stopReason });
      expect(checkTranscript([dropped])).toEqual([]);
      expectOne(checkTranscript([dropped, result("c1", 2)]), /errored or aborted/);
    }
  });

  test("empty texts", () => {
    const blank: (ToolResultMessage["content"] | string)[] = [[], "", " \n\t", [IMAGE, { type: "text", text: "" }]];
    for (const content of blank) {
      expectOne(checkTranscript(patched(7, result("c3", 7, content))), /empty text|no content/);
    }
    expect(checkTranscript(patched(7, result("c3", 7, [IMAGE])))).toEqual([]);
    expectOne(checkTranscript([user("", 1)]), /empty text/);
    expectOne(checkTranscript([{ role: "user", content: " ", timestamp: 1 }]), /empty text/);
    expectOne(checkTranscript([{ ...notice(1), content: [] } as AgentMessage]), /no content/);
  });

  test("unknown roles", () => {
    expectOne(
      checkTranscript([{ ...notice(1), role: "developer" } as unknown as AgentMessage]),
      /unknown role "developer"/,
    );
  });

  test("lone surrogates, in texts, arguments and keys", () => {
    const half = "😀".slice(0, 1);
    expectOne(checkTranscript([user(`cut ${half}`, 1)]), /lone surrogate/);
    expectOne(checkTranscript(patched(7, result("c3", 7, half))), /lone surrogate/);
    const broken: ToolCall["arguments"][] = [{ path: half }, { list: [{ deep: half }] }, { [half]: 1 }];
    for (const args of broken) {
      expectOne(checkTranscript([assistant([call("c1", args)], 1), result("c1", 2)]), /lone surrogate/);
    }
    expect(checkTranscript([user("whole 😀", 1)])).toEqual([]);
  });
});

describe("with the original", () => {
  test("the untouched session and a copy of it are valid", () => {
    expect(checkTranscript(SESSION, SESSION)).toEqual([]);
    expect(checkTranscript(structuredClone(SESSION), SESSION)).toEqual([]);
  });

  test("condensed results, shortened arguments and a compressed chain are valid", () => {
    expect(checkTranscript(patched(2, result("c1", 3, "[t1 condensed]")), SESSION)).toEqual([]);
    expect(checkTranscript(patched(3, result("c2", 3, "[t2 condensed]")), SESSION)).toEqual([]);
    const args = { path: "<condensed-args/>", deep: { list: ["", 1, null], flag: true } };
    expect(checkTranscript(patched(1, assistant([THINKING, call("c1"), call("c2", args)], 2)), SESSION)).toEqual([]);
    expect(checkTranscript(SESSION.toSpliced(1, 3, user("<compressed-chain/>", 1)), SESSION)).toEqual([]);
  });

  test("what was wrong before is not charged, what is wrong as well is", () => {
    const original = [user("u", 1), result("gone", 2), assistant([call("c1"), call("c2")], 3), result("c1", 4)];
    expect(checkTranscript(original)).toHaveLength(2);
    expect(checkTranscript(original, original)).toEqual([]);
    expectOne(checkTranscript(original.slice(0, 3), original), /call 1 .*no result/);
    expect(checkTranscript(original.toSpliced(1, 1), original)).toEqual([]);
  });

  test("orphans are charged on request, repaired or not", () => {
    const original = [assistant([call("c1")], 1), notice(2), result("c1", 3)];
    expect(checkTranscript(original, original)).toEqual([]);
    expectOne(checkTranscript(original, original, { chargeOrphans: true }), /result without its call/);
    expect(checkTranscript(original.slice(0, 2), original, { chargeOrphans: true })).toEqual([]);
    const moved = [original[0], original[2], original[1]].filter((message) => message !== undefined);
    expect(checkTranscript(moved, original, { chargeOrphans: true })).toEqual([]);
    const steered = [assistant([call("c1")], 1), user("steer", 2), result("c1", 3)];
    const ahead = [...steered.slice(0, 1), ...steered.slice(2), ...steered.slice(1, 2)];
    expect(checkTranscript(ahead, steered, { chargeOrphans: true })).toEqual([]);
    // The original has the damage once, so twice is once too often, and the second copy is nobody's.
    expect(checkTranscript([...original, result("c1", 3)], original)).toHaveLength(2);
  });

  test("an unknown role, an empty result or a broken text of the original is not charged", () => {
    const original = [
      assistant([call("c1"), call("c2")], 1),
      result("c1", 2, ""),
      result("c2", 2, "😀".slice(0, 1)),
      { ...notice(3), role: "system" } as unknown as AgentMessage,
    ];
    expect(checkTranscript(original)).toHaveLength(3);
    expect(checkTranscript(structuredClone(original), original)).toEqual([]);
    expect(checkTranscript(original.with(1, result("c1", 2, " ")), original)).toEqual([]);
    expect(checkTranscript(original.with(2, result("c2", 2, `cut: ${"😀".slice(0, 1)}`)), original)).toEqual([]);
    expectOne(checkTranscript(original.toSpliced(2, 1, result("c2", 2, "")), original), /empty text/);
    expectOne(checkTranscript(original.with(1, result("c1", 2, "😀".slice(1))), original), /lone surrogate/);
  });

  test("a result that became empty", () => {
    expectOne(checkTranscript(patched(2, result("c1", 3, [])), SESSION), /no content/);
    expectOne(checkTranscript(patched(3, result("c2", 3, " ")), SESSION), /empty text/);
  });

  test("a dropped result, and a dropped assistant message", () => {
    expectOne(checkTranscript(patched(2), SESSION), /call 1 .*no result/);
    expect(checkTranscript(patched(1), SESSION)).toHaveLength(2);
  });

  test("user messages: missing, changed, out of order", () => {
    expectOne(checkTranscript(patched(0), SESSION), /original message 0 \(user\): missing/);
    expectOne(checkTranscript(patched(0, user("First", 1)), SESSION), /original message 0/);
    expectOne(checkTranscript(patched(0, Object.assign(user("first", 1), { note: 1 })), SESSION), /original message 0/);
    const original = [user("a", 1), user("b", 2)];
    expectOne(checkTranscript(original.toReversed(), original), /original message 0/);
    expect(checkTranscript([...patched(0), user("first", 1)], SESSION)).not.toEqual([]);
  });

  test("synthetic user messages say something, in well-formed Unicode", () => {
    expectOne(checkTranscript([...SESSION, user("", 99)], SESSION), /empty text/);
    expectOne(checkTranscript([...SESSION, user("😀".slice(0, 1), 99)], SESSION), /lone surrogate/);
  });

  test("thinking blocks and their signatures", () => {
    const calls = [call("c1"), call("c2", { path: "b.ts", deep: { list: ["x", 1, null], flag: true } })];
    for (const thinking of [
      { ...THINKING, thinking: "other" },
      { ...THINKING, thinkingSignature: "other" },
      { type: "thinking", thinking: "hm" },
      { ...THINKING, redacted: true },
    ]) {
      const message = assistant([thinking as Content[number], ...calls], 2);
      expectOne(checkTranscript(patched(1, message), SESSION), /block 1 \(thinking\) changed/);
    }
    expectOne(checkTranscript(patched(1, assistant(calls, 2)), SESSION), /2 of its 3 blocks/);
    const asText = assistant([{ type: "text", text: "hm" }, ...calls], 2);
    expectOne(checkTranscript(patched(1, asText), SESSION), /was thinking and became text/);
  });

  test("a closing reply may lose its thinking where that is said, and only there", () => {
    const stripped = assistant([{ type: "text", text: "closing" }], 4);
    expectOne(checkTranscript(patched(4, stripped), SESSION), /1 of its 2 blocks/);
    expect(checkTranscript(patched(4, stripped), SESSION, { strippedClosings: true })).toEqual([]);
    expectOne(
      checkTranscript(SESSION.toSpliced(4, 4, stripped), SESSION.slice(0, 5), { strippedClosings: true }),
      /1 of its 2 blocks/,
    );
    const calls = assistant([call("c1"), call("c2", { path: "b.ts", deep: { list: ["x", 1, null], flag: true } })], 2);
    expectOne(checkTranscript(patched(1, calls), SESSION, { strippedClosings: true }), /2 of its 3 blocks/);
    const silent = patched(4, assistant([THINKING], 4));
    expectOne(
      checkTranscript(silent.with(4, assistant([], 4)), silent, { strippedClosings: true }),
      /nothing but thinking/,
    );
  });

  test("an assistant message is kept whole", () => {
    expectOne(
      checkTranscript(patched(4, assistant([THINKING, { type: "text", text: "else" }], 4)), SESSION),
      /\(text\) changed/,
    );
    expectOne(checkTranscript(patched(4, changed(4, { stopReason: "length" })), SESSION), /"stopReason" changed/);
    expectOne(checkTranscript(patched(4, changed(4, { note: 1 })), SESSION), /"note" was added/);
    const withoutCall = [...patched(1, assistant([THINKING, call("c1")], 2)).toSpliced(3, 1)];
    expectOne(checkTranscript(withoutCall, SESSION), /2 of its 3 blocks/);
  });

  test("arguments keep keys, types, array lengths and all values but strings", () => {
    const cases: [ToolCall["arguments"], RegExp][] = [
      [{ deep: { list: ["x", 1, null], flag: true } }, /arguments\.path is gone/],
      [{ path: "", more: 1, deep: { list: ["x", 1, null], flag: true } }, /arguments\.more was added/],
      [{ path: 1, deep: { list: ["x", 1, null], flag: true } }, /path was string and became number/],
      [{ path: "", deep: "…" }, /deep was object and became string/],
      [{ path: "", deep: { list: ["x", 1], flag: true } }, /list had 3 elements and has 2/],
      [{ path: "", deep: { list: ["x", 1, "null"], flag: true } }, /list\[2\] was null and became string/],
      [{ path: "", deep: { list: {}, flag: true } }, /list was array and became object/],
      [{ path: "", deep: { list: ["x", 2, null], flag: true } }, /list\[1\] changed its value/],
      [{ path: "", deep: { list: ["x", 1, null], flag: false } }, /flag changed its value/],
    ];
    for (const [args, pattern] of cases) {
      const message = assistant([THINKING, call("c1"), call("c2", args)], 2);
      expectOne(checkTranscript(patched(1, message), SESSION), pattern);
    }
  });

  test("fields of a call that nobody knows survive", () => {
    const signed = Object.assign(call("c1"), { thoughtSignature: "sig", vendor: { a: 1 } });
    const original = [assistant([signed], 1), result("c1", 2)];
    expect(checkTranscript(structuredClone(original), original)).toEqual([]);
    const violations = checkTranscript([assistant([call("c1")], 1), result("c1", 2)], original);
    expect(violations.join()).toMatch(/"thoughtSignature" is gone.*"vendor" is gone/);
    const renamed = assistant([Object.assign({}, signed, { id: "c9" })], 1);
    expect(checkTranscript([renamed, result("c1", 2)], original).join()).toMatch(/field "id" changed/);
  });

  test("fields of a result and of the blocks that stay survive", () => {
    const rich = [{ type: "text" as const, text: "out", note: 1 }, IMAGE];
    const original = [assistant([call("c1")], 1), { ...result("c1", 2, rich), details: { a: 1 } }];
    const first = original.slice(0, 1);
    const check = (message: ToolResultMessage) => checkTranscript([...first, message], original);
    expect(check({ ...result("c1", 2, "stub"), details: { a: 1 } })).toEqual([]);
    expectOne(check(result("c1", 2, "stub")), /"details" is gone/);
    expectOne(check({ ...result("c1", 2, "stub"), details: { a: 1 }, isError: true }), /"isError" changed/);
    expectOne(check({ ...result("c1", 2, "out"), details: { a: 1 } }), /block 1: kept, but not with all/);
    const other = { ...IMAGE, data: "BBBB" };
    expectOne(check({ ...result("c1", 2, [other]), details: { a: 1 } }), /an image that the tool never gave/);
    expectOne(check({ ...result("c1", 2, [{ ...IMAGE, mimeType: "image/gif" }]), details: { a: 1 } }), /kept, but not/);
  });

  test("messages that the original does not have, or that come twice or out of order", () => {
    const invented = [assistant([call("c9")], 90), result("c9", 91)];
    const violations = checkTranscript([...SESSION, ...invented], SESSION);
    expect(violations).toHaveLength(2);
    expect(violations.join()).toMatch(/stands nowhere/);
    const turn = SESSION.slice(6);
    expect(checkTranscript([...SESSION, ...turn], SESSION).join()).toMatch(/stands nowhere/);
    const swapped = [...SESSION.slice(0, 5), ...SESSION.slice(6), ...SESSION.slice(5, 6)];
    expectOne(checkTranscript(swapped, SESSION), /original message 5 \(user\).*out of order/);
    const late = [...SESSION.slice(0, 4), ...SESSION.slice(5), ...SESSION.slice(4, 5)];
    expectOne(checkTranscript(late, SESSION), /message 7 \(assistant\): out of order/);
  });

  test("notices of other extensions may go or move, but not change", () => {
    const original = [user("u", 1), notice(2), notice(3)];
    expect(checkTranscript(original.slice(0, 1), original)).toEqual([]);
    expectOne(checkTranscript(original.with(1, { ...notice(2), content: "x" } as AgentMessage), original), /changed/);
  });

  test("replies that share a time are told apart by what they say", () => {
    const original = ["a", "b"].map((text) => assistant([{ type: "text", text }], 1));
    expect(checkTranscript(original.slice(1), original)).toEqual([]);
  });

  test("parallel results may share id and time: each stands for itself", () => {
    const original = [assistant([call(""), call("")], 1), result("", 2, "a"), result("", 2, "b")];
    expect(checkTranscript(original.with(2, result("", 2, "stub")), original)).toEqual([]);
    expectOne(checkTranscript(original.slice(0, 2), original), /call 2/);
  });
});

test("a result may be sent where it is the first answer to a call of the reply before it", () => {
  const first = result("a", 2);
  const second = result("b", 4);
  expect(
    sendableResults([
      result("a", 0),
      assistant([call("a"), call("b")], 1),
      first,
      notice(3),
      second,
      result("a", 5),
      assistant([call("c")], 6, { stopReason: "aborted" }),
      result("c", 7),
      result("b", 8),
    ]),
  ).toEqual([first, second]);
});

describe("on generated sessions", () => {
  const damaged = (damage: (session: AgentMessage[], index: number) => AgentMessage[] | undefined) =>
    fc.assert(
      fc.property(sessionArbitrary({ maxOutputChars: 300 }), fc.nat(), (session, pick) => {
        const render = damage(session, pick % session.length);
        if (render) expect(checkTranscript(render, session)).not.toEqual([]);
      }),
    );

  test("a result that is gone is missed, unless it was an orphan", () => {
    damaged((session, index) => {
      const render = session.toSpliced(index, 1);
      const wasOrphan = checkTranscript(render).length < checkTranscript(session).length;
      return session[index]?.role === "toolResult" && !wasOrphan ? render : undefined;
    });
  });

  test("a reply whose calls were answered is missed when it goes alone", () => {
    damaged((session, index) => {
      const message = session[index];
      const answered = session[index + 1]?.role === "toolResult";
      const lost = message?.role === "assistant" && message.stopReason === "toolUse" && answered;
      return lost ? session.toSpliced(index, 1) : undefined;
    });
  });

  test("any other change of a message is found out", () => {
    damaged((session, index) => {
      const message = session[index];
      return message && session.with(index, Object.assign({}, message, { note: 1 }));
    });
  });

  test("a message that comes twice is found out", () => {
    damaged((session, index) => {
      const message = session[index];
      // A second copy of the user's words is like a text of the extension's own: allowed.
      return message && message.role !== "user" ? session.toSpliced(index, 0, message) : undefined;
    });
  });
});
