/** Summaries are made beside the agent: no request waits for one, and the flush at the end finds them made. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { setTimeout as sleep } from "node:timers/promises";
import { extractToolResultText } from "../src/transcript/messages.ts";
import { CUSTOM_TYPE_FRONTIER } from "../src/types.ts";
import { TODO_TEXT } from "./support/fixtures/todo-tool.ts";
import {
  HOSTS,
  type HostSession,
  openSession,
  PRODUCT_ENTRY,
  type Reply,
  supportPath,
  until,
} from "./support/hosts.ts";
import { recordingUi } from "./support/recording-ui.ts";
import type { ScriptedCall, ScriptedRequest } from "./support/script.ts";
import type { Settings } from "./support/simulated-session.ts";

setDefaultTimeout(60_000);

const NAMES = ["a", "b", "c", "d", "e"];
const FILES = Object.fromEntries(
  NAMES.map((name) => [
    `${name}.ts`,
    Array.from({ length: 90 }, (_, i) => `const ${name}${i} = "${name}";`).join("\n"),
  ]),
);
const read = (name: string): ScriptedCall => ({ name: "read", arguments: { path: `${name}.ts` } });

/** What happened, in its order. */
class Log {
  readonly events: string[] = [];

  add(event: string): void {
    this.events.push(event);
  }

  /** Place of an event that happened once. */
  at(event: string): number {
    const places = this.events.flatMap((entry, i) => (entry === event ? [i] : []));
    if (places.length !== 1) throw new Error(`"${event}" happened ${places.length} times:\n${this.events.join("\n")}`);
    return places[0] ?? -1;
  }
}

/** A summariser that takes its time, and counts how much it has to do at once. */
class SlowSummariser {
  readonly requests: ScriptedRequest[] = [];
  most = 0;
  private running = 0;

  constructor(
    private readonly takesMs: number,
    private readonly log = new Log(),
  ) {}

  reply: Reply = async (request) => {
    this.requests.push(request);
    const names = this.namesIn(request);
    this.log.add(`summary of ${names} begins`);
    this.running += 1;
    this.most = Math.max(this.most, this.running);
    await sleep(this.takesMs);
    this.running -= 1;
    this.log.add(`summary of ${names} ends`);
    return {
      text: names
        .split(",")
        .map((name, i) => `[${i + 1}] All of them are "${name}".`)
        .join("\n"),
    };
  };

  /** Files whose output a request holds. */
  namesIn(request: ScriptedRequest): string {
    const text = JSON.stringify(request.messages);
    return NAMES.filter((name) => text.includes(`const ${name}0 = `)).join();
  }
}

