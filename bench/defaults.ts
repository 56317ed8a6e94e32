/**
 * What each choice of defaults costs as a share of the raw session: made-up sessions and, where one is given, a recorded
 * one, at several prices of the cache, with mechanical digests. The description of the extension's tool is left out, so
 * that what is seen is condensing alone; it adds some 350 tokens to each prompt.
 *
 *     bun bench/defaults.ts [SESSION.jsonl] [--summaries] [--only TEXT]
 *
 * `--summaries` takes summaries of 8% at a fifth of the model's price instead of digests, `--only` the choices that hold
 * a text. A `c1` behind a figure: the host compacted once, which makes a session cheap and forgetful.
 */
import { parseArgs } from "node:util";
import { PRICE_PROFILES, type PriceProfile } from "../src/cost/prices.ts";
import { type CalibrationPoint, fitScale } from "../src/replay/calibration.ts";
import { CostMeter, type Scale } from "../src/replay/costs.ts";
import { type Condensing, type Meter, play } from "../src/replay/player.ts";
import { modelOf, type Recording, recordedPromptTokens, recordingOf } from "../src/replay/recording.ts";
import { readSessionFile } from "../src/replay/session-file.ts";
import { configWith, parseAssignments } from "../src/replay/settings.ts";
import { digestStandIn, ratioStandIn } from "../src/replay/stand-in.ts";
import { WORKLOADS, workload } from "./workloads.ts";

const PROFILES = ["anthropic-5m", "read-0.05", "read-0.025", "read-0.5", "anthropic-5m-marks"].flatMap((name) => {
  const profile = PRICE_PROFILES.get(name);
  return profile ? [profile] : [];
});

/** One choice changed at a time; the first line of each group is as shipped but for `pruneOn`. */
const CHOICES = [
  "pruneOn=agent-message",
  "pruneOn=agent-message,chainCompression.enabled=off",
  "pruneOn=agent-message,chainCompression.rollingWindow=1",
  "pruneOn=agent-message,chainCompression.rollingWindow=5",
  "pruneOn=agent-message,chainCompression.batchSize=1",
  "pruneOn=agent-message,chainCompression.batchSize=5",
  "pruneOn=agent-message,chainCompression.batchSize=8",
  "pruneOn=agent-message,minBatchChars=0",
  "pruneOn=agent-message,minBatchChars=3000",
  "pruneOn=agent-message,condenseArgs.enabled=off",
  "pruneOn=every-turn",
  "pruneOn=every-turn,chainCompression.batchSize=8",
  "pruneOn=every-turn,minBatchChars=3000",
  "pruneOn=cache-aware",
  "pruneOn=cache-aware,chainCompression.rollingWindow=1",
  "pruneOn=cache-aware,minBatchChars=0",
  "pruneOn=cache-aware,minBatchChars=3000",
  "pruneOn=cache-aware,condenseArgs.enabled=off",
];

/** Short sessions are summed up, as a single one says little: its last outputs come to nothing or weigh much. */
const SHORT_SESSIONS = 20;

/** Several meters for one play: where nothing is decided by prices, all of them see the same requests. */
class MeterGroup implements Meter {
  constructor(private readonly meters: readonly [CostMeter, ...CostMeter[]]) {}

  readonly request: Meter["request"] = (...args) => this.each((meter) => meter.request(...args));
  readonly compaction: Meter["compaction"] = (...args) => this.each((meter) => meter.compaction(...args));
  readonly flush: Meter["flush"] = (...args) => this.each((meter) => meter.flush(...args));
  readonly leftOver: Meter["leftOver"] = (...args) => this.each((meter) => meter.leftOver(...args));
  readonly summarizerCost: Meter["summarizerCost"] = (...args) => this.meters[0].summarizerCost(...args);
  readonly lastRequestAt: Meter["lastRequestAt"] = () => this.meters[0].lastRequestAt();
  readonly lastContextTokens: Meter["lastContextTokens"] = () => this.meters[0].lastContextTokens();
  readonly currentRates: Meter["currentRates"] = () => this.meters[0].currentRates();

  get cache(): Meter["cache"] {
    return this.meters[0].cache;
  }

  get compactions(): Meter["compactions"] {
    return this.meters[0].compactions;
  }

  private each(action: (meter: CostMeter) => void): void {
    for (const meter of this.meters) action(meter);
  }
}

interface Work {
  name: string;
  /** One session, or several that are summed up. */
  recordings: readonly Recording[];
  compactions: "recorded" | "simulated";
  scale: Scale;
}

