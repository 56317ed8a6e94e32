/** `/pruner doctor`: checks what condensing depends on, and says what to do where something is wrong. */
import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { VERSION } from "@mariozechner/pi-coding-agent";
import type { HostSnapshot, Registration } from "../host/host.js";
import { chooseSummarizer } from "../host/models.js";
import { loadSettings } from "../host/settings-file.js";
import type { Pruner } from "../runtime.js";
import { readOwnEntries } from "../session/entries.js";
import { count, grouped } from "../text/text.js";
import { QUERY_TOOL_NAME } from "../types.js";
import { describeChoice } from "./status.js";
import type { CommandResult } from "./types.js";

/** One finding: fine, worth knowing, or in the way of condensing. */
interface Finding {
  grade: "ok" | "note" | "bad";
  text: string;
}

const MARKS: Readonly<Record<Finding["grade"], string>> = { ok: "✓", note: "!", bad: "✗" };

/** Looks at everything once; never throws. */
export function examine(pruner: Pruner, host: HostSnapshot): CommandResult {
  const checks = [checkHost, checkSettings, checkSummarizer, checkBlobs, checkEntries, checkClashes];
  const findings = checks.flatMap((check) => {
    try {
      return check(pruner, host);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return [bad(`A check could not be made: ${reason}`)];
    }
  });
  const worst = findings.some(({ grade }) => grade === "bad");
  const notes = findings.filter(({ grade }) => grade !== "ok").length;
  const verdict = notes === 0 ? "Everything is as it should be." : `${count(notes, "finding")} to look at.`;
  const lines = findings.map(({ grade, text }) => `${MARKS[grade]} ${text}`);
  return { message: [...lines, verdict].join("\n"), type: worst ? "warning" : "info" };
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
  const { warnings } = loadSettings(host);
  const findings = warnings.map((warning) => bad(`${warning} Correct it, or set it anew with /pruner settings.`));
  const writable = isWritable(path);
  if (!writable)
    findings.push(bad(`${path} cannot be written: changes of settings will not be saved. Check its owner and mode.`));
  if (findings.length === 0)
    findings.push(ok(`Settings: ${existsSync(path) ? path : `none yet in ${path}`}, writable.`));
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
  const files = readdirSync(folder);
  const bytes = files.reduce(
    (sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
  const text = `Blob folder: ${folder}, ${count(files.length, "file")}, ${grouped(bytes)} bytes`;
  return isWritable(folder) ? [ok(`${text}.`)] : [bad(`${text}, but it cannot be written. Check its owner and mode.`)];
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
  const { commands, tools } = registrations;
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
  return findings.length > 0 ? findings : [ok(`No clash with other extensions; ${QUERY_TOOL_NAME} is registered.`)];
}

function isSame(one: Registration, other: Registration): boolean {
  return one.path === other.path;
}

/** Whether the file can be written, or made in a folder that can. */
function isWritable(path: string): boolean {
  const target = existsSync(path) ? path : nearestFolder(dirname(path));
  try {
    accessSync(target, constants.W_OK);
    return true;
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
