/** The settings as a JSON schema of pi's `settings.json`, so that editors complete and check them. */
import { SETTINGS, SETTINGS_ROOT } from "../config.ts";
import type { Setting } from "./rows.ts";

type Schema = Record<string, unknown>;

/** Where the published schema stands. */
const SETTINGS_REF = "#/definitions/settings";

/** The schema as plain JSON. pi's own keys are let through. */
export function settingsSchema(): Schema {
  const settings = groupOf(SETTINGS.map((setting) => ({ path: setting.key.split("."), setting })));
  const models = {
    description: "Settings for sessions of some models alone, by provider/id or a glob of it.",
    type: "object",
    additionalProperties: { $ref: SETTINGS_REF },
  };
  const root = { ...settings, properties: { ...(settings.properties as Schema), models } };
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Settings of pi with those of pi-condense",
    type: "object",
    properties: { [SETTINGS_ROOT]: root },
    definitions: { settings },
  };
}

/** An object of settings; names in `path` lead to each. */
function groupOf(members: readonly { path: readonly string[]; setting: Setting }[]): Schema {
  const names = [...new Set(members.map(({ path }) => path[0] ?? ""))];
  const properties = Object.fromEntries(
    names.map((name) => {
      const own = members.filter(({ path }) => path[0] === name);
      const [first] = own;
      if (first && first.path.length === 1) return [name, settingOf(first.setting)];
      return [name, groupOf(own.map(({ path, setting }) => ({ path: path.slice(1), setting })))];
    }),
  );
  return { type: "object", additionalProperties: false, properties };
}

function settingOf({ schema, help, label, default: shipped }: Setting): Schema {
  return { title: label, description: help, default: shipped, ...plain(schema) };
}

/** The schema of a row without what JSON cannot hold: patterns become texts. */
function plain(schema: object): Schema {
  return JSON.parse(JSON.stringify(schema, (_key, value) => (value instanceof RegExp ? value.source : value)));
}
