import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createFolders, HOSTS, type PiFolders, type PiRun, parseLines, runPi, supportPath } from "./print-mode.ts";
import type { ScriptedCall, ScriptedReply } from "./script.ts";
import { checkTranscript } from "./transcript.ts";

setDefaultTimeout(60_000);

const MARK_RESULTS = supportPath("fixtures/mark-results.ts");

const read = (path: string): ScriptedCall => ({ name: "read", arguments: { path } });
const bash = (command: string): ScriptedCall => ({ name: "bash", arguments: { command } });

const THREE_PROMPTS: ScriptedReply[] = [
  { text: "Reading.", calls: [read("a.txt"), bash("cat a.txt")] },
  { text: "one" },
  { calls: [read("missing.txt")] },
  { text: "two" },
  { calls: [bash("wc -c < a.txt")] },
  { text: "three" },
];

function shapes(run: PiRun): string[] {
  return run.requests.map((request) => request.messages.map((message) => message.role[0]).join(""));
}

/** Exit code and output, in an order that a failed comparison shows briefly. */
function outcome(run: PiRun): [number | null, string, string] {
  return [run.code, run.stdout, run.stderr];
}

function customTypes(run: PiRun): string[] {
  return run.entries.flatMap((entry) => (entry.type === "custom" ? [entry.customType] : []));
}

