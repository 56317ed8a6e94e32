import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ExtensionAPI, SessionEntry } from "@mariozechner/pi-coding-agent";
import { createFolders } from "./folders.ts";
import {
  HOSTS,
  type HostSession,
  type HostSessionOptions,
  openSession,
  PRODUCT_ENTRY,
  supportPath,
  until,
} from "./hosts.ts";
import { recordingUi } from "./recording-ui.ts";
import { checkTranscript } from "./transcript.ts";

setDefaultTimeout(60_000);

const MARK_RESULTS = supportPath("fixtures/mark-results.ts");
const ASK_MODEL = supportPath("fixtures/ask-model.ts");
const SLOW_HANDLER = supportPath("slow-handler.ts");

const READ_A = { calls: [{ name: "read", arguments: { path: "a.txt" } }] };

function customData(entries: readonly SessionEntry[], customType: string): unknown[] {
  return entries.flatMap((entry) => (entry.type === "custom" && entry.customType === customType ? [entry.data] : []));
}

for (const host of HOSTS) {
  describe(`a session of the ${host} host`, () => {
    let open: HostSession | undefined;

    async function start(options: HostSessionOptions): Promise<HostSession> {
      open = await openSession(host, { files: { "a.txt": "alpha\n" }, ...options });
      return open;
    }

    afterEach(async () => {
      await open?.close();
      open = undefined;
    });

    test("loads the product with this host's own libraries", async () => {
      const notices: string[] = [];
      const run = await start({ extensionPaths: [PRODUCT_ENTRY], ui: recordingUi(notices) });
      await run.prompt("/pruner doctor");
      expect(run.errors).toEqual([]);
      expect(notices.join("\n")).toContain(`pi ${host === "old" ? "0.73.1" : "1.6.0"}, Node `);
    });

    test("runs tools, loads an extension by path and records every request", async () => {
      const run = await start({
        extensionPaths: [MARK_RESULTS],
        replies: [
          { thinking: "hm", thinkingSignature: "s", text: "I look.", ...READ_A },
          (request) => ({ text: `seen ${request.messages.length}` }),
        ],
      });
      await run.prompt("look");
      expect(run.errors).toEqual([]);
      expect(run.requests.map((request) => request.messages.map((message) => message.role))).toEqual([
        ["user"],
        ["user", "assistant", "toolResult"],
      ]);
      const [first, second] = run.requests;
      expect(first?.tools).toEqual(expect.arrayContaining(["read", "bash", "edit", "write"]));
      expect(first?.systemPrompt).toContain("coding");
      expect(second?.messages[1]).toMatchObject({
        content: [
          { type: "thinking", thinking: "hm", thinkingSignature: "s" },
          { type: "text", text: "I look." },
          { type: "toolCall", name: "read", arguments: { path: "a.txt" } },
        ],
        stopReason: "toolUse",
      });
      expect(second?.messages[2]?.content).toEqual([{ type: "text", text: "[marked read true]" }]);
      expect(JSON.stringify(run.session.messages.filter((message) => message.role === "toolResult"))).toContain(
        "alpha",
      );
      expect(JSON.stringify(run.session.messages.at(-1))).toContain("seen 3");
      expect(customData(run.branch(), "mark-results")).toEqual([{ results: 1 }, { results: 0 }]);
      expect(checkTranscript(second?.messages ?? [])).toEqual([]);
      await run.prompt("/mark now");
      expect(customData(run.branch(), "mark-command")).toEqual([{ args: "now" }]);
    });

    test("a recorded request does not change with what the host does later", async () => {
      const run = await start({ replies: [READ_A, { text: "done" }, { text: "more" }] });
      await run.prompt("look");
      const before = JSON.stringify(run.requests);
      await run.prompt("again");
      expect(JSON.stringify(run.requests.slice(0, 2))).toBe(before);
      expect(run.requests).toHaveLength(3);
    });

    test("an extension reaches a second model, whose request is recorded as well", async () => {
      const run = await start({
        extensionPaths: [ASK_MODEL],
        script: { repliesOf: { sum: [{ text: "four", usage: { input: 7, output: 2 } }] } },
      });
      await run.prompt("/ask sum two and two?");
      expect(run.errors).toEqual([]);
      expect(run.requests).toMatchObject([
        {
          model: "sum",
          systemPrompt: "Answer briefly.",
          cacheRetention: "none",
          messages: [{ content: "two and two?" }],
        },
      ]);
      expect(customData(run.branch(), "ask-model")).toMatchObject([
        {
          content: [{ type: "text", text: "four" }],
          stopReason: "stop",
          usage: { input: 7, output: 2, totalTokens: 9 },
        },
      ]);
    });

    test("a model that stays silent or drips ends by the caller's signal", async () => {
      const run = await start({
        extensionPaths: [ASK_MODEL],
        script: {
          repliesOf: {
            sum: [
              { text: "late", delayMs: 600_000 },
              { text: "a b c d", dripMs: 1500 },
            ],
          },
        },
      });
      await run.prompt("/ask sum first");
      await run.prompt("/ask sum second");
      expect(customData(run.branch(), "ask-model")).toMatchObject([
        { stopReason: "aborted" },
        { stopReason: "aborted" },
      ]);
    });

    test("rules come first, the last resort last, and an exhausted script is an errored reply", async () => {
      const run = await start({
        script: {
          replies: [{ text: "from the list" }],
          rules: [
            { system: "never there", reply: { text: "wrong" } },
            { model: "sum", reply: { text: "wrong" } },
            { lastUser: "^ping", reply: (request) => ({ text: `pong ${request.messages.length}` }), times: 1 },
          ],
        },
      });
      for (const text of ["ping 1", "ping 2", "ping 3"]) await run.prompt(text);
      const replies = run.session.messages.filter((message) => message.role === "assistant");
      expect(replies.map((reply) => [reply.stopReason, JSON.stringify(reply.content)])).toEqual([
        ["stop", expect.stringContaining("pong 1")],
        ["stop", expect.stringContaining("from the list")],
        ["error", "[]"],
      ]);
      expect(replies[2]?.errorMessage).toContain("no reply left");
    });

    test("scripted usage reaches the host; estimated usage counts what the last request held as cached", async () => {
      const run = await start({
        replies: [{ text: "one", usage: { input: 50_000, output: 10 } }, { text: "two" }, { text: "three" }],
      });
      await run.prompt("first");
      expect(run.session.getContextUsage()?.tokens).toBe(50_010);
      await run.prompt("second");
      await run.prompt("third");
      const usages = run.session.messages.filter((message) => message.role === "assistant").map((reply) => reply.usage);
      expect(usages[2]?.cacheRead).toBeGreaterThan(usages[1]?.cacheRead ?? Number.NaN);
      expect(usages[2]?.cacheWrite).toBeLessThan(usages[2]?.cacheRead ?? Number.NaN);
      expect(usages[2]?.cost.total).toBeGreaterThan(0);
    });

    test("what handlers throw is collected, and what does not load too", async () => {
      const run = await start({
        extensionPaths: [supportPath("fixtures/no-such-extension.ts")],
        factories: [
          (pi: ExtensionAPI) => {
            pi.on("context", () => {
              throw new Error("broken handler");
            });
          },
        ],
        replies: [{ text: "fine" }],
      });
      await run.prompt("go");
      expect(run.errors.map((error) => error.event)).toEqual(["load", "context"]);
      expect(run.errors[1]?.error).toContain("broken handler");
    });

    test("settings stand in pi's own file, in the folder that extensions are told of", async () => {
      const run = await start({ settings: { contextPrune: { enabled: false } } });
      expect(process.env.PI_CODING_AGENT_DIR).toBe(run.folders.agentDir);
      const settings = JSON.parse(readFileSync(join(run.folders.agentDir, "settings.json"), "utf8"));
      expect(settings).toMatchObject({ contextPrune: { enabled: false }, compaction: { enabled: false } });
    });

    test("a new session, a fork and a switch back each bind the extensions again", async () => {
      const events: string[] = [];
      const run = await start({
        factories: [
          (pi: ExtensionAPI) => {
            pi.on("session_start", (event) => void events.push(`start ${event.reason}`));
            pi.on("session_shutdown", (event) => void events.push(`shutdown ${event.reason}`));
          },
        ],
        script: { otherwise: { text: "ok" } },
      });
      await run.prompt("first");
      await run.prompt("second");
      const firstFile = run.sessionFile ?? "";
      const secondPrompt = run.branch().findLast((entry) => entry.type === "message" && entry.message.role === "user");
      await run.fork(secondPrompt?.id ?? "");
      expect(run.sessionFile).not.toBe(firstFile);
      await run.prompt("instead");
      expect(JSON.stringify(run.requests.at(-1)?.messages)).toMatch(/first.*instead/);
      expect(JSON.stringify(run.requests.at(-1)?.messages)).not.toContain("second");
      await run.newSession();
      expect(run.session.messages).toEqual([]);
      await run.switchSession(firstFile);
      expect(JSON.stringify(run.session.messages)).toContain("second");
      expect(events.filter((event) => event.startsWith("start"))).toEqual([
        "start startup",
        "start fork",
        "start new",
        "start resume",
      ]);
      expect(events.filter((event) => event.startsWith("shutdown"))).toEqual([
        "shutdown fork",
        "shutdown new",
        "shutdown resume",
      ]);
      await run.close();
      open = undefined;
      expect(events.at(-1)).toBe("shutdown quit");
    });

    test("closing ends what runs, runs the shutdown handlers and leaves nothing behind", async () => {
      const folders = createFolders();
      const environment = process.env.PI_CODING_AGENT_DIR;
      const run = await openSession(host, {
        folders,
        extensionPaths: [MARK_RESULTS],
        replies: [{ text: "done" }, { text: "never", delayMs: 600_000 }],
      });
      await run.prompt("go");
      const waiting = run.session.prompt("wait");
      await until(() => run.requests.length === 2);
      await run.close();
      await waiting;
      expect(process.env.PI_CODING_AGENT_DIR).toBe(environment);
      const file = run.sessionFile ?? "";
      expect(readFileSync(file, "utf8")).toContain("mark-results-end");

      const again = await openSession(host, { folders, sessionFile: file, replies: [{ text: "hello again" }] });
      await again.prompt("still there?");
      expect(JSON.stringify(again.requests[0]?.messages)).toMatch(/go.*done.*wait.*still there/);
      await again.close();
      folders.remove();
      expect(existsSync(folders.root)).toBe(false);
    });

    test("two sessions may be open at once in the same folders, but not in others", async () => {
      const run = await start({ replies: [{ text: "first" }] });
      const second = await openSession(host, { folders: run.folders, replies: [{ text: "second" }] });
      await second.prompt("two");
      await expect(openSession(host)).rejects.toThrow("not closed");
      await run.prompt("one");
      await second.close();
      expect(process.env.PI_CODING_AGENT_DIR).toBe(run.folders.agentDir);
      expect(JSON.stringify(run.requests.map((request) => request.messages))).not.toContain("two");
      expect(second.sessionFile).not.toBe(run.sessionFile);
    });

    test("a slow handler makes the branch lag where the host does not wait for it", async () => {
      process.env.SLOW_HANDLER_MS = "300";
      const lag: number[] = [];
      const run = await start({
        extensionPaths: [SLOW_HANDLER],
        factories: [
          (pi: ExtensionAPI) => {
            pi.on("context", (event, ctx) => {
              const stored = ctx.sessionManager.getBranch().filter((entry) => entry.type === "message");
              const inBranch = stored.filter((entry) => entry.message.role === "toolResult").length;
              lag.push(event.messages.filter((message) => message.role === "toolResult").length - inBranch);
            });
          },
        ],
        replies: [READ_A, READ_A, READ_A, { text: "done" }],
      });
      await run.prompt("go");
      delete process.env.SLOW_HANDLER_MS;
      expect(lag).toHaveLength(4);
      expect(Math.max(...lag) > 0).toBe(host === "old");
      expect(run.session.messages.filter((message) => message.role === "toolResult")).toHaveLength(3);
    });
  });
}

test("waiting for what does not happen fails", async () => {
  await expect(until(() => false, 20)).rejects.toThrow("Still not so after 20 ms");
  await until(() => true, 0);
});
