/** Finds the pi that is installed, and loads its packages, for the command that asks a model. */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { delimiter, dirname, join, parse, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The packages of a host by what their names end with; the newer one keeps what extensions see in an entry of its own. */
const SCOPES = {
  "@mariozechner/pi-coding-agent": { scope: "@mariozechner", ai: "dist/index.js" },
  "@earendil-works/pi-coding-agent": { scope: "@earendil-works", ai: "dist/compat.js" },
};
const HINT =
  "Install it (npm install -g @earendil-works/pi-coding-agent), or name the folder of its package with --pi FOLDER.";

/**
 * Finds the host's package: in the folder `named`, else by the `pi` on the PATH, else beside this package. Gives
 * `problem`, a sentence for the user, where there is none that can be used.
 */
export function findHost(named) {
  const found = named === undefined ? (onPath() ?? besideUs()) : packageAbove(resolve(named));
  if (found === undefined) {
    const where =
      named === undefined ? "There is no pi on the PATH." : `${named}: this is not the folder of pi's package.`;
    return { problem: `${where} The trial asks models through pi. ${HINT}` };
  }
  // Some package managers link packages, and keep what they need beside the real folder.
  const root = realpathSync(found);
  const { name, version, engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const wanted = /\d+(?:\.\d+)*/.exec(engines?.node ?? "")?.[0];
  if (wanted !== undefined && isOlder(process.versions.node, wanted)) {
    const problem = `pi ${version} needs Node ${wanted} or newer; this is Node ${process.versions.node}.`;
    return { problem: `${problem} Run the trial with a newer one.` };
  }
  const { scope, ai } = SCOPES[name];
  const aiRoot = beside(root, `${scope}/pi-ai`);
  if (aiRoot === undefined) return { problem: `${root}: its package ${scope}/pi-ai is missing. ${HINT}` };
  return { library: join(root, "dist/index.js"), ai: join(aiRoot, ai) };
}

/** The host's modules under the names by which the sources import them. */
export async function loadHost({ library, ai }) {
  return {
    "@mariozechner/pi-coding-agent": await import(pathToFileURL(library).href),
    "@mariozechner/pi-ai": await import(pathToFileURL(ai).href),
  };
}

/** The program may be a link into its package, or a script that a package manager has put in its place. */
function onPath() {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of ["pi", "pi.cmd"]) {
      const file = join(folder, name);
      if (folder === "" || !existsSync(file)) continue;
      const found = packageAbove(dirname(realpathSync(file))) ?? namedIn(file, folder);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

function namedIn(file, folder) {
  // What is larger is no script.
  const text = statSync(file).size < 10_000 ? readFileSync(file, "utf8") : "";
  const path = /(?:\$basedir|%~?dp0%?)[/\\]+([^"'\s]*pi-coding-agent)[/\\]/.exec(text)?.[1];
  return path === undefined ? undefined : packageAbove(join(folder, path.replaceAll("\\", "/")));
}

function besideUs() {
  const here = dirname(fileURLToPath(import.meta.url));
  return Object.keys(SCOPES)
    .map((name) => beside(here, name))
    .find((folder) => folder !== undefined);
}

/** The folder of the host's package that `folder` is or stands in. */
function packageAbove(folder) {
  for (const above of upwards(folder)) {
    const file = join(above, "package.json");
    if (!existsSync(file)) continue;
    const { name } = JSON.parse(readFileSync(file, "utf8"));
    if (name in SCOPES) return above;
  }
  return undefined;
}

/** A package as Node would find it from `folder`. */
function beside(folder, name) {
  return upwards(folder)
    .map((above) => join(above, "node_modules", name))
    .find((path) => existsSync(join(path, "package.json")));
}

function upwards(folder) {
  const folders = [folder];
  for (let at = folder; at !== parse(at).root; at = dirname(at)) folders.push(dirname(at));
  return folders;
}

function isOlder(version, wanted) {
  const parts = (text) => text.split(".").map(Number);
  const [have, need] = [parts(version), parts(wanted)];
  const at = need.findIndex((part, i) => part !== (have[i] ?? 0));
  return at >= 0 && (have[at] ?? 0) < need[at];
}
