import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import type { AgentMessage } from "@mariozechner/pi-agent-core";
import type { AssistantMessage } from "@mariozechner/pi-ai";
import { initTheme, type Theme } from "@mariozechner/pi-coding-agent";
import { getKeybindings, type MarkdownTheme, visibleWidth } from "@mariozechner/pi-tui";
import { agentDirWith, NO_MODELS, type Settings, SimulatedSession } from "../../test/support/simulated-session.ts";
import { completeCommand, runCommand } from "../commands/index.ts";
import { answer } from "../commands/types.ts";
import { DEFAULT_CONFIG, formatSetting, SETTINGS, settingValue } from "../config.ts";
import type { BatchProgress } from "../engine/flush-runner.ts";
import { loadSettings } from "../host/settings-file.ts";
import { CUSTOM_TYPE_FRONTIER } from "../types.ts";
import { ContextScreen, contextChart } from "./context-chart.ts";
import { contextShares } from "./context-model.ts";
import { FlushEntry, flushOf, registerEntryRenderers } from "./entries.ts";
import { PLAIN, short } from "./paint.ts";
import { progressLines } from "./progress.ts";
import { SettingsScreen } from "./settings-screen.ts";
import { segment } from "./status-line.ts";
import { guarded, MAX_WIDGET_LINES, type Screen, type Stage } from "./terminal.ts";
import { condensedTree } from "./tree-model.ts";
import { treeText } from "./tree-rows.ts";
import { TreeScreen } from "./tree-screen.ts";

initTheme("dark");

const WIDTHS = [40, 60, 80, 120];
/** Rows that a screen has in a terminal of 20. */
const FEW_ROWS = 14;
const KEYS = {
  down: "\x1b[B",
  up: "\x1b[A",
  right: "\x1b[C",
  left: "\x1b[D",
  enter: "\r",
  escape: "\x1b",
  expand: "\x0f",
};
const theme = { ...PLAIN } as unknown as Theme;
const plain = (text: string) => text;
const MARKDOWN = new Proxy({}, { get: () => plain }) as MarkdownTheme;

function stageOf(rows = 30): Stage & { closed: boolean } {
  const stage = {
    theme,
    // The host's own keys are bound by the host; here only the one that is used.
    pressed: (data: string, action: Parameters<Stage["pressed"]>[1]) =>
      (action as string) === "app.tools.expand" ? data === KEYS.expand : getKeybindings().matches(data, action),
    keyName: () => "ctrl+o",
    rows: () => rows,
    redraw: () => {},
    closed: false,
    close: () => {
      stage.closed = true;
    },
  };
  return stage;
}

function assistant(
  timestamp: number,
  content: AssistantMessage["content"],
  stopReason: "toolUse" | "stop",
): AssistantMessage {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  const usage = { input: 100, output: 1, cacheRead: 900, cacheWrite: 0, totalTokens: 1001, cost };
  return { role: "assistant", content, api: "a", provider: "p", model: "m", usage, stopReason, timestamp };
}

/** A prompt, a turn with one call for each id, a closing reply. Wide characters and escapes stand in the results. */
function run(start: number, ids: readonly string[]): AgentMessage[] {
  const text = (id: string) => `\x1b[31mline of ${id}\x1b[0m\t日本語の長い行 ${"x".repeat(90)}\n`.repeat(80);
  const results = ids.map((id, i): AgentMessage => {
    const content = [{ type: "text" as const, text: text(id) }];
    return { role: "toolResult", toolCallId: id, toolName: "read", content, isError: false, timestamp: start + 2 + i };
  });
  const path = (id: string) => `src/ein/sehr/langer/Pfad/mit/日本語/${id}.ts`;
  const calls = ids.map((id) => ({ type: "toolCall" as const, id, name: "read", arguments: { path: path(id) } }));
  return [
    { role: "user", content: `go on with ${ids.join(" and ")} 👩‍👩‍👧‍👦`, timestamp: start },
    assistant(start + 1, calls, "toolUse"),
    ...results,
    assistant(start + 90, [{ type: "text", text: "done" }], "stop"),
  ];
}

const DIGEST: Settings = { summarizerModel: "none" };
const CHAINS: Settings = {
  ...DIGEST,
  chainCompression: { ...DEFAULT_CONFIG.chainCompression, rollingWindow: 0, batchSize: 0 },
};