for (const host of HOSTS) {
  describe(`the command line of the ${host} host`, () => {
    let folders: PiFolders;
    const start = () => {
      folders = createFolders({ "a.txt": "alpha\n" });
      return { folders, product: MARK_RESULTS };
    };

    afterEach(() => folders.remove());

    test("runs three prompts with real tools, and a second process goes on with the session", async () => {
      const common = start();
      const first = await runPi(host, {
        ...common,
        prompts: ["one?", "two?", "three?"],
        script: { replies: THREE_PROMPTS },
      });
      expect(outcome(first)).toEqual([0, "three\n", ""]);
      expect(shapes(first)).toEqual(["u", "uatt", "uattau", "uattauat", "uattauatau", "uattauatauat"]);
      for (const request of first.requests) {
        expect(checkTranscript(request.messages)).toEqual([]);
        expect(request.model).toBe("main");
        expect(request.tools).toContain("bash");
        expect(request.systemPrompt).toContain("coding");
      }
      expect(JSON.stringify(first.requests.at(-1)?.messages)).toContain("[marked bash true]");
      expect(JSON.stringify(first.requests.at(-1)?.messages)).not.toContain("alpha");
      const stored = JSON.stringify(first.entries);
      for (const text of ["alpha", "missing.txt", "three"]) expect(stored).toContain(text);
      expect(first.entries[0]?.type).toBe("session");
      expect(customTypes(first).filter((type) => type === "mark-results")).toHaveLength(6);
      expect(customTypes(first).at(-1)).toBe("mark-results-end");

      const script = { replies: [{ calls: [read("a.txt")] }, { text: "four" }] };
      const second = await runPi(host, { ...common, prompts: ["four?"], script, session: "continue" });
      expect(outcome(second)).toEqual([0, "four\n", ""]);
      expect(second.sessionFile).toBe(first.sessionFile);
      expect(shapes(second)).toEqual(["uattauatauatau", "uattauatauatauat"]);
      // What the first process sent last is a prefix of what the second one sends, byte for byte.
      const sent = first.requests.at(-1)?.messages ?? [];
      expect(JSON.stringify(second.requests[0]?.messages.slice(0, sent.length))).toBe(JSON.stringify(sent));
      expect(second.entries.slice(0, first.entries.length)).toEqual(first.entries);
    });

    test("goes on with a session file by its path, and keeps none on request", async () => {
      const common = { ...start(), product: false as const };
      const first = await runPi(host, { ...common, prompts: ["hello"], script: { replies: [{ text: "hi" }] } });
      const script = { rules: [{ lastUser: "^again$", reply: { text: "still here" } }] };
      const second = await runPi(host, { ...common, prompts: ["again"], script, session: first.sessionFile });
      expect(outcome(second)).toEqual([0, "still here\n", ""]);
      expect(second.sessionFile).toBe(first.sessionFile);
      expect(shapes(second)).toEqual(["uau"]);
      folders.remove();
      const other = start().folders;
      const third = await runPi(host, { ...common, folders: other, prompts: ["again"], script, session: "none" });
      expect(outcome(third)).toEqual([0, "still here\n", ""]);
      expect([third.sessionFile, third.entries]).toEqual([undefined, []]);
    });

    test("prints events as JSON, with commands among the prompts", async () => {
      const script = { replies: [{ thinking: "hm", text: "hi" }] };
      const run = await runPi(host, { ...start(), prompts: ["/mark it", "hello"], script, mode: "json" });
      expect([run.code, run.stderr]).toEqual([0, ""]);
      const types = run.events.map((event) => event.type);
      expect(types[0]).toBe("session");
      expect(types).toEqual(expect.arrayContaining(["agent_start", "message_end", "agent_end"]));
      expect(customTypes(run)).toContain("mark-command");
    });

    test("an errored reply and an extension that does not load fail the process, each in its own words", async () => {
      const common = start();
      const replies = [{ stopReason: "error" as const, errorMessage: "scripted overload" }];
      const errored = await runPi(host, { ...common, prompts: ["go"], script: { replies } });
      expect([errored.code, errored.stdout]).toEqual([1, ""]);
      expect(errored.stderr).toContain("scripted overload");

      const product = join(common.folders.root, "broken.ts");
      writeFileSync(product, "export default 1;\n");
      const broken = await runPi(host, { ...common, product, prompts: ["go"], script: {} });
      expect([broken.code, broken.requests]).toEqual([1, []]);
      expect(broken.stderr).toContain("broken.ts");
    });

    test("a process that crashes or hangs is ended, and what it had stored is there", async () => {
      const common = start();
      const replies = [{ calls: [read("a.txt")] }, { text: "late", delayMs: 600_000 }];
      const killed = await runPi(host, { ...common, prompts: ["go"], script: { replies }, killAfterRequests: 2 });
      expect(killed.code).toBeNull();
      expect(killed.requests).toHaveLength(2);
      expect(JSON.stringify(killed.entries)).toContain("alpha");

      const started = await runPi(host, { ...common, prompts: ["go"], script: { replies }, timeoutMs: 300 });
      expect(started.code).toBeNull();
    });

    test("a slow handler, settings and a second extension reach the process", async () => {
      const common = start();
      const probe = join(common.folders.root, "probe", "index.ts");
      mkdirSync(join(common.folders.root, "probe"));
      writeFileSync(
        probe,
        `import { appendFileSync, readFileSync } from "node:fs";
         import { getAgentDir } from "@mariozechner/pi-coding-agent";
         export default function (pi) {
           pi.on("session_start", () => appendFileSync(process.env.PROBE, readFileSync(getAgentDir() + "/settings.json")));
         }`,
      );
      const seen = join(common.folders.root, "seen.json");
      const run = await runPi(host, {
        ...common,
        prompts: ["go"],
        script: { replies: [{ calls: [read("a.txt")] }, { text: "done" }] },
        settings: { contextPrune: { pruneOn: "on-demand" } },
        extensions: [supportPath("slow-handler.ts"), probe],
        env: { SLOW_HANDLER_MS: "300", PROBE: seen },
      });
      expect([run.code, run.stdout]).toEqual([0, "done\n"]);
      expect(JSON.parse(readFileSync(seen, "utf8"))).toMatchObject({ contextPrune: { pruneOn: "on-demand" } });
      const wait = (run.requests[1]?.at ?? 0) - (run.requests[0]?.at ?? 0);
      if (host === "new") expect(wait).toBeGreaterThanOrEqual(300);
    });

    test("settings of the working folder are read where it is trusted", async () => {
      const common = start();
      mkdirSync(join(common.folders.cwd, ".pi"));
      writeFileSync(join(common.folders.cwd, ".pi/settings.json"), JSON.stringify({ extensions: [MARK_RESULTS] }));
      for (const trustProject of [true, false]) {
        const options = { ...common, product: false as const, prompts: ["/mark x", "go"], trustProject };
        const run = await runPi(host, { ...options, script: { replies: [{ text: "done" }, { text: "done" }] } });
        expect([run.code, run.stdout]).toEqual([0, "done\n"]);
        expect(customTypes(run).includes("mark-command")).toBe(trustProject || host === "old");
      }
    });
  });
}

test("prompts that the command line would misread are refused", async () => {
  const folders = createFolders();
  for (const prompt of ["--help", "@file"]) {
    await expect(runPi("old", { folders, prompts: [prompt], script: {} })).rejects.toThrow("for an option or a file");
  }
  folders.remove();
});

test("a line that is no JSON fails", () => {
  expect(parseLines<unknown>('{"a":1}\n\n2\n')).toEqual([{ a: 1 }, 2]);
  expect(() => parseLines('{"a":1}\nWarning: no\n')).toThrow("Not a line of JSON: Warning: no");
});

test.each(HOSTS)("the product sees the libraries of the %s host", async (host) => {
  const folders = createFolders();
  try {
    const { stderr } = await runPi(host, { folders, prompts: ["/pruner doctor"], script: { replies: [] } });
    expect(stderr).toContain(host === "old" ? "pi 0.73.1" : "pi 1.6.0");
  } finally {
    folders.remove();
  }
});
