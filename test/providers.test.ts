/**
 * The final payload that each host's pi-ai builds of a render, for every protocol, captured before anything is sent:
 * valid, with reasoning and signatures as they were.
 */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { Api, AssistantMessage, Context, Model, ThinkingContent, ToolCall } from "@mariozechner/pi-ai";
import fc from "fast-check";
import { Type } from "typebox";
import { argumentMarker, condenseArguments, markerRefs } from "../src/render/arguments.ts";
import {
  isAssistant,
  isClosingReply,
  isDropped,
  isImage,
  isToolResult,
  textOf,
  toolCallsOf,
} from "../src/transcript/messages.ts";
import { sessionArbitrary } from "./support/generate.ts";
import { HOSTS } from "./support/host-paths.ts";
import { type HostLibrary, libraryOf, modelOf, payloadOf, spokenBy } from "./support/payloads.ts";
import { checkPayload, consecutiveUsers, PROTOCOLS, type Protocol, signaturesOf } from "./support/protocols.ts";
import {
  agentDirWith,
  EntryTree,
  type RenderedRequest,
  type Settings,
  SimulatedSession,
} from "./support/simulated-session.ts";

setDefaultTimeout(10 * 60_000);

const SESSIONS = 12;
/** Requests of each session that are looked at, from the last one back. */
const LAST_REQUESTS = 3;

/**
 * The messages of a render with each reply's blocks taken from the session as it was, so that only what the render left
 * out is missing. A closing reply of a compressed chain may have lost its thinking.
 */
function withOriginalReplies({ raw, sent }: RenderedRequest): AgentMessage[] {
  const originals = new Map(raw.filter(isAssistant).map((message) => [message.timestamp, message]));
  return sent.map((message) => {
    const original = isAssistant(message) ? originals.get(message.timestamp) : undefined;
    if (!original || !isAssistant(message)) return message;
    const isStripped = isClosingReply(original) && message.content.every((block) => block.type !== "thinking");
    return isStripped
      ? { ...original, content: original.content.filter((block) => block.type !== "thinking") }
      : original;
  });
}

/** How often the requests held what this test is about. */
interface Coverage {
  markers: number;
  purged: number;
  chains: number;
  spills: number;
  images: number;
  signatures: number;
  foreign: number;
}

function cover(coverage: Coverage, { sent }: RenderedRequest, api: Protocol, payload: unknown): void {
  const failed = new Set(
    sent
      .filter(isToolResult)
      .filter((m) => m.isError)
      .map((m) => m.toolCallId),
  );
  for (const message of sent.filter(isAssistant)) {
    if (isDropped(message)) continue;
    if (message.api !== api) coverage.foreign += 1;
    for (const call of toolCallsOf(message)) {
      const count = markerRefs(call.arguments).length;
      if (failed.has(call.id)) coverage.purged += count;
      else coverage.markers += count;
    }
  }
  for (const message of sent) {
    if (!("content" in message)) continue;
    const said = textOf(message.content);
    if (message.role === "user" && said.startsWith("<compressed-chain ")) coverage.chains += 1;
    if (isToolResult(message) && said.includes("The whole output is in ")) coverage.spills += 1;
    if (typeof message.content !== "string") coverage.images += message.content.filter(isImage).length;
  }
  coverage.signatures += signaturesOf(api, payload).length;
}

/** Nothing stays for being in use or an instruction file, which many of the generated sessions read. */
const STRONGEST = {
  workingSet: null,
  protectedPaths: [],
  summarizerModel: "none",
  pruneOn: "agent-message" as const,
  minBatchChars: 0,
  spillThreshold: 4_096,
  spillPreviewBytes: 300,
  condenseArgs: { minStringChars: 100 },
  purgeErrors: { cooldownTurns: 0, minArgChars: 100 },
};

const VARIANTS: Readonly<Record<string, Settings>> = {
  "arguments and spills": { ...STRONGEST, pruneOn: "every-turn", chainCompression: { enabled: false } },
  chains: { ...STRONGEST, protectedTools: ["tickets_search"], chainCompression: { rollingWindow: 1, batchSize: 0 } },
};

