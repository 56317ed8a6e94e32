/** Answers calls that look from the recording; what it does not hold, the answer says. Nothing is executed. */

import { posix } from "node:path";
import picomatch from "picomatch";
import { matchesOf } from "../recovery/patterns.ts";
import { numberArg, reasonOf, stringArg } from "../text/text.ts";
import { QUERY_TOOL_NAME } from "../types.ts";
import { type Call, commandOf, isShell, pathOf, rangeOf, shortPath } from "./calls.ts";
import type { KnownFile } from "./known-file.ts";
import { callKey, type RecordedFiles } from "./recorded-files.ts";
import { lookupsOf } from "./shell.ts";

/** What a call gets. */
export interface Answer {
  text: string;
  isError: boolean;
  /** The recording holds what was asked for, all of it. */
  known: boolean;
}

/** Asks `context_tree_query` of the session as it was condensed; missing for a raw context, which has no such tool. */
export type Recover = (args: Record<string, unknown>) => Promise<{ text: string; isError: boolean }>;

/** As the hosts' own `read` and `grep` have it. */
const MAX_LINES = 2_000;
const MAX_BYTES = 50 * 1024;
const MAX_MATCHES = 100;
const NOT_RUN = "[Nothing is run here, and the recording does not hold what this would print. Go on without it.]";

/** Answers the calls of one run. */
export class Answers {
  constructor(
    readonly files: RecordedFiles,
    private readonly cwd: string,
    private readonly recover: Recover | undefined,
  ) {}

  async answer(call: Call): Promise<Answer> {
    if (call.name === QUERY_TOOL_NAME && this.recover) {
      return { ...(await this.recover(call.arguments)), known: true };
    }
    const recorded = this.files.results.get(callKey(call));
    if (recorded !== undefined) return { text: recorded, isError: false, known: true };
    if (call.name === "read") return this.read(call);
    if (call.name === "grep") return this.tryGrep(call);
    const lookups = isShell(call.name) ? lookupsOf(commandOf(call), this.cwd) : undefined;
    if (!lookups) return { text: NOT_RUN, isError: false, known: false };
    const found: Answer[] = [];
    for (const one of lookups) found.push(one.name === "read" ? this.read(one) : await this.tryGrep(one));
    return {
      text: found.map(({ text }) => text).join("\n"),
      isError: found.every(({ isError }) => isError),
      known: found.every(({ known }) => known),
    };
  }

  private read(call: Call): Answer {
    const path = pathOf(call, this.cwd);
    if (path === undefined) return { text: "A path is missing.", isError: true, known: true };
    const { offset, limit } = rangeOf(call);
    const file = this.files.byPath.get(path);
    if (!file || file.isEmpty) return notRecorded(`any line of ${shortPath(path, this.cwd)}`);
    const { total } = file;
    if (total !== undefined && offset > total) {
      const text = `Offset ${offset} is beyond end of file (${total} lines total)`;
      return { text, isError: true, known: true };
    }
    const wanted = Math.min(offset + Math.min(limit ?? MAX_LINES, MAX_LINES) - 1, total ?? Number.POSITIVE_INFINITY);
    const { lines, cut } = linesFrom(file, offset, wanted);
    if (lines.length === 0) return notRecorded(`line ${offset} of ${shortPath(path, this.cwd)}`);
    const last = offset + lines.length - 1;
    const body = lines.join("\n");
    if (!cut && last < wanted) {
      const to = total === undefined ? `what comes after line ${last}` : `the lines right after line ${last}`;
      return { text: `${body}\n\n[The recording does not hold ${to}.]`, isError: false, known: false };
    }
    const left = (total ?? last) - last;
    const notice = left > 0 ? `\n\n[${left} more lines in file. Use offset=${last + 1} to continue.]` : "";
    return { text: body + notice, isError: false, known: true };
  }

  private async tryGrep(call: Call): Promise<Answer> {
    try {
      return await this.grep(call);
    } catch (error) {
      return { text: reasonOf(error), isError: true, known: true };
    }
  }

  private async grep(call: Call): Promise<Answer> {
    const pattern = stringArg(call.arguments, "pattern");
    if (pattern === undefined) return { text: "A pattern is missing.", isError: true, known: true };
    const root = pathOf(call, this.cwd) ?? this.cwd;
    const glob = stringArg(call.arguments, "glob");
    const fits = glob === undefined ? () => true : picomatch(glob, { basename: !glob.includes("/"), dot: true });
    const paths = [...this.files.byPath.keys()].filter(
      (path) => (path === root || path.startsWith(`${root}/`)) && fits(posix.relative(root, path) || path),
    );
    const limit = numberArg(call.arguments, "limit") ?? MAX_MATCHES;
    const found: string[] = [];
    for (const path of paths) found.push(...(await this.matchesIn(path, root, call, pattern)));
    const isOneWholeFile = paths.length === 1 && paths[0] === root && this.files.byPath.get(root)?.text !== undefined;
    const note = isOneWholeFile ? "" : "\n\n[Only lines that the recording holds were searched; there may be more.]";
    const text = (found.slice(0, limit).join("\n") || "No matches found") + note;
    return { text, isError: false, known: isOneWholeFile };
  }

  private async matchesIn(path: string, root: string, { arguments: args }: Call, pattern: string): Promise<string[]> {
    const numbered = this.files.byPath.get(path)?.numbered() ?? [];
    const source = args.literal === true ? pattern.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") : pattern;
    const text = numbered.map(([, line]) => line).join("\n");
    // Node 20 has no expression that ignores case by a mark of its own; escapes such as \S must keep theirs.
    const { body } =
      args.ignoreCase === true
        ? await matchesOf(
            text.toLowerCase(),
            source.replace(/\\.|[A-Z]/g, (part) => (part[1] ? part : part.toLowerCase())),
          )
        : await matchesOf(text, source);
    const name = path === root ? posix.basename(path) : posix.relative(root, path);
    return body.split("\n").flatMap((row) => {
      const [number, line] = numbered[Number(/^(\d+): /.exec(row)?.[1]) - 1] ?? [];
      return number === undefined ? [] : [`${name}:${number}: ${line}`];
    });
  }
}

function linesFrom(file: KnownFile, from: number, to: number): { lines: string[]; cut: boolean } {
  const lines: string[] = [];
  let bytes = 0;
  for (let number = from; number <= to; number++) {
    const line = file.line(number);
    if (line === undefined) break;
    bytes += Buffer.byteLength(line) + 1;
    if (bytes > MAX_BYTES && lines.length > 0) return { lines, cut: true };
    lines.push(line);
  }
  return { lines, cut: false };
}

function notRecorded(what: string): Answer {
  return { text: `[The recording does not hold ${what} as it stood then.]`, isError: false, known: false };
}
