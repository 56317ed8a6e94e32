/** A git server on this machine that serves one repository. */
import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { copyCheckout } from "./checkout.ts";

const run = promisify(execFile);
const HOST = "127.0.0.1";
const WAIT_MS = 20_000;

/** Why there can be no such server here, or `undefined`. */
export function missingGitServer(): string | undefined {
  const { status } = spawnSync("git", ["--version"]);
  if (status !== 0) return "git is not installed";
  return existsSync(daemon()) ? undefined : "git daemon is not installed";
}

/** The program itself: a signal to `git daemon` may not reach it. */
function daemon(): string {
  const { stdout } = spawnSync("git", ["--exec-path"], { encoding: "utf8" });
  return join(stdout.trim(), "git-daemon");
}

/** One running server. It must be stopped, also when a test fails. */
export class GitServer {
  /** Variables that keep the settings of the user and of the system away. */
  static readonly ENVIRONMENT = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", GIT_TERMINAL_PROMPT: "0" };

  private constructor(
    /** Address of the repository, as `git clone` takes it. */
    readonly address: string,
    private readonly process: ChildProcess,
    private readonly place: string,
  ) {}

  /**
   * Serves the files of the working tree in one commit.
   * @param name path of the repository on the server
   */
  static async start(name: string): Promise<GitServer> {
    const place = mkdtempSync(join(tmpdir(), "pi-condense-git-"));
    const work = join(place, "work");
    const bare = join(place, "served", name);
    copyCheckout(work);
    await git("init", "--quiet", work);
    await commitAll(work);
    await git("clone", "--quiet", "--bare", work, bare);
    await git("-C", work, "remote", "add", "origin", bare);

    const port = await freePort();
    const args = ["--export-all", `--base-path=${join(place, "served")}`, `--listen=${HOST}`, `--port=${port}`];
    const server = new GitServer(`git://${HOST}:${port}/${name}`, spawn(daemon(), args, { stdio: "ignore" }), place);
    try {
      await answers(port);
    } catch (error) {
      server.stop();
      throw error;
    }
    return server;
  }

  /** Adds a file to the repository. */
  async commit(file: string): Promise<void> {
    const work = join(this.place, "work");
    writeFileSync(join(work, file), "\n");
    await commitAll(work);
    await git("-C", work, "push", "--quiet", "origin", "HEAD");
  }

  stop(): void {
    this.process.kill();
    rmSync(this.place, { recursive: true, force: true });
  }
}

function git(...args: string[]): Promise<unknown> {
  return run("git", args, { env: { ...process.env, ...GitServer.ENVIRONMENT } });
}

async function commitAll(work: string): Promise<void> {
  await git("-C", work, "add", "--all");
  const author = ["-c", "user.name=pi-condense", "-c", "user.email=tests@localhost"];
  await git("-C", work, ...author, "commit", "--quiet", "--message=The working tree");
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, HOST, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

async function answers(port: number): Promise<void> {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const connected = await new Promise<boolean>((resolve) => {
      const socket = connect(port, HOST, () => resolve(true));
      socket.once("error", () => resolve(false));
      socket.once("connect", () => socket.destroy());
    });
    if (connected) return;
    if (Date.now() > deadline) throw new Error(`the git server does not answer on port ${port}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
