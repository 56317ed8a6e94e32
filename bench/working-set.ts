/**
 * What each rule of `workingSet` keeps and costs: edits whose text the request lacked, all uses that it lacked, and the
 * cost as a multiple of that of `workingSet=off`, recoveries included and not, for each price profile.
 *
 *     bun bench/working-set.ts SESSION.jsonl|FOLDER... [--rules "off;2;8"] [--profiles NAME,NAME] [--set KEY=VALUE]... [--sessions]
 *
 * A rule is a value of `workingSet`, or settings by `key=value,key=value`. The first rule is the one that the others are
 * compared with; where there is no such setting, it is the only one. `--sessions` prints a line for each session as well.
 * "Dear ends" are the requests at which a session, had it ended there, would have cost more than 1.012 of raw beside the
 * description of the tool.
 */
import { statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { SETTINGS } from "../src/config.ts";
import { PRICE_PROFILES, type PriceProfile, writePrice } from "../src/cost/prices.ts";
import type { CostMeter } from "../src/replay/costs.ts";
import { type ReplayReport, reportsOf } from "../src/replay/figures.ts";
import { layOut } from "../src/replay/layout.ts";
import { type Assumptions, RECOVERY_TOOL_TOKENS, replaySession, type Variant } from "../src/replay/replay.ts";
import { type RecordedSession, readSessionFile } from "../src/replay/session-file.ts";
import { configWith, parseAssignment, parseAssignments } from "../src/replay/settings.ts";
import { sumOf } from "../src/replay/totals.ts";

const SETTING = "workingSet";
/** Width of the table. */
const COLUMNS = 120;
const RULES = "off;2;4;8;16;32;run";
/** Before so many requests a session has hardly begun, and the description of the tool is most of what it costs more. */
const FIRST_END = 5;
const DEAR = 1.012;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rules: { type: "string" },
    profiles: { type: "string", default: "anthropic-5m" },
    set: { type: "string", multiple: true, default: [] },
    sessions: { type: "boolean", default: false },
  },
});
await main();

async function main(): Promise<void> {
  if (positionals.length === 0) {
    process.stderr.write("Name session files or folders of them.\n");
    process.exitCode = 2;
    return;
  }
  const sessions: [string, RecordedSession][] = [];
  for (const path of positionals) {
    for (const file of await filesOf(path)) sessions.push([basename(file, ".jsonl"), readSessionFile(file)]);
  }
  const variants = rulesOf();
  for (const name of values.profiles.split(",")) {
    const profile = PRICE_PROFILES.get(name.trim());
    if (!profile) throw new Error(`there is no profile ${name}; known: ${[...PRICE_PROFILES.keys()].join(", ")}`);
    await table(profile, sessions, variants);
  }
}

async function filesOf(path: string): Promise<string[]> {
  if (!statSync(path).isDirectory()) return [path];
  const names = await readdir(path);
  return names
    .filter((name) => name.endsWith(".jsonl"))
    .sort()
    .map((name) => join(path, name));
}

/** The rules that this version knows. */
function rulesOf(): Variant[] {
  const hasSetting = SETTINGS.some(({ key }) => String(key) === SETTING);
  const shared = values.set.map(parseAssignment);
  const rules = values.rules ?? (hasSetting ? RULES : "");
  return rules.split(";").flatMap((rule) => {
    const text = rule.trim();
    if (text === "") return [{ name: "as shipped", config: configWith(shared) }];
    const given = text.includes("=") ? text : `${SETTING}=${text}`;
    try {
      return [{ name: text, config: configWith([...shared, ...parseAssignments(given)]) }];
    } catch (error) {
      process.stderr.write(`${text}: ${error instanceof Error ? error.message : String(error)}\n`);
      return [];
    }
  });
}

async function table(
  profile: PriceProfile,
  sessions: readonly [string, RecordedSession][],
  variants: readonly Variant[],
): Promise<void> {
  const assumptions: Assumptions = { summaryRatio: 0.08, profile, inputPrice: 1 };
  const byRule = variants.map((): ReplayReport[] => []);
  const excesses = variants.map((): number[] => []);
  for (const [name, session] of sessions) {
    const replay = await replaySession(session, variants, assumptions);
    const reports = reportsOf(replay, assumptions);
    for (const [i, { meter }] of replay.variants.entries()) {
      excesses[i]?.push(...ratiosByEnd(meter, replay.raw.meter, profile));
    }
    for (const [i, report] of reports.entries()) byRule[i]?.push(report);
    process.stderr.write(`${profile.name}: ${name} done\n`);
  }
  const first = byRule[0] ?? [];
  const rows = variants.flatMap(({ name }, i) => {
    const reports = byRule[i] ?? [];
    const own = values.sessions
      ? reports.map((report, k) => row(`  ${sessions[k]?.[0] ?? ""}`, report, first[k] ?? report))
      : [];
    return [row(name, sumOf(reports), sumOf(first)), ...own];
  });
  const header = [
    profile.name,
    "edits",
    "missed",
    "uses",
    "missed",
    "asked",
    "with",
    "without",
    "of raw",
    "highest",
    "dear ends",
  ];
  const highest = variants.map((_, i) => Math.max(...(byRule[i] ?? []).map(({ ratio }) => ratio)).toFixed(3));
  const ends = excesses.map((ratios) => {
    const share = ratios.filter((ratio) => ratio > DEAR).length / ratios.length;
    const worst = ratios.reduce((most, ratio) => Math.max(most, ratio), 0);
    return `${(share * 100).toFixed(1)}%, ${worst.toFixed(2)}`;
  });
  const shown = values.sessions ? rows : rows.map((cells, i) => [...cells, highest[i] ?? "", ends[i] ?? ""]);
  process.stdout.write(`${layOut([header.slice(0, shown[0]?.length), ...shown], COLUMNS).join("\n")}\n\n`);
}

/** For each request, what the session up to it cost as a share of raw, without the description of the tool. */
function ratiosByEnd(meter: CostMeter, raw: CostMeter, { rates }: PriceProfile): number[] {
  const costs = costsByEnd(meter);
  return costsByEnd(raw).flatMap((rawCost, i) => {
    const ofTool = (RECOVERY_TOOL_TOKENS * (writePrice(rates) + i * rates.cacheRead)) / 1_000_000;
    return i < FIRST_END ? [] : [((costs[i] ?? 0) - ofTool) / rawCost];
  });
}

function costsByEnd({ requests, sideCalls }: CostMeter): number[] {
  const costs = requests.map(({ cost }) => cost);
  for (const { request, cost } of sideCalls) {
    const at = Math.min(request, costs.length - 1);
    costs[at] = (costs[at] ?? 0) + cost;
  }
  let sum = 0;
  return costs.map((cost) => {
    sum += cost;
    return sum;
  });
}

/** Costs are multiples of those of the first rule; the last one of the raw session's. */
function row(name: string, { pruned, ratio }: ReplayReport, { pruned: first }: ReplayReport): string[] {
  const { uses } = pruned;
  const share = (part: number, whole: number) => (whole > 0 ? `${Math.round((part / whole) * 100)}%` : "–");
  const without = (pruned.cost - pruned.recoveryCost) / (first.cost - first.recoveryCost);
  return [
    name,
    String(uses.edits),
    `${uses.missedEdits} ${share(uses.missedEdits, uses.edits)}`,
    String(uses.uses),
    `${uses.misses} ${share(uses.misses, uses.uses)}`,
    String(pruned.extraRequests),
    (pruned.cost / first.cost).toFixed(3),
    without.toFixed(3),
    ratio.toFixed(3),
  ];
}
