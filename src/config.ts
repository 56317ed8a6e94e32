/**
 * The settings under `contextPrune`, as one declarative table.
 *
 * Loading, the settings overlay, `/pruner <key> <value>` and the generated documentation all read this table, so that a
 * setting is described in one place. A new setting is a field of `ContextPruneConfig` and a row here; the compiler asks
 * for the row. A nested group of the interface is addressed by dotted keys (`group.field`).
 */
import type { Setting, SettingKeyOf, SettingPreset, SettingValue } from "./settings/rows.js";
import { defineSettings, type ResolvedConfig, type SettingResult, type SettingsTable } from "./settings/table.js";
import { AUTO_BUDGET_PRESETS, type ContextPruneConfig } from "./types.js";

/** Name of the object in pi's `settings.json` that holds all of these settings. */
export const SETTINGS_ROOT = "contextPrune";

/** Key of a setting of this extension. */
export type SettingKey = SettingKeyOf<ContextPruneConfig>;

/** Todo steps, plans, answers of the user, skills and memory, as extensions and other agents name their tools. */
const STATE_TOOLS = [
  "todo",
  "TaskCreate",
  "TaskUpdate",
  "plan",
  "ExitPlanMode",
  "exit_plan_mode",
  "question",
  "questionnaire",
  "ask_user",
  "ask_user_question",
  "AskUserQuestion",
  "skill",
  "load_skill",
  "use_skill",
  "memory",
  "memory_*",
  "*_memory",
];

/** Tools whose every result is the whole list. */
const LIST_TOOLS = [
  "todoread",
  "todowrite",
  "todo_read",
  "todo_write",
  "TaskList",
  "update_plan",
  "write_plan",
  "plan_write",
];

/** What the hosts load as instructions and skills. */
const INSTRUCTION_FILES = [
  "**/skills/**/*.md",
  "AGENTS.md",
  "AGENTS.override.md",
  "CLAUDE.md",
  "**/.pi/**/SYSTEM.md",
  "**/.pi/**/APPEND_SYSTEM.md",
];

