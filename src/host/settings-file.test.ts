import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SettingsManager } from "@mariozechner/pi-coding-agent";
import lockfile from "proper-lockfile";
import { scratchFolder } from "../../test/support/folders.ts";
import { SimulatedSession } from "../../test/support/simulated-session.ts";
import { DEFAULT_CONFIG, SETTINGS_ROOT } from "../config.ts";
import { integer, onOff } from "../settings/rows.ts";
import { defineSettings } from "../settings/table.ts";
import { loadSettings, saveSetting, saveSettings } from "./settings-file.ts";

const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;

/** Permission bits do not bind root, so root steps down for the time of the action. */
function unprivileged<T>(action: () => T): T {
  if (!isRoot) return action();
  process.seteuid?.(NOBODY);
  try {
    return action();
  } finally {
    process.seteuid?.(0);
  }
}

/** Whether permissions can be tested: some containers let root be nobody else. */
const canBeUnprivileged = (() => {
  try {
    return unprivileged(() => process.geteuid?.() !== 0);
  } catch {
    return false;
  }
})();

let home: string;
let agentDir: string;
let cwd: string;
let file: string;
let projectFile: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "pi-condense-settings-"));
  agentDir = join(home, "agent");
  cwd = join(home, "project");
  file = join(agentDir, "settings.json");
  projectFile = join(cwd, ".pi", "settings.json");
  mkdirSync(agentDir);
  mkdirSync(join(cwd, ".pi"), { recursive: true });
});

afterEach(() => {
  rmSync(home, { recursive: true, force: true });
});

const load = (projectTrusted = true) => loadSettings({ agentDir, cwd, projectTrusted });
const save = (key: string, value: boolean | number | string | string[]) => saveSetting({ agentDir, key, value });
const saved = (): unknown => JSON.parse(readFileSync(file, "utf8"));

/** The message of the error that a save ends with, once nothing but the named entries is left in the folder. */
function failure(action: () => void, left = ["settings.json"]): string {
  try {
    action();
  } catch (error) {
    expect(readdirSync(agentDir)).toEqual(left);
    if (error instanceof Error) return error.message;
  }
  throw new Error("was saved");
}

