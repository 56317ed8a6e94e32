/** Every setting of the table with its help; changes are saved and applied at once. */
import { getSettingsListTheme } from "@mariozechner/pi-coding-agent";
import { fuzzyFilter, Input, matchesKey, type SettingItem, SettingsList } from "@mariozechner/pi-tui";
import { formatSetting, parseSetting, SETTINGS, type Setting, type SettingValue, settingValue } from "../config.ts";
import type { HostSnapshot } from "../host/host.ts";
import type { Pruner } from "../runtime.ts";
import { visible } from "../text/visible.ts";
import { modelChoices, modelFacts } from "./model-facts.ts";
import { framed } from "./paint.ts";
import { byModel, type ChangeOutcome, cacheNote, changeSetting } from "./settings-model.ts";
import type { Screen, Stage } from "./terminal.ts";
import { ValueEditor } from "./value-editor.ts";

/** Rows around the list: rules, title, search, help, note, message, keys. */
const ROWS_AROUND = 14;
const MIN_LIST_ROWS = 3;

/** An item of the host's list, and the setting that it stands for. */
interface Item extends SettingItem {
  setting: Setting;
}

export class SettingsScreen implements Screen {
  readonly capturesViewportInput = true;
  focused = true;
  private readonly search = new Input();
  private readonly items: Item[];
  private list: SettingsList;
  private editor: ValueEditor | undefined;
  /** What came of the last change, until another key is pressed. */
  private outcome: ({ key: string } & ChangeOutcome) | undefined;

  constructor(
    private readonly pruner: Pruner,
    private readonly host: HostSnapshot,
    private readonly stage: Stage,
  ) {
    this.items = SETTINGS.map((setting) => ({
      setting,
      id: setting.key,
      label: setting.label,
      currentValue: "",
      values: setting.presets.map(({ value }) => withMeaning(setting, value)),
      ...(setting.kind !== "boolean" && { submenu: (_current, done) => this.edit(setting, done) }),
    }));
    this.list = this.listOf(this.items);
  }

  invalidate(): void {
    this.search.invalidate();
    this.list.invalidate();
  }

  render(width: number): string[] {
    for (const item of this.items) {
      item.currentValue = withMeaning(item.setting, this.textOf(item.setting));
      item.description = this.describe(item.setting);
    }
    this.search.focused = this.focused && !this.editor;
    if (this.editor) this.editor.focused = this.focused;
    // The list ends with a hint of its own and a blank line before it.
    const list = this.editor ? this.list.render(width) : this.list.render(width).slice(0, -2);
    const body = this.editor ? list : [...this.search.render(width), "", ...list];
    const keys = this.editor
      ? ["type a value, or choose with ↑↓", "enter save", "esc back"]
      : ["type to search", "space next value", "enter choose or type", "esc close"];
    const title = this.editor?.title ?? "Pruner settings";
    return framed({ title, body, keys, rows: this.stage.rows() }, this.stage.theme, width);
  }

  handleInput(data: string): void {
    const { pressed } = this.stage;
    const isForList = (["up", "down", "pageUp", "pageDown", "confirm", "cancel"] as const).some((name) =>
      pressed(data, `tui.select.${name}`),
    );
    if (!this.editor) this.outcome = undefined;
    if (this.editor || isForList) this.list.handleInput(data);
    else if (matchesKey(data, "space") && this.search.getValue() === "") this.cycle();
    else this.type(data);
    this.stage.redraw();
  }

  /** The preset behind the current one; names and lists are typed. An item without an editor takes the next of its values. */
  private cycle(): void {
    const cycled = this.items.filter(({ setting }) => setting.kind !== "list" && setting.kind !== "string");
    const editors = cycled.map((item) => item.submenu);
    for (const item of cycled) item.submenu = undefined;
    this.list.handleInput(" ");
    cycled.forEach((item, i) => {
      item.submenu = editors[i];
    });
  }

  private type(data: string): void {
    const before = this.search.getValue();
    this.search.handleInput(data);
    const text = this.search.getValue();
    if (text === before) return;
    this.list = this.listOf(fuzzyFilter(this.items, text, ({ label, id }) => `${label} ${id}`));
  }

  private edit(setting: Setting, done: () => void): ValueEditor {
    const choices = setting.key === "summarizerModel" ? modelChoices(this.host) : [];
    const close = () => {
      this.editor = undefined;
      done();
    };
    this.editor = new ValueEditor({
      setting,
      current: settingValue(this.pruner.settings, setting.key),
      choices: [...setting.presets, ...choices],
      stage: this.stage,
      onCancel: close,
      onValue: (value) => {
        const outcome = this.change(setting.key, value);
        if (outcome.type === "error") return outcome.message;
        close();
        return undefined;
      },
    });
    return this.editor;
  }

  private change(key: string, value: SettingValue): ChangeOutcome {
    const outcome = changeSetting(this.pruner, this.host, key, value);
    this.outcome = { key, ...outcome };
    return outcome;
  }

  /** What the setting does, what it means for model and prompt cache, and what came of the last change. */
  private describe(setting: Setting): string {
    const { key, group, help } = setting;
    const { theme } = this.stage;
    const note = cacheNote(key);
    const facts = key === "summarizerModel" ? modelFacts(this.pruner.settings.summarizerModel, this.host) : undefined;
    const models = this.pruner.modelsOf(key);
    const outcome = this.outcome?.key === key ? this.outcome : undefined;
    return [
      `${group}: ${help} (${key}, default: ${formatSetting(key, setting.default)})`,
      ...(facts ? [theme.fg("muted", visible(facts))] : []),
      ...(models === undefined ? [] : [theme.fg("warning", `For this model ${visible(byModel(models))} holds.`)]),
      ...(note ? [theme.fg("warning", note)] : []),
      ...(outcome?.type === "info" ? [theme.fg("success", `Saved: ${visible(outcome.message)}`)] : []),
      ...(outcome && outcome.type !== "info" ? [theme.fg(outcome.type, visible(outcome.message))] : []),
    ].join("\n");
  }

  private textOf({ key }: Setting): string {
    return visible(formatSetting(key, settingValue(this.pruner.settings, key)));
  }

  private listOf(items: Item[]): SettingsList {
    const { close, rows } = this.stage;
    const onChange = (key: string, shown: string) => {
      const setting = SETTINGS.find((candidate) => candidate.key === key);
      const preset = setting?.presets.find(({ value }) => withMeaning(setting, value) === shown);
      const parsed = preset && parseSetting(key, preset.value);
      if (parsed?.ok) this.change(key, parsed.value);
    };
    return new SettingsList(
      items,
      Math.max(MIN_LIST_ROWS, rows() - ROWS_AROUND),
      getSettingsListTheme(),
      onChange,
      close,
    );
  }
}

/** The value, and what it is called where that says more than the value does. */
function withMeaning({ kind, presets }: Setting, value: string): string {
  const label = presets.find((preset) => preset.value === value)?.label ?? value;
  const isPlain = kind === "boolean" || label.replaceAll(",", "").toLowerCase().startsWith(value.toLowerCase());
  return isPlain ? value : `${value}  ${label}`;
}
