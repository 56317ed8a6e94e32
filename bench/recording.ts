/** A recorded conversation to measure on: the file that the first argument or PI_CONDENSE_SESSION names. */
import { copyFileSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { SessionManager } from "@mariozechner/pi-coding-agent";
import { contentChars, isToolResult } from "../src/transcript/messages.ts";

/** The messages of a session file, native compactions left out; the host migrates a copy of it. */
export function loadRecording(file: string): AgentMessage[] {
  const copy = join(mkdtempSync(join(tmpdir(), "pi-condense-recording-")), "session.jsonl");
  copyFileSync(file, copy);
  return SessionManager.open(copy)
    .getBranch()
    .flatMap((entry) => (entry.type === "message" ? [entry.message] : []));
}

/** Path of the recording, or the end of the program with a word on how to name one. */
export function recordingPath(): string {
  const file = process.argv[2] ?? process.env.PI_CONDENSE_SESSION;
  if (file) return file;
  process.stderr.write("Name a session file: as the first argument, or in PI_CONDENSE_SESSION\n");
  process.exit(2);
}

/** Characters that a provider is sent for a message: texts, thinking, arguments and results. */
export function messageChars(message: AgentMessage): number {
  if (isToolResult(message)) return contentChars(message.content);
  if (message.role === "bashExecution") return message.command.length + message.output.length;
  if (!("content" in message)) return 0;
  return typeof message.content === "string" ? message.content.length : JSON.stringify(message.content).length;
}
