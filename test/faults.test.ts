/**
 * What breaks a session file or its surroundings, without a host: cut and damaged lines, entries of another shape, a disk
 * that refuses, two processes on one file, clocks that jump. After each, nothing is lost, the next request is valid, and
 * there is at most one notice. `host-faults.test.ts` has the faults that need a host.
 */
import { describe, expect, setSystemTime, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import fc from "fast-check";
import { createQueryTool } from "../src/query-tool.ts";
import { recover, sourcesOf } from "../src/recovery/originals.ts";
import { isAssistant, resultOf } from "../src/transcript/messages.ts";
import { deepFreeze, sessionArbitrary } from "./support/generate.ts";
import {
  checkArgumentsRecoverable,
  checkDroppedRecoverable,
  checkNothingGrows,
  checkPrefixStable,
  checkRecoverable,
  checkUnseenRaw,
  checkValid,
} from "./support/invariants.ts";
import { PROPERTY_TIMEOUT } from "./support/property-runs.ts";
import { agentDirWith, EntryTree, type RenderedRequest, SimulatedSession } from "./support/simulated-session.ts";

const TIMEOUT = 20 * 60_000;

const SETTINGS = {
  summarizerModel: "none",
  pruneOn: "agent-message" as const,
  minBatchChars: 200,
  chainCompression: { rollingWindow: 0, batchSize: 0 },
  protectedTools: ["todoread"],
  purgeErrors: { cooldownTurns: 0, minArgChars: 100 },
};

const lines = (name: string, count = 40) =>
  Array.from({ length: count }, (_, i) => `export const ${name}${i} = ${i};`).join("\n");

/** Builds a conversation, one run a call; `go` says when everything happens. */
class Talk {
  readonly messages: AgentMessage[] = [];
  private calls = 0;

  constructor(private clock = 1_772_000_000_000) {}

  run(prompt: string, calls: { name: string; args: Record<string, string>; text: string; isError?: boolean }[]): this {
    this.messages.push({ role: "user", content: prompt, timestamp: this.tick() });
    for (const { name, args, text, isError } of calls) {
      this.calls += 1;
      const id = `call_${this.calls}`;
      this.assistant([{ type: "toolCall", id, name, arguments: args }], "toolUse");
      const content = [{ type: "text" as const, text }];
      const result = { toolCallId: id, toolName: name, content, isError: isError ?? false, timestamp: this.tick() };
      this.messages.push({ role: "toolResult", ...result });
    }
    this.assistant([{ type: "text", text: "Done." }], "stop");
    return this;
  }

  private assistant(content: Extract<AgentMessage, { role: "assistant" }>["content"], stopReason: "stop" | "toolUse") {
    const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
    const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost };
    const model = { api: "anthropic-messages", provider: "anthropic", model: "big-1" };
    this.messages.push({ role: "assistant", content, ...model, usage, stopReason, timestamp: this.tick() });
  }

  private tick(): number {
    this.clock += 1_000;
    return this.clock;
  }
}

/** A session in which every kind of entry stands: summaries, records, repeats, a chain, arguments, purged errors. */
const EVENTFUL = deepFreeze(
  new Talk()
    .run("look around", [
      { name: "read", args: { path: "a.ts" }, text: lines("a") },
      { name: "write", args: { path: "b.ts", content: lines("b") }, text: "Wrote b.ts" },
      { name: "todoread", args: {}, text: "1. [ ] all of it\n" },
      { name: "edit", args: { path: "b.ts", oldText: lines("no"), newText: "x" }, text: "not found", isError: true },
    ])
    .run("again", [
      { name: "read", args: { path: "a.ts" }, text: lines("a") },
      { name: "bash", args: { command: "echo hi" }, text: "hi" },
    ])
    .run("and now", [{ name: "read", args: { path: "c.ts" }, text: lines("c") }]).messages,
);
const NEXT = deepFreeze(
  new Talk(1_772_001_000_000)
    .run("go on", [{ name: "read", args: { path: "d.ts" }, text: lines("d") }])
    .run("once more", [{ name: "read", args: { path: "a.ts" }, text: lines("a") }]).messages,
);
const AGENT_DIR = agentDirWith(SETTINGS);

