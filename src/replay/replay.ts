/** Replays one session: as it was, and under each of several settings. */

import { DIGEST_SHARE } from "../cost/forecast.ts";
import { type CachePolicy, DEFAULT_PROFILE, type ModelCost, type PriceProfile, scaleRates } from "../cost/prices.ts";
import { isAssistant } from "../transcript/messages.ts";
import type { ContextPruneConfig } from "../types.ts";
import { type Calibration, type CalibrationPoint, calibrationOf, fitScale, fitScales } from "./calibration.ts";
import { CostMeter, type Scale } from "./costs.ts";
import { type Condensing, type PlayOptions, play } from "./player.ts";
import { modelOf, type Recording, recordedPromptTokens, recordingOf } from "./recording.ts";
import { RecoveryCharge } from "./recoveries.ts";
import type { RecordedSession } from "./session-file.ts";
import { digestStandIn, ratioStandIn } from "./stand-in.ts";
import { type RequestUses, recordedUses, UseCounter } from "./use-counter.ts";
import type { Use } from "./uses.ts";

/** Tokens of the recovery tool's description, which every prompt of a session with the extension carries. */
export const RECOVERY_TOOL_TOKENS = 350;

/** One way to run the session. */
export interface Variant {
  name: string;
  config: ContextPruneConfig;
}

/** What a replay assumes. */
export interface Assumptions {
  /** Length of a summary as a share of what it stands for, 0 to 1. */
  summaryRatio: number;
  /** Price of the summariser as a share of the session model's; by default by the setting, see `summarizerPriceOf`. */
  summarizerPrice?: number;
  /** Prices and cache by name; missing for prices as they were recorded, and the default cache. */
  profile?: PriceProfile;
  /** Cost tables of models, where a host is at hand to give them. */
  costOfModel?(model: string): ModelCost | undefined;
  /** Price of one million input tokens where none was recorded; 1 by default. */
  inputPrice?: number;
  /** Tokens; by default guessed from the session. */
  contextWindow?: number;
  /** Tokens that the extension's tool takes in every prompt; `RECOVERY_TOOL_TOKENS` by default. */
  toolTokens?: number;
  /** Where the host's compactions of the raw session come from; by default `recorded` where the session ran raw. */
  rawCompactions?: PlayOptions["compactions"];
}

/** What came of one variant. */
export interface VariantRun {
  name: string;
  config: ContextPruneConfig | undefined;
  meter: CostMeter;
  /** What each request's reply used, in the order of the requests. */
  uses: readonly RequestUses[];
  /** Requests that it takes more to ask for what was missed. */
  extraRequests: number;
}

/** A replayed session. */
export interface Replay {
  recording: Recording;
  raw: VariantRun;
  variants: VariantRun[];
  calibration: Calibration;
  /** The prices are those of a real currency, USD, and not multiples of the input price. */
  hasPrices: boolean;
}

/** Told how much is done, 0 to 1. */
export type OnProgress = (share: number) => void;

/** Replays a session; nothing is written but blobs of oversized results, into a folder that is removed again. */
export async function replaySession(
  session: Pick<RecordedSession, "cwd" | "entries">,
  variants: readonly Variant[],
  assumptions: Assumptions,
  onProgress?: OnProgress,
): Promise<Replay> {
  const recording = withWindow(recordingOf(session), assumptions.contextWindow);
  const prices = pricesOf(recording, assumptions);
  const cache = assumptions.profile ?? DEFAULT_PROFILE;
  const runs = variants.length + 2;
  let done = 0;
  const run = async (options: Omit<PlayOptions, "recording">) => {
    const base = done++ / runs;
    const tell = (index: number) => onProgress?.(base + index / recording.entries.length / runs);
    await play({
      ...options,
      recording,
      onRequest: (index, ...request) => {
        tell(index);
        options.onRequest?.(index, ...request);
      },
    });
  };
  const compactions = assumptions.rawCompactions ?? rawCompactions(recording);
  const recorded = recordedUses(recording.entries);
  const recordedCounter = new UseCounter(recorded);
  const doneWithout = new Set<Use>();
  const points = await pointsOf(recording, run, cache, (index, messages) => {
    for (const use of recordedCounter.missedIn(index, messages)) doneWithout.add(use);
  });
  const scales = fitScales(points);
  const byModel = new Map<string, Scale>(scales.map((scale) => [scale.model, scale]));
  const usual = fitScale(points);
  const follow = async (name: string, config: ContextPruneConfig | undefined): Promise<VariantRun> => {
    const toolTokens = config?.enabled ? (assumptions.toolTokens ?? RECOVERY_TOOL_TOKENS) : 0;
    const scaleOf = (model: string) => {
      const { factor, baseTokens } = byModel.get(model) ?? usual;
      return { factor, baseTokens: baseTokens + toolTokens };
    };
    const meter = new CostMeter({ scaleOf, cache, costOfModel: prices.costOfModel });
    const counter = new UseCounter(recorded, doneWithout);
    const charge = new RecoveryCharge(meter, config?.recoveryGraceTurns ?? Number.POSITIVE_INFINITY);
    const uses: RequestUses[] = [];
    await run({
      meter,
      compactions: config ? "simulated" : compactions,
      condensing: config && condensing(config, recording, assumptions),
      onRequest(index, messages) {
        const found = counter.request(index, messages);
        uses.push(found);
        charge.request(found);
      },
    });
    return { name, config, meter, uses, extraRequests: charge.extraRequests };
  };
  const raw = await follow("raw", undefined);
  const finished: VariantRun[] = [];
  for (const { name, config } of variants) finished.push(await follow(name, config));
  onProgress?.(1);
  return { recording, raw, variants: finished, calibration: calibrationOf(points, scales), ...prices };
}

