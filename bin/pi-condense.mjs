#!/usr/bin/env node
/**
 * The command line. It loads the extension's own TypeScript. The replay needs no host: the one package that a host
 * supplies and the replay uses at run time is `typebox`, which comes under another name, since a host takes a dependency
 * on it amiss. The trial asks a model, which it does through the pi that is installed.
 */
import { fileURLToPath } from "node:url";
import { createJiti } from "jiti";
import { findHost, loadHost } from "./host.mjs";

/** The entries of typebox that a host supplies. */
const ENTRIES = ["typebox/compile", "typebox/value", "typebox"];

const standalone = (name) => fileURLToPath(import.meta.resolve(name.replace("typebox", "typebox-standalone")));
const load = (module, virtualModules = {}) =>
  createJiti(import.meta.url, {
    alias: Object.fromEntries(ENTRIES.map((name) => [name, standalone(name)])),
    virtualModules,
  }).import(module);

const [command, ...args] = process.argv.slice(2);
const terminal = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  errIsTty: process.stderr.isTTY === true,
};

/** The trial's program is loaded with a host; its help needs none. */
async function trial() {
  if (args.includes("--help") || args.includes("-h")) {
    terminal.out((await load("../src/trial/arguments.ts")).USAGE);
    return 0;
  }
  const at = args.findIndex((arg) => arg === "--pi" || arg.startsWith("--pi="));
  const found = findHost(at < 0 ? undefined : (args[at].split("=")[1] ?? args[at + 1] ?? ""));
  if (found.problem !== undefined) {
    terminal.err(`${found.problem}\n`);
    return 2;
  }
  const modules = await loadHost(found);
  const { main } = await load("../src/trial/cli.ts", modules);
  const { bindHost } = await load("../src/trial/host.ts", modules);
  return main(args, { ...terminal, in: process.stdin, host: bindHost() });
}

// A reader that has seen enough (`| head`) closes the pipe, which is no error.
process.stdout.on("error", (error) => process.exit(error.code === "EPIPE" ? 0 : 1));
if (command === "trial") process.exitCode = await trial();
else {
  const { main } = await load("../src/replay/cli.ts");
  process.exitCode = await main(process.argv.slice(2), terminal);
}
