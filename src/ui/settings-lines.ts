/** The lines of the settings screen: settings under the headings of their groups, and the help of one of them. */
import { visibleWidth } from "@mariozechner/pi-tui";
import { formatSetting, SETTINGS } from "../config.js";
import type { HostSnapshot } from "../host/host.js";
import type { Setting } from "../settings/rows.js";
import type { ContextPruneConfig } from "../types.js";
import { windowStart } from "./frame.js";
import { modelFacts } from "./model-facts.js";
import { fit, type Paint, padded, wrapped } from "./paint.js";
import { type ChangeOutcome, cacheNote, settingValue } from "./settings-model.js";

const MAX_LABEL = 30;

/** What is listed, and which of it is selected. */
export interface SettingRows {
  matching: readonly Setting[];
  selected: number;
  settings: Readonly<ContextPruneConfig>;
  /** With headings: what a search has found is sorted by how well it fits, so its groups say nothing. */
  grouped: boolean;
}

/** At most `size` lines, and one that tells the position where there are more; the window moves with the selection. */
export function settingLines(rows: SettingRows, size: number, paint: Paint, width: number): string[] {
  const { matching, selected, settings, grouped } = rows;
  if (matching.length === 0) return [paint.fg("dim", "  No matching settings")];
  const lines: string[] = [];
  let at = 0;
  let group: string | undefined;
  for (const [i, setting] of matching.entries()) {
    if (grouped && setting.group !== group) lines.push(fit(paint.fg("mdHeading", setting.group), width));
    group = setting.group;
    if (i === selected) at = lines.length;
    lines.push(settingLine(setting, settings, i === selected, paint, width));
  }
  if (lines.length <= size) return lines;
  // The first setting of all must not hide the heading above it.
  const start = selected === 0 ? 0 : windowStart(at, size, lines.length);
  return [...lines.slice(start, start + size), paint.fg("dim", `  (${selected + 1}/${matching.length})`)];
}

function settingLine(
  setting: Setting,
  settings: Readonly<ContextPruneConfig>,
  isSelected: boolean,
  paint: Paint,
  width: number,
): string {
  const longest = Math.max(...SETTINGS.map(({ label }) => visibleWidth(label)));
  const label = padded(setting.label, Math.min(MAX_LABEL, longest, Math.floor(width / 2)));
  const value = formatSetting(setting.key, settingValue(settings, setting.key));
  const meaning = paint.fg("dim", meaningOf(setting, value));
  if (isSelected) return fit(`${paint.fg("accent", `→ ${label}`)}  ${paint.fg("accent", value)}${meaning}`, width);
  return fit(`  ${label}  ${paint.fg("muted", value)}${meaning}`, width);
}

/** What the value is called where that says more than the value does. */
function meaningOf(setting: Setting, value: string): string {
  if (setting.kind === "boolean") return "";
  const preset = setting.presets.find((candidate) => candidate.value === value);
  const plain = preset?.label.replaceAll(",", "").toLowerCase() ?? value;
  return plain.startsWith(value.toLowerCase()) ? "" : `  ${preset?.label ?? ""}`;
}

/** What the setting does, what it means for model and prompt cache, and what came of the last change. */
export function helpLines(
  setting: Setting,
  settings: Readonly<ContextPruneConfig>,
  host: Pick<HostSnapshot, "models" | "model">,
  outcome: ChangeOutcome | undefined,
  paint: Paint,
  width: number,
): string[] {
  const note = cacheNote(setting.key);
  const facts = setting.key === "summarizerModel" ? modelFacts(settings.summarizerModel, host) : undefined;
  const preset = formatSetting(setting.key, setting.default);
  return [
    ...wrapped(paint.fg("dim", `${setting.help} (${setting.key}, default: ${preset})`), width, "  "),
    ...(facts ? wrapped(paint.fg("muted", facts), width, "  ") : []),
    ...(note ? wrapped(paint.fg("warning", note), width, "  ") : []),
    ...(outcome ? wrapped(outcomeText(outcome, paint), width, "  ") : []),
  ];
}

function outcomeText({ message, type }: ChangeOutcome, paint: Paint): string {
  return paint.fg(type === "info" ? "success" : type, type === "info" ? `Saved: ${message}` : message);
}
