/** Choosing a value from a list or typing one, with errors in place. */
import { getSelectListTheme } from "@mariozechner/pi-coding-agent";
import { type Component, type Focusable, fuzzyFilter, Input, SelectList } from "@mariozechner/pi-tui";
import { formatSetting, parseSetting, type Setting, type SettingPreset, type SettingValue } from "../config.ts";
import { visible } from "../text/visible.ts";
import { wrapped } from "./paint.ts";
import type { Stage } from "./terminal.ts";

const MAX_CHOICES = 8;
const MIN_CHOICES = 3;
/** Rows of the frame, the help, the input and an error. */
const ROWS_AROUND = 11;

export interface ValueEditorOptions {
  setting: Setting;
  current: SettingValue;
  /** Presets, or what else there is to choose from. */
  choices: readonly SettingPreset[];
  stage: Pick<Stage, "theme" | "pressed" | "rows">;
  /** Takes the value; what it gives is shown as an error. */
  onValue(value: SettingValue): string | undefined;
  onCancel(): void;
}

/** An input above the choices that fit what is typed. */
export class ValueEditor implements Component, Focusable {
  focused = true;
  readonly title: string;
  private readonly input = new Input();
  private list: SelectList;
  private matching: readonly SettingPreset[];
  /** The choice was picked with the arrow keys, so it goes before what is typed. */
  private picked = false;
  private error: string | undefined;

  constructor(private readonly options: ValueEditorOptions) {
    const { setting, current, choices } = options;
    this.title = setting.label;
    this.matching = choices;
    this.list = this.listOf(choices);
    const at = choices.findIndex(({ value }) => formatSetting(setting.key, current) === canonical(setting.key, value));
    if (at >= 0) this.list.setSelectedIndex(at);
    // An empty list is written as a word, which would become part of the first name.
    if (Array.isArray(current) && current.length > 0) this.input.handleInput(formatSetting(setting.key, current));
  }

  invalidate(): void {
    this.input.invalidate();
    this.list.invalidate();
  }

  render(width: number): string[] {
    const { setting, stage } = this.options;
    const { theme } = stage;
    this.input.focused = this.focused;
    return [
      ...wrapped(theme.fg("muted", setting.help), width),
      "",
      ...this.input.render(width),
      ...(this.error ? wrapped(theme.fg("error", visible(this.error)), width, "  ") : [""]),
      ...(this.matching.length > 0 ? this.list.render(width) : []),
    ];
  }

  handleInput(data: string): void {
    const { pressed } = this.options.stage;
    if (pressed(data, "tui.select.cancel")) this.options.onCancel();
    else if (pressed(data, "tui.select.confirm")) this.accept();
    else if (pressed(data, "tui.select.up") || pressed(data, "tui.select.down")) {
      this.picked = true;
      this.list.handleInput(data);
    } else this.type(data);
  }

  private type(data: string): void {
    const before = this.input.getValue();
    this.input.handleInput(data);
    const text = this.input.getValue();
    if (text === before) return;
    this.picked = false;
    this.error = undefined;
    if (!this.filters()) return;
    this.matching = fuzzyFilter([...this.options.choices], text, ({ value, label }) => `${value} ${label}`);
    this.list = this.listOf(this.matching);
  }

  /** What is typed narrows names down; numbers and lists are values of their own. */
  private filters(): boolean {
    const { kind } = this.options.setting;
    return kind === "enum" || kind === "string" || kind === "boolean";
  }

  private accept(): void {
    const { setting, onValue } = this.options;
    const text = this.input.getValue().trim();
    const selected = this.matching.length > 0 ? this.list.getSelectedItem()?.value : undefined;
    const takesChoice = this.picked || text === "" || this.filters();
    const chosen = takesChoice && selected !== undefined ? selected : text;
    const parsed = parseSetting(setting.key, chosen);
    this.error = parsed.ok ? onValue(parsed.value) : parsed.error;
  }

  private listOf(choices: readonly SettingPreset[]): SelectList {
    const items = choices.map(({ value, label }) => ({ value, label: value, description: label }));
    const room = Math.max(MIN_CHOICES, Math.min(MAX_CHOICES, this.options.stage.rows() - ROWS_AROUND));
    return new SelectList(items, room, getSelectListTheme(), {
      minPrimaryColumnWidth: 12,
      maxPrimaryColumnWidth: 36,
    });
  }
}

/** The text that stands for the same value as `text` does. */
function canonical(key: string, text: string): string {
  const parsed = parseSetting(key, text);
  return parsed.ok ? formatSetting(key, parsed.value) : text;
}
