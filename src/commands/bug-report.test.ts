import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { scratchFolder } from "../../test/support/folders.ts";
import { agentDirWith, EntryTree, SimulatedSession } from "../../test/support/simulated-session.ts";
import { runCommand } from "./index.ts";

const SECRET = "SECRET-9f3a";

test("a report has versions, settings and counts, and nothing of what was said, read or named", async () => {
  const cwd = scratchFolder(`cwd-${SECRET}`);
  const agentDir = agentDirWith({ summarizerModel: "none", protectedPaths: [`**/${SECRET}/**`], minBatchChars: 5 });
  const session = new SimulatedSession(agentDir, new EntryTree(scratchFolder(`sessions-${SECRET}`)));
  const call = { type: "toolCall" as const, id: SECRET, name: `tool_${SECRET}`, arguments: { path: SECRET } };
  const messages: unknown[] = [
    { role: "user", content: SECRET, timestamp: 1 },
    { role: "assistant", content: [call], stopReason: "toolUse", timestamp: 2 },
    {
      role: "toolResult",
      toolCallId: SECRET,
      toolName: call.name,
      content: [{ type: "text", text: SECRET }],
      timestamp: 3,
    },
  ];
  for (const message of messages) session.add(message as AgentMessage);
  session.tree.appendCustom("context-prune-diagnostic", { kind: "error", detail: `context: ${SECRET}` });
  const { pruner } = session;
  const host = { ...session.host, cwd };
  pruner.treeMoved();
  const { message, type } = await runCommand(pruner, host, "doctor --report");
  expect(type).toBe("info");
  const [name = ""] = readdirSync(cwd);
  expect(message).toContain(join(cwd, name));
  const text = readFileSync(join(cwd, name), "utf8");
  expect(text).not.toContain(SECRET);
  expect(text).toMatch(/^ {2}pi-condense \d+\.\d+\.\d+$/m);
  expect(text).toMatch(/^ {2}minBatchChars 5$/m);
  expect(text).toMatch(/^ {2}protectedPaths 1 names$/m);
  expect(text).toMatch(/^ {4}message toolResult: 1$/m);
  expect(text).toMatch(/^ {4}diagnostic error: 1$/m);
});

test("a report goes to the folder for temporary files where the working folder takes none", async () => {
  const session = new SimulatedSession(agentDirWith({ summarizerModel: "none" }));
  const host = { ...session.host, cwd: join(scratchFolder("gone"), "missing") };
  const { message, type } = await runCommand(session.pruner, host, "doctor --report");
  expect({ message, type }).toEqual({ message: expect.stringContaining("pi-condense-report-"), type: "info" });
  expect(message).not.toContain("missing");
});