describe.each(HOSTS)("on the %s host", (host) => {
  const open: HostSession[] = [];
  afterEach(async () => {
    for (const session of open.splice(0)) await session.close();
  });

  async function start(
    settings: Settings,
    replies: Reply[],
    summariser: SlowSummariser,
    log = new Log(),
  ): Promise<HostSession> {
    const session = await openSession(host, {
      ui: recordingUi([]),
      extensionPaths: [PRODUCT_ENTRY, supportPath("fixtures/todo-tool.ts")],
      factories: [
        (pi) => {
          let turn = 0;
          pi.on("turn_end", () => log.add(`turn ${++turn} ends`));
        },
      ],
      files: FILES,
      settings: {
        contextPrune: {
          summarizerModel: "scripted/sum",
          pruneOn: "agent-message",
          protectedTools: ["todoread"],
          ...settings,
        },
      },
      script: { replies, repliesOf: { sum: Array.from({ length: 20 }, () => summariser.reply) } },
    });
    open.push(session);
    return session;
  }

  const frontiers = (session: HostSession) =>
    session.branch().filter((entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER).length;
  const textsSent = (session: HostSession) =>
    (session.requests.findLast(({ model }) => model === "main")?.messages ?? []).flatMap((message) =>
      message.role === "toolResult" ? [extractToolResultText(message)] : [],
    );

  test("no request waits for a summary of two seconds, and the flush at the end of the run needs no further call", async () => {
    const log = new Log();
    const summariser = new SlowSummariser(2_000, log);
    // The turns of the session take long enough for two calls at once to keep up with them.
    const turns = [
      [read("a")],
      [read("b")],
      [read("c"), read("a")],
      [read("d"), { name: "todoread", arguments: {} }],
      [read("e")],
      [read("b")],
    ];
    const replies = [...turns.map((calls) => ({ calls })), { text: "All read." }].map((reply, i): Reply => {
      return async () => {
        log.add(`request ${i + 1}`);
        await sleep(1_100);
        log.add(`reply ${i + 1}`);
        return reply;
      };
    });
    const session = await start({}, [...replies, { text: "Done." }], summariser, log);
    await session.prompt("read them all");
    await until(() => frontiers(session) > 0, 30_000);

    // The repeat of `b` is a turn of its own; what it repeats is not summarised again.
    const summarised = summariser.requests.map((request) => summariser.namesIn(request));
    expect(summarised.toSorted()).toEqual(NAMES);
    expect(JSON.stringify(summariser.requests.map(({ messages }) => messages))).not.toContain(TODO_TEXT.slice(0, 20));
    for (const [i, name] of NAMES.entries()) {
      const turn = i + 1;
      // Only the newer host waits for the handlers; ours comes behind those of the product.
      if (host === "new") expect(log.at(`turn ${turn} ends`)).toBeLessThan(log.at(`request ${turn + 1}`));
      expect(log.at(`request ${turn + 1}`)).toBeLessThan(log.at(`summary of ${name} ends`));
      expect(log.at(`summary of ${name} begins`)).toBeLessThan(log.at("reply 7"));
    }
    expect(summariser.most).toBe(2);

    await session.prompt("and now?");
    expect(summariser.requests).toHaveLength(NAMES.length);
    const [a, b, c, repeatOfA, d, todo, e, repeatOfB] = textsSent(session);
    for (const [text, name] of [
      [a, "a"],
      [b, "b"],
      [c, "c"],
      [d, "d"],
      [e, "e"],
    ]) {
      expect(text).toMatch(new RegExp(`^\\[t\\d+ condensed: read ${name}.ts, [\\s\\S]*All of them are "${name}"\\.$`));
    }
    expect(repeatOfA).toMatch(/^\[t\d+ condensed: identical to t\d+ /);
    expect(repeatOfB).toMatch(/^\[t\d+ condensed: identical to t\d+ /);
    expect(todo).toBe(TODO_TEXT);
    expect(session.errors).toEqual([]);
  });

  test.each([1, 2])("summarizerConcurrency %d is what runs at once, and no more", async (summarizerConcurrency) => {
    const summariser = new SlowSummariser(150);
    const replies: Reply[] = NAMES.map((name) => ({ calls: [read(name)] }));
    const session = await start(
      { summarizerConcurrency },
      [...replies, { text: "All read." }, { text: "Done." }],
      summariser,
    );
    await session.prompt("read them all");
    await until(() => frontiers(session) > 0);
    expect(summariser.requests.map((request) => summariser.namesIn(request))).toEqual(NAMES);
    expect(summariser.most).toBe(summarizerConcurrency);
  });

  test.each<[string, Settings]>([
    ["on-demand", { pruneOn: "on-demand" }],
    ["batchingMode agent-message", { batchingMode: "agent-message" }],
  ])("%s makes no summary ahead of its flush", async (_which, settings) => {
    const log = new Log();
    const summariser = new SlowSummariser(10, log);
    const replies: Reply[] = NAMES.slice(0, 2).map((name) => ({ calls: [read(name)] }));
    const closing: Reply = () => {
      log.add("closing reply");
      return { text: "All read." };
    };
    const session = await start(settings, [...replies, closing, { text: "Done." }], summariser, log);
    await session.prompt("read them");
    if (settings.pruneOn) {
      await sleep(100);
      expect(summariser.requests).toHaveLength(0);
      await session.prompt("/pruner now");
    }
    await until(() => frontiers(session) > 0);
    expect(summariser.requests.map((request) => summariser.namesIn(request))).toEqual(
      settings.pruneOn ? ["a", "b"] : ["a,b"],
    );
    expect(log.events.findIndex((event) => event.startsWith("summary"))).toBeGreaterThan(log.at("closing reply"));
  });
});