/** Everything that must hold of any request. */
function problems(request: RenderedRequest, session: SimulatedSession): string[] {
  const state = session.state();
  return [
    ...checkValid(request),
    ...checkUnseenRaw(request),
    ...checkNothingGrows(request),
    ...checkRecoverable(request, state),
    ...checkDroppedRecoverable(request, state),
    ...checkArgumentsRecoverable(request, state),
  ];
}

/** A session goes on after a fault, and holds to everything then and in yet another process. */
async function expectSound(session: SimulatedSession, notices = 0): Promise<void> {
  expect(problems(await session.request(), session)).toEqual([]);
  const requests = await session.play(NEXT);
  for (const request of requests) expect(problems(request, session)).toEqual([]);
  expect(checkPrefixStable(requests)).toEqual([]);
  expect(session.notices.length).toBeLessThanOrEqual(notices);
  const again = session.restart();
  expect(JSON.stringify((await again.request()).sent)).toBe(JSON.stringify(requests.at(-1)?.sent));
}

async function eventful(): Promise<SimulatedSession> {
  const session = new SimulatedSession(AGENT_DIR);
  await session.play(EVENTFUL);
  return session;
}

/** The render of the branch as it stands. */
function viewOf(session: SimulatedSession): string {
  return JSON.stringify(session.pruner.contextView(session.host)?.sent);
}

function isOwn(line: string): boolean {
  return line.includes('"customType":"context-prune-');
}

describe("a session file that ends too early", () => {
  test(
    "is taken up wherever an entry of a flush was cut",
    async () => {
      const file = (await eventful()).tree.lines();
      expect(file.filter(isOwn).length).toBeGreaterThan(8);
      for (const [i, line] of file.entries()) {
        if (!isOwn(line)) continue;
        // A cut behind the last byte is a kill between two writes.
        const cuts = [0, 1, 20, ...[1, 2, 3, 4].map((part) => Math.floor((line.length * part) / 5)), line.length - 1];
        for (const cut of [...cuts, line.length]) {
          const tree = new EntryTree().read([...file.slice(0, i), line.slice(0, cut)]);
          const session = new SimulatedSession(AGENT_DIR, tree);
          await expectSound(session);
          // What the flush had not finished is finished by a later one.
          expect(recoveredText(session, lines("a"))).toBe(true);
        }
      }
    },
    TIMEOUT,
  );

  test(
    "gives no ref a second meaning when it goes on from the middle of a flush",
    async () => {
      const file = (await eventful()).tree.lines();
      for (let end = 1; end <= file.length; end++) {
        const session = new SimulatedSession(AGENT_DIR, new EntryTree().read(file.slice(0, end)));
        const before = answersOf(session);
        await session.play(NEXT);
        const after = answersOf(session);
        for (const [ref, answer] of before) expect(after.get(ref)).toBe(answer);
      }
    },
    TIMEOUT,
  );

  test(
    "whose lines are damaged loses no more than the host does",
    async () => {
      const file = (await eventful()).tree.lines();
      for (const [i, line] of file.entries()) {
        if (!isOwn(line)) continue;
        const damaged = [...file.slice(0, i), `${line.slice(0, 40)}\u0000${line.slice(60)}`, ...file.slice(i + 1)];
        // What stands before the damage falls off the branch, as it does for the host.
        await expectSound(new SimulatedSession(AGENT_DIR, new EntryTree().read(damaged)));
      }
    },
    TIMEOUT,
  );
});

function answersOf(session: SimulatedSession): Map<string, string> {
  const sources = sourcesOf(session.state());
  return new Map(
    session
      .state()
      .indexer.refs()
      .map((ref) => [ref, JSON.stringify(recover(ref, sources))]),
  );
}

function recoveredText(session: SimulatedSession, text: string): boolean {
  const sources = sourcesOf(session.state());
  return session
    .state()
    .indexer.refs()
    .some((ref) => {
      const recovery = recover(ref, sources);
      return recovery.kind === "found" && recovery.outputs.some((output) => output.text === text);
    });
}