describe("loadSettings", () => {
  test("missing files and folders are no settings", () => {
    expect(load()).toEqual({ config: DEFAULT_CONFIG, warnings: [] });
    const nowhere = { agentDir: join(home, "x"), cwd: join(home, "y"), projectTrusted: true };
    expect(loadSettings(nowhere)).toEqual({ config: DEFAULT_CONFIG, warnings: [] });
    expect(readdirSync(home)).toEqual(["agent", "project"]);
    // A file in the place of the folder.
    rmSync(join(cwd, ".pi"), { recursive: true });
    writeFileSync(join(cwd, ".pi"), "");
    expect(load()).toEqual({ config: DEFAULT_CONFIG, warnings: [] });
  });

  test("a trusted project overrides key by key, another is not read", () => {
    writeFileSync(file, '{"theme":"dark","contextPrune":{"enabled":false,"minBatchChars":5}}');
    writeFileSync(projectFile, '{"contextPrune":{"minBatchChars":7}}');
    expect(load(true)).toEqual({ config: { ...DEFAULT_CONFIG, enabled: false, minBatchChars: 7 }, warnings: [] });
    expect(load(false)).toEqual({ config: { ...DEFAULT_CONFIG, enabled: false, minBatchChars: 5 }, warnings: [] });
    writeFileSync(projectFile, "{");
    expect(load(false).warnings).toEqual([]);
  });

  test("a project that would lift the user's protection does not, and is told of once", () => {
    writeFileSync(file, '{"contextPrune":{"summarizerModel":"none","protectedPaths":["**/.env"]}}');
    writeFileSync(
      projectFile,
      '{"contextPrune":{"summarizerModel":"evil/model","protectedPaths":[],"spillThreshold":1000000000}}',
    );
    const { config, projectNotices } = load();
    expect(config).toEqual({
      ...DEFAULT_CONFIG,
      summarizerModel: "none",
      protectedPaths: ["**/.env"],
      spillThreshold: 1_000_000_000,
    });
    expect(projectNotices).toEqual([
      `${projectFile}: contextPrune.summarizerModel is evil/model. A project cannot send tool output where your own settings do not; using none.`,
      `${projectFile} changes your contextPrune settings: spillThreshold is 1000000000, yours 65536.`,
    ]);
  });

  test("the project's folder can have another name", () => {
    mkdirSync(join(cwd, ".tau"));
    writeFileSync(join(cwd, ".tau", "settings.json"), '{"contextPrune":{"minBatchChars":9}}');
    const { config } = loadSettings({ agentDir, cwd, projectTrusted: true, configDirName: ".tau" });
    expect(config.minBatchChars).toBe(9);
  });

  test("a file that does not parse gives one warning, and the other file holds", () => {
    writeFileSync(file, '{"contextPrune":{"enabled":false},}');
    writeFileSync(projectFile, '{"contextPrune":{"minBatchChars":7}}');
    const { config, warnings } = load();
    expect(config).toEqual({ ...DEFAULT_CONFIG, minBatchChars: 7 });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toStartWith(`${file}: it is not valid JSON (`);
    expect(warnings[0]).toEndWith("). Its contextPrune settings are not in effect.");
    expect(readdirSync(agentDir)).toEqual(["settings.json"]);
  });

  test("something that is no object, or no file, gives one warning", () => {
    for (const text of ["[]", "null", '"x"', "5"]) {
      writeFileSync(file, text);
      const warning = `${file}: it is not a JSON object. Its contextPrune settings are not in effect.`;
      expect(load()).toEqual({ config: DEFAULT_CONFIG, warnings: [warning] });
    }
    rmSync(file);
    mkdirSync(file);
    expect(load().config).toEqual(DEFAULT_CONFIG);
    expect(load().warnings).toHaveLength(1);
    expect(load().warnings[0]).toContain(`${file}: it cannot be read (EISDIR`);
  });

  test("a bad value is reported with its file", () => {
    writeFileSync(file, '{"contextPrune":{"minBatchChars":-1}}');
    writeFileSync(projectFile, '{"contextPrune":true}');
    expect(load()).toEqual({
      config: DEFAULT_CONFIG,
      warnings: [
        `${file}: contextPrune.minBatchChars is -1, which is not a whole number from 0 to 10,000,000; using 1000.`,
        `${projectFile}: contextPrune is true, which is not an object of settings; it is ignored.`,
      ],
    });
  });

  test("one file that is both is read once", () => {
    writeFileSync(projectFile, '{"contextPrune":{"minBatchChars":-1}}');
    const both = loadSettings({ agentDir: join(cwd, ".pi"), cwd, projectTrusted: true });
    expect(both.warnings).toHaveLength(1);
  });

  test("a byte order mark and an empty file are fine", () => {
    writeFileSync(file, '\uFEFF{"contextPrune":{"enabled":false}}');
    expect(load()).toEqual({ config: { ...DEFAULT_CONFIG, enabled: false }, warnings: [] });
    for (const text of ["", " \n", "\uFEFF"]) {
      writeFileSync(file, text);
      expect(load()).toEqual({ config: DEFAULT_CONFIG, warnings: [] });
    }
  });

  test("a file caught while pi rewrites it in place is read again once pi is done", async () => {
    writeFileSync(file, '{"contextPrune":{"ena');
    // Holds pi's lock, says so, and completes the file a little later.
    const writer = startScript(
      `import lockfile from ${JSON.stringify(Bun.resolveSync("proper-lockfile", import.meta.dir))};
       import { writeFileSync } from "node:fs";
       const file = ${JSON.stringify(file)};
       const release = lockfile.lockSync(file, { realpath: false });
       console.log("held");
       setTimeout(() => { writeFileSync(file, '{"contextPrune":{"enabled":false}}'); release(); }, 50);`,
    );
    await line(writer, "held");
    expect(load()).toEqual({ config: { ...DEFAULT_CONFIG, enabled: false }, warnings: [] });
    expect(await ended(writer)).toBe(0);
  });

  test("a lock that stays does not keep settings from being read", () => {
    writeFileSync(file, '{"contextPrune":{"enabled":false}}');
    const release = lockfile.lockSync(file, { realpath: false });
    try {
      expect(load().config.enabled).toBe(false);
      writeFileSync(file, "{");
      expect(load().warnings).toHaveLength(1);
    } finally {
      release();
    }
  });
});

