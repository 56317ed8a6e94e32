/** What the documents say is so: every command in them is run by a test, links lead somewhere, settings exist. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { workload } from "../bench/workloads.ts";
import { runCommand, SUBCOMMANDS } from "../src/commands/index.ts";
import { findSetting, resolveConfig, SETTINGS } from "../src/config.ts";
import { QUERY_TOOL_NAME } from "../src/types.ts";
import { copySetUpCheckout, userEnvironment } from "./support/checkout.ts";
import {
  anchorsIn,
  blocksIn,
  commandsIn,
  DOCUMENTS,
  inlineCodeIn,
  invocationOf,
  linksIn,
  type Mention,
  readDocument,
} from "./support/documents.ts";
import { createFolders } from "./support/folders.ts";
import { HOST_PATHS, HOSTS, type Host, REPOSITORY } from "./support/host-paths.ts";
import { agentDirWith, EntryTree, SimulatedSession } from "./support/simulated-session.ts";
import { missingTmux } from "./terminal/tmux.ts";

const LIMIT_MS = 180_000;
/** Commands that run at the same time. */
const AT_ONCE = 2;

const place = mkdtempSync(join(tmpdir(), "pi-condense-documents-"));
const checkout = join(place, "checkout");
const sessions = join(place, "sessions");
const sessionFile = join(sessions, "session.jsonl");
afterAll(() => rmSync(place, { recursive: true, force: true }), LIMIT_MS);

/** A command that this file runs, in a copy of the checkout. */
interface Run {
  /** What it prints, to one of its outputs. */
  prints: RegExp;
  /** Arguments behind those of the document, which keep a long one short. */
  adding?: readonly string[];
  env?: Readonly<Record<string, string>>;
  /** Why it cannot run here, or `undefined`. */
  missing?: () => string | undefined;
}

/** A command that another file runs, and how it stands there; by itself if missing. */
interface RunElsewhere {
  by: string;
  as?: string;
}

const STAND_INS = {
  "<session file>": sessionFile,
  "<file>": sessionFile,
  "[file]": sessionFile,
  "<page>": join(place, "page.html"),
  "<folder>": sessions,
};
const byPackaging = (command: string): RunElsewhere => ({
  by: "test/packaging.test.ts",
  as: `documented("${command}"`,
});

/** A command that is named so there, and run with a stand-in for each placeholder. */
const byTrial = (name: string): RunElsewhere => ({ by: "test/trial.test.ts", as: `const ${name} = ` });

/** Every command of the documents but those of `/pruner` and of the replay, as it stands there. */
const COMMANDS: Readonly<Record<string, Run | RunElsewhere>> = {
  "npm test": { by: ".ci/run", as: "npm test --silent" },
  "npm run lint": { by: ".ci/run", as: "npm run --silent lint" },
  "npm run typecheck": { by: ".ci/run", as: "npm run --silent typecheck" },
  "CI=true": { by: ".ci/run", as: "export CI=true" },
  // Those that take longest begin first.
  "npm run screenshots": { prints: /progress\.png/, missing: missingForPictures },
  "npx bun bench/same-figures.ts": { prints: /new host[\s\S]*Answers cost/, missing: missingTmux },
  "npm run bench": { prints: /^ +10000 [\s\S]*^old +on-demand +1000 /m, adding: ["--", "old", "on-demand", "1000"] },
  "npm test -- src/flush.test.ts": { prints: /^\d+ passed, 0 failed$/m },
  "npm run docs": { prints: /configuration\.ts/ },
  "npm run demo": { prints: /^pi 0\.73 [\s\S]*shipped settings [^\n]*−\d+%[\s\S]* (\d+) of \1 are identical/m },
  "npm run demo -- --host 1.6": { prints: /^pi 1\.6 [\s\S]* (\d+) of \1 are identical/m },
  "npm run nightly": {
    prints: /^ \d+ pass$/m,
    adding: ["--", "src/transcript/messages.test.ts"],
    env: { PROPERTY_RUNS: "2" },
  },
  "node scripts/mutate.mjs src/cost": { prints: /^2 mutants, \d noticed, \d survived$/m, adding: ["--count", "2"] },
  "npx bun bench/chains.ts <session file>": { prints: /deep changes/ },
  "npx bun bench/working-set.ts <session file>": { prints: /anthropic-5m/ },
  "npx bun bench/defaults.ts [file]": { prints: /^anthropic-5m .*recorded/m, adding: ["--only", "rollingWindow=5"] },
  "PI_CONDENSE_SESSION=<file> npm test -- test/real-session.test.ts": { prints: /^old, as shipped: \d+ requests/m },
  "npm install --omit=dev": byPackaging("npm install --omit=dev"),
  "pi install /path/to/pi-condense": byPackaging("pi install /path/to/pi-condense"),
  "pi -e /path/to/pi-condense/index.ts": byPackaging("pi -e /path/to/pi-condense/index.ts"),
  "pi install git:<its address>": byPackaging("pi install git:<its address>"),
  "pi update git:<its address>": byPackaging("pi update git:<its address>"),
  "pi remove git:<its address>": byPackaging("pi remove git:<its address>"),
  "pi list": { prints: /packages/i },
  "pi --list-models": { prints: /models/i },
  "/login": { by: "test/terminal/screens.test.ts" },
  "/compact": { by: "test/terminal/screens.test.ts" },
  "/reload": { by: "test/terminal/screens.test.ts" },
  "npx pi-condense trial <session file> --model <provider/id>": byTrial("PLAIN"),
  "npx pi-condense trial <session file> --model <provider/id> --points 40 --compare pruneOn=every-turn --html <page>":
    byTrial("COMPARING"),
  "npx pi-condense trial <session file> --model <provider/id> --json --yes": byTrial("JSON_ONLY"),
  "npx pi-condense trial --help": byTrial("HELP"),
  "PI_CACHE_RETENTION=long": { by: "test/cache-aware.test.ts", as: 'process.env.PI_CACHE_RETENTION = "long"' },
};

