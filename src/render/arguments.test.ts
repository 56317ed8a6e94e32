import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { PROPERTY_RUNS } from "../../test/support/property-runs.ts";
import {
  argumentMarker,
  argumentSavings,
  condenseArguments,
  longArguments,
  markerRefs,
  shortArguments,
} from "./arguments.ts";

const OPTIONS = { ref: "t12", minStringChars: 400 };
const LONG = "x".repeat(1_000);

/** Strings of a value, replaced by what `change` makes of them. */
function mapStrings(value: unknown, change: (text: string) => unknown): unknown {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapStrings(item, change)]));
}

function stringsOf(value: unknown): string[] {
  const strings: string[] = [];
  mapStrings(value, (text) => strings.push(text));
  return strings;
}

const longText = fc
  .tuple(fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }), fc.nat(120))
  .map(([text, times]) => text.repeat(times));
const keys = fc.oneof(
  fc.constantFrom("path", "command", "content", "oldText", "edits", "pattern", "query", "__proto__", "constructor"),
  fc.string({ maxLength: 8 }),
);
const { json: anyArguments } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    { arbitrary: longText, weight: 4 },
    fc.string(),
    fc.integer(),
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("json"), { maxLength: 4 }),
    {
      arbitrary: fc
        .array(fc.tuple(keys, tie("json")), { maxLength: 5 })
        .map((entries): unknown => Object.fromEntries(entries)),
      weight: 4,
    },
  ),
}));

describe("condenseArguments", () => {
  test("puts markers in place and keeps what is short, what is no text, and the order of keys", () => {
    const args = {
      path: "src/app.ts",
      content: LONG,
      edits: [{ oldText: LONG, newText: "short" }, { oldText: "a", newText: `${LONG}y` }, []],
      flag: true,
      none: null,
      count: 3,
      empty: "",
    };
    expect(JSON.stringify(condenseArguments(args, OPTIONS))).toBe(
      JSON.stringify({
        path: "src/app.ts",
        content: '<condensed-args chars="1000" ref="t12"/>',
        edits: [
          { oldText: '<condensed-args chars="1000" ref="t12"/>', newText: "short" },
          { oldText: "a", newText: '<condensed-args chars="1001" ref="t12"/>' },
          [],
        ],
        flag: true,
        none: null,
        count: 3,
        empty: "",
      }),
    );
    expect(args.content).toBe(LONG);
  });

  test("gives back the arguments themselves where nothing is long, and unchanged parts by reference", () => {
    const short = { content: "x".repeat(399), deep: [{ a: 1 }] };
    expect(condenseArguments(short, OPTIONS)).toBe(short);
    const mixed = { content: LONG, deep: [{ a: "b" }] };
    expect(condenseArguments(mixed, OPTIONS).deep).toBe(mixed.deep);
  });

  test("the limit is the length from which a string goes", () => {
    expect(condenseArguments({ content: "x".repeat(400) }, OPTIONS).content).toBe(argumentMarker(400, "t12"));
    expect(condenseArguments({ content: "x".repeat(400) }, { ...OPTIONS, minStringChars: 401 }).content).toHaveLength(
      400,
    );
  });

  test.each(["path", "file_path", "pattern", "glob", "query", "url", "cwd", "description"])(
    "%s stays readable up to 2,000 characters",
    (key) => {
      expect(condenseArguments({ [key]: "p".repeat(2_000) }, OPTIONS)[key]).toHaveLength(2_000);
      expect(condenseArguments({ [key]: "p".repeat(2_001) }, OPTIONS)[key]).toBe(argumentMarker(2_001, "t12"));
    },
  );

  test("a list under such a name is treated alike", () => {
    const args = { paths: ["p".repeat(900), "p".repeat(3_000)] };
    expect(condenseArguments(args, OPTIONS).paths).toEqual(["p".repeat(900), argumentMarker(3_000, "t12")]);
  });

  test("a long command keeps its head, and no half of a pair at its end", () => {
    const command = `cat > notes.md <<'EOF'\n${LONG}\nEOF`;
    expect(condenseArguments({ command }, OPTIONS).command).toBe(
      `${command.slice(0, 200)}… ${argumentMarker(command.length, "t12")}`,
    );
    const split = `${"x".repeat(199)}🧪${LONG}`;
    const condensed = condenseArguments({ command: split }, OPTIONS).command;
    expect(condensed).toStartWith(`${"x".repeat(199)}… <`);
    expect(condensed).not.toMatch(/\p{Surrogate}/u);
  });

  test("a condensed command is not condensed again, however low the limit", () => {
    const options = { ref: "t12", minStringChars: 100 };
    const once = condenseArguments({ command: `echo ${"x".repeat(40_000)}` }, options);
    expect(condenseArguments(once, options)).toBe(once);
  });

  test("gives back what needs nothing also where a value is missing", () => {
    const args = { path: "a.ts", range: undefined, lines: [undefined, 3] };
    expect(condenseArguments(args, OPTIONS)).toBe(args);
  });

  test("gives back what needs nothing also where a number is none", () => {
    const args = { path: Number.NaN, list: [Number.NaN] };
    expect(condenseArguments(args, OPTIONS)).toBe(args);
  });

  test("keeps the shape of any arguments, makes none longer, and changes nothing a second time", () => {
    let condensedSomething = 0;
    fc.assert(
      fc.property(anyArguments, fc.integer({ min: 1, max: 800 }), (args, minStringChars) => {
        const options = { ref: "t7", minStringChars };
        const before = JSON.stringify(args);
        const condensed = condenseArguments(args, options);
        expect(JSON.stringify(args)).toBe(before);
        expect(JSON.stringify(mapStrings(condensed, () => ""))).toBe(JSON.stringify(mapStrings(args, () => "")));
        const [texts, originals] = [stringsOf(condensed), stringsOf(args)];
        for (const [i, text] of texts.entries()) {
          const original = originals[i] ?? "";
          if (text === original) continue;
          condensedSomething += 1;
          expect(text.length).toBeLessThan(original.length);
          expect(text).toContain(argumentMarker(original.length, "t7"));
        }
        expect(condenseArguments(condensed, options)).toBe(condensed);
        if (texts.every((text, i) => text === originals[i])) expect(condensed).toBe(args);
      }),
    );
    expect(condensedSomething).toBeGreaterThan(PROPERTY_RUNS / 10);
  });
});