describe("entries of another shape", () => {
  const WRONG: readonly unknown[] = [null, true, -1, 1.5, "x", "", [], [null], {}, { length: 3 }];

  /** Every copy of `value` in which one field, however deep, holds something else or is missing. */
  function* mutants(value: unknown): Generator<unknown> {
    for (const wrong of WRONG) yield wrong;
    if (Array.isArray(value)) {
      for (const [i, item] of value.entries()) {
        if (i > 1) break;
        for (const mutant of mutants(item)) yield value.with(i, mutant);
      }
    } else if (typeof value === "object" && value !== null) {
      for (const [key, field] of Object.entries(value)) {
        const { [key]: _, ...rest } = value as Record<string, unknown>;
        yield rest;
        for (const mutant of mutants(field)) yield { ...value, [key]: mutant };
      }
    }
  }

  /** Strings may say anything: a text that was changed in the file is what the file says. */
  function changesText(before: unknown, after: unknown): boolean {
    if (typeof before === "string") return typeof after === "string" && before !== after;
    if (typeof before !== "object" || before === null || typeof after !== "object" || after === null) return false;
    return Object.entries(before).some(([key, field]) => changesText(field, (after as Record<string, unknown>)[key]));
  }

  test(
    "are left out with one notice, whichever field is wrong",
    async () => {
      const session = await eventful();
      const totals = { totalInputTokens: 10, totalOutputTokens: 2, totalCost: 0.5, callCount: 1, failedCallCount: 0 };
      session.tree.appendCustom("context-prune-stats", totals);
      session.tree.appendCustom("context-prune-diagnostic", { kind: "error", detail: "told before" });
      const file = session.tree.lines();
      let mutated = 0;
      const seen = new Set<string>();
      for (const [i, line] of file.entries()) {
        if (!isOwn(line)) continue;
        const entry = JSON.parse(line);
        if (seen.has(entry.customType)) continue;
        seen.add(entry.customType);
        for (const data of mutants(entry.data)) {
          const changed = JSON.stringify({ ...entry, data });
          const session = new SimulatedSession(AGENT_DIR, new EntryTree().read(file.with(i, changed)));
          const request = await session.request();
          const found = [...checkValid(request), ...checkUnseenRaw(request), ...checkNothingGrows(request)];
          if (!changesText(entry.data, data)) found.push(...lostBy(request, session));
          if (found.length > 0) throw new Error(`${changed.slice(0, 2_000)}\n${found.join("\n")}`);
          expect(session.notices.length).toBeLessThanOrEqual(1);
          const again = session.restart();
          expect(JSON.stringify((await again.request()).sent)).toBe(JSON.stringify(request.sent));
          mutated += 1;
        }
      }
      expect([...seen].toSorted()).toEqual([
        "context-prune-chain",
        "context-prune-dedup-alias",
        "context-prune-diagnostic",
        "context-prune-frontier",
        "context-prune-index",
        "context-prune-stats",
        "context-prune-summary",
      ]);
      expect(mutated).toBeGreaterThan(500);
    },
    TIMEOUT,
  );

  function lostBy(request: RenderedRequest, session: SimulatedSession): string[] {
    return [
      ...checkRecoverable(request, session.state()),
      ...checkDroppedRecoverable(request, session.state()),
      ...checkArgumentsRecoverable(request, session.state()),
    ];
  }

  test("of other extensions are none of our business, whatever their names", async () => {
    const session = await eventful();
    const before = JSON.stringify((await session.request()).sent);
    for (const customType of ["context-prune-unknown", "other", "", "context-prune-", "__proto__"]) {
      for (const data of [undefined, null, { toolCalls: 5 }, "text"]) session.tree.appendCustom(customType, data);
    }
    const again = session.restart();
    expect(JSON.stringify((await again.request()).sent)).toBe(before);
    expect(again.notices).toEqual([]);
  });
});

