/** The extension in one file, made of what stands in the working tree now. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { renameSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HOST_PATHS, type Host, PRODUCT_ENTRY, REPOSITORY } from "./host-paths.ts";

const FOLDER = join(REPOSITORY, "node_modules/.cache/pi-condense-tests");
/** A host gives its own libraries only to what it does not take for an installed module. One folder a checkout. */
const OUTSIDE = join(
  tmpdir(),
  `pi-condense-tests-${createHash("sha256").update(REPOSITORY).digest("hex").slice(0, 8)}`,
);
/** What the hosts supply. */
const SUPPLIED = ["@mariozechner/*", "typebox", "typebox/*"];

const made = new Set<string>();

/**
 * For a host that is a process of its own. It takes a second to load all of the modules one by one, each time it starts;
 * where that is not what a test is about, it is given this.
 */
export function bundledProduct(): string {
  const path = join(OUTSIDE, "product.js");
  if (made.has(path)) return path;
  const fresh = `${path}.${process.pid}.js`;
  const external = SUPPLIED.map((name) => `--external=${name}`);
  const args = ["build", PRODUCT_ENTRY, "--target=node", ...external, `--outfile=${fresh}`];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: REPOSITORY, encoding: "utf8" });
  if (status !== 0) throw new Error(`the extension could not be bundled: ${stderr}`);
  return put(fresh, path);
}

/**
 * For a session in this process. Here modules are loaded without the aliases by which the newer host gives extensions its
 * own libraries, so that it gets a file which imports them by their paths.
 */
export async function productInProcess(host: Host): Promise<string> {
  if (host === "old") return PRODUCT_ENTRY;
  const path = join(FOLDER, "product-1.6.js");
  if (made.has(path)) return path;
  const fresh = `${path}.${process.pid}.js`;
  const supplied: Bun.BunPlugin = {
    name: "what the newer host supplies",
    setup: (build) => {
      const filter = /^(?:@mariozechner\/|typebox(?:\/|$))/;
      build.onResolve({ filter }, ({ path: name }) => ({ path: suppliedByNew(name), external: true }));
    },
  };
  const { success, logs } = await Bun.build({
    ...{ entrypoints: [PRODUCT_ENTRY], target: "bun", outdir: FOLDER, naming: fresh.slice(FOLDER.length + 1) },
    plugins: [supplied],
  });
  if (!success) throw new Error(`the extension could not be bundled: ${logs.join("\n")}`);
  return put(fresh, path);
}

/** As its loader has it: extensions see a pi-ai that holds what earlier ones did. */
function suppliedByNew(name: string): string {
  const { library } = HOST_PATHS.new;
  if (name === "@mariozechner/pi-coding-agent") return library;
  if (name === "@mariozechner/pi-ai") return join(library, "../core/extensions/pi-ai-extension-view.js");
  return Bun.resolveSync(name.replace("@mariozechner/", "@earendil-works/"), library);
}

/** Other processes of the tests read the same file. */
function put(fresh: string, path: string): string {
  renameSync(fresh, path);
  made.add(path);
  return path;
}
