import { describe, expect, test } from "bun:test";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { longConversation } from "../../test/support/long-session.ts";
import { PROPERTY_RUNS } from "../../test/support/property-runs.ts";
import { agentDirWith, type Settings, SimulatedSession } from "../../test/support/simulated-session.ts";
import { runCommand } from "../commands/index.ts";
import { isAssistant } from "../transcript/messages.ts";
import { contentTokens, estimateTextTokens, estimateTokens } from "../transcript/tokens.ts";
import { contextShares, type Share, type ShareKind } from "../ui/context-model.ts";
import { short, total } from "../ui/paint.ts";
import { segment } from "../ui/status-line.ts";
import { condensedTree } from "../ui/tree-model.ts";
import { treeTitle } from "../ui/tree-rows.ts";

const SYSTEM = "You are a coding agent. ".repeat(100);
let clock = 1_000_000;

function reply(content: AssistantMessage["content"], stopReason: AssistantMessage["stopReason"]): AgentMessage {
  clock += 1_000;
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 100, output: 1, cacheRead: 900, cacheWrite: 0, totalTokens: 1001, cost };
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp: clock };
}

/** A prompt, a turn with one call for each text, a closing reply. */
function run(name: string, texts: readonly string[]): AgentMessage[] {
  clock += 1_000;
  const calls = texts.map((text, i) => {
    const isWrite = i % 2 === 1;
    const args: Record<string, string> = isWrite
      ? { path: `${name}${i}.ts`, content: text }
      : { path: `${name}${i}.ts` };
    return { type: "toolCall" as const, id: `${name}${i}`, name: isWrite ? "write" : "read", arguments: args };
  });
  const prompt: AgentMessage = { role: "user", content: `work on ${name}`, timestamp: clock };
  const asking = reply(calls, "toolUse");
  const results = calls.map((call, i): AgentMessage => {
    clock += 1_000;
    const text = call.name === "write" ? "written" : (texts[i] ?? "");
    const content = [{ type: "text" as const, text }];
    return { role: "toolResult", toolCallId: call.id, toolName: call.name, content, isError: false, timestamp: clock };
  });
  return [prompt, asking, ...results, reply([{ type: "text", text: "Done." }], "stop")];
}

async function sessionWith(settings: Settings, names: readonly string[], chars = 9_000): Promise<SimulatedSession> {
  const session = new SimulatedSession(
    agentDirWith({ pruneOn: "agent-message", summarizerModel: "none", ...settings }),
  );
  for (const name of names) {
    const text = `${name} eine Zeile, строка, 日本語の行\n`.repeat(Math.ceil(chars / 30));
    await session.play(run(name, [text, text, `${text} and more`]));
  }
  return session;
}

/** What every place says of one session. */
async function table(session: SimulatedSession) {
  const { pruner } = session;
  const host = { ...session.host, systemPrompt: () => SYSTEM };
  const view = pruner.contextView(host);
  const status = pruner.status(host);
  if (!view || !status) throw new Error("no session");
  const context = contextShares(view, SYSTEM);
  const tree = condensedTree(pruner) ?? [];
  const { raw, sent } = await session.request();
  return {
    request: { before: estimateTokens(raw), after: estimateTokens(sent) },
    status: status.sizes,
    context: { before: context.before - estimateTextTokens(SYSTEM), after: context.after - estimateTextTokens(SYSTEM) },
    tree: { before: total(tree, "before"), after: total(tree, "after") },
    title: treeTitle(pruner.summary()?.condensed),
    segment: segment(pruner),
    message: (await runCommand(pruner, host, "status")).message,
  };
}

/** The kinds of the context screen. */
function sharesOf({ pruner, host }: SimulatedSession) {
  const view = pruner.contextView(host);
  if (!view) throw new Error("no session");
  const { shares } = contextShares(view, SYSTEM);
  return Object.fromEntries(shares.map((share) => [share.kind, share])) as Partial<Record<ShareKind, Share>>;
}

