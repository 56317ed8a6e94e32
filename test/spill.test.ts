/**
 * Oversized results: no request ever carries one whole, the blob holds it to the byte, and whatever happens to the blob,
 * the original can be had.
 */
import { afterAll, afterEach, describe, expect, setDefaultTimeout, spyOn, test } from "bun:test";
import * as fs from "node:fs";
import { basename, dirname, join } from "node:path";
import type { AssistantMessage, Message, ToolResultMessage } from "@mariozechner/pi-ai";
import type { FileEntry } from "@mariozechner/pi-coding-agent";
import { contentHash } from "../src/capture/duplicates.ts";
import { recover, sourcesOf } from "../src/recovery/originals.ts";
import { blobDirFor, blobPathFor, headPreview } from "../src/spill.ts";
import { extractToolResultText, occurrenceKey, textOf } from "../src/transcript/messages.ts";
import {
  CUSTOM_TYPE_FRONTIER,
  CUSTOM_TYPE_INDEX,
  CUSTOM_TYPE_SUMMARY,
  type IndexEntryData,
  QUERY_TOOL_NAME,
} from "../src/types.ts";
import { bigLine, bigText } from "./support/fixtures/big-output.ts";
import { type HostSession, openSession, type Reply } from "./support/hosts.ts";
import {
  bundledProduct,
  createFolders,
  HOSTS,
  type Host,
  type PiFolders,
  type PiOptions,
  type PiRun,
  PRODUCT_ENTRY,
  runPi,
  supportPath,
} from "./support/print-mode.ts";
import type { ScriptedCall, ScriptedReply, ScriptedRequest } from "./support/script.ts";
import { agentDirWith, EntryTree, type Settings, SimulatedSession } from "./support/simulated-session.ts";
import { checkTranscript } from "./support/transcript.ts";

setDefaultTimeout(180_000);

const BIG_OUTPUT = supportPath("fixtures/big-output.ts");
/** Loaded first, so that the product's own handlers come after the wait. */
const SLOW_HANDLER = { product: supportPath("slow-handler.ts"), env: { SLOW_HANDLER_MS: "800" } };

const BYTES = 1_000_000;
const BODY = bigText(BYTES);
const LINES = BODY.split("\n");
const PREVIEW_BYTES = 2_048;
/** Header, hint and path around the preview. */
const STUB_ROOM = 800;
/** A line far behind any preview: where it stands, more than the preview was sent. */
const DEEP_LINE = bigLine(400);

const call = (name: string, args: ScriptedCall["arguments"], id: string): ScriptedCall => ({
  name,
  arguments: args,
  id,
});
const big = (id: string, bytes = BYTES) => call("big_output", { bytes }, id);
const query = (ref: string, id: string) => call(QUERY_TOOL_NAME, { toolCallIds: [ref] }, id);

const opened: PiFolders[] = [];
afterAll(() => {
  for (const folders of opened) folders.remove();
});

function freshFolders(): PiFolders {
  const made = createFolders();
  opened.push(made);
  return made;
}

/** One process. The summariser is a model that has nothing to say: any call of it would fail and be seen. */
async function run(
  host: Host,
  options: Omit<PiOptions, "script"> & { replies: ScriptedReply[]; contextPrune?: Settings },
): Promise<PiRun> {
  const { replies, contextPrune, ...rest } = options;
  const result = await runPi(host, {
    timeoutMs: 90_000,
    ...rest,
    extensions: options.product ? [bundledProduct(), BIG_OUTPUT] : [BIG_OUTPUT],
    script: { replies },
    settings: { contextPrune: { summarizerModel: "scripted/sum", ...contextPrune } },
  });
  expect(result.stderr).not.toContain("Extension error");
  expect(result.code).toBe(0);
  expect(result.requests.map((request) => request.model)).toEqual(replies.map(() => "main"));
  for (const request of result.requests) expect(checkTranscript(request.messages)).toEqual([]);
  return result;
}

function resultsOf(messages: readonly Message[] | undefined): ToolResultMessage[] {
  return messages?.filter((message): message is ToolResultMessage => message.role === "toolResult") ?? [];
}

function resultOf(messages: readonly Message[] | undefined, id: string): ToolResultMessage {
  const result = resultsOf(messages).find((message) => message.toolCallId === id);
  if (!result) throw new Error(`no result of ${id} in the request`);
  return result;
}

function stubOf(messages: readonly Message[] | undefined, id: string): string {
  return extractToolResultText(resultOf(messages, id));
}

