/**
 * Every way in which a summariser can fail, on the serialisers of both hosts, over a real connection: the call ends
 * within its limits, the user is told what was wrong, the results stay in the context, and the next flush is right.
 */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Message } from "@mariozechner/pi-ai";
import { extractToolResultText } from "../src/transcript/messages.ts";
import { CUSTOM_TYPE_FRONTIER } from "../src/types.ts";
import { createFolders, type PiFolders } from "./support/folders.ts";
import { HOSTS, type Host, openSession, PRODUCT_ENTRY, type Reply, until } from "./support/hosts.ts";
import {
  type Behaviour,
  type ModelServer,
  PROTOCOLS,
  PROVIDER_OF,
  type Protocol,
  startModelServer,
} from "./support/model-server.ts";
import { recordingUi } from "./support/recording-ui.ts";
import type { Script, ScriptedReply, ScriptedRequest } from "./support/script.ts";
import { checkTranscript } from "./support/transcript.ts";

setDefaultTimeout(120_000);

/** Long enough for what the hosts try again by themselves, on a busy machine too. */
const IDLE_MS = 5_000;
const MAX_MS = 8_000;
/** The machine may be slow; what counts is that a call ends at all, long before a test would. */
const MARGIN_MS = 15_000;

/** Sessions that are played at a time. With all of them at once, the time that each computes comes near its limits. */
const AT_ONCE = 20;

interface Case {
  name: string;
  behaviour: Behaviour;
  /** What the user is told of the configured model. */
  notice: RegExp | ((host: Host, protocol: Protocol) => RegExp);
  /** The same request goes to the session's model. */
  passing: boolean | ((host: Host, protocol: Protocol) => boolean);
  /** Requests that one call may make: the hosts try once more where that may help. */
  requests: number;
  /** The host has to end the connection itself. */
  mustClose?: true;
  /** Nobody is asked again before the user says so. */
  final?: true;
  /** The host takes it for a good reply. */
  unnoticed?: (host: Host, protocol: Protocol) => boolean;
}

/** The older host does not say what its provider said. */
const hidden = (host: Host, protocol: Protocol) => host === "old" && protocol !== "openai-completions";

const CASES: readonly Case[] = [
  {
    name: "stalls before the first byte",
    behaviour: { kind: "silent" },
    notice: /nothing received for 5 s/,
    passing: true,
    requests: 1,
    mustClose: true,
  },
  {
    name: "stalls in the middle",
    behaviour: { kind: "stall" },
    notice: /nothing received for 5 s/,
    passing: true,
    requests: 1,
    mustClose: true,
  },
  {
    name: "drips for ever",
    behaviour: { kind: "drip", everyMs: 100 },
    notice: /no reply within 8 s/,
    passing: true,
    requests: 1,
    mustClose: true,
  },
  {
    name: "hangs up",
    behaviour: { kind: "hang-up" },
    notice: /connect|socket|fetch/i,
    passing: true,
    requests: 2,
  },
  {
    name: "drops the connection",
    behaviour: { kind: "drop" },
    notice: /connect|socket|terminated|closed|ended/i,
    passing: true,
    requests: 1,
  },
  {
    name: "breaks off without a word",
    behaviour: { kind: "break-off" },
    notice: /ended/i,
    passing: true,
    requests: 1,
    unnoticed: (host, protocol) => host === "old" && protocol !== "anthropic-messages",
  },
  {
    name: "answers 401",
    behaviour: { kind: "status", status: 401, message: "this key is not valid" },
    notice: /this key is not valid.*summarizerModel.*\/pruner model/,
    passing: false,
    requests: 1,
    final: true,
  },
  {
    name: "answers 429",
    behaviour: { kind: "status", status: 429, message: "slow down" },
    notice: /429|slow down/,
    passing: true,
    requests: 2,
  },
  {
    name: "answers 500",
    behaviour: { kind: "status", status: 500, message: "out of order" },
    notice: /500|out of order/,
    passing: true,
    requests: 2,
  },
  {
    name: "is cut at its output limit",
    behaviour: { kind: "length", text: "[1] half of" },
    notice: /cut at the model's output limit/,
    passing: false,
    requests: 1,
  },
  {
    name: "refuses",
    behaviour: { kind: "refusal" },
    notice: (host, protocol) => (hidden(host, protocol) ? /unknown error/i : /refus|content_filter|SAFETY/),
    passing: hidden,
    requests: 1,
  },
  {
    name: "says nothing",
    behaviour: { kind: "answer", text: "" },
    notice: /held no text/,
    passing: false,
    requests: 1,
  },
  {
    name: "sends what cannot be read",
    behaviour: { kind: "malformed" },
    notice: /pars|JSON|read/i,
    passing: true,
    requests: 1,
  },
];

