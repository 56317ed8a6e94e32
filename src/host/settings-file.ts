/**
 * Reads and saves the `contextPrune` settings in pi's `settings.json`.
 *
 * The file belongs to pi and to its user. So it is locked the way pi locks it, re-read under the lock, changed in the
 * keys asked for and no others, and replaced as a whole; and one that cannot be understood is left alone.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import lockfile from "proper-lockfile";
import { resolveConfig, SETTINGS_ROOT, SETTINGS_TABLE } from "../config.ts";
import type { SettingValue } from "../settings/rows.ts";
import type { ResolvedConfig, SettingsTable } from "../settings/table.ts";
import { isRecord } from "../text/json.ts";
import type { ContextPruneConfig } from "../types.ts";
import { keysIn, type ModelName, splitByModel } from "./model-settings.ts";
import { withProject } from "./project-settings.ts";

const FILE_NAME = "settings.json";
/** Milliseconds that a save waits for another process. pi itself gives up after 0.2 s and holds the lock far shorter. */
const LOCK_WAIT_MS = 2_000;
/** Milliseconds that a reader waits before it makes do with what it read without the lock. */
const READ_LOCK_WAIT_MS = 200;
/** Milliseconds between two attempts; half of it is random, so that two waiting processes fall out of step. */
const LOCK_RETRY_MS = 20;
/** Symbolic links in a row that are followed; a longer row is a loop. */
const MAX_LINKS = 40;

/** Where the settings files are, and whether the project's own may be read. */
export interface LoadSettingsOptions {
  /** pi's agent directory. */
  agentDir: string;
  /** The project's folder. */
  cwd: string;
  /** The project's file is read only where its user trusts the project. */
  projectTrusted: boolean;
  /** The session's model, for the settings that hold for some models alone. */
  model?: ModelName | undefined;
  /** Name of pi's folder in a project; `.pi` by default. */
  configDirName?: string;
}

/** The settings that hold, with a sentence for each thing that is wrong in a file. */
export interface LoadedSettings extends ResolvedConfig<ContextPruneConfig> {
  /** What the project changes or may not change, a sentence each. */
  projectNotices?: string[];
  /** Pattern of the models that a setting was said for, by its key; there where some file has settings by model. */
  byModel?: ReadonlyMap<string, string>;
}

/** What to save, and where. */
export interface SaveSettingsOptions {
  /** pi's agent directory; it is created where it is missing. */
  agentDir: string;
  /** Values by (dotted) key of the table, saved together or not at all. */
  values: Readonly<Record<string, SettingValue>>;
  /** Milliseconds to wait for a lock that another process holds; 2000 by default. The thread sleeps meanwhile. */
  lockWaitMs?: number;
  /** Judges keys and values; the shipped table by default. */
  table?: Pick<SettingsTable<unknown>, "check">;
}

/**
 * The settings of the agent directory, overridden key by key by those of a trusted project as far as `withProject` lets
 * it; in each file, what it says for the session's model goes before what it says for all. Never throws.
 *
 * A missing file is no settings. One that cannot be read or understood gives one warning that names it, and counts as
 * missing. Every warning is a sentence for the user that begins with the file's path.
 */
export function loadSettings(options: LoadSettingsOptions): LoadedSettings {
  const paths = [join(resolve(options.agentDir), FILE_NAME)];
  const projectPath = join(resolve(options.cwd), options.configDirName ?? ".pi", FILE_NAME);
  // An agent directory inside the project makes both the same file, whose warnings are wanted once.
  if (options.projectTrusted && !paths.includes(projectPath)) paths.push(projectPath);
  const unreadable: string[] = [];
  const layers = paths.map((path): unknown => {
    const read = readForLoading(path);
    if (read.ok) return read.root[SETTINGS_ROOT];
    unreadable.push(`${path}: ${read.problem}. Its ${SETTINGS_ROOT} settings are not in effect.`);
    return undefined;
  });
  const files = layers.map((layer, i) => {
    const { base, byModel, problems } = splitByModel(layer, options.model);
    const source = paths[i] ?? "";
    return { source, base, problems, byModel: byModel.map((one) => ({ ...one, source: `${source}, ${one.pattern}` })) };
  });
  const stacked = files.map(({ source, base, byModel }) => [
    { source, values: base },
    ...byModel.filter(({ applies }) => applies),
  ]);
  const resolveAll = (parts: readonly { source: string; values: unknown }[]) =>
    resolveConfig(
      parts.map(({ values }) => values),
      parts.map(({ source }) => source),
    );
  const { config, warnings } = resolveAll(stacked.flat());
  // What holds for other models is looked at too, so that a slip shows before the model is chosen.
  const idle = files.flatMap(({ byModel }) => byModel.filter(({ applies }) => !applies));
  const said = [
    ...unreadable,
    ...warnings,
    ...files.flatMap(({ source, problems }) => problems.map((problem) => `${source}: ${problem}`)),
    ...idle.flatMap((one) => resolveAll([one]).warnings),
  ];
  const byModel = new Map(
    files.flatMap((file) =>
      file.byModel
        .filter(({ applies }) => applies)
        .flatMap(({ pattern, values }) => keysIn(values).map((key): [string, string] => [key, pattern])),
    ),
  );
  const models = files.some((file) => file.byModel.length > 0) ? { byModel } : {};
  if (layers[1] === undefined) return { config, warnings: said, ...models };
  const project = withProject(resolveAll(stacked[0] ?? []).config, config, projectPath);
  const told = project.warnings.length > 0 ? { projectNotices: project.warnings } : {};
  return { config: project.config, warnings: said, ...models, ...told };
}

