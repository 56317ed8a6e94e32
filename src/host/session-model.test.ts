import { describe, expect, test } from "bun:test";
import type { Api, Model } from "@mariozechner/pi-ai";
import { DEFAULT_PROFILE } from "../cost/prices.ts";
import { sessionModel } from "./session-model.ts";

const MODEL: Model<Api> = {
  ...{ id: "m", name: "m", api: "anthropic-messages", provider: "p", baseUrl: "", reasoning: true, input: ["text"] },
  cost: { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
  contextWindow: 200_000,
  maxTokens: 8_000,
};
const of = (changes: object) => sessionModel({ ...MODEL, ...changes }, undefined);

describe("a model binds its thinking", () => {
  test.each([
    ["anthropic-messages", "m", { supportsMidConvoEffort: true }, true],
    ["anthropic-messages", "m", { supportsMidConvoEffort: false }, false],
    ["anthropic-messages", "claude-opus-4-7", undefined, false],
    ["openai-responses", "m", { supportsMidConvoEffort: true }, false],
    ["bedrock-converse-stream", "anthropic.claude-opus-4-7-v1", undefined, true],
    ["bedrock-converse-stream", "anthropic.claude-sonnet-5-v1", undefined, true],
    ["bedrock-converse-stream", "anthropic.claude-sonnet-4-5-v1", undefined, false],
  ])("with %s, %s and %p: %p", (api, id, compat, binds) => {
    expect(of({ api, id, compat })?.bindsThinking).toBe(binds);
  });
});

test("a model without prices has usual ones, any other its own", () => {
  const free = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  expect(of({ cost: free })?.rates(1_000)).toEqual(DEFAULT_PROFILE.rates);
  expect(of({})?.rates(1_000)).toMatchObject(MODEL.cost);
});
