/**
 * Writes the table of `doc/configuration.md` and `doc/settings.schema.json` from the settings table; with `--check`, fails
 * where one is out of date.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { formatSetting, SETTINGS } from "../src/config.ts";
import type { Setting } from "../src/settings/rows.ts";
import { settingsSchema } from "../src/settings/schema.ts";

const START = "<!-- settings: written by npm run docs -->";
const END = "<!-- end of settings -->";

update("doc/configuration.md", (text) => replaceBetween(text, table()));
update("doc/settings.schema.json", () => `${JSON.stringify(settingsSchema(), null, 2)}\n`);

function update(name: string, change: (text: string) => string): void {
  const file = new URL(`../${name}`, import.meta.url);
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const updated = change(text);
  if (!process.argv.includes("--check")) writeFileSync(file, updated);
  else if (updated !== text) {
    process.stderr.write(`${name} is out of date: run npm run docs\n`);
    process.exitCode = 1;
  }
}

function replaceBetween(document: string, body: string): string {
  const start = document.indexOf(START);
  const end = document.indexOf(END);
  if (start < 0 || end < start) throw new Error(`doc/configuration.md lacks the marks ${START} and ${END}`);
  return `${document.slice(0, start + START.length)}\n\n${body}\n${document.slice(end)}`;
}

function table(): string {
  const groups = [...new Set(SETTINGS.map((setting) => setting.group))];
  return groups
    .map((group) => {
      const rows = SETTINGS.filter((setting) => setting.group === group).map(row);
      return `### ${group}\n\n| key | default | |\n|---|---|---|\n${rows.join("\n")}\n`;
    })
    .join("\n");
}

function row(setting: Setting): string {
  const choices = setting.kind === "enum" ? ` One of ${list(setting)}.` : "";
  const value = JSON.stringify(setting.default);
  return `| \`${setting.key}\` | \`${value}\` | ${setting.help}${choices} |`;
}

function list(setting: Setting): string {
  return setting.presets.map(({ value }) => `\`${formatSetting(setting.key, value)}\``).join(", ");
}
