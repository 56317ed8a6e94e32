/** Condensed arguments on the real command line of both hosts: in place, recoverable, refused where they are copied. */
import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Message, ToolCall, ToolResultMessage } from "@mariozechner/pi-ai";
import { extractToolResultText, isAssistant, textOf, toolCallsOf } from "../src/transcript/messages.ts";
import {
  createFolders,
  HOSTS,
  type Host,
  type PiFolders,
  type PiOptions,
  type PiRun,
  runPi,
} from "./support/print-mode.ts";
import type { ScriptedCall, ScriptedReply, ScriptedRequest } from "./support/script.ts";
import { checkTranscript } from "./support/transcript.ts";

const TIMEOUT = 120_000;
const SETTINGS = { contextPrune: { summarizerModel: "none", chainCompression: { enabled: false } } };

/** 30 KB that no two lines of are alike, with line ends, quotes and characters that JSON escapes. */
const CONTENT = Array.from({ length: 520 }, (_, i) => `${i}\t"line" of 变更 — \\n ${"abcdefghij".repeat(4)}\r\n`).join(
  "",
);

const opened: PiFolders[] = [];
afterAll(() => {
  for (const folders of opened) folders.remove();
});

function folders(files: Record<string, string> = {}): PiFolders {
  const made = createFolders(files);
  opened.push(made);
  return made;
}

async function run(host: Host, options: Partial<PiOptions> & Pick<PiOptions, "folders" | "prompts" | "script">) {
  const result = await runPi(host, { settings: SETTINGS, ...options });
  expect(result.stderr).toBe("");
  expect(result.code).toBe(0);
  for (const { messages } of result.requests) expect(checkTranscript(messages)).toEqual([]);
  return result;
}

const call = (name: string, args: ScriptedCall["arguments"], id: string): ScriptedCall => ({
  name,
  arguments: args,
  id,
});
const calls = (...list: ScriptedCall[]): ScriptedReply => ({ calls: list });
const says = (text: string): ScriptedReply => ({ text });

/** The arguments of a call in a request. */
function argumentsOf(request: ScriptedRequest | undefined, id: string): ToolCall["arguments"] | undefined {
  return request?.messages
    .filter(isAssistant)
    .flatMap(toolCallsOf)
    .find((block) => block.id === id)?.arguments;
}

function resultOf(messages: readonly Message[] | undefined, id: string): ToolResultMessage | undefined {
  return messages?.find((m): m is ToolResultMessage => m.role === "toolResult" && m.toolCallId === id);
}

function textOfResult(request: ScriptedRequest | undefined, id: string): string {
  const result = resultOf(request?.messages, id);
  return result ? extractToolResultText(result) : "";
}

function lastRequest({ requests }: PiRun): ScriptedRequest | undefined {
  return requests.at(-1);
}

/** Writes the file, and closes the chain. */
const write = () => [calls(call("write", { path: "out.txt", content: CONTENT }, "w1")), says("Written.")];