describe.each(HOSTS)("payloads of the %s host", (host) => {
  let library: HostLibrary;
  beforeAll(async () => {
    library = await libraryOf(host);
  });

  describe.each(PROTOCOLS)("%s", (api) => {
    const model = modelOf(api);

    test.each(Object.keys(VARIANTS))("are valid for any session: %s", async (name) => {
      const settings = VARIANTS[name] ?? {};
      const coverage: Coverage = { markers: 0, purged: 0, chains: 0, spills: 0, images: 0, signatures: 0, foreign: 0 };
      const agentDir = agentDirWith(settings);
      const sessions = fc.sample(sessionArbitrary({ reusedIds: false }), { numRuns: SESSIONS, seed: 11 });
      for (const session of sessions) {
        const folder = mkdtempSync(join(tmpdir(), "pi-condense-payload-"));
        const simulated = new SimulatedSession(agentDir, new EntryTree(folder));
        const requests = await simulated.play(spokenBy(api, session));
        expect(simulated.notices).toEqual([]);
        for (const request of requests.slice(-LAST_REQUESTS)) {
          const payload = await payloadOf(library, model, request.sent);
          expect(checkPayload(api, payload)).toEqual([]);
          const expected = await payloadOf(library, model, withOriginalReplies(request));
          expect(signaturesOf(api, payload)).toEqual(signaturesOf(api, expected));
          const raw = await payloadOf(library, model, request.raw);
          const before = { ...coverage };
          cover(coverage, request, api, payload);
          // A compressed chain stands as a message of the user between the one that opened it and the reply, or, where
          // the chain was interrupted, the next prompt.
          const allowed = consecutiveUsers(api, raw) + 2 * (coverage.chains - before.chains);
          expect(consecutiveUsers(api, payload)).toBeLessThanOrEqual(allowed);
        }
      }
      const { chains, ...others } = coverage;
      expect(Object.entries(others).filter(([, count]) => count < 3)).toEqual([]);
      if (settings.chainCompression?.enabled !== false) expect(chains).toBeGreaterThan(3);
    });
  });
});

/** A short session with thinking, text, two parallel calls and an image, spoken by `api`. */
function shortSession(api: Protocol): AgentMessage[] {
  const usage = {
    ...{ input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2 },
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
  };
  const reply = (content: AssistantMessage["content"], timestamp: number): AgentMessage => {
    const stopReason = content.some((block) => block.type === "toolCall") ? "toolUse" : "stop";
    return { role: "assistant", content, api: "x", provider: "x", model: "big-1", usage, stopReason, timestamp };
  };
  const call = (id: string, name: string): ToolCall => ({
    type: "toolCall",
    id,
    name,
    arguments: { path: "a.ts", content: argumentMarker(30_000, "t1") },
    thoughtSignature: "x",
  });
  const result = (toolCallId: string, toolName: string, timestamp: number): AgentMessage => {
    const content = [{ type: "text" as const, text: `[t1 condensed: ${toolName}]` }];
    return { role: "toolResult", toolCallId, toolName, content, isError: false, timestamp };
  };
  const thinking: ThinkingContent = { type: "thinking", thinking: "I read both.", thinkingSignature: "s" };
  return spokenBy(api, [
    { role: "user", content: "Read both.", timestamp: 1 },
    reply([thinking, { type: "text", text: "Reading." }, call("one", "read"), call("two", "write")], 2),
    result("one", "read", 3),
    result("two", "write", 4),
    reply([{ type: "text", text: "Both read." }], 5),
    { role: "user", content: "And now?", timestamp: 6 },
  ]);
}

/** Where the messages of a payload stand. */
const LIST: Readonly<Record<Protocol, string>> = {
  "anthropic-messages": "messages",
  "openai-completions": "messages",
  "openai-responses": "input",
  "google-generative-ai": "contents",
  "mistral-conversations": "messages",
  "bedrock-converse-stream": "messages",
};

describe.each(PROTOCOLS)("the checker of %s", (api) => {
  let payload: Record<string, unknown>;
  let turns: object[];
  beforeAll(async () => {
    payload = (await payloadOf(await libraryOf("old"), modelOf(api), shortSession(api))) as Record<string, unknown>;
    turns = payload[LIST[api]] as object[];
  });

  const check = (changed: object[]) => checkPayload(api, { ...payload, [LIST[api]]: changed });
  const indexOf = (part: string, from: "first" | "last" = "first") =>
    turns[from === "first" ? "findIndex" : "findLastIndex"]((turn) => JSON.stringify(turn).includes(part));
  const firstResult = () => indexOf("[t1 condensed: read]");
  const lastResult = () => indexOf("[t1 condensed: write]", "last");
  const replaced = (before: string, after: string): object[] =>
    JSON.parse(JSON.stringify(turns).replace(before, after)) as object[];

  test("takes the payload as it is", () => {
    expect(check(turns)).toEqual([]);
    expect(firstResult()).toBeGreaterThan(0);
    expect(consecutiveUsers(api, payload)).toBe(0);
  });

  test("finds a call without an answer, one that is answered twice, and an answer without a call", () => {
    expect(check(turns.filter((_, i) => i !== lastResult())).join()).toContain("not answered");
    const twice = [...turns.slice(0, lastResult() + 1), ...turns.slice(lastResult())];
    expect(check(twice).join()).toContain("to no call that waits");
    const calls = turns.filter((turn) => !JSON.stringify(turn).includes("condensed-args"));
    expect(check(calls).join()).toContain("to no call that waits");
  });

  test("finds what stands between a call and its answer", () => {
    const user = turns.at(-1) ?? {};
    expect(check(turns.toSpliced(firstResult(), 0, user)).join()).toContain("not answered");
  });

  test("finds texts that say nothing", () => {
    expect(check(replaced("Both read.", " ")).join()).toContain("empty text");
    expect(check(replaced("[t1 condensed: read]", "")).join()).toContain("empty answer");
    expect(check(replaced("And now?", "")).join()).toContain("empty text");
  });

  test("finds a conversation that begins or ends with the assistant, and an unknown role", () => {
    expect(check(turns.slice(0, -1)).join()).toContain("ends with the assistant");
    expect(check(turns.slice(indexOf("Both read."))).join()).toContain("does not begin with the user");
    expect(check([...turns, { role: "toolResult", content: [], parts: [] }]).join()).toContain("unknown role");
  });

  test("counts messages of the user that follow each other", () => {
    expect(consecutiveUsers(api, { ...payload, [LIST[api]]: [...turns, ...turns.slice(-1)] })).toBe(1);
  });

  test("tells a signature that was changed or left out", () => {
    const signatures = signaturesOf(api, payload);
    expect(signatures.join()).toContain(api === "openai-responses" ? "rs_" : "I read both.");
    const changed = replaced(api === "openai-responses" ? "rs_" : "I read both.", "Else");
    expect(signaturesOf(api, { ...payload, [LIST[api]]: changed })).not.toEqual(signatures);
  });
});