const mentions = DOCUMENTS.flatMap(commandsIn);
const runs: readonly (Run & { command: string })[] = [
  ...Object.entries(COMMANDS).flatMap(([command, how]) => ("prints" in how ? [{ command, ...how }] : [])),
  ...[...new Set(mentions.map(({ text }) => text).filter(isReplay))].map((command) => ({
    command,
    prints: command.endsWith(" --help")
      ? /^Usage: /
      : command.endsWith(" --json")
        ? /"ratio"/
        : /^Replayed in [\d.]+ s/m,
  })),
];

function missingForPictures(): string | undefined {
  const { status } = spawnSync(process.env.PYTHON ?? "/usr/bin/python3", ["-c", "import PIL"]);
  return missingTmux() ?? (status === 0 ? undefined : "there is no Python with Pillow");
}

interface Outcome {
  status: number | null;
  output: string;
}

/** Runs a command in the copy of the checkout; one of the host on both of them. Never rejects. */
async function execute({ command, adding = [], env }: (typeof runs)[number]): Promise<Outcome[]> {
  const { argv, env: own } = invocationOf(command, STAND_INS);
  const [program, ...args] = [...argv, ...adding];
  if (program !== "pi") return [await outcomeOf(program, args, { ...own, ...env })];
  return Promise.all(HOSTS.map((host) => outcomeOnHost(host, args)));
}

async function outcomeOnHost(host: Host, args: readonly string[]): Promise<Outcome> {
  const { node, cli } = HOST_PATHS[host];
  const folders = createFolders();
  const outcome = await outcomeOf(node, [cli, ...args], { PI_OFFLINE: "1", PI_CODING_AGENT_DIR: folders.agentDir });
  folders.remove();
  return outcome;
}

function outcomeOf(program: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      cwd: checkout,
      env: { ...userEnvironment(), ...env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: LIMIT_MS,
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        output += chunk;
      });
    }
    child.once("error", (error) => resolve({ status: null, output: error.message }));
    child.once("close", (status) => resolve({ status, output }));
  });
}

function isReplay(text: string): boolean {
  return text.startsWith("npx pi-condense replay ");
}

function isPruner(text: string): boolean {
  return /^\/pruner( |$)/.test(text);
}

function at({ document, line, text }: Mention): string {
  return `${document}:${line}: ${text}`;
}

describe("commands in the documents", () => {
  test("are all known to be run by a test", () => {
    const unknown = mentions.filter(({ text }) => !isPruner(text) && !isReplay(text) && !Object.hasOwn(COMMANDS, text));
    expect(unknown.map(at)).toEqual([]);
  });

  test("are what the table of commands holds, and nothing else", () => {
    const unused = Object.keys(COMMANDS).filter((command) => !mentions.some(({ text }) => text === command));
    expect(unused).toEqual([]);
  });

  test("that another file runs stand there", () => {
    const missing = Object.entries(COMMANDS).flatMap(([command, how]) => {
      if ("prints" in how) return [];
      const found = readFileSync(join(REPOSITORY, how.by), "utf8").includes(how.as ?? `"${command}"`);
      return found ? [] : [`${command} is not run by ${how.by}`];
    });
    expect(missing).toEqual([]);
  });

  test("that begin with npm name a script of the package", () => {
    const { scripts } = JSON.parse(readFileSync(join(REPOSITORY, "package.json"), "utf8"));
    const missing = mentions.filter(({ text }) => {
      const [, name = /\bnpm test\b/.test(text) ? "test" : undefined] = /\bnpm run (\S+)/.exec(text) ?? [];
      return name !== undefined && !Object.hasOwn(scripts, name);
    });
    expect(missing.map(at)).toEqual([]);
  });
});

