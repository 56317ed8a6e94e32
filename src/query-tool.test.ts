import { describe, expect, test } from "bun:test";
import type { ToolCall } from "@mariozechner/pi-ai";
import type { ExtensionContext } from "@mariozechner/pi-coding-agent";
import { Value } from "typebox/value";
import { finishedCall } from "../test/support/calls.ts";
import { agentDirWith, EntryTree, SimulatedSession } from "../test/support/simulated-session.ts";
import { createQueryTool } from "./query-tool.ts";
import { CUSTOM_TYPE_INDEX, QUERY_TOOL_NAME, type ResultContent, type ToolCallRecord } from "./types.ts";

const AGENT_DIR = agentDirWith({ summarizerModel: "none" });
const IMAGE = { type: "image" as const, data: "AAAA", mimeType: "image/png" };

interface Query {
  toolCallIds: string[];
  offset?: number;
  limit?: number;
  args?: boolean;
  pattern?: string;
}

/** A session with condensed results, and the tool that gives them back. */
class Session {
  readonly tree = new EntryTree();
  private refs = 0;

  /** A condensed result; its ref counts up from t1. */
  condensed(resultText: string, change: Partial<ToolCallRecord> = {}, content?: ResultContent): this {
    const shortId = `t${++this.refs}`;
    const toolCallId = `c${this.refs}`;
    const base = { toolCallId, toolName: "read", args: { path: `${shortId}.ts` }, isError: false, turnIndex: 0 };
    const record = { ...base, timestamp: 1, resultTimestamp: this.refs, resultText, ...change };
    const kept = content ?? [{ type: "text" as const, text: resultText }];
    const { toolName, isError, resultTimestamp } = record;
    const message = { role: "toolResult" as const, toolName, isError, content: kept, timestamp: resultTimestamp };
    this.tree.appendMessage({ ...message, toolCallId: record.toolCallId });
    const ref = { shortId, toolCallId: record.toolCallId, resultTimestamp };
    this.tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [record], refs: [ref] });
    return this;
  }

  async query(params: Query) {
    const session = new SimulatedSession(AGENT_DIR, this.tree);
    const tool = createQueryTool(() => session.state());
    expect(Value.Check(tool.parameters, params)).toBe(true);
    return tool.execute("call", params, undefined, undefined, {} as ExtensionContext);
  }

  /** The blocks of an answer, images by their data. */
  async blocks(params: Query): Promise<string[]> {
    const { content } = await this.query(params);
    return content.map((block) => (block.type === "text" ? block.text : `image ${block.data}`));
  }
}

