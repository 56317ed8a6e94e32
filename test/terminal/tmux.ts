/** A host in a real terminal: started in tmux, fed with keys, read back as text. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { type PiFolders, writeSettings } from "../support/folders.ts";
import { HOST_PATHS, type Host, supportPath } from "../support/host-paths.ts";
import { parseLines } from "../support/print-mode.ts";
import { bundledProduct } from "../support/product.ts";
import { modelsOf, SCRIPTED_PROVIDER, type Script, type ScriptedRequest, withoutSystem } from "../support/script.ts";

export interface TerminalOptions {
  folders: PiFolders;
  script: Script;
  /** Keys of pi's settings file, such as `contextPrune` or `theme`. */
  settings?: Record<string, unknown>;
  columns?: number;
  rows?: number;
  /** Session file to go on with. */
  session?: string;
  args?: string[];
  /** The extension by path; in one file if missing. */
  product?: string;
  /** Further extensions by path. */
  extensions?: string[];
}

/** Why these tests cannot run here, or `undefined`. */
export function missingTmux(): string | undefined {
  const { status } = spawnSync("tmux", ["-V"]);
  return status === 0 ? undefined : "tmux is not installed";
}

/** One running host. It must be stopped, also when a test fails. */
export class Terminal {
  private readonly socket: string;
  private readonly requestsFile: string;

  constructor(
    readonly host: Host,
    options: TerminalOptions,
  ) {
    const { folders } = options;
    if (options.settings || !existsSync(join(folders.agentDir, "settings.json")))
      writeSettings(folders, options.settings);
    const scratch = mkdtempSync(join(folders.root, "terminal-"));
    const scriptFile = join(scratch, "script.json");
    this.requestsFile = join(scratch, "requests.jsonl");
    // A server of its own: no other session, and no configuration of the user, has a part in the test.
    this.socket = join(scratch, "tmux");
    writeFileSync(scriptFile, JSON.stringify(options.script));
    const { node, cli } = HOST_PATHS[host];
    const product = options.product ?? bundledProduct();
    const path = process.env.PATH ?? "";
    const environment = {
      PATH: node === "node" ? path : `${dirname(node)}${delimiter}${path}`,
      HOME: folders.home,
      TERM: "tmux-256color",
      COLORTERM: "truecolor",
      LANG: "C.UTF-8",
      PI_OFFLINE: "1",
      PI_CODING_AGENT_DIR: folders.agentDir,
      SCRIPTED_MODEL_FILE: scriptFile,
      SCRIPTED_MODEL_REQUESTS: this.requestsFile,
    };
    const extensions = [supportPath("scripted-model.ts"), product, ...(options.extensions ?? [])];
    const command = [
      "env",
      "-i",
      ...Object.entries(environment).map(([name, value]) => `${name}=${value}`),
      node,
      cli,
      ...["--provider", SCRIPTED_PROVIDER, "--model", modelsOf(options.script)[0].id],
      ...["--session-dir", folders.sessionDir],
      ...(options.session ? ["--session", options.session] : []),
      ...extensions.flatMap((extension) => ["-e", extension]),
      ...(options.args ?? []),
    ];
    const size = ["-x", String(options.columns ?? 100), "-y", String(options.rows ?? 40)];
    this.tmux("-f", "/dev/null", "new-session", "-d", ...size, "-c", folders.cwd, command.map(quoted).join(" "));
    this.tmux("set-option", "-g", "remain-on-exit", "on");
    // A lone Escape must not wait for what might follow it.
    this.tmux("set-option", "-s", "escape-time", "0");
  }

  /** What is on the screen now; with `colors`, its colours too. */
  screen(options: { colors?: boolean } = {}): string {
    return this.tmux("capture-pane", "-p", ...(options.colors ? ["-e", "-N"] : []));
  }

  /** Waits until the screen shows the text or matches the pattern, and gives it. */
  async see(what: string | RegExp, timeoutMs = 20_000): Promise<string> {
    return this.until(
      (screen) => (typeof what === "string" ? screen.includes(what) : what.test(screen)),
      String(what),
      timeoutMs,
    );
  }

  /** Waits until the screen no longer shows the text. */
  async gone(what: string, timeoutMs = 20_000): Promise<string> {
    return this.until((screen) => !screen.includes(what), `no ${what}`, timeoutMs);
  }

  async until(condition: (screen: string) => boolean, what: string, timeoutMs: number): Promise<string> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const screen = this.screen();
      if (condition(screen)) return screen;
      if (Date.now() > deadline) throw new Error(`Not seen within ${timeoutMs} ms: ${what}. The screen:\n${screen}`);
      await pause(50);
    }
  }

  /** Presses keys by tmux's names: `Enter`, `Escape`, `Down`, `C-o`, `d`. */
  async press(...keys: string[]): Promise<void> {
    for (const key of keys) {
      this.tmux("send-keys", key);
      await pause(120);
    }
  }

  async type(text: string): Promise<void> {
    this.tmux("send-keys", "-l", text);
    await pause(150);
  }

  /** Types a line and enters it; a popup of completions, which would take the Enter, is closed first. */
  async submit(line: string): Promise<void> {
    await this.type(line);
    if (line.startsWith("/")) {
      await pause(250);
      await this.press("Escape");
    }
    await this.press("Enter");
  }

  resize(columns: number, rows: number): void {
    this.tmux("resize-window", "-x", String(columns), "-y", String(rows));
  }

  /** Requests that the scripted models have got so far. */
  requests(): ScriptedRequest[] {
    if (!existsSync(this.requestsFile)) return [];
    const text = readFileSync(this.requestsFile, "utf8");
    const lines = parseLines<Omit<ScriptedRequest, "messages">>(text.slice(0, text.lastIndexOf("\n") + 1));
    return lines.map((line) => ({ ...line, messages: withoutSystem(line.transcript) }));
  }

  stop(): void {
    spawnSync("tmux", ["-S", this.socket, "kill-server"]);
  }

  private tmux(...args: string[]): string {
    const { status, stdout, stderr } = spawnSync("tmux", ["-S", this.socket, ...args], { encoding: "utf8" });
    if (status !== 0) throw new Error(`tmux ${args.join(" ")}: ${stderr}`);
    return stdout;
  }
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Submits each prompt and waits until the last of its replies stands on the screen, and then so many milliseconds more. */
export async function play(
  terminal: Terminal,
  turns: readonly { prompt: string; replies: readonly { text?: string }[] }[],
  pauseMs: number,
): Promise<void> {
  for (const { prompt, replies } of turns) {
    await terminal.submit(prompt);
    await terminal.see(replies.at(-1)?.text?.slice(0, 24) ?? "", 30_000);
    await pause(pauseMs);
  }
}
