/**
 * Writes the table of `doc/configuration.md` from the settings table; with `--check`, fails where it is out of date.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { formatSetting, SETTINGS } from "../src/config.js";
import type { Setting } from "../src/settings/rows.js";

const FILE = new URL("../doc/configuration.md", import.meta.url);
const START = "<!-- settings: written by npm run docs -->";
const END = "<!-- end of settings -->";

const text = readFileSync(FILE, "utf8");
const updated = replaceBetween(text, table());
if (!process.argv.includes("--check")) writeFileSync(FILE, updated);
else if (updated !== text) {
  process.stderr.write("doc/configuration.md is out of date: run npm run docs\n");
  process.exitCode = 1;
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
