/**
 * Sets up, runs every test and ends with the line `N passed, N failed`. Arguments go to `bun test`, so that
 * `npm test -- src/flush.test.ts` runs one file.
 */
import { spawn } from "node:child_process";
import { ROOT, setUp, tool } from "./setup.mjs";

setUp();
const child = spawn(tool("bun"), ["test", ...process.argv.slice(2)], {
  cwd: ROOT,
  stdio: ["ignore", "inherit", "pipe"],
});
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
  process.stdout.write(`${count("pass")} passed, ${failed + errors} failed${skipped ? `, ${skipped} skipped` : ""}\n`);
  process.exitCode = code ?? 1;
});
