/** `/pruner doctor`: checks what condensing depends on, and says what to do where something is wrong. */
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { VERSION } from "@mariozechner/pi-coding-agent";
import { unknownTools } from "../capture/protection.ts";
import type { HostSnapshot, Registration } from "../host/host.ts";
import { chooseSummarizer } from "../host/models.ts";
import { loadSettings } from "../host/settings-file.ts";
import type { Pruner } from "../runtime.ts";
import { type BlobFolder, measureFolder, orphanedBlobFolders, removeBlobFolder } from "../session/blob-folders.ts";
import { readOwnEntries } from "../session/entries.ts";
import { count, grouped, reasonOf } from "../text/text.ts";
import { visible } from "../text/visible.ts";
import { QUERY_TOOL_NAME } from "../types.ts";
import { writeReport } from "./bug-report.ts";
import { describeChoice } from "./status.ts";
import { type CommandResult, info, warning } from "./types.ts";

/** One finding: fine, worth knowing, or in the way of condensing. */
interface Finding {
  grade: "ok" | "note" | "bad";
  text: string;
}

/** Folders that are listed by name. */
const MAX_LISTED = 10;

const MARKS: Readonly<Record<Finding["grade"], string>> = { ok: "✓", note: "!", bad: "✗" };

/** Looks at everything once; never throws. */
export function examine(pruner: Pruner, host: HostSnapshot): CommandResult {
  const findings = [...findingsOf(pruner, host).values()].flat();
  const worst = findings.some(({ grade }) => grade === "bad");
  const notes = findings.filter(({ grade }) => grade !== "ok").length;
  const verdict = notes === 0 ? "Everything is as it should be." : `${count(notes, "finding")} to look at.`;
  const lines = findings.map(({ grade, text }) => `${MARKS[grade]} ${text}`);
  return { message: [...lines, verdict].join("\n"), type: worst ? "warning" : "info" };
}

/** Writes a text for a bug report. */
export function report(pruner: Pruner, host: HostSnapshot): CommandResult {
  return writeReport(pruner, host, findingsOf(pruner, host));
}

/** What each check has found, by its name. */
function findingsOf(pruner: Pruner, host: HostSnapshot): Map<string, Finding[]> {
  const checks = {
    host: checkHost,
    settings: checkSettings,
    summariser: checkSummarizer,
    blobs: checkBlobs,
    "orphaned blobs": checkOrphans,
    entries: checkEntries,
    protection: checkProtection,
    clashes: checkClashes,
  };
  return new Map(
    Object.entries(checks).map(([name, check]) => {
      try {
        return [name, check(pruner, host)];
      } catch (error) {
        return [name, [bad(`A check could not be made: ${reasonOf(error)}`)]];
      }
    }),
  );
}

function checkHost(pruner: Pruner, host: HostSnapshot): Finding[] {
  const where = host.terminal ? "terminal" : host.ui ? "RPC" : "print or JSON mode";
  const state = pruner.currentState()
    ? "the session is readable"
    : "the session could not be read: reload it, then look again";
  const finding = `pi ${VERSION}, Node ${process.versions.node}, ${where}; ${state}.`;
  return [pruner.currentState() ? ok(finding) : bad(finding)];
}

function checkSettings(pruner: Pruner, host: HostSnapshot): Finding[] {
  const path = join(host.agentDir, "settings.json");
  const { warnings, projectNotices = [] } = loadSettings(host);
  const findings = warnings.map((warning) => bad(`${warning} Correct it, or set it anew with /pruner settings.`));
  const writable = isWritable(path) && statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true;
  if (!writable)
    findings.push(bad(`${path} cannot be written: changes of settings will not be saved. Check its owner and mode.`));
  if (findings.length === 0)
    findings.push(ok(`Settings: ${existsSync(path) ? path : `none yet in ${path}`}, writable.`));
  findings.push(...projectNotices.map(note));
  if (!pruner.settings.enabled) findings.push(note("The pruner is off. Turn it on with /pruner on."));
  return findings;
}