function withWindow(recording: Recording, contextWindow: number | undefined): Recording {
  return contextWindow === undefined ? recording : { ...recording, contextWindow };
}

/** A session that ran with the extension was compacted late or never, which says nothing about the raw one. */
function rawCompactions(recording: Recording): PlayOptions["compactions"] {
  return recording.condensedFrom < recording.entries.length ? "simulated" : "recorded";
}

/** A named model is taken to be a cheaper one where its prices are unknown. */
const USUAL_PRICE_SHARE = 0.2;

/** Price of the summariser that the settings name, as a share of that of the session's first model. */
export function summarizerPriceOf(
  { summarizerModel }: Pick<ContextPruneConfig, "summarizerModel">,
  { rates, entries }: Pick<Recording, "rates" | "entries">,
  { summarizerPrice, costOfModel }: Pick<Assumptions, "summarizerPrice" | "costOfModel">,
): number {
  if (summarizerPrice !== undefined) return summarizerPrice;
  // A model that is not named is the session's own.
  if (!summarizerModel.includes("/")) return 1;
  const model = entries.flatMap((entry) =>
    entry.type === "message" && isAssistant(entry.message) ? [modelOf(entry.message)] : [],
  )[0];
  const own = model === undefined ? undefined : (costOfModel?.(model) ?? rates.get(model));
  const price = costOfModel?.(summarizerModel);
  return own && price && own.input > 0 ? price.input / own.input : USUAL_PRICE_SHARE;
}

function condensing(config: ContextPruneConfig, recording: Recording, assumptions: Assumptions): Condensing {
  const { summaryRatio } = assumptions;
  const summarizerPrice = summarizerPriceOf(config, recording, assumptions);
  return config.summarizerModel === "none"
    ? { config, standIn: digestStandIn(), summaryShare: DIGEST_SHARE, summarizerPrice }
    : { config, standIn: ratioStandIn(summaryRatio), summaryShare: summaryRatio, summarizerPrice };
}

/** The raw session's estimates beside what was recorded, up to where the session was condensed. */
async function pointsOf(
  recording: Recording,
  run: (options: Omit<PlayOptions, "recording">) => Promise<void>,
  cache: CachePolicy,
  onRequest: NonNullable<PlayOptions["onRequest"]>,
): Promise<CalibrationPoint[]> {
  const points: CalibrationPoint[] = [];
  const meter = new CostMeter({
    scaleOf: () => ({ factor: 1, baseTokens: 0 }),
    cache,
    costOfModel: () => DEFAULT_PROFILE.rates,
  });
  await run({
    meter,
    compactions: "recorded",
    onRequest(index, messages, reply, entries) {
      onRequest(index, messages, reply, entries);
      const recorded = recordedPromptTokens(reply);
      if (recorded === 0 || index >= recording.condensedFrom) return;
      points.push({ model: modelOf(reply), estimated: meter.requests.at(-1)?.tokens ?? 0, recorded });
    },
  });
  return points;
}

function pricesOf(
  { rates }: Recording,
  { profile, costOfModel, inputPrice }: Assumptions,
): { costOfModel(model: string): ModelCost; hasPrices: boolean } {
  const known = (model: string) => costOfModel?.(model) ?? rates.get(model);
  // A model whose price is unknown is taken to cost what another one of the session does.
  const usual = inputPrice ?? [...rates.values()][0]?.input ?? 1;
  const priced = (model: string) => {
    const cost = known(model);
    if (profile) return scaleRates(profile.rates, inputPrice ?? (cost?.input || usual));
    return cost && cost.input > 0 ? cost : scaleRates(DEFAULT_PROFILE.rates, usual);
  };
  return { costOfModel: priced, hasPrices: inputPrice !== undefined || rates.size > 0 || costOfModel !== undefined };
}
