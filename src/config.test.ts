import { describe, expect, test } from "bun:test";
import {
  checkSetting,
  DEFAULT_CONFIG,
  findSetting,
  formatSetting,
  parseSetting,
  resolveConfig,
  SETTINGS,
} from "./config.ts";
import type { SettingValue } from "./settings/rows.ts";

function parsed(key: string, text: string): SettingValue {
  const result = parseSetting(key, text);
  if (!result.ok) throw new Error(result.error);
  return result.value;
}

function errorOf(key: string, text: string): string {
  const result = parseSetting(key, text);
  if (result.ok) throw new Error(`${key} took ${JSON.stringify(text)} as ${JSON.stringify(result.value)}`);
  return result.error;
}

describe("the shipped table", () => {
  test("has these defaults", () => {
    expect<unknown>(DEFAULT_CONFIG).toEqual({
      enabled: true,
      pruneOn: "cache-aware",
      contextTagTools: ["context_tag"],
      batchingMode: "turn",
      summarizerModel: "auto",
      summarizerThinking: "default",
      summarizerIdleTimeoutMs: 20_000,
      summarizerMaxTimeoutMs: 180_000,
      summarizerConcurrency: 2,
      minBatchChars: 1000,
      dedupByContentHash: true,
      protectedTools: [],
      stateTools: expect.arrayContaining(["todo", "TaskCreate", "TaskUpdate", "question", "questionnaire", "ask_user"]),
      listTools: expect.arrayContaining(["todoread", "todowrite", "todo_read", "todo_write"]),
      protectedPaths: expect.arrayContaining(["**/skills/**/*.md", "AGENTS.md", "CLAUDE.md"]),
      condenseArgs: { enabled: true, minStringChars: 400 },
      purgeErrors: { enabled: true, cooldownTurns: 2, minArgChars: 500 },
      workingSet: 24,
      recoveryGraceTurns: 3,
      turnProtection: { enabled: false, turns: 4 },
      protectTags: false,
      maxImagesPerRequest: null,
      chainCompression: {
        enabled: true,
        rollingWindow: 3,
        batchSize: 3,
        stripFinalAssistantThinking: true,
        fuseRangeSummary: true,
      },
      spillThreshold: 65_536,
      spillPreviewBytes: 2048,
      autoBudgetThreshold: null,
      budgetTurnDelta: null,
      autoBudgetTokens: null,
      showPruneStatusLine: true,
      quietOversizedSkips: false,
    });
  });

  test("cannot be changed by whoever reads it", () => {
    expect(Object.isFrozen(DEFAULT_CONFIG)).toBe(true);
    expect(() => DEFAULT_CONFIG.contextTagTools.push("x")).toThrow();
    expect(SETTINGS.every((setting) => Object.isFrozen(setting) && Object.isFrozen(setting.presets))).toBe(true);
    expect(Object.isFrozen(SETTINGS)).toBe(true);
  });

  for (const setting of SETTINGS) {
    test(`${setting.key}: default, presets and texts agree`, () => {
      expect(findSetting(setting.key)).toBe(setting);
      expect(checkSetting(setting.key, setting.default)).toEqual({ ok: true, value: setting.default });
      expect(parsed(setting.key, formatSetting(setting.key, setting.default))).toEqual(setting.default);
      const values = setting.presets.map((preset) => parsed(setting.key, preset.value));
      expect(new Set(values.map((value) => JSON.stringify(value))).size).toBe(setting.presets.length);
      expect(values).toContainEqual(setting.default);
      // The overlay shows a current value by its text, so a preset must be written as the value is.
      for (const [index, value] of values.entries()) {
        expect(formatSetting(setting.key, value)).toBe(setting.presets[index]?.value ?? "");
      }
      for (const line of [setting.label, setting.help, ...setting.presets.map((preset) => preset.label)]) {
        expect(line).toMatch(/^[A-Z0-9a-z][^\n]*$/);
      }
      expect(setting.help.endsWith(".")).toBe(true);
    });
  }
});

