/** pi-condense: condenses finished tool output in the context that pi sends, and keeps every original recoverable. */
import { fileURLToPath } from "node:url";
import type { ExtensionAPI, ExtensionContext } from "@mariozechner/pi-coding-agent";
import { completeCommand, runCommand } from "./src/commands/index.ts";
import { answer } from "./src/commands/types.ts";
import { type HostSnapshot, outletOf, readContext, registrationsOf } from "./src/host/host.ts";
import { type ToolClaim, takePlace, tellWithout } from "./src/host/ownership.ts";
import { createQueryTool } from "./src/query-tool.ts";
import { Pruner } from "./src/runtime.ts";
import { registerEntryRenderers } from "./src/ui/entries.ts";
import { modelChoices } from "./src/ui/model-facts.ts";
import { StatusLine } from "./src/ui/status-line.ts";

const NAME = "pruner";
const DESCRIPTION = "Condense finished tool output: settings, now, status, tree, context, doctor, help";

export default function piCondense(pi: ExtensionAPI): void {
  const pruner = new Pruner(outletOf(pi), () => statusLine.update());
  const statusLine = new StatusLine(pruner);
  let modelNames = (): readonly string[] => [];
  let claim: ToolClaim | undefined;
  let gap: string | undefined;
  const tool = createQueryTool(() => pruner.currentState());
  const command = { name: NAME, description: DESCRIPTION };
  const path = fileURLToPath(import.meta.url);

  const withHost = <T>(ctx: ExtensionContext, action: (host: HostSnapshot) => T): T | undefined => {
    // Another copy of this extension is at work, or the host lacks what is needed.
    if (claim === undefined || claim.kind === "copy") return undefined;
    const host = readContext(ctx, (found) => {
      if (gap === undefined) tellWithout(ctx, `pruner: ${found}`);
      gap = found;
    });
    return host && action(host);
  };

  pi.on("session_start", (_event, ctx) => {
    if (claim?.kind !== "own") claim = takePlace(pi, ctx, { tool, command, registerCommand, path });
    withHost(ctx, (host) => {
      pruner.startSession(host);
      statusLine.attach(host);
      modelNames = () => modelChoices(host).map(({ value }) => value);
    });
  });
  pi.on("session_tree", () => {
    pruner.treeMoved();
    statusLine.update();
  });
  pi.on("turn_end", async (_event, ctx) => {
    await withHost(ctx, (host) => pruner.turnEnded(host));
    statusLine.update();
  });
  pi.on("context", async (event, ctx) => {
    const messages = await withHost(ctx, (host) => pruner.renderRequest(host, event.messages));
    return messages && { messages };
  });
  pi.on("tool_call", (event) => {
    const reason = pruner.refuseCall(event.input);
    return reason === undefined ? undefined : { block: true, reason };
  });
  pi.on("input", (_event, ctx) => {
    // During a run a prompt only waits in a queue.
    if (ctx.isIdle()) pruner.hostLooks();
  });
  pi.on("agent_end", () => pruner.hostLooks());
  pi.on("session_before_compact", async (event, ctx) => withHost(ctx, (host) => pruner.beforeCompaction(host, event)));
  pi.on("session_shutdown", async () => {
    await pruner.endSession();
    statusLine.detach();
  });

  registerEntryRenderers(pi, () => pruner.currentState()?.branch.entries ?? []);

  function registerCommand(): void {
    pi.registerCommand(NAME, {
      description: DESCRIPTION,
      getArgumentCompletions: (prefix) => completeCommand(pruner, prefix, modelNames),
      handler: async (args, ctx) => {
        gap = undefined;
        await withHost(ctx, async (host) => {
          const registrations = () => registrationsOf(pi);
          answer(host, await runCommand(pruner, { ...host, registrations }, args));
        });
      },
    });
  }
}
