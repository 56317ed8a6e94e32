/**
 * Runs every property test with 10,000 cases, one file after the other. Prints the seed first: `PROPERTY_SEED=<seed> npm run
 * nightly` makes the same cases again, and PROPERTY_RUNS another number of them. Arguments name files to run instead of all
 * that have properties.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT, setUp, tool } from "./setup.mjs";

const RUNS = process.env.PROPERTY_RUNS ?? "10000";
const SEED = process.env.PROPERTY_SEED ?? String(Date.now() % 2 ** 31);

function propertyTests() {
  const files = ["src", "test"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".test.ts") && !name.includes("node_modules"))
      .map((name) => join(folder, name)),
  );
  return files.filter((file) => readFileSync(join(ROOT, file), "utf8").includes("fc.assert(")).toSorted();
}

setUp();
const files = process.argv.length > 2 ? process.argv.slice(2) : propertyTests();
const again = `PROPERTY_SEED=${SEED} PROPERTY_RUNS=${RUNS}`;
process.stdout.write(`${again}\n`);
const failed = files.filter((file) => {
  const start = Date.now();
  const { status } = spawnSync(tool("bun"), ["test", `./${file}`], {
    cwd: ROOT,
    stdio: "inherit",
    env: { ...process.env, PROPERTY_RUNS: RUNS, PROPERTY_SEED: SEED },
  });
  process.stdout.write(`${file}: ${Math.round((Date.now() - start) / 1000)} s\n\n`);
  return status !== 0;
});
process.stdout.write(`${again}: ${failed.length === 0 ? "no counterexample" : `look at ${failed.join(", ")}`}\n`);
process.exitCode = failed.length === 0 ? 0 : 1;
