import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import fc from "fast-check";
import { BranchView, type EntrySource, messagesInContext } from "./branch.ts";

const TIMESTAMP = "2026-01-01T00:00:00.000Z";

function message(id: string, parentId: string | null = null): SessionEntry {
  const said: AgentMessage = { role: "user", content: id, timestamp: 1 };
  return { type: "message", id, parentId, timestamp: TIMESTAMP, message: said };
}

/** A session file whose leaf can be put anywhere; counts how often an entry was looked up. */
class Source implements EntrySource {
  lookups = 0;
  private readonly byId = new Map<string, SessionEntry>();

  constructor(
    entries: readonly SessionEntry[],
    private leaf: string | null,
  ) {
    for (const entry of entries) this.byId.set(entry.id, entry);
  }

  add(entry: SessionEntry): void {
    this.byId.set(entry.id, entry);
    this.leaf = entry.id;
  }

  moveTo(id: string | null): void {
    this.leaf = id;
  }

  getLeafId(): string | null {
    return this.leaf;
  }

  getEntry(id: string): SessionEntry | undefined {
    this.lookups += 1;
    return this.byId.get(id);
  }

  getEntries(): SessionEntry[] {
    return [...this.byId.values()];
  }
}

function idsOf(view: BranchView): string[] {
  return view.entries.map((entry) => entry.id);
}

/** a - b - c, and d beside c. */
function forked(leaf: string | null): Source {
  return new Source([message("a"), message("b", "a"), message("c", "b"), message("d", "b")], leaf);
}

describe("BranchView", () => {
  test("starts with everything from the root to the leaf", () => {
    const view = new BranchView();
    expect(view.sync(forked("c"))).toEqual({ kind: "appended", from: 0 });
    expect(idsOf(view)).toEqual(["a", "b", "c"]);
  });

  test("whatever the order in which the file has its entries", () => {
    const view = new BranchView();
    view.sync(new Source([message("c", "b"), message("a"), message("d", "c"), message("b", "a")], "d"));
    expect(idsOf(view)).toEqual(["a", "b", "c", "d"]);
  });

  test("an empty session is the same as none", () => {
    const view = new BranchView();
    expect(view.sync(new Source([], null))).toEqual({ kind: "same" });
    expect(idsOf(view)).toEqual([]);
  });

  test("nothing new is the same", () => {
    const view = new BranchView();
    const source = forked("c");
    view.sync(source);
    expect(view.sync(source)).toEqual({ kind: "same" });
  });

  test("says from where on entries were appended", () => {
    const view = new BranchView();
    const source = forked("b");
    view.sync(source);
    source.add(message("e", "b"));
    source.add(message("f", "e"));
    expect(view.sync(source)).toEqual({ kind: "appended", from: 2 });
    expect(idsOf(view)).toEqual(["a", "b", "e", "f"]);
  });

  test("looks up only what is new", () => {
    const view = new BranchView();
    const source = forked("c");
    view.sync(source);
    source.lookups = 0;
    source.add(message("e", "c"));
    view.sync(source);
    view.sync(source);
    expect(source.lookups).toBe(1);
  });

  test.each<[string, string | null, string[]]>([
    ["back along its own path", "a", ["a"]],
    ["to a sibling", "d", ["a", "b", "d"]],
    ["before the first entry", null, []],
  ])("a leaf that goes %s has moved", (_where, leaf, path) => {
    const view = new BranchView();
    const source = forked("c");
    view.sync(source);
    source.moveTo(leaf);
    expect(view.sync(source)).toEqual({ kind: "moved" });
    expect(idsOf(view)).toEqual(path);
  });

  test("an entry that was left is found again on the way back", () => {
    const view = new BranchView();
    const source = forked("c");
    view.sync(source);
    source.moveTo("b");
    view.sync(source);
    source.moveTo("c");
    expect(view.sync(source)).toEqual({ kind: "appended", from: 2 });
    expect(idsOf(view)).toEqual(["a", "b", "c"]);
  });

  test("a parent that is missing from the file starts the branch", () => {
    const view = new BranchView();
    expect(view.sync(new Source([message("b", "lost"), message("c", "b")], "c"))).toEqual({
      kind: "appended",
      from: 0,
    });
    expect(idsOf(view)).toEqual(["b", "c"]);
  });

  test("a path that loses its beginning has moved", () => {
    const view = new BranchView();
    const source = forked("c");
    view.sync(source);
    source.add(message("e", "lost"));
    expect(view.sync(source)).toEqual({ kind: "moved" });
    expect(idsOf(view)).toEqual(["e"]);
  });

  test("a leaf that the file does not hold leaves an empty path", () => {
    const view = new BranchView();
    const source = forked("c");
    view.sync(source);
    source.moveTo("lost");
    expect(view.sync(source)).toEqual({ kind: "moved" });
    expect(idsOf(view)).toEqual([]);
  });

  test("follows any walk through a tree as one that starts afresh", () => {
    const step = fc.record({ add: fc.boolean(), at: fc.nat() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const source = new Source([], null);
        const followed = new BranchView();
        for (const [i, { add, at }] of steps.entries()) {
          const all = source.getEntries();
          const target = all[at % Math.max(1, all.length)]?.id ?? null;
          const before = idsOf(followed);
          if (add) source.add(message(`e${i}`, target));
          else source.moveTo(target);
          const change = followed.sync(source);
          const fresh = new BranchView();
          fresh.sync(source);
          const after = idsOf(followed);
          expect(after).toEqual(idsOf(fresh));
          if (after.join() === before.join()) expect(change).toEqual({ kind: "same" });
          else if (before.every((id, index) => after[index] === id)) {
            expect(change).toEqual({ kind: "appended", from: before.length });
          } else expect(change).toEqual({ kind: "moved" });
        }
      }),
    );
  });
});