describe("run as it stands in the documents,", () => {
  const outcomes = new Map<string, Promise<Outcome[]>>();

  beforeAll(() => {
    copySetUpCheckout(checkout);
    const { entries } = workload("short");
    const header = { type: "session", version: 3, id: "s1", timestamp: "2026-01-05T09:00:00.000Z", cwd: "/repo" };
    mkdirSync(sessions);
    writeFileSync(sessionFile, [header, ...entries].map((line) => `${JSON.stringify(line)}\n`).join(""));
    const waiting = runs.filter(({ missing }) => missing?.() === undefined);
    const told = new Map<string, (outcomes: Outcome[]) => void>();
    for (const { command } of waiting) {
      outcomes.set(command, new Promise((resolve) => told.set(command, resolve)));
    }
    const work = async () => {
      for (let run = waiting.shift(); run; run = waiting.shift()) told.get(run.command)?.(await execute(run));
    };
    for (let i = 0; i < AT_ONCE; i++) void work();
  }, LIMIT_MS);

  for (const { command, prints, missing } of runs) {
    const reason = missing?.();
    test.skipIf(reason !== undefined)(
      `${command}${reason ? ` (skipped: ${reason})` : ""}`,
      async () => {
        const ended = await outcomes.get(command);
        for (const outcome of ended ?? []) {
          expect(outcome).toEqual({ status: 0, output: expect.stringMatching(prints) });
        }
        expect(ended).not.toBeEmpty();
      },
      LIMIT_MS,
    );
  }
});

describe("/pruner in the documents", () => {
  // Values for what stands in brackets.
  const values: Readonly<Record<string, string>> = { "[name]": "none", "[level]": "low" };
  const settings = {
    summarizerModel: "none",
    pruneOn: "agent-message" as const,
    chainCompression: { rollingWindow: 1, batchSize: 1 },
  };
  const played = new EntryTree(place, "recorded");

  beforeAll(async () => {
    const session = new SimulatedSession(agentDirWith(settings), played);
    const messages = workload("small chains").entries.flatMap((entry) =>
      entry.type === "message" ? [entry.message] : [],
    );
    await session.play(messages.slice(0, 80));
    // What no handler has seen yet is there for `now` and `compact`.
    for (const message of messages.slice(80, 120)) session.add(message);
    const header = { type: "session", version: 3, id: "recorded", timestamp: "2026-01-05T09:00:00.000Z", cwd: place };
    writeFileSync(join(place, "recorded.jsonl"), `${[JSON.stringify(header), ...played.lines()].join("\n")}\n`);
  });

  /** What a reader may type: with and without what stands in brackets, every setting for `<setting>`. */
  function variantsOf(text: string): string[] {
    const [, placeholder] = /(\[\w+\])$/.exec(text) ?? [];
    const forms = text.includes("<setting>")
      ? SETTINGS.flatMap(({ key, presets }) => {
          const [preset] = presets;
          return [key, ...(preset ? [`${key} ${preset.value}`] : [])];
        }).map((rest) => text.replace("<setting> [value]", rest))
      : placeholder
        ? [text.replace(placeholder, "").trim(), text.replace(placeholder, values[placeholder] ?? placeholder)]
        : [text];
    return forms.map((form) => form.replace("/pruner", "").trim());
  }

  const where = new Map<string, string>();
  for (const { document, line, text } of mentions.filter(({ text }) => isPruner(text)))
    for (const variant of variantsOf(text)) where.set(variant, where.get(variant) ?? `${document}:${line}`);

  test.each([...where])(
    "/pruner %s, which stands in %s",
    async (text) => {
      const session = new SimulatedSession(agentDirWith(settings), played.reload());
      if (text.startsWith("recompress")) await runCommand(session.pruner, session.host, "decompress b3");
      const { message, type } = await runCommand(session.pruner, session.host, text);
      expect({ message, type }).toEqual({ message: expect.stringMatching(/\S/), type: "info" });
      expect(message).not.toMatch(/^(Unknown|Usage|Nothing)|There is no|is (compressed|put back) already/);
    },
    LIMIT_MS,
  );

  test("has every command of the table in doc/commands.md", () => {
    const named = commandsIn("doc/commands.md").map(({ text }) => text.split(" ").slice(0, 2).join(" "));
    const missing = SUBCOMMANDS.filter(({ name }) => !named.includes(`/pruner ${name}`));
    expect(missing.map(({ name }) => name)).toEqual([]);
  });
});

