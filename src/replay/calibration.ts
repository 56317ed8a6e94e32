/** How far estimates are from what providers counted, and the scale that brings them there. */
import type { Scale } from "./costs.js";

/** One request: what its messages were estimated at, and what the provider counted for the whole prompt. Tokens. */
export interface CalibrationPoint {
  estimated: number;
  recorded: number;
}

/** What a replay says about its own precision. */
export interface Calibration {
  /** Sum over all requests whose usage was recorded. */
  recordedTokens: number;
  /** The same requests of the raw variant. */
  estimatedTokens: number;
  /** Sum of the requests' absolute errors as a percentage of `recordedTokens`; `null` where nothing was recorded. */
  errorPct: number | null;
}

/** A prompt's system part where nothing was recorded: what the host has with its own tools. */
const USUAL_BASE_TOKENS = 2_600;
/** A fit beyond these has found something else than a tokenizer. */
const MIN_FACTOR = 0.5;
const MAX_FACTOR = 2;

/** The scale that fits best: least squares with the base as intercept; without recorded usage, the estimate as it is. */
export function fitScale(points: readonly CalibrationPoint[]): Scale {
  if (points.length === 0) return { factor: 1, baseTokens: USUAL_BASE_TOKENS };
  const meanX = mean(points.map((point) => point.estimated));
  const meanY = mean(points.map((point) => point.recorded));
  const spread = points.reduce((sum, { estimated }) => sum + (estimated - meanX) ** 2, 0);
  const product = points.reduce((sum, p) => sum + (p.estimated - meanX) * (p.recorded - meanY), 0);
  const slope = spread > 0 ? product / spread : 1;
  const base = meanY - slope * meanX;
  if (slope >= MIN_FACTOR && slope <= MAX_FACTOR && base >= 0) return { factor: slope, baseTokens: base };
  // The line misses the origin from below: no base at all is the nearest that makes sense.
  const baseTokens = Math.min(USUAL_BASE_TOKENS, Math.min(...points.map((point) => point.recorded)));
  const factor = meanX > 0 ? (meanY - baseTokens) / meanX : 1;
  return { factor: Math.min(MAX_FACTOR, Math.max(MIN_FACTOR, factor)), baseTokens };
}

/** The error of a scale over the points. */
export function calibrationOf(points: readonly CalibrationPoint[], scale: Scale): Calibration {
  const estimates = points.map((point) => scale.baseTokens + point.estimated * scale.factor);
  const recordedTokens = points.reduce((sum, point) => sum + point.recorded, 0);
  const error = points.reduce((sum, point, i) => sum + Math.abs((estimates[i] ?? 0) - point.recorded), 0);
  return {
    recordedTokens,
    estimatedTokens: Math.round(estimates.reduce((sum, tokens) => sum + tokens, 0)),
    errorPct: recordedTokens > 0 ? (error / recordedTokens) * 100 : null,
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
