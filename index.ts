/** pi-condense: condenses finished tool output in the context that pi sends, and keeps every original recoverable. */
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import { completeCommand, runCommand } from "./src/commands/index.js";
import { appenderOf, type HostSnapshot, readContext } from "./src/host.js";
import { createQueryTool } from "./src/query-tool.js";
import { Pruner } from "./src/runtime.js";

export default function piCondense(pi: ExtensionAPI): void {
  const pruner = new Pruner(appenderOf(pi));

  const withHost = <T>(ctx: ExtensionContext, action: (host: HostSnapshot) => T): T | undefined => {
    const host = readContext(ctx);
    return host && action(host);
  };

  pi.on("session_start", (_event, ctx) => withHost(ctx, (host) => pruner.startSession(host)));
  pi.on("session_tree", () => pruner.treeMoved());
  pi.on("turn_end", (_event, ctx) => withHost(ctx, (host) => pruner.turnEnded(host)));
  pi.on("context", async (event, ctx) => {
    const messages = await withHost(ctx, (host) => pruner.renderRequest(host, event.messages));
    return messages && { messages };
  });
  pi.on("session_shutdown", () => pruner.endSession());

  pi.registerTool(createQueryTool(() => pruner.currentState()));

  pi.registerCommand("pruner", {
    description: "Condense finished tool output: on, off, now, status, compact, help",
    getArgumentCompletions: (prefix) => completeCommand(pruner, prefix),
    handler: async (args, ctx) => {
      await withHost(ctx, async (host) => {
        const { message, type } = await runCommand(pruner, host, args);
        host.ui?.notify(message, type);
      });
    },
  });
}
