/** What is published: it holds what is needed and no more, and works installed, with its command line, on both hosts. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { promisify } from "node:util";
import { extractToolResultText, isToolResult } from "../src/transcript/messages.ts";
import { copyCheckout, userEnvironment } from "./support/checkout.ts";
import { documented, type Invocation, linksIn, readDocument } from "./support/documents.ts";
import { GitServer, missingGitServer } from "./support/git-server.ts";
import { HOST_PATHS, REPOSITORY } from "./support/host-paths.ts";
import { createFolders, HOSTS, type Host, type PiFolders, type PiRun, runPi } from "./support/print-mode.ts";

const TIMEOUT = 180_000;
const run = promisify(execFile);
const FILES = { "notes.md": "The quick brown fox jumps over the lazy dog.\n".repeat(80) };

const opened: PiFolders[] = [];
let place = "";
let packed: string[] = [];
/** The package as npm has unpacked it. */
let installed = "";
/** A checkout of the project as the README says to set it up. */
let checkout = "";

beforeAll(async () => {
  place = realpathSync(mkdtempSync(join(tmpdir(), "pi-condense-pack-")));
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", place], { cwd: REPOSITORY });
  const [report]: { filename: string; files: { path: string }[] }[] = JSON.parse(stdout);
  packed = report?.files.map(({ path }) => path) ?? [];
  writeFileSync(join(place, "package.json"), "{}");
  const tarball = join(place, report?.filename ?? "");
  await run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", tarball], { cwd: place });
  installed = join(place, "node_modules/pi-condense");
  checkout = join(place, "checkout");
  copyCheckout(checkout);
  const [npm, ...args] = documented("npm install --omit=dev").argv;
  await run(npm, args, { cwd: checkout, env: npmEnvironment() });
}, TIMEOUT);

afterAll(() => {
  for (const folders of opened) folders.remove();
  rmSync(place, { recursive: true, force: true });
}, TIMEOUT);

function folders(): PiFolders {
  const made = createFolders(FILES);
  opened.push(made);
  return made;
}

/** What npm needs; what is in its cache, as all of it is once the tests are set up, it does not ask the registry for. */
function npmEnvironment(): Record<string, string | undefined> {
  return { ...userEnvironment(), npm_config_prefer_offline: "true" };
}

/** Runs a command of the host that looks after its packages. */
async function pi(host: Host, { agentDir, cwd }: PiFolders, { argv: [, ...args] }: Invocation): Promise<void> {
  const { node, cli } = HOST_PATHS[host];
  const env = { ...npmEnvironment(), ...GitServer.ENVIRONMENT, PI_CODING_AGENT_DIR: agentDir };
  await run(node, [cli, ...args], { cwd, env });
}

/** Two prompts, of which the first reads a file: the second request carries its stub. */
async function condenses(host: Host, made: PiFolders, product: string | false): Promise<PiRun> {
  const result = await runPi(host, {
    folders: made,
    product,
    prompts: ["look", "and now?"],
    script: {
      replies: [
        { calls: [{ name: "read", arguments: { path: "notes.md" }, id: "call_notes" }] },
        { text: "A fox." },
        { text: "Done." },
      ],
    },
  });
  expect(result).toMatchObject({ code: 0, stderr: "" });
  const [stub] = result.requests.at(-1)?.messages.filter(isToolResult).map(extractToolResultText) ?? [];
  expect(stub).toStartWith("[t1 condensed: read notes.md");
  return result;
}

/** Writes settings that condense what was just read, keeping what `pi install` has put there. */
function useDigest({ agentDir }: PiFolders): void {
  const file = join(agentDir, "settings.json");
  const settings = JSON.parse(readFileSync(file, "utf8"));
  writeFileSync(file, JSON.stringify({ ...settings, contextPrune: { summarizerModel: "none", workingSet: null } }));
}

