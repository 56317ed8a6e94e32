import { describe, expect, test } from "bun:test";
import { DEFAULT_CONFIG } from "../config.ts";
import { configWith, parseAssignment, parseAssignments } from "./settings.ts";

describe("settings of a variant", () => {
  test("are the shipped ones with what was given laid over", () => {
    const config = configWith(
      parseAssignments("minBatchChars=5000, chainCompression.rollingWindow=1,dedupByContentHash=off"),
    );
    expect(config).toEqual({
      ...DEFAULT_CONFIG,
      minBatchChars: 5_000,
      dedupByContentHash: false,
      chainCompression: { ...DEFAULT_CONFIG.chainCompression, rollingWindow: 1 },
    });
    expect(configWith([])).toEqual({ ...DEFAULT_CONFIG });
  });

  test("may be lists, and models with any sign in their name", () => {
    expect(parseAssignments("protectedTools=a, b,pruneOn=every-turn")).toEqual([
      { key: "protectedTools", value: ["a", "b"] },
      { key: "pruneOn", value: "every-turn" },
    ]);
    expect(parseAssignment("summarizerModel=x/y=z").value).toBe("x/y=z");
    expect(parseAssignment("pruneOn=cache-aware").value).toBe("cache-aware");
  });

  test.each([
    ["pruneOn", "is no setting: write key=value"],
    ["=1", "is no setting"],
    ["pruneon=every-turn", "did you mean pruneOn?"],
    ["minBatchChars=many", "minBatchChars cannot be"],
  ])("%p is refused", (text, expected) => {
    expect(() => parseAssignment(text)).toThrow(expected);
  });
});
