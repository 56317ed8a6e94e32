import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { KnownFile } from "./known-file.ts";

type Step =
  | { kind: "read"; from: number; count: number }
  | { kind: "edit"; at: number; length: number; newText: string }
  | { kind: "write"; text: string };

/** Few letters, so that texts repeat themselves. */
const text = fc
  .array(fc.constantFrom("a", "b", "ab", "", "c"), { minLength: 1, maxLength: 8 })
  .map((l) => l.join("\n"));
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant("read" as const),
    from: fc.integer({ min: 1, max: 9 }),
    count: fc.integer({ min: 1, max: 5 }),
  }),
  fc.record({
    kind: fc.constant("edit" as const),
    at: fc.nat(20),
    length: fc.integer({ min: 1, max: 6 }),
    newText: text,
  }),
  fc.record({ kind: fc.constant("write" as const), text }),
);

describe("KnownFile", () => {
  test("never says what is not so, whatever was read, written and edited", () => {
    fc.assert(
      fc.property(
        text,
        fc.array(step, { maxLength: 12 }),
        fc.array(text, { minLength: 3, maxLength: 3 }),
        (start, steps, asked) => {
          let truth = start;
          let file = new KnownFile();
          for (const one of steps) {
            const lines = truth.split("\n");
            if (one.kind === "write") {
              truth = one.text;
              file = KnownFile.of(one.text);
            } else if (one.kind === "read") {
              const seen = lines.slice(one.from - 1, one.from - 1 + one.count);
              if (seen.length > 0) file.learn(one.from, seen, lines.length);
            } else {
              const oldText = truth.slice(one.at, one.at + one.length);
              // A host replaces only what stands there once.
              if (oldText === "" || truth.split(oldText).length !== 2) continue;
              truth = truth.replace(oldText, () => one.newText);
              file.replace(oldText, one.newText);
            }
          }
          const lines = truth.split("\n");
          for (const [number, line] of file.numbered()) expect(line).toBe(lines[number - 1] ?? "(no such line)");
          if (file.total !== undefined) expect(file.total).toBe(lines.length);
          if (file.text !== undefined) expect(file.text).toBe(truth);
          for (const part of [...asked, truth.slice(2, 6)]) {
            const has = file.has(part);
            if (has !== undefined) expect(has).toBe(truth.includes(part));
          }
        },
      ),
    );
  });

  test("does not take a second place for the one that was replaced, where the first is not known to its end", () => {
    const file = new KnownFile();
    file.learn(2, ["ab", "ab", "a"], 4);
    file.replace("\nab\n", "a");
    expect(file.numbered()).toEqual([]);
    expect(file.has("b")).toBeUndefined();
  });

  test("believes what it sees over what it knew", () => {
    const file = KnownFile.of("a\nb\nc");
    file.learn(2, ["changed"]);
    expect(file.numbered()).toEqual([[2, "changed"]]);
    expect(file.has("b")).toBeUndefined();
    file.learnMore(2, ["another"]);
    expect(file.line(2)).toBe("changed");
  });
});