test("ids that a protocol does not take, and reasoning that leads to nothing, are found", async () => {
  const old = await libraryOf("old");
  const payload = async (api: Protocol) => JSON.stringify(await payloadOf(old, modelOf(api), shortSession(api)));
  const anthropic = await payload("anthropic-messages");
  expect(checkPayload("anthropic-messages", JSON.parse(anthropic.replaceAll("toolu_", "call|"))).join()).toContain(
    "malformed id",
  );
  const unsigned = anthropic.replace(/"signature":"[^"]+"/, '"signature":""');
  expect(checkPayload("anthropic-messages", JSON.parse(unsigned)).join()).toContain("without its signature");
  const mistral = await payload("mistral-conversations");
  expect(checkPayload("mistral-conversations", JSON.parse(mistral.replaceAll("call0", "call-0"))).join()).toContain(
    "malformed id",
  );
  const responses = JSON.parse(await payload("openai-responses"));
  const reasoning = responses.input.findIndex((item: { type?: string }) => item.type === "reasoning");
  const cut = [...responses.input.slice(0, reasoning + 1), responses.input.at(-1)];
  expect(checkPayload("openai-responses", { input: cut }).join()).toContain("without the item");
  const twice = { input: [...responses.input.slice(0, -1), ...responses.input.slice(1)] };
  expect(checkPayload("openai-responses", twice).join()).toContain("stands twice");
});

test("a tool whose input follows a grammar builds from condensed arguments on the newer host, and is one of its own kind there", async () => {
  const api = "openai-responses";
  const library = await libraryOf("new");
  const patch = "*** Begin Patch\n".repeat(60);
  const args = condenseArguments({ patch }, { ref: "t1", minStringChars: 400 });
  expect(args.patch).toBe(argumentMarker(patch.length, "t1"));
  const messages = shortSession(api).map((message) => {
    if (isToolResult(message)) return { ...message, toolName: "apply_patch" };
    if (!isAssistant(message)) return message;
    const content = message.content.map((block) =>
      block.type === "toolCall" ? { ...block, name: "apply_patch", arguments: args } : block,
    );
    return { ...message, content };
  });
  const tool = {
    name: "apply_patch",
    description: "Applies a patch.",
    parameters: Type.Object({ patch: Type.String() }),
    constrainedSampling: { type: "grammar", variants: { openai_lark: "start: /(.|\\n)+/" } },
  };
  // Only the newer host knows such tools.
  const model = { ...modelOf(api), compat: { supportsOpenAIGrammarTools: true } } as unknown as Model<Api>;
  const tools = [tool] as unknown as Context["tools"];
  const payload = (await payloadOf(library, model, messages, tools)) as { input: { type?: string; input?: string }[] };
  expect(payload.input.filter((item) => item.type === "custom_tool_call").map((item) => item.input)).toEqual([
    args.patch,
    args.patch,
  ]);
  expect(checkPayload(api, payload)).toEqual([]);
  // The same without its one string is what pi-ai refuses.
  const broken = messages.map((message) =>
    isAssistant(message)
      ? { ...message, content: message.content.map((b) => (b.type === "toolCall" ? { ...b, arguments: {} } : b)) }
      : message,
  );
  await expect(payloadOf(library, model, broken, tools)).rejects.toThrow("to be a string");
});
