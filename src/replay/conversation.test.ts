import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { compactionInputTokens, conversationOf, firstKeptEntry, isCompactionDue } from "./conversation.ts";

const TIME = "2026-01-01T00:00:00.000Z";

function user(id: string, text: string): SessionEntry {
  return {
    type: "message",
    id,
    parentId: null,
    timestamp: TIME,
    message: { role: "user", content: text, timestamp: 1 },
  };
}

function result(id: string, chars: number): SessionEntry {
  const message: AgentMessage = {
    role: "toolResult",
    toolCallId: id,
    toolName: "read",
    content: [{ type: "text", text: "x".repeat(chars) }],
    isError: false,
    timestamp: 2,
  };
  return { type: "message", id, parentId: null, timestamp: TIME, message };
}

function compaction(id: string, firstKeptEntryId: string): SessionEntry {
  const rest = { parentId: null, timestamp: TIME, summary: `summary ${id}`, tokensBefore: 1 };
  return { type: "compaction", id, firstKeptEntryId, ...rest };
}

function textsOf(branch: readonly SessionEntry[]): string[] {
  return conversationOf(branch).map((message) =>
    message.role === "compactionSummary" ? message.summary : "content" in message ? String(message.content) : "",
  );
}

describe("the conversation of a branch", () => {
  test("is its messages, and notices of extensions", () => {
    const notice: SessionEntry = {
      type: "custom_message",
      id: "n",
      parentId: null,
      timestamp: TIME,
      customType: "x",
      content: "note",
      display: true,
    };
    const custom: SessionEntry = { type: "custom", id: "c", parentId: null, timestamp: TIME, customType: "x", data: 1 };
    expect(textsOf([user("1", "a"), notice, custom, user("2", "b")])).toEqual(["a", "note", "b"]);
  });

  test("begins with the last compaction and what it kept", () => {
    const branch = [user("1", "a"), user("2", "b"), compaction("3", "2"), user("4", "c")];
    expect(textsOf(branch)).toEqual(["summary 3", "b", "c"]);
    expect(textsOf([...branch, compaction("5", "4"), user("6", "d")])).toEqual(["summary 5", "c", "d"]);
    expect(textsOf([user("1", "a"), compaction("2", "gone"), user("3", "b")])).toEqual(["summary 2", "b"]);
  });

  test("leaves out the newer host's system messages", () => {
    const system = user("s", "you are");
    const entry = {
      ...system,
      message: { role: "system", content: "you are", timestamp: 0 },
    } as unknown as SessionEntry;
    expect(textsOf([entry, user("1", "a")])).toEqual(["a"]);
  });
});

describe("the host's compaction", () => {
  test("is due once a context leaves less than the reserve", () => {
    expect(isCompactionDue(183_616, 200_000)).toBe(false);
    expect(isCompactionDue(183_617, 200_000)).toBe(true);
  });

  test("keeps about 20,000 tokens and begins with no result", () => {
    const branch = [user("1", "a"), user("2", "b"), result("3", 60_000), user("4", "c"), result("5", 40_000)];
    // From the end: 40,000 and 60,000 characters are more than 20,000 tokens, and the cut moves behind the result.
    expect(firstKeptEntry(branch)?.id).toBe("4");
    expect(firstKeptEntry([user("1", "a"), result("2", 10_000)])).toBeUndefined();
  });

  test("does not reach behind what the last one kept", () => {
    const branch = [user("1", "a"), user("2", "b"), compaction("3", "2"), result("4", 90_000), user("5", "c")];
    expect(firstKeptEntry(branch)?.id).toBe("5");
  });

  test("shows results to the model up to 2,000 characters", () => {
    const tokens = (chars: number) => compactionInputTokens(conversationOf([result("1", chars)]));
    expect(tokens(50_000)).toBe(tokens(2_000));
    expect(tokens(1_000)).toBeLessThan(tokens(2_000));
  });
});
