/** How far estimates are from what providers counted, and the scales that bring them there. */
import type { Scale } from "./costs.ts";

/** One request: what its messages were estimated at, and what the provider counted for the whole prompt. Tokens. */
export interface CalibrationPoint {
  /** `provider/model`. */
  model: string;
  estimated: number;
  recorded: number;
}

/** The scale of one model of the session. */
export interface ModelScale extends Scale {
  model: string;
  /** Requests whose usage was recorded. */
  requests: number;
}

/** What a replay says about its own precision. */
export interface Calibration {
  /** Sum over all requests whose usage was recorded. */
  recordedTokens: number;
  /** Sum of the requests' absolute errors as a percentage of `recordedTokens`; `null` where nothing was recorded. */
  errorPct: number | null;
  /** In the order in which the models came. */
  scales: ModelScale[];
}

/** A prompt's system part where nothing was recorded: what the host has with its own tools. */
const USUAL_BASE_TOKENS = 2_600;
/** Fewer requests than these say little about a slope. */
const MIN_POINTS = 8;

/** A scale for each model; one with few requests has the session's factor and a base of its own. */
export function fitScales(points: readonly CalibrationPoint[]): ModelScale[] {
  const session = fitScale(points);
  return [...new Set(points.map(({ model }) => model))].map((model) => {
    const own = points.filter((point) => point.model === model);
    const scale = own.length >= MIN_POINTS ? fitScale(own) : withBase(own, session.factor);
    return { model, requests: own.length, ...scale };
  });
}

/** The scale that fits best by least squares; without recorded usage, the estimate as it is. */
export function fitScale(points: readonly Omit<CalibrationPoint, "model">[]): Scale {
  if (points.length === 0) return { factor: 1, baseTokens: USUAL_BASE_TOKENS };
  const meanX = mean(points.map((point) => point.estimated));
  const meanY = mean(points.map((point) => point.recorded));
  const spread = points.reduce((sum, { estimated }) => sum + (estimated - meanX) ** 2, 0);
  const product = points.reduce((sum, p) => sum + (p.estimated - meanX) * (p.recorded - meanY), 0);
  return withBase(points, spread > 0 ? product / spread : 1);
}

/** Of the lines with a base of zero or more, the best one; `slope` is the best without that condition. */
function withBase(points: readonly Omit<CalibrationPoint, "model">[], slope: number): Scale {
  const baseTokens = mean(points.map((point) => point.recorded)) - slope * mean(points.map((point) => point.estimated));
  if (slope > 0 && baseTokens >= 0) return { factor: slope, baseTokens };
  const squares = points.reduce((sum, { estimated }) => sum + estimated ** 2, 0);
  const product = points.reduce((sum, { estimated, recorded }) => sum + estimated * recorded, 0);
  return squares > 0
    ? { factor: product / squares, baseTokens: 0 }
    : { factor: 1, baseTokens: Math.max(0, baseTokens) };
}

/** The error of the scales over the points. */
export function calibrationOf(points: readonly CalibrationPoint[], scales: readonly ModelScale[]): Calibration {
  const byModel = new Map(scales.map((scale) => [scale.model, scale]));
  const recordedTokens = points.reduce((sum, point) => sum + point.recorded, 0);
  const error = points.reduce((sum, { model, estimated, recorded }) => {
    const { factor, baseTokens } = byModel.get(model) ?? { factor: 1, baseTokens: 0 };
    return sum + Math.abs(baseTokens + estimated * factor - recorded);
  }, 0);
  return { recordedTokens, errorPct: recordedTokens > 0 ? (error / recordedTokens) * 100 : null, scales: [...scales] };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
