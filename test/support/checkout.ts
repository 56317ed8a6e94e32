/** Copies of the working tree, for what writes into its checkout or needs one of its own. */
import { spawnSync } from "node:child_process";
import { cpSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { REPOSITORY } from "./host-paths.ts";

/** Folders that are large and installed by the setup. */
const PACKAGES = ["node_modules", "test/hosts/pi-1.6/node_modules"];

/** Copies the working tree without its history and its packages. */
export function copyCheckout(target: string): void {
  cpSync(REPOSITORY, target, {
    recursive: true,
    filter: (source) => ![".git", "node_modules"].includes(basename(source)),
  });
}

/** A copy that has been set up: it uses the packages of the original. */
export function copySetUpCheckout(target: string): void {
  // With all packages up to date no command in the copy installs any, which would write into the original's folders.
  const { status, stderr } = spawnSync("node", ["scripts/setup.mjs"], { cwd: REPOSITORY, encoding: "utf8" });
  if (status !== 0) throw new Error(`the setup failed: ${stderr}`);
  copyCheckout(target);
  for (const folder of PACKAGES) symlinkSync(join(REPOSITORY, folder), join(target, folder), "junction");
}

/** The environment of this process as a user has it, without what npm adds for the scripts that it runs. */
export function userEnvironment(): Record<string, string | undefined> {
  const entries = Object.entries(process.env).filter(
    ([name]) => !/^npm_(?!config_(cache|registry|userconfig)$)|^INIT_CWD$/i.test(name),
  );
  return Object.fromEntries(entries);
}
