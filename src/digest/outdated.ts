/** Outputs that no longer say how a file is, since later calls have changed it. */
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import { isAssistant, isToolResult, occurrenceKey } from "../transcript/messages.ts";
import { CallPairing } from "../transcript/pairing.ts";
import { commandOf, pathOf } from "./arguments.ts";
import { changedPaths, writtenBy } from "./edits.ts";
import { toolKind } from "./result.ts";
import { count } from "./room.ts";
import { pathShownBy } from "./views.ts";

/** Refs of edits that are named; of more the last ones. */
const MAX_NAMED = 4;

/** A read or a write that stands, and the file as it was spelled. */
interface View {
  key: string;
  path: string;
}

/** For each output that shows a file, and each file that was written, the keys of the calls that have changed that file since. */
export function changesSince(messages: readonly AgentMessage[]): ReadonlyMap<string, readonly string[]> {
  const views = new Map<string, View[]>();
  const changed = new Map<string, string[]>();
  const pairing = new CallPairing();
  for (const message of messages) {
    if (isAssistant(message)) pairing.open(message);
    if (!isToolResult(message) || message.isError) continue;
    const args = pairing.take(message.toolCallId)?.arguments;
    if (!args) continue;
    const key = occurrenceKey(message.toolCallId, message.timestamp);
    for (const path of changedPaths(args).map(plainPath)) {
      for (const view of views.get(baseName(path)) ?? []) {
        if (isSameFile(view.path, path)) changed.set(view.key, [...(changed.get(view.key) ?? []), key]);
      }
    }
    const shown = shownBy(message.toolName, args);
    if (shown === undefined) continue;
    const path = plainPath(shown);
    views.set(baseName(path), [...(views.get(baseName(path)) ?? []), { key, path }]);
  }
  return changed;
}

/** `edited since by t14, t17`; calls that have no ref yet are counted. `undefined` where there are none. */
export function describeChanges(
  keys: readonly string[] | undefined,
  refOf: (key: string) => string | undefined,
): string | undefined {
  if (!keys || keys.length === 0) return undefined;
  const refs = keys.map(refOf).filter((ref) => ref !== undefined);
  const named = refs.slice(-MAX_NAMED);
  const others = keys.length - named.length;
  const words = others === 0 ? [] : [named.length === 0 ? count(others, "call") : count(others, "other call")];
  return `edited since by ${[...named, ...words].join(", ")}`;
}

function shownBy(toolName: string, args: Record<string, unknown>): string | undefined {
  const kind = toolKind(toolName);
  if (kind === "read") return pathOf(args);
  return kind === "shell" ? pathShownBy(commandOf(args)) : writtenBy(args)?.path;
}

function plainPath(path: string): string {
  return path
    .slice(0, 4096)
    .replace(/^@/, "")
    .replaceAll("\\", "/")
    .replace(/^(?:\.\/)+/, "");
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** A relative spelling is taken for the absolute one that ends with it. */
function isSameFile(a: string, b: string): boolean {
  return a === b || a.endsWith(`/${b}`) || b.endsWith(`/${a}`);
}
