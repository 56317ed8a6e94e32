/**
 * Mutation tester: changes one operator of the source at a time, in a copy of the checkout, and runs tests on it. A change
 * that no test notices has survived: a test is missing, or the change makes no difference.
 *
 *   node scripts/mutate.mjs [--count 60] [--seed 1] [--tests path,path] path...
 *
 * A path is a folder, a file, or a line (`src/cost/prices.ts:79`); without `--count` all its mutants are tried. Without
 * `--tests` a file is tested by the tests of its folder, one of `src/` itself by the test beside it. It prints the
 * survivors.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { ROOT, tool } from "./setup.mjs";

/** A change that makes a test run without end counts as noticed after so many ms. */
const TIMEOUT_MS = 60_000;
const NOT_COPIED = new Set(["node_modules", ".git"]);

/** What is changed, and what comes in its place. */
const OPERATORS = [
  [/ < /g, " <= "],
  [/ <= /g, " < "],
  [/ > /g, " >= "],
  [/ >= /g, " > "],
  [/ === /g, " !== "],
  [/ !== /g, " === "],
  [/ && /g, " || "],
  [/ \|\| /g, " && "],
  [/ \?\? /g, " && "],
  [/ \+ /g, " - "],
  [/ - /g, " + "],
  [/ \* /g, " / "],
  [/\breturn true;/g, "return false;"],
  [/\breturn false;/g, "return true;"],
  [/\bMath\.max\(/g, "Math.min("],
  [/\bMath\.min\(/g, "Math.max("],
  [/\bif \(/g, "if (false && "],
];
const SOURCE = /(?<!\.test)\.ts$/;
const NO_CODE = /^\s*(\*|\/\/|\/\*|import |export type |type |export interface |interface )/;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { count: { type: "string" }, seed: { type: "string", default: "1" }, tests: { type: "string" } },
});
if (positionals.length === 0) {
  process.stderr.write("Usage: node scripts/mutate.mjs [--count n] [--seed n] [--tests path,path] path...\n");
  process.exit(2);
}
const count = Number(values.count ?? Infinity);
const mutants = shuffled(positionals.flatMap(mutantsAt), Number(values.seed)).slice(0, count);
const copy = mkdtempSync(join(tmpdir(), "mutants-"));
process.on("exit", () => rmSync(copy, { recursive: true, force: true }));
cpSync(ROOT, copy, { recursive: true, filter: (path) => !NOT_COPIED.has(basename(path)) });
symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
for (const tests of new Set(mutants.map(({ path }) => testsOf(path)))) {
  if (passes(tests)) continue;
  process.stderr.write(`Without any change, these tests fail: ${tests}\n`);
  process.exit(2);
}
const survivors = mutants.filter(survives);
process.stdout.write(
  `${mutants.length} mutants, ${mutants.length - survivors.length} noticed, ${survivors.length} survived\n`,
);

/** The mutants of a folder, a file or a line. */
function mutantsAt(target) {
  const [path, number] = target.split(":");
  if (statSync(join(ROOT, path)).isDirectory()) {
    return readdirSync(join(ROOT, path)).flatMap((name) => (SOURCE.test(name) ? mutantsAt(join(path, name)) : []));
  }
  const lines = readFileSync(join(ROOT, path), "utf8").split("\n");
  return lines.flatMap((line, i) =>
    NO_CODE.test(line) || (number !== undefined && i + 1 !== Number(number))
      ? []
      : OPERATORS.flatMap(([operator, to]) =>
          [...line.matchAll(operator)].map(({ 0: from, index }) => {
            const changed = line.slice(0, index) + to + line.slice(index + from.length);
            return { path, number: i + 1, changed, text: lines.with(i, changed).join("\n") };
          }),
        ),
  );
}

/** In an order that the seed alone decides. */
function shuffled(items, seed) {
  let state = seed;
  const order = items.map((item) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return { item, state };
  });
  return order.sort((a, b) => a.state - b.state).map(({ item }) => item);
}

function survives({ path, number, changed, text }) {
  const source = readFileSync(join(ROOT, path), "utf8");
  writeFileSync(join(copy, path), text);
  const isUnnoticed = passes(testsOf(path));
  writeFileSync(join(copy, path), source);
  if (isUnnoticed) process.stdout.write(`survived ${path}:${number}  ${changed.trim()}\n`);
  return isUnnoticed;
}

function testsOf(path) {
  if (values.tests) return values.tests;
  return dirname(path) === "src" ? path.replace(/\.ts$/, ".test.ts") : `${dirname(path)}/`;
}

function passes(tests) {
  const { status } = spawnSync(tool("bun"), ["test", "--bail", ...tests.split(",")], {
    cwd: copy,
    env: { ...process.env, PROPERTY_RUNS: "25" },
    timeout: TIMEOUT_MS,
  });
  return status === 0;
}