describe.each(HOSTS)("condensed arguments on %s", (host) => {
  test(
    "stand in place with the path readable, and come back byte for byte, page by page",
    async () => {
      const place = folders();
      const query = (offset: number) =>
        calls(call("context_tree_query", { toolCallIds: ["t1"], args: true, offset, limit: 10_000 }, `q${offset}`));
      const offsets = [0, 10_000, 20_000, 30_000].filter((offset) => offset < CONTENT.length);
      const first = await run(host, {
        folders: place,
        prompts: ["write it"],
        script: { replies: write() },
      });
      expect(argumentsOf(first.requests[1], "w1")).toEqual({ path: "out.txt", content: CONTENT });
      expect(readFileSync(join(place.cwd, "out.txt"), "utf8")).toBe(CONTENT);

      const second = await run(host, {
        folders: place,
        session: "continue",
        prompts: ["and now?", "give it back"],
        script: {
          replies: [
            says("Nothing."),
            ...offsets.map(query),
            calls(call("context_tree_query", { toolCallIds: ["t1"], args: true }, "whole")),
            says("Done."),
          ],
        },
      });
      expect(argumentsOf(second.requests[0], "w1")).toEqual({
        path: "out.txt",
        content: `<condensed-args chars="${CONTENT.length}" ref="t1"/>`,
      });
      // What neither the reply nor the arguments say any longer stands in the stub.
      expect(textOfResult(second.requests[0], "w1")).toStartWith(
        "[t1 condensed: write out.txt, wrote 520 lines, ok. Full output: context_tree_query t1]\nwrote 520 lines:\n",
      );
      const bodyOf = (id: string) => {
        const [header, ...body] = resultOf(lastRequest(second)?.messages, id)?.content ?? [];
        return { header: header ? textOf([header]) : "", body: textOf(body) };
      };
      const pages = offsets.map((offset) => bodyOf(`q${offset}`));
      expect(pages.length).toBeGreaterThan(2);
      for (const { header } of pages) expect(header).toStartWith("[t1: write out.txt, arguments; characters ");
      expect(pages.map(({ body }) => body).join("")).toBe(CONTENT);
      expect(bodyOf("whole").body).toBe(CONTENT);
    },
    TIMEOUT,
  );

  test(
    "a marker that is copied into a new call is refused, the model is told why, and nothing is written",
    async () => {
      const place = folders({ "note.md": "first line\nsecond line\n" });
      const marker = `<condensed-args chars="${CONTENT.length}" ref="t1"/>`;
      const unknown = 'In pi-condense, <condensed-args chars="5" ref="t999"/> stands for a text.\n';
      const { requests } = await run(host, {
        folders: place,
        prompts: ["write it", "copy it", "describe the tool"],
        script: {
          replies: [
            ...write(),
            calls(call("write", { path: "out.txt", content: marker }, "copy")),
            calls(
              call(
                "edit",
                { path: "note.md", edits: [{ oldText: "first line", newText: `one\n${marker}` }] },
                "nested",
              ),
            ),
            calls(call("bash", { command: `cat > out.txt <<EOF\n${marker.replaceAll('"', '\\"')}\nEOF` }, "shell")),
            says("I could not."),
            calls(call("write", { path: "about.md", content: unknown }, "about")),
            says("Described."),
          ],
        },
      });
      const last = requests.at(-1);
      expect(requests).toHaveLength(8);
      for (const id of ["copy", "nested", "shell"]) {
        expect(resultOf(last?.messages, id)?.isError).toBe(true);
        expect(textOfResult(last, id)).toContain("stands for a text that was condensed");
        expect(textOfResult(last, id)).toContain('context_tree_query {"toolCallIds": ["t1"], "args": true}');
      }
      expect(readFileSync(join(place.cwd, "out.txt"), "utf8")).toBe(CONTENT);
      expect(readFileSync(join(place.cwd, "note.md"), "utf8")).toBe("first line\nsecond line\n");
      expect(resultOf(last?.messages, "about")?.isError).toBe(false);
      expect(readFileSync(join(place.cwd, "about.md"), "utf8")).toBe(unknown);
    },
    TIMEOUT,
  );

  test(
    "those of a failed edit stay until its cooldown is over and a flush comes; the error text stays",
    async () => {
      const oldText = "this text stands nowhere in the file\n".repeat(40);
      const edits = [{ oldText, newText: "short" }];
      const read = (id: string) => [calls(call("bash", { command: `seq 1 900; echo ${id}` }, id)), says(`Did ${id}.`)];
      const { requests } = await run(host, {
        folders: folders({ "a.txt": "something else\n" }),
        prompts: ["edit it", "two", "three", "four", "five"],
        script: {
          replies: [
            calls(call("edit", { path: "a.txt", edits }, "e1")),
            says("It failed."),
            ...read("b1"),
            // A prompt without anything to condense: no flush, so nothing is purged by the way.
            says("Three."),
            says("Four."),
            says("Five."),
          ],
        },
      });
      const failure = textOfResult(requests[1], "e1");
      expect(resultOf(requests[1]?.messages, "e1")?.isError).toBe(true);
      for (const request of requests.slice(1)) {
        expect(argumentsOf(request, "e1")).toEqual({ path: "a.txt", edits });
        expect(textOfResult(request, "e1")).toBe(failure);
      }

      const purged = await run(host, {
        folders: folders({ "a.txt": "something else\n" }),
        prompts: ["edit it", "two", "three", "four"],
        script: {
          replies: [
            calls(call("edit", { path: "a.txt", edits }, "e1")),
            says("It failed."),
            ...read("b1"),
            ...read("b2"),
            says("Four."),
          ],
        },
      });
      const marked = {
        path: "a.txt",
        edits: [{ oldText: `<condensed-args chars="${oldText.length}" ref="t1"/>`, newText: "short" }],
      };
      const [, ...after] = purged.requests;
      expect(after.map((request) => JSON.stringify(argumentsOf(request, "e1")) === JSON.stringify(marked))).toEqual([
        false,
        false,
        false,
        false,
        false,
        true,
      ]);
      for (const request of after) expect(textOfResult(request, "e1")).toBe(failure);
    },
    TIMEOUT,
  );

  test(
    "nothing is touched where it is switched off",
    async () => {
      const off = { ...SETTINGS.contextPrune, condenseArgs: { enabled: false }, purgeErrors: { enabled: false } };
      const { requests } = await run(host, {
        folders: folders(),
        prompts: ["write it", "two", "three", "four"],
        settings: { contextPrune: off },
        script: {
          replies: [
            ...write(),
            calls(call("bash", { command: "seq 1 900" }, "b1")),
            says("Two."),
            says("Three."),
            says("Four."),
          ],
        },
      });
      // The flush has run, and only results have changed.
      expect(textOfResult(requests.at(-1), "b1")).toStartWith("[t");
      const sent = requests.slice(1).map((request) => JSON.stringify(argumentsOf(request, "w1")));
      expect(new Set(sent)).toEqual(new Set([JSON.stringify({ path: "out.txt", content: CONTENT })]));
    },
    TIMEOUT,
  );
});