describe("the package", () => {
  test("holds every module and document, and nothing else", () => {
    const modules = readdirSync(join(REPOSITORY, "src"), { recursive: true, encoding: "utf8" })
      .filter((name) => !name.endsWith(".test.ts") && /\.(ts|css|js)$/.test(name))
      .map((name) => join("src", name));
    const documents = readdirSync(join(REPOSITORY, "doc"));
    const expected = [
      ...modules,
      ...documents.map((name) => join("doc", name)),
      ...readdirSync(join(REPOSITORY, "bin")).map((name) => join("bin", name)),
      ...["index.ts", "package.json", "LICENSE"],
      ...["README.md", "PRUNING.md", "SECURITY.md", "CHANGELOG.md"],
    ];
    expect(packed.toSorted()).toEqual(expected.toSorted());
  });

  test("every file that its documents link to is in it, but for those that are about changing it", () => {
    const documents = packed.filter((name) => name.endsWith(".md"));
    const linked = documents.flatMap((document) =>
      linksIn(document).map(({ text }) => normalize(join(dirname(document), text.replace(/#.*/, "")))),
    );
    const missing = linked.filter((target) => !target.startsWith("https:") && !packed.includes(target));
    expect([...new Set(missing)].toSorted()).toEqual(["AGENTS.md", "CONTRIBUTING.md"]);
  });

  test("has a version that CHANGELOG tells of, with its day", () => {
    const { version } = JSON.parse(readFileSync(join(REPOSITORY, "package.json"), "utf8"));
    const [, newest] = /^## (\d.*)$/m.exec(readDocument("CHANGELOG.md")) ?? [];
    expect(newest).toMatch(/^\d+\.\d+\.\d+ - 20\d\d-\d\d-\d\d$/);
    expect(newest).toStartWith(`${version} - `);
  });

  test(
    "would be taken by the registry",
    async () => {
      const args = ["publish", "--dry-run", "--offline", "--json"];
      const { stdout, stderr } = await run("npm", args, { cwd: REPOSITORY, env: userEnvironment() });
      expect(stdout).toContain("pi-condense@");
      // npm says here what it would have to mend in package.json.
      expect(stderr).not.toContain("auto-corrected");
    },
    TIMEOUT,
  );

  test(
    "its command line replays a session where no host is installed",
    async () => {
      const made = folders();
      writeFileSync(join(made.agentDir, "settings.json"), "{}");
      const { sessionFile } = await runPi("old", {
        folders: made,
        product: false,
        prompts: ["look"],
        script: {
          replies: [{ calls: [{ name: "read", arguments: { path: "notes.md" }, id: "c" }] }, { text: "A fox." }],
        },
      });
      const bin = join(place, "node_modules/.bin/pi-condense");
      const { stdout } = await run(bin, ["replay", sessionFile ?? "", "--json"], { cwd: place });
      expect(JSON.parse(stdout)).toMatchObject({ requests: 2 });
    },
    TIMEOUT,
  );
});

describe.each(HOSTS)("installed, on the %s host,", (host) => {
  test(
    "it works from the tarball with -e",
    async () => {
      const made = folders();
      writeFileSync(join(made.agentDir, "settings.json"), "{}");
      useDigest(made);
      const { argv } = documented("pi -e /path/to/pi-condense/index.ts", { "/path/to/pi-condense": installed });
      expect(argv.slice(0, 2)).toEqual(["pi", "-e"]);
      await condenses(host, made, argv[2] ?? false);
    },
    TIMEOUT,
  );

  test(
    "it works from a checkout, by pi install",
    async () => {
      const made = folders();
      const standIns = { "/path/to/pi-condense": checkout };
      await pi(host, made, documented("pi install /path/to/pi-condense", standIns));
      useDigest(made);
      await condenses(host, made, false);
    },
    TIMEOUT,
  );

  test.each(["https://example.org", "ssh://git@example.org", "git://example.org:9418"])(
    "it knows an address that begins with %s",
    async (server) => {
      const { parseGitUrl } = await import(join(dirname(HOST_PATHS[host].library), "utils/git.js"));
      const address = { "<its address>": `${server}/acme/pi-condense` };
      const [, , source] = documented("pi install git:<its address>", address).argv;
      expect(parseGitUrl(source)).toMatchObject({ repo: address["<its address>"], path: "acme/pi-condense" });
    },
  );

  const reason = missingGitServer();
  test.skipIf(reason !== undefined)(
    `it works from a git server, by pi install, its command line too${reason ? ` (skipped: ${reason})` : ""}`,
    async () => {
      const made = folders();
      const server = await GitServer.start("acme/pi-condense");
      const address = { "<its address>": server.address };
      const clone = join(made.agentDir, "git/127.0.0.1/acme/pi-condense");
      try {
        await pi(host, made, documented("pi install git:<its address>", address));
        await server.commit("NEW.md");
        await pi(host, made, documented("pi update git:<its address>", address));
      } finally {
        server.stop();
      }
      expect(existsSync(join(clone, "NEW.md"))).toBe(true);
      useDigest(made);
      const { sessionFile } = await condenses(host, made, false);

      // The host supplies its own packages; a second copy of them would be large, and never used.
      expect(existsSync(join(clone, "node_modules/@mariozechner"))).toBe(false);
      const replay = documented("npx pi-condense replay <session file>", { "<session file>": sessionFile ?? "" });
      const [npx, ...args] = replay.argv;
      const { stdout } = await run(npx, [...args, "--json"], { cwd: clone, env: npmEnvironment() });
      expect(JSON.parse(stdout)).toMatchObject({ requests: 3 });

      await pi(host, made, documented("pi remove git:<its address>", address));
      expect(existsSync(clone)).toBe(false);
    },
    TIMEOUT,
  );
});
