/**
 * The settings under `contextPrune`, as one declarative table.
 *
 * Loading, the settings overlay, `/pruner <key> <value>` and the generated documentation all read this table, so that a
 * setting is described in one place. A new setting is a field of `ContextPruneConfig` and a row here; the compiler asks
 * for the row. A nested group of the interface is addressed by dotted keys (`group.field`).
 */

import { FORMER_NAMES } from "./settings/former.ts";
import {
  choice,
  fraction,
  integer,
  list,
  onOff,
  optionalInteger,
  type SettingKeyOf,
  section,
  text,
} from "./settings/rows.ts";
import { defineSettings } from "./settings/table.ts";
import { AUTO_BUDGET_PRESETS, type ContextPruneConfig } from "./types.ts";

export type { Setting, SettingPreset, SettingValue } from "./settings/rows.ts";

/** Name of the object in pi's `settings.json` that holds all of these settings. */
export const SETTINGS_ROOT = "contextPrune";

/** Key of a setting of this extension. */
export type SettingKey = SettingKeyOf<ContextPruneConfig>;

/** `auto`, `default`, `none` or `provider/model`: model ids may hold slashes, colons and inner spaces. */
const MODEL_CHOICE = /^(auto|default|none|[^\s/]+\/[^\s\p{Cc}]([^\p{Cc}]*[^\s\p{Cc}])?)$/u;

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
export const SETTINGS_TABLE = defineSettings<ContextPruneConfig>(
  SETTINGS_ROOT,
  {
    ...section("General", {
      enabled: onOff(
        true,
        "Condensing",
        "Condense finished tool output. Off sends the raw session from the next request on.",
      ),
      pruneOn: choice(
        "cache-aware",
        {
          "agent-message": "After each closing reply",
          "every-turn": "After every tool turn",
          "on-context-tag": "After a call of a context-tag tool",
          "on-demand": "Only on /pruner now",
          "cache-aware": "When it costs less than going on",
        },
        "When to condense",
        "When finished tool output is replaced. Each time, the prompt cache is rewritten from the first change on.",
      ),
      contextTagTools: list(
        ["context_tag"],
        ["context_tag"],
        "Context-tag tools",
        "Tools whose call ends a piece of work, for pruneOn on-context-tag.",
      ),
      batchingMode: choice(
        "turn",
        { turn: "One batch for each assistant turn", "agent-message": "One batch for each agent run" },
        "Batch",
        "How much tool output one summary covers. Larger batches take fewer summariser calls.",
      ),
    }),
    ...section("Summaries", {
      summarizerModel: text(
        "auto",
        {
          pattern: MODEL_CHOICE,
          expected:
            "auto (the session's model where it pays), default (the session's model), none (no model) or provider/model",
          presets: {
            auto: "Digests; the session's model where it pays",
            default: "The session's model",
            none: "No model: mechanical digests",
          },
        },
        "Summariser model",
        "What writes the summaries: auto (digests, and the session's model where it costs little), default, provider/model, or none.",
      ),
      summarizerThinking: choice(
        "default",
        {
          default: "None, or the model's least",
          off: "The same as default",
          minimal: "Minimal",
          low: "Low",
          medium: "Medium",
          high: "High",
          xhigh: "Extra high",
        },
        "Summariser thinking",
        "How much the summariser thinks before it writes. A model that always thinks gets its lowest level.",
      ),
      summarizerIdleTimeoutMs: integer(
        20_000,
        { min: 1_000, max: 600_000, presets: milliseconds("10 s", "20 s", "1 min", "3 min") },
        "Summariser idle limit",
        "A summariser call is ended after this many milliseconds without output. Raise it for slow local models.",
      ),
      summarizerMaxTimeoutMs: integer(
        180_000,
        { min: 1_000, max: 3_600_000, presets: milliseconds("1 min", "3 min", "10 min") },
        "Summariser time limit",
        "Milliseconds that one summariser call may take in total.",
      ),
      summarizerConcurrency: integer(
        2,
        { min: 1, max: 16, presets: [["1", "1 (local model)"], 2, 4] },
        "Summariser calls at once",
        "Summariser calls that may run at the same time.",
      ),
    }),
    ...section("What is condensed", {
      minBatchChars: integer(
        1_000,
        { max: 10_000_000, presets: [["0", "0 (condense everything)"], 1_000, 5_000, 20_000] },
        "Smallest batch",
        "A batch with fewer characters of tool output stays as it is.",
      ),
      dedupByContentHash: onOff(
        true,
        "Merge duplicates",
        "Replace a tool result by a pointer where an earlier one is the same, byte for byte.",
      ),
      protectedTools: list(
        [],
        [["none", "None (default)"], "todowrite, todoread"],
        "Protected tools",
        "Tools whose output is never condensed and never sent to a summariser: names in any case, or globs (mcp__jira__*).",
      ),
      stateTools: list(
        STATE_TOOLS,
        [
          [STATE_TOOLS.join(", "), "Default"],
          ["none", "None"],
        ],
        "Tools that hold state",
        "More protected tools: those whose output is small and hard to get again, such as answers of the user.",
      ),
      listTools: list(
        LIST_TOOLS,
        [
          [LIST_TOOLS.join(", "), "Default"],
          ["none", "None"],
        ],
        "Tools that return a whole list",
        "More protected tools: those that return their whole list each time. Only the newest list stays.",
      ),
      protectedPaths: list(
        INSTRUCTION_FILES,
        [
          [INSTRUCTION_FILES.join(", "), "Instructions and skills (default)"],
          ["**/skills/**/*.md", "Skills"],
        ],
        "Protected paths",
        "Globs of files whose content, when a tool returns it, is protected in the same way.",
      ),
      "condenseArgs.enabled": onOff(
        true,
        "Condense arguments",
        "Replace long strings in the arguments of finished calls by markers, in place.",
      ),
      "condenseArgs.minStringChars": integer(
        400,
        { min: 100, max: 1_000_000, presets: [400, 1_000, 4_000] },
        "Shortest argument",
        "A string in the arguments is replaced from this many characters on.",
      ),
      "purgeErrors.enabled": onOff(
        true,
        "Purge failed calls",
        "Do the same for failed calls once they are old enough. Their error text stays.",
      ),
      "purgeErrors.cooldownTurns": integer(
        2,
        { max: 1_000, presets: [0, 2, 5] },
        "Age of failed calls",
        "A failed call is old enough after this many user turns.",
      ),
      "purgeErrors.minArgChars": integer(
        500,
        { min: 100, max: 1_000_000, presets: [500, 2_000] },
        "Shortest argument of failed calls",
        "A string in the arguments of a failed call is replaced from this many characters on.",
      ),
      workingSet: {
        ...optionalInteger(
          { min: 1, max: 1_000, off: "Off", presets: [8, 24, 64] },
          "Working set",
          "Results and arguments about an edited file stay for this many requests after its last use. Other results stay an eighth as long at most.",
        ),
        default: 24,
      },
      recoveryGraceTurns: integer(
        3,
        { max: 1_000, presets: [1, 3, 10] },
        "Recovered output stays for",
        "Output that the model asked back stays as it is for this many user turns.",
      ),
      "turnProtection.enabled": onOff(
        false,
        "Protect recent turns",
        "Leave the output of the latest user turns alone.",
      ),
      "turnProtection.turns": integer(
        4,
        { min: 1, max: 1_000, presets: [1, 4, 10] },
        "Recent turns",
        "How many of the latest user turns are left alone.",
      ),
      protectTags: onOff(
        false,
        "Protect tags",
        "Text between <protect> and </protect> stays when its result is condensed.",
      ),
      maxImagesPerRequest: optionalInteger(
        { min: 1, max: 1_000, presets: [20, 100], off: "What the provider takes (default)" },
        "Images in a request",
        "The most images that a request carries. The oldest are left out first. Off means the provider's known limit. A number also holds while the pruner is off.",
      ),
    }),
    ...section("Chains", {
      "chainCompression.enabled": onOff(
        true,
        "Compress closed chains",
        "Replace the tool turns of a closed chain (request, tool turns, closing reply) by one message.",
      ),
      "chainCompression.rollingWindow": integer(
        3,
        { max: 1_000, presets: [1, 3, 5, 10] },
        "Chains that stand as they are",
        "This many of the newest closed chains are never compressed.",
      ),
      "chainCompression.batchSize": integer(
        3,
        { max: 1_000, presets: [1, 3, 5, 8] },
        "Chains compressed together",
        "Older chains are compressed once there are this many. Each time, the prompt cache is rewritten from there on.",
      ),
      "chainCompression.stripFinalAssistantThinking": onOff(
        true,
        "Drop old thinking",
        "The closing reply of a compressed chain loses its thinking.",
      ),
      "chainCompression.fuseRangeSummary": onOff(
        true,
        "Fuse summaries",
        "One summariser call joins the summaries of a compressed chain that has two or more.",
      ),
    }),
    ...section("Spilled output and budgets", {
      spillThreshold: integer(
        65_536,
        { min: 4_096, max: 1_000_000_000, presets: [16_384, 65_536, 262_144, 1_000_000] },
        "Spill from",
        "A single result of this many characters is written to a file at once. A preview of it stays.",
      ),
      spillPreviewBytes: integer(
        2_048,
        { max: 65_536, presets: [512, 2_048, 8_192] },
        "Preview",
        "Bytes of a spilled result that stay in the context.",
      ),
      autoBudgetThreshold: fraction(
        AUTO_BUDGET_PRESETS.map(({ value }) => Number(value)).filter((share) => share > 0),
        "Flush at a share of the window",
        "At this share of the context window (0.8 is 80%) everything finished is condensed, whatever pruneOn says.",
      ),
      budgetTurnDelta: fraction(
        [0.1, 0.15, 0.25],
        "Flush after a jump",
        "Everything finished is condensed after a turn that adds this share of the context window.",
      ),
      autoBudgetTokens: optionalInteger(
        { min: 1_000, max: 100_000_000, presets: [100_000, 200_000] },
        "Flush at a number of tokens",
        "At this many tokens in the context everything finished is condensed. Meant for very large windows.",
      ),
    }),
    ...section("What you see", {
      showPruneStatusLine: onOff(
        true,
        "Status line",
        "Show one short segment in pi's status line: what is condensed, and whether a flush is running.",
      ),
      quietOversizedSkips: onOff(
        false,
        "Silence unhelpful summaries",
        "Reports leave out the results that a summary did not make shorter.",
      ),
    }),
  },
  FORMER_NAMES,
);

/** Every setting, in the order in which they are shown; and what holds where nothing is configured, deeply frozen. */
export const { settings: SETTINGS, defaults: DEFAULT_CONFIG } = SETTINGS_TABLE;

export const {
  find: findSetting,
  present: presentKey,
  resolve: resolveConfig,
  parse: parseSetting,
  check: checkSetting,
  format: formatSetting,
  read: settingValue,
  changes: changedSettings,
} = SETTINGS_TABLE;

/** Presets of a time limit, by their labels: `10 s`, `3 min`. */
function milliseconds(...labels: string[]): [value: string, label: string][] {
  return labels.map((label) => {
    const unit = label.endsWith("min") ? 60_000 : 1_000;
    return [String(Number.parseInt(label, 10) * unit), label];
  });
}
