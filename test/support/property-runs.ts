/**
 * How many cases every property is checked with. Loaded before the tests, so that none names a number of its own: 200 by
 * default, 1,000 where `CI` is set, `PROPERTY_RUNS=50` another one, `npm run nightly` 10,000. `PROPERTY_SEED` makes the
 * cases of an earlier run again.
 */
import { afterAll, setDefaultTimeout } from "bun:test";
import fc from "fast-check";
import { removeScratchFolders } from "./folders.ts";

const CI_RUNS = 1_000;
const DEFAULT_RUNS = 200;

export const PROPERTY_RUNS = numberFrom("PROPERTY_RUNS") ?? (process.env.CI ? CI_RUNS : DEFAULT_RUNS);

/** Milliseconds that any other test may take which names no limit of its own. */
const TEST_TIMEOUT = 60_000;

/** Milliseconds that a test of any number of cases may take. */
export const PROPERTY_TIMEOUT = 6 * 60 * 60_000;

afterAll(removeScratchFolders);
// In a process that runs several files this holds in the first one only, but where each has its own modules by `--parallel`.
setDefaultTimeout(PROPERTY_RUNS > CI_RUNS ? PROPERTY_TIMEOUT : (numberFrom("TEST_TIMEOUT_MS") ?? TEST_TIMEOUT));
fc.configureGlobal({ numRuns: PROPERTY_RUNS, seed: numberFrom("PROPERTY_SEED") });

function numberFrom(name: string): number | undefined {
  const value = process.env[name];
  if (value === undefined || value === "") return undefined;
  if (!/^-?\d+$/.test(value)) throw new Error(`${name} is a whole number, not ${value}`);
  return Number(value);
}