/** The table of this extension's settings. */
export const SETTINGS_TABLE: SettingsTable<ContextPruneConfig> = defineSettings<ContextPruneConfig>(SETTINGS_ROOT, {
  enabled: {
    kind: "boolean",
    default: true,
    label: "Condensing",
    group: "General",
    help: "Condense finished tool output. Off sends the raw session from the next request on.",
  },
  pruneOn: {
    kind: "enum",
    default: "cache-aware",
    choices: {
      "agent-message": "After each closing reply",
      "every-turn": "After every tool turn",
      "on-context-tag": "After a call of a context-tag tool",
      "on-demand": "Only on /pruner now",
      "cache-aware": "When it costs less than going on",
    },
    label: "When to condense",
    group: "General",
    help: "When finished tool output is replaced. Each time rewrites the cached prompt from the first change on.",
  },
  contextTagTools: {
    kind: "list",
    default: ["context_tag"],
    presets: [{ value: "context_tag", label: "context_tag" }],
    label: "Context-tag tools",
    group: "General",
    help: "Tools whose call ends a piece of work, for pruneOn on-context-tag.",
  },
  batchingMode: {
    kind: "enum",
    default: "turn",
    choices: {
      turn: "One batch for each assistant turn",
      "agent-message": "One batch for each agent run",
    },
    label: "Batch",
    group: "General",
    help: "How much tool output one summary covers. Larger batches take fewer summariser calls.",
  },
  summarizerModel: {
    kind: "string",
    default: "default",
    expected: "default (the session's model), none (digests without a model) or provider/model",
    isValid: isModelChoice,
    presets: labelled(["default", "The session's model"], ["none", "No model: mechanical digests"]),
    label: "Summariser model",
    group: "Summaries",
    help: "Model that writes the summaries: default (the session's), provider/model, or none for free offline digests.",
  },
  summarizerThinking: {
    kind: "enum",
    default: "default",
    choices: {
      default: "As the model is set up",
      off: "Off",
      minimal: "Minimal",
      low: "Low",
      medium: "Medium",
      high: "High",
      xhigh: "Extra high",
    },
    label: "Summariser thinking",
    group: "Summaries",
    help: "How much the summariser thinks before it writes.",
  },
  summarizerIdleTimeoutMs: {
    kind: "integer",
    default: 20_000,
    min: 1_000,
    max: 600_000,
    presets: labelled(["10000", "10 s"], ["20000", "20 s"], ["60000", "1 min"], ["180000", "3 min"]),
    label: "Summariser idle limit",
    group: "Summaries",
    help: "Milliseconds without a sign of life after which a summariser call is given up. Raise it for slow local models.",
  },
  summarizerMaxTimeoutMs: {
    kind: "integer",
    default: 180_000,
    min: 1_000,
    max: 3_600_000,
    presets: labelled(["60000", "1 min"], ["180000", "3 min"], ["600000", "10 min"]),
    label: "Summariser time limit",
    group: "Summaries",
    help: "Milliseconds that one summariser call may take in all.",
  },
  summarizerConcurrency: {
    kind: "integer",
    default: 2,
    min: 1,
    max: 16,
    presets: labelled(["1", "1 (local model)"], ["2", "2"], ["4", "4"]),
    label: "Summariser calls at once",
    group: "Summaries",
    help: "Summariser calls that may run at the same time.",
  },
  minBatchChars: {
    kind: "integer",
    default: 1_000,
    min: 0,
    max: 10_000_000,
    presets: labelled(["0", "0 (condense everything)"], ["1000", "1,000"], ["5000", "5,000"], ["20000", "20,000"]),
    label: "Smallest batch",
    group: "What is condensed",
    help: "Characters of tool output below which a batch is left as it is.",
  },
  dedupByContentHash: {
    kind: "boolean",
    default: true,
    label: "Merge repeats",
    group: "What is condensed",
    help: "Replace a tool result that repeats an earlier one byte for byte by a pointer to it.",
  },
  protectedTools: {
    kind: "list",
    default: [],
    presets: labelled(["none", "None (default)"], ["todowrite, todoread", "todowrite, todoread"]),
    label: "Protected tools",
    group: "What is condensed",
    help: "Tools whose output is never condensed and never sent to a summariser: names in any case, or globs (mcp__jira__*).",
  },
  stateTools: {
    kind: "list",
    default: STATE_TOOLS,
    presets: labelled([STATE_TOOLS.join(", "), "Default"], ["none", "None"]),
    label: "Tools that hold state",
    group: "What is condensed",
    help: "More protected tools: those whose output is small and dear to rebuild, such as answers of the user.",
  },
  listTools: {
    kind: "list",
    default: LIST_TOOLS,
    presets: labelled([LIST_TOOLS.join(", "), "Default"], ["none", "None"]),
    label: "Tools that return a whole list",
    group: "What is condensed",
    help: "More protected tools: of those that return their whole list each time, only the newest list stays.",
  },
  protectedPaths: {
    kind: "list",
    default: INSTRUCTION_FILES,
    presets: labelled(
      [INSTRUCTION_FILES.join(", "), "Instructions and skills (default)"],
      ["**/skills/**/*.md", "Skills"],
    ),
    label: "Protected paths",
    group: "What is condensed",
    help: "Globs of files whose content, when a tool returns it, is protected in the same way.",
  },
  "condenseArgs.enabled": {
    kind: "boolean",
    default: true,
    label: "Condense arguments",
    group: "What is condensed",
    help: "Replace long strings in the arguments of finished calls by markers, in place.",
  },
  "condenseArgs.minStringChars": {
    kind: "integer",
    default: 400,
    min: 100,
    max: 1_000_000,
    presets: labelled(["400", "400"], ["1000", "1,000"], ["4000", "4,000"]),
    label: "Shortest argument",
    group: "What is condensed",
    help: "Characters from which a string in the arguments is replaced.",
  },
  "purgeErrors.enabled": {
    kind: "boolean",
    default: true,
    label: "Purge failed calls",
    group: "What is condensed",
    help: "Do the same for failed calls, whose error text stays, once they are old enough.",
  },
  "purgeErrors.cooldownTurns": {
    kind: "integer",
    default: 2,
    min: 0,
    max: 1_000,
    presets: labelled(["0", "0"], ["2", "2"], ["5", "5"]),
    label: "Age of failed calls",
    group: "What is condensed",
    help: "User turns after which a failed call is old enough.",
  },
  "purgeErrors.minArgChars": {
    kind: "integer",
    default: 500,
    min: 100,
    max: 1_000_000,
    presets: labelled(["500", "500"], ["2000", "2,000"]),
    label: "Shortest argument of failed calls",
    group: "What is condensed",
    help: "Characters from which a string in the arguments of a failed call is replaced.",
  },
  recoveryGraceTurns: {
    kind: "integer",
    default: 3,
    min: 0,
    max: 1_000,
    presets: labelled(["1", "1"], ["3", "3"], ["10", "10"]),
    label: "Recovered output stays for",
    group: "What is condensed",
    help: "User turns for which output that the model asked back stays as it is.",
  },
  "turnProtection.enabled": {
    kind: "boolean",
    default: false,
    label: "Protect recent turns",
    group: "What is condensed",
    help: "Leave the output of the latest user turns alone.",
  },
  "turnProtection.turns": {
    kind: "integer",
    default: 4,
    min: 1,
    max: 1_000,
    presets: labelled(["1", "1"], ["4", "4"], ["10", "10"]),
    label: "Recent turns",
    group: "What is condensed",
    help: "How many of the latest user turns are left alone.",
  },
  protectTags: {
    kind: "boolean",
    default: false,
    label: "Protect tags",
    group: "What is condensed",
    help: "Text between <protect> and </protect> in a result survives its stub.",
  },
  maxImagesPerRequest: {
    kind: "optional-integer",
    default: null,
    min: 1,
    max: 1_000,
    presets: labelled(["off", "What the provider takes (default)"], ["20", "20"], ["100", "100"]),
    label: "Images in a request",
    group: "What is condensed",
    help: "Most images that a request carries; the oldest go first. Off means what the provider is known to take. A number holds also while the pruner is off.",
  },
  "chainCompression.enabled": {
    kind: "boolean",
    default: true,
    label: "Compress closed chains",
    group: "Chains",
    help: "Replace the tool turns of a closed chain (request, tool turns, closing reply) by one message.",
  },
  "chainCompression.rollingWindow": {
    kind: "integer",
    default: 3,
    min: 0,
    max: 1_000,
    presets: labelled(["1", "1"], ["3", "3"], ["5", "5"], ["10", "10"]),
    label: "Chains that stand as they are",
    group: "Chains",
    help: "Newest closed chains that are never compressed.",
  },
  "chainCompression.batchSize": {
    kind: "integer",
    default: 3,
    min: 0,
    max: 1_000,
    presets: labelled(["1", "1"], ["3", "3"], ["5", "5"], ["8", "8"]),
    label: "Chains compressed together",
    group: "Chains",
    help: "Chains that gather behind the window before they are compressed at once. Each time rewrites the cached prompt.",
  },
  "chainCompression.stripFinalAssistantThinking": {
    kind: "boolean",
    default: true,
    label: "Drop old thinking",
    group: "Chains",
    help: "The closing reply of a compressed chain loses its thinking.",
  },
  "chainCompression.fuseRangeSummary": {
    kind: "boolean",
    default: true,
    label: "Fuse summaries",
    group: "Chains",
    help: "One summariser call joins the summaries of a compressed chain that has two or more.",
  },
  spillThreshold: {
    kind: "integer",
    default: 65_536,
    min: 4_096,
    max: 1_000_000_000,
    presets: labelled(["16384", "16,384"], ["65536", "65,536"], ["262144", "262,144"], ["1000000", "1,000,000"]),
    label: "Oversized result",
    group: "Oversized output and budgets",
    help: "Characters from which a single result is written to a file at once and stands as a preview.",
  },
  spillPreviewBytes: {
    kind: "integer",
    default: 2_048,
    min: 0,
    max: 65_536,
    presets: labelled(["512", "512"], ["2048", "2,048"], ["8192", "8,192"]),
    label: "Preview",
    group: "Oversized output and budgets",
    help: "Bytes of such a result that stay in the context.",
  },
  autoBudgetThreshold: {
    kind: "fraction",
    default: null,
    presets: AUTO_BUDGET_PRESETS.map(({ value, label }) => ({ value: value === "0" ? "off" : value, label })),
    label: "Flush at a share of the window",
    group: "Oversized output and budgets",
    help: "Share of the context window (0.8 is 80%) from which everything finished is condensed, whatever pruneOn says.",
  },
  budgetTurnDelta: {
    kind: "fraction",
    default: null,
    presets: labelled(["off", "Off (default)"], ["0.1", "10%"], ["0.15", "15%"], ["0.25", "25%"]),
    label: "Flush after a jump",
    group: "Oversized output and budgets",
    help: "Share of the context window that one turn has to add for everything finished to be condensed.",
  },
  autoBudgetTokens: {
    kind: "optional-integer",
    default: null,
    min: 1_000,
    max: 100_000_000,
    presets: labelled(["off", "Off (default)"], ["100000", "100,000"], ["200000", "200,000"]),
    label: "Flush at a number of tokens",
    group: "Oversized output and budgets",
    help: "Tokens in the context from which everything finished is condensed, for very large windows.",
  },
  showPruneStatusLine: {
    kind: "boolean",
    default: true,
    label: "Status line",
    group: "What you see",
    help: "Show one short segment in pi's status line: what is condensed, and whether a flush is running.",
  },
  quietOversizedSkips: {
    kind: "boolean",
    default: false,
    label: "Silence unhelpful summaries",
    group: "What you see",
    help: "Reports leave out the results that a summary did not make shorter.",
  },
});