/** What `context_tree_query` answered, without its header. */
function recoveredBody(messages: readonly Message[] | undefined, id: string): string {
  const [header, body] = resultOf(messages, id).content;
  expect(header && textOf([header])).toContain(` of ${BODY.length.toLocaleString("en-US")}`);
  return body ? textOf([body]) : "";
}

/** The answer is a whole first page of the original. */
function expectPageOfBody(messages: readonly Message[] | undefined, id: string): void {
  const page = recoveredBody(messages, id);
  expect(page.length).toBeGreaterThan(40_000);
  expect(BODY.startsWith(page)).toBe(true);
}

function expectNeverWhole(requests: readonly ScriptedRequest[]): void {
  for (const { messages } of requests) {
    for (const result of resultsOf(messages).filter(({ toolName }) => toolName === "big_output")) {
      const text = extractToolResultText(result);
      expect(text).toMatch(/^\[t\d+ condensed: /);
      expect(text.length).toBeLessThanOrEqual(PREVIEW_BYTES + STUB_ROOM);
    }
    expect(JSON.stringify(messages)).not.toContain(DEEP_LINE);
  }
}

function customData(entries: readonly FileEntry[], customType: string): unknown[] {
  return entries.flatMap((entry) => (entry.type === "custom" && entry.customType === customType ? [entry.data] : []));
}

function sessionIdOf(run: PiRun): string {
  const header = run.entries.find((entry) => entry.type === "session");
  if (!header) throw new Error("the session file has no header");
  return header.id;
}

/** Every file and folder below `root` whose name says that it belongs to a blob. */
function blobNames(root: string): string[] {
  const all = fs.readdirSync(root, { recursive: true, encoding: "utf8" });
  return all.filter((name) => name.endsWith("-blobs") || dirname(name).endsWith("-blobs"));
}

/** The one blob of a session, with nothing else in its folder. */
function onlyBlob(folders: PiFolders, sessionId: string): string {
  const dir = join(folders.sessionDir, `${sessionId}-blobs`);
  const names = fs.readdirSync(dir);
  expect(names).toHaveLength(1);
  expect(blobNames(folders.root).toSorted()).toEqual(
    [`sessions/${basename(dir)}`, `sessions/${basename(dir)}/${names[0]}`].toSorted(),
  );
  return join(dir, names[0] ?? "");
}

function mode(path: string): number {
  return fs.statSync(path).mode & 0o777;
}

describe.each(HOSTS)("an oversized result in print mode on %s", (host) => {
  test.each<[string, Partial<PiOptions>]>([
    ["", {}],
    [", with a slow handler of another extension", SLOW_HANDLER],
  ])("never leaves whole, stands in a blob of its own and is read from there%s", async (_name, variant) => {
    const folders = freshFolders();
    const first = await run(host, {
      ...variant,
      folders,
      prompts: ["fetch it", "what was in it?"],
      replies: [{ calls: [big("call_big")] }, { text: "Fetched." }, { text: "Numbered lines." }],
    });
    expectNeverWhole(first.requests);

    const blob = onlyBlob(folders, sessionIdOf(first));
    expect(fs.readFileSync(blob, "utf8") === BODY).toBe(true);
    expect(fs.statSync(blob).size).toBe(BYTES);
    if (process.platform !== "win32") {
      expect(mode(blob)).toBe(0o600);
      expect(mode(dirname(blob))).toBe(0o700);
    }

    const stub = stubOf(first.requests[1]?.messages, "call_big");
    const preview = headPreview(BODY, PREVIEW_BYTES);
    const header = stub.slice(0, stub.indexOf("\n"));
    expect(header).toStartWith("[t1 condensed: big_output ");
    expect(header).toContain("1,000,000 bytes in 20,000 lines");
    expect(header).toContain(`${QUERY_TOOL_NAME} t1`);
    expect(header.length).toBeLessThanOrEqual(200);
    expect(stub).toContain(preview);
    expect(stub).toContain(`${blob}: read this file (offset/limit supported) to access the full output`);
    expect(stubOf(first.requests[2]?.messages, "call_big")).toBe(stub);

    const [index, ...others] = customData(first.entries, CUSTOM_TYPE_INDEX) as IndexEntryData[];
    expect(others).toEqual([]);
    expect(index?.toolCalls).toHaveLength(1);
    expect(index?.toolCalls[0]).toMatchObject({
      toolCallId: "call_big",
      resultText: "",
      resultPreview: preview,
      spillPath: blob,
      spillBytes: BYTES,
      spillLines: 20_000,
      contentHash: contentHash({ toolName: "big_output", isError: false, content: [{ type: "text", text: BODY }] }),
    });
    expect(JSON.stringify(index).length).toBeLessThan(PREVIEW_BYTES + 1_500);
    expect(customData(first.entries, CUSTOM_TYPE_SUMMARY)).toEqual([]);

    const second = await run(host, {
      folders,
      session: "continue",
      prompts: ["read a part", "query it"],
      replies: [
        { calls: [call("read", { path: blob, offset: 15_000, limit: 10 }, "call_read")] },
        { text: "Read." },
        { calls: [query("t1", "call_query")] },
        { text: "Queried." },
      ],
    });
    const before = first.requests[2]?.messages ?? [];
    const after = second.requests[0]?.messages ?? [];
    expect(JSON.stringify(after.slice(0, before.length))).toBe(JSON.stringify(before));
    expectNeverWhole(second.requests.slice(0, 3));
    expect(stubOf(second.requests[1]?.messages, "call_read")).toStartWith(LINES.slice(14_999, 15_009).join("\n"));
    expectPageOfBody(second.requests[3]?.messages, "call_query");
    expect(onlyBlob(folders, sessionIdOf(second))).toBe(blob);
    expect(customData(second.entries, CUSTOM_TYPE_INDEX).length).toBeLessThanOrEqual(2);
    expect(JSON.stringify(customData(second.entries, CUSTOM_TYPE_INDEX))).not.toContain(DEEP_LINE);
  });

  test("answers from the blob alone, and from the session's own message alone", async () => {
    const folders = freshFolders();
    const first = await run(host, {
      folders,
      prompts: ["fetch it"],
      replies: [{ calls: [big("call_big")] }, { text: "Fetched." }],
    });
    const file = first.sessionFile ?? "";
    const blob = onlyBlob(folders, sessionIdOf(first));
    const recorded = fs.readFileSync(file, "utf8");
    const ask = { folders, session: file, prompts: ["query it"] };
    const replies = [{ calls: [query("t1", "call_query")] }, { text: "Queried." }];

    fs.writeFileSync(file, recorded.replace(JSON.stringify(BODY), '"lost"'));
    const fromBlob = await run(host, { ...ask, replies });
    expect(stubOf(fromBlob.requests[0]?.messages, "call_big")).toBe("lost");
    expectPageOfBody(fromBlob.requests[1]?.messages, "call_query");

    fs.writeFileSync(file, recorded);
    fs.unlinkSync(blob);
    const fromMessage = await run(host, { ...ask, replies });
    expectPageOfBody(fromMessage.requests[1]?.messages, "call_query");
    expectNeverWhole(fromMessage.requests.slice(0, 1));
    // A stub names no file that is not there.
    expect(stubOf(fromMessage.requests[0]?.messages, "call_big")).not.toContain(blob);
    expect(fs.readdirSync(dirname(blob))).toEqual([]);
  });

  test.each<[string, Partial<PiOptions>]>([
    ["", {}],
    [", with a slow handler", { ...SLOW_HANDLER, env: { SLOW_HANDLER_MS: "400" } }],
  ])("that comes again is written once, and each repeat points to the first%s", async (_name, variant) => {
    const folders = freshFolders();
    const first = await run(host, {
      ...variant,
      folders,
      prompts: ["fetch it", "fetch it again", "and now?"],
      replies: [
        { calls: [big("call_1"), big("call_2")] },
        { calls: [big("call_3")] },
        { text: "Fetched three times." },
        { calls: [big("call_4")] },
        { text: "And once more." },
        { text: "Numbered lines." },
      ],
    });
    expectNeverWhole(first.requests);
    const blob = onlyBlob(folders, sessionIdOf(first));
    const last = first.requests.at(-1)?.messages;
    expect(stubOf(last, "call_1")).toStartWith("[t1 condensed: big_output ");
    for (const [id, ref, unseen] of [
      ["call_2", "t2", first.requests[1]],
      ["call_3", "t3", first.requests[2]],
      ["call_4", "t4", first.requests[4]],
    ] as const) {
      const stub = stubOf(last, id);
      expect(stub).toStartWith(`[${ref} condensed: identical to t1 (`);
      expect(stub).toContain(blob);
      expect(stubOf(unseen?.messages, id)).toBe(stub);
    }
    expect(customData(first.entries, CUSTOM_TYPE_INDEX)).toHaveLength(1);
    expect(customData(first.entries, CUSTOM_TYPE_SUMMARY)).toEqual([]);

    const second = await run(host, {
      folders,
      session: "continue",
      prompts: ["query the last"],
      replies: [{ calls: [query("t4", "call_query")] }, { text: "Queried." }],
    });
    expect(JSON.stringify(second.requests[0]?.messages.slice(0, last?.length))).toBe(JSON.stringify(last));
    expectPageOfBody(second.requests[1]?.messages, "call_query");
  });

  test("is condensed like any other, and written nowhere, in a session that is not kept", async () => {
    const folders = freshFolders();
    const result = await run(host, {
      folders,
      session: "none",
      contextPrune: { summarizerModel: "none" },
      prompts: ["fetch it", "what was in it?"],
      replies: [
        { calls: [big("call_big")] },
        { text: "Fetched." },
        { calls: [query("t1", "call_query")] },
        { text: "Queried." },
      ],
    });
    expect(stubOf(result.requests[1]?.messages, "call_big") === BODY).toBe(true);
    expect(stubOf(result.requests[2]?.messages, "call_big")).toStartWith("[t1 condensed: big_output ");
    expect(JSON.stringify(result.requests[2]?.messages)).not.toContain(DEEP_LINE);
    expectPageOfBody(result.requests[3]?.messages, "call_query");
    expect(blobNames(folders.root)).toEqual([]);
    expect(fs.readdirSync(folders.sessionDir)).toEqual([]);
    expect(fs.readdirSync(folders.cwd)).toEqual([]);
  });

  test.each([
    ["moved", fs.renameSync],
    ["copied", (from: string, to: string) => fs.cpSync(from, to, { recursive: true })],
  ])("is found where the session's folder was %s to", async (_name, transfer) => {
    const folders = freshFolders();
    const replies = [{ calls: [big("call_big")] }, { text: "Fetched." }];
    const first = await run(host, { folders, prompts: ["fetch it"], replies });
    const id = sessionIdOf(first);
    const blob = onlyBlob(folders, id);

    const elsewhere = { ...folders, sessionDir: join(folders.root, "elsewhere") };
    transfer(folders.sessionDir, elsewhere.sessionDir);
    const moved = join(elsewhere.sessionDir, basename(dirname(blob)), basename(blob));
    const second = await run(host, {
      folders: elsewhere,
      session: join(elsewhere.sessionDir, basename(first.sessionFile ?? "")),
      prompts: ["go on"],
      replies: [
        { calls: [query("t1", "call_query")] },
        { calls: [call("read", { path: moved, offset: 400, limit: 1 }, "call_read"), big("call_again")] },
        { text: "Done." },
      ],
    });
    const stub = stubOf(second.requests[0]?.messages, "call_big");
    expect(stub).toContain(`${moved}: read this file`);
    expect(stub).not.toContain(blob);
    expect(stub.replaceAll(moved, blob)).toBe(stubOf(first.requests[1]?.messages, "call_big"));
    expectPageOfBody(second.requests[1]?.messages, "call_query");
    expect(stubOf(second.requests[2]?.messages, "call_read")).toStartWith(bigLine(400));
    expect(stubOf(second.requests[2]?.messages, "call_again")).toContain(`identical to t1 (`);
    expect(stubOf(second.requests[2]?.messages, "call_again")).toContain(moved);
    expect(fs.readdirSync(dirname(moved))).toEqual([basename(moved)]);
  });

  test("is read by a fork in another folder, and a fork of that one still answers", async () => {
    const folders = freshFolders();
    const first = await run(host, {
      folders,
      prompts: ["fetch it"],
      replies: [{ calls: [big("call_big")] }, { text: "Fetched." }],
    });
    const blob = onlyBlob(folders, sessionIdOf(first));
    const forkOf = (parent: PiRun, name: string) => {
      const sessionDir = join(folders.root, name);
      fs.mkdirSync(sessionDir);
      return run(host, {
        folders: { ...folders, sessionDir },
        args: ["--fork", parent.sessionFile ?? ""],
        prompts: ["query it"],
        replies: [{ calls: [query("t1", "call_query"), big("call_again")] }, { text: "Queried." }],
      });
    };
    const fork = await forkOf(first, "fork");
    expect(sessionIdOf(fork)).not.toBe(sessionIdOf(first));
    expect(stubOf(fork.requests[0]?.messages, "call_big")).toBe(stubOf(first.requests[1]?.messages, "call_big"));
    expectPageOfBody(fork.requests[1]?.messages, "call_query");
    expect(stubOf(fork.requests[1]?.messages, "call_again")).toContain(blob);

    const second = await forkOf(fork, "fork-of-fork");
    const stub = stubOf(second.requests[0]?.messages, "call_big");
    expect(stub).toStartWith("[t1 condensed: big_output ");
    expect(stub.length).toBeLessThanOrEqual(PREVIEW_BYTES + STUB_ROOM);
    expectPageOfBody(second.requests[1]?.messages, "call_query");
    expect(onlyBlob(folders, sessionIdOf(first))).toBe(blob);
  });
});

describe.each(HOSTS)("an oversized result in a session of the %s host", (host) => {
  let open: HostSession | undefined;

  afterEach(async () => {
    await open?.close();
    open = undefined;
  });

  /** Reads what the stub names, as a model does that follows the hint. */
  const readSlice: Reply = ({ messages }) => {
    const path = /The whole output is in (.+): read this file/.exec(stubOf(messages, "call_big"))?.[1];
    return { calls: [call("read", { path, offset: 400, limit: 3 }, "call_read")] };
  };

  test("is read by the path in its stub at once, and a fork reads the blob of its parent", async () => {
    open = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY, BIG_OUTPUT],
      settings: { contextPrune: { summarizerModel: "none" } },
      replies: [{ calls: [big("call_big")] }, readSlice, { text: "Read." }],
    });
    const { folders, requests } = open;
    await open.prompt("fetch it and read a part");
    expect(open.errors).toEqual([]);
    expectNeverWhole(requests.slice(0, 2));
    expect(stubOf(requests[2]?.messages, "call_read")).toStartWith(LINES.slice(399, 402).join("\n"));
    const parent = open.sessionManager.getSessionId();
    const blob = onlyBlob(folders, parent);

    await open.fork(open.sessionManager.getLeafId() ?? "", "at");
    expect(open.sessionManager.getSessionId()).not.toBe(parent);
    open.reply({ calls: [query("t1", "call_query"), big("call_again")] }, { text: "Queried." });
    await open.prompt("query it");
    expect(open.errors).toEqual([]);
    expect(stubOf(requests[3]?.messages, "call_big")).toBe(stubOf(requests[2]?.messages, "call_big"));
    expect(stubOf(requests[3]?.messages, "call_big")).toContain(blob);
    expectPageOfBody(requests[4]?.messages, "call_query");
    expect(stubOf(requests[4]?.messages, "call_again")).toContain("identical to t1 (");
    expect(onlyBlob(folders, parent)).toBe(blob);
  });

  test("goes raw when the extension is switched off, and is a stub again when it is switched on", async () => {
    open = await openSession(host, {
      extensionPaths: [PRODUCT_ENTRY, BIG_OUTPUT],
      settings: { contextPrune: { summarizerModel: "none" } },
      replies: [{ calls: [big("call_big")] }, { text: "Fetched." }, { text: "Raw." }, { text: "Condensed." }],
    });
    await open.prompt("fetch it");
    await open.prompt("/pruner off");
    await open.prompt("and raw?");
    await open.prompt("/pruner on");
    await open.prompt("and condensed?");
    const { requests } = open;
    expect(stubOf(requests[2]?.messages, "call_big") === BODY).toBe(true);
    expect(stubOf(requests[3]?.messages, "call_big")).toBe(stubOf(requests[1]?.messages, "call_big"));
  });

  test("stays whole, told once, where its folder cannot be made, and is condensed by the next flush", async () => {
    const folders = freshFolders();
    // The session's id, and with it the folder's name, is known once the session is open.
    open = await openSession(host, {
      folders,
      extensionPaths: [PRODUCT_ENTRY, BIG_OUTPUT],
      settings: { contextPrune: { summarizerModel: "none", pruneOn: "agent-message" } },
      replies: [
        { calls: [big("call_big")] },
        { calls: [call("bash", { command: "echo on" }, "call_bash")] },
        { text: "Fetched." },
        { text: "Condensed." },
      ],
    });
    const blobDir = blobDirFor(folders.sessionDir, open.sessionManager.getSessionId());
    fs.writeFileSync(blobDir, "in the way");
    await open.prompt("fetch it");
    await open.prompt("and now?");
    expect(open.errors).toEqual([]);
    const { requests } = open;
    expect(requests).toHaveLength(4);
    expect(stubOf(requests[1]?.messages, "call_big") === BODY).toBe(true);
    expect(stubOf(requests[2]?.messages, "call_big") === BODY).toBe(true);
    expect(stubOf(requests[3]?.messages, "call_big")).toStartWith("[t1 condensed: big_output ");
    expect(fs.readFileSync(blobDir, "utf8")).toBe("in the way");
  });
});

