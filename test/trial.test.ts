/** The trial as a user runs it: a process of its own, the models of both hosts' registries, scripted by a local server. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { documented } from "./support/documents.ts";
import { HOST_PATHS, HOSTS, type Host, REPOSITORY } from "./support/host-paths.ts";
import {
  LOCAL_PROVIDER,
  type ScriptedBody,
  type ScriptedServer,
  type ScriptedStep,
  startScriptedServer,
} from "./support/scripted-server.ts";
import { CWD, editOf, FILES, trialSession } from "./support/trial-session.ts";

const TIMEOUT = 60_000;
const CLI = join(REPOSITORY, "bin/pi-condense.mjs");
/** Markup and escapes that stand in the session, and must act nowhere. */
const NASTY = "<script>alert(1)</script>";

const folder = mkdtempSync(join(tmpdir(), "pi-condense-trial-"));
const session = join(folder, "session.jsonl");
const agentDir = folder;
const PAGE = join(folder, "page.html");
let server: ScriptedServer;
let running: ChildProcess | undefined;
let interruptAt = Number.POSITIVE_INFINITY;

/** The file that the last prompt of the user asks for. */
function wanted({ messages }: ScriptedBody): number {
  const asked = messages.filter(({ role }) => role === "user").at(-1);
  return Number(/fix file(\d+)/.exec(JSON.stringify(asked))?.[1] ?? 0);
}

const hasQueryTool = ({ tools = [] }: ScriptedBody) =>
  tools.some((tool) => tool.function.name === "context_tree_query");

/** The ref of a file's output, from its stub or from its line in a compressed chain. */
function refOf({ messages }: ScriptedBody, file: number): string {
  return new RegExp(`\\b(t\\d+)(?: condensed:)? read [^ ,]*file${file}\\.ts`).exec(JSON.stringify(messages))?.[1] ?? "";
}

/** Writes the edit that was recorded; where it does not see the text to be replaced, it asks for it first. */
function right(body: ScriptedBody): ScriptedStep {
  const file = wanted(body);
  const edit = editOf(file);
  const text = JSON.stringify(edit.edits[0]?.oldText).slice(1, -1);
  const sees = body.messages.some(({ role, content }) => role === "tool" && JSON.stringify(content).includes(text));
  return sees
    ? { tool: "edit", arguments: edit }
    : { tool: "context_tree_query", arguments: { toolCallIds: [refOf(body, file)] } };
}

const SCRIPTS: Readonly<Record<string, (body: ScriptedBody) => ScriptedStep>> = {
  right,
  "asks-back": (body) =>
    hasQueryTool(body)
      ? { tool: "context_tree_query", arguments: { toolCallIds: [refOf(body, wanted(body))] } }
      : right(body),
  "makes-up": (body) => {
    if (!hasQueryTool(body)) return right(body);
    const edits = [{ oldText: `export const neverWritten = "${NASTY}";`, newText: "x" }];
    return { tool: "edit", arguments: { path: FILES[wanted(body)]?.path, edits } };
  },
  fails: () => ({ status: 401, message: "no \u001b[31mcredit" }),
};

beforeAll(async () => {
  server = await startScriptedServer(SCRIPTS, (count) => {
    if (count === interruptAt) running?.kill("SIGINT");
  });
  writeFileSync(join(agentDir, "models.json"), server.modelsJson());
  writeFileSync(session, trialSession());
});

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Ran {
  code: number | null;
  out: string;
  err: string;
}

/** Commands as they stand in the documents. */
const PLAIN = "npx pi-condense trial <session file> --model <provider/id>";
const COMPARING = `${PLAIN} --points 40 --compare pruneOn=every-turn --html <page>`;
const JSON_ONLY = `${PLAIN} --json --yes`;
const HELP = "npx pi-condense trial --help";

/** Runs a documented command; a later option overrides an earlier one. */
async function trial(host: Host, command: string, model: string, ...more: string[]): Promise<Ran> {
  const standIns = { "<session file>": session, "<provider/id>": `${LOCAL_PROVIDER}/${model}`, "<page>": PAGE };
  const [, , , ...args] = documented(command, standIns).argv;
  return start(host, [...args, "--pi", packageOf(host), ...more]);
}

function start(host: Host, args: readonly string[], path = process.env.PATH): Promise<Ran> {
  const child = spawn(HOST_PATHS[host].node, [CLI, "trial", ...args], {
    cwd: folder,
    env: { PATH: path, HOME: folder, PI_OFFLINE: "1", PI_CODING_AGENT_DIR: agentDir },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running = child;
  const ran: Ran = { code: null, out: "", err: "" };
  child.stdout.on("data", (chunk) => {
    ran.out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    ran.err += chunk;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ ...ran, code }));
  });
}