async function sessionWith(settings: Settings, runs = 4): Promise<SimulatedSession> {
  const session = new SimulatedSession(agentDirWith({ pruneOn: "agent-message", ...settings }));
  for (let i = 0; i < runs; i++) await session.play(run(1 + i * 10_000, [`a${i}`, `b${i}`]));
  return session;
}

function expectToFit(lines: readonly string[], width: number): void {
  for (const line of lines) expect({ line, width: visibleWidth(line) <= width }).toEqual({ line, width: true });
}

function press(screen: Screen, ...keys: (keyof typeof KEYS | (string & {}))[]): void {
  for (const key of keys) screen.handleInput(key in KEYS ? KEYS[key as keyof typeof KEYS] : key);
}

function type(screen: Screen, text: string): void {
  for (const character of text) screen.handleInput(character);
}

describe("no line is wider than the screen", () => {
  test.each(WIDTHS)("settings at %d columns, also the editor of each setting and its errors", async (width) => {
    const { pruner, host } = await sessionWith(DIGEST, 1);
    const screen = new SettingsScreen(pruner, host, stageOf());
    for (const setting of SETTINGS) {
      expectToFit(screen.render(width), width);
      if (setting.kind !== "boolean") {
        press(screen, "enter");
        expectToFit(screen.render(width), width);
        type(screen, "no such value at all, whatever it is that one may think of");
        press(screen, "enter");
        expectToFit(screen.render(width), width);
        press(screen, "escape");
      }
      press(screen, "down");
    }
    type(screen, "zzzz");
    expectToFit(screen.render(width), width);
  });

  test.each(WIDTHS)("the tree and what it opens at %d columns", async (width) => {
    const { pruner } = await sessionWith(CHAINS);
    const screen = new TreeScreen(pruner, stageOf(), MARKDOWN);
    const rows = (condensedTree(pruner) ?? []).length;
    expect(rows).toBeGreaterThan(1);
    press(screen, ...Array.from({ length: rows }, () => "up"));
    for (let i = 0; i < rows; i++) {
      press(screen, "right");
      expectToFit(screen.render(width), width);
      press(screen, "enter");
      expectToFit(screen.render(width), width);
      press(screen, "expand", "down");
      expectToFit(screen.render(width), width);
      press(screen, "escape", "left", "down");
    }
    expectToFit(treeText(condensedTree(pruner) ?? [], PLAIN, width, 5).split("\n"), width);
  });

  test.each(WIDTHS)("the chart at %d columns", async (width) => {
    const { pruner, host } = await sessionWith(CHAINS);
    const view = pruner.contextView(host);
    if (!view) throw new Error("no session");
    const shares = contextShares(view, "system ".repeat(500));
    const figures = { tokens: 123_456, contextWindow: 1_000_000 };
    expectToFit(contextChart(shares, figures, PLAIN, width), width);
    expectToFit(new ContextScreen(shares, figures, stageOf()).render(width), width);
  });

  test.each(WIDTHS)("progress at %d columns, in as many lines as a widget may have", (width) => {
    const batches = Array.from({ length: 30 }, (_, index): BatchProgress => {
      const state = index < 12 ? "done" : index < 14 ? "running" : "waiting";
      return { index, total: 40, label: `read src/日本語/${"x".repeat(80)}`, state, chars: index * 1000 };
    });
    for (let shown = 0; shown <= batches.length; shown++) {
      const lines = progressLines(batches.slice(0, shown), PLAIN, width);
      expectToFit(lines, width);
      expect(lines.length).toBeLessThanOrEqual(MAX_WIDGET_LINES);
    }
    expect(progressLines(batches, PLAIN, width).filter((line) => line.includes("running"))).toHaveLength(2);
  });
});

/** Title and keys are there, in no more rows than there are. */
function expectWhole(screen: Screen, width: number, title: string, key: string): void {
  const lines = screen.render(width).map((line) => stripVTControlCharacters(line));
  expect({ width, rows: lines.length <= FEW_ROWS }).toEqual({ width, rows: true });
  expect(lines[1]).toStartWith(title.slice(0, width - 1));
  expect(lines.slice(-5).join("\n")).toContain(key);
  expect(lines.at(-1)).toMatch(/^─+$/);
}

