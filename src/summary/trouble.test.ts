import { describe, expect, test } from "bun:test";
import { isPassing, type TroubleKind, troubleOf } from "./trouble.ts";

describe("troubleOf", () => {
  test.each<[TroubleKind, string]>([
    ["auth", "401 status code (no body)"],
    ["auth", '401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'],
    ["auth", '{"error":{"code":403,"message":"Generative Language API has not been used"}}'],
    ["auth", "No API key for provider: prov"],
    ["auth", "OAuth token expired. Please run /login"],
    ["busy", "429 Rate limit reached for this API key"],
    ["busy", "You exceeded your current quota"],
    ["busy", '529 {"type":"overloaded_error"}'],
    ["busy", "Server requested 60s retry delay (max: 5s). 429 slow down"],
    ["busy", "503 Service Unavailable"],
    ["failed", "500 Internal Server Error"],
    ["failed", "400 prompt is too long: 250000 tokens"],
    ["failed", "Unexpected token < in JSON"],
    ["failed", "An unknown error occurred"],
    ["failed", "something odd"],
    ["network", "fetch failed"],
    ["network", "connect ECONNREFUSED 127.0.0.1:4011"],
    ["network", "terminated"],
    ["network", "Connection error."],
    ["network", "Anthropic stream ended before message_stop"],
    ["network", "Stream ended without finish_reason"],
    ["timeout", "Request timed out."],
    ["refused", "The model refused to complete the request"],
    ["refused", "Provider finish_reason: content_filter"],
    ["refused", "Provider stopped with: SAFETY"],
    ["refused", "Provider stopped with: sensitive"],
  ])("is %s for %p", (kind, said) => {
    expect(troubleOf(said)).toEqual({ kind, detail: said });
  });

  test("says what was said in one short line", () => {
    const page = `502 Bad Gateway\n<html>\n${"<p>sorry</p>\n".repeat(500)}</html>`;
    const { kind, detail } = troubleOf(page);
    expect(kind).toBe("failed");
    expect(detail).toStartWith("502 Bad Gateway <html> <p>sorry</p>");
    expect(detail).not.toContain("\n");
    expect(detail.length).toBeLessThanOrEqual(300);
  });

  test("repeats nothing of a reply that could not be parsed", () => {
    const said =
      'Could not parse Anthropic SSE event content_block_delta: bad JSON; data={"secret":1}\nmore; raw=data: secret';
    expect(troubleOf(said).detail).toBe("Could not parse Anthropic SSE event content_block_delta: bad JSON");
  });
});

test("what may pass is a trouble of the model or the way to it, never one of a reply or of the user's making", () => {
  const kinds: TroubleKind[] = [
    "auth",
    "busy",
    "network",
    "timeout",
    "refused",
    "cut",
    "empty",
    "unusable",
    "failed",
    "cancelled",
  ];
  expect(kinds.filter((kind) => isPassing({ kind, detail: "" }))).toEqual(["busy", "network", "timeout", "failed"]);
});
