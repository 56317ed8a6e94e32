/** Runs the real command line of a host, as a process of its own, with scripted models. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import type { FileEntry } from "@mariozechner/pi-coding-agent";
import { type PiFolders, writeSettings } from "./folders.ts";
import { HOST_PATHS, type Host, supportPath } from "./host-paths.ts";
import { bundledProduct } from "./product.ts";
import { modelsOf, SCRIPTED_PROVIDER, type Script, type ScriptedRequest, withoutSystem } from "./script.ts";

export { createFolders, type PiFolders } from "./folders.ts";
export { HOSTS, type Host, PRODUCT_ENTRY, supportPath } from "./host-paths.ts";
export { bundledProduct } from "./product.ts";

export interface PiOptions {
  /** Folders to run in, made by `createFolders`; sharing them is how a second process finds the session of the first. */
  folders: PiFolders;
  /** Prompts and commands, in this order. */
  prompts: string[];
  script: Script;
  /** Keys of pi's settings file, such as `contextPrune`. Without them an existing file stays as it is. */
  settings?: Record<string, unknown>;
  /** The extension under test, or `false` for none; the product in one file if missing, `PRODUCT_ENTRY` for its modules. */
  product?: string | false;
  /** Further extensions by path, loaded after it. */
  extensions?: string[];
  /** `"continue"` goes on with the folder's latest session, a path with that file, `"none"` keeps no file. */
  session?: "continue" | "none" | (string & {});
  /** `json` prints every event as a line. */
  mode?: "text" | "json";
  /** Further arguments of the command line. */
  args?: string[];
  /** Further environment variables, for extensions such as `slow-handler.ts`. */
  env?: Record<string, string>;
  /** Lets the newer host read the working folder's `.pi`; the older one always does. */
  trustProject?: boolean;
  /** The session file may hold lines that are no JSON; `entries` leaves them out. */
  damaged?: boolean;
  /** After so long the process is killed, and `code` is null. */
  timeoutMs?: number;
  /** Kills the process, as a crash would, once it has sent so many requests. */
  killAfterRequests?: number;
}

export interface PiRun {
  /** Exit code, or null when the process was killed. */
  code: number | null;
  stdout: string;
  stderr: string;
  /** The requests of this process in order, those of background models included. */
  requests: ScriptedRequest[];
  /** The session file that was written to, if any. */
  sessionFile: string | undefined;
  /** The lines of that file, header first. */
  entries: FileEntry[];
  /** The lines of standard output in `json` mode. */
  events: Record<string, unknown>[];
  /** Milliseconds that the process took. */
  elapsedMs: number;
}

/** Runs `pi` in print mode until it exits, and gathers what it said, sent and stored. */
export async function runPi(host: Host, options: PiOptions): Promise<PiRun> {
  const { folders } = options;
  if (options.settings || !existsSync(join(folders.agentDir, "settings.json")))
    writeSettings(folders, options.settings);
  const scratch = mkdtempSync(join(folders.root, "run-"));
  const scriptFile = join(scratch, "script.json");
  const requestsFile = join(scratch, "requests.jsonl");
  writeFileSync(scriptFile, JSON.stringify(options.script));

  const startedAt = performance.now();
  const child = spawn(HOST_PATHS[host].node, [HOST_PATHS[host].cli, ...commandLine(host, options)], {
    cwd: folders.cwd,
    env: {
      // Nothing of the test's own environment reaches the process: no keys, no proxies, no settings.
      PATH: searchPath(host),
      HOME: folders.home,
      TERM: "dumb",
      NO_COLOR: "1",
      PI_OFFLINE: "1",
      PI_CODING_AGENT_DIR: folders.agentDir,
      SCRIPTED_MODEL_FILE: scriptFile,
      SCRIPTED_MODEL_REQUESTS: requestsFile,
      ...options.env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const kill = () => child.kill("SIGKILL");
  const timer = setTimeout(kill, options.timeoutMs ?? 45_000);
  const { killAfterRequests } = options;
  const watch = setInterval(() => {
    if (killAfterRequests !== undefined && readRequests(requestsFile).length >= killAfterRequests) kill();
  }, 10);
  const [stdout, stderr, code] = await Promise.all([
    collect(child.stdout),
    collect(child.stderr),
    new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", resolve);
    }),
  ]).finally(() => {
    clearTimeout(timer);
    clearInterval(watch);
  });
  const elapsedMs = performance.now() - startedAt;

  const sessionFile = latestSession(folders.sessionDir);
  return {
    code,
    stdout,
    stderr,
    requests: readRequests(requestsFile),
    sessionFile,
    entries: sessionFile ? readEntries(sessionFile, options.damaged) : [],
    events: options.mode === "json" ? parseLines<Record<string, unknown>>(stdout) : [],
    elapsedMs,
  };
}

function readEntries(file: string, damaged = false): FileEntry[] {
  const text = readFileSync(file, "utf8");
  const lines = damaged ? text.split("\n").filter(isJson).join("\n") : text;
  return parseLines<FileEntry>(lines);
}

function isJson(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

/** Parses text with one JSON value a line; a line that is none fails, naming itself. */
export function parseLines<T>(text: string): T[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      try {
        return JSON.parse(line) as T;
      } catch (error) {
        throw new Error(`Not a line of JSON: ${line.slice(0, 200)}`, { cause: error });
      }
    });
}

function commandLine(host: Host, options: PiOptions): string[] {
  const odd = options.prompts.find((prompt) => /^[-@]/.test(prompt));
  if (odd !== undefined) throw new Error(`The command line takes "${odd}" for an option or a file`);
  const product = options.product ?? bundledProduct();
  const extensions = [supportPath("scripted-model.ts"), ...(product ? [product] : []), ...(options.extensions ?? [])];
  const session =
    options.session === "continue"
      ? ["--continue"]
      : options.session === "none"
        ? ["--no-session"]
        : options.session
          ? ["--session", options.session]
          : [];
  return [
    ...(options.mode === "json" ? ["--mode", "json"] : []),
    ...["--provider", SCRIPTED_PROVIDER, "--model", modelsOf(options.script)[0].id],
    ...["--session-dir", options.folders.sessionDir],
    ...session,
    ...(options.trustProject && host === "new" ? ["--approve"] : []),
    ...extensions.flatMap((path) => ["-e", path]),
    ...(options.args ?? []),
    ...["-p", ...options.prompts],
  ];
}

/** The newer host's tools find its own Node first, as they would if it had been installed that way. */
function searchPath(host: Host): string {
  const path = process.env.PATH ?? "";
  const { node } = HOST_PATHS[host];
  return node === "node" ? path : `${dirname(node)}${delimiter}${path}`;
}

/** The requests that were recorded so far; a line that is still being written does not count. */
function readRequests(file: string): ScriptedRequest[] {
  if (!existsSync(file)) return [];
  const text = readFileSync(file, "utf8");
  const lines = parseLines<Omit<ScriptedRequest, "messages">>(text.slice(0, text.lastIndexOf("\n") + 1));
  return lines.map((line) => ({ ...line, messages: withoutSystem(line.transcript) }));
}

async function collect(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

function latestSession(sessionDir: string): string | undefined {
  const files = readdirSync(sessionDir, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => join(sessionDir, name));
  return files.toSorted((a, b) => statSync(a).mtimeMs - statSync(b).mtimeMs).at(-1);
}