describe.each([60, 80, 120])("in a terminal of %d columns and 20 rows title and keys stay", (width) => {
  test("of the settings, the editor of each setting and its errors", async () => {
    const { pruner, host } = await sessionWith(DIGEST, 1);
    const screen = new SettingsScreen(pruner, host, stageOf(FEW_ROWS));
    for (const setting of SETTINGS) {
      expectWhole(screen, width, "Pruner settings", "esc close");
      expect(stripVTControlCharacters(screen.render(width).join("\n"))).toContain(`→ ${setting.label.slice(0, 20)}`);
      if (setting.kind !== "boolean") {
        press(screen, "enter");
        expectWhole(screen, width, setting.label, "esc back");
        // Any text is a list.
        if (setting.kind !== "list") {
          type(screen, "no such value");
          press(screen, "enter");
          expectWhole(screen, width, setting.label, "esc back");
          expect(screen.render(width).join(" ")).toContain("cannot be");
        }
        press(screen, "escape");
      }
      press(screen, "down");
    }
  });

  test("of the tree, with what it says, and of what it opens", async () => {
    const { pruner } = await sessionWith(CHAINS, 12);
    const screen = new TreeScreen(pruner, stageOf(FEW_ROWS), MARKDOWN);
    for (let i = 0; i < 12; i++) {
      press(screen, "right", "k");
      expectWhole(screen, width, "Condensed: ", "esc close");
      expect(screen.render(width).some((line) => line.startsWith("→ "))).toBe(true);
      press(screen, "down", "k");
      expectWhole(screen, width, "Condensed: ", "esc close");
      press(screen, "enter", "expand");
      expectWhole(screen, width, "", "esc back");
      press(screen, "escape", "up", "up");
    }
  });

  test("of the chart", async () => {
    const { pruner, host } = await sessionWith(CHAINS);
    const view = pruner.contextView(host);
    if (!view) throw new Error("no session");
    const figures = { tokens: 123_456, contextWindow: 1_000_000 };
    const shares = contextShares(view, "system");
    const screen = new ContextScreen(shares, figures, stageOf(FEW_ROWS));
    const total = `${short(shares.before)} → ${short(shares.after)} tokens −`;
    expectWhole(screen, width, `Where the window goes: ${total}`, "esc close");
  });
});

test("progress shows what runs and what comes next, and then what is over; a cancelled batch did not fail", () => {
  const waiting = Array.from({ length: 16 }, () => "waiting" as const);
  const states: BatchProgress["state"][] = ["done", "done", "cancelled", "running", ...waiting];
  const batches = states.map(
    (state, index): BatchProgress => ({ index, total: states.length, label: `batch ${index}.`, state, chars: 0 }),
  );
  const shown = progressLines(batches, PLAIN, 80).join("\n");
  for (const next of [3, 4, 5, 6]) expect(shown).toContain(`batch ${next}.`);
  expect(shown).not.toContain("batch 0.");
  expect(progressLines(batches.slice(0, 4), PLAIN, 80).join("\n")).toMatch(/– batch 2\..*cancelled/);
});

test("the settings screen names a model that is missing as missing", async () => {
  const { pruner, host } = await sessionWith({ summarizerModel: "nosuch/model" }, 0);
  const screen = new SettingsScreen(pruner, host, stageOf());
  type(screen, "summarizermodel");
  expect(screen.render(120).join("\n")).toContain("nosuch/model is missing: pi knows no such model.");
});

