/** `/pruner doctor --report`: a text for a bug report. It holds versions, settings and counts, and nothing that was said or read. */
import { readFileSync, writeFileSync } from "node:fs";
import { platform, release, tmpdir } from "node:os";
import { join } from "node:path";
import { VERSION } from "@mariozechner/pi-coding-agent";
import { formatSetting, SETTINGS, settingValue } from "../config.ts";
import type { HostSnapshot } from "../host/host.ts";
import type { Pruner } from "../runtime.ts";
import { readOwnEntry } from "../session/entries.ts";
import { reasonOf } from "../text/text.ts";
import { type CommandResult, failure, info } from "./types.ts";

/** What the checks have found, by their names. */
export type Findings = ReadonlyMap<string, readonly { grade: string }[]>;

/** Writes the report into the working folder, or into the one for temporary files, and says where it is. */
export function writeReport(pruner: Pruner, host: HostSnapshot, findings: Findings, now = new Date()): CommandResult {
  const text = reportText(pruner, host, findings);
  const name = `pi-condense-report-${now.toISOString().slice(0, 19).replace(/:/g, "-")}.txt`;
  let problem: unknown;
  for (const folder of [host.cwd, tmpdir()]) {
    const path = join(folder, name);
    try {
      writeFileSync(path, text, { flag: "wx", mode: 0o600 });
      return info(`Written to ${path}. It holds versions, settings and counts; look through it before you send it.`);
    } catch (error) {
      problem = error;
    }
  }
  return failure(`No report could be written: ${reasonOf(problem)}`);
}

/** The report, a fact a line. */
export function reportText(pruner: Pruner, host: HostSnapshot, findings: Findings): string {
  const sections = [
    ["Versions", versionLines(host)],
    ["Settings that differ from the defaults", settingLines(pruner)],
    ["Checks of /pruner doctor", [...findings].map(([name, found]) => `${name}: ${gradesOf(found)}`)],
    ["Session", sessionLines(pruner, host)],
  ] as const;
  return `${sections.map(([title, lines]) => [title, ...lines.map((line) => `  ${line}`)].join("\n")).join("\n\n")}\n`;
}

function versionLines({ terminal, ui, model }: HostSnapshot): string[] {
  const mode = terminal ? "terminal" : ui ? "RPC" : "print or JSON";
  return [
    `pi-condense ${ownVersion()}`,
    `pi ${VERSION}, ${mode} mode`,
    `Node ${process.versions.node}, ${platform()} ${release()}, ${process.arch}`,
    `model ${model ? `${model.provider}/${model.id}, window ${model.contextWindow}` : "none"}`,
  ];
}

function ownVersion(): string {
  try {
    const file: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
    return typeof file === "object" && file !== null && "version" in file ? String(file.version) : "of unknown version";
  } catch {
    return "of unknown version";
  }
}

/** Of lists only the length: their names may say what somebody works on. */
function settingLines({ settings }: Pick<Pruner, "settings">): string[] {
  const changed = SETTINGS.flatMap(({ key, kind, default: shipped }) => {
    const value = settingValue(settings, key);
    const [now, before] = [formatSetting(key, value), formatSetting(key, shipped)];
    if (now === before) return [];
    return [`${key} ${kind === "list" && Array.isArray(value) ? `${value.length} names` : now}`];
  });
  return changed.length > 0 ? changed : ["none"];
}

function gradesOf(findings: readonly { grade: string }[]): string {
  return findings.length === 0 ? "nothing to say" : findings.map(({ grade }) => grade).join(", ");
}

function sessionLines(pruner: Pruner, host: HostSnapshot): string[] {
  const state = pruner.currentState();
  const status = pruner.status(host);
  if (!state || !status) return ["could not be read"];
  const entries = state.reader.getEntries();
  const kinds = entries.map((entry) => {
    const own = readOwnEntry(entry);
    if (own?.kind === "diagnostic") return `diagnostic ${own.data.kind}`;
    return own ? `own ${own.kind}` : entry.type === "message" ? `message ${entry.message.role}` : entry.type;
  });
  const counts = new Map<string, number>();
  for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const { stats } = status;
  return [
    `kept in a file: ${state.reader.getSessionFile() === undefined ? "no" : "yes"}`,
    `condensed ${status.condensedCalls}, duplicates ${status.repeats}, chains ${status.chains}`,
    `pending ${status.pendingCalls} with ${status.pendingTokens} tokens, unseen ${status.unseenResults}`,
    `tokens ${status.sizes.whole.before} before, ${status.sizes.whole.after} after`,
    `summariser calls ${stats.callCount}, failed ${stats.failedCallCount}, tokens ${stats.totalInputTokens} in, ${stats.totalOutputTokens} out`,
    `entries ${entries.length}`,
    ...[...counts].sort(([a], [b]) => a.localeCompare(b)).map(([kind, count]) => `  ${kind}: ${count}`),
  ];
}
