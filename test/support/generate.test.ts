import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { ToolResultMessage } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { extractToolResultText, isAssistant, isToolResult, toolCallsOf } from "../../src/transcript/messages.ts";
import { deepFreeze, replaySteps, type SessionOptions, sessionArbitrary } from "./generate.ts";
import { checkTranscript } from "./transcript.ts";

function sample(count: number, options?: SessionOptions): AgentMessage[][] {
  return fc.sample(sessionArbitrary(options), { numRuns: count, seed: 7 });
}

function some(
  sessions: AgentMessage[][],
  predicate: (message: AgentMessage, index: number, all: AgentMessage[]) => boolean,
) {
  return sessions.some((session) => session.some(predicate));
}

function resultsOf(session: readonly AgentMessage[]): ToolResultMessage[] {
  return session.filter(isToolResult);
}

describe("sessionArbitrary", () => {
  const sessions = sample(400);

  test("holds every shape that it promises", () => {
    const shapes: Record<string, (message: AgentMessage, index: number, all: AgentMessage[]) => boolean> = {
      "parallel calls": (m) => isAssistant(m) && toolCallsOf(m).length === 4,
      "an errored call": (m) => isToolResult(m) && m.isError,
      "an errored reply with calls": (m) => isAssistant(m) && m.stopReason === "error" && toolCallsOf(m).length > 0,
      "an errored reply without content": (m) => isAssistant(m) && m.stopReason === "error" && m.content.length === 0,
      "an aborted reply with calls": (m) => isAssistant(m) && m.stopReason === "aborted" && toolCallsOf(m).length > 0,
      "a reply that ended by length": (m) => isAssistant(m) && m.stopReason === "length" && toolCallsOf(m).length === 0,
      "a closing reply": (m) => isAssistant(m) && m.stopReason === "stop",
      "an interrupted turn": (m, index, all) =>
        isAssistant(m) && m.stopReason === "toolUse" && all[index + 1]?.role !== "toolResult",
      "a result of an aborted reply": (m, index, all) => {
        const before = all[index - 1];
        return isToolResult(m) && before !== undefined && isAssistant(before) && before.stopReason === "aborted";
      },
      "a steering message": (m, index, all) => m.role === "user" && all[index - 1]?.role === "toolResult",
      "a notice between call and result": (m, index, all) =>
        m.role === "custom" && all[index + 1]?.role === "toolResult",
      "a notice after a reply": (m, index, all) => m.role === "custom" && all[index - 1]?.role === "assistant",
      "a command of the user": (m) => m.role === "bashExecution" && m.excludeFromContext !== true,
      "a hidden command of the user": (m) => m.role === "bashExecution" && m.excludeFromContext === true,
      "a compaction": (m, index) => m.role === "compactionSummary" && index === 0,
      "an empty id": (m) => isToolResult(m) && m.toolCallId === "",
      "an image-only result": (m) => isToolResult(m) && m.content.length === 1 && m.content[0]?.type === "image",
      "text with images": (m) => isToolResult(m) && m.content.length === 3 && m.content[1]?.type === "image",
      "an empty result": (m) => isToolResult(m) && m.content.length === 0,
      "a blank result": (m) => isToolResult(m) && m.content.length === 1 && extractToolResultText(m).trim() === "",
      "two text blocks": (m) => isToolResult(m) && m.content.length === 2 && m.content.every((b) => b.type === "text"),
      "a large output": (m) => isToolResult(m) && extractToolResultText(m).length > 8000,
      "a large argument": (m) => isAssistant(m) && JSON.stringify(m.content).length > 8000,
      "thinking with a signature": (m) => isAssistant(m) && m.content.some((b) => "thinkingSignature" in b),
      "redacted thinking": (m) => isAssistant(m) && m.content.some((b) => "redacted" in b),
      "a signed call": (m) => isAssistant(m) && m.content.some((b) => "thoughtSignature" in b),
      "an unknown field on a call": (m) => isAssistant(m) && m.content.some((b) => "vendor" in b),
      "an unknown field on a result's block": (m) => isToolResult(m) && m.content.some((b) => "annotations" in b),
      "an open chain": (m, index, all) => index === all.length - 1 && isToolResult(m),
      "a prompt as a string": (m) => m.role === "user" && typeof m.content === "string",
      "an image in a prompt": (m) => m.role === "user" && m.content.length === 2,
      "a second model": (m) => isAssistant(m) && m.model === "other-2",
      "combining characters": (m) => isToolResult(m) && extractToolResultText(m).includes("e\u0301"),
      emoji: (m) => isToolResult(m) && extractToolResultText(m).includes("👩‍👩‍👧‍👦"),
    };
    const missing = Object.entries(shapes).flatMap(([name, holds]) => (some(sessions, holds) ? [] : [name]));
    expect(missing).toEqual([]);
  });

  test("uses ids again in later turns, and repeats outputs of a tool", () => {
    const idsOfTurns = sessions.map((session) =>
      session.filter(isAssistant).map((m) => toolCallsOf(m).map((c) => c.id)),
    );
    const reuses = idsOfTurns.filter((turns) =>
      turns.some((ids, turn) => ids.some((id) => id !== "" && turns.slice(0, turn).flat().includes(id))),
    );
    expect(reuses.length).toBeGreaterThan(10);
    const repeats = sessions.filter((session) => {
      const texts = resultsOf(session).map((result) => `${result.toolName}\n${extractToolResultText(result)}`);
      return texts.some((text, index) => text.length > 1000 && texts.indexOf(text) < index);
    });
    expect(repeats.length).toBeGreaterThan(40);
  });

  test("is valid but for the damage that it means to hold", () => {
    const damage = /no result directly after it|without its call|errored or aborted|empty text|no content/;
    for (const session of sessions) {
      expect(checkTranscript(session, session)).toEqual([]);
      expect(checkTranscript(session).filter((violation) => !damage.test(violation))).toEqual([]);
    }
    const whole = sample(200, { brokenTurns: false, notices: false, reusedIds: false });
    for (const session of whole) {
      expect(checkTranscript(session).filter((violation) => !/empty text|no content/.test(violation))).toEqual([]);
    }
    const healthy = sessions.filter((session) => checkTranscript(session).length === 0);
    expect(healthy.length).toBeGreaterThan(sessions.length / 8);
  });

  test("time moves on, and stands still only among the results of one turn", () => {
    for (const session of sessions) {
      for (const [index, message] of session.entries()) {
        const before = session[index - 1];
        if (!before) continue;
        if (isToolResult(message) && isToolResult(before)) {
          expect(message.timestamp).toBeGreaterThanOrEqual(before.timestamp);
        } else {
          expect(message.timestamp).toBeGreaterThan(before.timestamp);
        }
      }
    }
    const shared = some(
      sessions,
      (m, index, all) =>
        isToolResult(m) && all[index - 1]?.role === "toolResult" && all[index - 1]?.timestamp === m.timestamp,
    );
    expect(shared).toBe(true);
  });

  test("survives the session file: a copy through JSON is the same", () => {
    for (const session of sessions) expect(JSON.parse(JSON.stringify(session))).toEqual(session);
  });

  test("is frozen to the core, and small", () => {
    for (const session of sessions) {
      expect(() => session.pop()).toThrow();
      const call = session.filter(isAssistant).flatMap(toolCallsOf)[0];
      if (call) expect(() => Object.assign(call.arguments, { path: "x" })).toThrow();
    }
    const chars = sessions.map((session) => JSON.stringify(session).length);
    expect(chars.reduce((sum, length) => sum + length, 0) / chars.length).toBeLessThan(200_000);
  });

  test("leaves out what it is told to", () => {
    const options = {
      brokenTurns: false,
      notices: false,
      reusedIds: false,
      images: false,
      maxPrompts: 2,
      maxOutputChars: 500,
    };
    const plain = sample(200, options);
    expect(some(plain, (m) => m.role === "custom")).toBe(false);
    expect(some(plain, (m) => isAssistant(m) && ["error", "aborted"].includes(m.stopReason))).toBe(false);
    expect(some(plain, (m) => JSON.stringify(m).includes('"image"'))).toBe(false);
    expect(
      some(plain, (m) => isToolResult(m) && m.content.some((b) => b.type === "text" && b.text.length > 2100)),
    ).toBe(false);
    for (const session of plain) {
      const ids = session.filter(isAssistant).flatMap((m) => toolCallsOf(m).map((c) => c.id));
      expect(new Set(ids).size).toBe(ids.length);
    }
  });
});

describe("replaySteps", () => {
  test("gives what stood before each assistant message, then the whole session", () => {
    fc.assert(
      fc.property(sessionArbitrary({ maxOutputChars: 200 }), (session) => {
        const steps = replaySteps(session);
        expect(steps).toHaveLength(session.filter(isAssistant).length + 1);
        expect(steps.at(-1)).toEqual(session);
        for (const step of steps.slice(0, -1)) {
          const next = session[step.length];
          expect(next && isAssistant(next)).toBe(true);
          expect(step.every((message, index) => message === session[index])).toBe(true);
        }
      }),
    );
  });

  test("gives one empty request for an empty session", () => {
    expect(replaySteps([])).toEqual([[]]);
  });
});

describe("deepFreeze", () => {
  test("freezes what is held in what is held, and gives the value back", () => {
    const value = { list: [{ deep: 1 }], nothing: null, text: "t" };
    expect(deepFreeze(value)).toBe(value);
    expect(Object.isFrozen(value) && Object.isFrozen(value.list) && Object.isFrozen(value.list[0])).toBe(true);
    expect(deepFreeze("text")).toBe("text");
  });
});