describe("a disk that refuses", () => {
  const failure = () => Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });

  test.each(["from that entry on", "that entry alone"])(
    "%s: raw results, one notice, and all is made good once there is room",
    async (extent) => {
      const complete = (await eventful()).tree.lines().filter(isOwn).length;
      for (let at = 0; at < complete; at++) {
        const session = new SimulatedSession(AGENT_DIR);
        let number = 0;
        session.beforeAppend = () => {
          const refused = extent === "that entry alone" ? number === at : number >= at;
          number += 1;
          if (refused) throw failure();
        };
        const requests = await session.play(EVENTFUL);
        for (const request of requests) expect(problems(request, session)).toEqual([]);
        expect(session.notices).toHaveLength(1);
        expect(session.notices[0]).toContain("ENOSPC");
        session.beforeAppend = () => undefined;
        await expectSound(session, 1);
        expect(recoveredText(session, lines("a"))).toBe(true);
      }
    },
    TIMEOUT,
  );

  test(
    "but has the entry in memory, as the hosts do: the same, also for the process that finds it missing",
    async () => {
      const complete = (await eventful()).tree.lines().filter(isOwn).length;
      for (let at = 0; at < complete; at++) {
        const session = new SimulatedSession(AGENT_DIR);
        let number = 0;
        let missing = "";
        session.beforeAppend = (customType, data) => {
          if (number++ !== at) return;
          missing = session.tree.appendCustom(customType, data);
          throw failure();
        };
        const requests = await session.play(EVENTFUL);
        for (const request of requests) expect(problems(request, session)).toEqual([]);
        expect(session.notices).toHaveLength(1);
        const file = session.tree.lines().filter((line) => JSON.parse(line).id !== missing);
        await expectSound(session, 1);
        await expectSound(new SimulatedSession(AGENT_DIR, new EntryTree().read(file)));
      }
    },
    TIMEOUT,
  );

  test("within a flush that the user leaves behind by a move: back there, the next flush completes it", async () => {
    for (let at = 0; at < 8; at++) {
      const session = new SimulatedSession(agentDirWith({ ...SETTINGS, pruneOn: "on-demand" }));
      await session.play(EVENTFUL);
      let number = 0;
      session.beforeAppend = () => {
        if (number++ >= at) throw failure();
      };
      await session.pruner.flushNow(session.host, { compactAll: true });
      session.beforeAppend = () => undefined;
      const [first] = session.tree.getEntries();
      const end = session.tree.getLeafId();
      for (const leaf of [first?.id ?? null, end]) {
        session.tree.moveTo(leaf);
        session.pruner.treeMoved();
      }
      await session.pruner.flushNow(session.host, { compactAll: true });
      expect(problems(await session.request(), session)).toEqual([]);
      expect(viewOf(session)).toContain("<compressed-chain ");
      expect(viewOf(session.restart())).toBe(viewOf(session));
    }
  });

  test("does not let a diagnostic that cannot be written break a request", async () => {
    const session = await eventful();
    session.tree.appendCustom("context-prune-index", { toolCalls: "none" });
    const sent = JSON.stringify((await session.request()).sent);
    const tree = session.tree.reload();
    const again = new SimulatedSession(AGENT_DIR, refusing(tree, failure));
    expect(again.notices).toEqual(["pruner: ignored context-prune-index entries of an unknown shape in this session"]);
    expect(JSON.stringify((await again.request()).sent)).toBe(sent);
  });

  /** A tree that takes no custom entry. */
  function refusing(tree: EntryTree, error: () => Error): EntryTree {
    tree.appendCustom = () => {
      throw error();
    };
    return tree;
  }
});

describe("two processes on one session", () => {
  test(
    "a ref that both have given answers with both, each labelled, and every render is valid",
    async () => {
      const base = new Talk().run("look", [{ name: "read", args: { path: "a.ts" }, text: lines("a") }]).messages;
      const start = new SimulatedSession(AGENT_DIR);
      await start.play(base);
      const shared = start.tree.lines();
      const sides = ["one", "two"].map((name) => {
        const session = new SimulatedSession(AGENT_DIR, new EntryTree("", name).read(shared));
        const talk = new Talk(1_772_000_500_000 + (name === "one" ? 0 : 7));
        talk.run(name, [
          { name: "read", args: { path: `${name}.ts` }, text: lines(name) },
          { name: "bash", args: { command: `cat ${name}` }, text: lines(`cat_${name}`) },
        ]);
        talk.run("thanks", []);
        return { session, messages: talk.messages, written: shared.length, name };
      });
      const file = [...shared];
      const longest = Math.max(...sides.map(({ messages }) => messages.length));
      for (let i = 0; i < longest; i++) {
        for (const side of sides) {
          const message = side.messages[i];
          if (!message) continue;
          if (isAssistant(message)) expect(problems(await side.session.request(), side.session)).toEqual([]);
          side.session.add(message);
          await side.session.pruner.turnEnded(side.session.host);
          const all = side.session.tree.lines();
          file.push(...all.slice(side.written));
          side.written = all.length;
        }
      }
      const leaves = sides.map(({ session }) => session.tree.getLeafId());
      const sent = await Promise.all(sides.map(({ session }) => viewOf(session)));
      const merged = new SimulatedSession(AGENT_DIR, new EntryTree("", "third").read(file));
      expect(merged.notices).toEqual([]);
      for (const [i, leaf] of leaves.entries()) {
        merged.tree.moveTo(leaf);
        merged.pruner.treeMoved();
        expect(viewOf(merged)).toBe(sent[i] ?? "");
        expect(problems(await merged.request(), merged)).toEqual([]);
      }
      const tool = createQueryTool(() => merged.state());
      const given = await tool.execute("q", { toolCallIds: ["t2"] }, undefined, undefined, undefined as never);
      const texts = given.content.map((block) => (block.type === "text" ? block.text : ""));
      expect(texts[0]).toStartWith("[t2: read one.ts; ");
      expect(texts[1]).toBe(lines("one"));
      expect(texts[2]).toStartWith("[t2: read two.ts; ");
      expect(texts[3]).toBe(lines("two"));
      const refs = merged.state().indexer.refs();
      await expectSound(merged);
      // What is given from now on is new to both.
      expect(merged.state().indexer.refs().length).toBeGreaterThan(refs.length);
    },
    TIMEOUT,
  );
});