type Share = { hits: number; of: number };

/** The JSON report, as far as it is looked at here. */
interface Report {
  complete: number;
  agreements: Record<string, { all: Share; use: Share }>;
  figures: Record<string, { requests: number; exact: Share; askedBack: Share; recoveredChars: number; madeUp: Share }>;
}

async function reportOf(host: Host, model: string): Promise<Report> {
  const { code, out, err } = await trial(host, JSON_ONLY, model, ...inShort(host, model));
  expect({ code, err }).toMatchObject({ code: 0, err: expect.stringContaining("At the prices of") });
  return JSON.parse(out);
}

const stateOf = (host: Host, model: string) => join(folder, `${host}-${model}.state`);
const inShort = (host: Host, model: string) => ["--points", "4", "--state", stateOf(host, model)];
const condensed = ({ figures }: Report) => figures.condensed;

for (const host of HOSTS) {
  describe(`pi-condense trial on the ${host} host`, () => {
    test(
      "finds nothing wrong with a model that asks for what it needs",
      async () => {
        const report = await reportOf(host, "right");
        expect(report.complete).toBe(4);
        expect(report.agreements).toMatchObject({
          "raw again": { all: { hits: 4, of: 4 }, use: { of: 2 } },
          condensed: { all: { hits: 4, of: 4 }, use: { of: 2 } },
        });
        expect(condensed(report)).toMatchObject({
          exact: { hits: 4, of: 4 },
          madeUp: { hits: 0 },
          undecided: { hits: 0 },
        });
        expect(condensed(report)?.recoveredChars).toBeGreaterThan(3_000);
        expect(condensed(report)?.requests).toBeGreaterThan(report.figures.raw?.requests ?? 9);
        expect(JSON.stringify(report)).not.toMatch(/value_|src\/|nowhere|fix file/);
        const tools = server.requests.at(-1)?.tools?.map((tool) => tool.function);
        // Both are the host's own; the session recorded no schema.
        expect(tools?.find(({ name }) => name === "edit")?.parameters).toMatchObject({ required: ["path", "edits"] });
        // Only its calls tell of this one.
        expect(tools?.find(({ name }) => name === "deploy")?.parameters).toEqual({
          type: "object",
          properties: { target: { type: "string" }, dry: { type: "boolean" } },
          required: ["target"],
        });
      },
      TIMEOUT,
    );

    test(
      "ends a model that does nothing but ask",
      async () => {
        const report = await reportOf(host, "asks-back");
        expect(condensed(report)).toMatchObject({ requests: 8, askedBack: { hits: 4 }, undecided: { hits: 4 } });
        expect(report.agreements.condensed?.all.hits).toBe(0);
      },
      TIMEOUT,
    );

    test(
      "tells what is made up, and shows it where it does no harm",
      async () => {
        const page = join(folder, `${host}.html`);
        const state = stateOf(host, "makes-up");
        const { code, out } = await trial(
          host,
          PLAIN,
          "makes-up",
          "--points",
          "4",
          "--yes",
          "--html",
          page,
          "--state",
          state,
        );
        expect(code).toBe(0);
        expect(out).toMatch(/made something up +0% \(0 of 4; 0% to 49%\) +0% .* +100% \(4 of 4; 51% to 100%\)/);
        expect(out).toContain("Moments to read");
        const html = readFileSync(page, "utf8");
        expect(html).toContain("made up: export const neverWritten = &quot;&lt;script&gt;");
        expect(html).not.toContain("<script");
        expect(html).not.toContain("\u202e");
      },
      TIMEOUT,
    );

    test(
      "tells once that a model fails, and keeps nothing of it",
      async () => {
        const { code, out, err } = await trial(host, PLAIN, "fails", "--yes", ...inShort(host, "fails"));
        expect(code).toBe(1);
        expect(err.match(/The model failed/g)).toHaveLength(1);
        expect(err).toContain("credit");
        expect(err).toContain("3 runs failed, and the trial was ended.");
        expect(`${out}${err}`).not.toContain("\u001b");
        expect(readFileSync(stateOf(host, "fails"), "utf8").trim().split("\n")).toHaveLength(1);
      },
      TIMEOUT,
    );
  });
}

