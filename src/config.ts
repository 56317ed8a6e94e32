/**
 * The settings under `contextPrune`, as one declarative table.
 *
 * Loading, the settings overlay, `/pruner <key> <value>` and the generated documentation all read this table, so that a
 * setting is described in one place. A new setting is a field of `ContextPruneConfig` and a row here; the compiler asks
 * for the row. A nested group of the interface is addressed by dotted keys (`group.field`).
 */

import { FORMER_NAMES } from "./settings/former.js";
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
} from "./settings/rows.js";
import { defineSettings } from "./settings/table.js";
import { AUTO_BUDGET_PRESETS, type ContextPruneConfig } from "./types.js";

export type { Setting, SettingPreset, SettingValue } from "./settings/rows.js";

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
        "When finished tool output is replaced. Each time rewrites the cached prompt from the first change on.",
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
          default: "What pi sets for the model",
          off: "No thinking",
          minimal: "Very little",
          low: "Little",
          medium: "Some",
          high: "Much",
          xhigh: "As much as the model can",
        },
        "Summariser thinking",
        "How much the summariser thinks before it writes.",
      ),
      summarizerIdleTimeoutMs: integer(
        20_000,
        { min: 1_000, max: 600_000, presets: milliseconds("10 s", "20 s", "1 min", "3 min") },
        "Summariser idle limit",
        "Milliseconds without a sign of life after which a summariser call is given up. Raise it for slow local models.",
      ),
      summarizerMaxTimeoutMs: integer(
        180_000,
        { min: 1_000, max: 3_600_000, presets: milliseconds("1 min", "3 min", "10 min") },
        "Summariser time limit",
        "Milliseconds that one summariser call may take in all.",
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
        "Characters of tool output below which a batch is left as it is.",
      ),
      dedupByContentHash: onOff(
        true,
        "Merge duplicates",
        "Replace a tool result that duplicates an earlier one byte for byte by a pointer to it.",
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
        "More protected tools: of those that return their whole list each time, only the newest list stays.",
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
        "Characters from which a string in the arguments is replaced.",
      ),
      "purgeErrors.enabled": onOff(
        true,
        "Purge failed calls",
        "Do the same for failed calls, whose error text stays, once they are old enough.",
      ),
      "purgeErrors.cooldownTurns": integer(
        2,
        { max: 1_000, presets: [0, 2, 5] },
        "Age of failed calls",
        "User turns after which a failed call is old enough.",
      ),
      "purgeErrors.minArgChars": integer(
        500,
        { min: 100, max: 1_000_000, presets: [500, 2_000] },
        "Shortest argument of failed calls",
        "Characters from which a string in the arguments of a failed call is replaced.",
      ),
      workingSet: {
        ...optionalInteger(
          { min: 1, max: 1_000, off: "Off", presets: [8, 24, 64] },
          "Working set",
          "Requests for which results and arguments about an edited file stay after its last use; other results stay an eighth as long at most.",
        ),
        default: 24,
      },
      recoveryGraceTurns: integer(
        3,
        { max: 1_000, presets: [1, 3, 10] },
        "Recovered output stays for",
        "User turns for which output that the model asked back stays as it is.",
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
      protectTags: onOff(false, "Protect tags", "Text between <protect> and </protect> in a result survives its stub."),
      maxImagesPerRequest: optionalInteger(
        { min: 1, max: 1_000, presets: [20, 100], off: "What the provider takes (default)" },
        "Images in a request",
        "Most images that a request carries; the oldest go first. Off means what the provider is known to take. A number holds also while the pruner is off.",
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
        "Newest closed chains that are never compressed.",
      ),
      "chainCompression.batchSize": integer(
        3,
        { max: 1_000, presets: [1, 3, 5, 8] },
        "Chains compressed together",
        "Chains that gather behind the window before they are compressed at once. Each time rewrites the cached prompt.",
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
        "Characters from which a single result is written to a file at once and stands as a preview.",
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
        "Share of the context window (0.8 is 80%) from which everything finished is condensed, whatever pruneOn says.",
      ),
      budgetTurnDelta: fraction(
        [0.1, 0.15, 0.25],
        "Flush after a jump",
        "Share of the context window that one turn has to add for everything finished to be condensed.",
      ),
      autoBudgetTokens: optionalInteger(
        { min: 1_000, max: 100_000_000, presets: [100_000, 200_000] },
        "Flush at a number of tokens",
        "Tokens in the context from which everything finished is condensed, for very large windows.",
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
