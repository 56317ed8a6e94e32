/** Every setting of the table in groups, with its help; changes are saved and applied at once. */
import { fuzzyFilter, Input, matchesKey } from "@mariozechner/pi-tui";
import { formatSetting, parseSetting, SETTINGS } from "../config.js";
import type { HostSnapshot } from "../host/host.js";
import type { Pruner } from "../runtime.js";
import type { Setting, SettingValue } from "../settings/rows.js";
import { framed } from "./frame.js";
import { modelChoices } from "./model-facts.js";
import { wrapped } from "./paint.js";
import { helpLines, settingLines } from "./settings-lines.js";
import { type ChangeOutcome, changeSetting, settingValue } from "./settings-model.js";
import type { Screen, Stage } from "./terminal.js";
import { ValueEditor } from "./value-editor.js";

/** Rows around the list: rules, title, search, help, note, message, keys. */
const ROWS_AROUND = 14;
const MIN_LIST_ROWS = 5;

export class SettingsScreen implements Screen {
  readonly capturesViewportInput = true;
  focused = true;
  private readonly search = new Input();
  private matching: readonly Setting[] = SETTINGS;
  private selected = 0;
  private editor: ValueEditor | undefined;
  private outcome: ChangeOutcome | undefined;

  constructor(
    private readonly pruner: Pruner,
    private readonly host: HostSnapshot,
    private readonly stage: Stage,
  ) {}

  invalidate(): void {
    this.search.invalidate();
    this.editor?.invalidate();
  }

  render(width: number): string[] {
    const { theme } = this.stage;
    if (this.editor) return this.renderEditor(this.editor, width);
    this.search.focused = this.focused;
    const body = [...this.search.render(width), "", ...this.renderList(width), "", ...this.renderHelp(width)];
    const keys = ["type to search", "space next value", "enter choose or type", "esc close"];
    return framed({ title: "Pruner settings", body, keys }, theme, width);
  }

  handleInput(data: string): void {
    if (this.editor) this.editor.handleInput(data);
    else this.handleList(data);
    this.stage.redraw();
  }

  private handleList(data: string): void {
    const { pressed, close } = this.stage;
    const setting = this.matching[this.selected];
    if (pressed(data, "tui.select.cancel")) close();
    else if (pressed(data, "tui.select.up")) this.move(-1);
    else if (pressed(data, "tui.select.down")) this.move(1);
    else if (pressed(data, "tui.select.pageUp")) this.move(-this.listRows(), true);
    else if (pressed(data, "tui.select.pageDown")) this.move(this.listRows(), true);
    else if (matchesKey(data, "space")) {
      if (setting) this.cycle(setting);
    } else if (pressed(data, "tui.select.confirm")) {
      if (setting) this.open(setting);
    } else this.type(data);
  }

  private move(by: number, clamp = false): void {
    const { length } = this.matching;
    if (length === 0) return;
    const next = this.selected + by;
    this.selected = clamp ? Math.max(0, Math.min(length - 1, next)) : (next + length) % length;
    this.outcome = undefined;
  }

  private type(data: string): void {
    const before = this.search.getValue();
    this.search.handleInput(data);
    const text = this.search.getValue();
    if (text === before) return;
    this.outcome = undefined;
    this.selected = 0;
    this.matching = text === "" ? SETTINGS : fuzzyFilter([...SETTINGS], text, (row) => `${row.label} ${row.key}`);
  }

  /** The preset behind the current one; a setting without presets is typed. */
  private cycle(setting: Setting): void {
    const values = setting.presets.flatMap(({ value }) => {
      const parsed = parseSetting(setting.key, value);
      return parsed.ok ? [parsed.value] : [];
    });
    const names = values.map((value) => formatSetting(setting.key, value));
    const next = values[(names.indexOf(this.shown(setting)) + 1) % Math.max(1, values.length)];
    if (next === undefined || setting.kind === "list" || setting.kind === "string") this.open(setting);
    else this.change(setting, next);
  }

  private open(setting: Setting): void {
    if (setting.kind === "boolean") {
      this.cycle(setting);
      return;
    }
    const isModel = setting.key === "summarizerModel";
    this.outcome = undefined;
    this.editor = new ValueEditor({
      setting,
      current: settingValue(this.pruner.settings, setting.key),
      choices: isModel ? [...setting.presets, ...modelChoices(this.host)] : setting.presets,
      stage: this.stage,
      onCancel: () => {
        this.editor = undefined;
      },
      onValue: (value) => {
        const outcome = this.change(setting, value);
        if (outcome.type === "error") return outcome.message;
        this.editor = undefined;
        return undefined;
      },
    });
  }

  private change(setting: Setting, value: SettingValue): ChangeOutcome {
    this.outcome = changeSetting(this.pruner, this.host, setting.key, value);
    return this.outcome;
  }

  private renderEditor(editor: ValueEditor, width: number): string[] {
    const { theme } = this.stage;
    const setting = this.matching[this.selected];
    editor.focused = this.focused;
    const help = setting ? [...wrapped(theme.fg("muted", setting.help), width), ""] : [];
    const keys = ["type a value, or choose with ↑↓", "enter save", "esc back"];
    return framed({ title: setting?.label ?? "", body: [...help, ...editor.render(width)], keys }, theme, width);
  }

  private listRows(): number {
    return Math.max(MIN_LIST_ROWS, this.stage.rows() - ROWS_AROUND);
  }

  private renderList(width: number): string[] {
    const { matching, selected } = this;
    const rows = { matching, selected, settings: this.pruner.settings, grouped: this.search.getValue() === "" };
    return settingLines(rows, this.listRows(), this.stage.theme, width);
  }

  private renderHelp(width: number): string[] {
    const setting = this.matching[this.selected];
    return setting ? helpLines(setting, this.pruner.settings, this.host, this.outcome, this.stage.theme, width) : [];
  }

  private shown(setting: Setting): string {
    return formatSetting(setting.key, settingValue(this.pruner.settings, setting.key));
  }
}