describe("host commands in the documents", () => {
  test.each(HOSTS)("are commands of the %s host", async (host) => {
    const { BUILTIN_SLASH_COMMANDS } = await import(join(dirname(HOST_PATHS[host].library), "core/slash-commands.js"));
    const known = BUILTIN_SLASH_COMMANDS.map(({ name }: { name: string }) => `/${name}`);
    const named = mentions.filter(({ text }) => text.startsWith("/") && !isPruner(text));
    expect(named.filter(({ text }) => !known.includes(text.split(" ")[0])).map(at)).toEqual([]);
  });
});

describe("links in the documents", () => {
  test("lead to a file, and to a heading in it", () => {
    const links = DOCUMENTS.flatMap(linksIn).filter(({ text }) => !/^https?:/.test(text));
    const broken = links.filter(({ document, text }) => {
      const [path = "", anchor] = text.split("#");
      const target = path === "" ? document : normalize(join(dirname(document), path));
      if (!existsSync(join(REPOSITORY, target))) return true;
      return anchor !== undefined && !anchorsIn(target).includes(anchor);
    });
    expect(links).not.toBeEmpty();
    expect(broken.map(at)).toEqual([]);
  });
});

describe("what the documents name", () => {
  test("are files that are there", () => {
    const paths = DOCUMENTS.flatMap(inlineCodeIn).filter(({ text }) =>
      /^(src|test|scripts|doc|bench|bin)\/[\w./-]*$/.test(text),
    );
    // Examples of what a model reads, in no repository of ours.
    const missing = paths.filter(({ text }) => text !== "src/app.ts" && !existsSync(join(REPOSITORY, text)));
    expect(paths).not.toBeEmpty();
    expect(missing.map(at)).toEqual([]);
  });

  test("are messages that the extension gives", () => {
    const rows = [...readDocument("doc/troubleshooting.md").matchAll(/^\|([^|]*)\|/gm)].map(([, seen = ""]) => seen);
    const messages = rows.flatMap((seen) =>
      [...seen.matchAll(/`([^`/]+ [^`/]+)`/g)].map(([, message = ""]) => message),
    );
    const sources = readdirSync(join(REPOSITORY, "src"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
      .map((name) => readFileSync(join(REPOSITORY, "src", name), "utf8"))
      // What is put into a message stands for itself.
      .map((source) => source.replace(/\$\{QUERY_TOOL_NAME\}/g, QUERY_TOOL_NAME));
    const given = (message: string) => sources.some((source) => source.includes(message.replace(/ …$/, "")));
    expect(messages.length).toBeGreaterThan(8);
    expect(messages.filter((message) => !given(message))).toEqual([]);
  });
});

describe("settings in the documents", () => {
  /** Names in running text that look like settings and are none. */
  const OTHER_NAMES = new Set([
    "contextPrune",
    "maxContextLimit",
    "protectedOccurrenceKeys",
    "protectedToolCallIds",
    "structuredClone",
    "toolCallId",
    "toolCallIds",
  ]);

  test("are settings of the table", () => {
    const groups = new Set(SETTINGS.map(({ key }) => key.split(".")[0]));
    const candidates = DOCUMENTS.flatMap(inlineCodeIn).filter(({ text }) => {
      const dotted = /^(\w+)\.\w+$/.exec(text);
      return dotted ? groups.has(dotted[1]) : /^[a-z]+[A-Z]\w*$/.test(text);
    });
    const isKnown = ({ text }: Mention) => findSetting(text) !== undefined || groups.has(text);
    expect(candidates.filter((name) => !isKnown(name) && !OTHER_NAMES.has(name.text)).map(at)).toEqual([]);
    expect([...OTHER_NAMES].filter((name) => !candidates.some(({ text }) => text === name))).toEqual([]);
  });

  test("have the default that tables give them", () => {
    const rows = DOCUMENTS.flatMap((document) =>
      [...readDocument(document).matchAll(/^\| `([a-z][\w.]*)` \| `([^`]+)` \|/gm)].map(([, key = "", value = ""]) => ({
        row: `${document}: ${key} ${value}`,
        right: JSON.stringify(findSetting(key)?.default) === value,
      })),
    );
    expect(rows.length).toBeGreaterThan(SETTINGS.length);
    expect(rows.filter(({ right }) => !right).map(({ row }) => row)).toEqual([]);
  });

  test("stand in examples as they are read", () => {
    const examples = DOCUMENTS.flatMap(blocksIn).filter(({ text }) => text.startsWith("{"));
    const warnings = examples.flatMap((example) => {
      const { contextPrune } = JSON.parse(example.text);
      return resolveConfig([contextPrune]).warnings.map((warning) => `${example.document}:${example.line}: ${warning}`);
    });
    expect(examples).not.toBeEmpty();
    expect(warnings).toEqual([]);
  });
});