describe("clocks that jump", () => {
  const JUMPS: Record<string, (timestamp: number, i: number) => number> = {
    "stand still": () => 1_772_000_000_000,
    "run backwards": (_timestamp, i) => 1_772_000_000_000 - i * 1_000,
    "go back and forth": (timestamp, i) => timestamp - (i % 5) * 40_000,
    "are set back once": (timestamp, i) => (i > 12 ? timestamp - 86_400_000 : timestamp),
    "are not set at all": (_timestamp, i) => i,
  };

  for (const [name, jump] of Object.entries(JUMPS)) {
    test(
      `${name}: every request holds to the invariants, and a restart renders the same`,
      async () => {
        await fc.assert(
          fc.asyncProperty(sessionArbitrary(), async (messages) => {
            // Results that share id and time cannot be told apart by any name; they are another test's.
            const odd = messages.map((message, i) => deepFreeze({ ...message, timestamp: jump(message.timestamp, i) }));
            const keys = odd.flatMap((message) => resultOf(message) ?? []).map(keyOf);
            fc.pre(new Set(keys).size === keys.length);
            const session = new SimulatedSession(AGENT_DIR);
            const requests = await session.play(odd);
            for (const request of requests) expect(problems(request, session)).toEqual([]);
            expect(checkPrefixStable(requests)).toEqual([]);
            expect(session.notices).toEqual([]);
            expect(viewOf(session.restart())).toBe(viewOf(session));
          }),
        );
      },
      PROPERTY_TIMEOUT,
    );
  }

  function keyOf(message: Extract<AgentMessage, { role: "toolResult" }>): string {
    return `${message.toolCallId}@${message.timestamp}`;
  }

  test("the system's own clock may be anywhere", async () => {
    try {
      for (const now of [0, 1, 8_640_000_000_000, 1_000_000]) {
        setSystemTime(new Date(now));
        await expectSound(await eventful());
      }
    } finally {
      setSystemTime();
    }
  });

  test("a reply behind the last user message keeps its thinking, whatever its time", async () => {
    const messages: AgentMessage[] = EVENTFUL.map((message) =>
      isAssistant(message) && message.stopReason === "stop"
        ? {
            ...message,
            content: [{ type: "thinking", thinking: "Hm.", thinkingSignature: "c2ln" }, ...message.content],
          }
        : message,
    );
    const lastUser = messages.findLastIndex(({ role }) => role === "user");
    // The clock is set back while the last run is under way.
    const odd = messages.map((message, i) => ({
      ...message,
      timestamp: message.timestamp - (i > lastUser ? 90_000 : 0),
    }));
    const session = new SimulatedSession(AGENT_DIR);
    for (const message of odd) session.add(deepFreeze(message));
    await session.pruner.flushNow(session.host, { compactAll: true });
    const { raw, sent } = await session.request();
    expect(JSON.stringify(sent.at(-1))).toBe(JSON.stringify(raw.at(-1)));
    expect(sent.at(-1)).toMatchObject({ content: [{ type: "thinking" }, { type: "text" }] });
  });
});
