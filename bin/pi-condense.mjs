#!/usr/bin/env node
/**
 * The command line. It loads the extension's own TypeScript, and needs no host: the one package that a host supplies and
 * the replay uses at run time is `typebox`, which comes under another name, since a host takes a dependency on it amiss.
 */
import { fileURLToPath } from "node:url";
import { createJiti } from "jiti";

/** The entries of typebox that a host supplies. */
const ENTRIES = ["typebox/compile", "typebox/value", "typebox"];

const standalone = (name) => fileURLToPath(import.meta.resolve(name.replace("typebox", "typebox-standalone")));
const jiti = createJiti(import.meta.url, {
  alias: Object.fromEntries(ENTRIES.map((name) => [name, standalone(name)])),
});
const { main } = await jiti.import("../src/replay/cli.ts");

// A reader that has seen enough (`| head`) closes the pipe, which is no error.
process.stdout.on("error", (error) => process.exit(error.code === "EPIPE" ? 0 : 1));
process.exitCode = await main(process.argv.slice(2), {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  errIsTty: process.stderr.isTTY === true,
});
