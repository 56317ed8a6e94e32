/** Session files far larger than a window: chains of a `read` and a `write`, as a long refactoring has them. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage, ToolCall } from "@mariozechner/pi-ai";
import type { SessionManager } from "@mariozechner/pi-coding-agent";
import type { PiFolders } from "./folders.ts";
import { HOST_PATHS, type Host } from "./host-paths.ts";
import { SCRIPTED_API, SCRIPTED_PROVIDER } from "./script.ts";

export interface LongSessionOptions {
  /** Prompts, each with its own reads and writes. */
  chains: number;
  /** A read and a write each, between a prompt and its closing reply. */
  turnsPerChain?: number;
  /** Characters that each read gives and each write takes. */
  readChars: number;
  writeChars: number;
  /** Tokens that the replies report. */
  reportedTokens: number;
}

/** Text of the file that turn number `n` reads or writes; no two are alike. */
export function fileText(kind: "read" | "write", n: number, chars: number): string {
  const line = (i: number) => `export const ${kind}_${n}_${i} = "value ${i} of ${kind} ${n}";\n`;
  let text = "";
  for (let i = 0; text.length < chars; i++) text += line(i);
  return text.slice(0, chars);
}

/** Messages of a long session, all of it answered. */
export function longConversation(options: LongSessionOptions): AgentMessage[] {
  const { chains, turnsPerChain = 1, readChars, writeChars, reportedTokens } = options;
  const messages: AgentMessage[] = [];
  let now = Date.UTC(2026, 0, 5);
  let turn = 0;
  const add = (message: Record<string, unknown>) => {
    now += 1_000;
    messages.push({ ...message, timestamp: now } as unknown as AgentMessage);
  };
  const reply = (content: AssistantMessage["content"], stopReason: AssistantMessage["stopReason"]) => {
    const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
    const usage = { input: reportedTokens, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: reportedTokens, cost };
    add({
      role: "assistant",
      content,
      api: SCRIPTED_API,
      provider: SCRIPTED_PROVIDER,
      model: "main",
      usage,
      stopReason,
    });
  };
  const use = (name: string, args: ToolCall["arguments"], text: string) => {
    const id = `${name}_${turn}`;
    reply([{ type: "toolCall", id, name, arguments: args }], "toolUse");
    add({ role: "toolResult", toolCallId: id, toolName: name, content: [{ type: "text", text }], isError: false });
  };
  for (let chain = 0; chain < chains; chain++) {
    add({ role: "user", content: `Refactor module ${chain}.` });
    for (let i = 0; i < turnsPerChain; i++) {
      use("read", { path: `src/in${turn}.ts` }, fileText("read", turn, readChars));
      const content = fileText("write", turn, writeChars);
      use("write", { path: `src/out${turn}.ts`, content }, `Successfully wrote ${content.length} bytes.`);
      turn += 1;
    }
    reply([{ type: "text", text: `Module ${chain} is refactored.` }], "stop");
  }
  return messages;
}

/** Writes them to a session file as the host itself does, and gives its path. */
export async function writeSession(host: Host, folders: PiFolders, messages: readonly AgentMessage[]): Promise<string> {
  const { SessionManager: Manager } = (await import(HOST_PATHS[host].library)) as {
    SessionManager: { create(cwd: string, sessionDir: string): SessionManager };
  };
  const manager = Manager.create(folders.cwd, folders.sessionDir);
  for (const message of messages) {
    manager.appendMessage(structuredClone(message) as Parameters<SessionManager["appendMessage"]>[0]);
  }
  const file = manager.getSessionFile();
  if (!file) throw new Error("the host keeps no session file");
  return file;
}
