/**
 * A session of an earlier release, where one is at hand beside the checkout. It is not part of the repository; the
 * shapes that matter are also tested beside `src/session/`.
 */
import { describe, expect, test } from "bun:test";
import { cpSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { DEFAULT_CONFIG } from "../src/config.ts";
import { ToolCallIndexer } from "../src/indexer.ts";
import { pruneMessages } from "../src/pruner.ts";
import { buildRenderPlan } from "../src/render/plan.ts";
import type { messagesInContext } from "../src/session/branch.ts";
import { findOriginals } from "../src/session/originals.ts";
import { extractToolResultText, isToolResult, textOf } from "../src/transcript/messages.ts";
import { HOST_PATHS, HOSTS, type Host, REPOSITORY } from "./support/host-paths.ts";
import { checkTranscript } from "./support/transcript.ts";

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

function plan(index: ToolCallIndexer, entries: readonly SessionEntry[]) {
  return buildRenderPlan(index.committed(), {
    locateBlob: (record) => record.spillPath,
    findOriginal: (key) => findOriginals(entries, key)[0],
    stripFinalAssistantThinking: true,
    condenseArgs: DEFAULT_CONFIG.condenseArgs,
    purgeErrors: DEFAULT_CONFIG.purgeErrors,
    protectTags: false,
  });
}

describe.each(HOSTS)("a session of an earlier release on %s", (host) => {
  test("opens with its four chains, folds its summaries into them and answers for its refs", async () => {
    if (!existsSync(RECORDING)) {
      process.stderr.write(`no recording at ${RECORDING}: nothing checked\n`);
      return;
    }
    const { entries, context } = await load(host);
    const index = new ToolCallIndexer();
    index.reconstructFromSession(entries, entries);
    expect(index.takeInvalid()).toEqual([]);

    const unresolved: string[] = [];
    const sent = pruneMessages(context, plan(index, entries), { onUnresolved: (blockId) => unresolved.push(blockId) });
    expect(unresolved).toEqual([]);
    expect(checkTranscript(sent, context, { strippedClosings: true })).toEqual([]);
    expect(sent.some((message) => message.role === "custom")).toBe(false);
    expect(sent.filter(isToolResult).map(extractToolResultText)).toEqual([
      "[t7 condensed: read mod5.ts, 3,935 chars, ok. Full output: context_tree_query t7]\n0: key outcome recorded, exports fn list",
    ]);
    const chains = sent.flatMap((m) => (m.role === "user" ? [textOf(m.content)] : [])).filter((t) => t.startsWith("<"));
    expect(chains).toHaveLength(4);
    expect(chains[0]).toContain('<protected-output tool="todoread">\n1. [x] read modules\n2. [ ] inspect log\n');
    expect(chains[1]).toContain("- call_1_2_4 write out/a.ts, wrote 80 lines, ok");
    expect(chains[2]).toContain("- t8 fetch https://example.test/big, 93,225 chars, ok");
    expect(chains[2]).toContain("- t1 read mod0.ts, 3,929 chars, ok, again");
    expect(chains[3]).toContain("Fused range summary: modules read and log inspected.");
    for (const ref of ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"]) expect(index.resolve(ref)).toHaveLength(1);
  });
});