describe("argumentSavings", () => {
  test("is what condensing takes off at least, and nothing where nothing is long", () => {
    fc.assert(
      fc.property(anyArguments, (args) => {
        const savings = argumentSavings(args, 300);
        const chars = (value: unknown) => stringsOf(value).reduce((sum, text) => sum + text.length, 0);
        const real = chars(args) - chars(condenseArguments(args, { ref: "t99999", minStringChars: 300 }));
        expect(savings).toBe(real);
      }),
    );
    expect(argumentSavings({ content: "short", n: 5 }, 100)).toBe(0);
    expect(argumentSavings({ content: LONG }, 400)).toBeGreaterThan(900);
  });
});

describe("longArguments", () => {
  test("gives the originals of the markers in order, and where they stand", () => {
    const args = { path: "a.ts", edits: [{ oldText: `1${LONG}`, newText: "short" }, { newText: `2${LONG}` }] };
    expect(longArguments(args, 400)).toEqual([
      { at: "edits[0].oldText", text: `1${LONG}` },
      { at: "edits[1].newText", text: `2${LONG}` },
    ]);
    expect(longArguments({ content: "x".repeat(150) }, 100)).toEqual([{ at: "content", text: "x".repeat(150) }]);
    expect(longArguments({ path: LONG }, 400)).toEqual([]);
    expect(JSON.parse(shortArguments(args, 400))).toEqual({
      path: "a.ts",
      edits: [
        { oldText: `(${LONG.length + 1} characters)`, newText: "short" },
        { newText: `(${LONG.length + 1} characters)` },
      ],
    });
    const short = { owner: null, modes: [420, true] };
    expect(JSON.parse(shortArguments(short, 400))).toEqual(short);
  });
});

describe("markerRefs", () => {
  test("finds markers wherever a string stands", () => {
    const value = {
      path: "a.ts",
      edits: [{ newText: `before\n  ${argumentMarker(30_000, "t3")}\nafter\n${argumentMarker(5, "t4")}` }],
      rows: [[1, null, argumentMarker(9, "t5")]],
    };
    expect(markerRefs(value)).toEqual(["t3", "t4", "t5"]);
    expect(markerRefs(condenseArguments({ command: `echo ${LONG}` }, OPTIONS))).toEqual(["t12"]);
  });

  test.each([
    `cat > a.txt <<EOF\n<condensed-args chars=\\"30000\\" ref=\\"t3\\"/>\nEOF`,
    `<condensed-args chars='30000' ref='t3' />`,
    `<condensed-args ref="t3" chars="30000"></condensed-args>`,
    `<condensed-args chars="30,000" ref="t3"/`,
  ])("finds one that was copied otherwise: %s", (text) => {
    expect(markerRefs({ command: text })).toEqual(["t3"]);
  });

  test.each([
    ["in a sentence", { content: `A marker such as ${argumentMarker(30_000, "t3")} stands for a text.` }],
    ["in code", { content: `test("is ${argumentMarker(30_000, "t3")}");\n\`${argumentMarker(5, "t3")}\` is one` }],
    ["in a table", { content: `| ${argumentMarker(5, "t3")} | a marker |` }],
    ["in a search", { pattern: `at ${argumentMarker(5, "t3")}` }],
  ])("leaves one that is quoted: %s", (_where, args) => {
    expect(markerRefs(args)).toEqual([]);
  });

  test("finds one that is all of a text in a command", () => {
    const command = `python3 -c "open('a', 'w').write('${argumentMarker(30_000, "t3")}')"`;
    expect(markerRefs({ command })).toEqual(["t3"]);
  });

  test("finds none where there is none", () => {
    expect(markerRefs("condensed-args t3")).toEqual([]);
    expect(markerRefs({ a: '<condensed-args chars="5"> ref="t3"', b: '<condensed-args-x ref="t3"/>', c: 12 })).toEqual(
      [],
    );
    expect(markerRefs("<condensed-args …>")).toEqual([]);
    expect(markerRefs(undefined)).toEqual([]);
  });
});
