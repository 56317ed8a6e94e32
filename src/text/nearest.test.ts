import { describe, expect, test } from "bun:test";
import { cpuMs } from "../../test/support/cpu-time.ts";
import { nearest } from "./nearest.ts";

describe("nearest", () => {
  test("finds a misspelled name, whatever its case", () => {
    expect(nearest("minBtachChars", ["enabled", "minBatchChars", "pruneOn"])).toEqual(["minBatchChars"]);
    expect(nearest("MINBATCHCHARS", ["enabled", "minBatchChars"])).toEqual(["minBatchChars"]);
  });

  test("gives the closest first, keeps the order of ties, and stops at the limit", () => {
    expect(nearest("t99", ["t1", "t19", "t98", "t97", "t96", "b7"])).toEqual(["t19", "t98", "t97"]);
    expect(nearest("t99", ["t19", "t98"], 1)).toEqual(["t19"]);
    expect(nearest("every-trun", ["every-run", "every-turn"])).toEqual(["every-run", "every-turn"]);
  });

  test("gives nothing where nothing is close", () => {
    expect(nearest("zebra", ["enabled", "pruneOn"])).toEqual([]);
    expect(nearest("x", ["t", "b"])).toEqual([]);
    expect(nearest("", ["t", ""])).toEqual([]);
    expect(nearest("enabled", [])).toEqual([]);
  });

  test("finds the name behind a provider or a group, and one that contains the word", () => {
    expect(nearest("claude-sonet-4", ["openai/gpt-5", "anthropic/claude-sonnet-4"])).toEqual([
      "anthropic/claude-sonnet-4",
    ]);
    expect(nearest("haiku", ["anthropic/claude-haiku-4-5", "anthropic/claude-opus-4"])).toEqual([
      "anthropic/claude-haiku-4-5",
    ]);
    expect(nearest("rollingWindow", ["chainCompression.rollingWindow"])).toEqual(["chainCompression.rollingWindow"]);
    // Two letters stand in too many names to mean one of them.
    expect(nearest("ai", ["openai/gpt-5"])).toEqual([]);
  });

  test("a long word costs nothing", () => {
    const candidates = Array.from({ length: 2000 }, (_, n) => `provider/model-${n}`);
    expect(cpuMs(() => expect(nearest("x".repeat(100_000), candidates)).toEqual([]))).toBeLessThan(1000);
  });
});