const CHAINS = { chainCompression: { enabled: true, rollingWindow: 1, batchSize: 0 } };

describe.each([
  ["results", {}],
  ["arguments", { condenseArgs: { enabled: true, minStringChars: 300 } }],
  ["chains", CHAINS],
  ["spilled results", { spillThreshold: 8_000 }],
] satisfies [string, Settings][])("with %s condensed", (_name, settings) => {
  test("status, context, tree and status line show the figures of the request", async () => {
    const session = await sessionWith(settings, ["a", "b", "c", "d"]);
    const { request, status, context, tree, title, segment, message } = await table(session);
    const saved = request.before - request.after;
    const { raw } = await session.request();
    expect(saved).toBeGreaterThan(5_000);
    expect(status.whole.before).toBeCloseTo(request.before, 3);
    expect(status.whole.after).toBeCloseTo(request.after, 3);
    expect(status.condensed.before - status.condensed.after).toBeCloseTo(saved, 3);
    expect(Math.abs(context.before - request.before)).toBeLessThan(1);
    expect(Math.abs(context.after - request.after)).toBeLessThan(1);
    expect(tree.before - tree.after).toBeCloseTo(saved, 3);
    // Where arguments are condensed, the reply around them counts as a message too, and belongs to no single call.
    const wrapping = 4 * raw.filter(isAssistant).length;
    expect(status.condensed.before - tree.before).toBeWithin(-0.001, wrapping);
    const shown = `${short(status.condensed.before)}→${short(status.condensed.after)} (-`;
    expect(segment).toStartWith(`pruner ${shown}`);
    expect(message).toContain(`${shown}`);
    expect(title).toStartWith(`Condensed: ${shown.replace("→", " → ").replace(" (-", " tokens −")}`);
  });
});

describe("output of commands that the user has run", () => {
  const ran = (command: string, output: string): AgentMessage => {
    clock += 1_000;
    const outcome = { exitCode: 0, cancelled: false, truncated: false };
    return { role: "bashExecution", command, output, ...outcome, timestamp: clock };
  };
  const LOG = Array.from({ length: 300 }, (_, i) => `line ${i} of the log, 日本語`).join("\n");

  test("counts as results do, in the figures of all screens", async () => {
    const session = await sessionWith({}, ["a"]);
    await session.play([ran("npm test", LOG), ...run("b", ["x".repeat(4_000)])]);
    const { request, status, context, tree } = await table(session);
    const saved = request.before - request.after;
    expect(status.condensed.before - status.condensed.after).toBeCloseTo(saved, 3);
    expect(tree.before - tree.after).toBeCloseTo(saved, 3);
    expect(Math.abs(context.before - request.before)).toBeLessThan(1);
    expect(sharesOf(session).other).toBeUndefined();
    expect(sharesOf(session).condensed?.before).toBeGreaterThan(estimateTextTokens(LOG));
  });

  test("counts as waiting once the model has seen it", async () => {
    const session = await sessionWith({ pruneOn: "on-demand" }, ["a"]);
    const waiting = () => session.pruner.status(session.host)?.pendingTokens ?? 0;
    const before = waiting();
    await session.play([ran("npm test", LOG), ...run("b", [])]);
    expect(waiting() - before).toBeCloseTo(estimateTextTokens(LOG), 0);
  });

  test("is protected where its command names a protected file", async () => {
    const session = await sessionWith({ protectedPaths: ["AGENTS.md"] }, ["a"]);
    await session.play([ran("cat AGENTS.md", LOG), ...run("b", [])]);
    expect(sharesOf(session).protected?.after).toBeGreaterThan(estimateTextTokens(LOG));
  });
});