describe("pi-condense trial", () => {
  test(
    "keeps what is done at Ctrl-C, beside the session, and goes on from there",
    async () => {
      const before = server.requests.length;
      interruptAt = before + 5;
      const first = await trial("old", PLAIN, "right", "--points", "4", "--yes");
      interruptAt = Number.POSITIVE_INFINITY;
      expect(first.code).toBe(130);
      expect(first.err).toContain("Run the same command again to go on from here.");
      const state = /kept in (\S+\.trial-[0-9a-f]{10})/.exec(first.err)?.[1] ?? "";
      expect(dirname(state)).toBe(folder);
      expect(statSync(state).mode & 0o777).toBe(0o600);
      const kept = readFileSync(state, "utf8").trim().split("\n").length - 1;
      expect(kept).toBeGreaterThan(0);
      const second = await trial("old", JSON_ONLY, "right", "--points", "4");
      expect(second.code).toBe(0);
      expect(JSON.parse(second.out).complete).toBe(4);
      const asked = server.requests.length;
      // All is there: nothing is asked, neither the model nor the person.
      const third = await trial("old", PLAIN, "right", "--points", "4", "--json");
      expect(third.out).toBe(second.out);
      expect(server.requests.length).toBe(asked);
    },
    TIMEOUT,
  );

  test(
    "asks nothing of a model before it has been agreed to",
    async () => {
      const before = server.requests.length;
      const { code, err } = await trial("old", PLAIN, "right", "--seed", "9", "--state", join(folder, "unasked.state"));
      expect(code).toBe(2);
      expect(err).toMatch(/costs about \$\d+\.\d\d; \$\d+\.\d\d at least, \$\d+\.\d\d at most/);
      expect(err).toContain("add --yes");
      expect(server.requests.length).toBe(before);
    },
    TIMEOUT,
  );

  test(
    "tries further settings beside the shipped ones",
    async () => {
      const args = ["--points", "2", "--yes", "--json", "--state", join(folder, "compare.state")];
      const { out } = await trial("old", COMPARING, "right", "--compare", "enabled=false", ...args);
      const report: Report = JSON.parse(out);
      expect(Object.keys(report.figures)).toEqual([
        "raw",
        "raw again",
        "condensed",
        "pruneOn=every-turn",
        "enabled=false",
      ]);
      expect(report.figures["enabled=false"]).toMatchObject({ askedBack: { hits: 0 } });
      expect(readFileSync(PAGE, "utf8")).toContain("pruneOn=every-turn");
    },
    TIMEOUT,
  );

  test(
    "says what is missing: a pi, a model, a key, a session",
    async () => {
      const bare = join(folder, "bare");
      const without = await start("old", [session, "--model", "local/right", "--pi", bare]);
      expect(without).toMatchObject({
        code: 2,
        err: expect.stringContaining("npm install -g @earendil-works/pi-coding-agent"),
      });
      const unknown = await trial("old", PLAIN, "rigth");
      expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining("Nearest: local/right") });
      const noKey = await start("old", [session, "--model", "anthropic/claude-sonnet-4-5", "--pi", packageOf("old")]);
      expect(noKey).toMatchObject({ code: 2, err: expect.stringContaining("There is no key for anthropic/") });
      const tooOld = await start("old", [session, "--model", "local/right", "--pi", packageOf("new")]);
      if (tooOld.code === 2) expect(tooOld.err).toMatch(/needs Node 22\.19/);
    },
    TIMEOUT,
  );

  test(
    "finds the pi on the path, and helps without any",
    async () => {
      const bin = join(REPOSITORY, "node_modules/.bin");
      expect(existsSync(join(bin, "pi"))).toBe(true);
      const args = [session, "--model", "local/right", "--points", "1", "--yes", "--state", join(folder, "path.state")];
      const { code, out } = await start("old", args, `${bin}:${process.env.PATH}`);
      expect(code).toBe(0);
      expect(out).toContain("through pi 0.73.1");
      expect(await start("old", documented(HELP).argv.slice(3), dirname(Bun.which("node") ?? ""))).toMatchObject({
        code: 0,
        out: expect.stringContaining("Usage: pi-condense trial"),
      });
    },
    TIMEOUT,
  );

  test("writes nothing but its own file, and runs nothing", () => {
    // The session's files stand nowhere; the models' edits and the recorded commands would have made them.
    expect(existsSync(CWD)).toBe(false);
  });
});

function packageOf(host: Host): string {
  return dirname(dirname(HOST_PATHS[host].library));
}
