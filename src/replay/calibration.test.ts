import { describe, expect, test } from "bun:test";
import { calibrationOf, fitScale } from "./calibration.js";

describe("calibration", () => {
  test("finds the scale of a provider that counts by it", () => {
    const points = [1_000, 5_000, 20_000].map((estimated) => ({ estimated, recorded: 2_000 + estimated * 1.25 }));
    const scale = fitScale(points);
    expect(scale.factor).toBeCloseTo(1.25, 8);
    expect(scale.baseTokens).toBeCloseTo(2_000, 4);
    const { recordedTokens, estimatedTokens, errorPct } = calibrationOf(points, scale);
    expect(recordedTokens).toBe(38_500);
    expect(estimatedTokens).toBe(38_500);
    expect(errorPct).toBeCloseTo(0, 6);
  });

  test("states the mean error of a request, though the sums agree", () => {
    const points = [
      { estimated: 1_000, recorded: 1_100 },
      { estimated: 2_000, recorded: 1_900 },
    ];
    const calibration = calibrationOf(points, { factor: 1, baseTokens: 0 });
    expect(calibration).toMatchObject({ recordedTokens: 3_000, estimatedTokens: 3_000 });
    expect(calibration.errorPct).toBeCloseTo(6.667, 3);
  });

  test("makes do with one request, and with none", () => {
    const scale = fitScale([{ estimated: 1_000, recorded: 3_700 }]);
    expect(scale.baseTokens + scale.factor * 1_000).toBeCloseTo(3_700, 6);
    expect(fitScale([])).toEqual({ factor: 1, baseTokens: 2_600 });
    expect(calibrationOf([], fitScale([])).errorPct).toBeNull();
  });

  test("never takes a base below zero or a factor that no tokenizer has", () => {
    const scale = fitScale([
      { estimated: 1_000, recorded: 500 },
      { estimated: 2_000, recorded: 9_000 },
    ]);
    expect(scale.baseTokens).toBeGreaterThanOrEqual(0);
    expect(scale.factor).toBeLessThanOrEqual(2);
  });
});
