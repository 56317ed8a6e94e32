/**
 * A session of an earlier release, where one is at hand beside the checkout. It is not part of the repository; the
 * shapes that matter are also tested beside `src/session/`.
 */
import { describe, expect, test } from "bun:test";
import { cpSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { ToolCallIndexer } from "../src/indexer.js";
import { extractToolResultText, isToolResult } from "../src/messages.js";
import { pruneMessages } from "../src/pruner.js";
import { buildRenderPlan } from "../src/render/plan.js";
import type { messagesInContext } from "../src/session/branch.js";
import { HOST_PATHS, HOSTS, type Host, REPOSITORY } from "./support/host-paths.js";
import { checkTranscript } from "./support/transcript.js";

const RECORDING = join(REPOSITORY, "../shared/sessions/legacy");

/** The session in a folder of its own, with its blobs, as the host's session manager reads it. */
async function load(host: Host): Promise<{ entries: SessionEntry[]; context: ReturnType<typeof messagesInContext> }> {
  const { SessionManager } = await import(HOST_PATHS[host].library);
  const folder = mkdtempSync(join(tmpdir(), "pi-condense-legacy-"));
  cpSync(RECORDING, folder, { recursive: true });
  const file = join(folder, "session.jsonl");
  writeFileSync(file, readFileSync(file, "utf8").replaceAll("{{SESSION_DIR}}", folder));
  const manager = SessionManager.open(file);
  return { entries: manager.getBranch(), context: manager.buildSessionContext().messages };
}

describe.each(HOSTS)("a session of an earlier release on %s", (host) => {
  test("opens, folds its summaries into stubs and answers for its refs", async () => {
    if (!existsSync(RECORDING)) {
      process.stderr.write(`no recording at ${RECORDING}: nothing checked\n`);
      return;
    }
    const { entries, context } = await load(host);
    const index = new ToolCallIndexer();
    index.reconstructFromSession(entries, entries);
    expect(index.takeInvalid()).toEqual([]);

    const sent = pruneMessages(context, buildRenderPlan(index.committed()));
    expect(checkTranscript(sent, context)).toEqual([]);
    const stubs = sent.filter(isToolResult).map(extractToolResultText);
    expect(stubs).toContain(
      "[t1 condensed: read mod0.ts, 3,929 chars, ok. Full output: context_tree_query t1]\n0: key outcome recorded, exports fn list",
    );
    expect(
      stubs.filter((text) => text.startsWith("[condensed: identical to t1 (read mod0.ts, 3,929 chars)")),
    ).toHaveLength(1);
    expect(sent.some((message) => message.role === "custom")).toBe(false);
    for (const ref of ["t1", "t2", "t3", "t4", "t5", "t6"]) expect(index.resolve(ref)).toHaveLength(1);
  });
});
