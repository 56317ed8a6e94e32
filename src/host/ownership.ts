/** Which of several extensions has the recovery tool and the command, and telling so before there is a session. */
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import { registrationsOf } from "./host.ts";

/** Tells something without a session that could be read. Never throws. */
export function tellWithout(ctx: Pick<ExtensionContext, "hasUI" | "ui">, message: string): void {
  try {
    if (ctx.hasUI) ctx.ui.notify(message, "warning");
    else process.stderr.write(`${message}\n`);
  } catch {
    // The session has been replaced, or nobody reads standard error.
  }
}

/** Who has the recovery tool: this copy, another copy of this extension, or another extension. */
export type ToolClaim = { kind: "own" } | { kind: "copy" | "foreign"; owner: string };

/**
 * Registers the tool where no other extension has one of its name. Two tools of one name that are registered while
 * extensions are loaded keep the host from starting, so this is for `session_start`.
 * @param isOwnCommand whether a command of another copy of this extension has this name and description
 */
export function claimTool(
  pi: Pick<ExtensionAPI, "getAllTools" | "getCommands" | "registerTool">,
  tool: Parameters<ExtensionAPI["registerTool"]>[0],
  isOwnCommand: (command: { name: string; description?: string }) => boolean,
): ToolClaim {
  const { tools, commands } = registrationsOf(pi);
  const other = pi.getAllTools().find(({ name }) => name === tool.name);
  const owner = tools.find(({ name }) => name === tool.name)?.path ?? "";
  if (other) return { kind: other.description === tool.description ? "copy" : "foreign", owner };
  // Where the host was told to leave the tool out, a copy is known by its command.
  const copy = pi.getCommands().findIndex(isOwnCommand);
  if (copy >= 0) return { kind: "copy", owner: commands[copy]?.path ?? "" };
  pi.registerTool(tool);
  return { kind: "own" };
}

/** What a copy of the extension wants to have for itself. */
export interface Place {
  tool: Parameters<ExtensionAPI["registerTool"]>[0];
  command: { name: string; description: string };
  registerCommand(): void;
  /** File of this copy. */
  path: string;
}

/** Registers tool and command, unless another copy of this extension has done so, which is told once. Never throws. */
export function takePlace(
  pi: Pick<ExtensionAPI, "getAllTools" | "getCommands" | "registerTool">,
  ctx: Pick<ExtensionContext, "hasUI" | "ui">,
  { tool, command, registerCommand, path }: Place,
): ToolClaim | undefined {
  try {
    const isOwn = ({ name, description }: { name: string; description?: string }) =>
      name === command.name && description === command.description;
    const claim = claimTool(pi, tool, isOwn);
    if (claim.kind === "copy") {
      const advice = `The one at ${claim.owner} is at work, the one at ${path} stands down. Remove one of them.`;
      tellWithout(ctx, `pruner: two copies of pi-condense are loaded. ${advice}`);
    } else if (claim.kind === "own" || !pi.getCommands().some(({ name }) => name === command.name)) registerCommand();
    return claim;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    tellWithout(ctx, `pruner: nothing is condensed, since this host lacks something: ${reason}`);
    return undefined;
  }
}