/** Every setting, in the order in which they are shown. */
export const SETTINGS: readonly Setting[] = SETTINGS_TABLE.settings;

/** What holds where nothing is configured. Deeply frozen. */
export const DEFAULT_CONFIG: ContextPruneConfig = SETTINGS_TABLE.defaults;

/** The setting of that exact (dotted) key. */
export function findSetting(key: string): Setting | undefined {
  return SETTINGS_TABLE.find(key);
}

/** See `SettingsTable.resolve`. A layer is the untrusted value of `contextPrune` in one settings file. */
export function resolveConfig(
  layers: readonly unknown[],
  sources?: readonly string[],
): ResolvedConfig<ContextPruneConfig> {
  return SETTINGS_TABLE.resolve(layers, sources);
}

/** See `SettingsTable.parse`. */
export function parseSetting(key: string, text: string): SettingResult {
  return SETTINGS_TABLE.parse(key, text);
}

/** See `SettingsTable.check`. */
export function checkSetting(key: string, value: unknown): SettingResult {
  return SETTINGS_TABLE.check(key, value);
}

/** See `SettingsTable.format`. */
export function formatSetting(key: string, value: SettingValue): string {
  return SETTINGS_TABLE.format(key, value);
}

/** Presets from their texts and labels. */
function labelled(...presets: [value: string, label: string][]): SettingPreset[] {
  return presets.map(([value, label]) => ({ value, label }));
}

/** Whether the text can name a summariser: model ids may hold slashes, colons and inner spaces. */
function isModelChoice(text: string): boolean {
  return text === "default" || text === "none" || /^[^\s/]+\/[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?$/u.test(text);
}
