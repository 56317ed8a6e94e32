/** Finding lines of an original by a pattern that a model has written. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { DEFAULT_MAX_BYTES, DEFAULT_MAX_LINES } from "@mariozechner/pi-coding-agent";
import { cut, grouped } from "../text/text.ts";
import { pageOf } from "./originals.ts";

/** Milliseconds that a pattern may take for a piece: a model's regular expression must not be able to hang the host. */
const PIECE_TIMEOUT_MS = 1_000;
/** Milliseconds for all of a text. */
const TIMEOUT_MS = 10_000;
/** Characters of a piece, which ends with a line: what is in memory twice. */
const PIECE_CHARS = 4_000_000;
/** Characters of a line that are shown; of a longer one, those around the first match. */
const MAX_LINE_CHARS = 1_000;

/** Lines of a text that match a pattern, each headed by its number. */
export interface Matches {
  body: string;
  count: number;
  shown: number;
  /** The pattern is no regular expression and was looked for as it stands. */
  asText: boolean;
}

/** What to look for in one piece, and how much of it to show. */
interface Search {
  text: string;
  pattern: string;
  /** Flags of the expression; `undefined` where the pattern is plain text. */
  flags: string | undefined;
  /** Number of the first line. */
  line: number;
  maxLines: number;
  maxChars: number;
  maxLineChars: number;
}

interface Found {
  count: number;
  lines: string[];
  /** Number of the line behind the last one. */
  next: number;
}

/**
 * The lines that match `pattern`, a regular expression or else plain text, as `12: line`.
 *
 * An expression runs in a thread of its own, since no engine can be told to stop in another way; the host goes on
 * meanwhile. Memory is bounded by the page that is shown, whatever matches.
 * @throws Error where the pattern takes too long, naming it, or where `signal` is aborted
 */
export async function matchesOf(text: string, pattern: string, signal?: AbortSignal): Promise<Matches> {
  const flags = flagsOf(pattern);
  const pages = { pattern, flags, maxLineChars: MAX_LINE_CHARS };
  const thread = flags === undefined ? undefined : new SearchThread(pattern, signal);
  const shown: string[] = [];
  let count = 0;
  let chars = 0;
  let line = 1;
  try {
    for (let from = 0; from < text.length || from === 0; ) {
      const end = text.indexOf("\n", from + PIECE_CHARS) + 1 || text.length;
      const room = { maxLines: DEFAULT_MAX_LINES + 1 - shown.length, maxChars: DEFAULT_MAX_BYTES + 1 - chars };
      const search = { ...pages, ...room, text: text.slice(from, end), line };
      const found = thread ? await thread.run(search) : findLines(search);
      count += found.count;
      line = found.next;
      for (const hit of found.lines) chars += shown.push(hit) && hit.length + 1;
      if (end >= text.length) break;
      from = end;
    }
  } finally {
    thread?.end();
  }
  const page = pageOf(shown.join("\n"), {});
  const whole = page.end === page.total;
  return { body: page.body, count, shown: whole ? shown.length : page.body.split("\n").length - 1, asText: !thread };
}

/** One thread that searches piece after piece, and is ended where one takes too long. */
class SearchThread {
  private readonly worker: Worker;
  private readonly online: Promise<unknown>;
  private readonly broken: Promise<never>;
  private readonly deadline = performance.now() + TIMEOUT_MS;

  constructor(
    private readonly pattern: string,
    private readonly signal: AbortSignal | undefined,
  ) {
    // The function goes there as text: a host may load this file from anywhere, and in another language.
    const code = `const { parentPort } = require("node:worker_threads");
      parentPort.on("message", (search) => parentPort.postMessage((${findLines})(search)));`;
    // Options of the host's own process could make a module of it.
    this.worker = new Worker(code, { eval: true, execArgv: [] });
    this.online = new Promise((resolve) => this.worker.once("online", resolve));
    this.broken = new Promise((_resolve, reject) => this.worker.on("error", reject));
    this.broken.catch(() => undefined);
  }

  async run(search: Search): Promise<Found> {
    await Promise.race([this.online, this.broken]);
    const limit = AbortSignal.timeout(Math.max(0, Math.min(PIECE_TIMEOUT_MS, this.deadline - performance.now())));
    const stop = this.signal ? AbortSignal.any([limit, this.signal]) : limit;
    const answer = once(this.worker, "message", { signal: stop });
    this.worker.postMessage(search);
    try {
      const [found] = await Promise.race([answer, this.broken]);
      return found;
    } catch (error) {
      if (!stop.aborted) throw error;
      throw new Error(limit.aborted ? this.tooSlow() : "The search was ended.");
    }
  }

  /** Does not wait: an engine may be deaf while it searches. */
  end(): void {
    void this.worker.terminate();
    this.worker.unref();
  }

  private tooSlow(): string {
    return `The pattern ${cut(this.pattern, 200)} took longer than ${grouped(PIECE_TIMEOUT_MS / 1_000)} s and was ended: on this text it goes back and forth for too long. Use plain words, or a pattern without nested or unanchored repeats such as \\s+$.`;
  }
}

/** Runs also in the thread, as text: it must use nothing from outside itself. */
function findLines({ text, pattern, flags, line, maxLines, maxChars, maxLineChars }: Search): Found {
  const expression = flags === undefined ? undefined : new RegExp(pattern, flags);
  const lines: string[] = [];
  let count = 0;
  let chars = 0;
  let next = line;
  for (let from = 0; from < text.length; next++) {
    const at = text.indexOf("\n", from);
    const end = at < 0 ? text.length : at;
    const content = text.slice(from, text.charAt(end - 1) === "\r" && at > from ? end - 1 : end);
    from = end + 1;
    const hit = expression ? (expression.exec(content)?.index ?? -1) : content.indexOf(pattern);
    if (hit < 0) continue;
    count += 1;
    if (lines.length >= maxLines || chars > maxChars) continue;
    let start = content.length <= maxLineChars ? 0 : Math.max(0, hit - maxLineChars / 4);
    let stop = Math.min(content.length, start + maxLineChars);
    // Neither end may part a surrogate pair.
    if (start > 0 && (content.charCodeAt(start) & 0xfc00) === 0xdc00) start += 1;
    if (stop < content.length && (content.charCodeAt(stop) & 0xfc00) === 0xdc00) stop -= 1;
    const shown = `${next}: ${start > 0 ? "…" : ""}${content.slice(start, stop)}${stop < content.length ? "…" : ""}`;
    chars += lines.push(shown) && shown.length + 1;
  }
  return { count, lines, next };
}

/** Models write escapes that Unicode mode forbids; what that takes for an error may be a good expression without it. */
function flagsOf(pattern: string): string | undefined {
  return ["u", ""].find((flags) => {
    try {
      return new RegExp(pattern, flags);
    } catch {
      return false;
    }
  });
}