describe("saveSetting", () => {
  test("makes folder and file as pi would", () => {
    rmSync(agentDir, { recursive: true });
    save("minBatchChars", 2000);
    expect(readFileSync(file, "utf8")).toBe('{\n  "contextPrune": {\n    "minBatchChars": 2000\n  }\n}');
    expect(readdirSync(agentDir)).toEqual(["settings.json"]);
    expect(load()).toEqual({ config: { ...DEFAULT_CONFIG, minBatchChars: 2000 }, warnings: [] });
  });

  test("changes its own key and no other, in place", () => {
    const before = {
      theme: "dark",
      contextPrune: { later: { x: [1, null] }, enabled: true, minBatchChars: 5, zebra: "é😀\u2028" },
      zzz: { contextPrune: 1 },
    };
    writeFileSync(file, JSON.stringify(before));
    save("enabled", false);
    save("pruneOn", "every-turn");
    const after = {
      ...before,
      contextPrune: { ...before.contextPrune, enabled: false, pruneOn: "every-turn" },
    };
    expect(JSON.stringify(saved())).toBe(JSON.stringify(after));
  });

  test("an own __proto__ key survives", () => {
    writeFileSync(file, '{"__proto__":{"a":1},"contextPrune":{"__proto__":2}}');
    save("enabled", false);
    const text = '{"__proto__":{"a":1},"contextPrune":{"__proto__":2,"enabled":false}}';
    expect(JSON.stringify(saved())).toBe(text);
  });

  test("a value that equals the default is written too", () => {
    save("enabled", true);
    save("contextTagTools", ["context_tag"]);
    expect(saved()).toEqual({ contextPrune: { enabled: true, contextTagTools: ["context_tag"] } });
  });

  test("several values are saved together or not at all", () => {
    saveSettings({ agentDir, values: { enabled: false, minBatchChars: 1 } });
    expect(saved()).toEqual({ contextPrune: { enabled: false, minBatchChars: 1 } });
    expect(failure(() => saveSettings({ agentDir, values: { enabled: true, minBatchChars: -1 } }))).toBe(
      "Settings not saved: minBatchChars cannot be -1: it is a whole number from 0 to 10,000,000.",
    );
    expect(failure(() => save("minBatchChar", 1))).toBe(
      "Settings not saved: minBatchChar is not a setting; did you mean minBatchChars?",
    );
    expect(saved()).toEqual({ contextPrune: { enabled: false, minBatchChars: 1 } });
    rmSync(file);
    saveSettings({ agentDir, values: {} });
    expect(existsSync(file)).toBe(false);
  });

  test("dotted keys are nested", () => {
    const table = defineSettings<{ chains: { enabled: boolean; window: number; inner: { on: boolean } } }>(
      SETTINGS_ROOT,
      {
        "chains.enabled": onOff(true, "L", "H."),
        "chains.window": integer(3, { min: 1, max: 9, presets: [] }, "L", "H."),
        "chains.inner.on": onOff(true, "L", "H."),
      },
    );
    writeFileSync(file, '{"contextPrune":{"chains":{"other":1,"window":2},"x":1}}');
    saveSetting({ agentDir, table, key: "chains.window", value: 5 });
    saveSetting({ agentDir, table, key: "chains.inner.on", value: false });
    expect(JSON.stringify(saved())).toBe(
      '{"contextPrune":{"chains":{"other":1,"window":5,"inner":{"on":false}},"x":1}}',
    );
    writeFileSync(file, '{"contextPrune":{"chains":true}}');
    expect(failure(() => saveSetting({ agentDir, table, key: "chains.window", value: 5 }))).toContain(
      'the value of "chains" in it is not an object',
    );
    expect(saved()).toEqual({ contextPrune: { chains: true } });
  });

  test("indentation and final line break stay as they were; a byte order mark goes", () => {
    writeFileSync(file, '\uFEFF{\n\t"theme": "dark"\n}\n');
    save("enabled", false);
    expect(readFileSync(file, "utf8")).toBe(
      '{\n\t"theme": "dark",\n\t"contextPrune": {\n\t\t"enabled": false\n\t}\n}\n',
    );
  });

  test("mode and owner stay as they were", () => {
    writeFileSync(file, "{}");
    chmodSync(file, 0o664);
    if (isRoot) chownSync(file, 12_345, 23_456);
    const before = statSync(file);
    save("enabled", false);
    const after = statSync(file);
    expect([after.mode & 0o777, after.uid, after.gid]).toEqual([0o664, before.uid, before.gid]);
    chmodSync(file, 0o600);
    save("enabled", true);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test.each([0o444, 0o400])(
    "a file that its user has made read-only (%o) is not overwritten, not even by root",
    (mode) => {
      writeFileSync(file, "{}");
      chmodSync(file, mode);
      expect(failure(() => save("enabled", false))).toContain(file);
      expect(readFileSync(file, "utf8")).toBe("{}");
      expect(statSync(file).mode & 0o777).toBe(mode);
    },
  );

  test("a symbolic link keeps pointing to the file that changes", () => {
    // settings.json -> d/pi.json, d -> ../deep/dotfiles, pi.json -> ../real.json, which is deep/real.json.
    const dotfiles = join(home, "deep", "dotfiles");
    const real = join(home, "deep", "real.json");
    mkdirSync(dotfiles, { recursive: true });
    writeFileSync(real, '{"theme":"dark"}');
    symlinkSync("../deep/dotfiles", join(agentDir, "d"));
    symlinkSync("../real.json", join(dotfiles, "pi.json"));
    symlinkSync("d/pi.json", file);
    save("enabled", false);
    expect(readlinkSync(file)).toBe("d/pi.json");
    expect(readlinkSync(join(dotfiles, "pi.json"))).toBe("../real.json");
    expect(lstatSync(real).isFile()).toBe(true);
    expect(saved()).toEqual({ theme: "dark", contextPrune: { enabled: false } });
    // Links to a file that does not exist yet.
    rmSync(real);
    save("enabled", true);
    expect(lstatSync(real).isFile()).toBe(true);
    expect(saved()).toEqual({ contextPrune: { enabled: true } });
    expect(readdirSync(agentDir).sort()).toEqual(["d", "settings.json"]);
    expect(readdirSync(join(home, "deep")).sort()).toEqual(["dotfiles", "real.json"]);
  });

  test("a link that leads nowhere is an error", () => {
    symlinkSync("settings.json", file);
    expect(failure(() => save("enabled", false))).toContain(`Settings not saved in ${file}: `);
    rmSync(file);
    symlinkSync(join(home, "missing", "x.json"), file);
    expect(failure(() => save("enabled", false))).toContain("it cannot be written (ENOENT");
  });

  test("a file that is no JSON object is never overwritten", () => {
    for (const text of ['{"theme": "dark",}', "// mine\n{}", '{"a":1', "[]", "null", "5", '{"contextPrune":[1]}']) {
      writeFileSync(file, text);
      const message = failure(() => save("enabled", false));
      expect(message).toStartWith(`Settings not saved in ${file}: `);
      expect(message).toMatch(/is not valid JSON|is not a JSON object|value of "contextPrune" in it is not an object/);
      expect(message).toEndWith("Put that right, then try again; the file was not changed.");
      expect(readFileSync(file, "utf8")).toBe(text);
    }
    writeFileSync(file, "");
    save("enabled", false);
    expect(saved()).toEqual({ contextPrune: { enabled: false } });
  });

  test("a folder in the file's place is an error", () => {
    mkdirSync(file);
    expect(failure(() => save("enabled", false))).toContain("it cannot be read (EISDIR");
    expect(readdirSync(file)).toEqual([]);
  });

  test("a file in the agent directory's place is an error", () => {
    rmSync(agentDir, { recursive: true });
    writeFileSync(agentDir, "mine");
    expect(() => save("enabled", false)).toThrow("its folder cannot be created (EEXIST");
    expect(readFileSync(agentDir, "utf8")).toBe("mine");
  });

  test.skipIf(!canBeUnprivileged)("a read-only file is left alone (needs to be someone other than root)", () => {
    writeFileSync(file, "{}");
    chmodSync(file, 0o444);
    for (const folder of [home, agentDir]) chmodSync(folder, 0o777);
    expect(failure(() => unprivileged(() => save("enabled", false)))).toContain("it cannot be written (EACCES");
    expect(readFileSync(file, "utf8")).toBe("{}");
  });

  test.skipIf(!canBeUnprivileged)("a read-only folder is left alone (needs to be someone other than root)", () => {
    writeFileSync(file, "{}");
    chmodSync(file, 0o666);
    chmodSync(home, 0o755);
    chmodSync(agentDir, 0o555);
    try {
      expect(failure(() => unprivileged(() => save("enabled", false)))).toContain("it cannot be locked (EACCES");
      expect(unprivileged(() => load())).toEqual({ config: DEFAULT_CONFIG, warnings: [] });
      expect(readFileSync(file, "utf8")).toBe("{}");
    } finally {
      chmodSync(agentDir, 0o755);
    }
  });

  test.skipIf(!(isRoot && canBeUnprivileged))("a rename that fails leaves nothing behind (needs two users)", () => {
    writeFileSync(file, "{}");
    chmodSync(file, 0o666);
    chmodSync(home, 0o755);
    // In a sticky folder anybody may create files, but not replace those of others.
    chmodSync(agentDir, 0o1777);
    expect(failure(() => unprivileged(() => save("enabled", false)))).toContain("it cannot be written (EPERM");
    expect(readFileSync(file, "utf8")).toBe("{}");
  });

  test("a lock that another process keeps is an error after the wait, and stays the other's", () => {
    writeFileSync(file, "{}");
    const release = lockfile.lockSync(file, { realpath: false });
    const started = performance.now();
    const message = failure(
      () => saveSetting({ agentDir, key: "enabled", value: false, lockWaitMs: 100 }),
      ["settings.json", "settings.json.lock"],
    );
    expect(performance.now() - started).toBeGreaterThanOrEqual(100);
    expect(message).toBe(
      `Settings not saved in ${file}: another process holds its lock. Try again; if no pi is running, remove ${file}.lock.`,
    );
    expect(readFileSync(file, "utf8")).toBe("{}");
    release();
    save("enabled", false);
    expect(saved()).toEqual({ contextPrune: { enabled: false } });
  });

  test("the lock of a process that died is taken over once it is stale", () => {
    mkdirSync(`${file}.lock`);
    const longAgo = Date.now() / 1000 - 11;
    utimesSync(`${file}.lock`, longAgo, longAgo);
    save("enabled", false);
    expect(readdirSync(agentDir)).toEqual(["settings.json"]);
  });

  test("pi's own settings and ours leave each other alone", async () => {
    save("enabled", false);
    const manager = SettingsManager.create(cwd, agentDir);
    manager.setTheme("light");
    save("minBatchChars", 5);
    await manager.flush();
    save("minBatchChars", 6);
    expect(manager.drainErrors()).toEqual([]);
    expect(saved()).toEqual({ theme: "light", contextPrune: { enabled: false, minBatchChars: 6 } });
  });

  test("two processes that save 20 keys each both win", async () => {
    writeFileSync(file, '{"theme":"dark"}');
    const children = ["a", "b"].map((name) =>
      startScript(
        `import { defineSettings } from ${JSON.stringify(join(import.meta.dir, "../settings/table.ts"))};
           import { saveSetting } from ${JSON.stringify(join(import.meta.dir, "settings-file.ts"))};
           import { integer } from ${JSON.stringify(join(import.meta.dir, "../settings/rows.ts"))};
           const row = integer(0, { max: 99, presets: [] }, "L", "H.");
           const keys = Array.from({ length: 20 }, (_, n) => "${name}.key" + n);
           const table = defineSettings("contextPrune", Object.fromEntries(keys.map((key) => [key, row])));
           console.log("ready");
           await new Promise((resolve) => process.stdin.once("data", resolve));
           process.stdin.destroy();
           keys.forEach((key, value) => saveSetting({ agentDir: ${JSON.stringify(agentDir)}, table, key, value, lockWaitMs: 20_000 }));`,
      ),
    );
    // Both start at once, whichever was loaded first.
    await Promise.all(children.map((child) => line(child, "ready")));
    for (const child of children) child.stdin?.write("go\n");
    expect(await Promise.all(children.map(ended))).toEqual([0, 0]);
    const keys = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`key${n}`, n]));
    expect(saved()).toEqual({ theme: "dark", contextPrune: { a: keys, b: keys } });
    expect(readdirSync(agentDir)).toEqual(["settings.json"]);
  }, 60_000);
});

