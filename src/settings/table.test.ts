import { describe, expect, test } from "bun:test";
import { choice, fraction, integer, list, onOff, optionalInteger, type SettingValue } from "./rows.ts";
import { defineSettings } from "./table.ts";

interface SampleConfig {
  enabled: boolean;
  names: string[];
  share: number | null;
  cap: number | null;
  chainCompression: { enabled: boolean; rollingWindow: number; inner: { mode: "a" | "b" } };
}

/** Every kind of row that the shipped table does not have yet, and groups in groups. */
const sample = defineSettings<SampleConfig>("contextPrune", {
  enabled: onOff(true, "Enabled", "Help."),
  names: list([], [], "Names", "Help."),
  share: fraction([0.8], "Share", "Help."),
  cap: optionalInteger({ min: 2, max: 1000, presets: [] }, "Cap", "Help."),
  "chainCompression.enabled": onOff(true, "On", "Help."),
  "chainCompression.rollingWindow": integer(3, { min: 1, max: 50, presets: [] }, "Window", "Help."),
  "chainCompression.inner.mode": choice("a", { a: "A", b: "B" }, "Mode", "Help."),
});

function parsed(key: string, text: string): SettingValue {
  const result = sample.parse(key, text);
  if (!result.ok) throw new Error(result.error);
  return result.value;
}

function errorOf(key: string, text: string): string {
  const result = sample.parse(key, text);
  if (result.ok) throw new Error(`${key} took ${JSON.stringify(text)} as ${JSON.stringify(result.value)}`);
  return result.error;
}

describe("the compiler", () => {
  const a = onOff(true, "A", "Help.");

  test("asks for exactly one fitting row for each key", () => {
    expect(defineSettings<{ a: boolean }>("contextPrune", { a }).defaults).toEqual({ a: true });
    // @ts-expect-error: b has no row
    defineSettings<{ a: boolean; b: boolean }>("contextPrune", { a });
    // @ts-expect-error: c is no key
    defineSettings<{ a: boolean }>("contextPrune", { a, c: a });
    // @ts-expect-error: a is no boolean
    defineSettings<{ a: number }>("contextPrune", { a });
    // @ts-expect-error: the row of a group's field has a dotted key
    defineSettings<{ g: { a: boolean } }>("contextPrune", { a });
  });
});

describe("groups, by dotted keys", () => {
  test("defaults are nested", () => {
    expect(sample.defaults).toEqual({
      enabled: true,
      names: [],
      share: null,
      cap: null,
      chainCompression: { enabled: true, rollingWindow: 3, inner: { mode: "a" } },
    });
    expect(Object.isFrozen(sample.defaults.chainCompression.inner)).toBe(true);
    expect(sample.find("chainCompression.rollingWindow")?.default).toBe(3);
    expect(sample.find("chainCompression")).toBeUndefined();
  });

  test("layers are laid over each other inside a group", () => {
    const { config, warnings } = sample.resolve([
      { chainCompression: { rollingWindow: 5, inner: { mode: "b" } } },
      { chainCompression: { enabled: false } },
    ]);
    expect(config.chainCompression).toEqual({ enabled: false, rollingWindow: 5, inner: { mode: "b" } });
    expect(warnings).toEqual([]);
  });

  test("bad and unknown keys are named by their whole path", () => {
    const { config, warnings } = sample.resolve([
      { chainCompression: { rollingWindow: 0, inner: { mode: "c" }, rollingWindw: 4, inner2: {} } },
    ]);
    expect(config).toEqual(sample.defaults);
    expect(warnings).toEqual([
      "contextPrune.chainCompression.rollingWindow is 0, which is not a whole number from 1 to 50; using 3.",
      'contextPrune.chainCompression.inner.mode is "c", which is not one of "a", "b"; using "a".',
      "contextPrune.chainCompression.rollingWindw is not a setting; did you mean chainCompression.rollingWindow?",
      "contextPrune.chainCompression.inner2 is not a setting.",
    ]);
    expect(sample.resolve([{ rollingWindow: 4 }]).warnings).toEqual([
      "contextPrune.rollingWindow is not a setting; did you mean chainCompression.rollingWindow?",
    ]);
  });

  test("something else in the place of a group gives one warning", () => {
    const { config, warnings } = sample.resolve([
      { chainCompression: { rollingWindow: 5 } },
      { chainCompression: true },
    ]);
    expect(config.chainCompression.rollingWindow).toBe(5);
    expect(warnings).toEqual([
      "contextPrune.chainCompression is true, which is not an object with enabled, rollingWindow, inner.mode; " +
        'using {"enabled":true,"rollingWindow":5,"inner":{"mode":"a"}}.',
    ]);
  });

  test("a key with a literal dot is explained", () => {
    const { config, warnings } = sample.resolve([{ "chainCompression.rollingWindow": 9 }]);
    expect(config).toEqual(sample.defaults);
    expect(warnings).toEqual([
      "contextPrune.chainCompression.rollingWindow is written with dots; write it as nested objects. It is ignored.",
    ]);
  });

  test("are parsed and formatted as any key", () => {
    expect(parsed("chainCompression.rollingWindow", "5")).toBe(5);
    expect(sample.format("chainCompression.enabled", false)).toBe("off");
    expect(sample.parse("chainCompression.rolingWindow", "5")).toEqual({
      ok: false,
      error: "chainCompression.rolingWindow is not a setting; did you mean chainCompression.rollingWindow?",
    });
  });
});

describe("numbers that can be off", () => {
  test("in a file", () => {
    const good = sample.resolve([{ share: 0.8, cap: 2 }]);
    expect([good.config.share, good.config.cap, good.warnings]).toEqual([0.8, 2, []]);
    const off = sample.resolve([
      { share: 0.8, cap: 2 },
      { share: 0, cap: null },
    ]);
    expect([off.config.share, off.config.cap, off.warnings]).toEqual([null, null, []]);
    for (const share of ["80%", 80, -1, Number.NaN, 1.01, true]) {
      const { config, warnings } = sample.resolve([{ share: 0.5 }, { share }]);
      expect(config.share).toBe(0.5);
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toContain(
        "which is not a number above 0 and up to 1 (0.8 for 80%), or null for off; using 0.5.",
      );
    }
    expect(sample.resolve([{ cap: 1 }]).warnings).toEqual([
      "contextPrune.cap is 1, which is not a whole number from 2 to 1,000, or null for off; using null.",
    ]);
  });

  test("as text", () => {
    for (const text of ["off", "OFF", "none", "null", "0", "0.0", "0%"]) expect(parsed("share", text)).toBeNull();
    expect(parsed("share", "0.8")).toBe(0.8);
    expect(parsed("share", ".8")).toBe(0.8);
    expect(parsed("share", "80%")).toBe(0.8);
    expect(parsed("share", "57 %")).toBe(0.57);
    expect(parsed("share", "1")).toBe(1);
    for (const text of ["80", "-1", "0,8", "180%", "%", "NaN", "1e-1", ""]) {
      expect(errorOf("share", text)).toContain("above 0 and up to 1 (0.8 for 80%), or off");
    }
    expect(parsed("cap", "off")).toBeNull();
    expect(parsed("cap", "1,000")).toBe(1000);
    expect(errorOf("cap", "1")).toBe('cap cannot be "1": it is a whole number from 2 to 1,000, or off.');
    expect(sample.format("share", null)).toBe("off");
    expect(sample.format("share", 0.8)).toBe("0.8");
  });
});
