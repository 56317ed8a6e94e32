/**
 * Preload for `bun test` that makes every property test run PROPERTY_RUNS times, from PROPERTY_SEED on, whatever number it
 * names itself.
 */
import { mock } from "bun:test";
import * as fastCheck from "fast-check";

const numRuns = Number(process.env.PROPERTY_RUNS);
const seed = Number(process.env.PROPERTY_SEED);
if (!Number.isInteger(numRuns) || !Number.isInteger(seed))
  throw new Error("PROPERTY_RUNS and PROPERTY_SEED are numbers");

const { assert: realAssert } = fastCheck;
const assert: typeof realAssert = (property, parameters) => realAssert(property, { ...parameters, numRuns, seed });
mock.module("fast-check", () => ({ ...fastCheck, assert, default: { ...fastCheck.default, assert } }));