describe("an answer", () => {
  test("names call and size, and holds the original in a block of its own", async () => {
    const text = "first\r\n\tsecond\n";
    expect(await new Session().condensed(text).blocks({ toolCallIds: ["t1"] })).toEqual([
      "[t1: read t1.ts; characters 0 to 15 of 15]",
      text,
    ]);
  });

  test("shows that the original was an error", async () => {
    const [title] = await new Session().condensed("boom", { isError: true }).blocks({ toolCallIds: ["t1"] });
    expect(title).toContain("t1: read t1.ts, error;");
  });

  test("brings images back as images", async () => {
    const session = new Session().condensed("text", { resultImages: 1 }, [{ type: "text", text: "text" }, IMAGE]);
    expect(await session.blocks({ toolCallIds: ["t1"] })).toEqual([expect.any(String), "text", "image AAAA"]);
  });

  test("holds no empty text where the original had none", async () => {
    const session = new Session().condensed("", { resultImages: 1 }, [IMAGE]);
    expect(await session.blocks({ toolCallIds: ["t1"] })).toEqual([expect.stringContaining("of 0]"), "image AAAA"]);
  });

  test("gives several outputs in the order asked for, each with its title", async () => {
    const session = new Session().condensed("one").condensed("two");
    expect(await session.blocks({ toolCallIds: ["t2", "t1", "t2"] })).toEqual([
      expect.stringMatching(/^\[t2: read t2\.ts;/),
      "two",
      expect.stringMatching(/^\[t1: read t1\.ts;/),
      "one",
    ]);
  });

  test("gives every occurrence of an id that was used again, each labelled", async () => {
    const session = new Session()
      .condensed("one", { toolCallId: "same" })
      .condensed("two", { toolCallId: "same", args: { path: "b.ts" } });
    expect(await session.blocks({ toolCallIds: ["same"] })).toEqual([
      expect.stringMatching(/^\[t1: read t1\.ts;/),
      "one",
      expect.stringMatching(/^\[t2: read b\.ts;/),
      "two",
    ]);
  });

  test("can be asked for again, and leaves no entry behind", async () => {
    const session = new Session().condensed("one");
    const before = session.tree.getEntries().length;
    expect(await session.blocks({ toolCallIds: ["t1"] })).toEqual(await session.blocks({ toolCallIds: ["t1"] }));
    expect(session.tree.getEntries()).toHaveLength(before);
  });

  test("tells whoever shows it which refs it holds", async () => {
    const { details } = await new Session()
      .condensed("one")
      .condensed("two")
      .query({ toolCallIds: ["t2", "c1"] });
    expect(details).toEqual({ refs: ["t2", "t1"] });
  });
});

describe("pages", () => {
  const text = Array.from({ length: 7000 }, (_, i) => `line number ${i} 😀`).join("\n");

  test("name the next offset, and join to the original", async () => {
    const session = new Session().condensed(text);
    let joined = "";
    let offset: number | undefined = 0;
    while (offset !== undefined) {
      const [title = "", body = ""]: string[] = await session.blocks({ toolCallIds: ["t1"], offset });
      expect(title).toContain(`of ${text.length.toLocaleString("en-US")}`);
      joined += body;
      const next = /; next page: offset (\d+)\]$/.exec(title);
      offset = next ? Number(next[1]) : undefined;
    }
    expect(joined).toBe(text);
  });

  test("hold images on the first one alone", async () => {
    const session = new Session().condensed(text, { resultImages: 1 }, [{ type: "text", text }, IMAGE]);
    expect(await session.blocks({ toolCallIds: ["t1"] })).toContain("image AAAA");
    expect(await session.blocks({ toolCallIds: ["t1"], offset: 5 })).not.toContain("image AAAA");
  });

  test("are as long as asked for", async () => {
    const session = new Session().condensed(text);
    const [title, body] = await session.blocks({ toolCallIds: ["t1"], offset: 5, limit: 6 });
    expect(body).toBe("number");
    expect(title).toContain("characters 5 to 11 of");
  });
});

describe("a pattern", () => {
  test("gives the lines that match, their numbers and the size of the whole", async () => {
    const session = new Session().condensed("alpha\nbeta\ngamma beta\n");
    expect(await session.blocks({ toolCallIds: ["t1"], pattern: "beta$" })).toEqual([
      "[t1: read t1.ts; 22 characters in all; lines that match beta$: 2]\n2: beta\n3: gamma beta",
    ]);
  });

  test("without a match says so", async () => {
    const session = new Session().condensed("alpha");
    const [answer] = await session.blocks({ toolCallIds: ["t1"], pattern: "delta" });
    expect(answer).toBe("[t1: read t1.ts; 5 characters in all; lines that match delta: 0]");
  });

  test("with more matches than a page holds tells both numbers", async () => {
    const session = new Session().condensed(Array(5000).fill("hit").join("\n"));
    const [answer] = await session.blocks({ toolCallIds: ["t1"], pattern: "hit" });
    expect(answer).toContain("lines that match hit: 5,000, the first 2,000 shown]");
  });
});

describe("arguments", () => {
  test("that were condensed come back as the text that stood there, and the output does not", async () => {
    const content = "line of the file\n".repeat(100);
    const session = new Session().condensed("written", { toolName: "write", args: { path: "a.ts", content } });
    expect(await session.blocks({ toolCallIds: ["t1"], args: true })).toEqual([
      expect.stringMatching(/^\[t1: write a\.ts, arguments; characters 0 to 1,700 of 1,700\]$/),
      content,
    ]);
  });

  const oldText = `first\n${"o".repeat(500)}\nlast`;
  const edits = { path: "a.ts", edits: [{ oldText, newText: "n".repeat(500), count: 2 }] };
  const edited = () => new Session().condensed("edited", { toolName: "edit", args: edits });

  test("with several long texts: the short ones as JSON, then each long one as the text that it is", async () => {
    const [, json = "", title, text, ...rest] = await edited().blocks({ toolCallIds: ["t1"], args: true });
    expect(JSON.parse(json)).toEqual({
      path: "a.ts",
      edits: [{ oldText: "(511 characters)", newText: "(500 characters)", count: 2 }],
    });
    expect(title).toBe("[t1: edit a.ts (1 edit), arguments edits[0].oldText; characters 0 to 511 of 511]");
    expect(text).toBe(oldText);
    expect(rest.at(-1)).toBe("n".repeat(500));
  });

  test("are searched line by line, each text by its own numbers", async () => {
    const found = await edited().blocks({ toolCallIds: ["t1"], args: true, pattern: "^last$" });
    expect(found).toHaveLength(3);
    expect(found[1]).toEndWith(
      "arguments edits[0].oldText; 511 characters in all; lines that match ^last$: 1]\n3: last",
    );
  });
});

describe("names and values as models write them", () => {
  const two = () => new Session().condensed("one").condensed("two");
  const prepare = (args: unknown) => createQueryTool(() => undefined).prepareArguments?.(args);

  test.each([[["t1", "T1"]], [["t1", "c1"]], [["`t1`", "t1."]]])("%p is one output", async (toolCallIds) => {
    expect(await two().blocks({ toolCallIds })).toEqual([expect.any(String), "one"]);
  });

  test.each(["t1, t2", "T1 t2", "[t1, t2]"])("%p names two", async (names) => {
    const blocks = await two().blocks({ toolCallIds: [names] });
    expect(blocks.filter((_, i) => i % 2 === 1)).toEqual(["one", "two"]);
    expect(prepare({ toolCallIds: names })).toEqual({ toolCallIds: [names] });
  });

  test("an id with a comma in it stays one", async () => {
    const session = new Session().condensed("one", { toolCallId: "call,7" });
    expect(await session.blocks({ toolCallIds: ["call,7"] })).toEqual([expect.any(String), "one"]);
  });

  test("null and nothing are no value", () => {
    const given = { toolCallIds: ["t1"], pattern: null, offset: null, limit: 5, args: null };
    expect(prepare(given)).toEqual({ toolCallIds: ["t1"], limit: 5 });
    expect(prepare({ toolCallIds: ["t1"], pattern: "" })).toEqual({ toolCallIds: ["t1"] });
  });

  test.each([undefined, null, "t1", 7, { refs: ["t1"] }])(
    "what is none of the parameters is left to be refused: %p",
    (given) => {
      const tool = createQueryTool(() => undefined);
      expect(Value.Check(tool.parameters, tool.prepareArguments?.(given))).toBe(false);
    },
  );
});

describe("an output whose file was changed since", () => {
  test("says by which calls, as of now", async () => {
    const tree = new EntryTree();
    const calls: [name: string, args: ToolCall["arguments"], text: string][] = [
      ["read", { path: "/home/me/a.ts" }, "old text"],
      ["edit", { path: "a.ts", edits: [{ oldText: "old", newText: "new" }] }, "ok"],
      ["read", { path: "b.ts" }, "other"],
      ["write", { path: "/home/me/a.ts", content: "newer" }, "ok"],
    ];
    for (const [i, [name, args, text]] of calls.entries()) {
      const id = `c${i + 1}`;
      for (const message of finishedCall(id, [name, args, text], i + 1)) tree.appendMessage(message);
      if (name === "write") continue;
      const base = { toolCallId: id, toolName: name, args, resultText: text, isError: false, turnIndex: 0 };
      const record = { ...base, timestamp: 1, resultTimestamp: i + 1 };
      const refs = [{ shortId: `t${i + 1}`, toolCallId: id, resultTimestamp: i + 1 }];
      tree.appendCustom(CUSTOM_TYPE_INDEX, { toolCalls: [record], refs });
    }
    const session = new SimulatedSession(AGENT_DIR, tree);
    const tool = createQueryTool(() => session.state());
    const asked = await tool.execute(
      "call",
      { toolCallIds: ["t1", "t3"] },
      undefined,
      undefined,
      {} as ExtensionContext,
    );
    const titles = asked.content.flatMap((block) =>
      block.type === "text" && block.text.startsWith("[") ? [block.text] : [],
    );
    expect(titles).toEqual([
      "[t1: read /home/me/a.ts; outdated: edited since by t2, 1 other call; characters 0 to 8 of 8]",
      "[t3: read b.ts; characters 0 to 5 of 5]",
    ]);
  });
});

describe("what cannot be found", () => {
  test("alone is an error that says why", async () => {
    const asked = new Session().condensed("one").query({ toolCallIds: ["t9"] });
    await expect(asked).rejects.toThrow('Unknown ref "t9"');
  });

  test("beside what can be found is told behind it", async () => {
    const blocks = await new Session().condensed("one").blocks({ toolCallIds: ["t9", "t1"] });
    expect(blocks).toEqual([expect.any(String), "one", expect.stringContaining('Unknown ref "t9"')]);
  });

  test("a session that has been replaced gives an error, not an answer", async () => {
    const tool = createQueryTool(() => undefined);
    const asked = tool.execute("call", { toolCallIds: ["t1"] }, undefined, undefined, {} as ExtensionContext);
    await expect(asked).rejects.toThrow("replaced");
  });
});

describe("the tool", () => {
  test("describes itself in the same words all the time, since they are part of the cached prompt", () => {
    const session = new SimulatedSession(AGENT_DIR);
    const descriptionOf = () => {
      const { name, label, description, promptSnippet, parameters } = createQueryTool(() => session.state());
      return JSON.stringify({ name, label, description, promptSnippet, parameters });
    };
    const before = descriptionOf();
    const record = { toolCallId: "c1", toolName: "read", args: {}, resultText: "x", isError: false };
    session.tree.appendCustom(CUSTOM_TYPE_INDEX, {
      toolCalls: [{ ...record, turnIndex: 0, timestamp: 1, resultTimestamp: 2 }],
      refs: [{ shortId: "t77", toolCallId: "c1", resultTimestamp: 2 }],
    });
    expect(session.state().indexer.refs()).toEqual(["t77"]);
    expect(descriptionOf()).toBe(before);
  });

  test("goes by the name that the stubs give it, and shows what a stub looks like", () => {
    const { name, description } = createQueryTool(() => undefined);
    expect(name).toBe(QUERY_TOOL_NAME);
    expect(description).toContain("[t12 condensed: ");
    expect(description).toContain("Full output: context_tree_query t12]");
  });

  test.each([
    ["no ref", { toolCallIds: [] }],
    ["a ref that is no text", { toolCallIds: [1] }],
    ["an offset before the beginning", { toolCallIds: ["t1"], offset: -1 }],
    ["a page of nothing", { toolCallIds: ["t1"], limit: 0 }],
  ])("refuses %s", (_what, params) => {
    expect(Value.Check(createQueryTool(() => undefined).parameters, params)).toBe(false);
  });
});