function checkSummarizer(pruner: Pruner, host: HostSnapshot): Finding[] {
  const choice = chooseSummarizer(pruner.settings, host);
  const text = `Summariser: ${describeChoice(choice, host)}`;
  if (choice.kind === "missing") return [bad(text)];
  if (choice.kind === "digest") return [ok(text)];
  const { name } = choice.models.configured;
  const slash = name.indexOf("/");
  const model = host.models.find(name.slice(0, slash), name.slice(slash + 1));
  if (model && !host.models.hasConfiguredAuth(model)) {
    return [bad(`${text} It has no key: use /login for ${model.provider}, or choose another with /pruner model.`)];
  }
  return [text.includes("another provider") ? note(text) : ok(text)];
}

function checkBlobs(pruner: Pruner): Finding[] {
  const folder = pruner.currentState()?.blobDir();
  if (folder === undefined) return [note("This session is not kept in a file: oversized results stay in the context.")];
  if (!existsSync(folder)) {
    return isWritable(folder)
      ? [ok(`Blob folder: not needed yet (${folder}).`)]
      : [bad(`The blob folder cannot be made: ${dirname(folder)} cannot be written. Check its owner and mode.`)];
  }
  const [known] = measureFolder(folder);
  if (!known) return [bad(`${folder} is no folder: oversized results stay in the context. Move it away.`)];
  const text = `Blob folder: ${folder}, ${sizeOf([known])}`;
  return isWritable(folder) ? [ok(`${text}.`)] : [bad(`${text}, but it cannot be written. Check its owner and mode.`)];
}

function checkOrphans(pruner: Pruner): Finding[] {
  const orphans = orphansOf(pruner);
  if (orphans.length === 0) return [];
  const list = orphans.slice(0, MAX_LISTED).map((folder) => `  ${folder.path}, ${sizeOf([folder])}`);
  const more = orphans.length > MAX_LISTED ? [`  and ${grouped(orphans.length - MAX_LISTED)} more`] : [];
  const text = `${count(orphans.length, "blob folder")} of deleted sessions, ${sizeOf(orphans)}: /pruner doctor --clean removes them.`;
  return [note([text, ...list, ...more].join("\n"))];
}

function orphansOf(pruner: Pruner): BlobFolder[] {
  const reader = pruner.currentState()?.reader;
  const folder = reader?.getSessionDir();
  return reader && folder ? orphanedBlobFolders(folder, [reader.getSessionId()]) : [];
}

/** Removes the blob folders of deleted sessions, once the user has agreed. */
export async function cleanUp(pruner: Pruner, host: HostSnapshot): Promise<CommandResult> {
  const orphans = orphansOf(pruner);
  if (orphans.length === 0) return info("No blob folder of a deleted session is left here.");
  const what = `${count(orphans.length, "blob folder")} of deleted sessions, ${sizeOf(orphans)}`;
  if (!host.confirm) return warning(`${what}. They are removed only after a question, so ask for it in a terminal.`);
  const list = orphans.slice(0, MAX_LISTED).map(({ path }) => visible(path));
  if (!(await host.confirm(`Remove ${what}?`, list.join("\n")))) return info("Nothing was removed.");
  // A session may have come back while the question stood.
  const still = new Set(orphansOf(pruner).map(({ path }) => path));
  const freed = orphans.filter(({ path }) => still.has(path)).map(({ path }) => removeBlobFolder(path));
  return info(
    `Removed ${count(freed.length, "folder")}, ${grouped(freed.reduce((sum, bytes) => sum + bytes, 0))} bytes.`,
  );
}

function sizeOf(folders: readonly BlobFolder[]): string {
  const files = folders.reduce((sum, folder) => sum + folder.files, 0);
  const bytes = folders.reduce((sum, folder) => sum + folder.bytes, 0);
  return `${count(files, "file")}, ${grouped(bytes)} bytes`;
}

