/** The tools that a session's model had: as recorded, as the host has them, or as the recorded calls show them. */
import type { SessionEntry } from "@mariozechner/pi-coding-agent";
import { isRecord } from "../text/json.ts";
import { isAssistant, textOf, toolCallsOf } from "../transcript/messages.ts";
import { QUERY_TOOL_NAME } from "../types.ts";
import type { TrialTool } from "./types.ts";

/** Every tool that the session used, but for the one of this extension. */
export function toolsOf(entries: readonly SessionEntry[], hostTools: readonly TrialTool[]): TrialTool[] {
  const calls = new Map<string, Record<string, unknown>[]>();
  for (const entry of entries) {
    if (entry.type !== "message" || !isAssistant(entry.message)) continue;
    for (const { name, arguments: args } of toolCallsOf(entry.message)) {
      const list = calls.get(name);
      if (list) list.push(args);
      else calls.set(name, [args]);
    }
  }
  calls.delete(QUERY_TOOL_NAME);
  const known = new Map([...hostTools, ...recordedTools(entries)].map((tool) => [tool.name, tool]));
  return [...calls].map(([name, args]) => known.get(name) ?? { name, description: name, parameters: schemaOf(args) });
}

/** The newer host's sessions hold their tools and system prompts as messages. */
function systemMessages(entries: readonly SessionEntry[]): Record<string, unknown>[] {
  return entries.flatMap((entry) => {
    const message: unknown = entry.type === "message" ? entry.message : undefined;
    return isRecord(message) && message.role === "system" ? [message] : [];
  });
}

function recordedTools(entries: readonly SessionEntry[]): TrialTool[] {
  return systemMessages(entries).flatMap(({ toolsAdded }) =>
    Array.isArray(toolsAdded) ? toolsAdded.filter(isTool) : [],
  );
}

function isTool(value: unknown): value is TrialTool {
  return (
    isRecord(value) &&
    typeof value.name === "string" &&
    typeof value.description === "string" &&
    isRecord(value.parameters)
  );
}

/** The session's system prompt, or one that says the least where none was recorded, as the older host records none. */
export function systemPromptOf(entries: readonly SessionEntry[], cwd: string): string {
  const [first] = systemMessages(entries);
  const content = typeof first?.content === "string" || Array.isArray(first?.content) ? textOf(first.content) : "";
  const sections = isRecord(first?.sections)
    ? Object.values(first.sections).filter((text) => typeof text === "string")
    : [];
  const recorded = [content, ...sections].filter((text) => text !== "").join("\n\n");
  if (recorded) return recorded;
  const where = cwd === "" ? "" : `\nCurrent working directory: ${cwd}`;
  return `You are an expert coding assistant. You help users by reading files, running commands, editing code and writing new files with the tools that you have.${where}`;
}

/** A schema that all of the calls meet. What every call has is required. */
function schemaOf(calls: readonly Record<string, unknown>[]): object {
  const names = [...new Set(calls.flatMap((args) => Object.keys(args)))];
  return {
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, valueSchema(calls.map((args) => args[name]))])),
    required: names.filter((name) => calls.every((args) => name in args)),
  };
}

function valueSchema(values: readonly unknown[]): object {
  const kinds = new Set(values.filter((value) => value !== undefined).map(kindOf));
  const [kind] = kinds;
  if (kinds.size !== 1 || kind === "null") return {};
  if (kind === "array")
    return { type: kind, items: valueSchema(values.filter((value) => Array.isArray(value)).flat()) };
  return kind === "object" ? schemaOf(values.filter(isRecord)) : { type: kind };
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "array";
  return value === null ? "null" : typeof value;
}
