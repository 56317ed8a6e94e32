import { describe, expect, test } from "bun:test";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { CallPairing } from "./pairing.ts";

/** An assistant message with these calls; the place in the list tells equal ids apart. */
function turn(ids: readonly string[], stopReason: AssistantMessage["stopReason"] = "toolUse"): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost };
  const content = ids.map((id, place) => ({ type: "toolCall" as const, id, name: "read", arguments: { place } }));
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp: 1 };
}

function opened(...args: Parameters<typeof turn>): CallPairing {
  const pairing = new CallPairing();
  pairing.open(turn(...args));
  return pairing;
}

describe("CallPairing", () => {
  test("gives each call once, in whatever order the results come", () => {
    const pairing = opened(["a", "b"]);
    expect(pairing.take("b")?.arguments).toEqual({ place: 1 });
    expect(pairing.isWaiting).toBe(true);
    expect(pairing.take("a")?.arguments).toEqual({ place: 0 });
    expect(pairing.isWaiting).toBe(false);
    expect(pairing.take("a")).toBeUndefined();
  });

  test("calls of one turn with one id are answered one after the other", () => {
    const pairing = opened(["", ""]);
    const taken = [pairing.take(""), pairing.take(""), pairing.take("")];
    expect(taken.map((call) => call?.arguments)).toEqual([{ place: 0 }, { place: 1 }, undefined]);
  });

  test("the next assistant message leaves nothing waiting of the one before", () => {
    const pairing = opened(["a"]);
    pairing.open(turn(["b"]));
    expect(pairing.take("a")).toBeUndefined();
    expect(pairing.take("b")?.id).toBe("b");
  });

  test("once closed, no call waits", () => {
    const pairing = opened(["a"]);
    pairing.close();
    expect(pairing.isWaiting).toBe(false);
    expect(pairing.take("a")).toBeUndefined();
  });

  test.each(["error", "aborted"] as const)("a message that ended by %s has no calls", (stopReason) => {
    expect(opened(["a"], stopReason).isWaiting).toBe(false);
  });

  test("one that ran into its limit has", () => {
    expect(opened(["a"], "length").take("a")?.id).toBe("a");
  });
});