/** Runs a module in a process of its own. */
function startScript(source: string): ChildProcess {
  return spawn(process.execPath, ["-e", source], { stdio: ["pipe", "pipe", "inherit"] });
}

/** Waits until the process has printed a line. */
function line(child: ChildProcess, wanted: string): Promise<void> {
  return new Promise((resolve, reject) => {
    child.stdout?.on("data", (chunk: Buffer) => {
      if (chunk.toString().includes(wanted)) resolve();
    });
    child.once("exit", () => reject(new Error(`ended without "${wanted}"`)));
  });
}

function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => child.once("exit", resolve));
}

describe("the first run on a machine", () => {
  const notices = (agentDir: string) => new SimulatedSession(agentDir).notices;

  test("says once what is at work, what it costs and how to turn it off", () => {
    const agentDir = scratchFolder("agent");
    writeFileSync(join(agentDir, "settings.json"), '{ "theme": "dark" }');
    const [notice, ...more] = notices(agentDir);
    expect(more).toEqual([]);
    expect(notice).toContain("made without a model, or by paid calls");
    expect(notice).toContain("/pruner off");
    expect(notice).not.toContain("\n");
    expect(notices(agentDir)).toEqual([]);
    expect(JSON.parse(readFileSync(join(agentDir, "settings.json"), "utf8"))).toEqual({
      theme: "dark",
      contextPrune: { enabled: true },
    });
  });

  test("says nothing where it could not remember that, nor where settings stand already", () => {
    const broken = scratchFolder("agent");
    writeFileSync(join(broken, "settings.json"), "{ broken");
    expect(notices(broken).join()).not.toContain("paid calls");
    const blocked = scratchFolder("agent");
    writeFileSync(join(blocked, "settings.json"), "{}");
    chmodSync(join(blocked, "settings.json"), 0o444);
    expect(notices(blocked)).toEqual([]);
    const used = scratchFolder("agent");
    writeFileSync(join(used, "settings.json"), '{ "contextPrune": {} }');
    expect(notices(used)).toEqual([]);
  });
});