/** Whether the user's own file is readable and says nothing of these settings: they have not been used on this machine. */
export function isUnused({ agentDir }: Pick<LoadSettingsOptions, "agentDir">): boolean {
  const read = readRoot(join(resolve(agentDir), FILE_NAME));
  return read.ok && read.root[SETTINGS_ROOT] === undefined;
}

/** Saves one setting; see `saveSettings`. */
export function saveSetting(options: Omit<SaveSettingsOptions, "values"> & { key: string; value: SettingValue }): void {
  const { key, value, ...rest } = options;
  saveSettings({ ...rest, values: { [key]: value } });
}

/**
 * Saves settings in the agent directory's `settings.json`, also where a value equals the default.
 *
 * Synchronous, so that two saves of one process land in their order; it takes milliseconds unless another process holds
 * the lock. Other keys keep their values and their order, a symbolic link keeps pointing to the file that is changed,
 * and mode, indentation and final line break stay; a byte order mark goes, since pi 0.73 cannot read a file with one.
 * @throws Error when nothing was saved: an unknown key or a bad value, a file that is no JSON object or cannot be read or
 *   written, a lock that another process keeps. The message names the file, what is wrong, and what to do.
 */
export function saveSettings(options: SaveSettingsOptions): void {
  const path = join(resolve(options.agentDir), FILE_NAME);
  const table = options.table ?? SETTINGS_TABLE;
  const changes = Object.entries(options.values).map(([key, value]) => {
    const checked = table.check(key, value);
    if (!checked.ok) throw new Error(`Settings not saved: ${checked.error}`);
    return { key, value: checked.value };
  });
  if (changes.length === 0) return;
  attempt(path, "its folder cannot be created", () => mkdirSync(dirname(path), { recursive: true }));
  const release = acquire(path, options.lockWaitMs ?? LOCK_WAIT_MS);
  try {
    const target = attempt(path, "it cannot be followed to a file", () => linkTarget(path));
    const file = readRoot(path);
    if (!file.ok) throw notSaved(path, file.problem, file.cause);
    let root = file.root;
    for (const { key, value } of changes) root = withValue(root, [SETTINGS_ROOT, ...key.split(".")], value, path);
    attempt(path, "it cannot be written", () => replaceFile(target, serialise(root, file.text)));
  } finally {
    release();
  }
}

type FileRead =
  | { ok: true; root: Record<string, unknown>; text: string; missing?: true }
  | { ok: false; problem: string; cause?: unknown };

/** Reads without the lock where that is safe, so that a look at the settings leaves no trace in a project. */
function readForLoading(path: string): FileRead {
  const read = readRoot(path);
  if (read.ok && (read.missing || read.text !== "")) return read;
  // pi empties the file before it writes it anew, so an odd content counts only if it is there while nobody writes.
  let release: () => void;
  try {
    release = acquire(path, READ_LOCK_WAIT_MS);
  } catch {
    return read;
  }
  try {
    return readRoot(path);
  } finally {
    release();
  }
}

/** The file as an object; a missing or empty one is an object without keys. */
function readRoot(path: string): FileRead {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    // ENOTDIR: some other file stands where the folder would be.
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR")
      return { ok: true, root: {}, text: "", missing: true };
    return { ok: false, problem: `it cannot be read (${reasonOf(error)})`, cause: error };
  }
  const json = text.replace(/^\uFEFF/, "");
  if (json.trim() === "") return { ok: true, root: {}, text: "" };
  let root: unknown;
  try {
    root = JSON.parse(json);
  } catch (error) {
    return { ok: false, problem: `it is not valid JSON (${reasonOf(error)})`, cause: error };
  }
  return isRecord(root) ? { ok: true, root, text: json } : { ok: false, problem: "it is not a JSON object" };
}

