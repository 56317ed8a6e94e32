/** The limit of time that a test has by default holds in every file, not only in the first of a process. */
import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { REPOSITORY } from "./host-paths.ts";

const SLOW_TEST = `import { test } from "bun:test";
test("waits", () => new Promise((resolve) => setTimeout(resolve, 900)));
`;

test("a test that takes too long fails in each of several files", () => {
  const folder = mkdtempSync(join(tmpdir(), "pi-condense-time-limit-"));
  try {
    const files = ["first", "second", "third"].map((name) => join(folder, `${name}.test.ts`));
    for (const file of files) writeFileSync(file, SLOW_TEST);
    // All of them in one process.
    const args = ["scripts/test.mjs", "--parallel=1", ...files];
    const env = { ...process.env, TEST_TIMEOUT_MS: "300", PROPERTY_RUNS: "1" };
    const { status, stdout, stderr } = spawnSync("node", args, { cwd: REPOSITORY, encoding: "utf8", env });
    expect(stderr.match(/timed out after 300ms/g)).toHaveLength(files.length);
    expect(stdout).toEndWith("0 passed, 3 failed\n");
    expect(status).toBe(1);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
