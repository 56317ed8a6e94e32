import { describe, expect, test } from "bun:test";
import { type CalibrationPoint, calibrationOf, fitScale, fitScales } from "./calibration.ts";

/** Requests of a model that counts by that scale. */
function requests(model: string, factor: number, baseTokens: number, sizes: readonly number[]): CalibrationPoint[] {
  return sizes.map((estimated) => ({ model, estimated, recorded: baseTokens + estimated * factor }));
}

const SIZES = Array.from({ length: 20 }, (_, i) => 1_000 + i * 3_000);

describe("calibration", () => {
  test.each([0.3, 1.25, 2.7])("finds a tokenizer that has %p tokens for one that was estimated", (factor) => {
    const points = requests("p/m", factor, 2_000, SIZES);
    const [scale] = fitScales(points);
    expect(scale).toMatchObject({ model: "p/m", requests: 20 });
    expect(scale?.factor).toBeCloseTo(factor, 8);
    expect(scale?.baseTokens).toBeCloseTo(2_000, 4);
    expect(calibrationOf(points, fitScales(points)).errorPct).toBeCloseTo(0, 6);
  });

  test("has a scale for each model", () => {
    const points = [...requests("p/a", 0.8, 30_000, SIZES), ...requests("p/b", 1.6, 3_000, SIZES)];
    const scales = fitScales(points);
    expect(scales.map(({ model, factor }) => [model, Number(factor.toFixed(6))])).toEqual([
      ["p/a", 0.8],
      ["p/b", 1.6],
    ]);
    expect(calibrationOf(points, scales).errorPct).toBeCloseTo(0, 6);
  });

  test("takes the session's factor for a model with few requests", () => {
    const points = [...requests("p/a", 1.5, 4_000, SIZES), ...requests("p/b", 1.5, 9_000, [50_000, 50_001])];
    const [, few] = fitScales(points);
    expect(few?.factor).toBeCloseTo(fitScale(points).factor, 8);
    expect((few?.baseTokens ?? 0) + (few?.factor ?? 0) * 50_000).toBeCloseTo(84_000, 0);
  });

  test("states the mean error of a request, though the sums agree", () => {
    const model = "p/m";
    const points = [
      { model, estimated: 1_000, recorded: 1_100 },
      { model, estimated: 2_000, recorded: 1_900 },
    ];
    const calibration = calibrationOf(points, [{ model, requests: 2, factor: 1, baseTokens: 0 }]);
    expect(calibration.recordedTokens).toBe(3_000);
    expect(calibration.errorPct).toBeCloseTo(6.667, 3);
  });

  test("makes do with one request, and with none", () => {
    const scale = fitScale([{ estimated: 1_000, recorded: 3_700 }]);
    expect(scale.baseTokens + scale.factor * 1_000).toBeCloseTo(3_700, 6);
    expect(fitScale([])).toEqual({ factor: 1, baseTokens: 2_600 });
    expect(calibrationOf([], []).errorPct).toBeNull();
  });

  test("never takes a base below zero: the best line through zero takes its place", () => {
    const scale = fitScale([
      { estimated: 1_000, recorded: 500 },
      { estimated: 2_000, recorded: 9_000 },
    ]);
    expect(scale).toEqual({ factor: 3.7, baseTokens: 0 });
    expect(fitScale([{ estimated: 0, recorded: 500 }])).toEqual({ factor: 1, baseTokens: 500 });
  });
});
