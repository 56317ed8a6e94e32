import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { DEFAULT_PROFILE } from "../cost/prices.ts";
import { CostMeter } from "./costs.ts";
import { RecoveryCharge } from "./recoveries.ts";
import type { CountedUse, RequestUses } from "./use-counter.ts";
import type { Origin } from "./uses.ts";

const READ = 0.1 / 1e6;
const WRITE = 1.25 / 1e6;
const OUTPUT = 5 / 1e6;
/** Tokens of the text, and of the call that asks for it. */
const TEXT = 5_000;
const ASKING = 100;

function reply(timestamp: number): AssistantMessage {
  const counts = { input: 0, output: 10, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
  const usage = { ...counts, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
  const from = { api: "openai-completions" as const, provider: "p", model: "m" };
  return {
    role: "assistant",
    content: [{ type: "text", text: "done" }],
    ...from,
    usage,
    stopReason: "stop",
    timestamp,
  };
}

function user(timestamp: number, text = "word ".repeat(7_400)): AgentMessage {
  return { role: "user", content: text, timestamp };
}

const ORIGIN: Origin = {
  kind: "result",
  key: "c@1",
  tool: "read",
  file: "a.ts",
  chars: 20_000,
  tokens: TEXT,
  request: 0,
};

function missing(turn: number, ...origins: Origin[]): RequestUses {
  const uses = origins.map((origin, call): CountedUse => {
    return { tool: "edit", call, isEdit: true, origin, age: 1, lines: ["x"], missed: true, isNew: true };
  });
  return { uses, edits: uses.length, missedEdits: uses.length, turn };
}

class Session {
  readonly meter = new CostMeter({
    scaleOf: () => ({ factor: 1, baseTokens: 2_000 }),
    cache: DEFAULT_PROFILE,
    costOfModel: () => DEFAULT_PROFILE.rates,
  });
  readonly charge = new RecoveryCharge(this.meter, 2);
  readonly messages: AgentMessage[] = [user(1)];
  private now = 10;

  /** A request, its reply, and what that missed; gives what recoveries cost there. */
  request(uses: RequestUses): number {
    const before = this.meter.recoveries.length;
    this.now += 1_000;
    this.meter.request(this.messages, reply(this.now));
    this.messages.push(reply(this.now));
    this.charge.request(uses);
    return this.meter.recoveries.slice(before).reduce((sum, { cost }) => sum + cost, 0);
  }
}

describe("a miss", () => {
  test("costs the prompt read once more, an answer, and the text written", () => {
    const session = new Session();
    const cost = session.request(missing(1, ORIGIN));
    const prompt = session.meter.requests[0]?.tokens ?? 0;
    expect(prompt).toBeGreaterThan(10_000);
    expect(cost).toBeCloseTo(prompt * READ + ASKING * OUTPUT + (TEXT + ASKING) * WRITE, 9);
    expect(session.charge.extraRequests).toBe(1);
  });

  test("is paid once for each result and request, and the text is read by each later request", () => {
    const session = new Session();
    session.request(missing(1, ORIGIN, ORIGIN));
    expect(session.charge.extraRequests).toBe(1);
    // It is still there, so nothing is asked for.
    expect(session.request(missing(1, ORIGIN))).toBeCloseTo((TEXT + ASKING) * READ, 9);
    expect(session.charge.extraRequests).toBe(1);
    session.request(missing(1, { ...ORIGIN }, { ...ORIGIN }));
    expect(session.charge.extraRequests).toBe(3);
  });

  test("is carried until a flush after its grace, and written again where the prompt changes before it", () => {
    const session = new Session();
    session.request(missing(1, ORIGIN));
    session.meter.flush(0);
    session.messages[0] = user(1, "changed");
    expect(session.request(missing(2))).toBeCloseTo((TEXT + ASKING) * WRITE, 9);
    // Two messages of the user later it has had its grace, and goes with the next flush.
    expect(session.request(missing(3))).toBeCloseTo((TEXT + ASKING) * READ, 9);
    session.meter.flush(0);
    expect(session.request(missing(3))).toBe(0);
    session.request(missing(3, ORIGIN));
    expect(session.charge.extraRequests).toBe(2);
  });

  test("brings one page of a long output, which a compaction takes away", () => {
    const session = new Session();
    const long = { ...ORIGIN, chars: 512_000, tokens: 100_000 };
    const cost = session.request(missing(1, long));
    expect(cost).toBeLessThan(100_000 * 0.2 * WRITE);
    session.meter.compaction(1_000, 100);
    expect(session.request(missing(1))).toBe(0);
  });

  test("of what the recorded request lacked too costs nothing", () => {
    const session = new Session();
    const uses = missing(1, ORIGIN);
    expect(session.request({ ...uses, uses: uses.uses.map((use) => ({ ...use, isNew: false })) })).toBe(0);
  });
});