const SENTINEL = "line 150 of the app";
const fileOf = (what: string) => Array.from({ length: 150 }, (_, i) => `// line ${i + 1} of the ${what}`).join("\n");

/** What came of one case. */
interface Outcome {
  firstNotices: string[];
  firstMs: number;
  /** Requests over the wire before the model was healed, and how often the session's model was asked to step in. */
  served: number;
  stepIns: number;
  closed: boolean;
  /** The first result as the request after the failed flush carried it, and the one after the good flush. */
  afterFailure: string;
  afterRecovery: string;
  laterNotices: string[];
  transcriptFaults: string[];
  errors: unknown[];
}

interface Play {
  trouble: Case;
  protocol: Protocol;
  /** Stands in the names of the files that the case is about, and so in every request of its session. */
  tag: string;
}

/**
 * The session's models of all plays: the older host knows one implementation of an API, whichever session has brought
 * it last, so that they must share theirs.
 */
class Stage {
  readonly requests = new Map<string, ScriptedRequest[]>();
  private readonly turns = new Map<string, number>();

  readonly script: Script<Reply> = { otherwise: (request) => this.answer(request) };

  private answer(request: ScriptedRequest): ScriptedReply {
    const [tag = ""] = /case-\d+/.exec(JSON.stringify(request.messages)) ?? [];
    this.requests.set(tag, [...this.requestsOf(tag), request]);
    // The session's own model is of no help.
    if (isSummary(request)) return { stopReason: "error", errorMessage: "overloaded" };
    const turn = this.turns.get(tag) ?? 0;
    this.turns.set(tag, turn + 1);
    const read = (path: string) => ({ calls: [{ name: "read", arguments: { path } }] });
    const replies = [
      read(`${tag}/app.ts`),
      { text: "Seen the app." },
      // Closes nothing, so that no flush is under way when the model is healed.
      { text: "Going on.", stopReason: "length" as const },
      read(`${tag}/lib.ts`),
      { text: "Seen the lib." },
      { text: "Done." },
    ];
    return replies[turn] ?? { text: "Nothing left to say." };
  }

  requestsOf(tag: string): ScriptedRequest[] {
    return this.requests.get(tag) ?? [];
  }
}

function isSummary({ systemPrompt }: ScriptedRequest): boolean {
  return systemPrompt.startsWith("You condense");
}

function firstResult(messages: readonly Message[] | undefined): string {
  const result = messages?.find((message) => message.role === "toolResult");
  return result ? extractToolResultText(result) : "";
}

