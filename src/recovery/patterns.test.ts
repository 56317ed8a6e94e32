import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { DEFAULT_MAX_LINES } from "@mariozechner/pi-coding-agent";
import { matchesOf } from "./patterns.js";

describe("matchesOf", () => {
  const text = "alpha\nbeta [1]\ngamma\nbeta [2]\n";

  test("gives the lines that match, with their numbers", () => {
    expect(matchesOf(text, "^beta")).toEqual({ body: "2: beta [1]\n4: beta [2]", count: 2, shown: 2, asText: false });
  });

  test("says so where no line matches", () => {
    expect(matchesOf(text, "delta")).toEqual({ body: "", count: 0, shown: 0, asText: false });
  });

  test("takes an invalid regular expression for plain text", () => {
    expect(matchesOf(text, "[2")).toMatchObject({ body: "4: beta [2]", count: 1, asText: true });
  });

  test("shows as many matches as a page holds, and counts them all", () => {
    const many = Array.from({ length: 5000 }, (_, i) => `hit ${i}`).join("\n");
    const { body, count, shown } = matchesOf(many, "hit");
    expect(count).toBe(5000);
    expect(shown).toBe(DEFAULT_MAX_LINES);
    expect(body.trimEnd().split("\n")).toHaveLength(shown);
    expect(body).toEndWith("2000: hit 1999\n");
  });

  test("a pattern cannot hang the host: it ends with an error", () => {
    // Under Node as in the host: the engine of the test runner gives such a pattern up by itself.
    const script = `
      const { createJiti } = await import("jiti");
      const { matchesOf } = await createJiti(import.meta.url).import("../recovery/patterns.ts");
      try {
        matchesOf("a".repeat(60) + "b", "^(a+)+$");
        process.stdout.write("no error");
      } catch (error) {
        process.stdout.write(error.message);
      }`;
    const { stdout } = spawnSync("node", ["--input-type=module", "-e", script], {
      cwd: fileURLToPath(new URL("..", import.meta.url)),
      encoding: "utf8",
      timeout: 50_000,
    });
    expect(stdout).toContain("timed out");
  });

  test("a line's end matches also in text with carriage returns", () => {
    expect(matchesOf("foo\r\nfoo bar\r\n", "foo$")).toMatchObject({ body: "1: foo", count: 1 });
  });

  test("escapes that Unicode mode forbids are an expression all the same", () => {
    expect(matchesOf("a-b\naxb", "a\\-b")).toMatchObject({ body: "1: a-b", count: 1, asText: false });
  });

  test("of a giant line the part around the match is shown", () => {
    const { body, count, shown } = matchesOf(`${"x".repeat(60_000)}needle${"y".repeat(60_000)}`, "needle");
    expect({ count, shown }).toEqual({ count: 1, shown: 1 });
    expect(body).toContain("xneedley");
    expect(body.length).toBeLessThan(1_100);
  });
});
