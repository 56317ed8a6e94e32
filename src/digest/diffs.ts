/** Digests of what version control prints: diffs and states of files. */
import { oneLine } from "../text/text.ts";
import { shorten } from "./names.ts";
import { count, packNames, type Room, roomAfter } from "./room.ts";

/** The files of a unified diff with their added and removed lines, then the first changes. Empty for anything else. */
export function diffDigest(lines: readonly string[], room: Room): string[] {
  const files: { path: string; added: number; removed: number }[] = [];
  const changes: string[] = [];
  let inHunk = false;
  lines.forEach((line, index) => {
    const file = files.at(-1);
    if (line.startsWith("diff --git ")) {
      files.push({ path: / b\/(.{1,400})$/.exec(line.slice(0, 900))?.[1] ?? "?", added: 0, removed: 0 });
      inHunk = false;
    } else if (line.startsWith("@@ ")) inHunk = true;
    else if (inHunk && file && (line.startsWith("+") || line.startsWith("-"))) {
      if (line.startsWith("+")) file.added++;
      else file.removed++;
      if (changes.length < 6 && line.trim().length > 4) changes.push(`L${index + 1} ${oneLine(line, 100)}`);
    }
  });
  if (files.length === 0) return [];
  const { note, short } = shorten(files.map((file) => file.path));
  const stats = files.map((file) => `${short(file.path)} +${file.added} -${file.removed}`);
  const digest = packNames(stats, `diff of ${count(files.length, "file")}${note}: `, room).lines;
  for (const change of changes) {
    const left = roomAfter(room, digest);
    if (left.lines < 1 || left.chars < change.length + 1) break;
    digest.push(change);
  }
  return digest;
}

const STAGED = "staged";
const UNTRACKED = "untracked";
const MAX_STATUS_LINE = 500;
const SHORT_KINDS: Readonly<Record<string, string>> = {
  M: "modified",
  A: "new",
  D: "deleted",
  R: "renamed",
  U: "conflict",
};

/** What `git status` prints: the branch, then the files of each kind. Empty for any other text. */
export function statusDigest(lines: readonly string[], room: Room): string[] {
  const kinds = new Map<string, string[]>();
  const note = (kind: string, path: string) => kinds.set(kind, [...(kinds.get(kind) ?? []), oneLine(path, 100)]);
  let branch = "";
  let area = "";
  for (const whole of lines) {
    const line = whole.slice(0, MAX_STATUS_LINE);
    const on = /^(?:On branch |## )(\S{1,200})(?: \[(.{1,60})\])?/.exec(line);
    if (on) branch = `branch ${on[1]}${on[2] ? ` (${on[2]})` : ""}`;
    else if (/^Your branch is (?:ahead|behind)|have diverged/.test(line)) branch += ` (${oneLine(line, 70)})`;
    else if (/^[A-Z][\w ]{3,60}:$/.test(line))
      area = /to be committed/.test(line) ? STAGED : /^Untracked/.test(line) ? UNTRACKED : "";
    else if (/^(?:\t| {8})\S/.test(line)) {
      const [, kind, path] = /^\s+([a-z][a-z ]{2,20}): {1,20}(\S.*)$/.exec(line) ?? [];
      if (path !== undefined && kind !== undefined) note(area === STAGED ? `${STAGED}, ${kind}` : kind, path);
      else if (area === UNTRACKED) note(UNTRACKED, line.trim());
    } else {
      const [, index = "", tree = "", path] = /^([ MADRCUT?!])([ MADRCUT?!]) (\S.*)$/.exec(line) ?? [];
      if (path === undefined || (index === " " && tree === " ")) continue;
      if (index === "?") note(UNTRACKED, path);
      else if (index !== " ") note(`${STAGED}, ${SHORT_KINDS[index] ?? index}`, path);
      else note(SHORT_KINDS[tree] ?? tree, path);
    }
  }
  if (branch === "" && kinds.size === 0) return [];
  const digest = branch === "" ? [] : [oneLine(branch, 150)];
  const largestLast = [...kinds].sort(([, a], [, b]) => a.length - b.length);
  for (const [i, [kind, paths]] of largestLast.entries()) {
    const left = roomAfter(room, digest);
    const share = { lines: Math.min(3, left.lines), chars: Math.floor(left.chars / (largestLast.length - i)) };
    digest.push(...packNames(paths, `${kind} ${paths.length}: `, share).lines);
  }
  return digest;
}