interface Outcome {
  cost: number;
  compactions: number;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { summaries: { type: "boolean" }, only: { type: "string", default: "" } },
});
const choices = CHOICES.filter((choice) => choice.includes(values.only));
await main();

async function main(): Promise<void> {
  const works = WORKLOADS.map(madeUp);
  const [file] = positionals;
  if (file !== undefined) works.unshift(await recorded(file));
  const tables = PROFILES.map(() => new Map<string, string[]>());
  for (const work of works) {
    const raw = await costs(work, undefined, PROFILES);
    for (const choice of choices) {
      const shares = await sharesOf(work, choice, raw);
      for (const [i, share] of shares.entries()) {
        const row = tables[i]?.get(choice) ?? [];
        tables[i]?.set(choice, [...row, share]);
      }
    }
    process.stderr.write(`${work.name} done\n`);
  }
  for (const [i, { name }] of PROFILES.entries()) {
    print([
      [name, ...works.map((work) => work.name)],
      ...choices.map((choice) => [choice, ...(tables[i]?.get(choice) ?? [])]),
    ]);
  }
}

function madeUp(name: string): Work {
  const scale = { factor: 1, baseTokens: 2_600 };
  const seeds = Array.from({ length: name === "short" ? SHORT_SESSIONS : 1 }, (_, i) => i + 1);
  const recordings = seeds.map((seed) => recordingOf(workload(name, seed)));
  return { name, recordings, compactions: "simulated", scale };
}

async function recorded(file: string): Promise<Work> {
  const recording = recordingOf(readSessionFile(file));
  const meter = meterFor({ factor: 1, baseTokens: 0 }, PRICE_PROFILES.get("anthropic-5m"));
  const points: CalibrationPoint[] = [];
  await play({
    recording,
    meter,
    compactions: "recorded",
    onRequest(_index, _messages, reply) {
      const tokens = recordedPromptTokens(reply);
      if (tokens > 0)
        points.push({ model: modelOf(reply), estimated: meter.requests.at(-1)?.tokens ?? 0, recorded: tokens });
    },
  });
  return { name: "recorded", recordings: [recording], compactions: "recorded", scale: fitScale(points) };
}

/** Cost of a choice as a share of `raw`, for each profile. */
async function sharesOf(work: Work, choice: string, raw: readonly Outcome[]): Promise<string[]> {
  const all: Outcome[] = [];
  // Where prices decide, each profile has a course of its own.
  const groups = choice.includes("cache-aware") ? PROFILES.map((profile) => [profile]) : [PROFILES];
  for (const group of groups) all.push(...(await costs(work, condensing(choice), group)));
  return all.map(({ cost, compactions }, i) => {
    const share = (cost / (raw[i]?.cost ?? cost)).toFixed(3);
    return compactions > 0 ? `${share} c${compactions}` : share;
  });
}

function condensing(choice: string): Condensing {
  const assignments = parseAssignments(values.summaries ? choice : `summarizerModel=none,${choice}`);
  const standIn = values.summaries ? ratioStandIn(0.08) : digestStandIn();
  return {
    config: configWith(assignments),
    standIn,
    summaryShare: values.summaries ? 0.08 : 0.12,
    summarizerPrice: 0.2,
  };
}

async function costs(
  work: Work,
  condensed: Condensing | undefined,
  profiles: readonly PriceProfile[],
): Promise<Outcome[]> {
  const compactions = condensed ? "simulated" : work.compactions;
  const sums = profiles.map((): Outcome => ({ cost: 0, compactions: 0 }));
  for (const recording of work.recordings) {
    const [first, ...others] = profiles.map((profile) => meterFor(work.scale, profile));
    if (!first) continue;
    const meters = [first, ...others] as const;
    await play({ recording, meter: new MeterGroup([...meters]), compactions, condensing: condensed });
    for (const [i, meter] of meters.entries()) {
      const sum = sums[i];
      if (!sum) continue;
      sum.cost += [...meter.requests, ...meter.sideCalls].reduce((all, { cost }) => all + cost, 0);
      sum.compactions += meter.compactions.length;
    }
  }
  return sums;
}

function meterFor(scale: Scale, profile: PriceProfile | undefined): CostMeter {
  if (!profile) throw new Error("no profile");
  return new CostMeter({ scaleOf: () => scale, cache: profile, costOfModel: () => profile.rates });
}

function print(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ");
  process.stdout.write(`${rows.map(line).join("\n")}\n\n`);
}
