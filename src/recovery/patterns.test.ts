import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { DEFAULT_MAX_LINES } from "@mariozechner/pi-coding-agent";
import { matchesOf } from "./patterns.ts";

describe("matchesOf", () => {
  const text = "alpha\nbeta [1]\ngamma\nbeta [2]\n";

  test("gives the lines that match, with their numbers", async () => {
    expect(await matchesOf(text, "^beta")).toEqual({
      body: "2: beta [1]\n4: beta [2]",
      count: 2,
      shown: 2,
      asText: false,
    });
  });

  test("says so where no line matches", async () => {
    expect(await matchesOf(text, "delta")).toEqual({ body: "", count: 0, shown: 0, asText: false });
  });

  test("takes an invalid regular expression for plain text", async () => {
    expect(await matchesOf(text, "[2")).toMatchObject({ body: "4: beta [2]", count: 1, asText: true });
  });

  test("shows as many matches as a page holds, and counts them all", async () => {
    const many = Array.from({ length: 5000 }, (_, i) => `hit ${i}`).join("\n");
    const { body, count, shown } = await matchesOf(many, "hit");
    expect(count).toBe(5000);
    expect(shown).toBe(DEFAULT_MAX_LINES);
    expect(body.trimEnd().split("\n")).toHaveLength(shown);
    expect(body).toEndWith("2000: hit 1999\n");
  });

  // The engine of the test runner gives nested repeats up by itself.
  test.each<[string, string, string, string]>([
    ["node", "nested repeats", `"a".repeat(60) + "b"`, "^(a+)+$"],
    ["node", "a repeat that is tried at every blank", `" ".repeat(400_000) + "x"`, "\\s+$"],
    ["bun", "a repeat that is tried at every blank", `" ".repeat(400_000) + "x"`, "\\s+$"],
  ])(
    "a pattern cannot hang the host under %s: %s",
    (engine, _what, text, pattern) => {
      const script = `
        const { createJiti } = await import("jiti");
        const { matchesOf } = await createJiti(import.meta.url).import("../recovery/patterns.ts");
        let ticks = 0;
        setInterval(() => (ticks += 1), 50);
        try {
          await matchesOf(${text}, ${JSON.stringify(pattern)});
          process.stdout.write("no error");
        } catch (error) {
          process.stdout.write(ticks > 3 ? error.message : "stood still");
        }
        process.exit();`;
      const input = engine === "node" ? ["--input-type=module", "-e", script] : ["-e", script];
      const { stdout } = spawnSync(engine === "bun" ? process.execPath : engine, input, {
        cwd: fileURLToPath(new URL("..", import.meta.url)),
        encoding: "utf8",
        timeout: 50_000,
      });
      expect(stdout).toStartWith(`The pattern ${pattern} took longer than 1 s`);
    },
    60_000,
  );

  test("nothing else has to keep the process alive meanwhile", () => {
    const script = `
      const { createJiti } = await import("jiti");
      const { matchesOf } = await createJiti(import.meta.url).import("../recovery/patterns.ts");
      process.stdout.write((await matchesOf("a b", "b")).body);`;
    const cwd = fileURLToPath(new URL("..", import.meta.url));
    const { stdout } = spawnSync("node", ["--input-type=module", "-e", script], { cwd, encoding: "utf8" });
    expect(stdout).toBe("1: a b");
  }, 60_000);

  test("a signal ends the search", async () => {
    const search = matchesOf(" ".repeat(100_000), "\\s+x", AbortSignal.abort());
    await expect(search).rejects.toThrow("ended");
  });

  test("of millions of lines that all match no more is kept than is shown", async () => {
    const lines = "hit me\n".repeat(2_500_000);
    const before = process.memoryUsage().rss;
    const { body, count, shown } = await matchesOf(lines, "hit");
    expect({ count, shown }).toEqual({ count: 2_500_000, shown: DEFAULT_MAX_LINES });
    expect(body).toEndWith("2000: hit me\n");
    expect(process.memoryUsage().rss - before).toBeLessThan(200_000_000);
  }, 60_000);

  test("numbers go on over the pieces of a long text", async () => {
    const text = `${"x".repeat(99)}\n`.repeat(90_000);
    const found = await matchesOf(`${text}needle\n${text}needle`, "needle$");
    expect(found).toMatchObject({ body: "90001: needle\n180002: needle", count: 2 });
  });

  test.each<[string, string, string]>([
    ["an empty text", "", ""],
    ["blank lines", "a\n\n\r\nb", "2: \n3: "],
    ["a carriage return at the very end", "a\r", ""],
  ])("finds the blank lines of %s", async (_what, text, body) => {
    expect((await matchesOf(text, "^$")).body).toBe(body);
  });

  test("a line's end matches also in text with carriage returns", async () => {
    expect(await matchesOf("foo\r\nfoo bar\r\n", "foo$")).toMatchObject({ body: "1: foo", count: 1 });
  });

  test("escapes that Unicode mode forbids are an expression all the same", async () => {
    expect(await matchesOf("a-b\naxb", "a\\-b")).toMatchObject({ body: "1: a-b", count: 1, asText: false });
  });

  test("of a giant line the part around the match is shown", async () => {
    const { body, count, shown } = await matchesOf(`${"x".repeat(60_000)}needle${"y".repeat(60_000)}`, "needle");
    expect({ count, shown }).toEqual({ count: 1, shown: 1 });
    expect(body).toContain("xneedley");
    expect(body.length).toBeLessThan(1_100);
  });
});
