/** Two copies of the extension, and another extension with its tool, on the real command lines of both hosts. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { createFolders, HOSTS, type PiFolders, PRODUCT_ENTRY, runPi, supportPath } from "./support/print-mode.ts";

setDefaultTimeout(120_000);

const REPOSITORY = dirname(PRODUCT_ENTRY);
const CONDENSE = { contextPrune: { summarizerModel: "none", pruneOn: "every-turn" } };
const SCRIPT = {
  replies: [
    { calls: [{ name: "bash", arguments: { command: "seq 1 900" }, id: "b1" }] },
    { text: "One." },
    { text: "Two." },
    { text: "Three." },
  ],
};
const CONDENSED = /\[t\d+ condensed: /g;

let folders: PiFolders;

afterEach(() => folders.remove());

/** A copy as an installation has it. */
function copyTo(name: string): string {
  const target = join(folders.root, name);
  for (const part of ["index.ts", "package.json", "src"]) {
    cpSync(join(REPOSITORY, part), join(target, part), {
      recursive: true,
      filter: (source) => !basename(source).endsWith(".test.ts"),
    });
  }
  symlinkSync(join(REPOSITORY, "node_modules"), join(target, "node_modules"), "junction");
  return target;
}

function installForProject(path: string): void {
  mkdirSync(join(folders.cwd, ".pi"));
  writeFileSync(join(folders.cwd, ".pi", "settings.json"), JSON.stringify({ packages: [path] }));
}

describe.each(HOSTS)("on the %s host", (host) => {
  test("one installed by the user and one by the project: one is at work, the other says so", async () => {
    folders = createFolders();
    const [user, project] = [copyTo("user-copy"), copyTo("project-copy")];
    installForProject(project);
    const run = await runPi(host, {
      folders,
      product: false,
      prompts: ["one", "two", "/pruner doctor"],
      script: SCRIPT,
      settings: { ...CONDENSE, packages: [user] },
      trustProject: true,
    });
    expect(run.code).toBe(0);
    expect(run.stderr.match(/two copies of pi-condense/g)).toHaveLength(1);
    expect(run.stderr).toContain(join(user, "index.ts"));
    expect(run.stderr).toContain(join(project, "index.ts"));
    expect(run.stderr).toContain("context_tree_query is registered");
    expect(JSON.stringify(run.requests.at(-1)?.messages).match(CONDENSED)).toHaveLength(1);
    expect(run.requests.at(-1)?.tools.filter((tool) => tool === "context_tree_query")).toHaveLength(1);
  });

  test("an installed one beside -e", async () => {
    folders = createFolders();
    const settings = { ...CONDENSE, packages: [copyTo("user-copy")] };
    const run = await runPi(host, { folders, prompts: ["one", "two"], script: SCRIPT, settings });
    expect(run.code).toBe(0);
    expect(run.stderr.match(/two copies of pi-condense/g)).toHaveLength(1);
    expect(JSON.stringify(run.requests.at(-1)?.messages).match(CONDENSED)).toHaveLength(1);
  });

  test.each(["before", "behind"])(
    "another extension with the tool, %s this one: nothing is condensed, doctor says why",
    async (place) => {
      folders = createFolders();
      const other = supportPath("fixtures/other-query-tool.ts");
      const run = await runPi(host, {
        folders,
        ...(place === "before" ? { product: other, extensions: [PRODUCT_ENTRY] } : { extensions: [other] }),
        prompts: ["one", "two", "/pruner doctor"],
        script: SCRIPT,
        settings: CONDENSE,
      });
      expect(run.code).toBe(0);
      expect(run.stderr).toContain(`context_tree_query belongs to another extension: ${other}`);
      expect(JSON.stringify(run.requests.at(-1)?.messages)).not.toMatch(CONDENSED);
      expect(run.entries.filter((entry) => entry.type === "custom")).toEqual([]);
    },
  );

  test("a session that is taken up again is sent the same head, tools and system messages", async () => {
    folders = createFolders();
    const first = await runPi(host, { folders, prompts: ["one"], script: SCRIPT, settings: CONDENSE });
    const again = await runPi(host, {
      folders,
      prompts: ["two", "three"],
      script: { replies: [{ text: "Two." }, { text: "Three." }] },
      session: "continue",
    });
    const head = (run: typeof first) => {
      const [request] = run.requests;
      return { system: request?.systemPrompt, tools: request?.tools };
    };
    expect(head(again)).toEqual(head(first));
    expect(head(first).tools).toContain("context_tree_query");
    const systemMessages = again.requests.map(
      ({ transcript }) =>
        transcript.filter((message) => !["user", "assistant", "toolResult"].includes(message.role)).length,
    );
    expect(systemMessages).toEqual(host === "new" ? [1, 1] : [0, 0]);
  });
});
