/** Sets up and runs the demo; `--host 1.6` takes the newer host. */
import { run, setUp, tool } from "./setup.mjs";

setUp();
run(tool("bun"), ["scripts/demo.ts", ...process.argv.slice(2)]);