/** A conversation of calls that each give an oversized result, in a folder of its own. */
class Conversation {
  readonly root = freshFolders().root;
  readonly dir = join(this.root, "sessions");
  readonly blobDir = blobDirFor(this.dir, "simulated");
  readonly session: SimulatedSession;
  private now = 1_772_000_000_000;

  constructor(settings: Settings = {}, lag = false) {
    const agentDir = agentDirWith({ summarizerModel: "none", pruneOn: "agent-message", ...settings });
    this.session = new SimulatedSession(agentDir, new EntryTree(this.dir), lag);
    this.say("user");
  }

  /** The turn of one call. */
  async turn(id: string, content: ToolResultMessage["content"]): Promise<void> {
    this.session.add(
      this.assistant([{ type: "toolCall", id, name: "fetch", arguments: { url: `x/${id}` } }], "toolUse"),
    );
    this.now += 10;
    this.session.add({
      role: "toolResult",
      toolCallId: id,
      toolName: "fetch",
      content,
      isError: false,
      timestamp: this.now,
    });
    await this.session.pruner.turnEnded(this.session.host);
  }

  async close(): Promise<void> {
    this.session.add(this.assistant([{ type: "text", text: "Done." }], "stop"));
    await this.session.pruner.turnEnded(this.session.host);
    this.say("user");
  }