test("results of one call id count by what has become of each", async () => {
  const session = await sessionWith({ protectedPaths: ["AGENTS.md"] }, []);
  const turn = (path: string): AgentMessage[] => {
    const asking = reply([{ type: "toolCall", id: "call_0", name: "read", arguments: { path } }], "toolUse");
    clock += 1_000;
    const content = [{ type: "text" as const, text: `${path} says this.\n`.repeat(500) }];
    const result = { role: "toolResult", toolCallId: "call_0", toolName: "read", content, isError: false } as const;
    return [asking, { ...result, timestamp: clock }];
  };
  const turns = [...turn("AGENTS.md"), ...turn("b.ts"), ...turn("c.ts")];
  await session.play([...turns, reply([{ type: "text", text: "Read." }], "stop")]);
  const shares = sharesOf(session);
  expect(shares.protected?.after).toBeGreaterThan(1_000);
  expect(shares.protected?.after).toBe(shares.protected?.before);
  expect(shares.condensed?.before).toBeGreaterThan(2_000);
  expect(shares.raw).toBeUndefined();
});

test("while the pruner is off, nothing is shown as saved", async () => {
  const session = await sessionWith({}, ["a", "b"]);
  await runCommand(session.pruner, session.host, "off");
  const { request, status, context, segment } = await table(session);
  expect(request.after).toBe(request.before);
  expect(status.condensed).toEqual({ before: 0, after: 0 });
  expect(context.after).toBe(context.before);
  expect(segment).toBe("pruner off");
});

test("what waits is the same, whether it is followed or looked up", async () => {
  const step = fc.record({
    chars: fc.array(fc.integer({ min: 10, max: 5_000 }), { minLength: 1, maxLength: 3 }),
    event: fc.constantFrom("nothing", "now", "look", "protect", "move"),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
      const session = new SimulatedSession(agentDirWith({ pruneOn: "on-demand", summarizerModel: "none" }));
      const { pruner, host } = session;
      for (const [i, { chars, event }] of steps.entries()) {
        const turning = session.tree.getLeafId();
        await session.play(
          run(
            `r${i}`,
            chars.map((n) => "x".repeat(n)),
          ),
        );
        if (event === "now") await runCommand(pruner, host, "now");
        if (event === "protect") await runCommand(pruner, host, "protected-tools add read");
        if (event === "move") {
          session.tree.moveTo(turning);
          pruner.treeMoved();
        }
        if (event === "nothing") continue;
        const fresh = new SimulatedSession(session.agentDir, session.tree.reload());
        expect(pruner.summary()?.waiting).toBeCloseTo(fresh.pruner.summary()?.waiting ?? -1, 6);
      }
    }),
    { numRuns: PROPERTY_RUNS },
  );
}, 120_000);

describe("the status line", () => {
  test("shows what waits from the first reply on, then what is condensed", async () => {
    const session = new SimulatedSession(agentDirWith({ pruneOn: "on-demand", summarizerModel: "none" }));
    expect(segment(session.pruner)).toBeUndefined();
    const text = "some line of a file\n".repeat(1_000);
    await session.play(run("a", [text]));
    expect(segment(session.pruner)).toBe(`pruner ${short(contentTokens([{ type: "text", text } as never]))} waiting`);
    await runCommand(session.pruner, session.host, "now");
    expect(segment(session.pruner)).toMatch(/^pruner [\d.]+k→[\d.]+k? \(-\d\d%\)$/);
  });

  test("costs next to nothing in a session of 10,000 messages", () => {
    const options = { chains: 1_700, turnsPerChain: 1, readChars: 900, writeChars: 900, reportedTokens: 1_000 };
    const session = new SimulatedSession(agentDirWith({ pruneOn: "on-demand", summarizerModel: "none" }));
    for (const message of longConversation(options)) session.add(message);
    expect(session.messages().length).toBeGreaterThan(8_000);
    segment(session.pruner);
    const startedAt = performance.now();
    for (let i = 0; i < 50; i++) {
      for (const message of run(`more${i}`, ["short"])) session.add(message);
      segment(session.pruner);
    }
    // Each takes well below a millisecond; the machine may be busy.
    expect((performance.now() - startedAt) / 50).toBeLessThan(5);
  });
});
