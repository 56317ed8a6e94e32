/** What a project's settings may change of its user's: a repository is written by others. */
import { isException } from "../capture/protection.ts";
import { formatSetting, SETTINGS, SETTINGS_ROOT } from "../config.ts";
import type { SettingValue } from "../settings/rows.ts";
import type { ResolvedConfig } from "../settings/table.ts";
import { isRecord } from "../text/json.ts";
import type { ContextPruneConfig } from "../types.ts";

/** Settings whose change by a project is told: where output goes, what of it is protected, spilled, and how much there may be. */
const TOLD = /^(?:summarizerModel$|protect|stateTools|listTools|turnProtection|spill|autoBudget|budget)/;

/**
 * The settings of a project over the user's own.
 *
 * Protection adds up: a project protects more, never less, and its exceptions (`!path`) are left out. It cannot have a summariser called where the user has turned
 * that off, nor one of a provider that the user's own `summarizerModel` does not name; the session's model and none are
 * its choice. What it does change of such things is told in one sentence that begins with its path.
 * @param own what holds without the project
 * @param merged the project's values over `own`, key by key
 */
export function withProject(
  own: ContextPruneConfig,
  merged: ContextPruneConfig,
  path: string,
): ResolvedConfig<ContextPruneConfig> {
  const recent = own.turnProtection.enabled;
  const turns = Math.max(merged.turnProtection.turns, recent ? own.turnProtection.turns : 0);
  const exceptions = merged.protectedPaths.filter((one) => isException(one) && !own.protectedPaths.includes(one));
  const paths = merged.protectedPaths.filter((one) => !exceptions.includes(one));
  const config: ContextPruneConfig = {
    ...merged,
    protectedTools: [...new Set([...own.protectedTools, ...merged.protectedTools])],
    protectedPaths: [...new Set([...own.protectedPaths, ...paths])],
    stateTools: [...new Set([...own.stateTools, ...merged.stateTools])],
    listTools: [...new Set([...own.listTools, ...merged.listTools])],
    protectTags: own.protectTags || merged.protectTags,
    turnProtection: { enabled: recent || merged.turnProtection.enabled, turns },
  };
  const warnings: string[] = [];
  if (exceptions.length > 0) {
    warnings.push(
      `${path}: ${SETTINGS_ROOT}.protectedPaths has exceptions. A project cannot take files out of protection; ignoring ${exceptions.map((one) => one.trim()).join(", ")}.`,
    );
  }
  if (!mayName(own.summarizerModel, merged.summarizerModel)) {
    config.summarizerModel = own.summarizerModel;
    warnings.push(
      `${path}: ${SETTINGS_ROOT}.summarizerModel is ${merged.summarizerModel}. A project cannot send tool output where your own settings do not; using ${own.summarizerModel}.`,
    );
  }
  const changes = SETTINGS.filter(({ key }) => TOLD.test(key)).flatMap(({ key }) => {
    const [before, after] = [own, config].map((settings) => formatSetting(key, valueAt(settings, key)));
    return before === after ? [] : [`${key} is ${after}, yours ${before}`];
  });
  if (changes.length > 0) warnings.push(`${path} changes your ${SETTINGS_ROOT} settings: ${changes.join("; ")}.`);
  return { config, warnings };
}

function mayName(own: string, project: string): boolean {
  if (project === own || project === "none") return true;
  if (own === "none") return false;
  return !project.includes("/") || providerOf(project) === providerOf(own);
}

function providerOf(name: string): string | undefined {
  return name.includes("/") ? name.slice(0, name.indexOf("/")) : undefined;
}

function valueAt(settings: ContextPruneConfig, key: string): SettingValue {
  let value: unknown = settings;
  for (const name of key.split(".")) value = isRecord(value) ? value[name] : undefined;
  return value as SettingValue;
}
