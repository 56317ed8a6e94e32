/** Says what it will install, sets up and runs the demo; `--host 1.6` takes the newer host. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ROOT, run, setUp, tool } from "./setup.mjs";

/** Folders of packages by host, and what they hold in megabytes once they are installed. */
const OWN = { path: ".", megabytes: 460 };
const NEWER = { path: "test/hosts/pi-1.6", megabytes: 360 };
const FOLDERS = { 0.73: [OWN], "0.73.1": [OWN], 1.6: [OWN, NEWER], "1.6.0": [OWN, NEWER] };

const args = process.argv.slice(2);
const at = args.findIndex((arg) => arg === "--host" || arg.startsWith("--host="));
const host = at < 0 ? "0.73" : (args[at].split("=")[1] ?? args[at + 1] ?? "");
const folders = FOLDERS[host];
if (!folders || args.length > 2) {
  process.stderr.write("Usage: npm run demo [-- --host 0.73|1.6]\n");
  process.exit(2);
}
const missing = folders.filter(({ path }) => !existsSync(join(ROOT, path, "node_modules")));
if (missing.length > 0) {
  const size = missing.reduce((sum, { megabytes }) => sum + megabytes, 0);
  process.stdout.write(`The demo first installs the packages that it needs: about ${size} MB, below ${ROOT}.\n`);
  process.stdout.write("They are removed with that folder. Ctrl-C ends it.\n");
}
setUp(folders.map(({ path }) => join(ROOT, path)));
run(tool("bun"), ["scripts/demo.ts", "--host", host]);
