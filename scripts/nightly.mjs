/**
 * Runs every property test with 10,000 cases. Prints the seed first: `PROPERTY_SEED=<seed> npm run nightly` makes the same
 * cases again, and PROPERTY_RUNS another number of them. Arguments name files to run instead of all that have properties.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT, setUp, tool } from "./setup.mjs";

const RUNS = process.env.PROPERTY_RUNS ?? "10000";
const SEED = process.env.PROPERTY_SEED ?? String(Date.now() % 2 ** 31);
/** Milliseconds that one test may take. */
const LIMIT = 6 * 60 * 60_000;

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
process.stdout.write(`PROPERTY_SEED=${SEED} PROPERTY_RUNS=${RUNS}\n`);
const options = ["--timeout", String(LIMIT), "--preload", "./scripts/property-runs.ts"];
const { status } = spawnSync(tool("bun"), ["test", ...options, ...files.map((file) => `./${file}`)], {
  cwd: ROOT,
  stdio: "inherit",
  env: { ...process.env, PROPERTY_RUNS: RUNS, PROPERTY_SEED: SEED },
});
process.stdout.write(`PROPERTY_SEED=${SEED}\n`);
process.exitCode = status ?? 1;