/** A copy with one value changed at `keys`; what is not on the way keeps its value and its place. */
function withValue(
  group: Record<string, unknown>,
  [name = "", ...rest]: readonly string[],
  value: SettingValue,
  path: string,
): Record<string, unknown> {
  if (rest.length === 0) return { ...group, [name]: value };
  const child = Object.hasOwn(group, name) ? group[name] : {};
  // Something else in the place of a group is the user's, whatever it was meant to be.
  if (!isRecord(child)) throw notSaved(path, `the value of "${name}" in it is not an object`);
  return { ...group, [name]: withValue(child, rest, value, path) };
}

/** JSON in the style of the file it replaces, by default in pi's: two spaces and no final line break. */
function serialise(root: Record<string, unknown>, replaced: string): string {
  const indent = /^[\t ]+(?=")/m.exec(replaced)?.[0] ?? "  ";
  const json = JSON.stringify(root, null, indent);
  return replaced.endsWith("\n") ? `${json}\n` : json;
}

/**
 * Takes pi's lock on a file: a folder `settings.json.lock` beside it, stale after 10 s.
 * @returns what releases it, and never throws.
 */
function acquire(path: string, waitMs: number): () => void {
  const deadline = performance.now() + waitMs;
  for (;;) {
    try {
      // As pi does: the file may be missing, and of a link the link's own path is locked.
      const release = lockfile.lockSync(path, { realpath: false });
      // A lock that cannot be removed goes stale; what was saved is saved.
      return () => tolerate(release);
    } catch (error) {
      if (codeOf(error) !== "ELOCKED") throw notSaved(path, `it cannot be locked (${reasonOf(error)})`, error);
      if (performance.now() >= deadline) {
        const advice = `Try again; if no pi is running, remove ${path}.lock.`;
        throw notSaved(path, "another process holds its lock", error, advice);
      }
    }
    sleepSync(LOCK_RETRY_MS * (0.5 + Math.random() / 2));
  }
}

function sleepSync(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** The file behind a row of symbolic links; it need not exist. */
function linkTarget(path: string): string {
  let target = path;
  for (let links = 0; links < MAX_LINKS; links++) {
    try {
      return realpathSync(target);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
    }
    try {
      // Relative to the folder that really holds the link.
      target = resolve(realpathSync(dirname(target)), readlinkSync(target));
    } catch {
      return target;
    }
  }
  throw new Error("too many symbolic links");
}

/** Writes a file as a whole: another process sees the old content or the new one, also after a crash. */
function replaceFile(target: string, text: string): void {
  const replaced = statIfPresent(target);
  // A rename would also replace a file that its user has made read-only; opening does not tell root.
  if (replaced) {
    closeSync(openSync(target, "r+"));
    if ((replaced.mode & 0o222) === 0) throw new Error("it is read-only");
  }
  // A name of its own length: behind a link, the file may have a name that leaves no room for more.
  const temporary = join(dirname(target), `.${FILE_NAME}.${process.pid}-${randomBytes(6).toString("hex")}.tmp`);
  try {
    const descriptor = openSync(temporary, "wx", replaced ? replaced.mode & 0o777 : 0o666);
    try {
      if (replaced) adopt(descriptor, replaced);
      writeFileSync(descriptor, text, "utf8");
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, target);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** Gives a new file the owner and the mode of the one that it replaces, as far as the system allows. */
function adopt(descriptor: number, replaced: Stats): void {
  // Run with sudo once, pi must not take the settings away from their owner.
  if (replaced.uid !== process.getuid?.() || replaced.gid !== process.getgid?.()) {
    tolerate(() => fchownSync(descriptor, replaced.uid, replaced.gid));
  }
  // The umask, or a change of owner, may have taken bits away.
  tolerate(() => fchmodSync(descriptor, replaced.mode & 0o777));
}

/** For what is not worth losing a setting over: some file systems have no owners or modes. */
function tolerate(action: () => void): void {
  try {
    action();
  } catch {
    // The content is what matters.
  }
}

function statIfPresent(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

function attempt<T>(path: string, problem: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw notSaved(path, `${problem} (${reasonOf(error)})`, error);
  }
}

function notSaved(path: string, problem: string, cause?: unknown, advice?: string): Error {
  const next = advice ?? "Put that right, then try again; the file was not changed.";
  return new Error(`Settings not saved in ${path}: ${problem}. ${next}`, { cause });
}

function codeOf(error: unknown): unknown {
  return isRecord(error) ? error.code : undefined;
}

/** What went wrong, on one line and without control characters. */
function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/[\s\p{Cc}]+/gu, " ");
}