describe("messagesInContext", () => {
  function compaction(id: string, firstKeptEntryId: string): SessionEntry {
    const base = { id, parentId: null, timestamp: TIMESTAMP };
    return { type: "compaction", ...base, summary: "s", firstKeptEntryId, tokensBefore: 1 };
  }

  function saidIn(branch: readonly SessionEntry[]): unknown[] {
    return messagesInContext(branch).map((said) => ("content" in said ? said.content : undefined));
  }

  const branch = [message("a"), message("b"), message("c")];

  test("gives the messages of the branch, and nothing that the host makes up from other entries", () => {
    const other: SessionEntry[] = [
      { type: "custom", id: "x", parentId: null, timestamp: TIMESTAMP, customType: "other", data: 1 },
      { type: "branch_summary", id: "y", parentId: null, timestamp: TIMESTAMP, fromId: "z", summary: "s" },
    ];
    expect(saidIn([...branch.slice(0, 1), ...other, ...branch.slice(1)])).toEqual(["a", "b", "c"]);
  });

  test("begins at the first entry that a compaction keeps", () => {
    expect(saidIn([...branch, compaction("k", "b"), message("d")])).toEqual(["b", "c", "d"]);
    expect(saidIn([...branch, compaction("k", "a"), message("d")])).toEqual(["a", "b", "c", "d"]);
  });

  test("the last compaction counts", () => {
    expect(saidIn([...branch, compaction("k", "b"), message("d"), compaction("l", "d"), message("e")])).toEqual([
      "d",
      "e",
    ]);
  });

  test("a compaction that keeps what nobody knows keeps nothing from before it", () => {
    expect(saidIn([...branch, compaction("k", "lost"), message("d")])).toEqual(["d"]);
  });

  test("gives the very messages, without copying them", () => {
    const [first] = branch;
    expect(first?.type === "message" && messagesInContext(branch)[0] === first.message).toBe(true);
  });
});