/** Opens the session of a play, and gives what plays it and closes it again. */
async function prepare(
  host: Host,
  { trouble, protocol, tag }: Play,
  { server, folders, stage }: { server: ModelServer; folders: PiFolders; stage: Stage },
): Promise<() => Promise<Outcome>> {
  const notices: string[] = [];
  server.behave(tag, trouble.behaviour);
  const session = await openSession(host, {
    folders,
    ui: recordingUi(notices),
    extensionPaths: [PRODUCT_ENTRY],
    factories: [
      (pi) => {
        for (const each of PROTOCOLS) pi.registerProvider(PROVIDER_OF[each], server.provider(each, [tag]));
      },
    ],
    settings: {
      contextPrune: {
        summarizerModel: `${PROVIDER_OF[protocol]}/${tag}`,
        pruneOn: "agent-message",
        summarizerIdleTimeoutMs: IDLE_MS,
        summarizerMaxTimeoutMs: MAX_MS,
      },
    },
    script: stage.script,
  });
  const frontiers = () =>
    session.branch().filter((entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER).length;
  const lastRequest = () => stage.requestsOf(tag).findLast((request) => !isSummary(request));
  const served = () => server.requests.filter((request) => request.model === tag);

  return async () => {
    try {
      const startedAt = performance.now();
      await session.prompt(`look at ${tag}/app.ts`);
      await until(() => notices.length >= (isPassing(host, { trouble, protocol }) ? 2 : 1), MAX_MS + MARGIN_MS);
      const firstMs = performance.now() - startedAt;
      const firstNotices = notices.splice(0);
      const failures = { served: served().length, stepIns: stage.requestsOf(tag).filter(isSummary).length };
      await session.prompt("go on");
      const afterFailure = firstResult(lastRequest()?.messages);

      await until(() => !trouble.mustClose || served().every((request) => request.closed));
      const closed = served().every((request) => request.closed);
      server.behave(tag, { kind: "answer", text: "[1] Line numbers of comments." });
      await session.prompt("look at the lib");
      if (trouble.final) await session.prompt("/pruner now");
      await until(() => frontiers() > 0, MAX_MS + MARGIN_MS);
      await session.prompt("and now?");
      return {
        firstNotices,
        firstMs,
        ...failures,
        closed,
        afterFailure,
        afterRecovery: firstResult(lastRequest()?.messages),
        laterNotices: notices,
        transcriptFaults: stage.requestsOf(tag).flatMap(({ messages }) => checkTranscript(messages)),
        errors: session.errors,
      };
    } finally {
      await session.close();
    }
  };
}

function isPassing(host: Host, { trouble, protocol }: Pick<Play, "trouble" | "protocol">): boolean {
  return typeof trouble.passing === "function" ? trouble.passing(host, protocol) : trouble.passing;
}

const waits = ({ trouble }: Play) => trouble.mustClose === true;

function playsOn(host: Host): Play[] {
  return PROTOCOLS.flatMap((protocol) => CASES.map((trouble) => ({ trouble, protocol })))
    .filter(({ trouble, protocol }) => !trouble.unnoticed?.(host, protocol))
    .map((play, i) => ({ ...play, tag: `case-${i + 10}` }));
}

describe.each(HOSTS)("a summariser on the %s host", (host) => {
  const outcomes = new Map<string, Outcome | Error>();
  const all = playsOn(host);

  beforeAll(async () => {
    const server = await startModelServer();
    const files = all.flatMap(({ tag }) => [
      [`${tag}/app.ts`, fileOf("app")],
      [`${tag}/lib.ts`, fileOf("lib")],
    ]);
    const folders = createFolders(Object.fromEntries(files));
    const stage = new Stage();
    // A session stays open until all are through: the hosts find the folders by the environment.
    const keeper = await openSession(host, { folders, inMemory: true, script: stage.script });
    try {
      // Opened one after the other, since each reads its own settings from the same file; those that wait are played first.
      const runs: (() => Promise<void>)[] = [];
      for (const play of all.toSorted((a, b) => Number(waits(b)) - Number(waits(a)))) {
        const run = await prepare(host, play, { server, folders, stage });
        const keep = (outcome: Outcome | Error) => void outcomes.set(play.tag, outcome);
        runs.push(() => run().then(keep, keep));
      }
      const queue = runs.values();
      const worker = async () => {
        for (const run of queue) await run();
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
    } finally {
      await keeper.close();
      await server.close();
      folders.remove();
    }
  });

  describe.each(PROTOCOLS)("by %s", (protocol) => {
    const plays = all.filter((play) => play.protocol === protocol);
    test.each(plays.map((play) => [play.trouble.name, play] as const))("that %s", (_name, play) => {
      const outcome = outcomes.get(play.tag);
      if (!outcome || outcome instanceof Error) throw outcome ?? new Error("not played");
      const { trouble } = play;
      const notice = typeof trouble.notice === "function" ? trouble.notice(host, protocol) : trouble.notice;
      const passing = isPassing(host, play);

      const [told = "", ...others] = outcome.firstNotices;
      expect(told).toStartWith(`pruner: no summary from ${PROVIDER_OF[protocol]}/${play.tag}: `);
      expect(told).toMatch(notice);
      expect(told).not.toContain("half of");
      expect(others).toEqual(passing ? ["pruner: no summary from scripted/main: overloaded"] : []);
      expect(outcome.firstMs).toBeLessThan(MAX_MS + MARGIN_MS);
      expect(outcome.served).toBeGreaterThan(0);
      expect(outcome.served).toBeLessThanOrEqual(trouble.requests);
      expect(outcome.stepIns).toBe(passing ? 1 : 0);
      if (trouble.mustClose) expect(outcome.closed).toBe(true);

      expect(outcome.afterFailure).toContain(SENTINEL);
      expect(outcome.afterRecovery).toStartWith(`[t1 condensed: read ${play.tag}/app.ts, `);
      expect(outcome.afterRecovery).toEndWith("\nLine numbers of comments.");
      expect(outcome.laterNotices.filter((message) => message.includes("no summary"))).toEqual([]);
      expect(outcome.transcriptFaults).toEqual([]);
      expect(outcome.errors).toEqual([]);
    });
  });
});