  blobOf(id: string): string {
    const result = this.session.messages().find((m) => m.role === "toolResult" && m.toolCallId === id);
    return blobPathFor(this.blobDir, occurrenceKey(id, result?.timestamp));
  }

  /** Path of the blob of the call that comes next. */
  nextBlob(id: string): string {
    return blobPathFor(this.blobDir, occurrenceKey(id, this.now + 20));
  }

  /** What the next request carries of a result. */
  async sent(id: string): Promise<string> {
    return stubOf((await this.session.request()).sent as Message[], id);
  }

  recovered(ref: string): string {
    const recovery = recover(ref, sourcesOf(this.session.state()));
    if (recovery.kind !== "found") throw new Error(recovery.message);
    return recovery.outputs.map((output) => output.text).join();
  }

  customs(customType: string): unknown[] {
    return customData(this.session.tree.branch(), customType);
  }

  private say(role: "user"): void {
    this.now += 10;
    this.session.add({ role, content: "Go on.", timestamp: this.now });
  }

  private assistant(content: AssistantMessage["content"], stopReason: "stop" | "toolUse"): AssistantMessage {
    this.now += 10;
    const none = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
    return {
      role: "assistant",
      content,
      api: "scripted-api",
      provider: "scripted",
      model: "main",
      usage: { ...none, totalTokens: 0, cost: { ...none, total: 0 } },
      stopReason,
      timestamp: this.now,
    };
  }
}