describe("the settings screen", () => {
  test("gives a new array for each render", async () => {
    const { pruner, host } = await sessionWith(DIGEST, 1);
    const screen = new SettingsScreen(pruner, host, stageOf());
    expect(screen.render(80)).not.toBe(screen.render(80));
  });

  test("tells where a change touches the prompt cache, and what was saved", async () => {
    const { pruner, host } = await sessionWith(DIGEST, 1);
    const screen = new SettingsScreen(pruner, host, stageOf());
    expect(screen.render(120).join("\n")).toContain("Prompt cache: ");
    press(screen, " ");
    expect(screen.render(120).join("\n")).toContain("Saved: enabled is now off.");
    expect(pruner.settings.enabled).toBe(false);
  });

  test("shows a failed save in place and changes nothing", async () => {
    const session = await sessionWith(DIGEST, 1);
    const { pruner, host } = session;
    const screen = new SettingsScreen(pruner, { ...host, agentDir: "/dev/null/nowhere" }, stageOf());
    press(screen, " ");
    expect(screen.render(120).join("\n")).toContain("Settings not saved");
    expect(pruner.settings.enabled).toBe(true);
  });

  test("closes on Escape, and the editor of a value leads back to the list first", async () => {
    const { pruner, host } = await sessionWith(DIGEST, 1);
    const stage = stageOf();
    const screen = new SettingsScreen(pruner, host, stage);
    type(screen, "smallest");
    press(screen, "enter", "escape");
    expect(stage.closed).toBe(false);
    expect(stripVTControlCharacters(screen.render(100).join("\n"))).toContain("→ Smallest batch");
    press(screen, "escape");
    expect(stage.closed).toBe(true);
  });
});

describe("typing in the settings screen", () => {
  test("refuses a model that is not there, and names the nearest", async () => {
    const { pruner, host } = await sessionWith(DIGEST, 0);
    const models = {
      ...NO_MODELS,
      find: () => undefined,
      getAvailable: () => [{ provider: "near", id: "model", cost: { input: 1, output: 1 }, contextWindow: 1 }],
    };
    const screen = new SettingsScreen(pruner, { ...host, models: models as unknown as typeof host.models }, stageOf());
    type(screen, "summarizermodel");
    press(screen, "enter");
    type(screen, "near/modelq");
    press(screen, "enter");
    expect(screen.render(120).join("\n")).toContain("names an unknown model: near/modelq. Nearest: near/model.");
    expect(pruner.settings.summarizerModel).toBe("none");
  });

  test("takes a space within a search as a part of it", async () => {
    const { pruner, host } = await sessionWith(DIGEST, 0);
    const before = structuredClone(pruner.settings);
    const screen = new SettingsScreen(pruner, host, stageOf());
    type(screen, "condense arguments");
    expect(pruner.settings).toEqual(before);
    expect(screen.render(100).join("\n")).toContain("Condense arguments");
  });

  test("begins an empty list with what is typed, and a filled one with what it holds", async () => {
    const { pruner, host } = await sessionWith(DIGEST, 0);
    const edit = (text: string) => {
      const screen = new SettingsScreen(pruner, host, stageOf());
      type(screen, "protectedTools");
      press(screen, "enter");
      type(screen, text);
      press(screen, "enter");
    };
    edit("todoread");
    expect(pruner.settings.protectedTools).toEqual(["todoread"]);
    edit(", other");
    expect(pruner.settings.protectedTools).toEqual(["todoread", "other"]);
  });
});

describe("what a session holds never commands the terminal", () => {
  const EVIL = "\x1b]0;title\x07\x1b[2J\u202egnp.exe\u2066\u200b\x07";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  const OBEYED = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]/;

  test("in the tree, the originals, the progress and the answers of commands", async () => {
    const session = new SimulatedSession(agentDirWith({ ...CHAINS, pruneOn: "agent-message" }));
    const messages = [0, 1, 2].flatMap((i) => run(1 + i * 10_000, [`a${i}`, `b${i}`]));
    const evil = JSON.parse(
      JSON.stringify(messages)
        .replaceAll("go on with", JSON.stringify(EVIL).slice(1, -1))
        .replaceAll("line of", `${JSON.stringify(EVIL).slice(1, -1)} line`)
        .replaceAll("Pfad", JSON.stringify(EVIL).slice(1, -1)),
    ) as AgentMessage[];
    await session.play(evil);
    const { pruner, host } = session;
    const shown: string[] = [];
    const ui = { notify: (message: string) => void shown.push(message) };
    for (const text of ["tree", "context", "status", "keep", "decompress", "doctor", "recompress", "decompress b1"]) {
      answer({ ui }, await runCommand(pruner, host, text));
    }
    for (const text of ["decompress ", "keep "]) {
      shown.push(...(completeCommand(pruner, text) ?? []).map(({ description }) => description ?? ""));
    }
    const screen = new TreeScreen(pruner, stageOf(), MARKDOWN);
    press(screen, "up", "up", "up", "right", "down");
    shown.push(...screen.render(100));
    press(screen, "enter", "expand");
    shown.push(...screen.render(100));
    const batch: BatchProgress = { index: 0, total: 1, label: EVIL, state: "running", chars: 1 };
    shown.push(...progressLines([batch], PLAIN, 100));
    expect(shown.join("\n")).toContain("202e");
    for (const line of shown) expect(OBEYED.exec(stripVTControlCharacters(line))).toBeNull();
  });
});

