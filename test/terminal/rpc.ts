/** A host in RPC mode: prompts in, lines of JSON out. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { type PiFolders, writeSettings } from "../support/folders.ts";
import { HOST_PATHS, type Host, supportPath } from "../support/host-paths.ts";
import { bundledProduct } from "../support/product.ts";
import { modelsOf, SCRIPTED_PROVIDER, type Script } from "../support/script.ts";

const WAIT_MS = 30_000;

interface RpcLine {
  type: string;
  id?: string;
  command?: string;
  method?: string;
  message?: unknown;
}

export interface RpcOptions {
  folders: PiFolders;
  script: Script;
  settings?: Record<string, unknown>;
}

/** One process. It must be stopped, also when a test fails. */
export class RpcSession {
  /** Lines of standard output that are no JSON objects. */
  readonly unparsable: string[] = [];
  readonly lines: RpcLine[] = [];
  private readonly child: ChildProcessWithoutNullStreams;
  private rest = "";
  private sent = 0;

  constructor(host: Host, { folders, script, settings }: RpcOptions) {
    writeSettings(folders, settings);
    const scratch = mkdtempSync(join(folders.root, "rpc-"));
    const scriptFile = join(scratch, "script.json");
    writeFileSync(scriptFile, JSON.stringify(script));
    const { node, cli } = HOST_PATHS[host];
    const path = process.env.PATH ?? "";
    const args = [
      ...["--mode", "rpc", "--provider", SCRIPTED_PROVIDER, "--model", modelsOf(script)[0].id],
      ...["--session-dir", folders.sessionDir, "-e", supportPath("scripted-model.ts"), "-e", bundledProduct()],
    ];
    this.child = spawn(node, [cli, ...args], {
      cwd: folders.cwd,
      env: {
        PATH: node === "node" ? path : `${dirname(node)}${delimiter}${path}`,
        HOME: folders.home,
        PI_OFFLINE: "1",
        PI_CODING_AGENT_DIR: folders.agentDir,
        SCRIPTED_MODEL_FILE: scriptFile,
        SCRIPTED_MODEL_REQUESTS: join(scratch, "requests.jsonl"),
      },
    });
    this.child.stdout.setEncoding("utf8");
    this.child.stdout.on("data", (chunk: string) => this.take(chunk));
  }

  /** Prompts and waits until the agent is done. */
  async prompt(message: string): Promise<void> {
    const from = this.lines.length;
    await this.command(message);
    await this.until(() => this.lines.slice(from).some(({ type }) => type === "agent_end"), `the end of "${message}"`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }

  /** Runs a command of an extension and waits for the response. */
  async command(message: string): Promise<void> {
    this.sent += 1;
    const id = `test-${this.sent}`;
    this.child.stdin.write(`${JSON.stringify({ id, type: "prompt", message })}\n`);
    await this.until(() => this.lines.some((line) => line.type === "response" && line.id === id), `"${message}"`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }

  /** What notices have said, in order. */
  notices(): string[] {
    return this.requested("notify").map(({ message }) => String(message));
  }

  /** Requests to the user interface of one kind. */
  requested(method: string): RpcLine[] {
    return this.lines.filter((line) => line.type === "extension_ui_request" && line.method === method);
  }

  stop(): void {
    this.child.kill("SIGKILL");
  }

  private take(chunk: string): void {
    const parts = (this.rest + chunk).split("\n");
    this.rest = parts.pop() ?? "";
    for (const part of parts) {
      try {
        this.lines.push(JSON.parse(part));
      } catch {
        this.unparsable.push(part);
      }
    }
  }

  private async until(condition: () => boolean, what: string): Promise<void> {
    const deadline = Date.now() + WAIT_MS;
    while (!condition()) {
      if (Date.now() > deadline) throw new Error(`No answer within ${WAIT_MS} ms to ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