describe("resolveConfig", () => {
  test("no layers, or layers without settings, give the defaults in a copy", () => {
    const { config, warnings } = resolveConfig([undefined, {}, { enabled: undefined }]);
    expect(config).toEqual(DEFAULT_CONFIG);
    expect(warnings).toEqual([]);
    config.contextTagTools.push("mine");
    config.enabled = false;
    expect(resolveConfig([]).config).toEqual(DEFAULT_CONFIG);
  });

  test("a later layer wins key by key, and layers are not touched", () => {
    const layers = [{ enabled: false, minBatchChars: 5 }, Object.freeze({ minBatchChars: 7, contextTagTools: ["x"] })];
    const { config, warnings } = resolveConfig(layers);
    expect(config).toEqual({ ...DEFAULT_CONFIG, enabled: false, minBatchChars: 7, contextTagTools: ["x"] });
    expect(warnings).toEqual([]);
    config.contextTagTools.push("y");
    expect(layers[1]).toEqual({ minBatchChars: 7, contextTagTools: ["x"] });
  });

  const bad: [key: string, value: unknown, shown: string][] = [
    ["enabled", "true", '"true"'],
    ["enabled", 1, "1"],
    ["enabled", null, "null"],
    ["pruneOn", "sometimes", '"sometimes"'],
    ["pruneOn", "toString", '"toString"'],
    ["pruneOn", { on: 1 }, '{"on":1}'],
    ["minBatchChars", "80%", '"80%"'],
    ["minBatchChars", "1000", '"1000"'],
    ["minBatchChars", -1, "-1"],
    ["minBatchChars", Number.NaN, "NaN"],
    ["minBatchChars", Number.POSITIVE_INFINITY, "Infinity"],
    ["minBatchChars", 1.5, "1.5"],
    ["minBatchChars", 1e12, "1000000000000"],
    ["summarizerConcurrency", 0, "0"],
    ["summarizerIdleTimeoutMs", 20, "20"],
    ["summarizerModel", "sonnet", '"sonnet"'],
    ["summarizerModel", "", '""'],
    ["summarizerModel", 5, "5"],
    ["contextTagTools", "context_tag", '"context_tag"'],
    ["contextTagTools", [5, ""], '[5,""]'],
    ["contextTagTools", { 0: "x" }, '{"0":"x"}'],
  ];
  for (const [key, value, shown] of bad) {
    test(`${key} ${shown}: one warning with key, value and what is used`, () => {
      const { config, warnings } = resolveConfig([{ [key]: value }]);
      expect(config).toEqual(DEFAULT_CONFIG);
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toStartWith(`contextPrune.${key} is ${shown}, which is not `);
      expect(warnings[0]).toEndWith(`; using ${JSON.stringify(findSetting(key)?.default)}.`);
    });
  }

  test("a bad value keeps what the layer below says, and the warning tells what holds in the end", () => {
    const below = resolveConfig([{ minBatchChars: 5 }, { minBatchChars: -1 }]);
    expect(below.config.minBatchChars).toBe(5);
    expect(below.warnings).toEqual([
      "contextPrune.minBatchChars is -1, which is not a whole number from 0 to 10,000,000; using 5.",
    ]);
    const above = resolveConfig([{ minBatchChars: -1 }, { minBatchChars: 7 }], ["/a.json", "/b.json"]);
    expect(above.config.minBatchChars).toBe(7);
    expect(above.warnings).toEqual([
      "/a.json: contextPrune.minBatchChars is -1, which is not a whole number from 0 to 10,000,000; using 7.",
    ]);
  });

  test("a list keeps its usable entries, once each", () => {
    const { config, warnings } = resolveConfig([{ contextTagTools: ["a", 5, "b", "a", " "] }]);
    expect(config.contextTagTools).toEqual(["a", "b"]);
    expect(warnings).toEqual([
      'contextPrune.contextTagTools is ["a",5,"b","a"," "], where only non-empty texts count; using ["a","b"].',
    ]);
    expect(resolveConfig([{ contextTagTools: [] }])).toEqual({
      config: { ...DEFAULT_CONFIG, contextTagTools: [] },
      warnings: [],
    });
  });

  test("an unknown key gives a warning with the nearest known one", () => {
    const { config, warnings } = resolveConfig([{ minBatchChar: 1, zebra: 2, constructor: 3 }]);
    expect(config).toEqual(DEFAULT_CONFIG);
    expect(warnings).toEqual([
      "contextPrune.minBatchChar is not a setting; did you mean minBatchChars?",
      "contextPrune.zebra is not a setting.",
      "contextPrune.constructor is not a setting.",
    ]);
  });

  test("a hostile layer harms nothing", () => {
    const { config, warnings } = resolveConfig([JSON.parse('{"__proto__": {"enabled": false}, "\\u001b[31m": 1}')]);
    expect(config).toEqual(DEFAULT_CONFIG);
    expect(({} as Record<string, unknown>).enabled).toBeUndefined();
    expect(warnings).toEqual([
      "contextPrune.__proto__ is not a setting.",
      'contextPrune."\\u001b[31m" is not a setting.',
    ]);
    const long = resolveConfig([{ pruneOn: "\u009b😀".repeat(5000) }]);
    expect(long.warnings[0]?.length).toBeLessThan(250);
    expect(long.warnings[0]).not.toMatch(/\p{Cc}/u);
    expect(long.warnings[0]).not.toMatch(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])/);
  });

  test("a layer that is no object is ignored with a warning", () => {
    for (const [layer, shown] of [
      [null, "null"],
      [[], "[]"],
      ["on", '"on"'],
      [true, "true"],
    ]) {
      expect(resolveConfig([{ enabled: false }, layer])).toEqual({
        config: { ...DEFAULT_CONFIG, enabled: false },
        warnings: [`contextPrune is ${shown}, which is not an object of settings; it is ignored.`],
      });
    }
  });
});

