/**
 * Fails where a module imports one that stands above it. The floors are those of the table in `AGENTS.md`: imports go to
 * a lower floor, or to a module further left on the same one; inside a folder they are free. Type-only imports count,
 * tests do not.
 */
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
/** `import … from "./x.js"`, `export … from "./x.js"`, `import "./x.js"` and `import("./x.js")`. */
const IMPORTS = /^(?:import|export)\s[^;"]*?\sfrom\s+"(\.[^"]+)"|^import\s+"(\.[^"]+)"|\bimport\("(\.[^"]+)"\)/gm;

/** A module, or a folder of them with a slash at its end, at its place in the table. */
interface Place {
  name: string;
  floor: number;
}

const places = readTable(readFileSync(posix.join(ROOT, "AGENTS.md"), "utf8"));
const modules = ["index.ts", ...listModules("src")];
const problems = [...strayNames(), ...modules.flatMap(check)];
for (const problem of problems) process.stderr.write(`${problem}\n`);
if (problems.length > 0) process.exitCode = 1;

/** The modules of the table from the ground up, each floor from left to right. */
function readTable(document: string): Place[] {
  const rows = [...document.matchAll(/^\| (\d+) \| ([^|]+) \|/gm)];
  const floors = rows.map(([, floor, cell]) => ({ floor: Number(floor), cell: cell ?? "" }));
  return floors
    .sort((a, b) => a.floor - b.floor)
    .flatMap(({ floor, cell }) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => ({ name: name ?? "", floor })));
}

function listModules(folder: string): string[] {
  const files = readdirSync(posix.join(ROOT, folder), { recursive: true, encoding: "utf8" });
  return files
    .map((file) => posix.join(folder, file.replaceAll("\\", "/")))
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
    .sort();
}

/** Names of the table that name nothing, or stand there twice. */
function strayNames(): string[] {
  return places.flatMap(({ name }, index) => {
    if (places.findIndex((place) => place.name === name) < index) return [`AGENTS.md lists ${name} twice`];
    const exists = name.endsWith("/") ? modules.some((file) => file.startsWith(name)) : modules.includes(name);
    return exists ? [] : [`AGENTS.md lists ${name}, which does not exist`];
  });
}

function check(file: string): string[] {
  const own = placeOf(file);
  if (own < 0) return [`${file} has no floor: add it to the table in AGENTS.md`];
  return importsOf(file).flatMap((imported) => {
    const other = placeOf(imported);
    if (other < 0 || other <= own) return [];
    const { floor } = places[other] ?? {};
    const direction = floor === places[own]?.floor ? `further right on floor ${floor}` : `above it, on floor ${floor}`;
    return [`${file} (floor ${places[own]?.floor}) imports ${imported}, which stands ${direction} (see AGENTS.md)`];
  });
}

/** Index into `places`, or -1. A module with a place of its own does not count as one of its folder's. */
function placeOf(file: string): number {
  const own = places.findIndex(({ name }) => name === file);
  return own >= 0 ? own : places.findIndex(({ name }) => name.endsWith("/") && file.startsWith(name));
}

function importsOf(file: string): string[] {
  const text = readFileSync(posix.join(ROOT, file), "utf8");
  const paths = [...text.matchAll(IMPORTS)].map((match) => match[1] ?? match[2] ?? match[3] ?? "");
  return paths.map((path) => posix.join(posix.dirname(file), path.replace(/\.js$/, ".ts")));
}
