import { afterAll, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const ROOT = join(import.meta.dir, "..");
const CONFIGURATION = readFileSync(join(ROOT, "biome.json"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "layers-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Modules, each with one line that imports. */
const FORBIDDEN = {
  "src/text/a.ts": 'export { entry } from "../session/entries.ts";',
  "src/types.ts": 'import type { Indexer } from "./indexer.ts";\nexport type Own = Indexer;',
  "src/chains/a.ts": 'export const later = () => import("../render/plan.ts");',
  "src/flush.ts": 'export { pruner } from "./pruner.ts";',
  "src/engine/a.ts": 'export { start } from "../runtime.ts";',
  "src/ui/a.ts": 'export { start } from "../../index.ts";',
  "src/session/a.ts":
    'import type { ExtensionContext } from "@mariozechner/pi-coding-agent";\nexport type Own = ExtensionContext;',
};
const ALLOWED = {
  "src/session/b.ts":
    'import type { SessionEntry } from "@mariozechner/pi-coding-agent";\nexport type Own = SessionEntry;',
  "src/host/b.ts":
    'import type { ExtensionContext } from "@mariozechner/pi-coding-agent";\nexport type Own = ExtensionContext;',
  "src/render/b.ts": 'export { entry } from "../session/entries.ts";',
  "src/render/b.test.ts": 'export { run } from "../commands/index.ts";',
  "src/ui/b.ts": 'export { run } from "../commands/index.ts";',
  "src/pruner.ts": 'export { flush } from "./flush.ts";',
};

test("an import of what stands above fails lint, in every form and for types too; others pass", () => {
  writeFileSync(
    join(folder, "biome.json"),
    CONFIGURATION.replace('"vcs": { "enabled": true', '"vcs": { "enabled": false'),
  );
  for (const [file, text] of Object.entries({ ...FORBIDDEN, ...ALLOWED })) {
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    writeFileSync(join(folder, file), `${text}\n`);
  }
  const biome = join(ROOT, "node_modules", ".bin", "biome");
  const options = ["lint", "--only=style/noRestrictedImports", "--max-diagnostics=none", "--reporter=github", "src"];
  const { stdout } = spawnSync(biome, options, { cwd: folder, encoding: "utf8" });
  const found = [...stdout.matchAll(/file=([^,]+),/g)].map(([, file = ""]) => file.slice(file.indexOf("src/")));
  expect(found.sort()).toEqual(Object.keys(FORBIDDEN).sort());
}, 60_000);

test("every folder and module of src has its place", () => {
  for (const entry of readdirSync(join(ROOT, "src"), { withFileTypes: true })) {
    if (entry.name.endsWith(".test.ts")) continue;
    expect(CONFIGURATION).toContain(`"src/${entry.name}${entry.isDirectory() ? "/**" : ""}"`);
  }
});
