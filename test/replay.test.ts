/** The command line as a user runs it, in a process of its own on plain Node. */
import { afterAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { workload } from "../bench/workloads.ts";
import { main } from "../src/replay/cli.ts";
import type { ReplayReport } from "../src/replay/figures.ts";
import { REPOSITORY } from "./support/host-paths.ts";

const folder = mkdtempSync(join(tmpdir(), "pi-condense-cli-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const HEADER = { type: "session", version: 3, id: "s1", timestamp: "2026-01-05T09:00:00.000Z", cwd: "/repo" };

function write(name: string, lines: readonly unknown[]): string {
  const path = join(folder, name);
  writeFileSync(path, lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join(""));
  return path;
}

const SHORT = write("short.jsonl", [HEADER, ...workload("short").entries]);

/** A reply with that JSON for its content; its tokens stand as strings. */
function reply(content: string): string {
  const usage = '{"input":"12","output":"x","cacheRead":null,"cacheWrite":{},"cost":{"input":"1"}}';
  const message = `{"role":"assistant","content":${content},"api":"a","provider":"p","model":"m","usage":${usage}}`;
  return `{"type":"message","id":"1","parentId":null,"timestamp":"2026-01-05T09:00:01.000Z","message":${message}}`;
}

const DEEP = `[{"type":"toolCall","id":"c","name":"x","arguments":${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}}]`;

/** Runs the program in this process. */
async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return runOn(false, ...args);
}

async function runOn(errIsTty: boolean, ...args: string[]): Promise<{ code: number; out: string; err: string }> {
  let out = "";
  let err = "";
  const code = await main(args, {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    errIsTty,
  });
  return { code, out, err };
}

async function json(...args: string[]): Promise<ReplayReport> {
  return JSON.parse((await run("replay", SHORT, "--json", ...args)).out);
}

describe("pi-condense replay", () => {
  test("runs on plain Node without a host", () => {
    const cli = join(REPOSITORY, "bin/pi-condense.mjs");
    const { status, stdout, stderr } = spawnSync("node", [cli, "replay", SHORT, "--digest"], { encoding: "utf8" });
    expect(stderr).toBe("");
    expect(status).toBe(0);
    expect(stdout).toContain("short.jsonl: 12 requests");
    expect(stdout).toMatch(/Replayed in [\d.]+ s with at most \d+ MB of memory\./);
    const failed = spawnSync("node", [cli, "replay", join(folder, "none.jsonl")], { encoding: "utf8" });
    expect(failed.status).toBe(2);
    expect(failed.stdout).toBe("");
    expect(failed.stderr).toContain("there is no such file");
  }, 60_000);

  test("prints exactly the figures that are asked for as JSON", async () => {
    const report = await json("--digest");
    const ratios = ["ratio", "ratioWithoutRecoveries"];
    const keys = ["requests", "raw", "pruned", ...ratios, "cacheReadShare", "calibration", "settings", "rows"];
    const costs = ["cost", "recoveryCost", "extraRequests"];
    const figures = [...costs, "peakTokens", "meanTokens", "readTokens", "writeTokens", "compactions", "uses"];
    expect(Object.keys(report)).toEqual(keys);
    expect(Object.keys(report.raw)).toEqual(figures);
    expect(Object.keys(report.pruned)).toEqual([...figures, "summarizerCost", "flushes"]);
    expect(Object.keys(report.calibration)).toEqual(["recordedTokens", "errorPct", "scales"]);
    expect(report.ratio).toBeCloseTo(report.pruned.cost / report.raw.cost, 3);
    expect(report.rows).toHaveLength(report.requests);
    expect(Object.keys(report.rows[0] ?? {})).toEqual(["readTokens", "writtenTokens", "flush", "uses", "misses"]);
    expect(report.rows.filter(({ flush }) => flush !== null)).toHaveLength(report.pruned.flushes);
    expect(report.settings).toMatchObject({ pruneOn: "cache-aware", summarizerModel: "none" });
  });

  test("changes settings, prices and assumptions", async () => {
    const report = await json("--set", "pruneOn=every-turn", "--profile", "read-0.5", "--summary-ratio", "0.2");
    expect(report.settings).toMatchObject({ pruneOn: "every-turn", replay: { prices: "read-0.5", summaryRatio: 0.2 } });
    const summaries = ["--set", "pruneOn=agent-message", "--set", "summarizerModel=default"];
    const own = await json(...summaries);
    const cheap = await json(...summaries, "--summarizer-price", "0.1");
    expect(own.settings.replay.summarizerPrice).toBe(1);
    expect(cheap.pruned.summarizerCost).toBeCloseTo(own.pruned.summarizerCost * 0.1, 5);
    const named = await json("--set", "summarizerModel=made-up/m0");
    expect(named.settings.replay.summarizerPrice).toBe(0.2);
    const rates = (input: number) => ({ input, output: input * 5, cacheRead: 0, cacheWrite: 0 });
    const prices = JSON.stringify({ "made-up/m0": rates(2), "made-up/m1": rates(4) });
    const known = await json("--set", "summarizerModel=made-up/m0", "--model-prices", prices);
    expect(known.settings.replay).toMatchObject({ currency: "USD", summarizerPrice: 0.5 });
  });

  test("sets variants side by side", async () => {
    const args = ["replay", SHORT, "--digest", "--compare", "pruneOn=every-turn", "--compare", "minBatchChars=5000"];
    const { out } = await run(...args);
    expect(out).toMatch(/^Condensed, this session costs [\d.]+ instead of [\d.]+\s\([-+]?\d+%\), answers\sincluded/m);
    expect(out).toMatch(/^ +raw +A +B$/m);
    expect(out).toMatch(/^ +raw +C$/m);
    expect(out).toMatch(/^B: pruneOn=every-turn/m);
    expect(out).toContain("Advice: ");
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(60);
    const reports: ReplayReport[] = JSON.parse((await run(...args, "--json")).out);
    expect(reports.map(({ settings }) => settings.minBatchChars)).toEqual([1_000, 1_000, 5_000]);
  });

  test("writes a page whose figures are those of the JSON", async () => {
    const page = join(folder, "page.html");
    const report = await json("--digest", "--html", page);
    const html = readFileSync(page, "utf8");
    const embedded = /<script type="application\/json" id="report">(.*?)<\/script>/s.exec(html)?.[1];
    expect(JSON.parse(embedded ?? "")).toEqual(report);
    const shown = [...html.matchAll(/<(?:td|strong) data-figure="([\w.]+)" data-value="([^"]*)">([^<]*)</g)];
    expect(shown.length).toBeGreaterThanOrEqual(18);
    for (const [, path = "", value, text = ""] of shown) {
      const figure = path.split(".").reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], report);
      expect({ path, value: Number(value) }).toEqual({ path, value: figure as number });
      const read = Number(text.replace(/[$,%]/g, "")) / (text.endsWith("%") ? 100 : 1);
      expect(Math.abs(read - Number(value))).toBeLessThanOrEqual(0.00005);
    }
    const series = JSON.parse(/id="series">(.*?)<\/script>/s.exec(html)?.[1] ?? "");
    expect(series.charts.cost.values[1].at(-1)).toBeCloseTo(report.pruned.cost, 5);
    expect(Math.max(...series.charts.context.values[0])).toBe(report.raw.peakTokens);
    expect(html).not.toMatch(/https?:|src=|@import|url\(/);
    expect(html).toContain("prefers-color-scheme: dark");
  });

  test("sums up a folder, and leaves out what is no session", async () => {
    const sessions = join(folder, "sessions");
    mkdirSync(join(sessions, "deep"), { recursive: true });
    writeFileSync(join(sessions, "a.jsonl"), readFileSync(SHORT));
    writeFileSync(join(sessions, "deep/b.jsonl"), readFileSync(SHORT));
    writeFileSync(join(sessions, "bad.jsonl"), "nothing\n");
    writeFileSync(join(sessions, "null.jsonl"), readFileSync(write("null.jsonl", [HEADER, reply("[null]")])));
    writeFileSync(join(sessions, "deep.jsonl"), readFileSync(write("deep.jsonl", [HEADER, reply(DEEP)])));
    const { code, out, err } = await run("replay", sessions, "--digest", "--json");
    expect(code).toBe(2);
    const lines = err.trimEnd().split("\n");
    expect(lines).toHaveLength(3);
    expect(lines[0]).toContain("bad.jsonl: this is no pi session");
    expect(lines[1]).toContain("deep.jsonl, line 2: a message that is nested more than 500 deep");
    expect(lines[2]).toContain("null.jsonl, line 2: a message of role assistant with something in it that is no block");
    const { sessions: parts, total } = JSON.parse(out);
    const one = await json("--digest");
    expect(parts.map(({ file }: { file: string }) => file)).toEqual(["a.jsonl", join("deep", "b.jsonl")]);
    expect(total).toMatchObject({ requests: 24, ratio: one.ratio, pruned: { flushes: one.pruned.flushes * 2 } });
    expect(total.raw.cost).toBeCloseTo(one.raw.cost * 2, 5);
    expect((await run("replay", sessions, "--digest")).out).toMatch(/^all +24 /m);
  });

  const corrupt = write("corrupt.jsonl", [HEADER, '{"type":"mess', ...workload("short").entries]);
  const empty = write("empty.jsonl", []);
  const other = write("other.jsonl", [{ name: "not a session" }]);
  test.each([
    ["a corrupt line", ["replay", corrupt], "corrupt.jsonl, line 2: not valid JSON"],
    ["an empty file", ["replay", empty], "empty.jsonl: the file is empty"],
    ["a file that is no session", ["replay", other], "other.jsonl: this is no pi session"],
    ["a missing file", ["replay", join(folder, "none.jsonl")], "none.jsonl: there is no such file"],
    ["a folder without sessions", ["replay", mkdtempSync(join(folder, "none-"))], "there is no session in this folder"],
    ["no file", ["replay"], "Name a session file"],
    ["two files", ["replay", SHORT, SHORT], "One session at a time"],
    ["an unknown option", ["replay", SHORT, "--fast"], "--fast"],
    ["an unknown setting", ["replay", SHORT, "--set", "prune=1"], "prune is not a setting"],
    ["a bad value", ["replay", SHORT, "--set", "minBatchChars=x"], "minBatchChars cannot be"],
    ["an unknown profile", ["replay", SHORT, "--profile", "gold"], 'There is no profile "gold". Known: anthropic-5m'],
    ["a bad ratio", ["replay", SHORT, "--summary-ratio", "8"], "--summary-ratio cannot be"],
    ["prices that are no JSON", ["replay", SHORT, "--model-prices", "{"], "--model-prices is no JSON object"],
    ["a price that is none", ["replay", SHORT, "--model-prices", '{"a/b":{"input":"1"}}'], "input of a/b is no price"],
    ["a page nobody can write", ["replay", SHORT, "--html", join(folder, "no/where.html")], "it cannot be written"],
    ["another command", ["play"], 'There is no command "play"'],
    ["no command", [], "Usage: pi-condense replay"],
  ])("ends with code 2 and a word on it: %s", async (_name, args, expected) => {
    const { code, out, err } = await run(...args);
    expect(code).toBe(2);
    expect(out).toBe("");
    expect(err).toContain(expected);
  });

  test("takes tokens that are no numbers for none", async () => {
    const session = write("strings.jsonl", [HEADER, reply('[{"type":"text","text":"done"}]')]);
    const { code, out } = await run("replay", session, "--json");
    expect(code).toBe(0);
    const { raw, calibration }: ReplayReport = JSON.parse(out);
    expect(raw.cost).toBeGreaterThan(0);
    expect(calibration).toEqual({ recordedTokens: 0, errorPct: null, scales: [] });
    expect((await run("replay", session)).out).not.toContain("NaN");
  });

  test("lets nothing from a session reach the terminal as a command to it", async () => {
    const hostile = reply('[{"type":"toolCall","id":"c","name":"\\u001b[2J\\u202e","arguments":{}}]');
    const named = hostile.replace('"model":"m"', '"model":"\\u001b]0;x\\u0007"').replace('"12"', "12000");
    const session = write("a\u001b[31m.jsonl", [HEADER, named]);
    for (const args of [[], ["--json"]]) {
      const { out, err } = await runOn(true, "replay", session, ...args);
      expect(err.startsWith("\r\u001b[K")).toBe(true);
      for (const text of [out, err.replaceAll("\r\u001b[K", "")]) expect(text).not.toMatch(/(?!\n)[\p{Cc}\u202e]/u);
    }
  });

  test("says that it is at work before anything is read, and clears the line at the end", async () => {
    const { err } = await runOn(true, "replay", SHORT, "--json");
    expect(err).toStartWith("\r\u001b[Kshort.jsonl: 0%");
    expect(err).toEndWith("\r\u001b[K");
  });

  test("checks the page before the replay, and leaves nothing behind where that fails", async () => {
    const page = join(folder, "unwritten.html");
    const { err } = await runOn(true, "replay", SHORT, "--html", join(folder, "no/where.html"));
    expect(err).not.toContain("0%");
    await run("replay", empty, "--html", page);
    expect(existsSync(page)).toBe(false);
  });

  test("prints its usage where that is asked for", async () => {
    expect(await run("--help")).toMatchObject({ code: 0, err: "" });
    expect((await run("replay", "--help")).out).toContain("--compare");
  });
});
