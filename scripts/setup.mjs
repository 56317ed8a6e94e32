/**
 * Installs what the tests and the demo need: this package's own dependencies, and the newer host with a Node of its own
 * in `test/hosts/pi-1.6`. Uses nothing but Node and npm, and does nothing where all is up to date.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../", import.meta.url));
const FOLDERS = [ROOT, join(ROOT, "test/hosts/pi-1.6")];

/** Runs a command with the terminal's own output; ends this process where it fails. */
export function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { cwd: ROOT, stdio: "inherit", ...options });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

/** Path of an installed command line tool. */
export function tool(name) {
  return join(ROOT, "node_modules/.bin", process.platform === "win32" ? `${name}.cmd` : name);
}

/** Installs what is missing or has changed since the last time, in these folders. */
export function setUp(folders = FOLDERS) {
  for (const folder of folders) install(folder);
}

function install(folder) {
  const lock = readFileSync(join(folder, "package-lock.json"));
  const wanted = createHash("sha256").update(lock).digest("hex");
  const stamp = join(folder, "node_modules/.pi-condense-setup");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
  process.stderr.write(`Installing the packages of ${folder}\n`);
  // The newer host asks for a newer Node than may be at hand; it runs on the one that is installed beside it.
  run("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: folder,
    shell: process.platform === "win32",
  });
  writeFileSync(stamp, wanted);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) setUp();
