/** Errors of compilers and linters, counted by file. */
import { packFiles, tally } from "./names.ts";
import { count, type Room } from "./room.ts";

/** Fewer errors than this are shown themselves. */
const MIN_ERRORS = 3;
const MAX_LENGTH = 400;

/** `src/a.ts(12,5): error`, `src/a.ts:12:5 - error`, `a.c:3:5: error:`, and what `go` prints without the word. */
const AT_FILE =
  /^\s*(?:\[?error\]?:?\s+)?([^\s:()'"]{1,200}\.\w{1,8})(?:\(\d{1,7},\d{1,7}\)|:\d{1,7}(?::\d{1,7})?)(?::| -)\s+(?:fatal\s+)?error\b/i;
const AT_GO_FILE = /^(\S{1,200}\.go):\d{1,7}:\d{1,7}: \S/;
/** `--> src/a.rs:3:5` below `error[E0308]: …`. */
const AT_RUST_FILE = /^\s*--> ([^\s:]{1,200}):\d{1,7}:\d{1,7}/;
/** `  12:5  error  …` below the name of a file. */
const IN_FILE = /^\s+\d{1,7}:\d{1,7}\s+error\b/;
const FILE_NAME = /^\S{0,300}[/\\]\S{1,100}\.\w{1,8}$/;

/** How many errors each file has, most first. Empty where a text tells of fewer than three. */
export function errorsByFile(lines: readonly string[], room: Room): string[] {
  const files: string[] = [];
  let heading: string | undefined;
  let isError = false;
  for (const whole of lines) {
    const line = whole.slice(0, MAX_LENGTH);
    const rust = AT_RUST_FILE.exec(line)?.[1];
    const file = (AT_FILE.exec(line) ?? AT_GO_FILE.exec(line))?.[1] ?? (isError ? rust : undefined);
    if (file !== undefined) files.push(file);
    else if (heading !== undefined && IN_FILE.test(line)) files.push(heading);
    if (rust === undefined) isError = /^error(?:\[|:)/.test(line);
    else isError = false;
    if (FILE_NAME.test(line.trim())) heading = line.trim();
    else if (line.trim() === "") heading = undefined;
  }
  if (files.length < MIN_ERRORS) return [];
  const counts = tally(files);
  return packFiles(counts, (notes) => `${count(files.length, "error")} in ${count(counts.length, "file")}${notes}: `, {
    lines: 2,
    chars: Math.floor(room.chars / 2),
  });
}