describe("parseSetting", () => {
  test("switches", () => {
    for (const text of ["on", "true", " ON ", "True"]) expect(parsed("enabled", text)).toBe(true);
    for (const text of ["off", "false"]) expect(parsed("enabled", text)).toBe(false);
    expect(errorOf("enabled", "maybe")).toBe('enabled cannot be "maybe": it is on or off.');
    expect(errorOf("enabled", "")).toBe('enabled cannot be "": it is on or off.');
  });

  test("numbers", () => {
    for (const text of ["2000", "2_000", "2,000", " 2000 ", "2000.0"]) expect(parsed("minBatchChars", text)).toBe(2000);
    expect(parsed("minBatchChars", "1,234,567")).toBe(1_234_567);
    expect(parsed("minBatchChars", "0")).toBe(0);
    for (const text of ["2k", "1,5", "1,00", "0x10", "1e3", "-1", "1.5", "10000001", "_1", "1_", "off", "", "NaN"]) {
      const shown = JSON.stringify(text);
      const error = `minBatchChars cannot be ${shown}: it is a whole number from 0 to 10,000,000.`;
      expect(errorOf("minBatchChars", text)).toBe(error);
    }
  });

  test("choices", () => {
    expect(parsed("pruneOn", "every-turn")).toBe("every-turn");
    expect(parsed("pruneOn", "On-Demand")).toBe("on-demand");
    expect(errorOf("pruneOn", "every-trun")).toBe(
      'pruneOn cannot be "every-trun": it is one of agent-message, every-turn, on-context-tag, on-demand, cache-aware. ' +
        "Did you mean every-turn?",
    );
    expect(errorOf("summarizerThinking", "constructor")).toContain("it is one of default, off, minimal");
  });

  test("models", () => {
    for (const text of ["default", "none", "anthropic/claude-haiku-4-5", "openrouter/a/b:free", "ollama/My Model 7b"]) {
      expect(parsed("summarizerModel", ` ${text} `)).toBe(text);
    }
    for (const text of ["haiku", "/haiku", "anthropic/", "an thropic/x", "a/ b", ""]) {
      expect(errorOf("summarizerModel", text)).toContain("default (the session's model), none");
    }
  });

  test("lists", () => {
    expect(parsed("contextTagTools", "read")).toEqual(["read"]);
    expect(parsed("contextTagTools", " read, bash ,,read ")).toEqual(["read", "bash"]);
    expect(parsed("contextTagTools", "none")).toEqual([]);
    expect(parsed("contextTagTools", "[]")).toEqual([]);
    expect(parsed("contextTagTools", '["a,b", "c"]')).toEqual(["a,b", "c"]);
    expect(parsed("contextTagTools", "**/*.{md,txt}, [ab]*.ts")).toEqual(["**/*.{md,txt}", "[ab]*.ts"]);
    expect(parsed("contextTagTools", "[ab]")).toEqual(["[ab]"]);
    for (const text of ["", ",", "[1]"]) {
      expect(errorOf("contextTagTools", text)).toContain("it is a list of names separated by commas, or none.");
    }
  });

  test("an unknown key is named, with the nearest known one", () => {
    expect(errorOf("minbatchchars", "1")).toBe("minbatchchars is not a setting; did you mean minBatchChars?");
    expect(errorOf("toString", "1")).toBe("toString is not a setting.");
  });
});

describe("formatSetting", () => {
  test("gives the text that is read as the same value", () => {
    for (const list of [["a"], ["a", "b"], [], ["none"], ["a,b"], ["*.{a,b}"], ["[1]"], [" x "], ["{", "}"]]) {
      expect(parsed("contextTagTools", formatSetting("contextTagTools", list))).toEqual(list);
    }
    expect(formatSetting("contextTagTools", ["a", "b"])).toBe("a, b");
    expect(formatSetting("enabled", true)).toBe("on");
    expect(formatSetting("minBatchChars", 20_000)).toBe("20000");
    expect(formatSetting("summarizerModel", "default")).toBe("default");
  });

  test("a value that does not suit the key is shown as JSON", () => {
    expect(formatSetting("enabled", "x")).toBe('"x"');
    expect(formatSetting("nothing", null)).toBe("null");
  });
});

describe("checkSetting", () => {
  test("takes only what can be saved as it is", () => {
    expect(checkSetting("enabled", false)).toEqual({ ok: true, value: false });
    expect(checkSetting("contextTagTools", ["a", ""])).toEqual({
      ok: false,
      error: 'contextTagTools cannot be ["a",""]: it is a list of names.',
    });
    expect(checkSetting("minBatchChars", Number.NaN).ok).toBe(false);
    expect(checkSetting("__proto__", 1)).toEqual({ ok: false, error: "__proto__ is not a setting." });
  });
});
