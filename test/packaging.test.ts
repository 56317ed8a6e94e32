/** What is published: it holds what is needed and no more, and works installed, with its command line, on both hosts. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { extractToolResultText, isToolResult } from "../src/messages.js";
import { HOST_PATHS, REPOSITORY } from "./support/host-paths.js";
import { createFolders, HOSTS, type PiFolders, type PiRun, runPi } from "./support/print-mode.js";

const TIMEOUT = 180_000;
const run = promisify(execFile);
const FILES = { "notes.md": "The quick brown fox jumps over the lazy dog.\n".repeat(80) };

const opened: PiFolders[] = [];
let place = "";
let packed: string[] = [];
/** The package as npm has unpacked it. */
let installed = "";

beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), "pi-condense-pack-"));
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", place], { cwd: REPOSITORY });
  const [report]: { filename: string; files: { path: string }[] }[] = JSON.parse(stdout);
  packed = report?.files.map(({ path }) => path) ?? [];
  writeFileSync(join(place, "package.json"), "{}");
  const tarball = join(place, report?.filename ?? "");
  await run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", tarball], { cwd: place });
  installed = join(place, "node_modules/pi-condense");
}, TIMEOUT);

afterAll(() => {
  for (const folders of opened) folders.remove();
  rmSync(place, { recursive: true, force: true });
});

function folders(): PiFolders {
  const made = createFolders(FILES);
  opened.push(made);
  return made;
}

/** Two prompts, of which the first reads a file: the second request carries its stub. */
async function condenses(host: (typeof HOSTS)[number], made: PiFolders, product: string | false): Promise<PiRun> {
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

/** Writes the settings of an agent folder, keeping what `pi install` has put there. */
function useDigest({ agentDir }: PiFolders): void {
  const file = join(agentDir, "settings.json");
  const settings = JSON.parse(readFileSync(file, "utf8"));
  writeFileSync(file, JSON.stringify({ ...settings, contextPrune: { summarizerModel: "none" } }));
}

describe("the package", () => {
  test("holds every module and document, and nothing else", () => {
    const modules = readdirSync(join(REPOSITORY, "src"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
      .map((name) => join("src", name));
    const documents = readdirSync(join(REPOSITORY, "doc")).filter(
      (name) => name.endsWith(".md") || name === "context.png",
    );
    const expected = [
      ...modules,
      ...documents.map((name) => join("doc", name)),
      ...["index.ts", "bin/pi-condense.mjs", "package.json", "LICENSE"],
      ...["README.md", "PRUNING.md", "CHANGELOG.md"],
    ];
    expect(packed.toSorted()).toEqual(expected.toSorted());
  });

  test("every file that its README and PRUNING.md link to is in it, or in the repository alone by name", () => {
    for (const document of ["README.md", "PRUNING.md"]) {
      const links = [...readFileSync(join(REPOSITORY, document), "utf8").matchAll(/\]\(([^)#:]+)\)/g)];
      const missing = links.map(([, link]) => link ?? "").filter((link) => !packed.includes(link));
      expect(missing.filter((link) => link !== "AGENTS.md")).toEqual([]);
    }
  });

  test(
    "would be taken by the registry",
    async () => {
      const { stdout } = await run("npm", ["publish", "--dry-run", "--offline", "--json"], { cwd: REPOSITORY });
      expect(stdout).toContain("pi-condense@");
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
      await condenses(host, made, join(installed, "index.ts"));
    },
    TIMEOUT,
  );

  test(
    "it works from a path, by pi install",
    async () => {
      const made = folders();
      const { node, cli } = HOST_PATHS[host];
      const env = { PATH: process.env.PATH, HOME: made.home, PI_OFFLINE: "1", PI_CODING_AGENT_DIR: made.agentDir };
      await run(node, [cli, "install", installed], { cwd: made.cwd, env });
      useDigest(made);
      await condenses(host, made, false);
    },
    TIMEOUT,
  );
});
