/**
 * Preload for `bun test` that makes every property test run PROPERTY_RUNS times at least, with the seed PROPERTY_SEED.
 */
import { mock } from "bun:test";
import * as fastCheck from "fast-check";

const numRuns = Number(process.env.PROPERTY_RUNS);
const seed = Number(process.env.PROPERTY_SEED);
if (!Number.isInteger(numRuns) || !Number.isInteger(seed))
  throw new Error("PROPERTY_RUNS and PROPERTY_SEED are numbers");

/** A test that names a larger number keeps it. */
const withRuns = (parameters: { numRuns?: number } = {}) => ({
  ...parameters,
  numRuns: Math.max(numRuns, parameters.numRuns ?? 0),
  seed,
});
const assert = new Proxy(fastCheck.assert, {
  apply: (target, self, [property, parameters]) => Reflect.apply(target, self, [property, withRuns(parameters)]),
});
mock.module("fast-check", () => ({ ...fastCheck, assert, default: { ...fastCheck.default, assert } }));