function checkProtection(pruner: Pruner, host: HostSnapshot): Finding[] {
  const registered = host.registrations?.().tools.map(({ name }) => name);
  const unknown = registered ? unknownTools(pruner.settings.protectedTools, registered) : [];
  if (unknown.length === 0) return [];
  return [
    note(`protectedTools: no tool is called ${unknown.join(", ")}. Look for a misspelling, or wait for its extension.`),
  ];
}

function checkEntries(pruner: Pruner): Finding[] {
  const entries = pruner.currentState()?.reader.getEntries() ?? [];
  const own = readOwnEntries(entries);
  const invalid = own.filter((entry) => entry.kind === "invalid").length;
  const rejected = own.reduce((sum, entry) => sum + (entry.kind === "index" ? entry.rejected : 0), 0);
  const troubles = own.flatMap((entry) => (entry.kind === "diagnostic" ? [entry.data] : []));
  const findings = [
    ok(`Session: ${count(entries.length, "entry", "entries")}, ${grouped(own.length)} of them the pruner's.`),
  ];
  if (invalid + rejected > 0) {
    findings.push(
      note(
        `${count(invalid + rejected, "entry or record", "entries or records")} of an unknown shape ignored: what they stood for is sent raw.`,
      ),
    );
  }
  for (const { kind, detail } of troubles.slice(-3))
    findings.push(note(`Recorded earlier in this session: ${kind}, ${detail}`));
  return findings;
}

function checkClashes(_pruner: Pruner, host: HostSnapshot): Finding[] {
  const registrations = host.registrations?.();
  if (!registrations) return [];
  const { commands, tools, activeTools } = registrations;
  const own = commands.find(({ name }) => name === "pruner");
  const others = commands.filter(({ name }) => /^pruner(:\d+)?$/.test(name)).slice(1);
  const owner = tools.find(({ name }) => name === QUERY_TOOL_NAME);
  const findings = others.map(({ path }) =>
    bad(`Another extension has a command /pruner: ${path}. Two pruners undo each other's work; remove one of them.`),
  );
  if (!owner) {
    findings.push(
      bad(
        `The tool ${QUERY_TOOL_NAME} is not registered: the model cannot get originals back. Look for --tools or an extension that removes it.`,
      ),
    );
  } else if (own && !isSame(owner, own)) {
    findings.push(
      bad(`The tool ${QUERY_TOOL_NAME} belongs to another extension: ${owner.path}. Remove one of the two.`),
    );
  }
  if (owner && !activeTools.includes(QUERY_TOOL_NAME)) {
    findings.push(
      note(
        `The model is not given ${QUERY_TOOL_NAME} now: a plan mode or another extension has switched it off. Nothing new is condensed until it is back; stubs that stand stay. /pruner off sends everything raw.`,
      ),
    );
  }
  return findings.length > 0 ? findings : [ok(`No clash with other extensions; ${QUERY_TOOL_NAME} is registered.`)];
}

function isSame(one: Registration, other: Registration): boolean {
  return one.path === other.path;
}

/**
 * Whether the file or folder can be written, or made. A settings file is replaced as a whole, so that its folder must be
 * writable too.
 */
function isWritable(path: string): boolean {
  try {
    const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
    if (existsSync(path) && !isFolder) accessSync(path, constants.W_OK);
    const folder = isFolder ? path : nearestFolder(dirname(path));
    accessSync(folder, constants.W_OK | constants.X_OK);
    return statSync(folder).isDirectory();
  } catch {
    return false;
  }
}

function nearestFolder(path: string): string {
  const parent = dirname(path);
  return existsSync(path) || parent === path ? path : nearestFolder(parent);
}

function ok(text: string): Finding {
  return { grade: "ok", text };
}

function note(text: string): Finding {
  return { grade: "note", text };
}

function bad(text: string): Finding {
  return { grade: "bad", text };
}
