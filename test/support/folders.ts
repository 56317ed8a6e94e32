/** Temporary folders for one test: where pi runs, keeps its settings and keeps its sessions. */
import { accessSync, constants, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { isRecord } from "../../src/text/json.ts";

export interface PiFolders {
  root: string;
  cwd: string;
  agentDir: string;
  sessionDir: string;
  /** Stands in for the home folder of a process. */
  home: string;
  /** Takes all of them away. */
  remove(): void;
}

/** Makes fresh folders, with `files` (path in the working folder → text) already written. */
export function createFolders(files: Record<string, string> = {}): PiFolders {
  // Hosts resolve symbolic links in paths, so a temporary folder behind one would not compare equal.
  const root = realpathSync(mkdtempSync(join(tmpdir(), "pi-condense-test-")));
  const folder = (name: string) => {
    const path = join(root, name);
    mkdirSync(path);
    return path;
  };
  const folders: PiFolders = {
    root,
    cwd: folder("work"),
    agentDir: folder("agent"),
    sessionDir: folder("sessions"),
    home: folder("home"),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
  for (const [path, text] of Object.entries(files)) {
    const target = join(folders.cwd, path);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text);
  }
  return folders;
}

/** A folder of Linux that is kept in memory, where nothing waits for a disk. */
const MEMORY = "/dev/shm";

const scratchFolders: string[] = [];

/** A fresh folder for what only this process reads, taken away after its tests: in memory where the system has such a place. */
export function scratchFolder(name: string): string {
  const folder = mkdtempSync(join(isWritable(MEMORY) ? MEMORY : tmpdir(), `pi-condense-${name}-`));
  scratchFolders.push(folder);
  return folder;
}

/** Called by the preload once the tests are over. */
export function removeScratchFolders(): void {
  for (const folder of scratchFolders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Settings that keep the host from doing anything of its own between the requests of a test. */
export const QUIET_SETTINGS = { compaction: { enabled: false }, retry: { enabled: false }, quietStartup: true };

/** Unless a test says otherwise, the scripted model writes the summaries, and all that has been answered is condensed. */
export const TEST_SETTINGS = { summarizerModel: "default", workingSet: null };

/** Writes pi's global settings file; `settings` go over the quiet ones, key by key. */
export function writeSettings(folders: PiFolders, given: Record<string, unknown> = {}): void {
  const contextPrune = { ...TEST_SETTINGS, ...(isRecord(given.contextPrune) ? given.contextPrune : {}) };
  const settings = { ...given, contextPrune };
  writeFileSync(join(folders.agentDir, "settings.json"), JSON.stringify({ ...QUIET_SETTINGS, ...settings }, null, 2));
}
