import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { Check } from "typebox/value";
import { DEFAULT_CONFIG, SETTINGS } from "../config.ts";
import { settingsSchema } from "./schema.ts";

const schema = settingsSchema();
const takes = (contextPrune: unknown) => Check(schema, { theme: "dark", contextPrune });

describe("the schema of the settings", () => {
  test("is the one in doc", () => {
    const file = new URL("../../doc/settings.schema.json", import.meta.url);
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(schema);
  });

  test("takes the defaults, no settings at all, and settings by model", () => {
    expect(takes(DEFAULT_CONFIG)).toBe(true);
    expect(takes({})).toBe(true);
    expect(takes({ models: { "anthropic/*": { minBatchChars: 5, purgeErrors: { enabled: false } } } })).toBe(true);
  });

  test.each([
    { pruneOn: "sometimes" },
    { minBatchChars: "many" },
    { minBatchChars: -1 },
    { nosuch: 1 },
    { "purgeErrors.enabled": true },
    { purgeErrors: { nosuch: 1 } },
    { summarizerModel: "no model" },
    { models: { "anthropic/*": { nosuch: 1 } } },
    { models: { "anthropic/*": { models: {} } } },
  ])("refuses %j", (settings) => {
    expect(takes(settings)).toBe(false);
  });

  test("describes every setting", () => {
    const text = JSON.stringify(schema);
    for (const { help } of SETTINGS) expect(text).toContain(JSON.stringify(help).slice(1, -1));
  });
});