/** A value that differs from the default, as it is typed. */
function otherValue(setting: (typeof SETTINGS)[number]): string {
  const preset = setting.presets.find(({ value }) => {
    const table = SETTINGS.find(({ key }) => key === setting.key);
    return table !== undefined && value !== formatSetting(setting.key, setting.default) && value !== "0";
  });
  return preset?.value ?? "one, two";
}

describe.each(SETTINGS.map((setting) => [setting.key, setting] as const))("the setting %s", (key, setting) => {
  test("is documented, on the screen, reachable by command in any case, and survives a save", async () => {
    const documented = readFileSync(new URL("../../doc/configuration.md", import.meta.url), "utf8");
    expect(documented).toContain(`| \`${key}\` |`);

    const session = await sessionWith(key === "summarizerModel" ? {} : DIGEST, 0);
    const { pruner, host } = session;
    const screen = new SettingsScreen(pruner, host, stageOf());
    type(screen, key);
    expect(screen.render(120).join("\n")).toContain(setting.label.slice(0, 20));

    const wanted = key === "summarizerModel" ? "none" : otherValue(setting);
    const answer = await runCommand(pruner, host, `${key.toUpperCase()} ${wanted}`);
    expect(answer.message).toContain(`${key} is now `);
    expect(settingValue(pruner.settings, key)).not.toEqual(setting.default);
    expect(settingValue(loadSettings(host).config, key)).toEqual(settingValue(pruner.settings, key));
    const file = JSON.parse(readFileSync(join(session.agentDir, "settings.json"), "utf8"));
    expect(settingValue(file.contextPrune, key)).toEqual(settingValue(pruner.settings, key));

    const shown = await runCommand(pruner, host, key);
    expect(shown.message).toStartWith(`${key} is `);
    expect(shown.message).toContain(`Usage: /pruner ${key} `);
    const bad = await runCommand(pruner, host, `${key} "\u0000`);
    if (setting.kind !== "list") expect(bad).toEqual({ message: expect.stringContaining("Usage: "), type: "warning" });
  });
});

describe("the tree", () => {
  test("puts a chain back by d and compresses it again", async () => {
    const { pruner } = await sessionWith(CHAINS);
    const screen = new TreeScreen(pruner, stageOf(), MARKDOWN);
    press(screen, ...Array.from({ length: 20 }, () => "up"));
    expect(screen.render(120).join("\n")).toContain("b1 chain, 2 calls");
    press(screen, "d");
    expect(screen.render(120).join("\n")).toContain("b1 is sent raw from the next request on");
    expect(pruner.chains()?.[0]?.active).toBe(false);
    press(screen, "d");
    expect(pruner.chains()?.[0]?.active).toBe(true);
  });

  test("shows originals without the escapes in them, folded to ten lines until they are expanded", async () => {
    const { pruner } = await sessionWith(DIGEST, 1);
    const screen = new TreeScreen(pruner, stageOf(60), MARKDOWN);
    press(screen, "up", "up", "right", "down", "enter");
    const folded = screen.render(140);
    expect(folded.join("\n")).toContain("71 lines more, ctrl+o to expand");
    expect(folded.join("\n")).not.toContain("\x1b[31m");
    press(screen, "expand");
    expect(screen.render(140).join("\n")).not.toContain("ctrl+o to expand");
  });
});

describe("the status line", () => {
  test("tells what is saved, is silent where there is nothing, and can be switched off", async () => {
    const session = await sessionWith(DIGEST, 1);
    expect(segment(session.pruner)).toMatch(/^pruner [\d.]+k→\d+ \(-\d+%\)$/);
    await runCommand(session.pruner, session.host, "showPruneStatusLine off");
    expect(segment(session.pruner)).toBeUndefined();
    await runCommand(session.pruner, session.host, "showPruneStatusLine on");
    await runCommand(session.pruner, session.host, "off");
    expect(segment(session.pruner)).toBe("pruner off");
    expect(segment((await sessionWith(DIGEST, 0)).pruner)).toBeUndefined();
  });
});