const textBlock = (text: string): ToolResultMessage["content"][number] => ({ type: "text", text });
const THRESHOLD = 65_536;
const OUTPUT = bigText(80_000);
const image: ToolResultMessage["content"][number] = { type: "image", data: "aGVsbG8=", mimeType: "image/png" };

describe("a result that cannot be written", () => {
  /** What stands below the blob folder, to be the same afterwards. */
  const listing = (path: string): string[] =>
    fs.lstatSync(path, { throwIfNoEntry: false })?.isDirectory()
      ? fs.readdirSync(path, { recursive: true, encoding: "utf8" }).toSorted()
      : [];

  /** Opens temporary files on a device that is full, so that the system itself refuses what is written to them. */
  function fillDisk(): () => void {
    const openSync = fs.openSync;
    const spy = spyOn(fs, "openSync").mockImplementation((path, flags, fileMode) => {
      const file = openSync(path, flags, fileMode);
      if (!String(path).endsWith(".tmp")) return file;
      fs.closeSync(file);
      return openSync("/dev/full", "w");
    });
    return () => spy.mockRestore();
  }

  /** Refuses temporary files themselves, as a disk does that is read-only or out of inodes. */
  function refuseFiles(): () => void {
    const openSync = fs.openSync;
    const spy = spyOn(fs, "openSync").mockImplementation((path, flags, fileMode) => {
      if (!String(path).endsWith(".tmp")) return openSync(path, flags, fileMode);
      throw Object.assign(new Error(`ENOSPC: no space left on device, open '${path}'`), {
        code: "ENOSPC",
        syscall: "open",
      });
    });
    return () => spy.mockRestore();
  }

  const obstacles: [string, (conversation: Conversation, ids: string[]) => (() => void) | undefined][] = [
    ["a file in the folder's place", ({ blobDir }) => void fs.writeFileSync(blobDir, "in the way")],
    [
      "a link to another folder in the folder's place",
      ({ blobDir, root }) => {
        fs.mkdirSync(join(root, "target"));
        fs.symlinkSync(join(root, "target"), blobDir);
        return undefined;
      },
    ],
    [
      "a session folder that is no folder",
      ({ dir }) => {
        fs.rmdirSync(dir);
        fs.writeFileSync(dir, "in the way");
        return undefined;
      },
    ],
    ["a disk that is full", fillDisk],
    ["a disk that takes no file", refuseFiles],
  ];

  test.each(obstacles.filter(([name]) => process.platform === "linux" || !name.includes("is full")))(
    "stays whole, told once, with no trace on the disk: %s",
    async (_name, obstruct) => {
      const conversation = new Conversation();
      const { session, blobDir, root } = conversation;
      const restore = obstruct(conversation, ["call_1", "call_2"]);
      try {
        const before = listing(root);
        await conversation.turn("call_1", [textBlock(OUTPUT)]);
        expect((await conversation.sent("call_1")) === OUTPUT).toBe(true);
        const second = bigText(80_000, 2);
        await conversation.turn("call_2", [textBlock(second)]);
        expect((await conversation.sent("call_2")) === second).toBe(true);
        expect((await conversation.sent("call_1")) === OUTPUT).toBe(true);
        expect(session.notices).toHaveLength(1);
        expect(session.notices[0]).toContain("stays in the context");
        expect(session.notices[0]).not.toContain(bigLine(1));
        expect(conversation.customs(CUSTOM_TYPE_INDEX)).toEqual([]);
        expect(listing(root).filter((name) => name !== `sessions/${basename(blobDir)}`)).toEqual(
          before.filter((name) => name !== `sessions/${basename(blobDir)}`),
        );

        await conversation.close();
        expect(await conversation.sent("call_1")).toStartWith("[t1 condensed: fetch ");
        expect(await conversation.sent("call_2")).toStartWith("[t2 condensed: fetch ");
        expect(conversation.recovered("t1") === OUTPUT).toBe(true);
        expect(session.notices).toHaveLength(1);
      } finally {
        restore?.();
      }
    },
  );

  test.each<[string, (path: string, root: string) => void]>([
    ["a folder", (path) => void fs.mkdirSync(path)],
    [
      "a link to a file of the user",
      (path, root) => {
        fs.writeFileSync(join(root, "precious.txt"), "precious");
        fs.symlinkSync(join(root, "precious.txt"), path);
      },
    ],
    ["a link to a file that is not there", (path, root) => fs.symlinkSync(join(root, "precious.txt"), path)],
    ["another file", (path) => fs.writeFileSync(path, "something else")],
  ])("stays whole where %s stands in the blob's place, which is left alone", async (_name, plant) => {
    const conversation = new Conversation();
    const { session, root, blobDir } = conversation;
    fs.mkdirSync(blobDir, { mode: 0o700 });
    const blob = conversation.nextBlob("call_1");
    plant(blob, root);
    const before = listing(root);
    const precious = () =>
      fs.existsSync(join(root, "precious.txt")) && fs.readFileSync(join(root, "precious.txt"), "utf8");
    const preciousBefore = precious();

    await conversation.turn("call_1", [textBlock(OUTPUT)]);
    expect(conversation.blobOf("call_1")).toBe(blob);
    for (let i = 0; i < 3; i++) expect((await conversation.sent("call_1")) === OUTPUT).toBe(true);
    expect(session.notices).toHaveLength(1);
    expect(conversation.customs(CUSTOM_TYPE_INDEX)).toEqual([]);
    expect(listing(root)).toEqual(before);
    expect(precious()).toBe(preciousBefore);

    await conversation.close();
    expect(await conversation.sent("call_1")).toStartWith("[t1 condensed: fetch ");
    expect(conversation.recovered("t1") === OUTPUT).toBe(true);
    expect(session.notices).toHaveLength(1);

    // Others are spilled all the same.
    const other = bigText(80_000, 2);
    await conversation.turn("call_2", [textBlock(other)]);
    expect(await conversation.sent("call_2")).toContain(conversation.blobOf("call_2"));
    expect(fs.readFileSync(conversation.blobOf("call_2"), "utf8") === other).toBe(true);
  });

  test("is tried again by the next process", async () => {
    const conversation = new Conversation();
    const { session, blobDir } = conversation;
    fs.writeFileSync(blobDir, "in the way");
    await conversation.turn("call_1", [textBlock(OUTPUT)]);
    fs.unlinkSync(blobDir);
    expect((await conversation.sent("call_1")) === OUTPUT).toBe(true);

    const again = session.restart();
    const { sent } = await again.request();
    expect(stubOf(sent as Message[], "call_1")).toContain(conversation.blobOf("call_1"));
    expect(again.notices).toEqual([]);
  });
});

