/** Where the two hosts are installed. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** `old` is `@mariozechner/pi-coding-agent` 0.73, `new` is `@earendil-works/pi-coding-agent` 1.6. */
export type Host = "old" | "new";

/** To run a suite on both: `for (const host of HOSTS) describe(host, …)`. */
export const HOSTS: readonly Host[] = ["old", "new"];

export const REPOSITORY = fileURLToPath(new URL("../../", import.meta.url));

/** The extension as pi loads it. */
export const PRODUCT_ENTRY = join(REPOSITORY, "index.ts");

const NEW_MODULES = join(REPOSITORY, "test/hosts/pi-1.6/node_modules");
const OLD_SCOPE = join(REPOSITORY, "node_modules/@mariozechner");
const NEW_SCOPE = join(NEW_MODULES, "@earendil-works");

interface HostPaths {
  /** Entry of the coding agent as a library. */
  library: string;
  /** Entry of pi-ai with the functions that extensions see. */
  ai: string;
  /** Command line entry, to be run by `node`. */
  cli: string;
  /** The Node that the host runs on: the one on the path, or the one installed next to the newer host. */
  node: string;
}

export const HOST_PATHS: Readonly<Record<Host, HostPaths>> = {
  old: {
    library: join(OLD_SCOPE, "pi-coding-agent/dist/index.js"),
    ai: join(OLD_SCOPE, "pi-ai/dist/index.js"),
    cli: join(OLD_SCOPE, "pi-coding-agent/dist/cli.js"),
    node: "node",
  },
  new: {
    library: join(NEW_SCOPE, "pi-coding-agent/dist/index.js"),
    ai: join(NEW_SCOPE, "pi-ai/dist/compat.js"),
    cli: join(NEW_SCOPE, "pi-coding-agent/dist/bundle/cli.js"),
    node: join(NEW_MODULES, "node/bin/node"),
  },
};

/** Path of a file in `test/support`, for extensions that are loaded by path. */
export function supportPath(name: string): string {
  return join(REPOSITORY, "test/support", name);
}
