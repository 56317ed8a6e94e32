/**
 * Sets up, runs the tests in several processes, the slowest files first, and ends with the line
 * `N passed, N failed[, N skipped]`. Arguments go to `bun test`, so that `npm test -- src/flush.test.ts` runs one file.
 * Where `CI` is set, properties are checked with more cases, and the tests of the documents and of the package run too.
 */
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { ROOT, setUp, tool } from "./setup.mjs";

/** How long each file took, last measured; `npm test -- --update-timings` writes them. */
const TIMINGS = "test/timings.json";
/** What takes minutes and needs no look before each commit. */
const CI_ONLY = ["test/documents.test.ts", "test/packaging.test.ts"];

const given = process.argv.slice(2);
const named = given.filter((argument) => !argument.startsWith("-")).map((argument) => argument.replace(/^\.\//, ""));
const left = CI_ONLY.filter((file) => !process.env.CI && !named.some((name) => file.includes(name)));
const processes = Math.min(4, Math.max(2, availableParallelism()));

setUp();
const args = [
  // Each file has its modules to itself, `test/support/property-runs.ts` with the limit of time among them.
  `--parallel=${processes}`,
  `--timings=${TIMINGS}`,
  ...left.map((file) => `--path-ignore-patterns=${file}`),
];
const child = spawn(tool("bun"), ["test", ...args, ...given], { cwd: ROOT, stdio: ["ignore", "inherit", "pipe"] });
let summary = "";
child.stderr.on("data", (chunk) => {
  process.stderr.write(chunk);
  summary = (summary + chunk).slice(-20_000);
});
child.on("close", (code) => {
  const count = (word) => Number(summary.match(new RegExp(`^ *(\\d+) ${word}$`, "m"))?.[1] ?? 0);
  const failed = count("fail");
  const errors = failed === 0 && code !== 0 ? 1 : 0;
  const skipped = count("skip");
  if (left.length > 0 && named.length === 0) {
    process.stdout.write(`Not run, since they take minutes: ${left.join(", ")}. CI=true or their names run them.\n`);
  }
  process.stdout.write(`${count("pass")} passed, ${failed + errors} failed${skipped ? `, ${skipped} skipped` : ""}\n`);
  process.exitCode = code ?? 1;
});