describe("an oversized result", () => {
  test("is given back whole by the session's own message where its blob was cut short", async () => {
    const conversation = new Conversation();
    await conversation.turn("call_1", [textBlock(OUTPUT)]);
    fs.truncateSync(conversation.blobOf("call_1"), 1_000);
    expect(conversation.recovered("t1") === OUTPUT).toBe(true);
  });

  test.each([
    ["one character less", THRESHOLD - 1, false],
    ["exactly the threshold", THRESHOLD, true],
    ["one character more", THRESHOLD + 1, true],
  ])("begins at the threshold: %s", async (_name, length, spilled) => {
    const conversation = new Conversation();
    // Two bytes a character: the threshold counts characters.
    const text = "é".repeat(length);
    await conversation.turn("call_1", [textBlock(text)]);
    expect((await conversation.sent("call_1")) !== text).toBe(spilled);
    expect(fs.existsSync(conversation.blobDir)).toBe(spilled);
  });

  test("is spilled also from the request alone, where the branch lags behind", async () => {
    const conversation = new Conversation({}, true);
    await conversation.turn("call_1", [textBlock(OUTPUT)]);
    const stub = await conversation.sent("call_1");
    expect(stub).toContain(conversation.blobOf("call_1"));
    conversation.session.catchUp();
    expect(await conversation.sent("call_1")).toBe(stub);
    expect(conversation.customs(CUSTOM_TYPE_INDEX)).toHaveLength(1);
    const again = conversation.session.restart();
    expect(stubOf((await again.request()).sent as Message[], "call_1")).toBe(stub);
  });

  test("begins no flush, and the flush after it has nothing to do with it", async () => {
    const conversation = new Conversation();
    await conversation.turn("call_1", [textBlock(OUTPUT)]);
    expect(conversation.customs(CUSTOM_TYPE_FRONTIER)).toEqual([]);
    const stub = await conversation.sent("call_1");
    await conversation.close();
    await conversation.turn("call_2", [textBlock(bigText(5_000, 2))]);
    await conversation.close();
    expect(await conversation.sent("call_1")).toBe(stub);
    expect(conversation.customs(CUSTOM_TYPE_INDEX)).toHaveLength(2);
  });

  test("is taken out again into the same file after a move in the tree to before its record", async () => {
    const conversation = new Conversation();
    const { tree, pruner, host } = conversation.session;
    await conversation.turn("call_1", [textBlock(OUTPUT)]);
    const stub = await conversation.sent("call_1");
    const result = tree.branch().find((entry) => entry.type === "message" && entry.message.role === "toolResult");
    tree.moveTo(result?.id ?? null);
    pruner.treeMoved();
    expect(await conversation.sent("call_1")).toBe(stub);
    await pruner.turnEnded(host);
    expect(fs.readdirSync(conversation.blobDir)).toEqual([basename(conversation.blobOf("call_1"))]);
    expect(conversation.recovered("t1") === OUTPUT).toBe(true);
  });

  test("with an image says so in its stub, and gives both back", async () => {
    const conversation = new Conversation();
    await conversation.turn("call_1", [textBlock(OUTPUT), image]);
    expect(await conversation.sent("call_1")).toContain("1 image");
    const recovery = recover("t1", sourcesOf(conversation.session.state()));
    const output = recovery.kind === "found" ? recovery.outputs[0] : undefined;
    expect(output?.text === OUTPUT).toBe(true);
    expect(output?.images).toEqual([image]);
  });

  test("of several blocks is joined as recovery joins them", async () => {
    const conversation = new Conversation();
    await conversation.turn("call_1", [textBlock(OUTPUT), textBlock("the end")]);
    expect(await conversation.sent("call_1")).toContain("80,008 bytes");
    expect(fs.readFileSync(conversation.blobOf("call_1"), "utf8") === `${OUTPUT}\nthe end`).toBe(true);
  });

  test("with more preview than the settings can save is still shorter than what it replaces", async () => {
    const conversation = new Conversation({ spillThreshold: 4_096, spillPreviewBytes: 65_536 });
    const text = bigText(4_400);
    expect(text.length).toBeGreaterThanOrEqual(4_096);
    await conversation.turn("call_1", [textBlock(text)]);
    const stub = await conversation.sent("call_1");
    expect(stub).toStartWith("[t1 condensed: fetch ");
    expect(stub.length).toBeLessThan(text.length);
  });
});