test("an error in a screen is shown, never thrown, and the next key closes it", () => {
  const stage = stageOf();
  const broken = (): never => {
    throw new Error("it broke");
  };
  for (const part of ["render", "handleInput", "invalidate"] as const) {
    const fine: Screen = {
      capturesViewportInput: true,
      render: () => ["fine"],
      handleInput: () => {},
      invalidate: () => {},
    };
    const screen = guarded({ ...fine, [part]: broken }, stage);
    const call = {
      render: () => screen.render(40),
      handleInput: () => screen.handleInput("x"),
      invalidate: () => screen.invalidate(),
    };
    const others = (["render", "handleInput", "invalidate"] as const).filter((name) => name !== part);
    for (const other of others) call[other]();
    if (part !== "render") expect(screen.render(40)).toEqual(["fine"]);
    call[part]();
    expect(screen.render(40).join(" ")).toContain("it broke");
    expect(stage.closed).toBe(false);
    screen.handleInput("x");
    expect(stage.closed).toBe(true);
    stage.closed = false;
  }
});

describe("flushes in the transcript", () => {
  const branchOf = (session: SimulatedSession) => session.tree.branch();
  const frontiersOf = (session: SimulatedSession) =>
    branchOf(session).filter((entry) => entry.type === "custom" && entry.customType === CUSTOM_TYPE_FRONTIER);

  test.each(WIDTHS)("take one line each until they are expanded, at %d columns", async (width) => {
    const session = await sessionWith(DIGEST, 2);
    const [, second] = frontiersOf(session);
    const flush = second?.type === "custom" ? flushOf(branchOf(session), second) : undefined;
    if (!flush) throw new Error("no flush");
    const folded = new FlushEntry(flush, { expanded: false, key: "ctrl+o" }, PLAIN).render(width);
    expect(folded).toHaveLength(1);
    expect(folded[0]).toMatch(/^pruner: condensed \d/);
    const whole = new FlushEntry(flush, { expanded: true, key: "ctrl+o" }, PLAIN).render(width);
    expect(whole.length).toBeGreaterThan(3);
    expectToFit([...folded, ...whole], width);
  });

  test("name what was condensed, and its sizes", async () => {
    const session = await sessionWith(DIGEST, 2);
    const [first] = frontiersOf(session);
    const flush = first?.type === "custom" ? flushOf(branchOf(session), first) : undefined;
    if (!flush) throw new Error("no flush");
    const [line] = new FlushEntry(flush, { expanded: false, key: "ctrl+o" }, PLAIN).render(200);
    expect(line).toContain(
      `condensed ${short(flush.sizes.before)}→${short(flush.sizes.after)} characters: read src/ein/sehr/langer/Pfad/mit/日本語/a0.ts, read`,
    );
    expect(line).toContain("/b0.ts");
    const [narrow] = new FlushEntry(flush, { expanded: false, key: "ctrl+o" }, PLAIN).render(60);
    expect(narrow).toContain("characters: read");
    expect(line).not.toContain("a1.ts");
    expect(first?.type === "custom" && flushOf([], first)?.calls).toEqual([]);
  });

  test("are no line where nothing was condensed", async () => {
    const session = await sessionWith({ ...DIGEST, minBatchChars: 1_000_000 }, 1);
    for (const entry of frontiersOf(session))
      if (entry.type === "custom") expect(flushOf(branchOf(session), entry)).toBeUndefined();
  });

  test("are drawn where the host can, one a flush, and nothing is asked of one that cannot", () => {
    const types: string[] = [];
    const newer = { registerEntryRenderer: (customType: string) => void types.push(customType) };
    registerEntryRenderers(newer as unknown as Parameters<typeof registerEntryRenderers>[0], () => []);
    registerEntryRenderers({} as Parameters<typeof registerEntryRenderers>[0], () => []);
    expect(types).toEqual([CUSTOM_TYPE_FRONTIER]);
  });
});
